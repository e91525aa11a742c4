"""Measure precision and recall of the proofreader at each least confidence.

    python curve.py TESTS -o results/curve.json --model proofreader --base base --first 100

Each sentence is revised once, with every change that reaches the lowest confidence. Of these, the
changes that reach a higher one are scored again, as `rivals.py` scores all tools.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from examples import Edit
from scoring import TEST_SETS, Draft, _rounded, apart, count_edits, f05, f_score

import reviser
from reviser.evals import intervals

CONFIDENCES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.8, 0.9)
SETS = ("jfleg-test", "bea19-dev")


def scores(drafts: list[Draft], found: list[list[tuple[float, Edit]]], least: float) -> Any:
    """Return the scores of the changes with at least this confidence."""
    revised = [
        draft.revised(apart([edit for confidence, edit in some if confidence >= least]))
        for draft, some in zip(drafts, found, strict=True)
    ]
    table = np.array(count_edits(drafts, revised)[0], np.float64)
    interval = intervals.bootstrap(lambda some: f05(*some.sum(0)), table)
    made = int(table[:, 1].sum())
    return {"made": made, **f_score(*table.sum(0)), "f05": _rounded(interval)}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", type=Path, help="the folder test-dir of gec-datasets")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--first", type=int, default=100, help="sentences of each set")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = reviser.load(given.model, base=given.base)
    assert model.editing is not None
    model.editing = replace(model.editing, min_confidence=CONFIDENCES[0])
    results: dict[str, Any] = {}
    for name in SETS:
        drafts = TEST_SETS[name](given.tests, given.first)
        changes = [model.revise(draft.text).changes.changes for draft in drafts]
        found = [
            [(each.confidence or 0.0, Edit(each.start, each.end, each.after)) for each in some]
            for some in changes
        ]
        rows = {str(least): scores(drafts, found, least) for least in CONFIDENCES}
        results[name] = {"sentences": len(drafts), "confidences": rows}
        print(name, json.dumps(rows), flush=True)
        given.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
