// Locked spans of a text: pairs [start, end] of UTF-16 units, in order, never touching each other.
// Knows no page. Every function returns new spans and leaves the old ones as they are.

/** Add a span; spans that touch become one. */
export function lock(locks, start, end) {
  if (start >= end) return locks;
  const apart = locks.filter(([low, high]) => high < start || low > end);
  const joined = locks.filter(([low, high]) => high >= start && low <= end);
  const low = Math.min(start, ...joined.map((each) => each[0]));
  const high = Math.max(end, ...joined.map((each) => each[1]));
  return [...apart, [low, high]].sort((one, other) => one[0] - other[0]);
}

/** Remove a span. */
export function unlock(locks, start, end) {
  if (start >= end) return locks;
  return locks
    .flatMap(([low, high]) => [[low, Math.min(high, start)], [Math.max(low, end), high]])
    .filter(([low, high]) => low < high);
}

/** Return whether everything between two positions is locked. */
export function isLocked(locks, start, end) {
  return locks.some(([low, high]) => low <= start && end <= high);
}

/** Return the editable spans: those before, between and after the locks. */
export function open(locks, length) {
  const edges = [0, ...locks.flat(), length];
  const spans = [];
  for (let n = 0; n < edges.length; n += 2) spans.push([edges[n], edges[n + 1]]);
  return spans.filter(([start, end]) => start < end);
}

/** Move the locks along with an edit that replaced start..end by `size` units.
 *
 *  Within an editable span this mirrors `shift_gaps` in reviser/core/mask.py, which moves the gaps
 *  between the locks; tests/serve/test_locks.py compares the two. The browser needs its own, since a
 *  person also types inside a lock: what is typed there is locked with it; what is typed at its edge,
 *  or over it, is editable. */
export function follow(locks, { start, end, size }) {
  const growth = size - (end - start);
  return locks
    .map(([low, high]) => [
      low < start ? low : low < end ? start + size : low + growth,
      high <= start ? high : high <= end ? start : high + growth,
    ])
    .reduce((all, [low, high]) => lock(all, low, high), []); // the span between two may be gone
}

/** Find the edit between two texts, given the caret, which is after the inserted text. */
export function change(before, after, caret) {
  let tail = 0;
  const longest = Math.min(before.length, after.length - caret);
  while (tail < longest && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  let start = 0;
  const shared = Math.min(before.length, after.length) - tail;
  while (start < shared && before[start] === after[start]) start++;
  if (isInside(before, start) || isInside(after, start)) start--;
  if (isInside(before, before.length - tail) || isInside(after, after.length - tail)) tail--;
  return { start, end: before.length - tail, size: after.length - tail - start };
}

/** Return whether a position is between the two units of one character. */
function isInside(text, at) {
  return /[\ud800-\udbff]/.test(text[at - 1] ?? "") && /[\udc00-\udfff]/.test(text[at] ?? "");
}
