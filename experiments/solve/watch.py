"""Watch models solve mazes: in the terminal, as a page, or as a GIF; the maze beside the text.

    python -m experiments.solve.watch MODEL                      # in the terminal
    python -m experiments.solve.watch MODEL LTR --page maze.html # the two side by side
    python -m experiments.solve.watch MODEL LTR --gif maze.gif

MODEL and LTR are model folders, or files of rollouts that `--save` wrote. The mazes are the first
test problems, unless `--index` names others. Every frame is a change of the text, replayed by the
executor. The GIF needs Pillow.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, TypeAlias

import reviser
from experiments.solve import mazes
from reviser.files import write_whole
from reviser.player.film import Replayer
from reviser.player.page import asset, document, filled
from reviser.writing.rollout import Rollout

HERE = Path(__file__).parent
MODEL = HERE.parents[1] / "models" / "maze"
"""The model of the page in the documentation; its vocabulary replays all rollouts of mazes."""
SAVED = [HERE / "results" / f"watch-{name}.jsonl" for name in ("editor", "ltr")]
"""What that model and one that writes left to right did with the first test problems."""
CAPTIONS = ["Editing", "Left to right"]
MAX_ACTIONS = 220
SHOWN = [*range(1, 9)]
"""Test problems to show: the first ones, so that none is picked."""
FOUND = "finds the goal"

Cells: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A maze after a change of the text."""

    path: Cells = ()
    """The cells of the text."""
    left: Cells = ()
    """Cells that were in the text before."""
    keep: int = 0
    """Cells of the path that are still there when the model next adds one."""
    walls: tuple[int, ...] = ()
    """Steps of the path, by number, that no passage allows."""
    actions: int = 0
    """Actions so far, arguments and STOP included."""
    says: str = ""
    """What happens, in words."""


@dataclass(frozen=True, kw_only=True)
class Show:
    """A maze, and how a model walked through it."""

    prompt: str
    frames: tuple[Frame, ...]

    @property
    def verdict(self) -> str:
        """Return how it ended, in words."""
        return self.frames[-1].says


class Maze:
    """The maze of a prompt."""

    def __init__(self, prompt: str) -> None:
        *passages, _, self.start, _, self.goal = prompt.split()
        self.passages = {frozenset(each.split("-")) for each in passages}
        self.size = max(int(cell[1:]) for pair in self.passages for cell in pair)

    def is_open(self, a: str, b: str) -> bool:
        """Return whether a passage joins two cells."""
        return frozenset((a, b)) in self.passages

    def walls(self) -> list[tuple[int, int, int, int]]:
        """Return the inner walls as lines, in units of a cell."""
        cells = [(x, y) for x in range(self.size) for y in range(self.size)]
        left = [((x - 1, y), (x, y), (x, y, x, y + 1)) for x, y in cells if x]
        above = [((x, y - 1), (x, y), (x, y, x + 1, y)) for x, y in cells if y]
        sides = left + above
        return [line for a, b, line in sides if not self.is_open(mazes.name(a), mazes.name(b))]

    def crossed(self, path: Cells) -> tuple[int, ...]:
        """Return the steps of a path, by number, that no passage allows."""
        return tuple(n for n, step in enumerate(pairwise(path), 1) if not self.is_open(*step))

    def fault(self, path: Cells) -> str:
        """Return the first step that no passage allows, in words; empty if there is none."""
        for n in self.crossed(path):
            (x, y), (i, j) = map(mazes.cell_of, path[n - 1 : n + 1])
            verb = "walks through a wall" if abs(x - i) + abs(y - j) == 1 else "jumps"
            return f"{verb} from {path[n - 1]} to {path[n]}"
        return ""

    def verdict(self, words: list[str], stop_reason: str) -> str:
        """Return how a text ends; where the passages are a tree, only one path has no fault."""
        path = tuple(takewhile(_is_cell, words))
        if path[:1] != (self.start,):
            return f"does not begin at {self.start}"
        if fault := self.fault(path):
            return fault
        if len(path) < len(words):
            return f"writes {words[len(path)]!r}, which is not a cell"
        if path[-1] != self.goal or stop_reason != "stop":
            return f"stops at {path[-1]}"
        return FOUND if len({*path}) == len(path) else "takes a detour"

    def says(self, frame: Frame, before: Cells) -> str:
        """Return what happens in a frame, after one with this path."""
        if fault := self.fault(frame.path):
            return fault
        cell = frame.path[-1] if frame.path else ""
        if len(frame.path) < len(before):
            return f"goes back to {cell}"
        if frame.keep == len(frame.path):
            return f"goes to {cell}" if before else f"begins at {cell}"
        around = {each for pair in self.passages if cell in pair for each in pair}
        is_end = around <= {*frame.path, *frame.left}
        return f"{'dead end' if is_end else 'turns round'} at {cell}"


