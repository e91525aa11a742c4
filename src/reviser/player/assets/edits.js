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

/** A film that can be asked for its state at any step. Step 0 is before the first action. */
export class Reel {
  constructor(film) {
    this.film = film;
    this.length = film.offset.length;
    this.words = film.action.map((n) => film.words[n]);
    this.isGiven = new Uint8Array(this.length);
    for (const n of film.given) this.isGiven[n] = 1;
    /** Steps at the start that nobody chose: the film opens behind them. */
    this.opening = this.isGiven.indexOf(0) < 0 ? this.length : this.isGiven.indexOf(0);
    this.cursors = Int32Array.from([film.cursor, ...film.cursors]);
    this.sizes = new Int32Array(this.length + 1);
    this.starts = new Int32Array(this.length + 1); // the first identity that each step gives out
    this.lost = new Map(); // step -> identities it took away, to bring them back
    this.keyframes = [];
    this.run();
  }

  edit(step) {
    const film = this.film;
    return {
      offset: film.offset[step],
      removed: film.removed[step],
      inserted: film.inserted[step],
      cursor: film.cursors[step],
    };
  }

  /** Go through it once, keeping a state every so often. */
  run() {
    const { text, cursor } = this.film;
    let state = { text, ids: range(0, text.length), cursor };
    let next = text.length;
    this.sizes[0] = text.length;
    for (let step = 0; step < this.length; step++) {
      if (step % KEYFRAME === 0) this.keyframes.push(state);
      const edit = this.edit(step);
      const { offset, removed, inserted } = edit;
      this.starts[step] = next;
      if (removed) this.lost.set(step, state.ids.slice(offset, offset + removed.length));
      state = apply(state, edit, range(next, inserted.length));
      next += inserted.length;
      this.sizes[step + 1] = state.text.length;
    }
    this.starts[this.length] = next;
    this.last = state;
    this.written = new Int32Array(next).fill(-1); // identity -> the step that wrote it
    for (let step = 0; step < this.length; step++) {
      this.written.fill(step, this.starts[step], this.starts[step + 1]);
    }
    this.place = new Int32Array(next).fill(-1); // identity -> where it ends up
    state.ids.forEach((id, n) => { this.place[id] = n; });
    this.now = { step: 0, state: this.keyframes[0] ?? state };
  }

  /** The state after `step` actions, from wherever is nearest: here or a keyframe. */
  at(step) {
    const frame = Math.min(Math.floor(step / KEYFRAME), this.keyframes.length - 1);
    let { step: here, state } = this.now;
    if (frame >= 0 && Math.abs(step - here) > Math.abs(step - frame * KEYFRAME)) {
      [here, state] = [frame * KEYFRAME, this.keyframes[frame]];
    }
    for (; here < step; here++) {
      const edit = this.edit(here);
      state = apply(state, edit, range(this.starts[here], edit.inserted.length));
    }
    for (; here > step; here--) {
      const undo = inverse(this.edit(here - 1), this.cursors[here - 1]);
      state = apply(state, undo, this.lost.get(here - 1) ?? range(0, 0));
    }
    this.now = { step, state };
    return state;
  }

  /** What is still to be written: pieces of the last text, each with its place in this one.
   *  Edits never change the order of units that stay, so both texts are walked side by side. */
  toCome(state) {
    const pieces = [];
    let written = 0;
    state.ids.forEach((id, n) => {
      const place = this.place[id];
      if (place < 0) return; // it will be taken away again
      if (place > written) pieces.push({ at: n, text: this.last.text.slice(written, place) });
      written = place + 1;
    });
    const rest = this.last.text.slice(written);
    if (rest) pieces.push({ at: state.text.length, text: rest });
    return pieces;
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
