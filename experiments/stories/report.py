"""Write docs/results.md, its figures and the cards of the shipped models from the results.

python -m experiments.stories.report

This module reads the files that `run.py` and `infill.py` left in `results/` and opens no model.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from experiments.markdown import estimate
from experiments.stories import frontier, page_text, tables
from experiments.stories.curves import curves
from experiments.stories.model_cards import cards
from experiments.stories.tables import BASELINE, RESULTS, Run

ROOT = Path(__file__).parents[2]


def load(budget: str) -> dict[str, list[Run]]:
    """Return the runs of each arm, sorted by seed."""
    arms: dict[str, list[Run]] = defaultdict(list)
    for path in sorted((RESULTS / budget).glob("*.json")):
        run = json.loads(path.read_text("utf-8"))
        arms[run["arm"]].append(run)
    return {arm: sorted(runs, key=lambda run: run["seed"]) for arm, runs in arms.items()}


def read(name: str) -> dict[str, Any]:
    """Return the record in one result file."""
    found: dict[str, Any] = json.loads((RESULTS / name).read_text("utf-8"))
    return found


def pages() -> dict[str, str]:
    """Return the page and its figures by file name."""
    arms = {budget: load(budget) for budget in ("screen", "full")}
    parts = [
        introduction(arms),
        f"{page_text.TARGET}\n{tables.against_target(arms)}",
        page_text.COLUMNS,
    ]
    figures = {}
    for budget, found in arms.items():
        figures[f"results-{budget}.svg"] = curves(found)
        parts.append(section(budget, found))
    parts += [
        infilling(),
        f"{page_text.CHECKS}\n{tables.checks()}",
        f"{page_text.DECODING}\n{tables.decoding()}",
        *revising(figures),
        page_text.LEARNED.replace("{dirty}", dirty_runs()),
    ]
    return {"results.md": "\n".join(parts), **figures}


def introduction(arms: dict[str, dict[str, list[Run]]]) -> str:
    """Return the first section: the corpus, the arms and what training took."""
    world, peak = read("world.json"), read("machine.json")["flops_per_second"]
    runs = [run for found in arms.values() for one in found.values() for run in one]
    rate = median(world["training_flops"][run["budget"]] / run["seconds"] for run in runs)
    return page_text.INTRODUCTION.format(
        stories=f"{world['stories']:,}",
        tokens=f"{world['tokens'] / 1e6:.1f} million",
        own=f"{world['own_tokens'] / 1e6:.1f} million",
        nats=f"{world['source']['nats_float32'] * world['tokens'] / world['own_tokens']:.2f}",
        divergence=f"{world['source']['divergence']:.4f}",
        hashes=", ".join(f"`{name}` {digest[:16]}" for name, digest in world["files"].items()),
        ended=f"{100 * world['ended']:.0f}",
        parameters=f"{runs[0]['parameters'] / 1e6:.1f} million",
        runs=str(len(runs)),
        hours=f"{sum(run['seconds'] for run in runs) / 3600:.1f}",
        rate=f"{rate / 1e12:.2f}",
        peak=f"{peak / 1e12:.1f}",
        share=f"{100 * rate / peak:.0f}",
    )


def section(budget: str, found: dict[str, list[Run]]) -> str:
    """Return the figure and the tables of one budget."""
    ids = sum(run["seen"]["ids"] for run in found[BASELINE]) / len(found[BASELINE])
    diffusion = [
        json.loads(path.read_text("utf-8"))
        for path in sorted((RESULTS / "diffusion").glob(f"{budget}-*.json"))
    ]
    with_diffusion = found | ({"diffusion": diffusion} if diffusion else {})
    return (
        page_text.HEADINGS[budget].format(ids=f"{ids / 1e6:.1f} million ids")
        + f"![Nats per token above append, by ids seen](results-{budget}.svg)\n\n"
        + f"Held out:\n\n{tables.scores(found)}\n"
        + f"Written, {found[BASELINE][0]['written']['samples']:,} prompts:\n\n"
        + f"{tables.written(with_diffusion)}\nCursor:\n\n{tables.cursor_paths(found)}"
    )


def infilling() -> str:
    """Return the section on filling a gap."""
    found = read("infill.json")
    text = page_text.INFILLING.format(
        stories=found["stories"],
        baseline=estimate(found["after_bits_above"]["baseline"], 1),
        nothing=estimate(found["after_bits_above"]["nothing"], 1),
        truth=estimate(found["truth"]["bits_above_baseline"], 1),
        actions=f"{found['actions']:.0f}",
    )
    return f"{text}\n{tables.infilling(found)}"


def dirty_runs() -> str:
    """Return the names of the runs that were made with uncommitted changes."""
    found = []
    for path in sorted(RESULTS.glob("full/*.json")) + sorted(RESULTS.glob("screen/*.json")):
        if json.loads(path.read_text("utf-8")).get("commit", "").endswith("-dirty"):
            found.append(f"`{path.parent.name}/{path.stem}`")
    return ", ".join(found)


def revising(figures: dict[str, str]) -> Iterator[str]:
    """Yield the section on quality against diversity, and add its figures."""
    yield page_text.REVISING
    parts = {
        "own-errors": (page_text.OWN_ERRORS, page_text.OWN_ERRORS_END),
        "own-errors-few": (page_text.FEW_ERRORS, page_text.FEW_ERRORS_END),
    }
    for name, (before, after) in parts.items():
        found = frontier.read(name)
        figures[f"results-{name}.svg"] = frontier.figure(found)
        image = f"![Bits per character against distinct-2](results-{name}.svg)"
        yield f"{before}\n{frontier.compared(found)}\n{image}\n"
        yield after


def main() -> None:
    for name, content in pages().items():
        (ROOT / "docs" / name).write_text(content, "utf-8")
    for name, content in cards(load("full")).items():
        (ROOT / name).write_text(content, "utf-8")


if __name__ == "__main__":
    main()
