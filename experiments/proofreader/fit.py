"""Fit the judge: a logistic regression on candidates of which it is known whether they are right.

    python fit.py rows/train-*.jsonl --held-out rows/held-*.jsonl -o judge.json

`collect.py` writes the rows. Rare features get no weight. The calibration that is written
is of the held-out rows.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from collect import SAMPLED

from reviser.proofread.judge import Judge, Logistic, Measured, log_odds, other_mistakes, rate
from reviser.proofread.keep import composed, most_confident
from reviser.proofread.pool import Candidate
from reviser.writing.changes import Change, Changes

RARE = 12
"""Right candidates that a feature must have before it gets a weight."""
SMALLEST_SCALE = 0.5
"""The least scale of a feature: so the penalty holds for the weights of rare features, too."""
LIMITS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
Row = dict[str, Any]
FloatArray = npt.NDArray[np.float64]


def read(paths: Iterable[Path]) -> list[Row]:
    """Read the rows of some files."""
    return [json.loads(line) for path in paths for line in path.open(encoding="utf-8")]


EARLY = ("margin", "first", "inserts", "deletes", "sources", "comma", "letters", "extra letters",
         "capital", "no change of words", "rule ", "source ", "category ")  # fmt: skip
"""How the features begin that are known at the gate."""


class Samples(NamedTuple):
    """Candidates with their features, whether each is right, and how many each stands for."""

    features: Sequence[Mapping[str, float]]
    right: FloatArray
    weights: FloatArray


def fit(samples: Samples, *, penalty: float, wanted: tuple[str, ...] = ("",)) -> Logistic:
    """Return the regression that makes the labels of some candidates most likely."""
    features, right, counted = samples
    counts: Counter[str] = Counter()
    for some, label in zip(features, right, strict=True):
        if label:
            counts.update(some.keys())
    names = sorted(name for name, n in counts.items() if n >= RARE and name.startswith(wanted))
    x = np.array([[some.get(name, 0.0) for name in names] for some in features])
    mean, scale = x.mean(0), np.maximum(x.std(0), SMALLEST_SCALE)
    z = np.column_stack([np.ones(len(x)), (x - mean) / scale])
    weights, prior = np.zeros(z.shape[1]), np.array([1e-6, *[penalty] * len(names)])
    for _ in range(50):
        share = 1 / (1 + np.exp(-z @ weights))
        curvature = (z * (counted * share * (1 - share))[:, None]).T @ z + np.diag(prior)
        step = np.linalg.solve(curvature, z.T @ (counted * (right - share)) - prior * weights)
        weights += step
        if np.abs(step).max() < 1e-6:
            break
    plain = weights[1:] / scale
    return Logistic(
        constant=round(float(weights[0] - plain @ mean), 4),
        weights={name: round(float(w), 4) for name, w in zip(names, plain, strict=True)},
    )


def counted(row: Row) -> list[float]:
    """Return how many candidates each compared one stands for.

    Wrong ones were left out by lot, together with those that they meet (`collect.py`).
    """
    found = [1.0] * len(row["rows"])
    run, end = list[int](), -1
    for n in [*range(len(found)), -1]:
        if run and (n < 0 or row["rows"][n][0] > end):
            if not any(row["rows"][m][-1] for m in run):
                for m in run:
                    found[m] = 1 / row["share"]
            run, end = [], -1
        if n >= 0:
            run.append(n)
            end = max(end, row["rows"][n][1])
    return found


def samples(rows: Sequence[Row], *, early: bool = False) -> Samples:
    """Return the compared candidates; with `early`, also those that did not pass the gate."""
    found = [
        (features, right, weight)
        for row in rows
        for (*_, features, right), weight in [
            *zip(row["rows"], counted(row), strict=True),
            *((each, float(SAMPLED)) for each in row["others"] if early),
        ]
    ]  # fmt: skip
    features, right, weights = zip(*found, strict=True)
    return Samples(features, np.array(right, np.float64), np.array(weights))


def judge_of(
    rows: Sequence[Row], *, penalty: float = 10.0, per_100_words: float = 70, least: float = 0.5
) -> Judge:
    """Return the judge that is learned from some rows, which compares so many candidates."""
    all_ = samples(rows, early=True)
    gate = fit(all_, penalty=penalty, wanted=EARLY)
    passing = np.array([gate.probability(features) for features in all_.features])
    order = np.argsort(-passing)
    words = sum(len(row["text"].split()) for row in rows)
    last = np.searchsorted(np.cumsum(all_.weights[order]), per_100_words * words / 100)
    judge = Judge(
        verdict=fit(samples(rows), penalty=penalty),
        gate=gate,
        min_gate=round(float(passing[order[last]]), 4),
        min_confidence=least,
        provenance={
            "texts": len(rows),
            "edits": sum(len(row["rows"]) for row in rows),
            "right": sum(right for row in rows for *_, right in row["rows"]),
        },
    )
    compared = samples(rows)
    together = [features for row in rows for features in contexts(row, judge)]
    return replace(judge, together=fit(compared._replace(features=together), penalty=1.0))


def pool_of(row: Row) -> list[Measured]:
    """Return the candidates of a row, as far as they meet each other."""
    return [Measured(Candidate(a, b, "", new, ()), 0.0, 0.0) for a, b, new, *_ in row["rows"]]


def contexts(row: Row, judge: Judge) -> list[dict[str, float]]:
    """Return what `Judge.together` looks at, for each candidate of a row."""
    alone = [judge.verdict.probability(features) for *_, features, _ in row["rows"]]
    sure, words = len(row["sure"]), len(row["text"].split())
    return [
        {"alone": log_odds(each), "rate": rate(others + sure, words)}
        for each, others in zip(alone, other_mistakes(pool_of(row), alone), strict=True)
    ]


def confidences(row: Row, judge: Judge) -> list[float]:
    """Return how sure a judge is of each edit of a row; 0 of those that do not pass the gate."""
    found = []
    for (*_, features, _), context in zip(row["rows"], contexts(row, judge), strict=True):
        early = {name: value for name, value in features.items() if name.startswith(EARLY)}
        is_compared = judge.gate.probability(early) >= judge.min_gate
        found.append(judge.together.probability(context) if is_compared else 0.0)
    return found


def changes_of(row: Row, judge: Judge, least: float) -> Changes:
    """Return the changes that a judge makes to the text of a row."""
    draft = row["draft"]
    sure = tuple(
        Change(start=a, end=b, before=draft[a:b], after=new, rule=rule, confidence=0.99)
        for a, b, new, rule in row["sure"]
    )
    first = Changes(draft=draft, changes=sure)
    text = first.text
    rated = [
        Change(start=a, end=b, before=text[a:b], after=new, gain=features.get("gain", 0.0),
               confidence=confidence)
        for (a, b, new, features, _), confidence in zip(
            row["rows"], confidences(row, judge), strict=True
        )
    ]  # fmt: skip
    return composed(first, most_confident(rated, least))


def calibration(rows: Sequence[Row], judge: Judge) -> list[tuple[float, float, int]]:
    """Return, for each limit, the share of right ones among the best candidates above it."""
    kept: list[tuple[float, bool]] = []
    for row in rows:
        text = row["text"]
        right = {(a, b, new): label for a, b, new, _, label in row["rows"]}
        rated = [
            Change(start=a, end=b, before=text[a:b], after=new,
                   confidence=confidence)
            for (a, b, new, *_), confidence in zip(
                row["rows"], confidences(row, judge), strict=True
            )
        ]  # fmt: skip
        kept += [
            (each.confidence or 0.0, right[each.start, each.end, each.after])
            for each in most_confident(rated, LIMITS[0])
        ]
    found = []
    for limit in LIMITS:
        above = [label for confidence, label in kept if confidence >= limit]
        if above:
            found.append((limit, round(sum(above) / len(above), 3), len(above)))
    return found


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path, nargs="+")
    parser.add_argument("--held-out", type=Path, nargs="*", default=[])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--min-confidence", type=float, default=0.5)
    parser.add_argument("--per-100-words", type=float, default=70, help="candidates compared")
    given = parser.parse_args()
    judge = judge_of(
        read(given.rows), least=given.min_confidence, per_100_words=given.per_100_words
    )
    curve = calibration(read(given.held_out), judge)
    for limit, reached, n in curve:
        print(f"{limit:.1f}  {reached:.3f}  {n}")
    if given.output:
        saved = asdict(judge) | {"calibration": [[limit, reached] for limit, reached, _ in curve]}
        given.output.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
