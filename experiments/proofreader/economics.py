"""Compare the proofreader with a baseline that rewrites, on long drafts with few mistakes.

    python economics.py units base proofreader rewriter --ids IDS -o results/economics.json

Both come from the same base. Every draft has about 1,000 tokens of held-out text and one to five
mistakes. The systems take turns on each draft in one process with one thread, so a busy machine
slows all of them. The result has a row for each system and draft.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from examples import Edit
from mistakes import draw_mistakes, read_words
from rapidfuzz.distance import Levenshtein
from rewriter import Counted, Rewriter

import reviser
from reviser.data.mistakes import apply

TOKENS = 1000
"""Tokens of a draft, about."""


@dataclass(frozen=True)
class Draft:
    """A text with mistakes, and the text without them."""

    text: str
    original: str
    mistakes: int


def drafts(units: Path, most: int, count: Callable[[str], int], rounds: int) -> list[Draft]:
    """Return `rounds` drafts for each number of mistakes from 1 to `most`, of held-out units."""
    rows = [json.loads(line) for line in (units / "held_out.jsonl").open(encoding="utf-8")]
    rows = [row for row in rows if "tags" in row]
    found, at = [], 0
    for number, mistakes in product(range(rounds), range(1, most + 1)):
        texts: list[dict[str, Any]] = []
        while count("\n\n".join(row["text"] for row in texts)) < TOKENS:
            texts.append(rows[at])
            at += 1
        rng = np.random.default_rng([number, mistakes])
        drawn = [
            (n, each)
            for n, row in enumerate(texts)
            for each in draw_mistakes(
                row["text"], read_words(row["text"], row["spans"], row["tags"]), rng
            )
        ]
        chosen = {drawn[n] for n in rng.choice(len(drawn), mistakes, replace=False)}
        wrong = [
            apply(row["text"], [each for m, each in drawn if m == n and (m, each) in chosen])
            for n, row in enumerate(texts)
        ]
        original = "\n\n".join(row["text"] for row in texts)
        found.append(Draft("\n\n".join(wrong), original, mistakes))
    return found


def is_right(draft: Draft, edit: Edit) -> bool:
    """Return whether an edit brings the draft closer to the original by all of its letters."""
    made = draft.text[: edit.start] + edit.text + draft.text[edit.end :]
    moved = Levenshtein.distance(draft.text[edit.start : edit.end], edit.text)
    before = Levenshtein.distance(draft.text, draft.original)
    return Levenshtein.distance(made, draft.original) == before - moved


class Proofreader:
    """Our model, opened and used as anyone would."""

    def __init__(self, folder: Path, base: Path) -> None:
        self.model = reviser.load(folder, base=base)
        trunk = self.model.engine._model
        self.cost = Counted(trunk).cost

    def __call__(self, text: str) -> list[Edit]:
        """Return the edits of a text."""
        began = time.process_time()
        changes = self.model.revise(text).changes
        self.cost.seconds += time.process_time() - began
        return [Edit(each.start, each.end, each.after) for each in changes]


def measured(systems: dict[str, Any], found: Sequence[Draft]) -> list[dict[str, Any]]:
    """Return a row for each draft and system: what it made, what was right, and its cost."""
    rows = []
    for draft in found:
        for name, system in systems.items():
            before = replace(system.cost)
            edits = system(draft.text)
            spent = {key: value - asdict(before)[key] for key, value in asdict(system.cost).items()}
            right = sum(is_right(draft, edit) for edit in edits)
            row = {"system": name, "mistakes": draft.mistakes, "made": len(edits), "right": right}
            rows.append(row | spent)
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("units", "base", "proofreader", "rewriter"):
        parser.add_argument(name, type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--ids", type=int, required=True, help="ids that the rewriter has seen")
    parser.add_argument("--most", type=int, default=5, help="mistakes in a draft, at most")
    parser.add_argument("--rounds", type=int, default=3, help="drafts of each number of mistakes")
    given = parser.parse_args()
    torch.set_num_threads(1)
    ours = Proofreader(given.proofreader, given.base)
    systems = {
        "proofreader": ours,
        "rewriter": Rewriter(given.rewriter, speculates=False),
        "rewriter, n-grams": Rewriter(given.rewriter, speculates=True),
    }
    codec = ours.model.codec
    texts = drafts(given.units, given.most, lambda text: len(codec.encode(text)), given.rounds)
    rows = measured(systems, texts)
    found = {"rewriter_ids": given.ids, "rows": rows}
    given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
