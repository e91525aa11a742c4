import { Client, ServerError } from "../client.js";
import { Editor } from "./editor.js";
import { Reel, characters } from "./edits.js";
import { $, Pane, element, several } from "./pane.js";
import { Playback, announce } from "./playback.js";

// The playground: sends a task to the server and shows each edit as it arrives. The edits become a
// reel, so the finished text can be played like any other. Knows the server by its client only.

const KEY = "reviser-key"; // in sessionStorage, so for this tab only
const HOME = new URL(".", location.href).href;
const ENDED = {
  stop: "the model stopped",
  max_actions: "stopped at the action limit",
  context: "stopped at the end of the model's context",
  cancelled: "interrupted",
  time: "stopped at the server's time limit",
};

const client = new Client({ url: HOME, apiKey: savedKey() });
const editor = new Editor();
const playback = new Playback();
let work = null; // the last task that was sent
let result = null; // the work that is shown: the last one with an edit
let frame = 0;

// -- settings, from the server's schema -----------------------------------------------------------

function addSetting(name, schema) {
  const range = schema.anyOf?.[0] ?? schema; // the other choice is null
  const field = element("input");
  field.type = "number";
  field.id = field.name = name;
  field.title = schema.description;
  field.placeholder = schema.default ?? "none";
  field.step = range.type === "integer" ? 1 : "any";
  field.min = range.minimum ?? range.exclusiveMinimum;
  if (range.maximum !== undefined) {
    field.max = Math.min(range.maximum, Number.MAX_SAFE_INTEGER); // JavaScript rounds larger ones
  }
  const label = element("label", "", name.replace("_", " "));
  label.append(field);
  $("settings").querySelector(".fields").append(label);
}

const fields = () => [...$("settings").querySelectorAll("input")];

function settings() {
  const given = fields().filter((field) => field.value !== "");
  return Object.fromEntries(given.map((field) => [field.name, field.valueAsNumber]));
}

/** Keep mode and settings in the address; never texts and keys. */
function keepAddress() {
  const parameters = new URLSearchParams({ mode: editor.mode, ...settings() });
  history.replaceState(null, "", `#${parameters}`);
}

function readAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  for (const field of fields()) field.value = parameters.get(field.name) ?? "";
  const mode = parameters.get("mode");
  editor.setMode(["fill", "rewrite"].includes(mode) ? mode : "continue");
}

// -- the key ---------------------------------------------------------------------------------------

function savedKey() {
  try {
    return sessionStorage.getItem(KEY);
  } catch { // a browser may forbid storage
    return null;
  }
}

function takeKey(event) {
  event.preventDefault();
  client.apiKey = $("key").value;
  $("key").value = "";
  connect().then(() => { if ($("key-form").hidden) editor.area.focus(); });
}

function keepKey() {
  try {
    sessionStorage.setItem(KEY, client.apiKey);
  } catch { /* then only this page keeps it */ }
}

function askForKey() {
  showError(client.apiKey === null ? "" : "The server does not accept this key.");
  client.apiKey = null;
  $("key-form").hidden = false;
  $("key").focus();
}

async function connect() {
  showError("");
  try {
    const answer = await client.ask("/v1/models", {});
    const { data } = await answer.json();
    $("model").replaceChildren("Model: ", element("b", "", data[0].id));
    $("key-form").hidden = true;
    if (client.apiKey !== null) keepKey();
  } catch (error) {
    handle(error);
  }
}

// -- writing ---------------------------------------------------------------------------------------

async function write() {
  if (work?.isOpen) return;
  showError("");
  const { mode, text, spans, locked } = editor;
  if (mode === "rewrite" && (locked.length === 0 || spans.length === 0)) {
    return showError(locked.length === 0
      ? "Nothing is locked. Select the part of the text to keep and lock it."
      : "All of the text is locked, so there is nothing to write. Unlock a part of it.");
  }
  work = {
    isOpen: true, isCancelled: false, began: performance.now(), locked, reel: null, stream: null,
  };
  setWriting(true);
  $("status").textContent = "Waiting for the first edit ...";
  announce("Writing");
  const mine = work;
  try {
    mine.stream = mode === "continue" ? await client.stream(text, settings())
      : await client.streamInfill(text, { ...settings(), ...(mode === "rewrite" ? { spans } : {}) });
    if (mine.isCancelled) await mine.stream.cancel();
    for await (const edit of mine.stream) take(edit);
  } catch (error) {
    handle(error);
  } finally {
    mine.isOpen = false;
    if (!mine.stream?.rollout) mine.stream?.close();
    setWriting(false);
    await finish();
  }
}

