import { $, announce, button, element, several } from "./dom.js";
import { setWords, words } from "./dictionary.js";
import { visible } from "./edits.js";
import {
  ACCEPTED, PENDING, REJECTED, criticmarkup, editBetween, endOf, follow, merged, revisionOf, unified, wholeWords, wordOf,
} from "./suggestions.js";

// Suggestions for the text: marks in it, and a card for each beside it. Changes the text only when
// the user accepts something.

const CONTEXT = 24; // units of the text that a card shows on either side
const REMEMBERED = 100; // texts whose suggestions come back with undo
const percent = (share) => `${Math.round(100 * share)} %`;

export class Proofread {
  constructor(surface) {
    this.surface = surface;
    this.least = 0; // the lowest certainty that is shown
    this.calibration = [];
    this.isApplying = false;
    this.clear();
    $("threshold").addEventListener("input", () => {
      this.least = $("threshold").valueAsNumber;
      this.draw();
    });
    $("accept-all").addEventListener("click", () => this.acceptAll());
    $("reject-all").addEventListener("click", () => this.rejectAll());
    $("bring-back").addEventListener("click", () => this.bringBack());
    $("cards").addEventListener("focusin", ({ target }) => this.activate(keyOf(target)));
    $("cards").addEventListener("pointerover", ({ target }) => this.activate(keyOf(target)));
    $("cards").addEventListener("click", ({ target }) => {
      if (!target.closest("button") && keyOf(target) !== null) this.select(keyOf(target));
    });
    window.addEventListener("resize", () => this.arrange());
  }

  /** Forget all suggestions. */
  clear() {
    this.all = [];
    this.active = null;
    this.isShown = false;
    this.isPartial = false; // the judge's suggestions are still to come
    this.made = 0;
    this.seen = new Map(); // the suggestions of texts, which undo brings back
  }

  /** Take how sure a suggestion must be at first, and how often the model was right so far. */
  setScale(minimum, calibration) {
    this.calibration = calibration;
    this.least = minimum ?? 0;
    this.lowest = calibration[0]?.[0] ?? 0;
    $("threshold").min = this.lowest;
    $("threshold").value = this.least;
  }

  /** Show the changes that the model suggests for the text; if `isPartial`, others follow. */
  show(changes, isPartial = false) {
    if (!this.isPartial) this.clear();
    this.isShown = true;
    this.isPartial = isPartial;
    const fresh = changes.map((change) => ({
      ...change,
      at: change.start,
      key: this.made++,
      // Without a confidence, the model's mean probability for the actions of the change.
      certainty: change.confidence ?? Math.exp(change.logprob / Math.max(1, change.actions)),
      word: change.confidence === null ? "likely" : "sure",
      state: PENDING,
    }));
    this.all = merged(this.all, fresh, this.least);
    for (const [text, some] of this.seen) this.seen.set(text, merged(some, fresh, this.least));
    this.changed();
    if (!isPartial) announce(`${this.summary()} ${this.pending.length ? "F8 goes to the next one." : ""}`);
  }

  /** Show what there is, because no more suggestions come. */
  settle() {
    if (!this.isPartial) return;
    this.isPartial = false;
    this.draw();
  }

  /** What nobody has decided about, and no word of the dictionary. */
  get open() {
    const known = new Set(words().map((word) => word.toLowerCase()));
    const { text } = this.surface;
    return this.all.filter((each) => each.state === PENDING && !known.has(wordOf(text, each).toLowerCase()));
  }

  get pending() {
    return this.open.filter(({ certainty }) => certainty >= this.least);
  }

  /** The suggestions to write down: accepted, or shown and not rejected. */
  get kept() {
    const { pending } = this;
    return this.all.filter((each) => each.state === ACCEPTED || pending.includes(each));
  }

  /** The marks in the text. */
  marks() {
    return this.kept.map((each) => ({
      start: each.start,
      end: endOf(each),
      key: each.key,
      looks: each.state === ACCEPTED ? "accepted" : `suggestion ${each.after ? "" : "deletion"} ${each.key === this.active ? "active" : ""}`,
    }));
  }

  summary() {
    if (this.all.length === 0) return this.isPartial ? "No suggestions so far." : "No suggestions. The model can miss mistakes.";
    const hidden = this.open.length - this.pending.length;
    if (this.pending.length + hidden === 0) return "No suggestions left.";
    return `${several(this.pending.length, "suggestion")}${hidden ? `, ${hidden} hidden` : ""}.`;
  }

  /** Follow what the user typed. */
  typed(before, after) {
    if (this.isApplying) return;
    const edit = editBetween(before, after, this.surface.area.selectionEnd);
    this.all = this.seen.get(after) ?? follow(this.all, edit, after);
    this.changed();
  }

  // -- decisions ------------------------------------------------------------------------------------

