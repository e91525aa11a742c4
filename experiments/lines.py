"""Line charts for the pages of experiments, as SVG files that need no other file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#1b6ca8", "#c2571a", "#3b7d3b", "#7a3b8f", "#8a6d00", "#555555")
_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 624, 16, 300
Points = Sequence[tuple[float, float]]


def chart(
    series: Mapping[str, Points], *, x: str, y: str, log: bool = False, dashed: str = ""
) -> str:
    """Draw one line for each series; with `log`, both axes are logarithmic.

    Series whose names begin with `dashed` are drawn so, in the colours of the others in turn.
    """

    def scale(value: float) -> float:
        return math.log10(value) if log else value

    every = [(scale(a), scale(b)) for points in series.values() for a, b in points]
    (low_x, high_x), (low_y, high_y) = (
        (min(values), max(values)) for values in zip(*every, strict=True)
    )

    def place(point: tuple[float, float]) -> tuple[float, float]:
        across = (scale(point[0]) - low_x) / (high_x - low_x or 1)
        up = (scale(point[1]) - low_y) / (high_y - low_y or 1)
        return _LEFT + 12 + across * (_RIGHT - _LEFT - 24), _BOTTOM - 12 - up * (
            _BOTTOM - _TOP - 24
        )

    body = [f'<path d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}" fill="none" stroke="#888"/>']
    solid = [name for name in series if not (dashed and name.startswith(dashed))]
    others = [name for name in series if name not in solid]
    for n, (name, points) in enumerate(series.items()):
        own = solid if name in solid else others
        colour = COLOURS[own.index(name) % len(COLOURS)]
        style = ' stroke-dasharray="5 4"' if name in others else ""
        places = [place(point) for point in points]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        body.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{style}/>'
        )
        body += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}"/>' for a, b in places]
        row = _BOTTOM + 62 + 20 * (n // 2)
        at = _LEFT + 280 * (n % 2)
        body.append(f'<path d="M{at} {row - 4}h24" stroke="{colour}" stroke-width="2"{style}/>')
        body.append(f'<text x="{at + 32}" y="{row}" fill="#333">{escape(name)}</text>')

    def back(value: float) -> str:
        number = 10**value if log else value
        for size, name in ((1e6, " million"), (1e3, ",000")):
            if number >= 10 * size:
                return f"{number / size:,.0f}{name}"
        return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"

    for text, anchor, a, b in (
        (back(low_x), "start", _LEFT + 4, _BOTTOM + 18),
        (back(high_x), "end", _RIGHT, _BOTTOM + 18),
        (escape(x), "middle", (_LEFT + _RIGHT) / 2, _BOTTOM + 36),
        (back(high_y), "end", _LEFT - 6, _TOP + 16),
        (back(low_y), "end", _LEFT - 6, _BOTTOM - 8),
    ):
        body.append(f'<text x="{a}" y="{b}" text-anchor="{anchor}" fill="#333">{text}</text>')
    middle = (_TOP + _BOTTOM) / 2
    body.append(
        f'<text x="16" y="{middle}" text-anchor="middle" fill="#333"'
        f' transform="rotate(-90 16 {middle})">{escape(y)}</text>'
    )
    height = _BOTTOM + 76 + 20 * ((len(series) - 1) // 2)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {height}" width="640"'
        ' font-size="13" font-family="sans-serif" style="background:#fff">'
        + "".join(body)
        + "</svg>\n"
    )
