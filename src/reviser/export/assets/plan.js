import { Kind } from "./vocab.js";

// A task as a request: the history that the model continues, and what it may change. Mirrors
// `_continue_prompt` and `_infill_prompt` in reviser/writing/prompts.py.

export const GAP = "{}";

/** Return the request that continues a text, all of which is locked. */
export function planContinue(vocab, codec, text) {
  const prefix = codec.encode(text);
  const at = prefix.length;
  return { history: vocab.prefixActions(prefix), cursor: at, editable: [[at, at]], spaces: [] };
}

/** Return the request that fills the gaps of a text, each marked with {}.
 *
 *  The text after the first gap is shown as written first, as in training; then the cursor goes
 *  back to the gap. */
export function planFill(vocab, codec, text) {
  const parts = text.split(GAP);
  if (parts.length < 2) throw new Error("The text has no gap. Put one where something is missing.");
  // Gaps with nothing between them are one.
  const between = parts.slice(1, -1).filter((part) => part !== "");
  const before = [parts[0], ...between];
  const canLend = codec.space !== null && vocab.kind(codec.space) === Kind.INSERT;
  const spaces = before.map((part) => canLend && lendsSpace(part));
  const shown = before.map((part, n) => (spaces[n] ? part.slice(0, -1) : part));
  const [first, ...rest] = [...shown, parts.at(-1)].map((part) => codec.encode(part));
  const gaps = [];
  let at = first.length;
  for (const part of rest) {
    gaps.push([at, at]);
    at += part.length;
  }
  const later = rest.flat();
  const length = first.length + later.length;
  if (vocab.mark === null) {
    const back = vocab.movesBack(length, first.length, length).map((delta) => vocab.moveId(delta));
    const history = [...vocab.prefixActions(first), ...later, ...back];
    return { history, cursor: first.length, editable: gaps, spaces };
  }
  const marked = rest.flatMap((part) => [vocab.mark, ...part]); // a mark stands for each gap
  const needsPrefix = vocab.begin === null && vocab.delimiter === null;
  const start = needsPrefix ? vocab.prefixActions(first) : [...vocab.prefixActions([]), ...first];
  return { history: [...start, ...marked, vocab.back], cursor: first.length, editable: gaps, spaces };
}

/** Return whether a text before a gap ends with one space, after something else. Tokens of words
 *  begin with their own space, so that space is left for the model to write. */
function lendsSpace(text) {
  return text.length > 1 && text.endsWith(" ") && !/\p{White_Space}/u.test(text.at(-2));
}
