// Plays mazes: one figure for each model, all at the same action.
const { size, rows } = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const place = (word) => [word.charCodeAt(0) - 96.5, Number(word.slice(1)) - 0.5];
let row = 0;
let step = 0;
let playing = true;

function shape(name, kind, attributes) {
  const element = document.createElementNS(SVG, name);
  element.setAttribute("class", kind);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function line(kind, a, b) {
  const [[x1, y1], [x2, y2]] = [place(a), place(b)];
  return shape("line", kind, { x1, y1, x2, y2 });
}

function dot(kind, word, r) {
  const [cx, cy] = place(word);
  return shape("circle", kind, { cx, cy, r });
}

function figure(show) {
  const last = show.frames.length - 1;
  const [path, left, action] = show.frames[Math.min(step, last)];
  const open = new Set(show.passages.map((pair) => pair.join("-")));
  const svg = shape("svg", "", { viewBox: `0 0 ${size} ${size}`, role: "img" });
  for (const [a, b] of show.passages) svg.append(line("open", a, b));
  svg.append(dot("start", show.start, 0.25), dot("goal", show.goal, 0.25));
  for (const word of left) svg.append(dot("left", word, 0.08));
  for (let n = 1; n < path.length; n++) {
    const pair = [path[n - 1], path[n]].sort().join("-");
    svg.append(line(open.has(pair) ? "path" : "wall", path[n - 1], path[n]));
  }
  if (path.length) svg.append(dot("here", path[path.length - 1], 0.18));
  const result = document.createElement("figure");
  const texts = [
    ["model", show.model],
    ["verdict", step >= last ? show.verdict : action],
    ["words", path.join(" ")],
  ];
  result.append(svg);
  for (const [kind, text] of texts) {
    const part = document.createElement("div");
    part.className = kind;
    part.textContent = text;
    result.append(part);
  }
  return result;
}

function draw() {
  $("step").max = Math.max(...rows[row].map((show) => show.frames.length)) - 1;
  $("step").value = step;
  $("play").textContent = playing ? "Pause" : "Play";
  $("shows").replaceChildren(...rows[row].map(figure));
}

rows.forEach((_, n) => {
  const choice = document.createElement("option");
  choice.value = n;
  choice.textContent = n + 1;
  $("maze").append(choice);
});
$("maze").addEventListener("change", () => {
  row = Number($("maze").value);
  step = 0;
  playing = true;
  draw();
});
$("step").addEventListener("input", () => {
  step = Number($("step").value);
  playing = false;
  draw();
});
$("play").addEventListener("click", () => {
  playing = !playing;
  if (playing && step >= Number($("step").max)) step = 0;
  draw();
});
setInterval(() => {
  if (!playing) return;
  if (step >= Number($("step").max)) playing = false;
  else step += 1;
  draw();
}, 180);
draw();
