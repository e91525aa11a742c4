import { Kind } from "./vocab.js";

// The validity mask of one text: which actions are allowed next. Mirrors reviser/core/mask.py.
// It needs boundaries, not content: length, cursor, editable ranges, marks and limits.

/** What decides which actions are allowed. An editable range [low, high] is a pair of
 *  boundaries between which tokens may be inserted; text outside every range is locked. */
export class ActionMask {
  constructor(vocab, { length, cursor, editable, marks = [], maxLength, maxEdits, maxMoves }) {
    this.vocab = vocab;
    this.length = length;
    this.cursor = cursor;
    this.editable = editable.map(([low, high]) => [low, high]);
    this.marks = [...marks];
    this.maxLength = maxLength ?? Infinity;
    this.editsLeft = maxEdits ?? Infinity;
    this.maxMoves = maxMoves ?? Infinity; // in a row
    this.moves = 0;
    this.isFinished = false;
  }

  get floor() {
    return Math.min(...this.editable.map(([low]) => low));
  }

  get ceiling() {
    return Math.max(...this.editable.map(([, high]) => high));
  }

  /** Return whether tokens may be inserted, and the set of control ids that are allowed. */
  allowed() {
    const { vocab, cursor } = this;
    if (this.isFinished) return { inserts: false, controls: new Set([vocab.stop]) };
    const controls = new Set([vocab.stop]);
    const isEditable = this.editable.some(([low, high]) => low <= cursor && cursor <= high);
    const mayEdit = this.editsLeft > 0;
    // Moves need an edit left, too: without one, nothing could be done where they lead.
    if (mayEdit && this.moves < this.maxMoves) {
      vocab.deltas.forEach((delta, n) => {
        if (this.isInReach(cursor + delta)) controls.add(vocab.firstMove + n);
      });
      if (this.marks.length > 0 && this.isInReach(this.marks[0])) controls.add(vocab.back);
    }
    if (vocab.mark !== null && mayEdit && isEditable && !this.marks.includes(cursor)) {
      controls.add(vocab.mark);
    }
    return { inserts: mayEdit && isEditable && this.length < this.maxLength, controls };
  }

  /** Return whether a boundary lies between the outermost bounds: beyond, nothing is editable. */
  isInReach(boundary) {
    return boundary >= this.floor && boundary <= this.ceiling;
  }

  /** Take one id, which must be allowed; begin and delimiter have no effect. */
  advance(id) {
    const kind = this.vocab.kind(id);
    const at = this.cursor;
    if (kind === Kind.INSERT || kind === Kind.PREFIX_ONLY) {
      // What is inserted at a range's lower bound is inside the range; a mark stays before it.
      this.editable = this.editable.map(([low, high]) => [low + (low > at), high + (high >= at)]);
      this.marks = this.marks.map((mark) => mark + (mark > at));
      this.length += 1;
      this.cursor += 1;
      if (kind === Kind.INSERT) this.editsLeft -= 1;
    } else if (kind === Kind.MOVE) {
      this.cursor += this.vocab.delta(id);
    } else if (kind === Kind.TO_MARK) {
      [this.cursor, ...this.marks] = this.marks;
    } else if (kind === Kind.MARK) {
      this.marks = [...this.marks, at].sort((a, b) => a - b);
    } else if (kind === Kind.STOP) {
      this.isFinished = true;
    }
    if (kind === Kind.MOVE || kind === Kind.TO_MARK) this.moves += 1;
    else if (kind !== Kind.SEPARATOR) this.moves = 0;
  }
}
