"""Markdown of a page: escaped text, tables, code blocks, and numbers with their intervals.

Text that comes from a record never becomes markup. This module knows nothing about sections.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NOTHING = "\u2013"
"""Content of a cell without a number."""
UNBOUNDED = "unbounded"

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_MARKS = re.compile(r"[\\`*_\[\]~$#!^&<>|]|://|(?<=www)\.", re.IGNORECASE)
"""Characters with a meaning in Markdown; an address would become a link."""
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


# -- text ------------------------------------------------------------------------------------------


def visible(text: str) -> str:
    r"""Spell out characters that are invisible or change the reading order.

    >>> visible("a\u202eb")
    'a\\u202eb'
    """
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def escape(text: str) -> str:
    r"""Return Markdown, on one line, that reads as this text.

    >>> escape("a*b\n<i>")
    'a\\*b\\\\n&lt;i&gt;'
    """
    line = visible(text).replace("\n", "\\n").replace("\t", "\\t")
    return _MARKS.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), line)


def code_block(text: str, language: str = "text") -> str:
    """Return a code block whose fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{visible(text)}\n{fence}"


def table(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[Cell]], note: str = ""
) -> str:
    """Return a table under its caption. All its content is escaped, but not the note.

    The note is Markdown. It also says how the intervals in the table were made.
    """
    assert all(len(row) == len(header) for row in rows), caption
    lines = [f"**{escape(caption)}**", "", _row(map(escape, header)), _row(["---"] * len(header))]
    lines += [_row(map(_cell, row)) for row in rows]
    methods = [cell.method for row in rows for cell in row if isinstance(cell, Interval)]
    if methods:
        note = f"{note} Intervals: {'; '.join(dict.fromkeys(methods))}.".lstrip()
    return "\n".join([*lines, "", note] if note else lines)


def _cell(cell: Cell) -> str:
    return str(cell) if isinstance(cell, Interval) else escape(cell)  # its brackets open no link


def _row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


# -- numbers ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interval:
    """An estimate of a record, as it is printed: with its interval, and the digits it supports.

    >>> print(Interval({"value": 1.2341, "low": 1.1, "high": 1.38}))
    1.23 [1.10, 1.38]
    >>> print(Interval({"value": 1.2341, "low": 1.0012, "high": 1.38}, apart_from=1))
    1.234 [1.001, 1.380]
    >>> print(Interval({"value": 0.5, "low": 0.25, "high": None}, percent=True))
    50.0 [25.0, unbounded] %
    """

    found: dict[str, Any]
    """A dict with value, low, high, method and, if it is known, n."""
    percent: bool = False
    apart_from: float | None = None
    """An end that differs from this value gets enough digits to show it."""

    @property
    def method(self) -> str:
        """How the interval was made."""
        n = self.found.get("n")
        return str(self.found["method"]) + (f", n\u00a0=\u00a0{n:,}" if n else "")

    def includes(self, value: float) -> bool:
        """Return whether the interval includes a value."""
        low, high = self.found["low"], self.found["high"]
        return (low is None or low <= value) and (high is None or value <= high)

    def __str__(self) -> str:
        factor = 100 if self.percent else 1
        value = self.found["value"] * factor
        low, high = (
            None if (end := self.found[name]) is None else end * factor for name in ("low", "high")
        )
        digits = _digits(value, low, high)
        if self.apart_from is not None:
            border = self.apart_from * factor
            apart = [e - border for e in (low, high) if e is not None and e != border]
            while digits < 6 and any(round(distance, digits) == 0 for distance in apart):
                digits += 1
        parts = [_fixed(x, digits) for x in (value, low, high)]
        return f"{parts[0]} [{parts[1]}, {parts[2]}]" + (" %" if self.percent else "")


Cell = str | Interval


def cell(found: dict[str, Any] | None, **how: Any) -> Cell:
    """Return the cell of an estimate, if there is one; further arguments as for `Interval`."""
    return NOTHING if found is None else Interval(found, **how)


def _digits(value: float, low: float | None, high: float | None) -> int:
    """Return the digits after the point: two of the interval's width, and at most five in all."""
    known = [x for x in (value, low, high) if x is not None and math.isfinite(x)]
    leading = _power(value if math.isfinite(value) else max(known, default=0.0))
    spread = max(known) - min(known) if len(known) == 3 else 0.0
    if not spread > 0:
        return max(0, min(2 - leading, 6)) if any(known) else 0
    digits = 1 - _power(spread)
    least = min(_power(x) for x in known if x)
    return max(0, min(max(digits, -least), digits + 1, 4 - leading, 6))


def _power(x: float) -> int:
    """Return the power of ten of the first digit."""
    return math.floor(math.log10(abs(x))) if x else 0


def _fixed(x: float | None, digits: int) -> str:
    return UNBOUNDED if x is None or not math.isfinite(x) else f"{x:,.{digits}f}"


def number(value: float) -> str:
    """Format a value without an interval, to four digits.

    >>> [number(x) for x in (30.6355, 1.0200482, 2067.2497, 15.77)]
    ['30.64', '1.020', '2,067', '15.77']
    """
    return _fixed(value, max(0, min(3 - _power(value), 6)) if value else 0)


def percentage(value: float) -> str:
    """Format a share that the paper prints, with all its digits.

    >>> percentage(0.405), percentage(0.8593)
    ('40.5 %', '85.93 %')
    """
    return f"{round(100 * value, 6):g} %"
