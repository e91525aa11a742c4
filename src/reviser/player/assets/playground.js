import { Backend, Failure } from "./backend.js";
import { words } from "./dictionary.js";
import { $, announce, button, element, several } from "./dom.js";
import { Proofread } from "./proofread.js";
import { Surface } from "./surface.js";

// The page: one document that the user and the model edit in turn. What the model does comes from
// `backend.js`, as edits of the text or as suggestions; nothing here knows tokens or actions.

const GAP = "{}";
const ENDED = {
  stop: "The model finished.",
  max_actions: "Stopped at the action limit.",
  context: "Stopped: the text is as long as this model can read.",
  cancelled: "Stopped.",
  time: "Stopped at the server's time limit.",
};
const ROUTES = { proofread: "revise", continue: "generate", fill: "infill", rewrite: "infill" };

const backend = new Backend();
const surface = new Surface($("source"), $("sheet"), marks);
const proofread = new Proofread(surface);
let model = null; // what the backend says about its model
let mode = "continue";
let picked = null; // the selection to rewrite: [start, end]
let work = null; // the task that is running
let result = null; // the work whose text is shown, until the user changes that text
let frame = 0;

// -- writing ---------------------------------------------------------------------------------------

async function run() {
  if (work !== null || model === null) return;
  showError("");
  const task = result?.task ?? { mode, text: surface.text, ...(mode === "rewrite" ? { spans: [picked] } : {}) };
  if (mode === "rewrite" && task.spans[0] === null) return showError("Select the part of the text to rewrite.");
  const mine = {
    task, began: performance.now(), stream: null, aborter: new AbortController(),
    isShown: false, // its text is on the page
    isLeft: false, // the user has gone to another text or mode since
  };
  work = mine;
  setWorking(true);
  announce(mode === "proofread" ? "Reading your text" : "Writing");
  try {
    await (task.mode === "proofread" ? suggest(mine) : write(mine));
  } catch (error) {
    if (!mine.aborter.signal.aborted || mine.stream) handle(error);
  } finally {
    cancelAnimationFrame(frame);
    frame = 0;
    work = null;
    setWorking(false);
    if (task.mode !== "proofread" && !mine.isLeft) finish(mine);
  }
}

async function suggest(mine) {
  const say = () => {
    const seconds = Math.round((performance.now() - mine.began) / 1000);
    setStatus(`${proofread.isPartial ? "The judge reads your text" : "Reading your text"} ... ${seconds ? `${seconds} s` : ""}`);
  };
  const clock = setInterval(say, 1000);
  say();
  proofread.clear();
  proofread.draw();
  try {
    const ask = (sure) => backend.revise(mine.task.text, { sure, words: words() }, mine.aborter.signal);
    if (model.proofreads && model.judges) {
      const sure = await ask(true);
      if (mine.aborter.signal.aborted) return;
      proofread.show(sure, true);
      say();
    }
    const changes = await ask(false);
    const seconds = ((performance.now() - mine.began) / 1000).toFixed(1);
    if (mine.aborter.signal.aborted) return;
    proofread.show(changes);
    setStatus(`Checked in ${seconds} seconds${model.proofreads && !model.judges ? " without a judge: only what is sure" : ""}.`);
  } finally {
    clearInterval(clock);
    proofread.settle();
    if (mine.aborter.signal.aborted && !mine.isLeft) setStatus(mine.why);
  }
}

async function write(mine) {
  const { seed = crypto.getRandomValues(new Uint32Array(1))[0], ...others } = settings();
  mine.seed = seed;
  setStatus(backend.isReady ? "Reading your text ..." : backend.loading);
  mine.stream = await backend.write(mine.task, { ...others, seed });
  if (mine.aborter.signal.aborted) await mine.stream.cancel();
  for await (const edit of mine.stream) {
    if (mine.isLeft) continue;
    show(mine);
    surface.take(edit);
    frame ||= requestAnimationFrame(() => draw(mine));
  }
  if (mine.stream.start && !mine.isLeft) show(mine);
}

/** Show the text of a task from its start, in place of what was shown. */
function show(mine) {
  if (mine.isShown) return;
  mine.isShown = true;
  mine.first = performance.now();
  result = mine;
  surface.begin(mine.stream.start);
}

