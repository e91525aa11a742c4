// A client of `reviser serve` for browsers and Node: one file, no dependencies.
//
//   import { Client } from "/client.js";
//   const stream = await new Client().stream("Ben had a", { seed: 1 });
//   for await (const edit of stream) show(stream.text, stream.cursor);
//   console.log(stream.rollout.text);
//
// Offsets count UTF-16 units, as JavaScript's strings do.

/** An error of a server: its HTTP status and, if it sent one, the seconds to wait before a retry.
 *  Status 0 means that the server did not respond. */
export class ServerError extends Error {
  constructor(message, status, retryAfter = null) {
    super(message);
    this.name = "ServerError";
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** Return the text after an edit. */
export function applyEdit(text, edit) {
  const end = edit.offset + edit.removed.length;
  return text.slice(0, edit.offset) + edit.inserted + text.slice(end);
}

/** Yield the events of a body as {id, event, data}; an incomplete one at the end is dropped. */
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

const isResponse = (error) => error instanceof ServerError && error.status !== 0;

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

/** A text being written: `for await` yields its edits, in order, each once. */
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
    this.reason = undefined; // why it ended
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
        if (isResponse(error) || error instanceof SyntaxError) throw (this.error = error);
      }
      if (this.rollout === null && !this.isClosed) {
        if (++failures > this.client.retries) {
          throw new ServerError("The connection to the server breaks again and again.", 0);
        }
        await pause(failures - 1);
      }
    }
  }

  /** Apply one event; return the edit if it is one. */
  take({ id, event, data }) {
    const content = JSON.parse(data);
    this.last = id;
    if (event === "start") {
      this.start = content;
      this.text = content.text;
      this.cursor = content.cursor;
    } else if (event === "edit") {
      this.text = applyEdit(this.text, content);
      this.cursor = content.cursor;
      return content;
    } else if (event === "done") {
      this.rollout = content;
      this.reason = content.stop_reason;
      this.json = data;
    } else if (event === "failure") {
      throw new ServerError(content.error.message, content.error.code);
    }
    return null;
  }

  async reconnect() {
    const headers = this.last === null ? {} : { "Last-Event-ID": this.last };
    this.aborter = new AbortController();
    return this.client.ask(`/v1/streams/${this.id}`, { headers, signal: this.aborter.signal });
  }

  /** Read to the end and return the rollout. */
  async result() {
    for await (const _ of this);
    return this.rollout;
  }

  /** Stop writing; the remaining edits and the rollout still arrive. */
  async cancel() {
    await this.client.ask(`/v1/streams/${this.id}/cancel`, { method: "POST" });
  }

  /** Stop reading; the server stops writing a few seconds later. */
  close() {
    this.isClosed = true;
    this.aborter?.abort();
  }
}

/** A client of one server; settings are the fields of the server's routes. */
export class Client {
  constructor({ url = "", apiKey = null, retries = 5 } = {}) {
    this.url = url.replace(/\/$/, "");
    this.apiKey = apiKey;
    this.retries = retries;
  }

  /** Continue a prompt; return the rollout. */
  generate(prompt = "", settings = {}) {
    return this.write("/v1/generate", { prompt, ...settings });
  }

  /** Fill the gaps of a text, marked with {} or given as `spans` of UTF-16 units. */
  infill(text, settings = {}) {
    return this.write("/v1/infill", { text, ...settings });
  }

  /** Edit a draft; return its text and changes. `locked` has texts or spans of UTF-16 units.
   *  A signal of an AbortController ends the request, on the server, too. */
  revise(draft, settings = {}, signal = undefined) {
    return this.write("/v1/revise", { draft, ...settings }, signal);
  }

  /** Continue a prompt, edit by edit. */
  stream(prompt = "", settings = {}) {
    return this.begin("/v1/generate", { prompt, ...settings });
  }

  /** Fill gaps, edit by edit. */
  streamInfill(text, settings = {}) {
    return this.begin("/v1/infill", { text, ...settings });
  }

  /** Edit a draft of one window, edit by edit. */
  streamRevise(draft, settings = {}) {
    return this.begin("/v1/revise", { draft, ...settings });
  }

  async write(path, body, signal = undefined) {
    const response = await this.post(path, { unit: "utf16", ...body }, signal);
    return response.json();
  }

  async begin(path, body) {
    const request = { ...body, unit: "utf16", stream: true };
    for (let failures = 0; ; failures++) {
      const aborter = new AbortController();
      try {
        const stream = new Stream(this, await this.post(path, request, aborter.signal));
        stream.aborter = aborter;
        return stream;
      } catch (error) {
        // One more try is enough: the server may be writing for each.
        if (isResponse(error) || failures >= Math.min(this.retries, 1)) throw error;
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
    const content = await response.json().catch(() => null);
    const message = content?.error?.message ?? `The server responded with status ${response.status}.`;
    const wait = Number.parseInt(response.headers.get("retry-after"), 10);
    throw new ServerError(message, response.status, Number.isNaN(wait) ? null : wait);
  }
}
