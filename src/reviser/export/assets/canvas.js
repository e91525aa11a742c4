import { Kind } from "./vocab.js";

// The canvas: tokens, a cursor between them, and marks. The only code where an action changes
// content. Mirrors reviser/core/canvas.py. It knows no text and no locks.

/** Tokens and a cursor, changed one action id at a time. */
export class Canvas {
  constructor(vocab) {
    this.vocab = vocab;
    this.tokens = [];
    this.cursor = 0;
    this.marks = []; // marked boundaries, from left to right
    this.isFinished = false;
  }

  /** Return the canvas that a history makes of a blank one. */
  static replay(vocab, history) {
    const canvas = new Canvas(vocab);
    for (const id of history) canvas.apply(id);
    return canvas;
  }

  /** Apply one id; return its edit: `inserted` tokens in place of `removed` ones at `position`. */
  apply(id) {
    if (this.isFinished) throw new Error("The text is finished; nothing can follow STOP.");
    const kind = this.vocab.kind(id);
    const before = this.cursor;
    const edit = { position: before, removed: [], inserted: [], cursorBefore: before, cursor: before };
    if (kind === Kind.INSERT || kind === Kind.PREFIX_ONLY) {
      this.tokens.splice(before, 0, id);
      this.marks = this.marks.map((mark) => (mark <= before ? mark : mark + 1));
      edit.inserted = [id];
      edit.cursor = before + 1;
    } else if (kind === Kind.MOVE) {
      edit.cursor = before + this.vocab.delta(id);
      if (edit.cursor < 0 || edit.cursor > this.tokens.length) {
        throw new Error(`A move from ${before} would land at ${edit.cursor}.`);
      }
    } else if (kind === Kind.TO_MARK) {
      if (this.marks.length === 0) throw new Error("There is no mark to go back to.");
      [edit.cursor, ...this.marks] = this.marks;
    } else if (kind === Kind.MARK) {
      if (this.marks.includes(before)) throw new Error("There is a mark at the cursor already.");
      this.marks = [...this.marks, before].sort((a, b) => a - b);
    } else if (kind === Kind.STOP) {
      this.isFinished = true;
    } else if (kind !== Kind.SEPARATOR) {
      throw new Error(`Id ${id} is not an action.`);
    }
    this.cursor = edit.cursor;
    return edit;
  }
}
