"""Watch models solve mazes: in the terminal, as a page, or as a GIF; the maze beside the text.

    python -m experiments.solve.watch MODEL                      # in the terminal
    python -m experiments.solve.watch MODEL LTR --page maze.html # the two side by side
    python -m experiments.solve.watch MODEL LTR --gif maze.gif

MODEL is a model folder of an arm that edits, LTR one that writes left to right. Every frame is one
action, replayed by the executor. The GIF needs Pillow.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import reviser
from experiments.solve import mazes
from reviser.files import write_whole
from reviser.player.film import Replayer
from reviser.player.page import embedded, filled

HERE = Path(__file__).parent
MAX_ACTIONS = 220


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A maze after an action."""

    path: tuple[str, ...]
    """The cells of the text."""
    left: tuple[str, ...]
    """Cells that were in the text before."""
    action: str


@dataclass(frozen=True, kw_only=True)
class Show:
    """A maze, and how a model walked through it."""

    model: str
    index: int
    passages: frozenset[frozenset[str]]
    start: str
    goal: str
    frames: tuple[Frame, ...]

    @property
    def through_wall(self) -> int | None:
        """The first step of the last path that no passage allows, if there is one."""
        path = self.frames[-1].path
        walls = [n for n, pair in enumerate(pairwise(path)) if frozenset(pair) not in self.passages]
        return walls[0] if walls else None

    @property
    def verdict(self) -> str:
        """Return how it ended, in words."""
        if self.through_wall is not None:
            return "went through a wall"
        return "found the goal" if self.frames[-1].path[-1:] == (self.goal,) else "did not arrive"


def shows(folder: Path, indices: list[int]) -> Iterator[Show]:
    """Have a model solve test mazes; yield what it did."""
    replayer = Replayer.load(folder)
    tasks = [mazes.task(index) for index in indices]
    with reviser.load(folder) as model:
        rollouts = list(model.run_many(tasks, temperature=0.0, max_actions=MAX_ACTIONS))
    for index, rollout in zip(indices, rollouts, strict=True):
        film = replayer.film_of(rollout)
        *passages, _, start, _, goal = rollout.prompt.split()
        text, left = film.text, dict[str, None]()
        frames = [Frame(path=(), left=(), action="")]
        for step in film.steps:
            text = step.edit.apply(text)
            path = tuple(text.removeprefix(rollout.prompt).split())
            left |= dict.fromkeys(frames[-1].path)
            gone = tuple(cell for cell in left if cell not in path)
            frames.append(Frame(path=path, left=gone, action=step.action))
        yield Show(
            model=folder.name,
            index=index,
            passages=frozenset(frozenset(each.split("-")) for each in passages),
            start=start,
            goal=goal,
            frames=tuple(frames),
        )


# -- the terminal ---------------------------------------------------------------------------------

STYLES = {"path": "bold blue", "left": "red", "start": "bold green", "goal": "bold magenta"}