def _is_cell(word: str) -> bool:
    return word[1:].isdigit()


def show_of(rollout: Rollout, replayer: Replayer) -> Show:
    """Return what a model did with a maze."""
    film = replayer.film_of(rollout)
    maze, text, frames, words = Maze(rollout.prompt), film.text, [Frame()], list[str]()
    for number, step in enumerate(film.steps, 1):
        text = step.edit.apply(text)
        words = text.removeprefix(rollout.prompt).split()
        path, before = tuple(takewhile(_is_cell, words)), frames[-1]
        if path != before.path:
            left = dict.fromkeys((*before.left, *before.path))
            gone = tuple(cell for cell in left if cell not in path)
            frames.append(Frame(path=path, left=gone, actions=number))
    for n, keep in enumerate(_kept([len(frame.path) for frame in frames])):
        frame = replace(frames[n], keep=keep, walls=maze.crossed(frames[n].path))
        frames[n] = replace(frame, says=maze.says(frame, frames[n - 1].path) if n else "")
    end = replace(
        frames[-1], actions=len(film.steps), says=maze.verdict(words, rollout.stop_reason)
    )
    return Show(prompt=rollout.prompt, frames=(*frames, end))


def _kept(sizes: list[int]) -> list[int]:
    """Return for each size the one at which the shrinking that it is part of ends."""
    kept: list[int] = []
    for size, after in zip(reversed(sizes), [sizes[-1], *reversed(sizes)], strict=False):
        kept.append(kept[-1] if after < size else size)
    return kept[::-1]


def rollouts_of(source: Path, numbers: Sequence[int]) -> list[Rollout]:
    """Return rollouts of test mazes, numbered from 1: by a model folder, or from a file."""
    tasks = [mazes.task(number - 1) for number in numbers]
    if source.is_dir():
        with reviser.load(source) as model:
            return list(model.run_many(tasks, temperature=0.0, max_actions=MAX_ACTIONS))
    lines = source.read_text("utf-8").splitlines()
    by_prompt = {each.prompt: each for each in map(Rollout.from_json, lines)}
    if missing := [
        n for n, task in zip(numbers, tasks, strict=True) if task.prompt not in by_prompt
    ]:
        raise SystemExit(
            f"error: {source} has no rollout of maze {missing[0]}; give a model folder."
        )
    return [by_prompt[task.prompt] for task in tasks]


def rows_of(columns: Sequence[Sequence[Rollout]]) -> list[list[Show]]:
    """Return a row of shows for each maze, from the rollouts of each model."""
    replayer = Replayer.load(MODEL)
    return [[show_of(each, replayer) for each in row] for row in zip(*columns, strict=True)]


# -- the terminal ---------------------------------------------------------------------------------

STYLES = {"path": "bold blue", "back": "bold red", "left": "red", "start": "bold green"}


def drawn(show: Show, frame: Frame) -> str:
    """Return the maze as lines of text with rich's marks."""
    maze = Maze(show.prompt)
    size = maze.size

    def is_open(a: mazes.Cell, b: mazes.Cell) -> bool:
        return maze.is_open(mazes.name(a), mazes.name(b))

    def cell(x: int, y: int) -> str:
        word = mazes.name((x, y))
        if word in frame.path:
            style = STYLES["path" if frame.path.index(word) < frame.keep else "back"]
            sign = "◆" if word == frame.path[-1] else "●"
        elif word in (maze.start, maze.goal):
            sign, style = ("★" if word == maze.goal else "○"), STYLES["start"]
        else:
            sign, style = ("·", STYLES["left"]) if word in frame.left else (" ", "")
        return f" [{style}]{sign}[/] " if style else f" {sign} "

    lines = ["┼" + "───┼" * size]
    for y in range(size):
        row = "".join(
            cell(x, y) + (" " if x + 1 < size and is_open((x, y), (x + 1, y)) else "│")
            for x in range(size)
        )
        floor = "".join(
            ("   " if y + 1 < size and is_open((x, y), (x, y + 1)) else "───") + "┼"
            for x in range(size)
        )
        lines += ["│" + row, "┼" + floor]
    return "\n".join(lines)


