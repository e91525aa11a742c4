"""SVG figures for a page: dots with intervals, a heat map, grouped bars.

This module knows numbers and labels, but not records. Colours are CSS variables with a fallback, so
a page chooses them for light and dark. The paper's values differ from ours in shape too, not only
in colour.
"""

from __future__ import annotations

import hashlib
import html
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeGuard

Ends = tuple[float | None, float | None]
"""The two ends of an interval; None if unbounded."""

WIDTH = 640
SIZE = 12
"""Font size, in units of the figure."""
LONGEST_LABEL = 40

_SERIES = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#8c6d00", "#555555")
"""Okabe and Ito's colours, safe for colour-blind readers; the last two are darkened for white."""
_INK, _FAINT, _LINE = "var(--ink,#1b1b1b)", "var(--faint,#5c5c5c)", "var(--line,#d5d5d5)"
_BACK = "var(--back,#ffffff)"
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A row of a dot plot."""

    label: str
    value: float
    ends: Ends | None = None
    text: str
    """The number as printed in the figure."""
    of_paper: bool = False
    series: int = 0
    """Index of the colour."""


@dataclass(frozen=True, kw_only=True)
class Bars:
    """One colour of a bar chart: a value for each group, or None."""

    label: str
    values: tuple[float | None, ...]
    ends: tuple[Ends | None, ...] = ()
    of_paper: bool = False
    series: int = 0


def visible(text: str) -> str:
    r"""Spell out characters that are invisible or change the reading order.

    >>> visible("a\u202eb")
    'a\\u202eb'
    """
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def escaped(text: str) -> str:
    """Escape a text for elements and attributes of HTML and SVG."""
    return html.escape(visible(text), quote=True)


def dots(
    rows: Sequence[Dot],
    *,
    title: str,
    axis: str,
    log: bool = False,
    mark: tuple[float, str] | None = None,
) -> str:
    """Draw values in rows with their intervals; `mark` is a value to compare with."""
    left = 14 + max(_width(_short(row.label)) for row in rows)
    right = WIDTH - 14 - max(_width(row.text) for row in rows)
    known = [x for row in rows for x in (row.value, *(row.ends or ())) if _is_real(x, log)]
    scale, ticks = _axis([*known, *([mark[0]] if mark else [])], left + 8, right - 12, log=log)
    top, step = 22 if mark else 8, 24
    bottom = top + step * len(rows)
    body = [_rule(scale(tick), top, scale(tick), bottom, _LINE) for tick in ticks]
    body += [_label(scale(tick), bottom + 16, tick_text(tick), "middle") for tick in ticks]
    body.append(_label((left + right) / 2, bottom + 36, axis, "middle", _FAINT))
    if mark:
        at = scale(mark[0])
        body.append(_rule(at, top - 4, at, bottom, _INK, dashed=True))
        half = _width(mark[1]) / 2
        body.append(_label(min(max(at, half), WIDTH - half), top - 9, mark[1], "middle", _FAINT))
    for n, row in enumerate(rows):
        y = top + step * (n + 0.5)
        body.append(_dot_row(row, y, left, right, scale, log=log))
    described = "; ".join(f"{row.label}: {row.text}" for row in rows)
    return _svg(WIDTH, bottom + 44, title, described, body)


def heat_map(
    shares: Sequence[Sequence[float]], *, title: str, x: str, y: str, diagonal: str
) -> str:
    """Draw shares as shades, the first row on top, with a labelled dashed diagonal."""
    rows, columns = len(shares), max(map(len, shares))
    side, left, top = 300, 92, 8
    highest = max((share for row in shares for share in row), default=0.0)
    cell_w, cell_h = side / columns, side / rows
    body = [_rectangle(left, top, side, side, _BACK, _LINE)]
    for i, row in enumerate(shares):
        for j, share in enumerate(row):
            if share > 0:
                box = (left + j * cell_w, top + i * cell_h, cell_w, cell_h)
                body.append(_shade(*box, share / highest, f"{100 * share:.2f} %"))
    body.append(_rule(left, top, left + side, top + side, _INK, dashed=True))
    for end, words in ((0, "start"), (1, "end")):
        anchor = ("start", "end")[end]
        body.append(_label(left + end * side, top + side + 16, words, anchor))
        words = ("first step", "last step")[end]
        body.append(_label(left - 8, top + 10 + end * (side - 12), words, "end"))
    body.append(_label(left + side / 2, top + side + 34, x, "middle", _FAINT))
    body.append(_label(left - 8, top + side / 2, y, "end", _FAINT))
    key, steps = left + side + 24, 10
    for n in range(steps):
        body.append(_shade(key, top + 22 + (steps - 1 - n) * 12, 18, 12, (n + 1) / steps, ""))
    body.append(_label(key, top + 10, "share of all tokens", "start", _FAINT))
    body.append(_label(key + 26, top + 32, f"{100 * highest:.2f} %", "start"))
    body.append(_label(key + 26, top + 22 + steps * 12, "0 %", "start"))
    body.append(_rule(key, top + 168, key + 18, top + 168, _INK, dashed=True))
    body.append(_label(key + 26, top + 172, diagonal, "start"))
    described = f"{rows} by {columns} shares, the highest {100 * highest:.2f} %."
    return _svg(WIDTH, top + side + 44, title, described, body)


def bars(
    groups: Sequence[str], series: Sequence[Bars], *, title: str, x: str, percent: bool = True
) -> str:
    """Draw bars side by side for each group, with intervals."""
    values = [v for one in series for v in one.values if v is not None]
    ends = [e for one in series for pair in one.ends if pair for e in pair if e is not None]
    legend, top = _legend(series)
    side, left = 220, 50
    bottom = top + side
    bar = max(5.0, min(22.0, (WIDTH - left) / len(groups) * 0.8 / len(series)))
    group = max(bar * len(series) * 1.25, 40.0)
    width = max(float(WIDTH), left + group * len(groups) + 8)
    scale, ticks = _axis([0.0, *values, *ends], bottom, top, log=False, apart=36)
    body = legend
    for tick in ticks:
        body.append(_rule(left, scale(tick), width, scale(tick), _LINE))
        label = f"{tick_text(100 * tick)} %" if percent else tick_text(tick)
        body.append(_label(left - 6, scale(tick) + 4, label, "end"))
    spread = (width - left) / len(groups)
    for g, name in enumerate(groups):
        middle = left + spread * (g + 0.5)
        body.append(_label(middle, bottom + 16, name, "middle"))
        for s, one in enumerate(series):
            at = middle + bar * (s - len(series) / 2)
            body += _bar(one, g, at, bar, scale, (top, bottom))
    body.append(_label((left + width) / 2, bottom + 36, x, "middle", _FAINT))
    described = "; ".join(
        f"{one.label}: "
        + ", ".join(
            f"{name} {_percent(value) if percent else tick_text(value)}"
            for name, value in zip(groups, one.values, strict=True)
            if value is not None
        )
        for one in series
    )
    return _svg(width, bottom + 44, title, described, body)


def tick_text(value: float) -> str:
    """Format a round number for an axis.

    >>> [tick_text(x) for x in (0, 0.25, 1.0, 2000, 1e6)]
    ['0', '0.25', '1', '2,000', '1,000,000']
    """
    text = f"{value:,.6f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


# -- the parts ------------------------------------------------------------------------------------


def _dot_row(
    row: Dot, y: float, left: float, right: float, scale: Callable[[float], float], *, log: bool
) -> str:
    colour = _FAINT if row.of_paper else _colour(row.series)
    parts = [_label(left, y + 4, _short(row.label), "end")]
    if row.ends:
        low, high = (scale(e) if _is_real(e, log) else None for e in row.ends)
        start, end = left + 8 if low is None else low, right - 8 if high is None else high
        parts.append(_rule(start, y, end, y, colour, width=2))
        for open_end, at, back in ((low is None, start, 6), (high is None, end, -6)):
            if open_end:
                arrow = f"M{_n(at + back)} {_n(y - 4)}L{_n(at)} {_n(y)}L{_n(at + back)} {_n(y + 4)}"
                parts.append(f'<path d="{arrow}" fill="none" stroke="{colour}" stroke-width="2"/>')
            else:
                parts.append(_rule(at, y - 4, at, y + 4, colour, width=2))
    if _is_real(row.value, log):
        at = scale(row.value)
        if row.of_paper:
            points = f"{_n(at)},{_n(y - 6)} {_n(at + 6)},{_n(y)} {_n(at)},{_n(y + 6)}"
            points += f" {_n(at - 6)},{_n(y)}"
            parts.append(
                f'<polygon points="{points}" fill="{_BACK}" stroke="{colour}" stroke-width="2"/>'
            )
        else:
            parts.append(f'<circle cx="{_n(at)}" cy="{_n(y)}" r="5" fill="{colour}"/>')
    parts.append(_label(WIDTH, y + 4, row.text, "end"))
    return f"<g><title>{escaped(row.label)}: {escaped(row.text)}</title>{''.join(parts)}</g>"


def _bar(
    one: Bars,
    group: int,
    at: float,
    bar: float,
    scale: Callable[[float], float],
    span: tuple[float, float],
) -> list[str]:
    """Draw the bar of one group with its interval, if it has a value."""
    value, (top, bottom) = one.values[group], span
    if value is None:
        return []
    colour = _FAINT if one.of_paper else _colour(one.series)
    fill = _BACK if one.of_paper else colour
    y = scale(value)
    parts = [_rectangle(at + 1, y, bar - 2, bottom - y, fill, colour, dashed=one.series > 0)]
    if one.ends and (pair := one.ends[group]):
        low, high = (
            edge if end is None else scale(end)
            for end, edge in zip(pair, (bottom, top), strict=True)
        )
        parts.append(_rule(at + bar / 2, low, at + bar / 2, high, _INK))
    return parts


def _legend(series: Sequence[Bars]) -> tuple[list[str], float]:
    """Draw the key of the colours, and return where it ends."""
    parts, x, y = list[str](), 0.0, 4.0
    for one in series:
        wide = 26 + _width(_short(one.label))
        if x and x + wide > WIDTH:
            x, y = 0.0, y + 20
        colour = _FAINT if one.of_paper else _colour(one.series)
        fill = _BACK if one.of_paper else colour
        parts.append(_rectangle(x + 1, y + 1, 12, 12, fill, colour, dashed=one.series > 0))
        parts.append(_label(x + 19, y + 11, _short(one.label), "start"))
        x += wide + 14
    return parts, y + 32


def _axis(
    known: Sequence[float], start: float, end: float, *, log: bool, apart: float | None = None
) -> tuple[Callable[[float], float], list[float]]:
    """Return a function from values to coordinates, and the values of the ticks.

    Ticks are at least `apart` units apart, or as far as their labels need.
    """
    least, most = (min(known), max(known)) if known else (1.0, 10.0)
    to: Callable[[float], float] = math.log10 if log else float
    low, high = to(least), to(most)
    if high - low < 1e-9:
        low, high = (low - 0.3, high + 0.3) if log else (low - abs(low) / 2 - 0.5, high + 0.5)
    elif low != 0 or log:
        low = low - 0.04 * (high - low)
    high += 0.04 * (high - low)

    def scale(value: float) -> float:
        return start + (to(value) - low) / (high - low) * (end - start)

    for ticks in _log_ticks(low, high) if log else _ticks(low, high):
        positions = [scale(tick) for tick in ticks]
        distance = apart or 14 + max((_width(tick_text(tick)) for tick in ticks), default=0)
        if all(abs(b - a) >= distance for a, b in pairwise(positions)):
            return scale, ticks
    return scale, [least]


def _log_ticks(low: float, high: float) -> Iterable[list[float]]:
    """Yield sets of round numbers between two powers of ten, the densest first."""
    for every in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 1.5, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
        found = [
            float(f"{m}e{power}")
            for power in range(math.floor(low), math.ceil(high) + 1)
            for m in every
            if low <= math.log10(m) + power <= high
        ]
        if len(found) > 1:
            yield found
    if high - low < 0.7:
        yield from _positive(_ticks(10**low, 10**high))
    tens = [float(f"1e{power}") for power in range(math.ceil(low), math.floor(high) + 1)]
    yield from (tens[::skip] for skip in range(1, len(tens) + 1))


def _positive(several: Iterable[list[float]]) -> Iterable[list[float]]:
    return ([tick for tick in ticks if tick > 0] for ticks in several)


def _ticks(low: float, high: float) -> Iterable[list[float]]:
    """Yield sets of multiples of a round step, the densest first."""
    power = math.floor(math.log10(high - low)) - 1
    for step in (float(f"{m}e{p}") for p in range(power, power + 4) for m in (1, 2, 5)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last >= first:
            yield [float(f"{n * step:.9g}") for n in range(first, last + 1)]


def _is_real(value: float | None, log: bool) -> TypeGuard[float]:
    return value is not None and math.isfinite(value) and (value > 0 or not log)


def _colour(series: int) -> str:
    n = series % len(_SERIES)
    return f"var(--series-{n},{_SERIES[n]})"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _short(label: str) -> str:
    """Shorten a label to fit next to the plot; the full label is in the title."""
    label = visible(label)
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "\u2026"


def _width(text: str) -> float:
    """Estimate the width of a text, rather too large than too small."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return 0.58 * SIZE * len(text) + 0.5 * SIZE * wide


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _label(x: float, y: float, text: str, anchor: str, colour: str = _INK) -> str:
    attributes = f'x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {attributes}>{escaped(text)}</text>"


