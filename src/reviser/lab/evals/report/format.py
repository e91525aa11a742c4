"""Numbers on a page: an estimate always has its interval, and as many digits as that supports.

An estimate is in the form of a record: a dict with value, low, high, n and method.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from reviser.lab.evals.plots import Dot, Ends
from reviser.lab.evals.report.page import Paragraph, Span, Table, Words, titles, words
from reviser.lab.evals.texts import REFERENCE

NOTHING = "\u2013"
"""Content of a cell without a number."""
UNBOUNDED = "unbounded"

UNKNOWN = "not known"

Found = dict[str, Any]
"""An estimate in the form of a record."""
Record = dict[str, Any]
Systems = Sequence[Record]


def estimate(
    found: Found | None, *, percent: bool = False, apart_from: float | None = None
) -> Words:
    """Return a value with its interval; the tooltip has method and n."""
    if found is None:
        return words(NOTHING)
    text = interval(found, percent=percent, apart_from=apart_from)
    return (Span(text, title=method_of(found), kind="number"),)


def method_of(found: Found) -> str:
    """Describe how an interval was made."""
    return f"{found['method']}, n\u00a0=\u00a0{whole(found['n'])}"


def interval(found: Found, *, percent: bool = False, apart_from: float | None = None) -> str:
    """Format value, low and high with two digits of the interval's width, and at most five in all.

    An end that differs from `apart_from` gets enough digits to show it.

    >>> interval({"value": 1.2341, "low": 1.1, "high": 1.38})
    '1.23 [1.10, 1.38]'
    >>> interval({"value": 1.2341, "low": 1.0012, "high": 1.38}, apart_from=1)
    '1.234 [1.001, 1.380]'
    >>> interval({"value": 0.5, "low": 0.25, "high": None}, percent=True)
    '50.0 [25.0, unbounded] %'
    """
    factor = 100 if percent else 1
    value, low, high = (
        found[name] if found[name] is None else found[name] * factor
        for name in ("value", "low", "high")
    )
    digits = _digits(value, low, high)
    if apart_from is not None:
        ends = [e for e in (low, high) if e is not None and e != apart_from * factor]
        while digits < 6 and any(round(e - apart_from * factor, digits) == 0 for e in ends):
            digits += 1
    parts = [_fixed(x, digits) for x in (value, low, high)]
    return f"{parts[0]} [{parts[1]}, {parts[2]}]" + (" %" if percent else "")


def _digits(value: float, low: float | None, high: float | None) -> int:
    """Return the number of digits after the decimal point."""
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
    if x is None or not math.isfinite(x):
        return UNBOUNDED
    return f"{x:,.{digits}f}"


def number(value: float) -> str:
    """Format a value without an interval, to four digits or as it was printed.

    >>> [number(x) for x in (30.6355, 1.0200482, 2067.2497, 15.77)]
    ['30.64', '1.020', '2,067', '15.77']
    """
    return _fixed(value, max(0, min(3 - _power(value), 6)) if value else 0)


def printed(value: float, *, percent: bool = False, digits: int = 4) -> str:
    """Format a number of the paper with all its digits.

    >>> printed(13.521), printed(1.4, digits=2), printed(0.405, percent=True)
    ('13.5210', '1.40', '40.5 %')
    """
    return f"{round(100 * value, 6):g} %" if percent else f"{value:.{digits}f}"


def whole(n: int) -> str:
    """Format a count.

    >>> whole(127592)
    '127,592'
    """
    return f"{n:,}"


def large(n: float) -> str:
    """Format a large count of parameters or tokens.

    >>> large(659_072), large(101.36e6), large(30e9)
    ('0.66M', '101.4M', '30.0B')
    """
    if n < 1e6:
        return f"{n / 1e6:.2g}M" if n >= 1e5 else whole(int(n))
    return f"{n / 1e6:.1f}M" if n < 1e9 else f"{n / 1e9:.1f}B"


def estimates(content: Any) -> Iterator[Found]:
    """Yield every estimate within a record, in order."""
    if isinstance(content, dict):
        if content.keys() == {"value", "low", "high", "n", "method"}:
            yield content
        else:
            for part in content.values():
                yield from estimates(part)
    elif isinstance(content, list):
        for part in content:
            yield from estimates(part)


# -- names and blocks ------------------------------------------------------------------------------


def systems_of(record: Record) -> Systems:
    """Return the systems that were compared, without the documents."""
    return [system for system in record["systems"] if system["name"] != REFERENCE]


def make_table(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[Words]], **more: Any
) -> Table:
    """Make a table whose note also says how its intervals were made."""
    made = titles(rows)
    note = (*more.pop("note", ()), *([Span(f"Intervals: {'; '.join(made)}.")] if made else []))
    return Table(
        caption=caption,
        header=tuple(header),
        rows=tuple(tuple(row) for row in rows),
        note=note,
        **more,
    )


def say(*parts: str | Span) -> Paragraph:
    """Make a paragraph."""
    return Paragraph(words(*parts))


def listed(names: Sequence[str]) -> str:
    """Join names for a sentence."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def system_name(system: Record) -> str:
    """Return a system's name on the page."""
    return "the documents" if system["name"] == REFERENCE else str(system["name"])


def ends_of(found: Found) -> Ends:
    """Return the ends of an interval, for a figure."""
    return found["low"], found["high"]


def dot_of(label: str, found: Found, *, series: int = 0, **how: Any) -> Dot:
    """Make a row of a plot from an estimate; further arguments as in `interval`."""
    text = interval(found, **how)
    return Dot(label=label, value=found["value"], ends=ends_of(found), text=text, series=series)


def includes(found: Found, value: float) -> bool:
    """Return whether an interval includes a value."""
    low, high = found["low"], found["high"]
    return (low is None or low <= value) and (high is None or value <= high)


def flat(content: Any) -> str:
    """Format a setting of any kind on one line."""
    if isinstance(content, dict):
        return ", ".join(f"{name} {flat(part)}" for name, part in content.items())
    return ", ".join(map(flat, content)) if isinstance(content, list) else str(content)


def policy_name(policy: Any) -> str:
    """Return the short name of an obfuscation policy."""
    return flat(policy).removeprefix("kind ")


def features_name(about: Record) -> str:
    """Describe the features of MAUVE."""
    return f"{about['model']}, {about['features']}, {about['max_tokens']} tokens"


def judge_name(about: Record) -> str:
    """Return the name of a judge."""
    return str(about.get("model") or about.get("path") or about["judge"])


def sides_name(match: Record) -> str:
    """Describe in which order pairs were shown."""
    return "both sides" if match["order"] == "both" else "sides at random"
