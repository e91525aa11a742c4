// Edits of tokens as edits of the text that a person sees. Mirrors reviser/core/text_stream.py.
// A token may hold part of a character, so an edit can break or join characters on either side of
// it. Offsets count UTF-16 units.

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

/** Return bytes as text; those that make no character become U+FFFD. */
export function decode(parts) {
  return decoder.decode(joined(parts));
}

/** The visible text of one canvas while it is edited. */
export class TextStream {
  constructor(tokenBytes, tokens = []) {
    this.tokenBytes = tokenBytes;
    this.parts = []; // the bytes of each token
    this.units = []; // units of the characters that begin in each token
    if (tokens.length) {
      this.feed({ position: 0, removed: [], inserted: tokens, cursorBefore: 0, cursor: tokens.length });
    }
  }

  get text() {
    return decode(this.parts);
  }

  /** Return the offset in the text of a boundary between tokens. */
  offsetOf(position) {
    return sum(this.units.slice(0, position));
  }

  /** Take an edit of the canvas and return the edit of the text. */
  feed({ position, removed, inserted, cursor }) {
    if (removed.length === 0 && inserted.length === 0) {
      const offset = this.offsetOf(cursor);
      return { offset, removed: "", inserted: "", cursor: offset };
    }
    const end = position + removed.length;
    const before = tail(this.parts.slice(0, position), openBytes(this.parts.slice(0, position)));
    const after = head(this.parts.slice(end), continuingBytes(this.parts.slice(end)));
    const put = inserted.map((token) => this.tokenBytes[token]);
    const old = read([...before, ...this.parts.slice(position, end), ...after]);
    const now = read([...before, ...put, ...after]);
    const first = before.length;
    const last = now.units.length - after.length; // where the inserted tokens end
    const offset = this.offsetOf(position) - sum(old.units.slice(0, first));
    // The edit may have broken or joined characters that begin in the neighbouring tokens.
    for (let n = 0; n < first; n++) {
      this.units[position - first + n] += now.units[n] - old.units[n];
    }
    for (let n = 0; n < after.length; n++) {
      this.units[end + n] += now.units[last + n] - old.units[old.units.length - after.length + n];
    }
    this.parts.splice(position, removed.length, ...put);
    this.units.splice(position, removed.length, ...now.units.slice(first, last));
    return { ...trimmed(offset, old, now, first, after.length), cursor: this.offsetOf(cursor) };
  }
}

/** Return the edit from one window to the other, without context that did not change. */
function trimmed(offset, old, now, before, after) {
  const oldChars = [...old.text];
  const nowChars = [...now.text];
  const start = sum(old.chars.slice(0, before));
  let kept = 0;
  while (kept < start && oldChars[kept] === nowChars[kept]) kept++;
  const end = Math.min(...[old, now].map(({ chars }) => sum(chars.slice(chars.length - after))));
  let same = 0;
  while (same < end && oldChars.at(-1 - same) === nowChars.at(-1 - same)) same++;
  return {
    offset: offset + oldChars.slice(0, kept).join("").length,
    removed: oldChars.slice(kept, oldChars.length - same).join(""),
    inserted: nowChars.slice(kept, nowChars.length - same).join(""),
  };
}

/** Decode parts; return the text, and how many characters and units of it begin in each part. */
function read(parts) {
  const data = joined(parts);
  const text = decoder.decode(data);
  const chars = parts.map(() => 0);
  const units = parts.map(() => 0);
  let part = 0;
  let partEnd = parts[0]?.length ?? 0;
  let position = 0;
  for (const char of text) {
    while (position >= partEnd) partEnd += parts[++part].length;
    chars[part] += 1;
    units[part] += char.length;
    position += width(data, position, char);
  }
  return { text, chars, units };
}

/** Return how many bytes a decoded character took; U+FFFD stands for up to three. */
function width(data, position, char) {
  if (char !== "\ufffd") return encoder.encode(char).length;
  for (const size of [3, 2]) {
    const piece = data.subarray(position, position + size);
    if (piece.length === size && decoder.decode(piece) === "\ufffd") return size;
  }
  return 1;
}

/** Return how many of the last bytes may belong to a character that is not complete. */
function openBytes(parts) {
  const data = joined(tail(parts, 3));
  for (let n = 1; n <= data.length; n++) {
    const byte = data[data.length - n];
    if (byte >= 0xc0) return n;
    if (byte < 0x80) return 0;
  }
  return 0;
}

/** Return how many of the first bytes may belong to a character that began before them. */
function continuingBytes(parts) {
  const data = joined(head(parts, 3));
  const end = data.findIndex((byte) => (byte & 0xc0) !== 0x80);
  return end < 0 ? data.length : end;
}

/** Return the last `size` bytes, one part for each token that holds some of them. */
function tail(parts, size) {
  const found = [];
  for (let n = parts.length - 1; n >= 0 && size > 0; n--) {
    found.unshift(parts[n].subarray(Math.max(0, parts[n].length - size)));
    size -= found[0].length;
  }
  return found;
}

/** Return the first `size` bytes, in parts as `tail` does. */
function head(parts, size) {
  const found = [];
  for (let n = 0; n < parts.length && size > 0; n++) {
    found.push(parts[n].subarray(0, size));
    size -= found.at(-1).length;
  }
  return found;
}

function joined(parts) {
  const data = new Uint8Array(sum(parts.map((part) => part.length)));
  let at = 0;
  for (const part of parts) {
    data.set(part, at);
    at += part.length;
  }
  return data;
}

const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);
