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
  constructor(response, aborter) {
    this.start = null; // {text, cursor} before the first edit
    this.text = "";
    this.cursor = 0;
    this.rollout = null;
    this.json = null; // the rollout as the server wrote it, on one line
    this.reason = undefined; // why it ended
    this.response = response;
    this.aborter = aborter;
  }

  async *[Symbol.asyncIterator]() {
    if (this.response === null) return;
    const { body } = this.response;
    this.response = null;
    try {
      for await (const event of readEvents(body)) {
        const edit = this.take(event);
        if (edit !== null) yield edit;
      }
    } catch (error) {
      if (this.aborter.signal.aborted) return;
      if (error instanceof ServerError || error instanceof SyntaxError) throw error;
    }
    if (this.rollout === null && !this.aborter.signal.aborted) {
      throw new ServerError("The connection to the server was lost.", 0);
    }
  }

  /** Apply one event; return the edit if it is one. */
  take({ event, data }) {
    const content = JSON.parse(data);
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

  /** Read to the end and return the rollout. */
  async result() {
    for await (const _ of this);
    return this.rollout;
  }

  /** Close the connection; the server stops writing. `text` has what arrived until now. */
  cancel() {
    if (this.reason === undefined) this.reason = "cancelled";
    this.aborter.abort();
  }
}

/** A client of one server; settings are the fields of the server's routes. */
export class Client {
  constructor({ url = "", apiKey = null } = {}) {
    this.url = url.replace(/\/$/, "");
    this.apiKey = apiKey;
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
    const aborter = new AbortController();
    const request = { ...body, unit: "utf16", stream: true };
    return new Stream(await this.post(path, request, aborter.signal), aborter);
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
