"""Measure the proofreader at each minimum confidence: precision, recall and false alarms.

    python curve.py TESTS units -o results/curve.json --model proofreader --base base --first 200

Each text is revised once, with every change that reaches the lowest confidence. Of these, the
changes that reach a higher one are scored again, as `rivals.py` scores all tools.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from examples import Edit
from scoring import TEST_SETS, apart, clean_units, false_alarms, score_edits

import reviser

CONFIDENCES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.8, 0.9)
SETS = ("jfleg-test", "bea19-dev")

Score = Callable[[Sequence[Sequence[Edit]]], dict[str, Any]]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", type=Path, help="the folder test-dir of gec-datasets")
    parser.add_argument("units", type=Path, help="what prepare.py wrote")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--first", type=int, default=200, help="texts of each set")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = reviser.load(given.model, base=given.base)
    assert model.editing is not None
    model.editing = replace(model.editing, min_confidence=CONFIDENCES[0])
    sets: dict[str, tuple[list[str], Score]] = {}
    for name in SETS:
        drafts = TEST_SETS[name](given.tests, given.first)
        sets[name] = [draft.text for draft in drafts], partial(score_edits, drafts)
    correct = clean_units(given.units, given.first)
    sets["clean units"] = correct, partial(false_alarms, correct)
    results: dict[str, dict[str, Any]] = {}
    for name, (texts, score) in sets.items():
        found = [model.revise(text).changes for text in texts]
        results[name] = {}
        for least in CONFIDENCES:
            edits = [
                apart([Edit(c.start, c.end, c.after) for c in some if (c.confidence or 0) >= least])
                for some in found
            ]
            results[name][str(least)] = score(edits)
        print(name, json.dumps(results[name]), flush=True)
        given.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
