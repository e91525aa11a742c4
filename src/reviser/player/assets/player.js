import { Reel, readPlace, steps, visible, writePlace } from "./edits.js";
import { $, Pane, element } from "./pane.js";
import { Playback } from "./playback.js";

// The page that `reviser replay` writes: which of its films are shown, and its address.

const { films } = JSON.parse($("data").textContent);
const reels = films.map(() => null);
const reel = (n) => (reels[n] ??= new Reel(films[n], steps(films[n])));
const now = { film: 0, beside: null };
const playback = new Playback({
  settled: () => history.replaceState(null, "", writePlace({ ...now, step: playback.step })),
  keys: { n: () => turn(1), p: () => turn(-1) },
});

function open(film, beside, step = null) {
  now.film = film;
  now.beside = beside;
  $("film").value = film;
  $("beside").value = beside ?? "";
  const shown = beside === null ? [film] : [film, beside];
  const seek = (to) => playback.seek(to);
  const panes = shown.map((n, place) => new Pane(reel(n), `pane${n}-${place}`, playback.view, seek));
  playback.show(panes, step);
}

function turn(change) {
  const film = now.film + change;
  if (film < 0 || film >= films.length) return;
  open(film, now.beside);
  playback.settle();
}

function fromAddress() {
  const { film, beside, step } = readPlace(location.hash, films.length);
  open(film ?? 0, beside, step);
}

films.forEach((film, n) => {
  for (const id of ["film", "beside"]) {
    const choice = element("option", "", `${n + 1}. ${visible(film.name)}`);
    choice.value = n;
    $(id).append(choice);
  }
});
$("film").addEventListener("change", () => {
  open(Number($("film").value), now.beside);
  playback.settle();
});
$("beside").addEventListener("change", () => {
  open(now.film, $("beside").value === "" ? null : Number($("beside").value), playback.step);
  playback.settle();
});
window.addEventListener("hashchange", fromAddress);
fromAddress();