/** Add an edit; all that arrive before the next frame are drawn together. */
function take(edit) {
  const reel = (work.reel ??= begin());
  const { kind, logprob } = edit;
  const way = edit.cursor < reel.cursors.at(-1) ? "back" : "on";
  const word = kind === "move" ? `move ${way}` : kind.replaceAll("_", " ");
  reel.append({ edit, word, logprob, isGiven: false });
  frame ||= requestAnimationFrame(draw);
}

function begin() {
  const { text, cursor } = work.stream.start;
  const reel = new Reel({ name: "Result", text, cursor });
  reel.isDone = false;
  result = work;
  document.body.classList.add("written");
  $("proof").textContent = "";
  playback.show([new Pane(reel, "pane", playback.view, (step) => playback.seek(step))]);
  bringIntoView();
  return reel;
}

function draw() {
  cancelAnimationFrame(frame);
  frame = 0;
  playback.grow();
  if (work.isOpen) $("status").textContent = summary();
}

function summary() {
  const { reel, began } = work;
  const seconds = ((work.ended ?? performance.now()) - began) / 1000;
  return [
    several(reel.length, "action"),
    several(characters(reel.last.text), "character"),
    `${(reel.length / seconds).toFixed(reel.length < 10 * seconds ? 1 : 0)} actions/s`,
  ].join(", ");
}

/** Show the end of a stream: the whole result, or the text as far as it arrived. */
async function finish() {
  const { stream } = work;
  work.ended = performance.now();
  if (!stream?.start) {
    $("status").textContent = result?.summary ?? "";
    return;
  }
  const reel = (work.reel ??= begin());
  const { rollout } = stream;
  reel.isDone = true;
  reel.facts = rollout ? facts(rollout) : [];
  draw();
  playback.arrange();
  $("save-rollout").disabled = !rollout;
  work.summary = `${summary()}; ${rollout ? ENDED[rollout.stop_reason] ?? rollout.stop_reason : "connection lost"}`;
  $("status").textContent = work.summary;
  announce(`Done: ${work.summary}.`);
  if (rollout) await prove(stream, work.locked);
}

function facts({ statistics, stop_reason, config, provenance }) {
  const listed = (values) => Object.entries(values).filter(([, value]) => value !== null)
    .map(([name, value]) => `${name} ${value}`).join(", ");
  return [
    ["Actions", `${statistics.actions}, of which ${statistics.moves} are moves`],
    ["Edits", `${statistics.edits}`],
    ["Tokens", `${statistics.tokens_before} before, ${statistics.tokens_after} after`],
    ["Stop reason", stop_reason.replace("_", " ")],
    ["Settings", listed(config)],
    ...Object.entries(provenance).map(([name, value]) => [
      name, typeof value === "object" ? listed(value) : `${value}`,
    ]),
  ];
}

/** Check that the text holds every locked text, and compare the server's hashes with our own. */
async function prove({ rollout }, locked) {
  if (locked.length === 0) return;
  const isThere = inOrder(work.reel.last.text, locked);
  const hashes = await Promise.all(locked.map(sha256));
  const isSame = rollout.locked.length === locked.length
    && rollout.locked.every(({ text, before, after }, n) =>
      text === locked[n] && before === after && (hashes[n] ?? before) === before);
  if (work.locked !== locked) return; // another text is being written by now
  const by = hashes[0] === null ? "by the server's SHA-256" : "by SHA-256, checked in this page";
  $("proof").classList.toggle("broken", !(isThere && isSame));
  $("proof").textContent = isThere && isSame ? `${several(locked.length, "locked text")} unchanged: ${by}.`
    : "Locked text was changed. Please report this.";
}

/** Return whether a text holds these parts, one after the other. */
function inOrder(text, parts) {
  const whole = ` ${text}`; // some tokenizers hide a space at the very start
  let from = 0;
  return parts.every((part) => {
    const found = whole.indexOf(part, from);
    from = found + part.length;
    return found >= 0;
  });
}