  accept(some) {
    if (some.length === 0) return;
    const { text } = this.surface;
    const [start, end] = [some[0].start, endOf(some.at(-1))];
    let [put, done, growth] = ["", start, 0];
    this.all = this.all.map((each) => {
      const moved = { ...each, start: each.start + growth };
      if (!some.includes(each)) return moved;
      put += text.slice(done, each.start) + each.after;
      done = endOf(each);
      growth += each.after.length - each.before.length;
      return { ...moved, state: ACCEPTED };
    });
    this.replace(start, end, put + text.slice(done, end));
  }

  /** Replace a part of the text as if it was typed, so that the keyboard can undo it. */
  replace(start, end, text) {
    const { area } = this.surface;
    this.isApplying = true;
    // On a phone, the focus would open the keyboard.
    const canType = !matchMedia("(pointer: coarse)").matches;
    if (canType) area.focus({ preventScroll: true });
    area.setSelectionRange(start, end);
    const isDone = canType && document.execCommand(text ? "insertText" : "delete", false, text);
    if (!isDone) area.setRangeText(text, start, end, "end");
    this.isApplying = false;
    this.surface.set(area.value);
    this.changed();
  }

  decide(key, act) {
    const at = this.pending.findIndex((each) => each.key === key);
    act(this.pending[at]);
    const next = this.pending[Math.min(at, this.pending.length - 1)];
    this.activate(next?.key ?? null);
    if (next) this.card(next.key).querySelector("button").focus({ preventScroll: true });
    else this.surface.area.focus({ preventScroll: true });
  }

  reject(some) {
    this.all = this.all.map((each) => (some.includes(each) ? { ...each, state: REJECTED } : each));
    this.changed();
  }

  acceptAll() {
    const { length } = this.pending;
    this.accept(this.pending);
    announce(`${several(length, "suggestion")} accepted.`);
  }

  rejectAll() {
    const { length } = this.pending;
    this.reject(this.pending);
    announce(`${several(length, "suggestion")} rejected.`);
  }

  addWord(word) {
    setWords([...words(), word]);
    this.changed();
  }

  removeWord(word) {
    setWords(words().filter((each) => each !== word));
    this.changed();
    announce(`“${word}” is not in your dictionary any more.`);
  }

  bringBack() {
    this.all = this.all.map((each) => (each.state === REJECTED ? { ...each, state: PENDING } : each));
    this.changed();
    announce(this.summary());
  }

  diff() {
    return unified(revisionOf(this.surface.text, this.kept));
  }

  criticmarkup() {
    return criticmarkup(revisionOf(this.surface.text, this.kept));
  }

  // -- what is shown --------------------------------------------------------------------------------

  changed() {
    this.seen.set(this.surface.area.value, this.all);
    if (this.seen.size > REMEMBERED) this.seen.delete(this.seen.keys().next().value);
    this.draw();
  }

  /** Go to the next suggestion after the cursor, or to the one before it. */
  go(direction) {
    const { pending, active } = this;
    if (pending.length === 0) return announce("There are no suggestions.");
    const caret = this.surface.area.selectionStart;
    const at = pending.findIndex(({ key }) => key === active);
    const after = pending.findIndex(({ start }) => start >= caret);
    const next = at >= 0 ? at + direction : direction > 0 ? (after < 0 ? 0 : after) : after - 1;
    const { key } = pending[(next + pending.length) % pending.length];
    this.activate(key);
    this.mark(key)?.scrollIntoView({ block: "nearest" });
    this.card(key).querySelector("button").focus();
  }

  /** Activate the suggestion at the cursor. */
  follows(caret) {
    const found = this.pending.find((each) => each.start <= caret && caret <= endOf(each));
    if (found) this.activate(found.key, true);
  }

  activate(key, isFromText = false) {
    if (this.active === key) return;
    this.active = key;
    for (const each of document.querySelectorAll("[data-key]")) {
      each.classList.toggle("active", Number(each.dataset.key) === key);
    }
    // The cards are a strip on a phone.
    if (isFromText) this.card(key).scrollIntoView({ block: "nearest", inline: "center" });
  }

  /** Select the text of a suggestion. */
  select(key) {
    const found = this.all.find((each) => each.key === key);
    this.mark(key)?.scrollIntoView({ block: "nearest" });
    if (matchMedia("(pointer: coarse)").matches) return;
    this.surface.area.focus({ preventScroll: true });
    this.surface.area.setSelectionRange(found.start, endOf(found));
  }

  card(key) {
    return $("cards").querySelector(`[data-key="${key}"]`);
  }

  mark(key) {
    return this.surface.sheet.querySelector(`[data-key="${key}"]`);
  }

