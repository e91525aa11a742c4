// The playground's model in this browser: a worker runs it, and its messages become streams of edits.

const GAP = "{}";

/** An error that is shown to the user. */
export class Failure extends Error {}

export class Backend {
  constructor() {
    this.content = JSON.parse(document.getElementById("content").textContent);
    this.loading = `Loading the model, ${this.content.megabytes} MB ...`;
    this.isReady = false;
    this.stream = null;
    this.count = 0;
    this.worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    this.ready = new Promise((resolve, reject) => {
      this.worker.addEventListener("message", ({ data }) => {
        if (data.type === "ready") resolve(this.isReady = true);
        else if (data.type === "failed") reject(this.fail(data.message));
        else if (data.number === this.count) this.stream.take(data);
      });
      this.worker.addEventListener("error", () => reject(this.fail("Reload the page.")));
    });
  }

  fail(message) {
    this.failure = new Failure(`The model could not be loaded. ${message}`);
    this.stream?.take({ type: "failed" });
    return this.failure;
  }

  async open() {
    const about = `${this.content.about} It runs in this page: your text never leaves your computer.`;
    return { ...this.content, about, routes: ["generate", "infill"], cannot: "", min_confidence: null, calibration: [] };
  }

  async write({ mode, text, spans }, { top_k: topK, top_p: topP, max_actions: maxActions, ...others }) {
    if (this.failure) throw this.failure;
    const named = { ...others, topK, topP, maxActions };
    const { settings } = this.content;
    const defaults = { temperature: settings.temperature.default, topK: settings.top_k.default, topP: settings.top_p.default, maxActions: settings.max_actions.default };
    for (const [name, value] of Object.entries(defaults)) named[name] ??= value;
    const task = mode === "continue" ? { mode, text } : { mode: "fill", text: spans ? marked(text, spans[0]) : text };
    this.worker.postMessage({ type: "write", number: ++this.count, task, settings: named });
    this.stream = new LocalStream(this);
    return this.stream;
  }
}

/** Return a text with a gap in place of a span. */
function marked(text, [start, end]) {
  const [before, after] = [text.slice(0, start), text.slice(end)];
  if ((before + after).includes(GAP)) throw new Failure(`Remove the gaps (${GAP}) from the text around the selection.`);
  return before + GAP + after;
}

/** A text that the worker writes: `for await` yields its edits. */
class LocalStream {
  constructor(backend) {
    this.backend = backend;
    this.start = null;
    this.json = null;
    this.messages = [];
    this.wake = () => {};
  }

  take(message) {
    if (message.type === "start") this.start = { text: message.text, cursor: message.cursor };
    else this.messages.push(message);
    this.wake();
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      while (this.messages.length === 0) await new Promise((resolve) => { this.wake = resolve; });
      const { type, edit, reason, message } = this.messages.shift();
      if (type === "step") yield edit;
      else if (type === "end") {
        this.reason = reason;
        return;
      } else throw type === "failed" ? this.backend.failure : new Failure(message);
    }
  }

  async cancel() {
    this.backend.worker.postMessage({ type: "stop" });
    if (this.backend.isReady) return;
    this.backend.count++; // what the worker writes once it has loaded belongs to nobody
    this.take({ type: "end", reason: "cancelled" });
  }
}
