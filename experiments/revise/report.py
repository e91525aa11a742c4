"""Write docs/revise-results.md from the files that `run.py` left in `results/`.

python -m experiments.revise.report
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from experiments.markdown import filled, table
from experiments.revise import page_text

PAGE = Path(__file__).parents[2] / "docs" / "revise-results.md"
RESULTS = Path(__file__).parent / "results"
NAMES = ("editor", "rewriter")
COUNTED = (*NAMES, "n-gram")
SHOWN = {(size, mistakes) for size in (25, 1000) for mistakes in (1, 5, 20)}


def estimate(part: dict[str, Any], digits: int = 3) -> str:
    """Return a value and its interval."""
    low, high = part["low"], part["high"]
    return f"{part['value']:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def quality(found: dict[str, Any]) -> Iterator[str]:
    """Yield the section on held-out pieces."""
    yield page_text.QUALITY.format(pairs=found["pairs"])
    names = ("gleu", "edit_precision", "edit_recall", "edit_f", "locality")
    head = ["", "GLEU", "precision", "recall", "F0.5", "locality", "steps, mean", "malformed"]
    rows = [
        [
            name,
            *(estimate(scores[each]) for each in names),
            estimate(scores["steps"], 1),
            estimate(scores["malformed"]) if name == "blocks" else "",
        ]
        for name, scores in found["systems"].items()
    ]
    yield table(head, rows)
    yield f"The editor's GLEU minus the rewriter's: {estimate(found['gleu_difference'])}.\n"
    if "blocks" in found["systems"]:
        yield page_text.BLOCKS.format(pairs=found["models"]["blocks"]["seen"]["examples"])
    yield page_text.PARTS
    head = ["", "changes wanted", "made", "right position", "right words", "elsewhere"]
    parts = [(name, found["systems"][name]["parts"]) for name in found["models"]]
    shares = ("place_found", "content_right_there", "made_elsewhere", "left_alone_if_right")
    rows = [
        [name, f"{part['wanted']:,}", f"{part['made']:,}", *(f"{part[key]:.3f}" for key in shares)]
        for name, part in parts
    ]
    yield table([*head, "left alone"], rows)


def arms(found: dict[str, Any]) -> Iterator[str]:
    """Yield the section that compares editors."""
    yield page_text.ARMS.format(pairs=found["pairs"])
    head = ["", "GLEU", "F0.5", "right position", "right words"]
    rows = [
        [
            name,
            *(estimate(scores[each]) for each in ("gleu", "edit_f")),
            *(f"{scores['parts'][key]:.3f}" for key in ("place_found", "content_right_there")),
            f"{scores['parts']['made_elsewhere']:.3f}",
        ]
        for name, scores in found["systems"].items()
    ]
    yield table([*head, "made elsewhere"], rows)


def cost(found: dict[str, Any]) -> Iterator[str]:
    """Yield the section on steps and seconds."""
    yield page_text.COST.format(window=found["window"], context=found["context"])
    rows = []
    for (size, mistakes), some in by_kind(found["rows"]):
        if (size, mistakes) not in SHOWN:
            continue
        ratios = [ratio(some, key) for key in ("steps", "seconds")]
        steps = [f"{median(row[name]['steps'] for row in some):.0f}" for name in NAMES]
        rows.append([f"{size:,}", str(mistakes), *steps, *ratios])
    head = ["tokens", "mistakes", "steps, editor", "steps, rewriter"]
    yield table([*head, "steps, ratio", "seconds, ratio"], rows)


def by_kind(
    rows: list[dict[str, Any]],
) -> list[tuple[tuple[int, int], list[dict[str, Any]]]]:
    """Return the rows by size of draft and number of mistakes, in order."""
    cells: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["size"], row["mistakes"]), []).append(row)
    return sorted(cells.items())


def ratio(rows: list[dict[str, Any]], key: str) -> str:
    """Return the editor's figure over the rewriter's: median, smallest and largest."""
    found = [row["editor"][key] / max(row["rewriter"][key], 1e-9) for row in rows]
    return f"{median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


def ideal(found: dict[str, Any]) -> Iterator[str]:
    """Yield the section on systems that make no mistakes."""
    ids = found["ids_for_a_mistake"]
    yield page_text.IDEAL.format(ids=estimate(ids, 1))
    rows, firsts = [], dict[int, int]()
    for (size, mistakes), some in by_kind(found["rows"]):
        steps = {name: median(row[name] for row in some) for name in COUNTED}
        if (size, mistakes) in SHOWN:
            rows.append([f"{size:,}", str(mistakes), *(f"{value:.0f}" for value in steps.values())])
        if steps["n-gram"] <= steps["editor"]:
            firsts.setdefault(size, mistakes)
    yield table(["tokens", "mistakes", *COUNTED], rows)
    least = [f"{mistakes} in {size:,} tokens" for size, mistakes in firsts.items()]
    yield (
        "The fewest mistakes with which a rewriter with speculation takes no more forward passes"
        f" than the editor takes ids: {', '.join(least) or 'none'}.\n"
    )


def precision(found: dict[str, Any]) -> Iterator[str]:
    """Yield the section on precision by edit probability."""
    yield page_text.PRECISION.format(pairs=found["pairs"])
    rows = [
        [f"{probability:g}", *(f"{value:.3f}" for value in scores), f"{made:.0f}"]
        for probability, *scores, made in found["curve"][::2]
    ]
    yield table(["edit probability", "precision", "recall", "F0.5", "changes made"], rows)


def learned(found: dict[str, Any]) -> str:
    """Return the section on what was learned, with its figures from all experiments."""
    others, costs, counted, curve = (
        json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
        for name in ("arms", "cost", "ideal", "precision")
    )
    systems, editors = found["systems"], others["systems"]
    budget = "search, 1.5 million ids"
    steps = {name: [row[name]["steps"] for row in costs["rows"]] for name in NAMES}
    few = [some for (size, n), some in by_kind(counted["rows"]) if size == 1000 and n <= 5]
    medians = {name: [median(row[name] for row in some) for some in few] for name in COUNTED}
    less = {name: -found["gleu_difference"][name] for name in ("value", "low", "high")}
    return filled(
        page_text.LEARNED,
        **{name: systems[name] for name in (*NAMES, "blocks")},
        plain=editors["both, 1.5 million ids"],
        probabilities=editors[f"{budget}, edit probabilities"],
        damage=[1 - systems[name]["locality"]["value"] for name in NAMES],
        lower=estimate({"value": less["value"], "low": less["high"], "high": less["low"]}),
        missed=less["value"],
        curve=[curve["curve"][0], curve["curve"][-1]],
        passes={name: [min(each), max(each)] for name, each in medians.items()},
        drafts=len(costs["rows"]),
        fewer=sum(ours < theirs for ours, theirs in zip(*steps.values(), strict=True)),
        more=sum(steps["rewriter"]) / sum(steps["editor"]),
    )


def page() -> str:
    """Return the page; tables of experiments without a result file are left out."""
    found = json.loads((RESULTS / "stories.json").read_text("utf-8"))
    editor, rewriter = (found["models"][name] for name in NAMES)
    parts = [
        page_text.INTRODUCTION.format(
            parameters=editor["parameters"] / 1e6,
            ids=editor["seen"]["ids"] / 1e6,
            editor_pairs=editor["seen"]["examples"],
            rewriter_pairs=rewriter["seen"]["examples"],
            probability=found["min_edit_probability"],
        ),
        *quality(found),
        learned(found),
    ]
    for make in (arms, cost, ideal, precision):
        path = RESULTS / f"{make.__name__}.json"
        if path.is_file():
            parts += make(json.loads(path.read_text("utf-8")))
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