async function sha256(text) {
  if (!crypto.subtle) return null; // only on https and on localhost
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function interrupt() {
  const mine = work;
  if (!mine?.isOpen || mine.isCancelled) return;
  mine.isCancelled = true;
  try {
    await mine.stream?.cancel();
  } catch (error) {
    mine.isCancelled = false;
    if (mine.isOpen) handle(error); // else it has ended by itself
  }
}

function setWriting(isWriting) {
  const wasBelow = isWriting && document.activeElement?.closest(".take"); // which is hidden from now on
  document.body.classList.toggle("writing", isWriting);
  $("panes").setAttribute("aria-busy", isWriting);
  $("write").setAttribute("aria-disabled", isWriting);
  if (document.activeElement === $("stop")) $("write").focus();
  $("stop").hidden = !isWriting;
  if (wasBelow) $("stop").focus();
}

function bringIntoView() {
  if ($("panes").getBoundingClientRect().top < window.innerHeight / 2) return;
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  $("result").scrollIntoView({ behavior: isCalm ? "auto" : "smooth" });
}

// -- errors ----------------------------------------------------------------------------------------

function handle(error) {
  if (!(error instanceof ServerError)) throw error;
  if (error.status === 401) return askForKey();
  const wait = error.retryAfter ? ` Try again in ${several(error.retryAfter, "second")}.` : "";
  const rest = work?.isOpen && work.reel ? " The text so far is kept." : "";
  showError(error.message + wait + rest);
}

function showError(message) {
  $("error").textContent = message;
}

// -- the result ------------------------------------------------------------------------------------

const shown = () => result.reel.at(playback.step);

/** Continue with the text that is shown; what was there before is locked. */
function use() {
  const { text, ids } = shown();
  const locks = [];
  ids.forEach((id, n) => {
    if (result.reel.written[id] >= 0) return;
    if (locks.at(-1)?.[1] === n) locks.at(-1)[1]++;
    else locks.push([n, n + 1]);
  });
  editor.set(text, locks);
  if (editor.mode === "fill") editor.setMode("rewrite"); // no gaps are left
  editor.area.focus();
  announce("The result is now the text.");
}

async function copy() {
  const { text } = shown();
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no permission, or no https
    const area = document.body.appendChild(element("textarea", "unseen"));
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
    $("copy").focus();
  }
  $("copy").textContent = "Copied";
  announce("Copied");
  setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
}

function save(name, type, content) {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function another() {
  if (!$("seed")) return write();
  const { max, placeholder, valueAsNumber } = $("seed");
  const seed = Number.isNaN(valueAsNumber) ? Number(placeholder) : valueAsNumber;
  $("seed").value = seed >= Number(max) ? 0 : seed + 1;
  keepAddress();
  $("ask").requestSubmit();
}

// -- the page --------------------------------------------------------------------------------------

function key(event) {
  const isCommand = (event.ctrlKey || event.metaKey) && !event.altKey;
  const name = event.key.toLowerCase();
  if ($("keys").open) return;
  if (event.key === "Escape" && work?.isOpen) interrupt();
  else if (isCommand && event.key === "Enter") $("ask").requestSubmit();
  else if (isCommand && name === "g" && !event.shiftKey) editor.putGap();
  else if (isCommand && name === "l" && event.shiftKey) editor.toggleLock();
  else return;
  event.preventDefault();
  keepAddress();
}

async function start() {
  $("settings").open = matchMedia("(min-width: 52rem)").matches;
  readAddress();
  try {
    const schema = await (await client.ask("/openapi.json", {})).json();
    const { properties } = schema.components.schemas.GenerateBody;
    for (const [name, field] of Object.entries(properties)) {
      if (["integer", "number"].includes((field.anyOf?.[0] ?? field).type)) addSetting(name, field);
    }
  } catch (error) {
    return handle(error);
  }
  readAddress();
  await connect();
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  write();
});
$("ask").addEventListener("invalid", () => {
  $("settings").open = true;
  showError("");
}, true);
for (const event of ["input", "click"]) $("ask").addEventListener(event, () => showError(""));
$("ask").addEventListener("change", (event) => {
  if (event.target.name === "mode") editor.setMode(event.target.value);
  if (event.target !== editor.area) keepAddress();
});
$("key-form").addEventListener("submit", takeKey);
$("stop").addEventListener("click", interrupt);
$("use").addEventListener("click", use);
$("copy").addEventListener("click", copy);
$("save-text").addEventListener("click", () => save("text.txt", "text/plain", shown().text));
$("save-rollout").addEventListener("click", () =>
  save("rollout.json", "application/json", `${result.stream.json}\n`));
$("another").addEventListener("click", another);
document.addEventListener("keydown", key);
window.addEventListener("hashchange", readAddress);
window.addEventListener("pageshow", () => editor.typed()); // a browser may restore a text
start();
