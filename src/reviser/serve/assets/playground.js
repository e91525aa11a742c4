import { Client, ServerError } from "../client.js";
import { Editor } from "./editor.js";
import { Reel, characters } from "./edits.js";
import { $, Pane, element, several } from "./pane.js";
import { Playback, announce } from "./playback.js";

// The playground: asks the server to write, and shows each edit as it comes. What comes is one more
// reel, so when all is written, this page is the player of it. Knows the server by its client only.

const KEY = "reviser-key"; // in sessionStorage: this tab, until it is closed
const HOME = new URL(".", location.href).href;
const ENDED = {
  stop: "the model ended it",
  max_actions: "stopped at the most actions",
  context: "stopped at the end of the model's context",
  cancelled: "interrupted",
  time: "stopped at the server's longest time",
};

const client = new Client({ url: HOME, apiKey: recalled() });
const editor = new Editor();
const playback = new Playback();
let work = null; // what was asked for last
let result = null; // what is shown: the last work that came to an edit
let drawn = 0;

// -- settings: the server says which there are -----------------------------------------------------

function addSetting(name, told) {
  const range = told.anyOf?.[0] ?? told; // or null
  const field = element("input");
  field.type = "number";
  field.id = field.name = name;
  field.title = told.description;
  field.placeholder = told.default ?? "none";
  field.step = range.type === "integer" ? 1 : "any";
  field.min = range.minimum ?? range.exclusiveMinimum;
  if (range.maximum !== undefined) {
    field.max = Math.min(range.maximum, Number.MAX_SAFE_INTEGER); // beyond it, numbers are others
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

/** Mode and settings stand in the address; texts and keys never do. */
function keepAddress() {
  const told = new URLSearchParams({ mode: editor.mode, ...settings() });
  history.replaceState(null, "", `#${told}`);
}

function readAddress() {
  const told = new URLSearchParams(location.hash.slice(1));
  for (const field of fields()) field.value = told.get(field.name) ?? "";
  const mode = told.get("mode");
  editor.setMode(["fill", "rewrite"].includes(mode) ? mode : "continue");
}

// -- the key ---------------------------------------------------------------------------------------

function recalled() {
  try {
    return sessionStorage.getItem(KEY);
  } catch { // a browser may forbid it
    return null;
  }
}

function takeKey(event) {
  event.preventDefault();
  client.apiKey = $("key").value;
  $("key").value = "";
  greet().then(() => { if ($("door").hidden) editor.area.focus(); });
}

function keepKey() {
  try {
    sessionStorage.setItem(KEY, client.apiKey);
  } catch { /* then the page alone knows it */ }
}

function askForKey() {
  complain(client.apiKey === null ? "" : "The server does not know this key.");
  client.apiKey = null;
  $("door").hidden = false;
  $("key").focus();
}

async function greet() {
  complain("");
  try {
    const answer = await client.ask("/v1/models", {});
    const { data } = await answer.json();
    $("model").replaceChildren("Here: ", element("b", "", data[0].id));
    $("door").hidden = true;
    if (client.apiKey !== null) keepKey();
  } catch (error) {
    refused(error);
  }
}

// -- writing ---------------------------------------------------------------------------------------

async function write() {
  if (work?.isOpen) return;
  complain("");
  const { mode, text, spans, kept } = editor;
  if (mode === "rewrite" && (kept.length === 0 || spans.length === 0)) {
    return complain(kept.length === 0
      ? "Nothing is locked, so nothing would stay. Select a part of the text and lock it."
      : "All of the text is locked, so there is nothing to write. Unlock a part of it.");
  }
  work = { isOpen: true, isUnwanted: false, began: performance.now(), kept, reel: null, stream: null };
  setWriting(true);
  $("status").textContent = "Waiting for the first edit";
  announce("Writing");
  const mine = work;
  try {
    mine.stream = mode === "continue" ? await client.stream(text, settings())
      : await client.streamInfill(text, { ...settings(), ...(mode === "rewrite" ? { spans } : {}) });
    if (mine.isUnwanted) await mine.stream.cancel();
    for await (const edit of mine.stream) take(edit);
  } catch (error) {
    refused(error);
  } finally {
    mine.isOpen = false;
    if (!mine.stream?.rollout) mine.stream?.close();
    setWriting(false);
    await finish();
  }
}

/** One more edit, drawn with others that come before the next frame. */
function take(edit) {
  const reel = (work.reel ??= begin());
  const { kind, logprob } = edit;
  const way = edit.cursor < reel.cursors.at(-1) ? "back" : "on";
  const word = kind === "move" ? `move ${way}` : kind.replaceAll("_", " ");
  reel.append({ edit, word, logprob, isGiven: false });
  drawn ||= requestAnimationFrame(draw);
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
  cancelAnimationFrame(drawn);
  drawn = 0;
  playback.grow();
  if (work.isOpen) $("status").textContent = told();
}

function told() {
  const { reel, began } = work;
  const seconds = ((work.ended ?? performance.now()) - began) / 1000;
  return [
    several(reel.length, "action"),
    several(characters(reel.last.text), "character"),
    `${(reel.length / seconds).toFixed(reel.length < 10 * seconds ? 1 : 0)} actions/s`,
  ].join(", ");
}

/** What is left when nothing more comes: all of it, or as far as it came. */
async function finish() {
  const { stream } = work;
  work.ended = performance.now();
  if (!stream?.start) {
    $("status").textContent = result?.told ?? "";
    return;
  }
  const reel = (work.reel ??= begin());
  const { rollout } = stream;
  reel.isDone = true;
  reel.facts = rollout ? facts(rollout) : [];
  draw();
  playback.arrange();
  $("save-rollout").disabled = !rollout;
  work.told = `${told()}; ${rollout ? ENDED[rollout.stop_reason] ?? rollout.stop_reason : "broken off"}`;
  $("status").textContent = work.told;
  announce(`Done: ${work.told}.`);
  if (rollout) await prove(stream, work.kept);
}

function facts({ statistics, stop_reason, config, provenance }) {
  const listed = (values) => Object.entries(values).filter(([, value]) => value !== null)
    .map(([name, value]) => `${name} ${value}`).join(", ");
  return [
    ["Actions", `${statistics.actions}, of which ${statistics.moves} are moves`],
    ["Edits", `${statistics.edits}`],
    ["Tokens", `${statistics.tokens_before} before, ${statistics.tokens_after} after`],
    ["Ended by", stop_reason.replace("_", " ")],
    ["Settings", listed(config)],
    ...Object.entries(provenance).map(([name, value]) => [
      name, typeof value === "object" ? listed(value) : `${value}`,
    ]),
  ];
}

/** Look for what was to stay in the text, and compare the server's hashes, with our own if we can. */
async function prove({ rollout }, kept) {
  if (kept.length === 0) return;
  const isThere = inOrder(work.reel.last.text, kept);
  const hashes = await Promise.all(kept.map(sha256));
  const isSame = rollout.locked.length === kept.length
    && rollout.locked.every(({ text, before, after }, n) =>
      text === kept[n] && before === after && (hashes[n] ?? before) === before);
  if (work.kept !== kept) return; // another is being written by now
  const stretches = kept.length === 1 ? "1 locked stretch" : `${kept.length} locked stretches`;
  const by = hashes[0] === null ? "by the server's SHA-256" : "by SHA-256, checked in this page";
  $("proof").classList.toggle("broken", !(isThere && isSame));
  $("proof").textContent = isThere && isSame ? `${stretches}, untouched: ${by}.`
    : "Locked text was changed. Please report this.";
}

/** Whether a text holds these parts, one behind the other. */
function inOrder(text, parts) {
  const whole = ` ${text}`; // some tokenizers hide a space at the very start
  let place = 0;
  return parts.every((part) => {
    const found = whole.indexOf(part, place);
    place = found + part.length;
    return found >= 0;
  });
}

async function sha256(text) {
  if (!crypto.subtle) return null; // it is there on https and on this machine only
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function interrupt() {
  const mine = work;
  if (!mine?.isOpen || mine.isUnwanted) return;
  mine.isUnwanted = true;
  try {
    await mine.stream?.cancel();
  } catch (error) {
    mine.isUnwanted = false;
    if (mine.isOpen) refused(error); // else it had ended by itself
  }
}

function setWriting(isWriting) {
  const wasBelow = isWriting && document.activeElement?.closest(".take"); // which is hidden now
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

// -- trouble ---------------------------------------------------------------------------------------

function refused(error) {
  if (!(error instanceof ServerError)) throw error;
  if (error.status === 401) return askForKey();
  const wait = error.retryAfter ? ` Try again in ${several(error.retryAfter, "second")}.` : "";
  const rest = work?.isOpen && work.reel ? " What was written so far stays." : "";
  complain(error.message + wait + rest);
}

function complain(words) {
  $("trouble").textContent = words;
}

// -- what becomes of it ----------------------------------------------------------------------------

const shown = () => result.reel.at(playback.step);

/** Go on with the text that is shown; what was there before stays locked. */
function use() {
  const { text, ids } = shown();
  const locks = [];
  ids.forEach((id, n) => {
    if (result.reel.written[id] >= 0) return;
    if (locks.at(-1)?.[1] === n) locks.at(-1)[1]++;
    else locks.push([n, n + 1]);
  });
  editor.set(text, locks);
  if (editor.mode === "fill") editor.setMode("rewrite"); // there are no gaps left
  editor.area.focus();
  announce("The result is the text now.");
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
  else if (isCommand && name === "l" && event.shiftKey) editor.turnLock();
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
    for (const [name, told] of Object.entries(properties)) {
      if (["integer", "number"].includes((told.anyOf?.[0] ?? told).type)) addSetting(name, told);
    }
  } catch (error) {
    return refused(error);
  }
  readAddress();
  await greet();
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  write();
});
$("ask").addEventListener("invalid", () => {
  $("settings").open = true;
  complain("");
}, true);
for (const event of ["input", "click"]) $("ask").addEventListener(event, () => complain(""));
$("ask").addEventListener("change", (event) => {
  if (event.target.name === "mode") editor.setMode(event.target.value);
  if (event.target !== editor.area) keepAddress();
});
$("door").addEventListener("submit", takeKey);
$("stop").addEventListener("click", interrupt);
$("use").addEventListener("click", use);
$("copy").addEventListener("click", copy);
$("save-text").addEventListener("click", () => save("text.txt", "text/plain", shown().text));
$("save-rollout").addEventListener("click", () =>
  save("rollout.json", "application/json", `${result.stream.json}\n`));
$("another").addEventListener("click", another);
document.addEventListener("keydown", key);
window.addEventListener("hashchange", readAddress);
window.addEventListener("pageshow", () => editor.typed()); // a browser may have kept a text
start();