function draw(mine) {
  frame = 0;
  surface.draw();
  setStatus(`Writing: ${counts(mine)}.`);
}

function counts(mine) {
  const seconds = (performance.now() - mine.first) / 1000;
  const count = surface.reel.length;
  return `${several(count, "action")}, ${Math.round(count / Math.max(seconds, 0.001))} per second`;
}

/** Show the end of a text: the whole result, or the text as far as it arrived. */
function finish(mine) {
  if (!mine.isShown) return setStatus(result?.status ?? status());
  surface.end();
  const { stream } = mine;
  const reason = ENDED[stream.reason] ?? "The connection was lost.";
  mine.status = `${reason} ${counts(mine)}.`;
  setStatus(mine.status);
  showResult(mine);
  announce(`${mine.status} The text is: ${surface.text}`);
}

function showResult({ seed, task, stream }) {
  const { late, reel } = surface;
  document.body.classList.add("written");
  $("write").textContent = "Try again";
  $("step").max = reel.length; // before the value, which it limits
  $("step").value = reel.length;
  seek();
  $("late").hidden = late.size === 0;
  $("facts").textContent = `Seed ${seed}.`;
  $("save").hidden = !stream.json;
  const isSame = stream.reason === undefined || holds(reel.last.text, kept(task));
  $("proof").classList.toggle("broken", !isSame);
  $("proof").textContent = isSame ? "" : "The model changed text that is not its own. Please report this.";
}

/** Return the parts of the user's text that the model must not change. */
function kept({ mode: how, text, spans }) {
  if (how === "continue") return [text];
  if (how === "fill") return text.split(GAP);
  return [text.slice(0, spans[0][0]), text.slice(spans[0][1])];
}

/** Return whether a text holds these parts, one after the other. */
function holds(text, parts) {
  let from = 0;
  return parts.every((part) => {
    const found = text.indexOf(part, from);
    from = found + part.length;
    return found >= 0;
  });
}

/** Stop what is running; `why` is shown if that was a check of the text. */
async function stop(why = "Stopped.") {
  if (work === null || work.aborter.signal.aborted) return;
  const mine = work;
  mine.why = why;
  mine.aborter.abort();
  try {
    await mine.stream?.cancel();
  } catch (error) {
    if (work === mine) handle(error); // else it has ended by itself
  }
}

function setWorking(isWorking) {
  const hadFocus = ["write", "stop"].includes(document.activeElement?.id);
  document.body.classList.toggle("writing", isWorking);
  surface.area.readOnly = isWorking && mode !== "proofread";
  surface.area.setAttribute("aria-busy", isWorking);
  $("stop").hidden = !isWorking;
  if (hadFocus) $(isWorking ? "stop" : "write").focus();
}

// -- the text --------------------------------------------------------------------------------------

/** Return what to mark in a text that the model is not writing. */
function marks(text) {
  if (mode === "proofread") return proofread.marks();
  if (mode === "rewrite") return picked ? [{ start: picked[0], end: picked[1], looks: "picked" }] : [];
  if (mode !== "fill") return [];
  return Array.from(text.matchAll(/\{\}/g), ({ index }) => ({ start: index, end: index + GAP.length, looks: "gap" }));
}

/** Show a text as the user's own; nothing that was said of another text stays. */
function setText(text) {
  if (work !== null) work.isLeft = true;
  result = null;
  picked = null;
  proofread.clear();
  document.body.classList.remove("written", "reviewed");
  surface.set(text);
  $("write").textContent = $(`mode-${mode}`).dataset.verb;
  setStatus(status());
  showError("");
}

function typed() {
  const [before, after] = [surface.text, surface.area.value];
  if (proofread.isApplying || before === after) return;
  if (mode !== "proofread") return setText(after);
  stop("Stopped, because the text has changed.");
  surface.set(after);
  showError("");
  if (proofread.isShown) {
    proofread.typed(before, after);
    setStatus("The text has changed. Proofread it again to check the new text.");
  }
}

