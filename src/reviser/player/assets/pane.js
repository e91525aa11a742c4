import { characters, runs, visible } from "./edits.js";

// One reel on a page: its text at a step, its actions, the cursor's path. It asks the reel for its
// state and shows that; whatever a model wrote becomes the text of a node or the value of an
// attribute, never markup. Knows neither who plays nor where steps come from.

const ROW = 28; // height of a row of the list, as in the style
const SHADES = 10;

/** Shows a reel; `view` says how ({order, ghost}), and `seek` is asked to go to a step. */
export class Pane {
  constructor(reel, id, view, seek) {
    this.reel = reel;
    this.id = id;
    this.view = view;
    this.seek = seek;
    this.element = $("pane").content.firstElementChild.cloneNode(true);
    const find = (selector) => this.element.querySelector(selector);
    this.box = find(".text");
    this.text = find(".text p");
    this.says = find(".says");
    this.path = find(".path");
    this.canvas = find("canvas");
    this.head = find(".head");
    this.list = find(".actions");
    this.rows = find(".rows");
    this.shown = []; // what stands in the text now, piece by piece
    this.found = new Set(); // identities of what a search has found
    this.made = new Map(); // rows of the list, by step
    this.facts = find(".facts");
    find("h2").textContent = visible(reel.name);
    this.element.setAttribute("aria-label", visible(reel.name));
    this.list.addEventListener("scroll", () => this.drawRows());
    this.rows.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) seek(Number(row.dataset.step) + 1);
    });
    this.path.addEventListener("pointerdown", (event) => {
      this.path.setPointerCapture(event.pointerId);
      this.seekTo(event);
    });
    this.path.addEventListener("pointermove", (event) => {
      if (this.path.hasPointerCapture(event.pointerId)) this.seekTo(event);
    });
  }

  /** Draw all that depends on how long the reel is, and on the size and colours of the page. */
  arrange() {
    const { facts, length } = this.reel;
    this.rows.style.height = `${length * ROW}px`;
    this.facts.hidden = facts.length === 0;
    this.facts.querySelector("dl").replaceChildren(...facts.flatMap(([key, value]) => [
      element("dt", "", visible(key)), element("dd", "", visible(value)),
    ]));
    this.canvas.setAttribute("aria-label", this.described());
    this.drawPath();
  }

  described() {
    const { cursors, length } = this.reel;
    let back = 0;
    for (let n = 1; n < cursors.length; n++) back += cursors[n] < cursors[n - 1];
    return `The cursor's path over ${length} steps; it goes back ${back} times.`;
  }

  seekTo(event) {
    const { left, width } = this.path.getBoundingClientRect();
    const part = Math.min(1, Math.max(0, (event.clientX - left) / width));
    this.seek(Math.round(part * this.reel.length));
  }

  /** The height that the last text needs. */
  measure() {
    this.box.style.minHeight = "";
    this.text.textContent = this.reel.last.text;
    this.shown = null;
    return this.box.offsetHeight;
  }

  show(step) {
    this.step = Math.min(step, this.reel.length);
    const state = this.reel.at(this.step);
    const coming = this.reel.toCome(state);
    this.drawText(state, coming);
    this.say(state, coming);
    this.head.style.left = `${(100 * this.step) / Math.max(1, this.reel.length)}%`;
    this.follow();
  }

  look(id) {
    if (this.found.has(id)) return "found";
    const step = this.reel.written[id];
    if (step >= 0 && step === this.step - 1) return "fresh";
    if (step < 0 || this.reel.steps[step].isGiven) return "there";
    if (!this.view.order) return "";
    const { opening, length } = this.reel;
    return `order${Math.min(SHADES - 1, Math.floor((SHADES * (step - opening)) / Math.max(1, length - opening)))}`;
  }

  drawText(state, coming) {
    const extras = new Map(); // place -> pieces that are not part of the text
    const put = (at, looks, text) => extras.set(at, [...(extras.get(at) ?? []), { text, looks }]);
    const { edit, found } = this.step > 0 ? this.reel.steps[this.step - 1] : {};
    this.found = new Set(found ? state.ids.subarray(...found) : []);
    if (edit?.removed) put(edit.offset, "gone", edit.removed);
    put(state.cursor, "cursor", "");
    if (this.view.ghost) for (const piece of coming) put(piece.at, "ghost", piece.text);
    const pieces = [];
    for (const run of runs(state, (id) => this.look(id), extras)) {
      pieces.push(...(extras.get(run.start) ?? []), run);
      extras.delete(run.start);
    }
    for (const rest of extras.values()) pieces.push(...rest);
    this.replace(pieces);
    this.keepInView();
  }

  /** Change only the pieces that differ: what stands before and behind them is left alone. */
  replace(pieces) {
    const old = this.shown;
    if (old === null) {
      this.text.replaceChildren(...pieces.map(node));
    } else {
      const least = Math.min(old.length, pieces.length);
      let head = 0;
      while (head < least && same(old[head], pieces[head])) head++;
      let tail = 0;
      while (tail < least - head && same(old.at(-1 - tail), pieces.at(-1 - tail))) tail++;
      const after = this.text.childNodes[old.length - tail] ?? null;
      for (let n = old.length - tail - head; n > 0; n--) this.text.childNodes[head].remove();
      const fresh = document.createDocumentFragment();
      fresh.append(...pieces.slice(head, pieces.length - tail).map(node));
      this.text.insertBefore(fresh, after);
    }
    this.shown = pieces;
  }

  keepInView() {
    if (this.box.scrollHeight <= this.box.clientHeight) return;
    const cursor = this.text.querySelector(".cursor").getBoundingClientRect();
    const box = this.box.getBoundingClientRect();
    if (cursor.top < box.top + 8 || cursor.bottom > box.bottom - 8) {
      this.box.scrollTop += cursor.top - box.top - box.height / 2;
    }
  }

  say(state, coming) {
    const left = coming.reduce((sum, piece) => sum + characters(piece.text), 0);
    const counts = several(characters(state.text), "character")
      + (left ? `, ${left} still to come at ${several(coming.length, "place")}`
        : this.reel.isDone ? ", all of the text" : " so far");
    this.says.replaceChildren(element("b", "", this.told()), document.createTextNode(`; ${counts}.`));
  }

  /** What the step did, in words. */
  told() {
    if (this.step === 0) return "Before the first step";
    const { edit: { removed, inserted }, word, isGiven, sought } = this.reel.steps[this.step - 1];
    const parts = [visible(word)];
    if (removed) parts.push(`takes away ${quoted(removed)}`);
    if (inserted || sought) parts.push(quoted(inserted || sought));
    if (isGiven) parts.push("(given)");
    return parts.join(" ");
  }

  /** Bring the step's row into view. */
  follow() {
    const top = Math.max(0, this.step - 1) * ROW;
    const { scrollTop, clientHeight } = this.list;
    if (top < scrollTop || top + ROW > scrollTop + clientHeight) {
      this.list.scrollTop = top - clientHeight / 2 + ROW / 2;
    }
    this.drawRows();
  }

  /** The rows that can be seen, and a few around them. */
  drawRows() {
    const first = Math.max(0, Math.floor(this.list.scrollTop / ROW) - 4);
    const end = Math.min(this.reel.length, first + Math.ceil(this.list.clientHeight / ROW) + 8);
    for (const [step, row] of this.made) {
      if (step < first || step >= end) {
        row.remove();
        this.made.delete(step);
      }
    }
    for (let step = first; step < end; step++) {
      if (!this.made.has(step)) this.made.set(step, this.rows.appendChild(this.row(step)));
    }
    for (const [step, row] of this.made) {
      row.setAttribute("aria-selected", String(step === this.step - 1));
    }
    const active = this.made.get(this.step - 1);
    if (active) this.list.setAttribute("aria-activedescendant", active.id);
    else this.list.removeAttribute("aria-activedescendant");
  }

  row(step) {
    const { edit: { removed, inserted }, word, logprob, isGiven, sought } = this.reel.steps[step];
    const row = element("div", "row");
    row.id = `${this.id}-${step}`;
    row.dataset.step = step;
    row.style.top = `${step * ROW}px`;
    row.setAttribute("role", "option");
    row.setAttribute("aria-setsize", this.reel.isDone ? this.reel.length : -1);
    row.setAttribute("aria-posinset", step + 1);
    const what = element("span", "what", visible(word));
    if (removed) {
      const gone = element("del");
      gone.append(element("bdi", "", visible(removed)));
      what.append(" ", gone);
    }
    const quote = inserted || sought;
    if (quote) what.append(" \u201c", element("bdi", "", visible(quote)), "\u201d");
    row.append(element("span", "number", String(step + 1)), what);
    if (isGiven) row.append(element("span", "chance", "given"));
    else if (logprob !== null) row.append(element("span", "chance", percent(logprob)));
    return row;
  }

  drawPath() {
    const { cursors, sizes, length, opening } = this.reel;
    const { width, height } = this.path.getBoundingClientRect();
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    const highest = sizes.reduce((most, size) => Math.max(most, size), 1);
    const x = (step) => (width * step) / Math.max(1, length);
    const y = (place) => 3 + ((height - 6) * place) / highest;
    const colours = getComputedStyle(this.element);
    const colour = (name) => colours.getPropertyValue(name).trim();
    context.beginPath();
    context.moveTo(0, 0);
    for (let step = 0; step <= length; step++) context.lineTo(x(step), y(sizes[step]));
    context.lineTo(width, 0);
    context.fillStyle = colour("--line");
    context.globalAlpha = 0.55;
    context.fill();
    context.fillRect(0, 0, x(opening), height);
    context.globalAlpha = 1;
    context.beginPath();
    context.moveTo(0, y(cursors[0]));
    for (let step = 1; step <= length; step++) context.lineTo(x(step), y(cursors[step]));
    context.strokeStyle = this.view.order ? this.gradient(context, x(opening), width) : colour("--series-0");
    context.lineWidth = length > 2 * width ? 0.75 : 1.5;
    context.lineJoin = "round";
    context.stroke();
  }

  /** The shades of the order of writing, from the style, over the steps they stand for. */
  gradient(context, start, end) {
    const gradient = context.createLinearGradient(start, 0, Math.max(end, start + 1), 0);
    const probe = this.path.appendChild(element("i"));
    for (let n = 0; n < SHADES; n++) {
      probe.className = `order${n}`;
      const late = getComputedStyle(probe).getPropertyValue("--late");
      probe.style.color = `color-mix(in oklch increasing hue, var(--series-0), var(--series-1) ${late})`;
      gradient.addColorStop(n / (SHADES - 1), getComputedStyle(probe).color);
    }
    probe.remove();
    return gradient;
  }
}

export const $ = (id) => document.getElementById(id);

export function element(tag, looks = "", text = "") {
  const made = document.createElement(tag);
  if (looks) made.className = looks;
  if (text) made.textContent = text;
  return made;
}

/** A piece of the text. What is not part of the text stands in an attribute, drawn by the style. */
function node({ text, looks }) {
  if (!["cursor", "ghost", "gone"].includes(looks)) return element("span", looks, text);
  const aside = element("span", looks);
  if (text) aside.dataset.text = text;
  aside.setAttribute("aria-hidden", "true");
  return aside;
}

export const several = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;

export function quoted(text) {
  const whole = [...visible(text)];
  const shown = whole.length > 40 ? [...whole.slice(0, 40), "\u2026"] : whole;
  return `\u201c\u2068${shown.join("")}\u2069\u201d`;
}

const same = (one, other) => one.looks === other.looks && one.text === other.text;

function percent(logprob) {
  const share = 100 * Math.exp(logprob);
  return share >= 0.1 ? `${share.toFixed(share < 10 ? 1 : 0)} %` : "< 0.1 %";
}
