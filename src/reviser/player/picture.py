"""A film as a GIF, for a README: the text, its cursor and the latest change.

This module needs Pillow. It draws what the page shows, in the page's colours.
"""

from __future__ import annotations

import math
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path

from PIL import Image, ImageColor, ImageDraw, ImageFont

from reviser.errors import ConfigError
from reviser.files import write_whole
from reviser.player.film import Film
from reviser.player.terminal import printable

FASTEST = 25
"""Frames per second that every viewer can show; at a higher pace a frame covers several actions."""
LAST = 2500
"""Duration of the last frame in milliseconds."""
TEXT, SMALL = 18, 13
"""Font sizes."""
LINE = 27
"""Height of a line."""
EDGE = 16
MOST_LINES = 24
MOST_FRAMES = 2000

_BACK, _INK, _FAINT, _FRESH, _FOUND, _CURSOR, _LINE = (
    "#ffffff", "#1b1b1f", "#5b5d66", "#ffe08a", "#cfe6f5", "#c44f00", "#d9dae0",
)  # fmt: skip

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
Lines = list[tuple[int, int]]
"""Start and end of each line in the text."""


@dataclass(frozen=True)
class Frame:
    """The content of one picture; positions count characters."""

    text: str
    cursor: int
    fresh: range
    """Text written since the last picture, if it is contiguous."""
    preamble: bytes
    """One byte per character: 1 if the model did not choose it."""
    step: int
    found: range = range(0)
    """The span that a search has found."""
    says: str = ""
    """A caption that says what a search looks for."""


def frames(film: Film, pace: float) -> list[Frame]:
    """Return a frame per action, or per several if the pace is above `FASTEST`."""
    stride, opening = _stride(pace), film.opening
    text, preamble, fresh = film.text, bytes([1]) * len(film.text), range(0)
    drawn = [Frame(text, _character(text, film.cursor), fresh, preamble, 0)]
    for number, step in enumerate(film.steps, start=1 - opening):
        edit = step.edit
        start = _character(text, edit.offset)
        after = preamble[start + len(edit.removed) :]
        preamble = preamble[:start] + bytes([step.in_preamble]) * len(edit.inserted) + after
        text = edit.apply(text)
        end = start + len(edit.inserted)
        if edit.inserted or edit.removed:
            fresh = range(fresh.start, end) if fresh and fresh.stop == start else range(start, end)
        if number <= 0:  # the preamble
            drawn = [Frame(text, _character(text, edit.cursor), range(0), preamble, 0)]
            fresh = range(0)
        elif number % stride == 0 or number == len(film.steps) - opening:
            cursor = _character(text, edit.cursor)
            found = range(*(_character(text, offset) for offset in step.found or (0, 0)))
            says = f"{step.action} \u201c{_plain(text[found.start : found.stop])}\u201d"
            says = says.replace("\n", "\u21b5") if found else ""
            drawn.append(Frame(text, cursor, fresh, preamble, number, found, says))
            fresh = range(0)
    return drawn


def write_gif(path: Path, film: Film, *, pace: float = 12.0, width: int = 640) -> int:
    """Write a film at `pace` actions per second; return its number of frames."""
    if path.suffix.lower() != ".gif":
        raise ConfigError(f"{path.name!r} is not a name for a GIF: it must end with .gif.")
    drawn, stride = frames(film, pace), _stride(pace)
    if len(drawn) > MOST_FRAMES:
        faster = FASTEST * math.ceil(len(film.steps) / (MOST_FRAMES - 2))
        raise ConfigError(
            f"At a pace of {pace:g} this would have {len(drawn):,} frames, and the limit is"
            f" {MOST_FRAMES:,}. Ask for a pace of {faster:,}."
        )
    fonts = _font(TEXT), _font(SMALL)
    lines = [_wrapped(frame.text, fonts[0], width - 2 * EDGE) for frame in drawn]
    rows = min(MOST_LINES, max(map(len, lines)))
    size = width, 2 * EDGE + rows * LINE + 2 * SMALL
    of, has_searches = drawn[-1].step, any(frame.says for frame in drawn)
    bar = (
        width // 2 if has_searches else width - EDGE
    )  # where the bar ends; the caption of a search is to its right
    pictures = [
        _drawn(frame, _near(cut, frame.cursor, rows), fonts, size, of, bar)
        for frame, cut in zip(drawn, lines, strict=True)
    ]
    delay = max(20, round(100 * stride / pace) * 10)  # GIF counts hundredths of a second
    delays = [delay] * (len(pictures) - 1) + [LAST]
    written = BytesIO()
    pictures[0].save(
        written, "GIF", save_all=True, append_images=pictures[1:], duration=delays, loop=0,
        optimize=True,
    )  # fmt: skip
    write_whole(path, written.getvalue())
    return len(pictures)


def _stride(pace: float) -> int:
    """Return how many actions a frame covers."""
    return max(1, round(pace / FASTEST))