function setMode(name) {
  stop();
  mode = name;
  document.body.dataset.mode = name;
  $(`mode-${name}`).checked = true;
  surface.area.placeholder = $(`mode-${name}`).dataset.hint;
  for (const field of fields()) field.disabled = name === "proofread"; // which has no settings
  setText(surface.text);
}

/** Put a gap at the cursor, in place of the selection. */
function putGap() {
  if (work !== null || !canDo("fill")) return;
  if (mode !== "fill") setMode("fill");
  const { area } = surface;
  area.focus();
  // The only way to insert text that the keyboard can undo.
  if (!document.execCommand("insertText", false, GAP)) {
    area.setRangeText(GAP, area.selectionStart, area.selectionEnd, "end");
    typed();
  }
}

/** Follow the selection: it is what to rewrite, or the suggestion to show. */
function selected() {
  if (document.activeElement !== surface.area || work !== null || result !== null) return;
  const { selectionStart: start, selectionEnd: end } = surface.area;
  if (mode === "proofread" && start === end && !proofread.isApplying) proofread.follows(start);
  if (mode !== "rewrite") return;
  picked = start < end ? [start, end] : null;
  surface.draw();
}

function seek() {
  const step = $("step").valueAsNumber;
  $("count").textContent = `${step} of ${surface.reel.length}`;
  surface.seek(step);
}

async function copy(from, make) {
  try {
    const text = make();
    await navigator.clipboard.writeText(text).catch(() => copyOldWay(text));
  } catch (error) {
    return showError(error.message);
  }
  const label = (from.dataset.label ??= from.textContent);
  from.textContent = "Copied";
  announce("Copied");
  setTimeout(() => { from.textContent = label; }, 1500);
}

/** Copy without the clipboard's permission, which pages have only on https and on localhost. */
function copyOldWay(text) {
  const focused = document.activeElement;
  const area = document.body.appendChild(element("textarea", "unseen"));
  area.value = text;
  area.select();
  document.execCommand("copy");
  area.remove();
  focused?.focus();
}

function save() {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([`${result.stream.json}\n`], { type: "application/json" }));
  link.download = "rollout.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// -- settings, as the backend's schema describes them ----------------------------------------------

function addSetting([name, schema]) {
  const range = schema.anyOf?.[0] ?? schema; // the other choice is null
  const field = element("input");
  field.type = "number";
  field.id = field.name = name;
  field.title = schema.description;
  field.placeholder = name === "seed" ? "new each time" : schema.default ?? "none";
  field.step = range.type === "integer" ? 1 : "any";
  field.min = range.minimum ?? range.exclusiveMinimum;
  field.max = Math.min(range.maximum, Number.MAX_SAFE_INTEGER); // JavaScript rounds larger ones
  const label = name.replaceAll("_", " ");
  $("settings").querySelector(".fields").append(element("label", "", label[0].toUpperCase() + label.slice(1), field));
}

const fields = () => [...$("settings").querySelectorAll("input")];

function settings() {
  const given = fields().filter((field) => field.value !== "");
  return Object.fromEntries(given.map((field) => [field.name, field.valueAsNumber]));
}

/** Keep mode and settings in the address; never texts and keys. */
function keepAddress() {
  history.replaceState(null, "", `#${new URLSearchParams({ mode, ...settings() })}`);
}

function readAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  for (const field of fields()) field.value = parameters.get(field.name) ?? "";
  const asked = parameters.get("mode");
  setMode(canDo(asked) ? asked : Object.keys(ROUTES).find(canDo));
}

// -- the page --------------------------------------------------------------------------------------

const canDo = (name) => model?.routes.includes(ROUTES[name]) ?? false;
const status = () => (backend.isReady ? "" : backend.loading);

function setStatus(words) {
  $("status").textContent = words;
}

function showError(message) {
  $("error").textContent = message;
}

function handle(error) {
  if (!(error instanceof Failure)) throw error;
  if (error.status === 401) return askForKey();
  const wait = error.retryAfter ? ` Try again in ${several(error.retryAfter, "second")}.` : "";
  showError(`${error.message}${wait}${work?.isShown ? " The text so far is kept." : ""}`);
}

function askForKey() {
  showError(backend.hasKey ? "The server does not accept this key." : "");
  $("key-form").hidden = false;
  $("key").focus();
}