def drawn(show: Show, frame: Frame) -> str:
    """Return the maze as lines of text with rich's marks."""
    size = mazes.SIZE

    def is_open(a: tuple[int, int], b: tuple[int, int]) -> bool:
        return frozenset((mazes.name(a), mazes.name(b))) in show.passages

    def cell(x: int, y: int) -> str:
        word = mazes.name((x, y))
        if word in frame.path:
            sign, style = ("◆" if word == frame.path[-1] else "●"), STYLES["path"]
        elif word == show.goal:
            sign, style = "★", STYLES["goal"]
        elif word == show.start:
            sign, style = "○", STYLES["start"]
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
    """Draw every action in the terminal."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), auto_refresh=False) as live:
        for number, frame in enumerate(show.frames):
            last = number + 1 == len(show.frames)
            state = show.verdict if last else frame.action
            below = f"\n{' '.join(frame.path)}\n{state}, action {number}"
            live.update(Text.from_markup(drawn(show, frame)) + Text(below), refresh=True)
            time.sleep(1 / pace)


# -- the page -------------------------------------------------------------------------------------


def page(rows: list[list[Show]]) -> str:
    """Return one page that plays the shows of several mazes; each row has one maze."""
    script, style = ((HERE / name).read_text("utf-8") for name in ("watch.js", "watch.css"))

    def hashed(content: str) -> str:
        digest = hashlib.sha256(content.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    parts = {
        "policy": f"default-src 'none'; script-src {hashed(script)}; style-src {hashed(style)}",
        "title": escape("Mazes, solved by editing"),
        "style": style,
        "data": embedded({"size": mazes.SIZE, "rows": [[_fields(s) for s in row] for row in rows]}),
        "script": script,
    }
    return filled((HERE / "watch.html").read_text("utf-8"), parts)


def _fields(show: Show) -> dict[str, Any]:
    return {
        "model": show.model,
        "passages": sorted(sorted(pair) for pair in show.passages),
        "start": show.start,
        "goal": show.goal,
        "frames": [[frame.path, frame.left, frame.action] for frame in show.frames],
        "wall": show.through_wall,
        "verdict": show.verdict,
    }


# -- the GIF --------------------------------------------------------------------------------------

CELL, EDGE, GAP, BELOW = 36, 14, 26, 82
GREY, INK, FAINT = "#c9ccd3", "#1b1b1f", "#6b6d75"
BLUE, RED, GREEN = "#1b6ca8", "#d0342c", "#2e8b57"


def gif(row: list[Show], output: Path, captions: list[str]) -> int:
    """Draw the shows of one maze side by side; return the number of frames."""
    from PIL import Image, ImageDraw, ImageFont

    side = mazes.SIZE * CELL
    size = len(row) * (side + 2 * EDGE) + (len(row) - 1) * GAP, side + 2 * EDGE + BELOW
    font, small = (ImageFont.truetype("DejaVuSans.ttf", n) for n in (14, 11))
    count = max(len(show.frames) for show in row)
    pictures = []
    for number in range(count):
        picture = Image.new("RGB", size, "#ffffff")
        pen = ImageDraw.Draw(picture)
        for n, (show, caption) in enumerate(zip(row, captions, strict=True)):
            frame = show.frames[min(number, len(show.frames) - 1)]
            is_over = number >= len(show.frames) - 1
            at = EDGE + n * (side + 2 * EDGE + GAP), EDGE
            _draw_maze(pen, show, frame, at)
            top = at[1] + side + 8
            pen.text((at[0], top), caption, fill=INK, font=font)
            lines = _wrapped(" ".join(frame.path), small, side)
            for line, words in enumerate(lines[-2:]):
                pen.text((at[0], top + 20 + 14 * line), words, fill=FAINT, font=small)
            if is_over:
                colour = GREEN if show.verdict == "found the goal" else RED
                pen.text((at[0], top + 52), show.verdict, fill=colour, font=font)
        pictures.append(picture.quantize(32))
    pictures[0].save(
        output,
        save_all=True,
        append_images=pictures[1:],
        duration=[160] * (count - 1) + [3000],
        loop=0,
        optimize=True,
    )
    return count


def _wrapped(text: str, font: Any, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _draw_maze(pen: Any, show: Show, frame: Frame, at: tuple[int, int]) -> None:
    def centre(word: str) -> tuple[float, float]:
        x, y = mazes.cell_of(word)
        return at[0] + (x + 0.5) * CELL, at[1] + (y + 0.5) * CELL

    def dot(word: str, radius: float, colour: str) -> None:
        x, y = centre(word)
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)

    for pair in show.passages:
        a, b = pair
        pen.line([centre(a), centre(b)], fill=GREY, width=CELL // 2)
        for word in pair:
            x, y = centre(word)
            pen.rectangle((x - CELL / 4, y - CELL / 4, x + CELL / 4, y + CELL / 4), fill=GREY)
    dot(show.start, 9, GREEN)
    dot(show.goal, 9, RED)
    for word in frame.left:
        dot(word, 3, RED)
    for a, b in pairwise(frame.path):
        is_wall = frozenset((a, b)) not in show.passages
        pen.line([centre(a), centre(b)], fill=RED if is_wall else BLUE, width=6)
    if frame.path:
        dot(frame.path[-1], 7, BLUE)


def main() -> None:
    """Show a maze."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--index", type=int, nargs="+", default=[0], help="test mazes")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--gif", type=Path)
    parser.add_argument("--captions", nargs="+")
    parser.add_argument("--pace", type=float, default=8.0, help="actions per second")
    options = parser.parse_args()
    by_model = [list(shows(folder, options.index)) for folder in options.models]
    rows = [list(row) for row in zip(*by_model, strict=True)]
    if options.page:
        write_whole(options.page, page(rows))
    if options.gif:
        captions = options.captions or [folder.name for folder in options.models]
        print(gif(rows[0], options.gif, captions), "frames")
    if not (options.page or options.gif):
        for row in rows:
            for show in row:
                play(show, options.pace)


if __name__ == "__main__":
    main()