def _near(lines: Lines, cursor: int, rows: int) -> Lines:
    """Return the lines around the cursor, as many as fit."""
    here = next((n for n, (_, end) in enumerate(lines) if cursor < end), len(lines) - 1)
    first = max(0, min(here - rows // 2, len(lines) - rows))
    return lines[first : first + rows]


def _drawn(
    frame: Frame, lines: Lines, fonts: tuple[Font, Font], size: tuple[int, int], of: int, bar: int
) -> Image.Image:
    picture = Image.new("RGB", size, _BACK)
    pen = ImageDraw.Draw(picture)
    font, small = fonts
    text = _plain(frame.text)
    for row, (start, end) in enumerate(lines):
        top = EDGE + row * LINE
        line = text[start:end]

        ways = _ways(line)

        def x(position: int, start: int = start, line: str = line, ways: set[str] = ways) -> float:
            before = font.getlength(line[: position - start].rstrip("\n"))
            is_mirrored = ways == {"rtl"}
            return EDGE + (font.getlength(line.rstrip("\n")) - before if is_mirrored else before)

        for marked, colour in ((frame.fresh, _FRESH), (frame.found, _FOUND)):
            first, last = max(start, marked.start), min(end, marked.stop)
            if (
                first < last and len(ways) < 2
            ):  # no mark is better than a wrong one in text of both directions
                left, right = sorted((x(first), x(last)))
                pen.rectangle((left, top - 1, right, top + TEXT * 1.3), fill=colour)
        if "rtl" in ways:
            pen.text((EDGE, top), line.rstrip("\n"), fill=_INK, font=font)
        else:
            for first, last in _runs(frame.preamble, start, start + len(line.rstrip("\n"))):
                colour = _FAINT if frame.preamble[first] else _INK
                pen.text((x(first), top), text[first:last], fill=colour, font=font)
        is_last = end == len(text)
        if start <= frame.cursor < end or (is_last and frame.cursor == end):
            pen.rectangle(
                (x(frame.cursor), top - 2, x(frame.cursor) + 1, top + TEXT * 1.3), fill=_CURSOR
            )
    base = size[1] - EDGE - SMALL
    pen.text((EDGE, base), f"{frame.step} / {of}", fill=_FAINT, font=small)
    left, right = EDGE + 90, bar
    says = _cut(frame.says, small, size[0] - right - 2 * EDGE)
    pen.text((right + EDGE, base), says, fill=_INK, font=small)
    middle = base + SMALL // 2 + 2
    pen.line((left, middle, right, middle), fill=_LINE, width=3)
    done = left + (right - left) * frame.step / max(1, of)
    pen.line((left, middle, done, middle), fill=_CURSOR, width=3)
    return picture.quantize(palette=_palette(), dither=Image.Dither.NONE)


def _cut(line: str, font: Font, space: float) -> str:
    """Cut a line to the available width."""
    while len(line) > 1 and font.getlength(line) > space:
        line = line[:-2] + "\u2026"
    return line if font.getlength(line) <= space else ""


def _ways(line: str) -> set[str]:
    """Return the writing directions of a line's letters."""
    kinds = {unicodedata.bidirectional(char) for char in line}
    return {way for way, found in (("rtl", kinds & {"R", "AL"}), ("ltr", kinds & {"L"})) if found}


def _runs(values: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of equal values between two positions."""
    for position in range(start + 1, end + 1):
        if position == end or values[position] != values[start]:
            yield start, position
            start = position


@cache
def _palette() -> Image.Image:
    """Return one palette for all pictures, so that each stores only what differs from the last."""
    pairs = [
        (_INK, _BACK),
        (_INK, _FRESH),
        (_FAINT, _BACK),
        (_FAINT, _FRESH),
        (_INK, _FOUND),
        (_FAINT, _FOUND),
        (_CURSOR, _BACK),
        (_LINE, _LINE),
    ]
    steps = [n / 6 for n in range(7)]
    ramps = sorted({_mixed(ends, part) for ends in pairs for part in steps})
    palette = Image.new("P", (1, 1))
    palette.putpalette([value for colour in ramps for value in colour])
    return palette


def _mixed(ends: tuple[str, str], part: float) -> tuple[int, ...]:
    first, last = (ImageColor.getrgb(end)[:3] for end in ends)
    return tuple(round(a + part * (b - a)) for a, b in zip(first, last, strict=True))


def _wrapped(text: str, font: Font, space: float) -> Lines:
    """Return start and end of each line; trailing spaces and the line break belong to it."""
    text = _plain(text)
    lines, start = [], 0
    for end in _words(text):
        while font.getlength(text[start:end].rstrip()) > space:
            cut = _fits(text, start, end, font, space)
            lines.append((start, cut))
            start = cut
        if text[end - 1] == "\n":
            lines.append((start, end))
            start = end
    return [*lines, (start, len(text))]


def _fits(text: str, start: int, end: int, font: Font, space: float) -> int:
    """Return where to cut a line that is too long: before its last word, or within its only one."""
    word = max((n for n in _words(text[start:end]) if n < end - start), default=0)
    if word and font.getlength(text[start : start + word].rstrip()) <= space:
        return start + word
    sizes = range(1, end - start + 1)
    fitting = bisect_right(
        sizes, space, key=lambda n: font.getlength(text[start : start + n].rstrip())
    )
    return start + max(1, fitting)


def _plain(text: str) -> str:
    """Replace characters other than the newline that would break a line, one for one."""
    return printable(text).translate({0x2028: " ", 0x2029: " "})


def _words(text: str) -> Iterator[int]:
    """Yield the positions where a line may end: after spaces and line breaks, and at the end."""
    for position, (before, after) in enumerate(pairwise(text), start=1):
        if before == "\n" or (before == " " and after != " "):
            yield position
    if text:
        yield len(text)


def _character(text: str, units: int) -> int:
    """Convert a position from UTF-16 units to characters."""
    return len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le"))


def _font(size: int) -> Font:
    for name in ("DejaVuSans.ttf", "Arial.ttf"):
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)