def _rule(
    x1: float, y1: float, x2: float, y2: float, colour: str, *, dashed: bool = False, width: int = 1
) -> str:
    attributes = f'x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"'
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<line {attributes} stroke="{colour}" stroke-width="{width}"{dashes}/>'


def _rectangle(
    x: float, y: float, w: float, h: float, fill: str, stroke: str, *, dashed: bool = False
) -> str:
    attributes = f'x="{_n(x)}" y="{_n(y)}" width="{_n(w)}" height="{_n(h)}"'
    dashes = ' stroke-dasharray="3 2"' if dashed and fill == _BACK else ""
    return f'<rect {attributes} fill="{fill}" stroke="{stroke}"{dashes}/>'


def _shade(x: float, y: float, w: float, h: float, depth: float, text: str) -> str:
    attributes = f'x="{_n(x)}" y="{_n(y)}" width="{_n(w)}" height="{_n(h)}"'
    title = f"<title>{escaped(text)}</title>" if text else ""
    return f'<rect {attributes} fill="{_colour(0)}" fill-opacity="{depth:.3f}">{title}</rect>'


def _svg(width: float, height: float, title: str, described: str, body: Sequence[str]) -> str:
    drawn = "\n".join(body)
    name = "f" + hashlib.sha256((title + drawn).encode()).hexdigest()[:12]
    return (
        f'<svg viewBox="0 0 {_n(width)} {_n(height)}" role="img" font-size="{SIZE}"'
        f' font-family="system-ui, sans-serif" aria-labelledby="{name}-t {name}-d">\n'
        f'<title id="{name}-t">{escaped(title)}</title>\n'
        f'<desc id="{name}-d">{escaped(described)}</desc>\n{drawn}\n</svg>'
    )
