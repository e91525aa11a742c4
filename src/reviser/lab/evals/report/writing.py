"""Sections on how the models write, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator

from reviser.lab.evals import flops, paper, plots
from reviser.lab.evals.plots import Bars, Dot
from reviser.lab.evals.report.format import (
    NOTHING,
    Record,
    Systems,
    dot_of,
    ends_of,
    estimate,
    make_table,
    number,
    printed,
    say,
    whole,
)
from reviser.lab.evals.report.page import (
    Block,
    Figure,
    Heading,
    Span,
    Table,
    Words,
    words,
)

PAPERS = {
    "actions_per_token": "Actions per token",
    "insert_fraction": "Inserts among actions",
    "move_fraction": "Moves among actions",
    "move_distance": "Mean size of a move",
    "move_sizes": "Moves of size",
    "backward_fraction": "Backward moves",
    "insert_position": "Where inserts go, 0 start to 1 end",
    "end_append_fraction": "Inserts at the end",
    "inner_insert_fraction": "Inserts elsewhere",
    "revised": "Texts with a backward revision",
}
"""The rows of the paper's table, in its order."""
OURS = {
    "travel_per_token": "Cursor travel per token",
    "detour_fraction": "Moves that a shorter way would save",
    "trailing_fraction": "Moves after the last edit",
    "needed_actions_per_token": "Actions per token without those two",
}
SEARCHES = {"search_fraction": "Searches among moves"}
"""Row for systems that search; older records lack it."""
PLAIN = ("actions_per_token", "move_distance", "insert_position", "travel_per_token")
"""Rows that are not shares."""


def trajectories(record: Record) -> Iterator[Block]:
    """Show the paper's table next to ours, the order of writing, and the sizes of moves."""
    yield Heading("How the models write")
    systems = [system for system in record["systems"] if system["trajectories"]]
    if not systems:
        yield say(
            "No system's texts came with their edits, so only the paper's statistics are here. Give"
            " rollouts, as ",
            Span("reviser generate", kind="code"),
            " writes them.",
        )
    rows = []
    has_searches = any(system["trajectories"].get("search_fraction") for system in systems)
    ours = (SEARCHES if has_searches else {}) | OURS
    for name, label in (PAPERS | ours).items():
        if name == "move_sizes":
            sizes = list(paper.TRAJECTORIES["100M"][name])
            rows += [_statistic(systems, name, f"{label} {size}", size) for size in sizes]
        else:
            rows.append(_statistic(systems, name, label))
    yield make_table(
        "Trajectory statistics",
        ["", *(s["name"] for s in systems), *(f"paper, {size}" for size in paper.SIZES)],
        rows,
        note=words(
            "Shares are of all actions, moves or inserts of all texts together. The paper does"
            f" not print the last {len(ours)} rows. A share of 0 has an interval as if each prompt"
            " had been tried once. "
        ),
    )
    for system in systems:
        if system["order_map"]:
            yield _order(system)
    if any(system["trajectories"]["move_sizes"] for system in systems):
        yield _move_sizes(systems)


def _statistic(systems: Systems, name: str, label: str, size: int | None = None) -> list[Words]:
    percent = name not in PLAIN and name != "needed_actions_per_token"
    cells = [words(label)]
    for system in systems:
        found = system["trajectories"].get(name)
        cells.append(estimate(found if size is None else found.get(str(size)), percent=percent))
    for by_name in paper.TRAJECTORIES.values():
        value = by_name.get(name)
        value = value[size] if size is not None and value else value
        cells.append(words(NOTHING if value is None else printed(value, percent=percent, digits=2)))
    return cells


def _order(system: Record) -> Figure:
    shares, name = system["order_map"], system["name"]
    return Figure(
        svg=plots.heat_map(
            shares,
            title=f"In which order {name} writes",
            x="place in what was written",
            y="when",
            diagonal="left to right",
        ),
        caption=f"In which order {name} writes: the share of all tokens at each place and time.",
        numbers=_fifths(f"Order of writing of {name}, in fifths", shares),
    )


