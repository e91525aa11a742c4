import { Surface } from "./surface.js";

// The page: sends a text to the worker that runs the model, and shows each edit as it arrives.

const $ = (id) => document.getElementById(id);
const content = JSON.parse($("content").textContent);
const ENDED = {
  stop: "The model finished.",
  max_actions: "Stopped at the limit of actions.",
  context: "Stopped: the text is as long as this model can read.",
  stopped: "Stopped.",
};
const GAP = "{}";

const surface = new Surface($("source"), $("sheet"));
const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
let isReady = false;
let failure = ""; // why there is no model
let source = null; // the user's text before the model wrote, while a result is shown
let work = null; // the text that is being written
let number = 0;
let frame = 0;

// -- writing ----------------------------------------------------------------------------------------

function write() {
  if (work !== null) return;
  showError(failure);
  if (failure) return;
  const text = source ?? surface.text;
  const seed = $("seed").value === "" ? crypto.getRandomValues(new Uint32Array(1))[0] : $("seed").valueAsNumber;
  const settings = { ...content.settings, seed };
  for (const name of ["temperature", "topK", "topP"]) settings[name] = $(name).valueAsNumber;
  work = { number: ++number, text, seed, actions: 0, began: null };
  worker.postMessage({ type: "write", number, task: { mode: mode(), text }, settings });
  setWriting(true);
  $("status").textContent = isReady ? "Reading your text ..." : loading();
  announce("Writing");
}

function stop() {
  if (work === null) return;
  // A model that is still loading has begun nothing.
  if (!isReady) finish("stopped");
  worker.postMessage({ type: "stop" });
}

/** Take a message of the worker; those of an older text are dropped. */
function take({ type, number: of, ...message }) {
  if (type === "ready") {
    isReady = true;
    document.body.dataset.model = "ready";
    if (work === null && !surface.isWriting) $("status").textContent = status();
    return;
  }
  if (type === "failed") {
    document.body.dataset.model = "failed";
    setWriting(false);
    work = null;
    $("status").textContent = "";
    failure = `The model could not be loaded. ${message.message}`;
    return showError(failure);
  }
  if (work?.number !== of) return;
  if (type === "start") {
    source = work.text;
    work.began = performance.now();
    surface.begin(message);
    document.body.classList.add("written");
  } else if (type === "step") {
    work.actions += 1;
    surface.take(message.edit);
    frame ||= requestAnimationFrame(draw);
  } else if (type === "end") finish(message.reason);
  else {
    setWriting(false);
    work = null;
    $("status").textContent = status();
    showError(message.message);
  }
}

function draw() {
  cancelAnimationFrame(frame);
  frame = 0;
  surface.draw();
  if (work?.began) $("status").textContent = `Writing: ${counts()}.`;
}

function counts() {
  const seconds = (performance.now() - work.began) / 1000;
  const rate = seconds > 0 ? `, ${Math.round(work.actions / seconds)} per second` : "";
  return `${work.actions} ${work.actions === 1 ? "action" : "actions"}${rate}`;
}

function finish(reason) {
  draw();
  surface.end();
  const { seed, began } = work;
  const summary = began ? `${ENDED[reason]} ${counts()}. Seed ${seed}.` : status();
  work = null;
  setWriting(false);
  $("status").textContent = summary;
  announce(began ? `${summary} The text is: ${surface.text}` : summary);
}

function setWriting(isWriting) {
  const hadFocus = ["write", "stop"].includes(document.activeElement?.id);
  document.body.classList.toggle("writing", isWriting);
  $("source").readOnly = isWriting;
  $("stop").hidden = !isWriting;
  $("write").textContent = source === null ? "Write" : "Write again";
  if (hadFocus) $(isWriting ? "stop" : "write").focus();
}

// -- the text ---------------------------------------------------------------------------------------

/** Show a text as the user's own. */
function show(text) {
  source = null;
  surface.set(text);
  document.body.classList.remove("written");
  $("write").textContent = "Write";
  $("status").textContent = status();
  showError("");
}

function setMode(name) {
  document.body.dataset.mode = name;
  $(`mode-${name}`).checked = true;
}

const mode = () => document.body.dataset.mode;
const loading = () => `Loading the model, ${content.megabytes} MB ...`;
const status = () => (isReady ? "The model is ready." : loading());

/** Put a gap at the cursor, in place of the selection. */
function putGap() {
  setMode("fill");
  if (source !== null) show(surface.text);
  const area = $("source");
  area.focus();
  // The only way to insert text that the keyboard can undo.
  if (!document.execCommand("insertText", false, GAP)) {
    area.setRangeText(GAP, area.selectionStart, area.selectionEnd, "end");
    surface.typed();
  }
}

async function copy() {
  try {
    await navigator.clipboard.writeText(surface.text);
  } catch { // no permission, or no https
    $("source").select();
    document.execCommand("copy");
    $("copy").focus();
  }
  $("copy").textContent = "Copied";
  announce("Copied");
  setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
}

function addExample(text) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text.replaceAll(GAP, " ___").replaceAll("  ", " ");
  button.title = button.textContent; // the label may be cut
  button.addEventListener("click", () => {
    if (work !== null) return;
    setMode(text.includes(GAP) ? "fill" : "continue");
    show(text);
    write();
  });
  const item = document.createElement("li");
  item.append(button);
  $("examples").append(item);
}

// -- the page ---------------------------------------------------------------------------------------

function showError(message) {
  $("error").textContent = message;
}

function announce(words) {
  $("live").textContent = words;
}

/** Show the text that the model wrote when the page was made, until somebody writes another. */
function showSample({ source: text, seed, start, edits }) {
  setMode(text.includes(GAP) ? "fill" : "continue");
  surface.begin(start);
  for (const edit of edits) surface.take(edit);
  surface.end();
  source = text;
  document.body.classList.add("written");
  $("write").textContent = "Write again";
  $("status").textContent = `The model wrote this example with seed ${seed}. ${loading()}`;
}

function key(event) {
  const isCommand = (event.ctrlKey || event.metaKey) && !event.altKey;
  if (event.key === "Escape" && work !== null) stop();
  else if (isCommand && event.key === "Enter") $("ask").requestSubmit();
  else if (isCommand && event.key.toLowerCase() === "g" && !event.shiftKey && work === null) putGap();
  else return;
  event.preventDefault();
}

for (const name of ["temperature", "topK", "topP"]) $(name).value = content.settings[name];
content.examples.forEach(addExample);
showSample(content.sample);
$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  write();
});
$("ask").addEventListener("invalid", () => { $("settings").open = true; }, true);
$("ask").addEventListener("change", ({ target }) => {
  if (target.name === "mode") setMode(target.value);
});
$("source").addEventListener("input", () => {
  surface.typed();
  show(surface.text);
});
$("stop").addEventListener("click", stop);
$("gap").addEventListener("click", putGap);
$("copy").addEventListener("click", copy);
$("restore").addEventListener("click", () => { show(source); $("source").focus(); });
$("keep").addEventListener("click", () => { setMode("continue"); show(surface.text); $("source").focus(); });
document.addEventListener("keydown", key);
worker.addEventListener("message", ({ data }) => take(data));
worker.addEventListener("error", () => take({ type: "failed", message: "Reload the page." }));
