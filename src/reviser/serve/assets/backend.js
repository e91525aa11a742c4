import { Client, ServerError } from "../client.js";

// The playground's model on a server: what it can do, texts as streams of edits, and suggestions.

const KEY = "reviser-key"; // in sessionStorage, so for this tab only
const CANNOT = {
  revise: "This model was not trained on edits, so it cannot proofread.",
  generate: "This model only proofreads. It weighs corrections and writes no text of its own.",
};

export { ServerError as Failure };

export class Backend {
  constructor() {
    this.client = new Client({ url: new URL("..", import.meta.url).href, apiKey: savedKey() });
    this.isReady = true;
    this.ready = Promise.resolve();
  }

  get hasKey() {
    return this.client.apiKey !== null;
  }

  setKey(key) {
    this.client.apiKey = key;
  }

  /** Return what the page shows of the model, and the settings by name. */
  async open() {
    const ask = async (path) => (await this.client.ask(path, {})).json();
    const { data: [model] } = await ask("/v1/models");
    if (this.hasKey) keepKey(this.client.apiKey);
    const { properties } = (await ask("/openapi.json")).components.schemas.GenerateBody;
    const isNumber = ([, field]) => ["integer", "number"].includes((field.anyOf?.[0] ?? field).type);
    const missing = Object.keys(CANNOT).filter((route) => !model.routes.includes(route));
    this.model = { ...model, proofreads: missing.includes("generate"), judges: model.min_confidence !== null };
    return {
      ...this.model,
      settings: Object.fromEntries(Object.entries(properties).filter(isNumber)),
      cannot: missing.map((route) => CANNOT[route]).join(" "),
    };
  }

  /** Begin to write; the stream has a `start`, yields edits, and has a `reason` at its end. */
  async write({ mode, text, spans }, settings) {
    if (mode === "continue") return this.client.stream(text, settings);
    return this.client.streamInfill(text, { ...settings, ...(spans ? { spans } : {}) });
  }

  /** Return the changes that the model suggests, also those that it is less sure of than usual; with
   *  `sure`, only those that need no judge. */
  async revise(draft, { sure, words }, signal) {
    const measured = this.model.calibration.map(([, precision]) => precision);
    const options = measured.length ? { precision: Math.min(...measured) } : {};
    if (this.model.proofreads) Object.assign(options, { sure, words });
    return (await this.client.revise(draft, options, signal)).changes;
  }
}

function savedKey() {
  try {
    return sessionStorage.getItem(KEY);
  } catch { // a browser may forbid storage
    return null;
  }
}

function keepKey(key) {
  try {
    sessionStorage.setItem(KEY, key);
  } catch { /* then only this page keeps it */ }
}
