"""Markdown tables and estimates with intervals, for the pages that the reports write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True) -> str:
    """Return a table whose columns after the first are right-aligned if they hold numbers."""
    rule = ["---", *["---:" if numbers else "---"] * (len(head) - 1)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rows))


def estimate(part: dict[str, Any] | None, digits: int = 2) -> str:
    """Return a value with its interval, or `-` if it was not measured."""
    if part is None:
        return "-"
    low, high = part["low"], part["high"]
    value = f"{part['value']:.{digits}f}"
    if low is None or high is None or low == high:
        return value
    return f"{value} [{low:.{digits}f}, {high:.{digits}f}]"


def filled(text: str, /, **values: Any) -> str:
    """Return a text with values for its fields; a share is written as 5 %, not as 5%.

    >>> filled("{changed:.0%} of {texts[all]:,} texts", changed=0.05, texts={"all": 2000})
    '5 % of 2,000 texts'
    """
    return re.sub(r"(?<=\d)%", " %", text.format(**values))
