import { Canvas } from "./canvas.js";
import { ActionMask } from "./mask.js";
import { planContinue, planFill } from "./plan.js";
import { Philox, choose, logprobOf } from "./sampling.js";
import { SpacedStream } from "./spaces.js";
import { TextStream } from "./text_stream.js";
import { Kind } from "./vocab.js";

// One text at a time: the model reads the history of actions, the mask says what may follow, the
// canvas applies what was chosen. Knows no page, and the runtime only as `ort`.

/** A model whose graph has the inputs and outputs that reviser/export/onnx.py describes. */
export class Trunk {
  constructor(ort, session, [layers, heads, width]) {
    this.ort = ort;
    this.session = session;
    this.names = [];
    for (let layer = 0; layer < layers; layer++) this.names.push(`${layer}.key`, `${layer}.value`);
    this.emptyShape = [1, heads, 0, width];
    this.forget();
  }

  /** Begin with an empty cache. */
  forget() {
    const empty = new this.ort.Tensor("float32", new Float32Array(0), this.emptyShape);
    this.past = Object.fromEntries(this.names.map((name) => [`past_key_values.${name}`, empty]));
  }

  /** Read ids after those that were read before; return the logits after the last one. */
  async read(ids) {
    const data = BigInt64Array.from(ids, BigInt);
    const input = new this.ort.Tensor("int64", data, [1, ids.length]);
    const output = await this.session.run({ input_ids: input, ...this.past });
    for (const name of this.names) this.past[`past_key_values.${name}`] = output[`present.${name}`];
    const { data: logits, dims } = output.logits;
    return logits.subarray(logits.length - dims[2]);
  }
}

/** Write one text; yields {edit, kind, logprob, action} for each action, and returns why it ended.
 *  `started` is called with the text and the cursor before the first action. */
export async function* write({ trunk, vocab, codec, context }, { mode, text }, settings, started) {
  const plan = mode === "fill" ? planFill : planContinue;
  const { history, cursor, editable, spaces } = plan(vocab, codec, text);
  if (history.length >= context) {
    throw new Error(`Your text is ${history.length} tokens long; this model's limit is ${context - 1}. Shorten it.`);
  }
  const canvas = Canvas.replay(vocab, history);
  const starts = editable.filter((_, n) => spaces[n]).map(([low]) => low);
  const stream = starts.length ? new SpacedStream(codec, canvas.tokens, starts)
    : new TextStream(codec.tokenBytes, canvas.tokens);
  const still = { position: cursor, removed: [], inserted: [], cursorBefore: cursor, cursor };
  started({ text: stream.text, cursor: stream.feed(still).cursor });
  const { length } = canvas.tokens;
  const action_mask = new ActionMask(vocab, { length, cursor, editable, marks: canvas.marks });
  const draws = new Philox(settings.seed);
  trunk.forget();
  let logits = await trunk.read(history);
  for (let count = 1; ; count++) {
    const action = choose(logits, allowedIds(vocab, action_mask), settings, draws.random());
    const kind = vocab.kind(action);
    action_mask.advance(action);
    yield { edit: stream.feed(canvas.apply(action)), kind, logprob: logprobOf(logits, action), action };
    if (kind === Kind.STOP) return "stop";
    if (count === settings.maxActions) return "max_actions";
    if (history.length + count >= context) return "context";
    logits = await trunk.read([action]);
  }
}

/** Return, for each id, whether it may be chosen now. */
function allowedIds(vocab, action_mask) {
  const { inserts, controls } = action_mask.allowed();
  return vocab.kinds.map((kind, id) => (kind === Kind.INSERT ? inserts : controls.has(id)));
}
