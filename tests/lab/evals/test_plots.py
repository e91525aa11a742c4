"""Figures are drawn to scale, no text lies on another, and no label becomes markup."""

import itertools
import math
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reviser.lab.evals.plots import SIZE, Bars, Dot, _width, bars, dots, escaped, heat_map, visible

numbers = st.floats(1e-3, 1e6)


def read(svg: str) -> ElementTree.Element:
    """As strict XML, which is more than a page asks for."""
    return ElementTree.fromstring(svg)


def boxes(root: ElementTree.Element) -> list[tuple[float, float, float, float]]:
    """Where each text is: left, right, top, bottom."""
    found = []
    for text in root.iter("text"):
        wide = 0.9 * _width(text.text or "")  # which is rather too much
        left = (
            float(text.get("x", ""))
            - wide * {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor", "start")]
        )
        bottom = float(text.get("y", ""))
        found.append((left, left + wide, bottom - 0.8 * SIZE, bottom))
    return found


def check(svg: str) -> ElementTree.Element:
    root = read(svg)
    _, _, width, height = map(float, root.get("viewBox", "").split())
    placed = boxes(root)
    for left, right, top, bottom in placed:
        assert left >= -2
        assert right <= width + 2
        assert top >= 0
        assert bottom <= height
    for a, b in itertools.combinations(placed, 2):
        apart = a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2]
        assert apart, (a, b)
    assert root[0].tag == "title"
    assert root[1].tag == "desc"
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{root[0].get('id')} {root[1].get('id')}"
    return root


def row(value: float, *, label: str = "x", ends: Any = None, of_paper: bool = False) -> Dot:
    return Dot(label=label, value=value, ends=ends, text=f"{value:.3g}", of_paper=of_paper)


def centres(root: ElementTree.Element) -> list[float]:
    return [float(circle.get("cx", "")) for circle in root.iter("circle")]


@pytest.mark.parametrize("log", [False, True])
@settings(deadline=None)
@given(values=st.lists(numbers, min_size=1, max_size=12))
def test_dots_lie_in_the_order_of_their_values(values: list[float], log: bool) -> None:
    rows = [row(value, label=f"row {n}") for n, value in enumerate(values)]
    root = check(dots(rows, title="t", axis="a", log=log))
    at = centres(root)
    assert len(at) == len(values)
    for (a, x), (b, y) in itertools.combinations(zip(values, at, strict=True), 2):
        assert (x - y) * (a - b) >= 0


@pytest.mark.parametrize("log", [False, True])
@given(values=st.lists(numbers, min_size=1, max_size=4), mark=numbers)
@settings(deadline=None)
def test_ticks_stand_where_their_numbers_are(values: list[float], mark: float, log: bool) -> None:
    svg = dots([row(v) for v in values], title="t", axis="an axis", log=log, mark=(mark, "m"))
    root = check(svg)
    bottom = max(float(line.get("y2", "")) for line in root.iter("line"))
    ticks = [
        (float((text.text or "").replace(",", "")), float(text.get("x", "")))
        for text in root.iter("text")
        if float(text.get("y", "")) == pytest.approx(bottom + 16, abs=0.1)
    ]
    points = [*ticks, *zip(values, centres(root), strict=True)]
    to = math.log10 if log else float
    (a, x), (b, y) = min(points, key=lambda p: p[1]), max(points, key=lambda p: p[1])
    assert ticks
    if y - x > 50:
        for value, place in points:
            expected = x + (to(value) - to(a)) / (to(b) - to(a)) * (y - x)
            assert place == pytest.approx(expected, abs=1)


