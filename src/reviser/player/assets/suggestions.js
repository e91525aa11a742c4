// Suggestions for a text that its user goes on editing, and how to write them down. Knows no page.
// A suggestion is {start, before, after, certainty, state, ...}; `start` counts UTF-16 units of the
// text as it is now, in which an accepted one shows `after` and any other shows `before`.

export const PENDING = "pending";
export const ACCEPTED = "accepted";
export const REJECTED = "rejected";

const DELIMITERS = /\{\+\+|\+\+\}|\{--|--\}|\{~~|~>|~~\}|\{==|==\}|\{>>|<<\}/;
const SENTENCE_END = /[.!?]["')\]\u201d\u2019]*\s|\n/g;

export const endOf = ({ start, state, before, after }) =>
  start + (state === ACCEPTED ? after : before).length;

/** Move suggestions along with an edit that replaced start..end by `size` units and gave `text`.
 *
 *  The edit removes the suggestions that it touches and the pending ones of the same sentence, which
 *  were made for another sentence. */
export function follow(suggestions, { start, end, size }, text) {
  const growth = size - (end - start);
  const [from, to] = sentenceAround(text, start, start + size);
  return suggestions.flatMap((each) => {
    const last = endOf(each);
    if (start < last && each.start < end) return []; // an insertion inside of it, too
    const moved = end <= each.start ? { ...each, start: each.start + growth } : each;
    const isStale = moved.state !== ACCEPTED && moved.start <= to && endOf(moved) >= from;
    return isStale ? [] : [moved];
  });
}

/** Add later suggestions for the same draft, except where one is already. A later one that is at least
 *  `least` certain takes the place of a pending one inside of it: “they don't” of “doesn't”. `at` is the
 *  start of a suggestion in the draft, `start` in the text as it is now. */
export function merged(before, later, least = 0) {
  const isInside = (one, other) => other.certainty >= least && other.before.length > one.before.length
    && other.at <= one.at && one.at + one.before.length <= other.at + other.before.length;
  const all = before.filter((each) => each.state !== PENDING || !later.some((other) => isInside(each, other)));
  const meets = (one, other) => one.at <= other.at + other.before.length && other.at <= one.at + one.before.length;
  const growthBefore = (at) => all
    .filter((each) => each.state === ACCEPTED && each.at < at)
    .reduce((sum, { before, after }) => sum + after.length - before.length, 0);
  const fresh = later.filter((each) => !all.some((other) => meets(each, other)));
  const moved = fresh.map((each) => ({ ...each, start: each.at + growthBefore(each.at) }));
  return [...all, ...moved].sort((one, other) => one.start - other.start);
}

const LETTER = /^[\p{L}\p{N}]$/u;
const WORD = /^[\p{L}\p{N}_]+(?:[-'\u2019][\p{L}\p{N}_]+)*$/u;

/** Return a suggestion as people read it: from “teh” to “the”, not from “eh” to “he”. */
export function wholeWords(text, { start, before, after }) {
  let [from, to] = [start, start + before.length];
  const ends = [before, after].filter(Boolean);
  const isInWord = (at) => !before || ends.some((each) => LETTER.test(each.at(at)));
  if (isInWord(0)) while (from > 0 && LETTER.test(text[from - 1])) from--;
  if (isInWord(-1)) while (to < text.length && LETTER.test(text[to])) to++;
  const [head, tail] = [text.slice(from, start), text.slice(start + before.length, to)];
  return { start: from, end: to, before: text.slice(from, to), after: head + after + tail };
}

/** Return the one word that a suggestion replaces, which a dictionary could hold; else nothing. */
export function wordOf(text, suggestion) {
  const word = wholeWords(text, suggestion).before.trim();
  return WORD.test(word) ? word : "";
}

/** Return the bounds of the sentences that hold start..end, without the white space after them. */
function sentenceAround(text, start, end) {
  let [from, to] = [0, text.length];
  for (const { index, 0: { length } } of text.matchAll(SENTENCE_END)) {
    if (index + length <= start) from = index + length;
    else if (index + length > end) {
      to = index;
      break;
    }
  }
  return [from, to];
}

/** Find the edit between two texts, given the caret, which is after the inserted text. */
export function editBetween(before, after, caret) {
  let tail = 0;
  const longest = Math.min(before.length, after.length - caret);
  while (tail < longest && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  let start = 0;
  const shared = Math.min(before.length, after.length) - tail;
  while (start < shared && before[start] === after[start]) start++;
  return { start, end: before.length - tail, size: after.length - tail - start };
}

// -- formats: as `Changes.criticmarkup` and `Changes.unified` in reviser/writing/changes.py write them, which
// the tests compare. They are here, and not a request to the server, because only the page knows what
// is accepted, and because a browser lets a page copy only at once after a click.

/** Return the text before any suggestion was accepted, and the changes that some of them make to it. */
export function revisionOf(text, suggestions) {
  let draft = "";
  let done = 0;
  const changes = suggestions.map((each) => {
    draft += text.slice(done, each.start);
    done = endOf(each);
    const start = draft.length;
    draft += each.before;
    return { start, end: draft.length, before: each.before, after: each.after };
  });
  return { draft: draft + text.slice(done), changes };
}

/** Return a draft with its changes in CriticMarkup. */
export function criticmarkup({ draft, changes }) {
  const found = [draft, ...changes.map(({ after }) => after)].join("\n").match(DELIMITERS);
  if (found) {
    throw new Error(`A text with “${found[0]}” cannot be written in CriticMarkup, which has no escape for it. Copy a diff instead.`);
  }
  return rendered(draft, changes, ({ before, after }) => {
    if (!before) return `{++${after}++}`;
    return after ? `{~~${before}~>${after}~~}` : `{--${before}--}`;
  });
}

/** Return a unified diff with three lines of context; empty without changes. */
export function unified({ draft, changes }, name = "draft") {
  const lines = linesOf(draft);
  const ends = [];
  for (const line of lines) ends.push((ends.at(-1) ?? 0) + line.length);
  /** The line with a unit; what follows the last line feed is a line, too. */
  const lineAt = (unit) => {
    const found = ends.findIndex((end) => unit < end);
    return found < 0 ? Math.max(0, lines.length - (draft.endsWith("\n") ? 0 : 1)) : found;
  };
  const blocks = []; // lines that change: [first, last + 1, changes]
  for (const change of changes) {
    const [first, last] = [lineAt(change.start), lineAt(change.end) + 1];
    if (blocks.length && first <= blocks.at(-1)[1]) {
      blocks.at(-1)[1] = Math.max(last, blocks.at(-1)[1]);
      blocks.at(-1)[2].push(change);
    } else blocks.push([first, last, [change]]);
  }
  const parts = blocks.map(([first, last, inside]) => {
    const from = ends[first - 1] ?? 0;
    const moved = inside.map((each) => ({ ...each, start: each.start - from, end: each.end - from }));
    const old = lines.slice(first, last);
    return trimmed(first, old, linesOf(rendered(old.join(""), moved, ({ after }) => after)));
  }).filter(({ old, fresh }) => old.length + fresh.length > 0);
  const hunks = [];
  for (const part of parts) {
    const previous = hunks.at(-1)?.at(-1);
    if (previous && part.at - (previous.at + previous.old.length) <= 6) hunks.at(-1).push(part);
    else hunks.push([part]);
  }
  let growth = 0;
  const written = hunks.map((hunk) => {
    const start = Math.max(0, hunk[0].at - 3);
    const end = Math.min(lines.length, hunk.at(-1).at + hunk.at(-1).old.length + 3);
    const body = [];
    let at = start;
    const startBefore = growth;
    for (const part of hunk) {
      body.push(...lines.slice(at, part.at).map((line) => ` ${line}`));
      body.push(...part.old.map((line) => `-${line}`), ...part.fresh.map((line) => `+${line}`));
      at = part.at + part.old.length;
      growth += part.fresh.length - part.old.length;
    }
    body.push(...lines.slice(at, end).map((line) => ` ${line}`));
    const count = end - start;
    const head = `@@ -${range(start, count)} +${range(start + startBefore, count + growth - startBefore)} @@\n`;
    return head + body.map((line) => (line.endsWith("\n") ? line : `${line}\n\\ No newline at end of file\n`)).join("");
  });
  return written.length ? `--- ${name}\n+++ ${name}\n${written.join("")}` : "";
}

function rendered(draft, changes, show) {
  let text = "";
  let done = 0;
  for (const change of changes) {
    text += draft.slice(done, change.start) + show(change);
    done = change.end;
  }
  return text + draft.slice(done);
}

const linesOf = (text) => text.match(/[^\n]*\n|[^\n]+/g) ?? [];

/** Return a part of a diff without the equal lines at its ends. */
function trimmed(at, old, fresh) {
  let [start, end] = [0, 0];
  const most = Math.min(old.length, fresh.length);
  while (start < most && old[start] === fresh[start]) start++;
  while (end < most - start && old.at(-1 - end) === fresh.at(-1 - end)) end++;
  return { at: at + start, old: old.slice(start, old.length - end), fresh: fresh.slice(start, fresh.length - end) };
}

/** Return a range of lines as a diff's head has it. */
function range(start, count) {
  return count === 1 ? `${start + 1}` : `${count ? start + 1 : start},${count}`;
}
