"""The page of an evaluation: its results next to the paper's, and how they were made.

The page is Markdown and a pure function of the record: equal records give equal pages. Nothing is
measured here, and torch is not imported.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reviser.errors import DataError
from reviser.lab.evals import flops, paper
from reviser.lab.evals.page import (
    NOTHING,
    Cell,
    Interval,
    cell,
    escape,
    number,
    percentage,
    table,
)
from reviser.lab.evals.provenance import (
    Record,
    examples,
    features_name,
    judge_name,
    listed,
    name_of,
    provenance,
    setting,
    sides_name,
    systems_of,
    training,
)
from reviser.lab.evals.texts import FORMAT


def read(path: Path) -> Record:
    """Read a record from a file."""
    try:
        record: Record = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"Cannot read the record {str(path)!r}: {error}.") from error
    return record


def to_markdown(record: Any) -> str:
    """Return the page of a record that `evaluation.evaluate` returned."""
    if not isinstance(record, dict) or "format" not in record:
        raise DataError(
            "This is not the record of an evaluation: it has no format. Give the file that reviser"
            " lab eval wrote."
        )
    if record["format"] != FORMAT:
        raise DataError(
            f"The record has format {record['format']!r}, but this version reads {FORMAT}. Make the"
            " record again, or use the version that made it."
        )
    try:
        blocks = [f"# Evaluation of {listed(record)}"]
        for title, section in SECTIONS.items():
            blocks += [f"## {title}"] * bool(title) + list(section(record))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"The record is not complete ({error!r}): make it again with reviser lab eval."
        ) from error
    return "\n\n".join(blocks) + "\n"


# -- in short --------------------------------------------------------------------------------------


def _summary(record: Record) -> Iterator[str]:
    ours = systems_of(record)
    several = len(ours) > 1
    yield (
        f"The texts of {listed(record)} continue {'the same ' if several else ''}"
        f"{ours[0]['prompts']:,} prompts, {ours[0]['samples']:,} texts{' each' * several}."
        " Brackets hold 95\u00a0% intervals."
    )


# -- quality of the texts --------------------------------------------------------------------------


def _perplexity(record: Record) -> Iterator[str]:
    found: dict[str, list[tuple[Record, Record]]] = {}
    for system in record["systems"]:
        for each in system["perplexity"]:
            found.setdefault(each["scorer"]["model"], []).append((system, each))
    if not found:
        yield "No scorer was asked. Name one with `--scorer`."
    for scorer, several in found.items():
        header = ["System", "evalPPL", "Bits per character", "Texts", "Empty"]
        rows: list[list[Cell]] = [
            [name_of(system), Interval(each["perplexity"]), Interval(each["bits_per_character"]),
             f"{system['samples']:,}", f"{each['empty']:,}", f"{each['longer']:,}"]
            for system, each in several
        ]  # fmt: skip
        yield table(
            f"evalPPL under {scorer}, lower is likelier",
            [*header, "Longer than context"],
            rows,
            "Empty continuations count for nothing.",
        )
        for system, each in several:
            if system["model"] and system["model"].get("weights") == each["scorer"].get("weights"):
                yield (
                    f"**{escape(scorer)} wrote the texts of {escape(system['name'])} itself.** It"
                    " finds its own texts likely, regardless of their quality."
                )
    if any(comparison["perplexity_ratio"] for comparison in record["comparisons"]):
        yield _ratios(record)
    by_scorer = paper.PERPLEXITY.values()
    yield table(
        "evalPPL in the paper",
        ["Model", *(f"paper, {scorer}" for scorer in paper.PERPLEXITY)],
        [
            [str(model), *(f"{by[model]:.4f}" for by in by_scorer)]
            for model in next(iter(by_scorer))
        ],
        "As printed, without intervals. Perplexities compare only under one scorer and on texts"
        " that continue the same prompts.",
    )


def _ratios(record: Record) -> str:
    rows: list[list[Cell]] = []
    for comparison in record["comparisons"]:
        pair = " / ".join(comparison["systems"])
        for each in comparison["perplexity_ratio"]:
            ratio = Interval(each["ratio"], apart_from=1)
            verdict = "includes 1: no difference is shown" if ratio.includes(1) else "leaves out 1"
            rows.append([pair, each["scorer"], ratio, verdict])
    for scorer, by_model in paper.PERPLEXITY.items():
        for ours, theirs in zip(paper.REVISER.values(), paper.BASELINE.values(), strict=True):
            quotient = number(by_model[ours] / by_model[theirs])
            rows.append([f"paper: {ours} / {theirs}", scorer, quotient, NOTHING])
    return table(
        "Ratios of evalPPL on the same prompts",
        ["Systems", "Scorer", "Ratio", "Interval"],
        rows,
        "The paper's are quotients of its printed values, which have no interval.",
    )


FEWEST_CLUSTERS = 10
"""Minimum number of clusters for a meaningful value of MAUVE."""
DIVERSITY = {
    "distinct_1": "Distinct words",
    "distinct_2": "Distinct pairs of words",
    "distinct_3": "Distinct triples of words",
    "repetition_4": "Runs of 4 words that occurred before",
    "words": "Words of a text",
    "characters": "Characters of a text",
}


def _mauve(record: Record) -> Iterator[str]:
    measured = [(system["name"], each) for system in systems_of(record) for each in system["mauve"]]
    if measured:
        few = any(each["clusters"] < FEWEST_CLUSTERS for _, each in measured)
        yield table(
            "MAUVE against the documents, 1 is alike",
            ["System", "MAUVE", "Features", "Clusters"],
            [
                [name, Interval(m["mauve"]), features_name(m["features"]), f"{m['clusters']:,}"]
                for name, m in measured
            ],
            f"Fewer than {FEWEST_CLUSTERS} clusters tell little: too few texts." * few,
        )
    else:
        yield "MAUVE was not measured. Ask for it with `--mauve`."
    yield table(
        "MAUVE in the paper",
        ["Model", "MAUVE"],
        [[str(model), f"{value:.4f}"] for model, value in paper.MAUVE.items()],
        f"As printed, without intervals: {paper.SETTING['100M'].mauve}. MAUVE moves with the number"
        " of texts and with the features, so it compares within a table, and with the paper's only"
        " in a setting like the paper's.",
    )
    systems = record["systems"]
    rows: list[list[Cell]] = [["Texts", *(f"{system['samples']:,}" for system in systems)]]
    for name in dict.fromkeys(name for system in systems for name in system["diversity"]):
        percent = name not in ("words", "characters")
        cells = [cell(system["diversity"].get(name), percent=percent) for system in systems]
        rows.append([DIVERSITY.get(name, name), *cells])
    yield table(
        "Variety and length of the continuations",
        ["", *map(name_of, systems)],
        rows,
        "Shares of distinct words move with the number and length of the texts:"
        " compare systems with as many texts of like length only. The paper prints none.",
    )


def _arena(record: Record) -> Iterator[str]:
    matches = [(c["systems"], c["arena"]) for c in record["comparisons"] if c["arena"]]
    if not matches:
        why = (
            "No judge was asked" if record["comparisons"] else "There is no system to compare with"
        )
        yield f"{why}. To have pairs of texts judged, give two systems or more and `--judge`."
    for (a, b), match in matches:
        asked = match["wins"] + match["losses"] + match["ties"] + match["invalid"]
        first = cell(match["shown_first"], percent=True, apart_from=0.5)
        rows: list[list[Cell]] = [
            [f"{a} wins, a tie as half", Interval(match["win_rate"], percent=True, apart_from=0.5)],
            [f"Verdicts for {a}", f"{match['wins']:,}"],
            [f"Verdicts for {b}", f"{match['losses']:,}"],
            ["Ties", f"{match['ties']:,}"],
            ["Replies without a verdict", f"{match['invalid']:,} of {asked:,}"],
            ["What was shown first won", first],
            ["Same winner in both orders", cell(match["consistent"], percent=True)],
        ]
        judge = f"Judge: {escape(judge_name(match['judge']))}, {sides_name(match)}."
        yield table(f"{a} against {b}", ["", "Value"], rows, judge)
        if match["is_biased"]:
            yield (
                f"**The judge prefers a side.** What was shown first won in {first} of the"
                " verdicts, where a fair judge has one half. Read this win rate with care."
            )
    yield table(
        "Win rates in the paper",
        ["Model", "Against", "Wins"],
        [
            [str(paper.REVISER[size]), str(model), percentage(value)]
            for size, rates in paper.ARENA.items()
            for model, value in rates.items()
        ],
        f"As printed, without intervals. Judge: {paper.SETTING['100M'].judge}.",
    )


# -- how the models write --------------------------------------------------------------------------

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
PLAIN = ("actions_per_token", "move_distance", "insert_position")
"""Rows that are not shares."""


def _trajectories(record: Record) -> Iterator[str]:
    systems = [system for system in systems_of(record) if system["trajectories"]]
    if not systems:
        yield (
            "No system's texts came with their edits, so only the paper's statistics are here. Give"
            " rollouts, as `reviser generate` writes them."
        )
    counted = [system["trajectories"] for system in systems]
    labels = dict(PAPERS)
    if any(each.get("search_fraction") for each in counted):
        labels["search_fraction"] = "Searches among moves"
    rows: list[list[Cell]] = []
    for name, label in labels.items():
        percent = name not in PLAIN
        printed: list[Any] = [each.get(name) for each in paper.TRAJECTORIES.values()]
        if name == "move_sizes":
            sizes = sorted({*printed[0], *(int(s) for each in counted for s in each[name])})
            for size in sizes:
                cells = [cell(each[name].get(str(size)), percent=True) for each in counted]
                papers = [percentage(p[size]) if size in p else NOTHING for p in printed]
                rows.append([f"{label} {size}", *cells, *papers])
            continue
        form = percentage if percent else "{:.2f}".format
        papers = [NOTHING if value is None else form(value) for value in printed]
        rows.append([label, *(cell(each.get(name), percent=percent) for each in counted), *papers])
    yield table(
        "Trajectory statistics",
        ["", *(s["name"] for s in systems), *(f"paper, {size}" for size in paper.SIZES)],
        rows,
        "Shares are of all actions, moves or inserts of all texts together. The paper prints four"
        " sizes of moves, and no searches. A share of 0 has an interval as if each prompt had been"
        " tried once.",
    )


def _cost(record: Record) -> Iterator[str]:
    systems = [(system["name"], system["cost"]) for system in record["systems"] if system["cost"]]
    if systems:
        yield table(
            "Operations over those of writing as many tokens left to right",
            ["System", "Measured", "With nothing given", "Paper's formula", "Trunk"],
            [
                [
                    name,
                    Interval(cost["measured"], apart_from=1),
                    Interval(cost["without_given"], apart_from=1),
                    number(cost["analytic"]),
                    "{L} layers, width {d}, {V:,} ids".format(**cost["sizes"]),
                ]
                for name, cost in systems
            ],
            "Multiply-accumulates of the dominant matrix products, both models with a cache and"
            " reading the same prompt. The formula is taken at the mean length and share of moves"
            " of these texts.",
        )
    else:
        yield (
            "No system's cost is known: it is counted from rollouts, for trunks that the formulas"
            " cover."
        )
    yield table(
        "Cost of 128 tokens by the paper's formulas",
        ["Method", "Variant", "Operations, in billions", "Times its baseline"],
        [
            [row.method, row.variant, f"{row.flops / 1e9:,.2f}", number(row.multiplier)]
            for row in flops.table()
        ],
        "Computed here; a test holds each to the figure that the paper prints.",
    )


SECTIONS = {
    "": _summary,
    "The paper's setting": setting,
    "evalPPL": _perplexity,
    "MAUVE and variety": _mauve,
    "Arena": _arena,
    "How the models write": _trajectories,
    "Cost": _cost,
    "Training": training,
    "Texts": examples,
    "Where this comes from": provenance,
}