  draw() {
    this.surface.draw();
    const { pending, all } = this;
    document.body.classList.toggle("reviewed", this.isShown);
    $("review-title").textContent = this.summary().replace(/\.$/, "");
    $("least").textContent = `${percent(this.least)} ${all[0]?.word}`;
    const measured = this.calibration.filter(([least]) => least <= this.least + 1e-9).at(-1);
    $("measured").textContent = measured ? `In tests, ${percent(measured[1])} of these were right.` : "";
    const rejected = all.filter(({ state }) => state === REJECTED).length;
    $("rejected").hidden = rejected === 0;
    $("rejected").firstElementChild.textContent = `${rejected} rejected.`;
    $("filter").hidden = new Set(all.map(({ certainty }) => certainty)).size < 2;
    $("accept-all").parentElement.hidden = pending.length === 0;
    $("copy-diff").parentElement.hidden = this.kept.length === 0;
    const focused = document.activeElement; // a button of a card, which a new card replaces
    const key = focused.closest("#cards [data-key]")?.dataset.key;
    $("cards").replaceChildren(...pending.map((each) => this.cardOf(each)));
    if (key) this.card(key)?.querySelector(`.${focused.classList[0]}`)?.focus({ preventScroll: true });
    $("dictionary").hidden = words().length === 0;
    $("words").replaceChildren(...words().map((word) => {
      const made = button("word", `${word} ✕`, () => this.removeWord(word));
      made.setAttribute("aria-label", `Remove from dictionary: ${word}`);
      return made;
    }));
    this.arrange();
  }

  cardOf(each) {
    const { key, certainty, word } = each;
    const { text } = this.surface;
    const { start, end, before, after } = wholeWords(text, each);
    const [old, fresh] = [shown(before), shown(after)];
    const what = !before ? `Insert ${fresh}` : after ? `Change ${old} to ${fresh}` : `Delete ${old}`;
    const change = element("p", "change", lastWord(text.slice(Math.max(0, start - CONTEXT), start)));
    if (before) change.append(element("del", "", old));
    if (after) change.append(element("wbr"), element("ins", "", fresh));
    change.append(firstWord(text.slice(end, end + CONTEXT)));
    const bar = element("i");
    bar.style.inlineSize = `${100 * certainty}%`;
    const sure = element("span", "sure", percent(certainty), element("b", "", bar));
    sure.title = `${percent(certainty)} ${word}`;
    const decision = (looks, sign, label, done, act) => {
      const made = button(looks, sign, () => this.decide(key, (it) => {
        act([it]);
        announce(`${done}. ${this.summary()}`);
      }));
      made.title = label.split(":")[0];
      made.setAttribute("aria-label", label);
      return made;
    };
    const accept = decision("accept", "✓", `Accept: ${what}, ${percent(certainty)} ${word}`, "Accepted", (some) => this.accept(some));
    const reject = decision("reject", "✕", `Reject: ${what}`, "Rejected", (some) => this.reject(some));
    const made = element("li", key === this.active ? "active" : "", change, sure, accept, reject);
    made.dataset.key = key;
    if (each.rule) made.append(this.reasonOf(each));
    return made;
  }

  /** Return the category and the reason of a suggestion, and a button for the dictionary. */
  reasonOf(each) {
    const made = element("p", "why", element("b", "", each.category), ` ${each.message} `);
    const entry = each.category === "spelling" ? wordOf(this.surface.text, each) : "";
    if (entry) {
      const add = button("add", "Add to dictionary", () => this.decide(each.key, () => {
        this.addWord(entry);
        announce(`“${entry}” is in your dictionary. ${this.summary()}`);
      }));
      add.setAttribute("aria-label", `Add to dictionary: ${entry}`);
      made.append(add);
    }
    return made;
  }

  /** Put each card beside its line, or below the card before. */
  arrange() {
    const cards = [...$("cards").children];
    for (const card of cards) card.style.marginTop = "";
    if (cards.length === 0 || matchMedia("(max-width: 60rem)").matches) return;
    const tops = cards.map((card) => this.mark(card.dataset.key)?.getBoundingClientRect().top ?? 0);
    const heights = cards.map((card) => card.offsetHeight);
    let bottom = $("cards").getBoundingClientRect().top;
    cards.forEach((card, n) => {
      const gap = Math.max(n ? 8 : 0, tops[n] - 12 - bottom);
      card.style.marginTop = `${gap}px`;
      bottom += gap + heights[n];
    });
  }
}

const keyOf = (node) => {
  const found = node.closest("[data-key]");
  return found ? Number(found.dataset.key) : null;
};

/** A text of a card, with white space that can be seen if there is nothing else. */
const shown = (text) => visible(text.trim() ? text : text.replaceAll(" ", "␣"));

/** Return the last word of what stands before a change, or the first of what stands after it. */
const lastWord = (text) => visible(text.match(/[^\s]*[^\S\n]*$/)[0]);
const firstWord = (text) => visible(text.match(/^[^\S\n]*[^\s]*/)[0]);
