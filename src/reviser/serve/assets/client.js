// A client of `reviser serve` for browsers and Node: one file, no dependencies.
//
//   import { Client } from "/client.js";
//   const stream = await new Client().stream("Ben had a", { seed: 1 });
//   for await (const edit of stream) show(stream.text, stream.cursor);
//   console.log(stream.rollout.text);
//
// Offsets count UTF-16 units, as JavaScript's strings do.

/** What a server refused, with the status of HTTP and the seconds to wait, if it told.
 *  Status 0 is that there was no answer. */
export class ServerError extends Error {
  constructor(message, status, retryAfter = null) {
    super(message);
    this.name = "ServerError";
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** The text after an edit. */
export function applyEdit(text, edit) {
  const end = edit.offset + edit.removed.length;
  return text.slice(0, edit.offset) + edit.inserted + text.slice(end);
}

/** The events of a body, as {id, event, data}; what is left unfinished at its end is dropped. */
export async function* readEvents(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      let end;
      while ((end = rest.indexOf("\n\n")) >= 0) {
        const event = parseEvent(rest.slice(0, end));
        rest = rest.slice(end + 2);
        if (event.data !== undefined) yield event;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

const isAnswer = (error) => error instanceof ServerError && error.status !== 0;

function pause(failures) {
  return new Promise((resolve) => setTimeout(resolve, Math.min(100 * 2 ** failures, 5000)));
}

function parseEvent(block) {
  const event = {};
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
  }
  return event;
}

/** A text being written: `for await` gives its edits, in order, each once. */
export class Stream {
  constructor(client, response) {
    this.client = client;
    this.id = response.headers.get("x-stream-id");
    this.start = null; // {text, cursor} before the first edit
    this.text = "";
    this.cursor = 0;
    this.rollout = null;
    this.error = null;
    this.json = null; // the rollout as the server wrote it, on one line
    this.last = null;
    this.response = response;
    this.aborter = null;
    this.isClosed = false;
  }

  async *[Symbol.asyncIterator]() {
    if (this.error !== null) throw this.error;
    let failures = 0;
    while (this.rollout === null && !this.isClosed) {
      try {
        const response = this.response ?? (await this.reconnect());
        this.response = null;
        for await (const event of readEvents(response.body)) {
          const edit = this.take(event);
          failures = 0;
          if (edit !== null) yield edit;
        }
      } catch (error) {
        if (isAnswer(error) || error instanceof SyntaxError) throw (this.error = error);
      }
      if (this.rollout === null && !this.isClosed) {
        if (++failures > this.client.retries) {
          throw new ServerError("The connection to the server breaks again and again.", 0);
        }
        await pause(failures - 1);
      }
    }
  }

  /** Follow one event; the edit, if it is one. */
  take({ id, event, data }) {
    const told = JSON.parse(data);
    this.last = id;
    if (event === "start") {
      this.start = told;
      this.text = told.text;
      this.cursor = told.cursor;
    } else if (event === "edit") {
      this.text = applyEdit(this.text, told);
      this.cursor = told.cursor;
      return told;
    } else if (event === "done") {
      this.rollout = told;
      this.json = data;
    } else if (event === "failure") {
      throw new ServerError(told.error.message, told.error.code);
    }
    return null;
  }

  async reconnect() {
    const headers = this.last === null ? {} : { "Last-Event-ID": this.last };
    this.aborter = new AbortController();
    return this.client.ask(`/v1/streams/${this.id}`, { headers, signal: this.aborter.signal });
  }

  /** Read to the end; what was written. */
  async result() {
    for await (const _ of this);
    return this.rollout;
  }

  /** Leave the text where it is; what is left of the edits, and the rollout, still come. */
  async cancel() {
    await this.client.ask(`/v1/streams/${this.id}/cancel`, { method: "POST" });
  }

  /** Stop reading; the server soon stops writing. */
  close() {
    this.isClosed = true;
    this.aborter?.abort();
  }
}

/** Asks a server; settings are those of the server's routes, by name. */
export class Client {
  constructor({ url = "", apiKey = null, retries = 5 } = {}) {
    this.url = url.replace(/\/$/, "");
    this.apiKey = apiKey;
    this.retries = retries;
  }

  /** Write on behind a prompt; the rollout. */
  generate(prompt = "", settings = {}) {
    return this.write("/v1/generate", { prompt, ...settings });
  }

  /** Fill the gaps of a text, marked with {} or given as `spans` of UTF-16 units. */
  infill(text, settings = {}) {
    return this.write("/v1/infill", { text, ...settings });
  }

  /** Edit a draft; its text and changes. `locked` are texts or spans of UTF-16 units. */
  revise(draft, settings = {}) {
    return this.write("/v1/revise", { draft, ...settings });
  }

  /** Write on behind a prompt, edit by edit. */
  stream(prompt = "", settings = {}) {
    return this.begin("/v1/generate", { prompt, ...settings });
  }

  /** Fill gaps, edit by edit. */
  streamInfill(text, settings = {}) {
    return this.begin("/v1/infill", { text, ...settings });
  }

  /** Edit a draft of one part, edit by edit. */
  streamRevise(draft, settings = {}) {
    return this.begin("/v1/revise", { draft, ...settings });
  }

  async write(path, body) {
    const response = await this.post(path, { unit: "utf16", ...body });
    return response.json();
  }

  async begin(path, body) {
    const asked = { ...body, unit: "utf16", stream: true };
    for (let failures = 0; ; failures++) {
      const aborter = new AbortController();
      try {
        const stream = new Stream(this, await this.post(path, asked, aborter.signal));
        stream.aborter = aborter;
        return stream;
      } catch (error) {
        // Once more, not more: the server may be writing for each.
        if (isAnswer(error) || failures >= Math.min(this.retries, 1)) throw error;
        await pause(failures);
      }
    }
  }

  post(path, body, signal = undefined) {
    const headers = { "Content-Type": "application/json" };
    return this.ask(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  }

  async ask(path, options) {
    const headers = { ...options.headers };
    if (this.apiKey !== null) headers.Authorization = `Bearer ${this.apiKey}`;
    const response = await fetch(this.url + path, { ...options, headers }).catch(() => {
      throw new ServerError("The server cannot be reached.", 0);
    });
    if (response.ok) return response;
    const told = await response.json().catch(() => null);
    const message = told?.error?.message ?? `The server answered with status ${response.status}.`;
    const wait = Number.parseInt(response.headers.get("retry-after"), 10);
    throw new ServerError(message, response.status, Number.isNaN(wait) ? null : wait);
  }
}
