import { Codec } from "./codec.js";
import { Trunk, write } from "./engine.js";
import * as ort from "./ort/ort.wasm.bundle.min.mjs";
import { Vocab } from "./vocab.js";

// The model, away from the page's own thread. Messages in: {type: "write", number, task, settings}
// and {type: "stop"}. Messages out: "ready", "failed", and for each text "start", "step", "end" or
// "error", with its number.

ort.env.wasm.numThreads = 1; // more need headers that a plain static host does not send
ort.env.wasm.wasmPaths = { wasm: new URL("./ort/ort-wasm-simd-threaded.wasm", import.meta.url).href };

let model = null;
let running = 0;

async function load() {
  const at = (name) => new URL(`./model/${name}`, import.meta.url).href;
  const json = async (name) => (await fetched(at(name))).json();
  const [facts, vocab, tokenizer] = await Promise.all(
    ["model.json", "action_vocab.json", "tokenizer.json"].map(json),
  );
  const graph = new Uint8Array(await (await fetched(at("model.onnx"))).arrayBuffer());
  const session = await ort.InferenceSession.create(graph, { executionProviders: ["wasm"] });
  model = {
    trunk: new Trunk(ort, session, facts.cache),
    vocab: new Vocab(vocab),
    codec: new Codec(tokenizer),
    context: facts.context,
  };
}

async function fetched(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} cannot be loaded (status ${response.status}).`);
  return response;
}

/** Write a text and post its steps, until it ends or another number is running. */
async function run({ number, task, settings }) {
  running = number;
  const post = (type, content) => postMessage({ type, number, ...content });
  try {
    const steps = write(model, task, settings, (start) => post("start", start));
    for (;;) {
      const { value, done } = await steps.next();
      if (running !== number) return post("end", { reason: "cancelled" });
      if (done) return post("end", { reason: value });
      post("step", value);
      await nextTurn();
    }
  } catch (error) {
    post("error", { message: error.message });
  }
}

const channel = new MessageChannel();

/** Let messages in that have arrived, such as a stop. */
function nextTurn() {
  return new Promise((resolve) => {
    channel.port1.onmessage = resolve;
    channel.port2.postMessage(null);
  });
}

// One text at a time: the next begins when the last has ended, the first when the model is loaded.
let waiting = load().then(
  () => postMessage({ type: "ready" }),
  (error) => postMessage({ type: "failed", message: error.message }),
);

onmessage = ({ data }) => {
  running = 0;
  if (data.type === "write") waiting = waiting.then(() => model && run(data));
};
