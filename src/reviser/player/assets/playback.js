import { $, element } from "./pane.js";

// Steps through what panes show: play, pause, step, scrub, speed and keys, by the controls of
// view.html. Knows panes, not what they are of.

const SPEEDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];

/** `settled` is called when the steps come to rest; `keys` are more keys and what they do. */
export class Playback {
  constructor({ settled = () => {}, keys = {} } = {}) {
    this.panes = [];
    this.step = 0;
    this.isAtEnd = true; // and goes along when there is more
    this.isPlaying = false;
    this.view = { order: false, ghost: false };
    this.settled = settled;
    this.drawn = 0;
    this.rest = 0;
    this.keys = {
      " ": () => this.toggle(),
      ArrowLeft: (event) => this.seek(this.step - (event.shiftKey ? 10 : 1)),
      ArrowRight: (event) => this.seek(this.step + (event.shiftKey ? 10 : 1)),
      Home: () => this.seek(0),
      End: () => this.seek(this.length),
      "-": () => this.speed(-1),
      "+": () => this.speed(1),
      "=": () => this.speed(1),
      o: () => this.look("order", !this.view.order),
      t: () => this.look("ghost", !this.view.ghost),
      "?": () => $("keys").showModal(),
      ...keys,
    };
    this.listKeys = {
      ArrowUp: () => this.seek(this.step - 1),
      ArrowDown: () => this.seek(this.step + 1),
      PageUp: () => this.seek(this.step - 10),
      PageDown: () => this.seek(this.step + 10),
      Home: this.keys.Home,
      End: this.keys.End,
    };
    this.listen();
  }

  get length() {
    return Math.max(0, ...this.panes.map((pane) => pane.reel.length));
  }

  get opening() {
    return Math.min(...this.panes.map((pane) => pane.reel.opening));
  }

  /** Show these panes, at a step or where the first of them opens. */
  show(panes, step = null) {
    this.pause();
    this.panes = panes;
    $("panes").replaceChildren(...panes.map((pane) => pane.element));
    $("panes").className = panes.length === 1 ? "" : "two";
    this.step = Math.min(step ?? this.opening, this.length);
    this.isAtEnd = this.step === this.length;
    this.arrange();
  }

  /** The reels have grown; who stood at the end goes along. */
  grow() {
    if (this.isAtEnd) this.step = this.length;
    for (const pane of this.panes) pane.arrange();
    this.draw();
  }

  /** Everything that depends on the size of the page, or on its colours. */
  arrange() {
    // Room for the last text from the start, so that nothing below it jumps.
    const height = Math.max(...this.panes.map((pane) => pane.measure()));
    for (const pane of this.panes) {
      pane.box.style.minHeight = `${height}px`;
      pane.arrange();
    }
    this.draw();
  }

  draw() {
    for (const pane of this.panes) pane.show(this.step);
    const of = this.length;
    $("scrub").max = of;
    $("scrub").value = this.step;
    $("scrub").setAttribute("aria-valuetext", `${this.step} of ${of}`);
    $("count").textContent = `${this.step} / ${of}`;
  }

  redraw() {
    this.drawn ||= requestAnimationFrame(() => {
      this.drawn = 0;
      this.draw();
    });
  }

  seek(step) {
    if (!this.panes.length) return;
    this.pause();
    this.step = Math.min(Math.max(0, Math.round(step)), this.length);
    this.isAtEnd = this.step === this.length;
    this.redraw();
    this.settle();
  }

  /** Once the steps stop: call the listeners, and announce the state to screen readers. */
  settle() {
    clearTimeout(this.rest);
    this.rest = setTimeout(() => {
      this.settled();
      const told = this.panes.map((pane) => pane.told()).join("; beside: ");
      announce(`Step ${this.step} of ${this.length}: ${told}`);
    }, 350);
  }

  setPlaying(isPlaying) {
    this.isPlaying = isPlaying;
    document.body.classList.toggle("playing", isPlaying);
    $("play").setAttribute("aria-label", isPlaying ? "Pause" : "Play");
  }

  pause() {
    if (this.isPlaying) this.setPlaying(false);
  }

  play() {
    if (this.step >= this.length) this.step = this.opening;
    this.isAtEnd = false;
    this.setPlaying(true);
    clearTimeout(this.rest);
    announce("Playing");
    let due = this.step;
    let before = null;
    const tick = (time) => {
      if (!this.isPlaying) return;
      if (before !== null) due += (Math.min(250, time - before) / 1000) * Number($("speed").value);
      before = time;
      const step = Math.min(Math.floor(due), this.length);
      if (step !== this.step) {
        this.step = step;
        this.draw();
      }
      if (step < this.length) requestAnimationFrame(tick);
      else {
        this.isAtEnd = true;
        this.setPlaying(false);
        this.settle();
      }
    };
    this.draw();
    requestAnimationFrame(tick);
  }

  toggle() {
    if (!this.panes.length) return;
    if (!this.isPlaying) this.play();
    else {
      this.pause();
      this.settle();
    }
  }

  look(name, value) {
    this.view[name] = value;
    $(name).checked = value;
    if (this.panes.length) this.arrange();
  }

  speed(change) {
    const place = SPEEDS.indexOf(Number($("speed").value)) + change;
    $("speed").value = SPEEDS[Math.min(Math.max(0, place), SPEEDS.length - 1)];
  }

  listen() {
    for (const each of SPEEDS) {
      const choice = element("option", "", `${each}/s`);
      choice.value = each;
      choice.selected = each === 10;
      $("speed").append(choice);
    }
    const on = (id, kind, act) => $(id).addEventListener(kind, act);
    on("first", "click", () => this.seek(0));
    on("back", "click", () => this.seek(this.step - 1));
    on("play", "click", () => this.toggle());
    on("on", "click", () => this.seek(this.step + 1));
    on("last", "click", () => this.seek(this.length));
    on("scrub", "input", () => this.seek(Number($("scrub").value)));
    on("order", "change", () => this.look("order", $("order").checked));
    on("ghost", "change", () => this.look("ghost", $("ghost").checked));
    on("help", "click", () => $("keys").showModal());
    on("close", "click", () => $("keys").close());
    $("keys").querySelector("dl").append($("more-keys").content);
    document.addEventListener("keydown", (event) => this.key(event));
    let width = window.innerWidth;
    window.addEventListener("resize", () => {
      if (window.innerWidth !== width && this.panes.length) this.arrange(); // a phone's bars come and go
      width = window.innerWidth;
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      if (this.panes.length) this.arrange();
    });
  }

  key(event) {
    const { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
    if (!this.panes.length) return;
    const inList = target.closest?.(".actions");
    const act = (inList ? this.listKeys[event.key] : null)
      ?? ($("listen").checked ? this.keys[event.key] : null);
    if (!act || keeps(target, event.key)) return;
    event.preventDefault();
    act(event);
  }
}

/** Whether what has the focus has a use of its own for a key. */
function keeps(target, key) {
  if (target.closest?.("select, textarea")) return true;
  const isArrow = /^(Arrow|Home|End|Page)/.test(key);
  if (target.matches?.("input")) {
    if (target.type === "range") return isArrow;
    if (target.type === "radio") return isArrow || key === " ";
    return target.type !== "checkbox" || key === " ";
  }
  return key === " " && target.closest?.("button, summary, a") != null;
}

/** Tell who listens. */
export function announce(words) {
  $("live").textContent = words;
}
