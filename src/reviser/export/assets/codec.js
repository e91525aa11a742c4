import { decode } from "./text_stream.js";

// Text to tokens and back, for byte-level BPE: GPT-2's way to split a text, digits one by one if
// the tokenizer says so. The exporter refuses other tokenizers.

const WORDS = new RegExp(
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\p{White_Space}\\p{L}\\p{N}]+"
  + "|\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+",
  "gu",
);
const DIGITS = /\p{N}|\P{N}+/gu;

export class Codec {
  /** Make the codec of a tokenizer.json. */
  constructor({ model, added_tokens: added, pre_tokenizer: split }) {
    const steps = split.pretokenizers ?? [split];
    this.splitsDigits = steps.some(({ type }) => type === "Digits");
    this.ids = new Map(Object.entries(model.vocab));
    // Older files have "left right" in place of a pair.
    const merges = model.merges.map((pair) => (typeof pair === "string" ? pair : pair.join(" ")));
    this.ranks = new Map(merges.map((pair, n) => [pair, n]));
    this.tokenBytes = [];
    for (const [piece, id] of this.ids) {
      this.tokenBytes[id] = Uint8Array.from([...piece], (char) => BYTE_OF.get(char));
    }
    // Special tokens are never in a text: a text that holds their names is encoded as letters.
    for (const { id, content } of added) this.tokenBytes[id] = new TextEncoder().encode(content);
    const space = this.tokenBytes.findIndex((bytes) => bytes?.length === 1 && bytes[0] === 0x20);
    this.space = space < 0 ? null : space;
    this.known = new Map(); // words that were encoded before
  }

  /** Return the tokens of a text. */
  encode(text) {
    if (!text.isWellFormed()) throw new Error("This text holds half of a character. Remove it.");
    const parts = this.splitsDigits ? text.match(DIGITS) ?? [] : [text];
    return parts.flatMap((part) => part.match(WORDS) ?? []).flatMap((word) => this.word(word));
  }

  decode(tokens) {
    return decode(tokens.map((token) => this.tokenBytes[token]));
  }

  word(word) {
    if (!this.known.has(word)) this.known.set(word, this.merged(word));
    return this.known.get(word);
  }

  /** Join the bytes of a word, the pair that was learned first before all others. */
  merged(word) {
    const pieces = Array.from(new TextEncoder().encode(word), (byte) => CHAR_OF[byte]);
    for (;;) {
      let best = -1;
      let lowest = Infinity;
      for (let n = 0; n + 1 < pieces.length; n++) {
        const rank = this.ranks.get(`${pieces[n]} ${pieces[n + 1]}`) ?? Infinity;
        if (rank < lowest) [best, lowest] = [n, rank];
      }
      if (best < 0) return pieces.map((piece) => this.ids.get(piece));
      pieces.splice(best, 2, pieces[best] + pieces[best + 1]);
    }
  }
}

/** Byte-level BPE writes each byte as one visible character: itself where it is printable Latin-1,
 *  else the next unused one from U+0100 on. */
const CHAR_OF = [];
let unused = 0x100;
for (let byte = 0; byte < 256; byte++) {
  const isPrintable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad);
  CHAR_OF.push(String.fromCharCode(isPrintable ? byte : unused++));
}
const BYTE_OF = new Map(CHAR_OF.map((char, byte) => [char, byte]));
