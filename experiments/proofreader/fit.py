"""Fit the judge: a logistic regression on candidates of which it is known whether they are right.

    python fit.py rows/train-*.jsonl --held-out rows/held-*.jsonl -o judge.json
    python fit.py rows/train-*.jsonl --held-out rows/held-*.jsonl --look rows/letters.jsonl

`collect.py` writes the rows. Features that are 0 or 1 and rare get no weight of their own. The
calibration that is written is of the held-out rows.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reviser.proofread.judge import Judge
from reviser.proofread.keep import composed, most_confident
from reviser.writing.changes import Change, Changes

RARE = 25
"""Right candidates that a feature must have before it gets a weight."""
LIMITS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
Row = dict[str, Any]


def read(paths: Iterable[Path]) -> list[Row]:
    """Read the rows of some files."""
    return [json.loads(line) for path in paths for line in path.open(encoding="utf-8")]


def fit(rows: Sequence[Row], *, penalty: float = 1.0, wanted: Sequence[str] = ()) -> Judge:
    """Return the judge that makes the labels of some rows most likely."""
    features = [features for row in rows for *_, features, _ in row["rows"]]
    right = np.array([right for row in rows for *_, right in row["rows"]], np.float64)
    counts: Counter[str] = Counter()
    for some, label in zip(features, right, strict=True):
        if label:
            counts.update(some.keys())
    names = sorted(name for name, n in counts.items() if n >= RARE)
    if wanted:
        names = [name for name in names if name.startswith(tuple(wanted))]
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
    return Judge(
        constant=round(float(weights[0] - plain @ mean), 4),
        weights={name: round(float(w), 4) for name, w in zip(names, plain, strict=True)},
        min_confidence=0.4,
        provenance={"texts": len(rows), "candidates": len(right), "right": int(right.sum())},
    )


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
               confidence=judge.confidence(features))
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
                   confidence=judge.confidence(features))
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
    parser.add_argument("--penalty", type=float, default=1.0)
    parser.add_argument("--min-confidence", type=float, default=0.4)
    given = parser.parse_args()
    judge = fit(read(given.rows), penalty=given.penalty)
    curve = calibration(read(given.held_out), judge)
    for limit, reached, n in curve:
        print(f"{limit:.1f}  {reached:.3f}  {n}")
    if given.output:
        saved = {
            "constant": judge.constant,
            "weights": dict(judge.weights),
            "min_confidence": given.min_confidence,
            "calibration": [[limit, reached] for limit, reached, _ in curve],
            "provenance": dict(judge.provenance),
        }
        given.output.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
