"""Fit the judge: a logistic regression on candidates of which it is known whether they are right.

    python fit.py rows/train-*.jsonl --held-out rows/held-*.jsonl -o judge.json

`collect.py` writes the rows. Rare features get no weight. The calibration that is written
is of the held-out rows.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from reviser.proofread.judge import Judge, Logistic
from reviser.proofread.keep import composed, most_confident
from reviser.writing.changes import Change, Changes

RARE = 25
"""Right candidates that a feature must have before it gets a weight."""
LIMITS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
Row = dict[str, Any]


def read(paths: Iterable[Path]) -> list[Row]:
    """Read the rows of some files."""
    return [json.loads(line) for path in paths for line in path.open(encoding="utf-8")]


EARLY = ("margin", "first", "inserts", "deletes", "sources", "comma", "letters", "extra letters",
         "capital", "no change of words", "rule ", "source ", "category ")  # fmt: skip
"""How the features begin that are known at the gate."""


def fit(rows: Sequence[Row], *, penalty: float, wanted: tuple[str, ...] = ("",)) -> Logistic:
    """Return the regression that makes the labels of some rows most likely."""
    features = [features for row in rows for *_, features, _ in row["rows"]]
    right = np.array([right for row in rows for *_, right in row["rows"]], np.float64)
    counts: Counter[str] = Counter()
    for some, label in zip(features, right, strict=True):
        if label:
            counts.update(some.keys())
    names = sorted(name for name, n in counts.items() if n >= RARE and name.startswith(wanted))
    x = np.array([[some.get(name, 0.0) for name in names] for some in features])
    mean, scale = x.mean(0), x.std(0) + 1e-9
    z = np.column_stack([np.ones(len(x)), (x - mean) / scale])
    weights, prior = np.zeros(z.shape[1]), np.array([1e-6, *[penalty] * len(names)])
    for _ in range(50):
        share = 1 / (1 + np.exp(-z @ weights))
        curvature = (z * (share * (1 - share))[:, None]).T @ z + np.diag(prior)
        step = np.linalg.solve(curvature, z.T @ (right - share) - prior * weights)
        weights += step
        if np.abs(step).max() < 1e-6:
            break
    plain = weights[1:] / scale
    return Logistic(
        constant=round(float(weights[0] - plain @ mean), 4),
        weights={name: round(float(w), 4) for name, w in zip(names, plain, strict=True)},
    )


def judge_of(
    rows: Sequence[Row], *, penalty: float = 10.0, min_gate: float = 0.05, least: float = 0.5
) -> Judge:
    """Return the judge that is learned from some rows."""
    labels = [right for row in rows for *_, right in row["rows"]]
    return Judge(
        verdict=fit(rows, penalty=penalty),
        gate=fit(rows, penalty=penalty, wanted=EARLY),
        min_gate=min_gate,
        min_confidence=least,
        provenance={"texts": len(rows), "edits": len(labels), "right": sum(labels)},
    )


def confidence(features: dict[str, float], judge: Judge) -> float:
    """Return how sure a judge is of an edit; 0 if it does not pass the gate."""
    early = {name: value for name, value in features.items() if name.startswith(EARLY)}
    is_compared = judge.gate.probability(early) >= judge.min_gate
    return judge.verdict.probability(features) if is_compared else 0.0


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
               confidence=confidence(features, judge))
        for a, b, new, features, *_ in row["rows"]
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
                   confidence=confidence(features, judge))
            for a, b, new, features, _ in row["rows"]
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
    given = parser.parse_args()
    judge = judge_of(read(given.rows), least=given.min_confidence)
    curve = calibration(read(given.held_out), judge)
    for limit, reached, n in curve:
        print(f"{limit:.1f}  {reached:.3f}  {n}")
    if given.output:
        saved = asdict(judge) | {"calibration": [[limit, reached] for limit, reached, _ in curve]}
        given.output.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
