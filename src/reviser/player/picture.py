"""A film as a moving picture, for a README: the text, its cursor and what was written last.

Needs Pillow. Draws what the page shows, in the page's colours; knows films only.
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
"""Frames a second that every viewer shows; above it a frame takes in several actions."""
LAST = 2500
"""Milliseconds that the last frame stays."""
TEXT, SMALL = 18, 13
"""Sizes of the letters."""
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
"""Where each begins and ends in the text."""


@dataclass(frozen=True)
class Frame:
    """What one picture shows; places count characters."""

    text: str
    cursor: int
    fresh: range
    """What was written since the picture before, as far as it is in one piece."""
    given: bytes
    """For each character, whether nobody chose it."""
    step: int
    found: range = range(0)
    """What a search has found."""
    says: str = ""
    """What it looks for, in words."""


def frames(film: Film, pace: float) -> list[Frame]:
    """One for each action, or for several where the pace asks for more than `FASTEST`."""
    stride, opening = _stride(pace), film.opening
    text, given, fresh = film.text, bytes([1]) * len(film.text), range(0)
    shown = [Frame(text, _character(text, film.cursor), fresh, given, 0)]
    for number, step in enumerate(film.steps, start=1 - opening):
        edit = step.edit
        start = _character(text, edit.offset)
        after = given[start + len(edit.removed) :]
        given = given[:start] + bytes([step.given]) * len(edit.inserted) + after
        text = edit.apply(text)
        end = start + len(edit.inserted)
        if edit.inserted or edit.removed:
            fresh = range(fresh.start, end) if fresh and fresh.stop == start else range(start, end)
        if number <= 0:  # what was there when the model began
            shown = [Frame(text, _character(text, edit.cursor), range(0), given, 0)]
            fresh = range(0)
        elif number % stride == 0 or number == len(film.steps) - opening:
            cursor = _character(text, edit.cursor)
            found = range(*(_character(text, place) for place in step.found or (0, 0)))
            says = f"{step.action} \u201c{_plain(text[found.start : found.stop])}\u201d"
            says = says.replace("\n", "\u21b5") if found else ""
            shown.append(Frame(text, cursor, fresh, given, number, found, says))
            fresh = range(0)
    return shown


def write_gif(path: Path, film: Film, *, pace: float = 12.0, width: int = 640) -> int:
    """Write a film at `pace` actions a second; how many frames it has."""
    if path.suffix.lower() != ".gif":
        raise ConfigError(f"{path.name!r} would be a GIF: let its name end with .gif.")
    shown, stride = frames(film, pace), _stride(pace)
    if len(shown) > MOST_FRAMES:
        faster = FASTEST * math.ceil(len(film.steps) / (MOST_FRAMES - 2))
        raise ConfigError(
            f"At a pace of {pace:g} this would have {len(shown):,} frames, and {MOST_FRAMES:,} are"
            f" the most. Ask for a pace of {faster:,}."
        )
    fonts = _font(TEXT), _font(SMALL)
    lines = [_wrapped(frame.text, fonts[0], width - 2 * EDGE) for frame in shown]
    rows = min(MOST_LINES, max(map(len, lines)))
    size = width, 2 * EDGE + rows * LINE + 2 * SMALL
    of, has_searches = shown[-1].step, any(frame.says for frame in shown)
    bar = width // 2 if has_searches else width - EDGE  # where it ends; what is sought is beside it
    pictures = [
        _drawn(frame, _near(cut, frame.cursor, rows), fonts, size, of, bar)
        for frame, cut in zip(shown, lines, strict=True)
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
    """How many actions a frame takes in."""
    return max(1, round(pace / FASTEST))


def _near(lines: Lines, cursor: int, rows: int) -> Lines:
    """The lines around the cursor, as many as there is room for."""
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

        def x(place: int, start: int = start, line: str = line, ways: set[str] = ways) -> float:
            before = font.getlength(line[: place - start].rstrip("\n"))
            is_mirrored = ways == {"rtl"}
            return EDGE + (font.getlength(line.rstrip("\n")) - before if is_mirrored else before)

        for marked, colour in ((frame.fresh, _FRESH), (frame.found, _FOUND)):
            first, last = max(start, marked.start), min(end, marked.stop)
            if first < last and len(ways) < 2:  # of both directions: none rather than a wrong one
                left, right = sorted((x(first), x(last)))
                pen.rectangle((left, top - 1, right, top + TEXT * 1.3), fill=colour)
        if "rtl" in ways:
            pen.text((EDGE, top), line.rstrip("\n"), fill=_INK, font=font)
        else:
            for first, last in _runs(frame.given, start, start + len(line.rstrip("\n"))):
                colour = _FAINT if frame.given[first] else _INK
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


def _cut(line: str, font: Font, room: float) -> str:
    """As much of a line as there is room for, from its start."""
    while len(line) > 1 and font.getlength(line) > room:
        line = line[:-2] + "\u2026"
    return line if font.getlength(line) <= room else ""


def _ways(line: str) -> set[str]:
    """The directions of its letters."""
    kinds = {unicodedata.bidirectional(char) for char in line}
    return {way for way, found in (("rtl", kinds & {"R", "AL"}), ("ltr", kinds & {"L"})) if found}


def _runs(given: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The stretches of one kind between two places."""
    for place in range(start + 1, end + 1):
        if place == end or given[place] != given[start]:
            yield start, place
            start = place


@cache
def _palette() -> Image.Image:
    """The same colours for all pictures, so that one holds only what differs from the last."""
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


def _wrapped(text: str, font: Font, room: float) -> Lines:
    """Where each line begins and ends; the spaces and the line break that end one belong to it."""
    text = _plain(text)
    lines, start = [], 0
    for end in _words(text):
        while font.getlength(text[start:end].rstrip()) > room:
            cut = _fits(text, start, end, font, room)
            lines.append((start, cut))
            start = cut
        if text[end - 1] == "\n":
            lines.append((start, end))
            start = end
    return [*lines, (start, len(text))]


def _fits(text: str, start: int, end: int, font: Font, room: float) -> int:
    """Where to cut a line that is too long: before its last word, or within the only one."""
    word = max((n for n in _words(text[start:end]) if n < end - start), default=0)
    if word and font.getlength(text[start : start + word].rstrip()) <= room:
        return start + word
    sizes = range(1, end - start + 1)
    fitting = bisect_right(
        sizes, room, key=lambda n: font.getlength(text[start : start + n].rstrip())
    )
    return start + max(1, fitting)


def _plain(text: str) -> str:
    """As many characters, none of which breaks a line but the line break."""
    return printable(text).translate({0x2028: " ", 0x2029: " "})


def _words(text: str) -> Iterator[int]:
    """Where a line may end: behind spaces and line breaks, and at the end."""
    for place, (before, after) in enumerate(pairwise(text), start=1):
        if before == "\n" or (before == " " and after != " "):
            yield place
    if text:
        yield len(text)


def _character(text: str, units: int) -> int:
    """A place in characters, from one in UTF-16 units."""
    return len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le"))


def _font(size: int) -> Font:
    for name in ("DejaVuSans.ttf", "Arial.ttf"):
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)
