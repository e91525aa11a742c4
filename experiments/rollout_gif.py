"""Draw a rollout as a GIF: docs/img/writing.gif, for the README.

    python -m experiments.rollout_gif rollout.json docs/img/writing.gif

It needs Pillow, and draws the first rollout of a file that `reviser generate` wrote: a text whose
letters run from left to right. The page that `reviser replay` makes shows any rollout.
"""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageColor, ImageDraw, ImageFont

from reviser.player import film

WIDTH, EDGE, LINE = 640, 16, 27
TEXT, SMALL = 18, 13
"""Font sizes."""
LAST = 2500
"""Duration of the last frame in milliseconds."""
BACK, INK, FAINT, FRESH, CURSOR, BAR = (
    "#ffffff", "#1b1b1f", "#5b5d66", "#ffe08a", "#c44f00", "#d9dae0",
)  # fmt: skip
TEXT_FONT, SMALL_FONT = (ImageFont.truetype("DejaVuSans.ttf", size) for size in (TEXT, SMALL))


class Frame(NamedTuple):
    """The content of one picture."""

    text: str
    cursor: int
    fresh: range
    """What the last action has written."""
    given: int
    """Length of the prompt."""


def frames(shown: film.Film) -> list[Frame]:
    """Return a frame for each action after the prompt."""
    text, steps = shown.text, shown.steps
    opening = next((n for n, step in enumerate(steps) if not step.in_preamble), len(steps))
    for step in steps[:opening]:
        text = step.edit.apply(text)
    given = len(text)
    drawn = [Frame(text, given, range(0), given)]
    for step in steps[opening:]:
        edit = step.edit
        text = edit.apply(text)
        fresh = range(edit.offset, edit.offset + len(edit.inserted))
        drawn.append(Frame(text, edit.cursor, fresh, given))
    return drawn


def draw(frame: Frame, number: int, last: int, size: tuple[int, int]) -> Image.Image:
    """Return the picture of a frame."""
    picture = Image.new("RGB", size, BACK)
    pen = ImageDraw.Draw(picture)
    for row, (start, end) in enumerate(wrapped(frame.text)):
        top, line = EDGE + row * LINE, frame.text[start:end].rstrip("\n")

        def x(position: int, start: int = start, line: str = line) -> float:
            return EDGE + TEXT_FONT.getlength(line[: position - start])

        low, high = max(start, frame.fresh.start), min(end, frame.fresh.stop)
        if low < high:
            pen.rectangle((x(low), top - 1, x(high), top + TEXT * 1.3), fill=FRESH)
        seam = min(max(frame.given, start), start + len(line))
        pen.text((EDGE, top), frame.text[start:seam], fill=FAINT, font=TEXT_FONT)
        pen.text((x(seam), top), frame.text[seam : start + len(line)], fill=INK, font=TEXT_FONT)
        if start <= frame.cursor < end or frame.cursor == end == len(frame.text):
            where = x(frame.cursor)
            pen.rectangle((where, top - 2, where + 1, top + TEXT * 1.3), fill=CURSOR)
    base = size[1] - EDGE - SMALL
    pen.text((EDGE, base), f"{number} / {last}", fill=FAINT, font=SMALL_FONT)
    left, right, middle = EDGE + 90, WIDTH - EDGE, base + SMALL // 2 + 2
    pen.line((left, middle, right, middle), fill=BAR, width=3)
    done = left + (right - left) * number / last
    pen.line((left, middle, done, middle), fill=CURSOR, width=3)
    return picture.quantize(palette=palette(), dither=Image.Dither.NONE)


def palette() -> Image.Image:
    """Return one palette for all pictures, so that each stores only what differs from the last."""
    colours = set()
    for pair in ((INK, BACK), (INK, FRESH), (FAINT, BACK), (CURSOR, BACK), (BAR, BAR)):
        first, last = map(ImageColor.getrgb, pair)
        for n in range(7):
            colours.add(tuple(round(a + n / 6 * (b - a)) for a, b in zip(first, last, strict=True)))
    picture = Image.new("P", (1, 1))
    picture.putpalette([value for colour in sorted(colours) for value in colour])
    return picture


def wrapped(text: str) -> list[tuple[int, int]]:
    """Return start and end of each line; trailing spaces and the line break belong to it."""
    lines, start, space = [], 0, WIDTH - 2 * EDGE
    for end in words(text):
        while TEXT_FONT.getlength(text[start:end].rstrip()) > space:
            ends = [*words(text[start:end])]
            fits = bisect_right(ends, space, key=lambda n: width(text[start : start + n]))
            start, cut = start + ends[max(0, fits - 1)], start
            lines.append((cut, start))
        if text[end - 1] == "\n":
            lines.append((start, end))
            start = end
    return [*lines, (start, len(text))]


def width(line: str) -> float:
    """Return the width of a line without its trailing spaces."""
    return TEXT_FONT.getlength(line.rstrip())


def words(text: str) -> Iterator[int]:
    """Yield the positions where a line may end: after spaces and line breaks, and at the end."""
    for position, (before, after) in enumerate(pairwise(text), start=1):
        if before == "\n" or (before == " " and after != " "):
            yield position
    if text:
        yield len(text)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Draw a rollout as a GIF.")
    parser.add_argument("rollouts", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--model", default="models/stories-revise")
    parser.add_argument("--pace", type=float, default=16.0, help="actions per second")
    given = parser.parse_args()
    [shown], _ = film.read([given.rollouts], model=given.model, limit=1)
    drawn = frames(shown)
    rows = max(len(wrapped(frame.text)) for frame in drawn)
    size, last = (WIDTH, 2 * EDGE + rows * LINE + 2 * SMALL), len(drawn) - 1
    pictures = [draw(frame, n, last, size) for n, frame in enumerate(drawn)]
    delay = round(100 / given.pace) * 10  # GIF counts hundredths of a second
    delays = [delay] * last + [LAST]
    pictures[0].save(
        given.output, save_all=True, append_images=pictures[1:], duration=delays, loop=0,
        optimize=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
