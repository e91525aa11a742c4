import { change, follow, isLocked, lock, open, unlock } from "./locks.js";
import { $, element, quoted } from "./pane.js";

// The text that a person types: a plain textarea, with what is locked and what is a gap marked on a
// sheet under it. Knows no server.

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
    $("lock").addEventListener("click", () => this.turnLock());
  }

  /** What is written anew, in the mode where that is what is not locked. */
  get spans() {
    return open(this.locks, this.text.length);
  }

  /** The stretches that must stay, as texts. */
  get kept() {
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

  /** Take another text, with these stretches of it locked. */
  set(text, locks) {
    this.area.value = text;
    this.text = this.area.value;
    this.locks = this.text === text ? locks : []; // line ends may have become others
    this.draw();
  }

  typed() {
    const { value, selectionEnd } = this.area;
    this.locks = follow(this.locks, change(this.text, value, selectionEnd));
    this.text = value;
    this.draw();
  }

  /** Mark a gap where the cursor is, in place of what is selected. */
  putGap() {
    this.setMode("fill");
    this.area.focus();
    const { selectionStart, selectionEnd } = this.area;
    this.area.setSelectionRange(this.withSpace(selectionStart), selectionEnd);
    // the one way to put text in that can be undone by keys
    if (!document.execCommand("insertText", false, GAP)) {
      this.area.setRangeText(GAP, this.area.selectionStart, this.area.selectionEnd, "end");
      this.typed();
    }
  }

  /** A place, or that of the space before it: words of a model bring theirs along. */
  withSpace(place) {
    return this.text[place - 1] === " " ? place - 1 : place;
  }

  /** Lock what is selected, or open it if it is locked. */
  turnLock() {
    const { selectionStart: start, selectionEnd: end } = this.area;
    this.setMode("rewrite");
    if (start < end) {
      const turn = isLocked(this.locks, start, end) ? unlock : lock;
      this.locks = turn(this.locks, this.withSpace(start), end);
    }
    this.area.focus();
    this.draw();
  }

  label() {
    const { selectionStart: start, selectionEnd: end } = this.area;
    const isOpen = start === end || !isLocked(this.locks, start, end);
    $("lock-word").textContent = isOpen ? "Lock selection" : "Unlock selection";
  }

  /** The sheet is as tall as the text, and so the area on it. */
  draw() {
    const sheet = [];
    let place = 0;
    for (const [start, end] of this.marks()) {
      sheet.push(this.text.slice(place, start), element("mark", "", this.text.slice(start, end)));
      place = end;
    }
    $("sheet").replaceChildren(...sheet, this.text.slice(place), "\u200b"); // a last empty line counts
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
