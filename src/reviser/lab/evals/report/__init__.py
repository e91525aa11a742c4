"""The page of an evaluation: its results next to the paper's, and how they were made.

The page is a pure function of the record: equal records give equal bytes on every machine.
Rendering is in `page`; nothing is measured here, and torch is not imported.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reviser.errors import DataError
from reviser.files import write_whole
from reviser.lab.evals import paper
from reviser.lab.evals.report import provenance, quality, writing
from reviser.lab.evals.report.format import (
    Found,
    Record,
    estimate,
    includes,
    listed,
    systems_of,
    whole,
)
from reviser.lab.evals.report.page import Block, Page, Paragraph, Span, to_html, to_markdown, words
from reviser.lab.evals.texts import FORMAT, REFERENCE

__all__ = ["build", "read", "to_html", "to_json", "to_markdown", "write"]


def build(record: Any) -> Page:
    """Make the page of a record that `evaluation.evaluate` returned."""
    if not isinstance(record, dict) or "format" not in record:
        raise DataError(
            "This is not the record of an evaluation: it has no format. Give the file that reviser"
            " eval wrote."
        )
    if record["format"] != FORMAT:
        raise DataError(
            f"The record has format {record['format']!r}, but this version reads {FORMAT}. Make the"
            " record again, or use the version that made it."
        )
    try:
        names = [system["name"] for system in systems_of(record)]
        blocks = [block for section in SECTIONS for block in section(record)]
        return Page(title=f"Evaluation of {listed(names)}", blocks=tuple(blocks))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"The record is not complete ({error!r}): make it again with reviser lab eval."
        ) from error


def read(path: Path) -> Record:
    """Read a record from a file."""
    try:
        record: Record = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"Cannot read the record {str(path)!r}: {error}.") from error
    return record


def write(record: Record, output: Path) -> Path:
    """Write the page as .html, .md and .json under the output's name; return the .html path."""
    page = build(record)
    write_whole(output.with_suffix(".json"), to_json(record))
    write_whole(output.with_suffix(".md"), to_markdown(page))
    write_whole(output.with_suffix(".html"), to_html(page))
    return output.with_suffix(".html")


def to_json(record: Any) -> str:
    """Return the record with the paper's figures added, for programs."""
    build(record)  # raises for anything that is not a record
    published = {
        "perplexity": {s: _named(each) for s, each in paper.PERPLEXITY.items()},
        "mauve": _named(paper.MAUVE),
        "win_rate_of_reviser": {size: _named(each) for size, each in paper.ARENA.items()},
        "trajectories": paper.TRAJECTORIES,
        "setting": {size: asdict(setting) for size, setting in paper.SETTING.items()},
    }
    content = _finite({**record, "paper": published})
    return json.dumps(content, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _named(figures: dict[paper.Model, float]) -> dict[str, float]:
    return {str(model): value for model, value in figures.items()}


def _finite(content: Any) -> Any:
    """Replace numbers that JSON cannot hold by null."""
    if isinstance(content, dict):
        return {str(name): _finite(part) for name, part in content.items()}
    if isinstance(content, list):
        return [_finite(part) for part in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


# -- in short --------------------------------------------------------------------------------------


def _summary(record: Record) -> Iterator[Block]:
    ours = systems_of(record)
    first = ours[0]
    same = "continued" if len(ours) == 1 else "continued the same"
    each = f"{whole(first['samples'])} texts" + (" each" if len(ours) > 1 else "")
    parts: list[str | Span] = [
        f"{listed([system['name'] for system in ours])} {same} {whole(first['prompts'])} prompts,"
        f" {each}. Brackets hold 95\u00a0% intervals."
    ]
    for comparison in record["comparisons"]:
        parts += _compared(record, comparison)
        if len(record["comparisons"]) > 1:  # too much for one paragraph
            yield Paragraph(words(*parts))
            parts = []
    if not record["comparisons"]:
        for system in ours:
            for found in system["perplexity"]:
                value = estimate(found["perplexity"])
                parts += [f" Under {found['scorer']['model']}, evalPPL is ", *value, "."]
    for describe in (_documents, _alike, _spent):
        parts += [part for system in record["systems"] for part in describe(system)]
    yield Paragraph(words(*parts))


def _compared(record: Record, comparison: Record) -> Iterator[str | Span]:
    """Describe one system against another, and whether the texts show a difference."""
    a, b = comparison["systems"]
    by_name = {system["name"]: system for system in record["systems"]}
    for found in comparison["perplexity_ratio"]:
        scorer, ratio = found["scorer"], found["ratio"]
        sides = [_under(by_name[name], scorer) for name in (a, b)]
        yield f" Under {scorer}, evalPPL is "
        yield from estimate(sides[0])
        yield f" for {a} and "
        yield from estimate(sides[1])
        yield f" for {b}; their ratio is "
        yield from estimate(ratio, apart_from=1)
        if includes(ratio, 1):
            yield ", an interval that includes 1: these texts do not tell the two apart."
        else:
            higher = a if ratio["value"] > 1 else b
            yield f", an interval that leaves out 1: that of {higher} is higher."
    if match := comparison["arena"]:
        yield f" The judge prefers {a} to {b} in "
        yield from estimate(match["win_rate"], percent=True, apart_from=0.5)
        yield " of the pairs, an interval that "
        yield "includes one half" if includes(match["win_rate"], 0.5) else "leaves out one half"
        yield "; but it prefers one side, regardless of the system." if match["is_biased"] else "."


def _under(system: Record, scorer: str) -> Found | None:
    found = [each for each in system["perplexity"] if each["scorer"]["model"] == scorer]
    return found[0]["perplexity"] if found else None


def _documents(system: Record) -> Iterator[str | Span]:
    if system["name"] == REFERENCE:
        for each in system["perplexity"]:
            yield " The documents themselves have evalPPL "
            yield from estimate(each["perplexity"])
            yield f" under {each['scorer']['model']}."


def _alike(system: Record) -> Iterator[str | Span]:
    for each in system["mauve"]:
        if each["clusters"] < quality.FEWEST_CLUSTERS:
            continue
        yield f" MAUVE of {system['name']} against the documents is "
        yield from estimate(each["mauve"])
        yield f", by {each['features']['model']}."


def _spent(system: Record) -> Iterator[str | Span]:
    if system["trajectories"] and (actions := system["trajectories"]["actions_per_token"]):
        yield f" {system['name']} took "
        yield from estimate(actions)
        yield " actions for each token"
        if system["cost"]:
            yield " and "
            yield from estimate(system["cost"]["measured"], apart_from=1)
            yield " times the operations of writing as many tokens left to right"
        yield "."


SECTIONS = (
    _summary,
    provenance.differences,
    quality.perplexity,
    quality.mauve,
    quality.diversity,
    quality.arena,
    writing.trajectories,
    writing.cost,
    provenance.training,
    provenance.examples,
    provenance.provenance,
)
