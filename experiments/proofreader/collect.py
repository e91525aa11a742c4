"""Measure the candidates of many texts, for fitting and scoring a judge.

    python collect.py units base -o rows/train.jsonl --count 2000

A line of the result is a text: the sure changes, and every plausible candidate with its features.
Units get mistakes first, and each candidate says whether it is right: whether it brings the text
closer to the original by all of its letters. Runs with different parts of the units can go on side
by side: `--part 0/2` and `--part 1/2`.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mistakes import draw_mistakes, read_words
from rapidfuzz.distance import Levenshtein

import reviser
from reviser.data.mistakes import apply
from reviser.model import Reviser
from reviser.proofread.flow import by_passage, measure, open_edits, sure_edits
from reviser.proofread.judge import Judge, Logistic, features_of
from reviser.proofread.passage import passages
from reviser.writing.driver import Flow, Run

ZERO = Logistic(constant=0.0, weights={})
OPEN = Judge(verdict=ZERO, gate=ZERO, min_gate=0.0, min_confidence=0.0)
"""A judge whose gate is open."""
CLEAN = 0.45
"""Share of units that get no mistake."""


def is_right(draft: str, original: str, start: int, end: int, after: str) -> bool:
    """Return whether an edit brings a draft closer to the original by all of its letters."""
    made = draft[:start] + after + draft[end:]
    moved = Levenshtein.distance(draft[start:end], after)
    return Levenshtein.distance(made, original) == Levenshtein.distance(draft, original) - moved


def measured(draft: str, locked: Any, model: Reviser) -> Flow[dict[str, Any]]:
    """Return the sure changes of a text, and its plausible candidates with their features."""
    tools = model.proofreading
    sure = sure_edits(draft, locked, tools.proposers)
    found = open_edits(sure, locked, tools.proposers)
    parts = list(passages(tools.codec, sure.text, tools.begin))
    group = list(zip(parts, by_passage(parts, found), strict=True))
    rows = []
    for (part, _), some in zip(
        group, (yield from measure(group, OPEN, tools.context)), strict=True
    ):
        by = part.window.context_start
        for each, features in zip(some, features_of(some), strict=True):
            one = each.candidate
            span = one.start + by, one.end + by
            rows.append([*span, one.after, {k: round(v, 4) for k, v in features.items() if v}])
    changes = [[each.start, each.end, each.after, each.rule] for each in sure.changes]
    return {"draft": draft, "sure": changes, "text": sure.text, "pool": len(found), "rows": rows}


def units(path: Path, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield units with mistakes, and as they were."""
    lines = path.read_text("utf-8").splitlines()
    order = np.random.default_rng(seed).permutation(len(lines))
    for n in order.tolist()[:count]:
        unit = json.loads(lines[n])
        if "before" in unit:
            continue
        rng = np.random.default_rng([seed, n])
        words = read_words(unit["text"], unit["spans"], unit["tags"])
        mistakes = draw_mistakes(unit["text"], words, rng, clean=CLEAN)
        yield apply(unit["text"], mistakes), unit["text"]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("units", type=Path)
    parser.add_argument("base", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--part", default="0/1")
    given = parser.parse_args()
    torch.set_num_threads(1)
    part, parts = map(int, given.part.split("/"))
    given.output.parent.mkdir(parents=True, exist_ok=True)
    with (
        reviser.proofreader(given.base, backend="hf") as model,
        given.output.open("w", encoding="utf-8") as file,
    ):
        for n, (draft, original) in enumerate(units(given.units, given.count, given.seed)):
            if n % parts != part:
                continue
            row = Run(measured(draft, (), model), model.driver).wait()
            for each in row["rows"]:
                each.append(is_right(row["text"], original, *each[:3]))
            file.write(json.dumps({"original": original, **row}) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
