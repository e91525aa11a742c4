// The action vocabulary of a model, from its action_vocab.json: what each id does.
// Mirrors reviser/core/layout.py for the kinds that a page can run; the exporter refuses others.

/** The kinds of ids, by name. */
export const Kind = Object.freeze({
  INSERT: "insert", // a token, which inserts itself
  MOVE: "move",
  STOP: "stop",
  MARK: "mark", // marks the cursor's position, to come back to it later
  TO_MARK: "back", // moves the cursor to the leftmost mark and removes that mark
  SEPARATOR: "separator", // begin and delimiter: part of a history, never chosen, no effect
  PREFIX_ONLY: "prefix_only", // a token that a prefix may hold but that is never chosen
  RESERVED: "reserved", // never in a history
});

export class Vocab {
  constructor(fields) {
    this.tokens = fields.tokens;
    this.size = fields.size;
    this.maxMove = fields.max_move;
    this.firstMove = fields.first_move;
    this.stop = fields.stop;
    this.begin = fields.begin ?? null;
    this.delimiter = fields.delimiter ?? null;
    this.mark = fields.mark ?? null;
    this.back = fields.back ?? null;
    this.deltas = []; // in id order: +1, -1, +2, -2, ...
    for (let power = 1; power <= this.maxMove; power *= 2) this.deltas.push(power, -power);
    this.kinds = this.kindTable(fields.never_insert ?? []);
  }

  kindTable(neverInsert) {
    const kinds = new Array(this.size).fill(Kind.RESERVED);
    kinds.fill(Kind.INSERT, 0, this.tokens);
    for (const id of neverInsert) kinds[id] = Kind.PREFIX_ONLY;
    kinds.fill(Kind.MOVE, this.firstMove, this.firstMove + this.deltas.length);
    kinds[this.stop] = Kind.STOP;
    if (this.mark !== null) {
      kinds[this.mark] = Kind.MARK;
      kinds[this.back] = Kind.TO_MARK;
    }
    // Last: a tokenizer's own token may serve as begin.
    for (const id of [this.begin, this.delimiter]) if (id !== null) kinds[id] = Kind.SEPARATOR;
    return kinds;
  }

  /** Return the kind of an id; ids outside the vocabulary are reserved. */
  kind(id) {
    return this.kinds[id] ?? Kind.RESERVED;
  }

  /** Return how far a move goes. */
  delta(id) {
    return this.deltas[id - this.firstMove];
  }

  moveId(delta) {
    return this.firstMove + this.deltas.indexOf(delta);
  }

  /** Return the start of a history: begin, the prefix's tokens, the delimiter. */
  prefixActions(prefix) {
    const ids = [this.begin, ...prefix, this.delimiter].filter((id) => id !== null);
    if (ids.length === 0) throw new Error("This model needs at least one word to continue.");
    return ids;
  }

  /** Return the fewest moves from a position to one before it, over a canvas of this length. */
  movesBack(from, to, length) {
    // Breadth first: a canvas has at most a few hundred positions.
    const came = new Map([[from, null]]);
    const order = [...this.deltas].sort((a, b) => Math.abs(b) - Math.abs(a) || a - b);
    const queue = [from];
    for (const at of queue) {
      if (at === to) break;
      for (const delta of order) {
        const next = at + delta;
        if (next < 0 || next > length || came.has(next)) continue;
        came.set(next, { at, delta });
        queue.push(next);
      }
    }
    const moves = [];
    for (let step = came.get(to); step !== null; step = came.get(step.at)) moves.unshift(step.delta);
    return moves;
  }
}
