// Runs the page's modules on cases from standard input; the tests compare with Python.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { folder, job, cases, vocab: fields, tokenizer } = JSON.parse(readFileSync(0, "utf8"));
const load = (name) => import(pathToFileURL(`${folder}/${name}.js`));
const { Vocab } = await load("vocab");
const { Codec } = await load("codec");
const vocab = new Vocab(fields);
const codec = tokenizer ? new Codec(tokenizer) : null;

const jobs = {
  /** What is allowed, the canvas and the edit of the text, after each id of each history. */
  async follow() {
    const { Canvas } = await load("canvas");
    const { ActionMask } = await load("mask");
    const { TextStream } = await load("text_stream");
    return cases.map(({ tokens, bytes, start, ids }) => {
      const canvas = new Canvas(vocab);
      canvas.tokens = [...tokens];
      canvas.cursor = start.cursor;
      const action_mask = new ActionMask(vocab, start);
      const stream = new TextStream(bytes.map((each) => Uint8Array.from(each)), tokens);
      const seen = () => {
        const { inserts, controls } = action_mask.allowed();
        return [inserts, [...controls].sort((a, b) => a - b)];
      };
      const steps = ids.map((id) => {
        const allowed = seen();
        action_mask.advance(id);
        const { position, inserted, cursor } = canvas.apply(id);
        const edit = stream.feed({ position, removed: [], inserted, cursor });
        return [allowed, canvas.cursor, canvas.marks, [edit.offset, edit.removed, edit.inserted, edit.cursor]];
      });
      return { steps, last: seen(), tokens: canvas.tokens, text: stream.text, editable: action_mask.editable };
    });
  },
  async encode() {
    return cases.map((text) => codec.encode(text));
  },
  async plan() {
    const { planContinue, planFill } = await load("plan");
    return cases.map((text) => (text.includes("{}") ? planFill : planContinue)(vocab, codec, text));
  },
  /** Edits of texts with gaps, for ids that are given. */
  async spaced() {
    const { Canvas } = await load("canvas");
    const { planFill } = await load("plan");
    const { SpacedStream } = await load("spaces");
    const { TextStream } = await load("text_stream");
    return cases.map(({ text, ids }) => {
      const { history, editable, spaces } = planFill(vocab, codec, text);
      const canvas = Canvas.replay(vocab, history);
      const starts = editable.filter((_, n) => spaces[n]).map(([low]) => low);
      const stream = starts.length ? new SpacedStream(codec, canvas.tokens, starts)
        : new TextStream(codec.tokenBytes, canvas.tokens);
      const texts = [stream.text];
      const edits = ids.map((id) => {
        const { offset, removed, inserted, cursor } = stream.feed(canvas.apply(id));
        texts.push(stream.text);
        return [offset, removed, inserted, cursor];
      });
      return { edits, texts };
    });
  },
  async choose() {
    const { Philox, choose, logprobOf } = await load("sampling");
    return cases.map(({ logits, settings, seed, draws }) => {
      const numbers = new Philox(seed);
      const values = Float32Array.from(logits);
      const all = logits.map(() => true);
      const drawn = Array.from({ length: draws }, () => numbers.random());
      return [drawn, drawn.map((draw) => choose(values, all, settings, draw)), logprobOf(values, 0)];
    });
  },
};

process.stdout.write(JSON.stringify(await jobs[job]()));
