"""Writes revise-results.md from what `benchmarks/revise/run.py` left in results/revise.

python docs/revise_results.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results" / "revise"

INTRODUCTION = """\
# Editing: results

Made by `python docs/revise_results.py` from the files in `results/revise`. How an editor is trained and used is in [guides/revise.md](guides/revise.md).

An editor and its twin, which writes the whole text anew, from the same base, pairs and number of ids read in training. The base is the story model `models/stories-append` without its actions ({parameters:.1f} million parameters); the pairs are pieces of stories of one to four sentences, sampled from stories15M, with mistakes put in by `reviser data corrupt` (six for a hundred words, three pieces in ten without any). Both read {ids:.1f} million ids in training ({editor_pairs:,} pairs and {rewriter_pairs:,}: a rewriter reads each text twice), in float32 on one core each. Decoding is greedy.
"""

QUALITY = """\
## How good, how local, how many steps

{pairs:,} held-out pieces, no story of which was trained on. Edits are of words, the same place and the same correction; locality is the share of the bytes outside the reference's changes that are left as they were; steps are ids chosen. [..] is 95 % over pieces; it says nothing of other seeds.
"""

PARTS = """\
Where edits are lost: of the changes wanted, how many are made in the right place; of those, how many put the right words there; of the changes made, how many are in a place where none was wanted; and how many of the pieces that need no change get none.
"""

COST = """\
## What it costs

Drafts of stories with a known number of mistakes, one at a time, systems taking turns on each draft; both go in windows of {window} tokens, the editor with {context} more on either side. Ratios are the editor's to the rewriter's, the median over drafts and, in brackets, the least and the most. Seconds are those of the Transformers engine. "Mended" counts the drafts that became the clean text exactly, which hardly any do: what is compared is the cost of trying.
"""

PRECISION = """\
## Precision

A bias against going on to the next place, and what the editor's changes are then worth, on {pairs} other held-out pieces. `revise(precision=...)` takes the least bias that reached it there with thirty changes or more, from the model folder's `calibration.json`.
"""


def estimate(part: dict[str, Any], digits: int = 3) -> str:
    """A value and its interval."""
    low, high = part["low"], part["high"]
    return f"{part['value']:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def table(head: list[str], rows: list[list[str]]) -> str:
    """As Markdown has it."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def quality(told: dict[str, Any]) -> Iterator[str]:
    """The tables of the held-out pieces."""
    yield QUALITY.format(pairs=told["pairs"])
    names = ("gleu", "edit_precision", "edit_recall", "edit_f", "sari", "exact_match", "locality")
    head = ["", "GLEU", "precision", "recall", "F0.5", "SARI", "exact", "locality"]
    head += ["steps, mean", "steps, median", "ended by itself"]
    rows = [
        [
            name,
            *(estimate(scores[each]) for each in names),
            estimate(scores["steps"], 1),
            f"{scores['median_steps']:.0f}",
            estimate(scores["whole"]),
        ]
        for name, scores in told["systems"].items()
    ]
    yield table(head, rows)
    yield f"GLEU, the editor's less the rewriter's: {estimate(told['gleu_difference'])}.\n"
    yield PARTS
    head = ["", "changes wanted", "made", "place found", "right there", "elsewhere", "left alone"]
    parts = [(name, told["systems"][name]["parts"]) for name in ("editor", "rewriter")]
    shares = ("place_found", "content_right_there", "made_elsewhere", "left_alone_if_right")
    rows = [
        [name, f"{part['wanted']:,}", f"{part['made']:,}", *(f"{part[key]:.3f}" for key in shares)]
        for name, part in parts
    ]
    yield table(head, rows)


def cost(told: dict[str, Any]) -> Iterator[str]:
    """Steps and seconds by size and mistakes."""
    yield COST.format(window=told["window"], context=told["context"])
    cells: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in told["rows"]:
        cells.setdefault((row["size"], row["mistakes"]), []).append(row)
    rows = []
    for (size, mistakes), some in sorted(cells.items()):
        ratios = {
            key: [row["editor"][key] / max(row["rewriter"][key], 1e-9) for row in some]
            for key in ("steps", "seconds")
        }
        shown = [
            f"{median(ratios[key]):.2f} ({min(ratios[key]):.2f} to {max(ratios[key]):.2f})"
            for key in ("steps", "seconds")
        ]
        exact = [str(sum(row[name]["exact"] for row in some)) for name in NAMES]
        steps = [f"{median(row[name]['steps'] for row in some):.0f}" for name in NAMES]
        rows.append([f"{size:,}", str(mistakes), str(len(some)), *exact, *steps, *shown])
    head = ["tokens", "mistakes", "drafts", "mended, editor", "mended, rewriter"]
    head += ["steps, editor", "steps, rewriter"]
    yield table([*head, "steps, ratio", "seconds, ratio"], rows)


NAMES = ("editor", "rewriter")


def precision(told: dict[str, Any]) -> Iterator[str]:
    """The curve."""
    yield PRECISION.format(pairs=told["pairs"])
    rows = [
        [f"{bias:g}", *(f"{value:.3f}" for value in scores), f"{made:.0f}"]
        for bias, *scores, made in told["curve"]
    ]
    yield table(["bias", "precision", "recall", "F0.5", "changes made"], rows)


def page() -> str:
    """All of it; what was not run is left out."""
    told = json.loads((RESULTS / "stories.json").read_text("utf-8"))
    editor, rewriter = (told["models"][name] for name in NAMES)
    parts = [
        INTRODUCTION.format(
            parameters=editor["parameters"] / 1e6,
            ids=editor["seen"]["ids"] / 1e6,
            editor_pairs=editor["seen"]["examples"],
            rewriter_pairs=rewriter["seen"]["examples"],
        ),
        *quality(told),
    ]
    for name, make in (("cost", cost), ("precision", precision)):
        if (RESULTS / f"{name}.json").is_file():
            parts += make(json.loads((RESULTS / f"{name}.json").read_text("utf-8")))
    notes = RESULTS / "notes.md"
    return "\n".join([*parts, notes.read_text("utf-8")] if notes.is_file() else parts)


if __name__ == "__main__":
    (HERE / "revise-results.md").write_text(page(), "utf-8")
