"""Measure the candidates of many texts, for fitting and scoring a judge.

    python collect.py units base -o rows/train.jsonl --count 2000

A line of the result is a text: the sure changes, and every plausible candidate with its features.
Units get mistakes first, and each candidate says whether it is right: whether it brings the text
closer to the original by all of its letters. Runs with different parts of the units can go on side
by side: `--part 0/2` and `--part 1/2`.
"""

import argparse
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from mistakes import draw_mistakes, read_words
from rapidfuzz.distance import Levenshtein

import reviser
from reviser.data.mistakes import apply
from reviser.model import Reviser
from reviser.proofread.flow import Look, by_passage, compared, look, open_edits, sure_edits
from reviser.proofread.judge import Judge, Measured, early_features, features_of
from reviser.proofread.passage import Passage, passages
from reviser.writing.driver import Flow, Run

SAMPLED = 3
"""Of the candidates that do not pass the gate, one in so many is kept."""
CLEAN = 0.45
"""Share of units that get no mistake."""


def is_right(draft: str, original: str, start: int, end: int, after: str) -> bool:
    """Return whether an edit brings a draft closer to the original by all of its letters."""
    made = draft[:start] + after + draft[end:]
    moved = Levenshtein.distance(draft[start:end], after)
    return Levenshtein.distance(made, original) == Levenshtein.distance(draft, original) - moved


def labelled(
    part: Passage, pool: Sequence[Measured], features: Any, text: str, original: str
) -> list[list[Any]]:
    """Return candidates of a passage: span, replacement, features, and whether it is right."""
    rows, by = [], part.window.context_start
    for each, found in zip(pool, features, strict=True):
        one = each.candidate
        span = one.start + by, one.end + by, one.after
        named = {name: round(value, 4) for name, value in found.items() if value}
        rows.append([*span, named, is_right(text, original, *span)])
    return rows


def measured(
    draft: str, original: str, locked: Any, model: Reviser, gate: Judge, share: float = 1.0
) -> Flow[dict[str, Any]]:
    """Return the sure changes of a text, and its candidates with features and labels.

    Right candidates that pass the gate are compared, and a share of the wrong ones, with those that
    they meet. Of the others only some are returned, with what is known of them.
    """
    tools = model.proofreading
    sure = sure_edits(draft, locked, tools.proposers)
    found = open_edits(sure, locked, tools.proposers)
    parts = list(passages(tools.codec, sure.text, tools.begin))
    group = list(zip(parts, by_passage(parts, found), strict=True))
    looks, ends = yield from look(group, tools.context)
    passed: list[list[Look]] = []
    rows, others = [], []
    for part, some in zip(parts, looks, strict=True):
        pool = [each for _, each in some]
        known = labelled(part, pool, early_features(pool), sure.text, original)
        passes = gate.passes(pool)
        others += [row for row, passes_ in zip(known, passes, strict=True) if not passes_]
        passed.append([])
        for run in runs([n for n, passes_ in enumerate(passes) if passes_], pool):
            if any(known[n][-1] for n in run) or draw(draft, run) < share:
                passed[-1] += [some[n] for n in run]
    for part, some in zip(parts, (yield from compared(parts, passed, ends)), strict=True):
        rows += labelled(part, some, features_of(some), sure.text, original)
    changes = [[each.start, each.end, each.after, each.rule] for each in sure.changes]
    return {"draft": draft, "sure": changes, "text": sure.text, "share": share,
            "rows": rows, "others": others[::SAMPLED]}  # fmt: skip


def runs(numbers: Sequence[int], pool: Sequence[Measured]) -> Iterator[list[int]]:
    """Yield the numbers of candidates in groups of which none meets another."""
    run, end = list[int](), -1
    for n in numbers:
        if run and pool[n].candidate.start > end:
            yield run
            run = []
        run.append(n)
        end = max(end if len(run) > 1 else -1, pool[n].candidate.end)
    if run:
        yield run


def draw(*key: object) -> float:
    """Return a number in 0..1 that depends only on the key."""
    return zlib.crc32(repr(key).encode()) / 2**32


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
    parser.add_argument("--gate", type=Path, help="the judge whose gate candidates must pass")
    parser.add_argument("--min-gate", type=float, default=0.012)
    parser.add_argument("--share", type=float, default=0.4, help="of wrong candidates")
    parser.add_argument("--backend", default="onnx")
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    known = Judge.load(given.gate) if given.gate else Judge.load()
    gate = replace(known, min_gate=given.min_gate)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    with (
        reviser.proofreader(given.base, backend=given.backend) as model,
        given.output.open("w", encoding="utf-8") as file,
    ):
        for n, (draft, original) in enumerate(units(given.units, given.count, given.seed)):
            if n % parts != part:
                continue
            flow = measured(draft, original, (), model, gate, given.share)
            row = Run(flow, model.driver).wait()
            file.write(json.dumps({"original": original, **row}) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