def _fifths(caption: str, shares: list[list[float]]) -> Table:
    """Sum the map to five by five."""
    parts, bins = 5, len(shares)
    sums = [[0.0] * parts for _ in range(parts)]
    for i, row in enumerate(shares):
        for j, share in enumerate(row):
            sums[i * parts // bins][j * parts // len(row)] += share
    names = ["first", "second", "third", "fourth", "last"]
    return make_table(
        caption,
        ["Steps \\ place", *names],
        [
            [words(f"{name} fifth"), *(words(f"{100 * share:.1f} %") for share in row)]
            for name, row in zip(names, sums, strict=True)
        ],
    )


def _move_sizes(systems: Systems) -> Figure:
    printed_sizes = [
        {str(k): v for k, v in by["move_sizes"].items()} for by in paper.TRAJECTORIES.values()
    ]
    found = [system["trajectories"]["move_sizes"] for system in systems]
    sizes = sorted({int(size) for each in [*found, *printed_sizes] for size in each})
    keys = [str(size) for size in sizes]
    series = [
        Bars(
            label=system["name"],
            values=tuple(each[key]["value"] if key in each else 0.0 for key in keys),
            ends=tuple(ends_of(each[key]) if key in each else None for key in keys),
            series=n,
        )
        for n, (system, each) in enumerate(zip(systems, found, strict=True))
        if each
    ]
    series += [
        Bars(
            label=f"paper, {size}",
            values=tuple(each.get(key) for key in keys),
            of_paper=True,
            series=n,
        )
        for n, (size, each) in enumerate(zip(paper.SIZES, printed_sizes, strict=True))
    ]
    rows = [
        [
            words(key),
            *(estimate(each.get(key), percent=True) for each in found),
            *(
                words(printed(each[key], percent=True) if key in each else NOTHING)
                for each in printed_sizes
            ),
        ]
        for key in keys
    ]
    header = ["Size", *(s["name"] for s in systems), *(f"paper, {size}" for size in paper.SIZES)]
    return Figure(
        svg=plots.bars(keys, series, title="Sizes of moves", x="size of a move, in tokens"),
        caption="Share of the moves that have each size; lines are 95 % intervals, outlined bars"
        " the paper's, which prints the four smallest sizes only.",
        numbers=make_table("Sizes of moves", header, rows),
    )


# -- cost ------------------------------------------------------------------------------------------


def cost(record: Record) -> Iterator[Block]:
    """Show the cost of the texts, and that of other methods by the paper's formulas."""
    yield Heading("Cost")
    systems = [system for system in record["systems"] if system["cost"]]
    if systems:
        yield make_table(
            "Operations over those of writing as many tokens left to right",
            [
                "System",
                "Measured",
                "With nothing given",
                "Paper's formula",
                "Trunk",
            ],
            [
                [
                    words(system["name"]),
                    estimate(system["cost"]["measured"], apart_from=1),
                    estimate(system["cost"]["without_given"], apart_from=1),
                    words(number(system["cost"]["analytic"])),
                    words(_sizes(system["cost"]["sizes"])),
                ]
                for system in systems
            ],
            note=words(
                "Multiply-accumulates of the dominant matrix products, both models with a cache and"
                " reading the same prompt. The formula is taken at the mean length and share of"
                " moves of these texts. "
            ),
        )
    else:
        yield say(
            "No system's cost is known: it is counted from rollouts, for trunks that the formulas"
            " cover."
        )
    yield from _methods(systems)


def _sizes(sizes: Record) -> str:
    return f"{sizes['L']} layers, width {sizes['d']}, {whole(sizes['V'])} ids"


def _methods(systems: Systems) -> Iterator[Block]:
    table = flops.table()
    dots = [
        dot_of(system["name"], system["cost"]["measured"], series=n, apart_from=1)
        for n, system in enumerate(systems)
    ]
    others = sorted((row for row in table if row.variant != "baseline"), key=lambda r: r.multiplier)
    dots += [
        Dot(
            label=f"{row.method}, {row.variant}",
            value=row.multiplier,
            text=number(row.multiplier),
            of_paper=True,
        )
        for row in others
    ]
    yield Figure(
        svg=plots.dots(
            dots,
            title="Cost of writing, by method",
            axis="times the operations of an autoregressive model of its size, on a log axis",
            log=True,
            mark=(1.0, "left to right"),
        ),
        caption="Measured on these texts (dots), other methods by the paper's formulas for 128"
        " tokens (diamonds).",
    )
    yield make_table(
        "Cost of 128 tokens by the paper's formulas",
        ["Method", "Variant", "Operations, in billions", "Times its baseline"],
        [
            [
                words(row.method),
                words(row.variant),
                words(f"{row.flops / 1e9:,.2f}"),
                words(number(row.multiplier)),
            ]
            for row in table
        ],
        note=words("Computed here; a test holds each to the figure that the paper prints."),
    )
