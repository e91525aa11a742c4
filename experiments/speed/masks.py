"""Measure the mask per row and step, of two versions of the code in one run.

    python -m experiments.speed.masks --before REVISION

The version at a revision of this repository and the one of this tree run in two processes that take
turns, so other load on the machine meets both. Times are processor time. Each figure is the median
over the rounds, with its range.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

ROWS = (1, 64, 256, 1024)
STEPS = 24
LENGTH, CURSOR = 512, 256
ROOT = Path(__file__).parents[2]

WALKS = {
    "plain": "inserts",
    "marks": "inserts; no row has a mark",
    "marks, used": "a mark, two inserts, back; three other marks in each row",
    "searches": "inserts; no row searches",
    "searches, used": "a search for a token, an insert and two moves back",
}


def walk(name: str, vocab: Any) -> list[int]:
    """Return ids that can be taken again and again."""
    if name == "marks, used":
        return [vocab.mark, 7, 7, vocab.back]
    if name == "searches, used":
        return [vocab.find, CURSOR + 3, vocab.here, 7, vocab.move_id(-4), vocab.move_id(-1)]
    return [7]


def prepare(name: str, rows: int) -> Any:
    """Return rows with texts of 512 tokens, in the middle of them."""
    import numpy as np

    from reviser import ActionVocab, Boundary, Canvas

    searches = name.startswith("searches")
    vocab = ActionVocab.build(50_257, marks=name != "plain", search=searches)
    boundary = Boundary(vocab, rows)
    for row in range(rows):
        options: dict[str, Any] = {}
        if searches:
            options["canvas"] = Canvas(vocab, range(LENGTH), CURSOR)
        if name == "marks, used":
            options["marks"] = [400, 450, 500]
        boundary.reset(row, length=LENGTH, cursor=CURSOR, gaps=[(CURSOR, LENGTH)], **options)
    return boundary, [np.full(rows, action_id) for action_id in walk(name, vocab)]


def step(boundary: Any, ids: Any, out: Any) -> None:
    """Do what an engine does with the mask in one step."""
    import numpy as np

    boundary.fill_mask(out)
    if hasattr(boundary, "searched"):
        boundary.searched()
    elif boundary.vocab.find is not None:  # before there was one call for all rows
        for row in np.flatnonzero(~out[:, 1]).tolist():
            boundary.findable(row)
    boundary.advance(ids)


def serve() -> None:
    """Answer requests on standard input: a walk and a number of rows, for seconds."""
    for line in sys.stdin:
        name, rows = json.loads(line)
        boundary, ids = prepare(name, rows)
        out = boundary.fill_mask()
        for each in ids:  # warm up
            step(boundary, each, out)
        start = time.process_time()
        for n in range(STEPS):
            step(boundary, ids[n % len(ids)], out)
        print((time.process_time() - start) / STEPS / rows, flush=True)


class Version:
    """One version of the code, in a process of its own."""

    def __init__(self, source: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"},
        )

    def measure(self, name: str, rows: int) -> float:
        """Return the seconds per row and step."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, rows]) + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def spread(values: Sequence[float], digits: int = 3) -> dict[str, float]:
    """Return the median and the range."""
    parts = {"value": statistics.median(values), "low": min(values), "high": max(values)}
    return {name: round(value, digits) for name, value in parts.items()}


def compare(before: str, rounds: int) -> None:
    """Measure both versions and print the result."""
    made = subprocess.run(
        ["git", "archive", before, "src"], cwd=ROOT, capture_output=True, check=True
    )
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(made.stdout)) as archive:
            archive.extractall(folder, filter="data")
        versions = {"before": Version(Path(folder) / "src"), "after": Version(ROOT / "src")}
        for name in WALKS:
            for rows in ROWS:
                times: dict[str, list[float]] = {which: [] for which in versions}
                for _ in range(rounds):
                    for which, version in versions.items():
                        times[which].append(version.measure(name, rows) * 1e6)
                ratios = [b / a for a, b in zip(times["after"], times["before"], strict=True)]
                row = {which: spread(each) for which, each in times.items()}
                row["ratio"] = spread(ratios, 2)
                print(
                    f"{name:16s} {rows:5d} rows  before {row['before']['value']:8.3f}  after"
                    f" {row['after']['value']:8.3f} us per row and step  ratio"
                    f" {row['ratio']['value']:.2f}"
                    f" [{row['ratio']['low']:.2f}, {row['ratio']['high']:.2f}]",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", default="main", help="A revision of this repository.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
    else:
        compare(given.before, given.rounds)


if __name__ == "__main__":
    main()