def play(show: Show, pace: float) -> None:
    """Draw every change in the terminal."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), auto_refresh=False) as live:
        for frame in show.frames:
            below = f"\n{' '.join(frame.path)}\n{frame.says}, action {frame.actions}"
            live.update(Text.from_markup(drawn(show, frame)) + Text(below), refresh=True)
            time.sleep(1 / pace)


# -- the page -------------------------------------------------------------------------------------


def page(
    rows: list[list[Show]], captions: Sequence[str], numbers: Sequence[int], note: str = ""
) -> str:
    """Return one page that plays the shows of several mazes; each row has one maze."""
    about = f"{counts(rows, captions, numbers)} {note}"
    return document(
        title="Mazes, solved by editing",
        style=asset("player.css") + (HERE / "watch.css").read_text("utf-8"),
        body=filled((HERE / "watch.html").read_text("utf-8"), {"counts": escape(about)}),
        data={
            "captions": captions,
            "numbers": numbers,
            "rows": [_fields(row) for row in rows],
        },
        script=asset("dom.js") + (HERE / "watch.js").read_text("utf-8"),
    )


def counts(rows: list[list[Show]], captions: Sequence[str], numbers: Sequence[int]) -> str:
    """Return which mazes are shown, and how many of them each model solves."""
    which = f"test problems {', '.join(map(str, numbers))}"
    if list(numbers) == [*range(1, len(rows) + 1)]:
        which = f"first {len(rows)} test problems, none of them picked"
    solved = [sum(show.verdict == FOUND for show in column) for column in zip(*rows, strict=True)]
    parts = [f"{name}: {n} of {len(rows)}" for name, n in zip(captions, solved, strict=True)]
    return f"The mazes are the {which}. Solved: {'; '.join(parts)}."


def _fields(row: list[Show]) -> dict[str, Any]:
    maze = Maze(row[0].prompt)
    return {
        "prompt": row[0].prompt,
        "size": maze.size,
        "start": maze.start,
        "goal": maze.goal,
        "walls": maze.walls(),
        "shows": [[asdict(frame) for frame in show.frames] for show in row],
        "solved": [show.verdict == FOUND for show in row],
    }


# -- the GIF --------------------------------------------------------------------------------------

CELL, EDGE, GAP, TOP, BELOW = 40, 20, 30, 52, 76
BACK, INK, FAINT, TRACE = "#ffffff", "#1b1b1f", "#5b5d66", "#f1b8a5"
BLUE, RED, GREEN = "#0072b2", "#d0342c", "#00815c"
TICK, DEAD_END, LAST = 180, 700, 3500
"""Milliseconds of a picture: usually, where the path turns red, and at the end of a maze."""


def gif(
    rows: list[list[Show]], output: Path, captions: Sequence[str], numbers: Sequence[int]
) -> int:
    """Draw mazes one after another, all models side by side; return the number of pictures."""
    pictures, times = [], []
    for row, number in zip(rows, numbers, strict=True):
        count = max(len(show.frames) for show in row)
        for step in range(count):
            frames = [show.frames[min(step, len(show.frames) - 1)] for show in row]
            pictures.append(_picture(row, frames, [f"{each}, maze {number}" for each in captions]))
            turns = any(f.says.startswith("dead end") for f in frames)
            times.append(LAST if step + 1 == count else DEAD_END if turns else TICK)
    first, *others = pictures
    first.save(output, save_all=True, append_images=others, duration=times, loop=0, optimize=True)
    return len(pictures)


def _picture(row: list[Show], frames: list[Frame], captions: list[str]) -> Any:
    from PIL import Image, ImageDraw, ImageFont

    side = Maze(row[0].prompt).size * CELL
    width = len(row) * (side + GAP) - GAP + 2 * EDGE
    font, small = (ImageFont.truetype("DejaVuSans.ttf", n) for n in (14, 11))
    picture = Image.new("RGB", (width, side + TOP + BELOW), BACK)
    pen = ImageDraw.Draw(picture)
    for n, (show, frame, caption) in enumerate(zip(row, frames, captions, strict=True)):
        x = EDGE + n * (side + GAP)
        pen.text((x, 10), caption, fill=INK, font=font)
        _draw_maze(pen, small, Maze(show.prompt), frame, (x, TOP))
        is_over = frame is show.frames[-1]
        colour = (
            RED if frame.walls or (is_over and show.verdict != FOUND) else GREEN if is_over else INK
        )
        pen.text((x, TOP + side + 10), frame.says, fill=colour, font=font)
        for line, words in enumerate(_wrapped(" ".join(frame.path), small, side)[-2:]):
            pen.text((x, TOP + side + 34 + 15 * line), words, fill=FAINT, font=small)
    return picture.quantize(64)


def _wrapped(text: str, font: Any, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _draw_maze(pen: Any, font: Any, maze: Maze, frame: Frame, at: tuple[int, int]) -> None:
    def point(x: float, y: float) -> tuple[float, float]:
        return at[0] + x * CELL, at[1] + y * CELL

    def centre(word: str) -> tuple[float, float]:
        x, y = mazes.cell_of(word)
        return point(x + 0.5, y + 0.5)

    def dot(word: str, radius: float, colour: str) -> None:
        x, y = centre(word)
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)

    pen.rectangle([point(0, 0), point(maze.size, maze.size)], outline=INK, width=3)
    for n in range(maze.size):
        pen.text(point(n + 0.5, -0.2), chr(97 + n), fill=FAINT, anchor="mm", font=font)
        pen.text(point(-0.2, n + 0.5), str(n + 1), fill=FAINT, anchor="mm", font=font)
    for word in frame.left:
        dot(word, 4, TRACE)
    dot(maze.start, 11, GREEN)
    x, y = centre(maze.goal)
    pen.polygon([(x, y - 12), (x + 12, y), (x, y + 12), (x - 12, y)], fill=GREEN)
    for n, (a, b) in enumerate(pairwise(frame.path), 1):
        is_red = n >= frame.keep or n in frame.walls
        pen.line([centre(a), centre(b)], fill=RED if is_red else BLUE, width=6)
        dot(b, 3, RED if is_red else BLUE)
    for x1, y1, x2, y2 in maze.walls():
        pen.line([point(x1, y1), point(x2, y2)], fill=INK, width=3)
    if frame.path:
        dot(frame.path[-1], 7, RED if len(frame.path) > frame.keep else BLUE)


def main() -> None:
    """Show mazes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--mazes", type=int, nargs="+", default=SHOWN, help="numbers, from 1")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--gif", type=Path)
    parser.add_argument("--save", type=Path, nargs="+", help="a file of rollouts for each model")
    parser.add_argument("--captions", nargs="+", default=CAPTIONS)
    parser.add_argument("--pace", type=float, default=8.0, help="changes per second")
    options = parser.parse_args()
    numbers, captions = options.mazes, options.captions[: len(options.models)]
    columns = [rollouts_of(source, numbers) for source in options.models]
    rows = rows_of(columns)
    for path, source, rollouts in zip(options.save or (), options.models, columns, strict=False):
        named = [replace(r, provenance={**r.provenance, "model": source.name}) for r in rollouts]
        write_whole(path, "".join(f"{rollout.to_json()}\n" for rollout in named))
    if options.page:
        write_whole(options.page, page(rows, captions, numbers))
    if options.gif:
        print(gif(rows, options.gif, captions, numbers), "pictures")
    if not (options.page or options.gif or options.save):
        for number, row in zip(numbers, rows, strict=True):
            for caption, show in zip(captions, row, strict=True):
                print(f"{caption}, maze {number}")
                play(show, options.pace)


if __name__ == "__main__":
    main()
