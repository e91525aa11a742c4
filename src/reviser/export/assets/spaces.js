import { TextStream } from "./text_stream.js";

// Spaces before gaps: typed by the user, but written by the model with the word that follows.
// Mirrors reviser/writing/_spaces.py.

/** The visible text of a canvas that lacks the spaces before its gaps; `starts` are the boundaries
 *  where one is missing, in order. */
export class SpacedStream {
  constructor(codec, tokens, starts) {
    this.space = codec.space;
    this.tokenBytes = codec.tokenBytes;
    this.starts = [...starts];
    this.fills = starts.map(() => []);
    const shown = [...tokens];
    for (const start of [...starts].reverse()) shown.splice(start, 0, this.space);
    this.stream = new TextStream(codec.tokenBytes, shown);
  }

  get text() {
    return this.stream.text;
  }

  /** Take an edit of the canvas and return the edit of the text. */
  feed(edit) {
    const isChange = edit.removed.length > 0 || edit.inserted.length > 0;
    const gap = isChange ? this.gapAt(edit.position) : -1;
    const start = this.shown(edit.position, gap);
    const wasMissing = this.isMissing(gap);
    this.apply(edit, gap);
    const isMissing = this.isMissing(gap);
    // The user's space goes when the fill brings its own, and comes back when that is gone.
    const comes = isMissing && !wasMissing;
    const goes = wasMissing && !isMissing;
    let made = this.stream.feed({
      position: start + (wasMissing && isMissing),
      removed: goes ? [this.space, ...edit.removed] : edit.removed,
      inserted: comes ? [this.space, ...edit.inserted] : edit.inserted,
      cursorBefore: start,
      cursor: this.shown(edit.cursor),
    });
    if (comes || goes) {
      // For a reader it is the same space, so the edit begins after it. Where one side of the edit
      // is empty, the other ends with a space: that of the word which follows.
      made = {
        ...made,
        offset: made.offset + 1,
        removed: made.removed.slice(1) + (made.inserted ? "" : " "),
        inserted: made.inserted.slice(1) + (made.removed ? "" : " "),
      };
    }
    return { ...made, cursor: made.cursor + this.isBeforeOwnSpace(edit.cursor) };
  }

  apply({ position, removed, inserted }, gap) {
    const growth = inserted.length - removed.length;
    if (gap >= 0) this.fills[gap].splice(position - this.starts[gap], removed.length, ...inserted);
    this.starts = this.starts.map((start) => (start > position ? start + growth : start));
  }

  /** Return the number of the gap at a boundary; -1 for a gap without a space before it. */
  gapAt(position) {
    return this.starts.findIndex(
      (start, n) => start <= position && position <= start + this.fills[n].length,
    );
  }

  isMissing(gap) {
    return gap >= 0 && !this.beginsWithSpace(this.fills[gap]);
  }

  beginsWithSpace(fill) {
    return fill.length > 0 && this.tokenBytes[fill[0]][0] === 0x20;
  }

  /** Return whether a boundary is where a fill begins that has brought its own space. */
  isBeforeOwnSpace(position) {
    return this.starts.some((start, n) => start === position && this.beginsWithSpace(this.fills[n]));
  }

  /** Return a boundary of the canvas as one of the visible tokens, after a gap's space. */
  shown(position, but = -1) {
    const missing = this.starts.filter(
      (start, n) => start <= position && n !== but && this.isMissing(n),
    );
    return position + missing.length;
  }
}