def test_intervals_are_drawn_to_both_ends_and_an_open_one_to_the_edge() -> None:
    root = check(dots([row(2, ends=(1, 4)), row(3, ends=(None, 3.5))], title="t", axis="a"))
    lines = [line for group in root.iter("g") for line in group.iter("line")]
    first = [line for line in lines if line.get("y1") == line.get("y2")]
    (one, two) = centres(root)
    unit = two - one
    closed, opened = ((float(x.get("x1", "")), float(x.get("x2", ""))) for x in first)
    assert closed == pytest.approx((one - unit, one + 2 * unit), abs=0.3)
    assert opened[0] < closed[0]
    assert opened[1] == pytest.approx(two + unit / 2, abs=0.3)
    assert len(list(root.iter("path"))) == 1  # an arrow


def test_what_is_infinite_or_below_a_log_axis_is_left_out() -> None:
    rows = [row(math.inf, ends=(3, None)), row(0.0, ends=(0.0, 5)), row(2)]
    root = check(dots(rows, title="t", axis="a", log=True))
    assert len(centres(root)) == 1
    check(dots([row(math.inf)], title="t", axis="a"))


@settings(deadline=None)
@given(st.integers(1, 25), st.integers(1, 25), st.randoms(use_true_random=False))
def test_a_heat_map_is_as_dark_as_its_shares(rows: int, columns: int, rng: Any) -> None:
    shares = [[rng.choice([0.0, rng.random()]) for _ in range(columns)] for _ in range(rows)]
    svg = heat_map(shares, title="t", x="place", y="when", diagonal="left to right")
    root = check(svg)
    highest = max(map(max, shares))
    cells = [r for r in root.iter("rect") if list(r.iter("title"))]
    drawn = [(float(r.get("fill-opacity", "")), r[0].text) for r in cells]
    shown = [share for line in shares for share in line if share > 0]
    assert [text for _, text in drawn] == [f"{100 * share:.2f} %" for share in shown]
    assert [depth for depth, _ in drawn] == pytest.approx(
        [share / highest for share in shown], abs=0.001
    )


@settings(deadline=None)
@given(st.data(), st.integers(1, 10), st.integers(1, 6))
def test_bars_are_as_high_as_their_values(data: Any, groups: int, count: int) -> None:
    values = st.none() | st.floats(0.01, 1)
    series = [
        Bars(
            label=f"series {n}",
            values=tuple(data.draw(st.lists(values, min_size=groups, max_size=groups))),
            of_paper=n % 2 == 1,
            series=n,
        )
        for n in range(count)
    ]
    root = check(bars([str(2**g) for g in range(groups)], series, title="t", x="size"))
    heights = [float(rect.get("height", "")) for rect in root.iter("rect")][count:]
    shown = [v for g in range(groups) for s in series if (v := s.values[g]) is not None]
    assert len(heights) == len(shown)
    if shown:
        scale = heights[0] / shown[0]
        assert heights == pytest.approx([scale * v for v in shown], abs=0.11 * scale + 0.2)


@settings(deadline=None)
@given(st.text(min_size=1, max_size=60), st.text(max_size=20))
def test_no_label_becomes_markup(label: str, title: str) -> None:
    for svg in (
        dots([Dot(label=label, value=1, text=label[:9])], title=title, axis=label[:9]),
        bars(["a"], [Bars(label=label, values=(1.0,))], title=title, x=label[:9]),
        heat_map([[1.0]], title=title, x=label[:9], y=label[:5], diagonal=label[:9]),
    ):
        svg.encode()
        tags = re.findall(r"<(/?\w+)", svg)
        plain = svg.replace(escaped(label), "").replace(escaped(title), "")
        assert tags.count("script") == 0
        assert len(re.findall("<", plain)) == len(tags)


def test_hostile_labels_are_read_back() -> None:
    hostile = "</title><script>x</script>&amp;'\"\u202e"
    svg = dots([Dot(label=hostile, value=1, text="1")], title=hostile, axis="a")
    data: list[str] = []
    parser = HTMLParser()
    parser.handle_data = data.append  # type: ignore[method-assign]
    parser.feed(svg)
    assert visible(hostile) in data
    assert read(svg)[0].text == visible(hostile)
