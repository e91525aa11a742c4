"""The locks of the playground, in Node: against flags, and against the mask's own arithmetic."""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np

from reviser.core.mask import shift_gaps
from support.browsers import node

HERE = Path(__file__).parent
MODULE = HERE.parents[1] / "src/reviser/serve/assets/locks.js"


def test_locks_follow_an_edit_as_the_masks_gaps_do() -> None:
    rng, cases, expected = Random(3), [], []
    for _ in range(2000):
        bounds = sorted(rng.sample(range(1, 30), 2 * rng.randint(1, 4)))
        locks = [bounds[n : n + 2] for n in range(0, len(bounds), 2)]
        edges = [0, *bounds, 30]
        lows, highs = np.array(edges[::2]), np.array(edges[1::2])
        gap = rng.randrange(len(lows))
        start, end = sorted(rng.choices(range(lows[gap], highs[gap] + 1), k=2))
        size = rng.randint(0, 5)
        cases.append({"locks": locks, "edit": {"start": start, "end": end, "size": size}})
        shift_gaps(lows, highs, end, size - (end - start))
        between = zip(highs[:-1].tolist(), lows[1:].tolist(), strict=True)
        expected.append(joined([list(span) for span in between]))
    run = subprocess.run(
        [node(), "--no-warnings", str(HERE / "locks.mjs")],
        input=json.dumps({"module": str(MODULE), "cases": cases}),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(run.stdout)
    assert found["wrong"] == []
    assert found["followed"] == expected


def joined(spans: list[list[int]]) -> list[list[int]]:
    """Return spans with those that touch as one."""
    starts = [spans[0][0], *(b[0] for a, b in pairwise(spans) if a[1] != b[0])]
    ends = [*(a[1] for a, b in pairwise(spans) if a[1] != b[0]), spans[-1][1]]
    return [list(span) for span in zip(starts, ends, strict=True)]