function addExample(text) {
  const label = text.replaceAll(GAP, " ___").replaceAll("  ", " ");
  const made = button("", label, () => {
    if (work !== null) return;
    tryExample(text);
  });
  made.title = label; // it may be cut
  $("examples").append(element("li", "", made));
}

function tryExample(text) {
  setMode(text.includes(GAP) && canDo("fill") ? "fill" : canDo("proofread") ? "proofread" : "continue");
  setText(text);
  return run();
}

/** Show the text that the model wrote when the page was made. */
function showSample({ source, seed, start, edits }) {
  setMode(source.includes(GAP) ? "fill" : "continue");
  result = { task: { mode, text: source }, seed, stream: { start, reason: "stop", json: null } };
  surface.begin(start);
  for (const edit of edits) surface.take(edit);
  surface.end();
  showResult(result);
  result.status = `The model wrote this example. ${status()}`;
  setStatus(result.status);
}

async function open() {
  showError("");
  try {
    model = await backend.open();
  } catch (error) {
    return handle(error);
  }
  $("key-form").hidden = true;
  $("model").textContent = model.id;
  $("about").textContent = model.about;
  $("settings").querySelector(".fields").replaceChildren();
  Object.entries(model.settings).forEach(addSetting);
  $("examples").replaceChildren();
  model.examples.forEach(addExample);
  $("examples").parentElement.hidden = model.examples.length === 0;
  const can = Object.keys(ROUTES).filter(canDo);
  for (const name of Object.keys(ROUTES)) $(`mode-${name}`).parentElement.hidden = !can.includes(name);
  document.querySelector(".modes").hidden = can.length === 1;
  $("cannot").textContent = model.cannot;
  proofread.setScale(model.min_confidence, model.calibration);
  const text = surface.area.value; // the browser may have restored one
  readAddress();
  if (text) setText(text);
  else if (model.sample && !location.hash) showSample(model.sample);
  else if (model.examples.length > 0 && !location.hash) tryExample(model.examples[0]);
  document.body.dataset.page = "open";
}

function key(event) {
  const isCommand = (event.ctrlKey || event.metaKey) && !event.altKey;
  if (event.key === "Escape" && work !== null) stop();
  else if (isCommand && event.key === "Enter") $("ask").requestSubmit();
  else if (isCommand && event.key.toLowerCase() === "g" && !event.shiftKey) putGap();
  else if (event.key === "F8" && mode === "proofread") proofread.go(event.shiftKey ? -1 : 1);
  else return;
  event.preventDefault();
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
$("ask").addEventListener("invalid", () => { $("settings").open = true; }, true);
$("ask").addEventListener("change", ({ target }) => {
  if (target.name === "mode") setMode(target.value);
  if (target.name) keepAddress();
});
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  backend.setKey($("key").value);
  $("key").value = "";
  open().then(() => { if ($("key-form").hidden) surface.area.focus(); });
});
surface.area.addEventListener("input", typed);
document.addEventListener("selectionchange", selected);
$("stop").addEventListener("click", () => stop());
$("gap").addEventListener("click", putGap);
$("step").addEventListener("input", seek);
$("copy").addEventListener("click", () => copy($("copy"), () => surface.text));
$("copy-diff").addEventListener("click", () => copy($("copy-diff"), () => proofread.diff()));
$("copy-criticmarkup").addEventListener("click", () => copy($("copy-criticmarkup"), () => proofread.criticmarkup()));
$("save").addEventListener("click", save);
$("restore").addEventListener("click", () => { setText(result.task.text); surface.area.focus(); });
$("keep").addEventListener("click", () => { setText(surface.text); surface.area.focus(); });
document.addEventListener("keydown", key);
window.addEventListener("hashchange", readAddress);
window.addEventListener("pageshow", typed); // a browser may restore a text
backend.ready.then(
  () => {
    document.body.dataset.model = "ready";
    if (work === null && result?.status) setStatus(result.status = "The model is ready.");
    else if (work === null) setStatus(status());
  },
  (error) => {
    document.body.dataset.model = "failed";
    setStatus("");
    handle(error);
  },
);
open();
