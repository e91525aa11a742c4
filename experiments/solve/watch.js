
// Plays mazes: a figure for each model, all at the same step. The page puts dom.js before this.
const { captions, numbers, rows } = JSON.parse($("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const TICK = 180;
const DEAD_END = 700; // the path turns red, and a reader has to see why
const LAST = 2500;
let row = 0;
let step = 0;
let timer = null;

const middle = (word) => [word.charCodeAt(0) - 96.5, Number(word.slice(1)) - 0.5];
const length = () => Math.max(...rows[row].shows.map((frames) => frames.length)) - 1;
const frameOf = (frames) => frames[Math.min(step, frames.length - 1)];

function shape(name, looks, attributes) {
  const made = document.createElementNS(SVG, name);
  made.setAttribute("class", looks);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function line(looks, [x1, y1], [x2, y2]) {
  return shape("line", looks, { x1, y1, x2, y2 });
}

function dot(looks, word, r) {
  const [cx, cy] = middle(word);
  return shape("circle", looks, { cx, cy, r });
}

function label(x, y, text) {
  const made = shape("text", "", { x, y });
  made.textContent = text;
  return made;
}

function star([x, y]) {
  const corners = Array.from({ length: 10 }, (_, n) => {
    const [turn, r] = [(n * Math.PI) / 5, n % 2 ? 0.15 : 0.36];
    return `${x + r * Math.sin(turn)},${y - r * Math.cos(turn)}`;
  });
  return shape("polygon", "goal", { points: corners.join(" ") });
}

function drawing(maze, { path, left, keep, walls, says }) {
  const { size } = maze;
  const view = `-0.45 -0.45 ${size + 0.5} ${size + 0.5}`;
  const svg = shape("svg", "", { viewBox: view, role: "img", "aria-label": says });
  svg.append(shape("rect", "wall", { width: size, height: size }));
  for (let n = 0; n < size; n++) {
    svg.append(label(n + 0.5, -0.15, String.fromCharCode(97 + n)), label(-0.25, n + 0.6, n + 1));
  }
  for (const word of left) svg.append(dot("left", word, 0.1));
  svg.append(dot("start", maze.start, 0.27), star(middle(maze.goal)));
  for (let n = 1; n < path.length; n++) {
    const looks = n >= keep || walls.includes(n) ? "step bad" : "step";
    svg.append(line(looks, middle(path[n - 1]), middle(path[n])));
  }
  for (const [x1, y1, x2, y2] of maze.walls) svg.append(line("wall", [x1, y1], [x2, y2]));
  if (path.length) svg.append(dot(path.length > keep ? "here bad" : "here", path.at(-1), 0.19));
  return svg;
}

function figure(frames, n) {
  const frame = frameOf(frames);
  const isOver = step >= frames.length - 1;
  const isBad = frame.walls.length || (isOver && !rows[row].solved[n]);
  const state = element("p", isBad ? "state bad" : isOver ? "state good" : "state", frame.says);
  state.append(element("span", "actions-so-far", several(frame.actions, "action")));
  const words = element("p", "words", frame.path.slice(0, frame.keep).join(" "), " ");
  words.append(element("span", "bad", frame.path.slice(frame.keep).join(" ")));
  const made = element("figure", "", element("h2", "", captions[n]), drawing(rows[row], frame));
  made.append(state, words);
  return made;
}

function draw() {
  $("scrub").max = length();
  $("scrub").value = step;
  $("count").textContent = `${step} / ${length()}`;
  $("maze").value = row;
  $("prompt").textContent = rows[row].prompt;
  $("shows").replaceChildren(...rows[row].shows.map(figure));
  $("play").setAttribute("aria-label", timer ? "Pause" : "Play");
  document.body.classList.toggle("playing", timer !== null);
}

function wait() {
  if (step === length()) return LAST;
  return rows[row].shows.some((frames) => frameOf(frames).says.startsWith("dead end")) ? DEAD_END : TICK;
}

function tick() {
  if (step === length()) [row, step] = [(row + 1) % rows.length, 0];
  else step += 1;
  timer = setTimeout(tick, wait());
  draw();
}

function pause() {
  clearTimeout(timer);
  timer = null;
}

function seek(to) {
  pause();
  step = Math.min(Math.max(0, to), length());
  draw();
  announce(rows[row].shows.map((frames, n) => `${captions[n]}: ${frameOf(frames).says}`).join("; "));
}

function toggle() {
  if (timer) seek(step);
  else tick();
}

function open(to) {
  const isPlaying = timer !== null;
  row = (to + rows.length) % rows.length;
  seek(0);
  if (isPlaying) tick();
}

const keys = { " ": toggle, ArrowLeft: () => seek(step - 1), ArrowRight: () => seek(step + 1), n: () => open(row + 1) };
$("maze").append(...numbers.map((number, n) => new Option(`${number}`, n)));
$("maze").addEventListener("change", () => open(Number($("maze").value)));
$("scrub").addEventListener("input", () => seek(Number($("scrub").value)));
$("play").addEventListener("click", toggle);
$("back").addEventListener("click", () => seek(step - 1));
$("on").addEventListener("click", () => seek(step + 1));
$("next").addEventListener("click", () => open(row + 1));
document.addEventListener("keydown", (event) => {
  const act = keys[event.key];
  if (!act || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("button, select, input, summary")) return;
  event.preventDefault();
  act();
});
draw();
if (!matchMedia("(prefers-reduced-motion: reduce)").matches) timer = setTimeout(tick, LAST / 2);
