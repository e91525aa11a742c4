import { change, follow, isLocked, lock, open, unlock } from "./locks.js";
import { $, element, quoted } from "./pane.js";

// The text field: a plain textarea, with locks and gaps marked on a sheet beneath it. Knows no server.

export const GAP = "{}"; // as the server reads it

export class Editor {
  constructor() {
    this.area = $("source");
    this.text = this.area.value;
    this.locks = [];
    this.mode = "continue";
    this.area.addEventListener("input", () => this.typed());
    document.addEventListener("selectionchange", () => this.label());
    $("gap").addEventListener("click", () => this.putGap());
    $("lock").addEventListener("click", () => this.toggleLock());
  }

  /** The spans to rewrite: everything that is not locked. */
  get spans() {
    return open(this.locks, this.text.length);
  }

  /** The texts that must not change. */
  get locked() {
    const parts = {
      continue: () => [this.text],
      fill: () => this.text.split(GAP),
      rewrite: () => this.locks.map(([start, end]) => this.text.slice(start, end)),
    }[this.mode]();
    return parts.filter((part) => part !== "");
  }

  setMode(mode) {
    this.mode = mode;
    document.body.dataset.mode = mode;
    $(`mode-${mode}`).checked = true;
    this.area.placeholder = $(`mode-${mode}`).dataset.hint;
    this.draw();
  }

  /** Show another text with these locks. */
  set(text, locks) {
    this.area.value = text;
    this.text = this.area.value;
    this.locks = this.text === text ? locks : []; // the browser may have changed line ends
    this.draw();
  }

  typed() {
    const { value, selectionEnd } = this.area;
    this.locks = follow(this.locks, change(this.text, value, selectionEnd));
    this.text = value;
    this.draw();
  }

  /** Put a gap at the cursor, in place of the selection. */
  putGap() {
    this.setMode("fill");
    this.area.focus();
    const { selectionStart, selectionEnd } = this.area;
    this.area.setSelectionRange(this.withSpace(selectionStart), selectionEnd);
    // the only way to insert text that the keyboard can undo
    if (!document.execCommand("insertText", false, GAP)) {
      this.area.setRangeText(GAP, this.area.selectionStart, this.area.selectionEnd, "end");
      this.typed();
    }
  }

  /** Include a space before a position: a model writes words with the space before them. */
  withSpace(position) {
    return this.text[position - 1] === " " ? position - 1 : position;
  }

  /** Lock the selection, or unlock it if it is locked. */
  toggleLock() {
    const { selectionStart: start, selectionEnd: end } = this.area;
    this.setMode("rewrite");
    if (start < end) {
      const toggle = isLocked(this.locks, start, end) ? unlock : lock;
      this.locks = toggle(this.locks, this.withSpace(start), end);
    }
    this.area.focus();
    this.draw();
  }

  label() {
    const { selectionStart: start, selectionEnd: end } = this.area;
    const isOpen = start === end || !isLocked(this.locks, start, end);
    $("lock-word").textContent = isOpen ? "Lock selection" : "Unlock selection";
  }

  /** Draw the sheet, which is as tall as the text and so gives the textarea its height. */
  draw() {
    const sheet = [];
    let drawn = 0;
    for (const [start, end] of this.marks()) {
      sheet.push(this.text.slice(drawn, start), element("mark", "", this.text.slice(start, end)));
      drawn = end;
    }
    $("sheet").replaceChildren(...sheet, this.text.slice(drawn), "\u200b"); // gives a last empty line its height
    const listed = this.mode === "rewrite" ? this.locks : [];
    $("locks").replaceChildren(...listed.map((each) => this.chip(each)));
    this.label();
  }

  marks() {
    if (this.mode === "rewrite") return this.locks;
    if (this.mode !== "fill") return [];
    return Array.from(this.text.matchAll(/\{\}/g), ({ index }) => [index, index + GAP.length]);
  }

  chip([start, end]) {
    const words = quoted(this.text.slice(start, end));
    const button = element("button", "word", "Unlock");
    button.type = "button";
    button.setAttribute("aria-label", `Unlock ${words}`);
    button.addEventListener("click", () => {
      this.locks = unlock(this.locks, start, end);
      this.draw();
      this.area.focus();
    });
    const item = element("li");
    item.append(element("span", "", words), button);
    return item;
  }
}
