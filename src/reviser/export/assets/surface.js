import { apply, runs } from "./edits.js";

// The text surface: a plain textarea, with the order of writing drawn on a sheet beneath it. What a
// model wrote becomes the value of the textarea and the text of nodes, never markup.

const SHADES = 10;
const GAPS = /\{\}/g;

export class Surface {
  constructor(area, sheet) {
    this.area = area;
    this.sheet = sheet;
    this.set("");
  }

  get text() {
    return this.state.text;
  }

  /** Show a text that nobody has written yet but the user. */
  set(text) {
    this.state = { text, ids: new Int32Array(text.length), cursor: text.length };
    this.steps = 0;
    this.late = new Set(); // steps that inserted text before what the model had written earlier
    this.isWriting = false;
    this.draw();
  }

  /** Take the text as the user has typed it; nothing of it counts as written by the model. */
  typed() {
    const { selectionStart, selectionEnd, value } = this.area;
    this.set(value);
    this.area.setSelectionRange(selectionStart, selectionEnd);
  }

  /** Begin to show a text that is being written. */
  begin({ text, cursor }) {
    this.set(text);
    this.state.cursor = cursor;
    this.isWriting = true;
  }

  /** Add one edit; call `draw` to show it. */
  take(edit) {
    this.steps += 1;
    // A unit that the model wrote follows: this one comes late.
    if (edit.inserted && this.state.ids[edit.offset + edit.removed.length] > 0) this.late.add(this.steps);
    const ids = new Int32Array(edit.inserted.length).fill(this.steps);
    this.state = apply(this.state, edit, ids);
  }

  end() {
    this.isWriting = false;
    this.draw();
  }

  /** Draw text and sheet; the sheet is as tall as the text and gives the textarea its height. */
  draw() {
    const { text, cursor } = this.state;
    if (this.area.value !== text) this.area.value = text;
    const cuts = new Map(this.isWriting ? [[cursor, true]] : []);
    const gaps = this.steps ? [] : Array.from(text.matchAll(GAPS), ({ index }) => index);
    for (const at of gaps) cuts.set(at, true).set(at + 2, true);
    const pieces = runs(this.state, (id) => this.look(id), cuts).map(({ start, text: part, looks }) => {
      const piece = document.createElement("span");
      piece.className = gaps.includes(start) ? "gap" : looks;
      piece.textContent = part;
      return { start, piece };
    });
    const nodes = pieces.flatMap(({ start, piece }) =>
      (this.isWriting && start === cursor ? [caret(), piece] : [piece]));
    if (this.isWriting && cursor >= text.length) nodes.push(caret());
    this.sheet.replaceChildren(...nodes, "\u200b"); // gives a last empty line its height
  }

  /** Return the classes of a unit that was written at this step. */
  look(step) {
    if (step === 0) return "";
    const shade = Math.min(SHADES - 1, Math.floor((SHADES * step) / Math.max(this.steps, 1)));
    return `order${shade}${this.late.has(step) ? " late" : ""}`;
  }
}

function caret() {
  const made = document.createElement("i");
  made.className = "cursor";
  return made;
}
