// Edits and the texts they make. Knows no page: everything here is a function of a film.
// Offsets count UTF-16 units. A unit of text has an identity of its own, a number that stays with
// it while others come and go around it, so we can say when it was written and whether it will last.

export const KEYFRAME = 256;
export const PIECE = 16;

/** The state after an edit; `ids` are the identities of the units put in. */
export function apply(state, edit, ids) {
  const { offset, removed, inserted, cursor } = edit;
  const end = offset + removed.length;
  return {
    text: state.text.slice(0, offset) + inserted + state.text.slice(end),
    ids: spliced(state.ids, offset, end, ids),
    cursor,
  };
}

/** The edit that undoes another; `cursor` is where the cursor was before it. */
export function inverse(edit, cursor) {
  return { offset: edit.offset, removed: edit.inserted, inserted: edit.removed, cursor };
}

function spliced(ids, start, end, put) {
  const after = new Int32Array(ids.length - (end - start) + put.length);
  after.set(ids.subarray(0, start));
  after.set(put, start);
  after.set(ids.subarray(end), start + put.length);
  return after;
}

function range(start, count) {
  return Int32Array.from({ length: count }, (_, n) => start + n);
}

/** The steps of a film, whose columns are shorter than a record for each. */
export function* steps(film) {
  const given = new Set(film.given);
  for (let n = 0; n < film.offset.length; n++) {
    yield {
      edit: {
        offset: film.offset[n],
        removed: film.removed[n],
        inserted: film.inserted[n],
        cursor: film.cursors[n],
      },
      word: film.words[film.action[n]],
      logprob: film.logprob[n],
      isGiven: given.has(n),
      found: film.found[n],
    };
  }
}

/** A text and its steps, which can be asked for its state at any of them. Step 0 is before the
 *  first action. It may grow, and nothing that it said of a step changes by that. */
export class Reel {
  constructor({ name = "", text, cursor, facts = [] }, some = []) {
    this.name = name;
    this.facts = facts;
    this.isDone = true; // false while more steps are to come
    this.steps = [];
    this.opening = 0; // steps at the start that nobody chose: it opens behind them
    this.cursors = [cursor];
    this.sizes = [text.length];
    this.starts = []; // the first identity that each step gives out
    this.written = new Array(text.length).fill(-1); // identity -> the step that wrote it
    this.lost = new Map(); // step -> identities it took away, to bring them back
    this.last = { text, ids: range(0, text.length), cursor };
    this.keyframes = [this.last];
    this.places = null; // identity -> where it is in the last text; made when it is asked for
    this.now = { step: 0, state: this.last };
    for (const step of some) this.append(step);
  }

  get length() {
    return this.steps.length;
  }

  /** Take one more step: {edit, word, logprob, isGiven}, and in a search where it leads, `found`. */
  append(step) {
    const n = this.length;
    const { edit } = step;
    const { offset, removed, inserted, cursor } = edit;
    if (removed) this.lost.set(n, this.last.ids.slice(offset, offset + removed.length));
    this.last = apply(this.last, edit, range(this.written.length, inserted.length));
    this.starts.push(this.written.length);
    for (let unit = 0; unit < inserted.length; unit++) this.written.push(n);
    this.steps.push(step.found ? { ...step, sought: this.last.text.slice(...step.found) } : step);
    this.cursors.push(cursor);
    this.sizes.push(this.last.text.length);
    this.places = null;
    if (step.isGiven && this.opening === n) this.opening++;
    if (this.length % KEYFRAME === 0) this.keyframes.push(this.last);
  }

  /** The state after `step` actions, from wherever is nearest: here, a keyframe or the end. */
  at(step) {
    const frame = Math.min(Math.floor(step / KEYFRAME), this.keyframes.length - 1);
    let { step: here, state } = step === this.length ? { step, state: this.last } : this.now;
    if (Math.abs(step - here) > Math.abs(step - frame * KEYFRAME)) {
      [here, state] = [frame * KEYFRAME, this.keyframes[frame]];
    }
    for (; here < step; here++) {
      const { edit } = this.steps[here];
      state = apply(state, edit, range(this.starts[here], edit.inserted.length));
    }
    for (; here > step; here--) {
      const undo = inverse(this.steps[here - 1].edit, this.cursors[here - 1]);
      state = apply(state, undo, this.lost.get(here - 1) ?? range(0, 0));
    }
    this.now = { step, state };
    return state;
  }

  /** What is still to be written: pieces of the last text, each with its place in this one.
   *  Edits never change the order of units that stay, so both texts are walked side by side. */
  toCome(state) {
    const places = (this.places ??= this.placed());
    const pieces = [];
    let written = 0;
    state.ids.forEach((id, n) => {
      const place = places[id];
      if (place < 0) return; // it will be taken away again
      if (place > written) pieces.push({ at: n, text: this.last.text.slice(written, place) });
      written = place + 1;
    });
    const rest = this.last.text.slice(written);
    if (rest) pieces.push({ at: state.text.length, text: rest });
    return pieces;
  }

  placed() {
    const places = new Int32Array(this.written.length).fill(-1);
    this.last.ids.forEach((id, n) => { places[id] = n; });
    return places;
  }
}

/** The text cut where its look changes: `look(id)` is what a unit looks like, `cuts` are forced.
 *  Some spaces, by their identity, begin a piece too, so that most pieces stay while one changes. */
export function runs(state, look, cuts) {
  const { text, ids } = state;
  const found = [];
  let start = 0;
  let looks = ids.length ? look(ids[0]) : "";
  for (let n = 1; n <= ids.length; n++) {
    const next = n < ids.length ? look(ids[n]) : null;
    if (next !== looks || cuts.has(n) || (text[n] === " " && ids[n] % PIECE === 0)) {
      found.push({ start, text: text.slice(start, n), looks });
      start = n;
      looks = next;
    }
  }
  return found;
}

const MARKS = { "\n": "\u21b5", "\t": "\u21e5", "\r": "\u240d" };
const HIDDEN = /[\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u200b\u200e\u200f\u2028-\u202f\u2060-\u206f\ufeff]/g;
const JOINERS = /^[\u200c\u200d\ufe0e\ufe0f]+$/; // between others they have a use

/** A text on one line, with what would hide or turn the reading order spelt out. */
export function visible(text) {
  return text.replace(JOINERS.test(text) ? /./g : HIDDEN, (char) => MARKS[char]
    ?? `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** How many characters a text has; two units may make one. */
export function characters(text) {
  let count = 0;
  for (let n = 0; n < text.length; n++) count += (text.charCodeAt(n) & 0xfc00) !== 0xdc00;
  return count;
}

/** A place in the page's address: `#rollout=2&step=37`, both told from 1 and 0. */
export function readPlace(hash, count) {
  const told = new URLSearchParams(hash.replace(/^#/, ""));
  const number = (name) => (/^\d{1,9}$/.test(told.get(name) ?? "") ? Number(told.get(name)) : null);
  const film = (name) => {
    const n = number(name);
    return n !== null && n >= 1 && n <= count ? n - 1 : null;
  };
  return { film: film("rollout"), beside: film("beside"), step: number("step") };
}

export function writePlace({ film, beside, step }) {
  const other = beside === null ? "" : `&beside=${beside + 1}`;
  return `#rollout=${film + 1}${other}&step=${step}`;
}
