"""Write docs/results.md, its figures and the cards of the shipped models from the results.

python -m experiments.stories.report

This module reads the files that `run.py` and `infill.py` left in `results/` and opens no model.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.markdown import estimate, filled
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
        target(arms),
        page_text.COLUMNS,
    ]
    figures = {}
    for budget, found in arms.items():
        figures[f"results-{budget}.svg"] = curves(found)
        parts.append(section(budget, found))
    parts += [
        infilling(),
        f"{filled(page_text.CHECKS, prompts=prompts('checks', 'world'))}\n{tables.checks()}",
        *revising(figures),
        learned(arms),
    ]
    return {"results.md": "\n".join(parts), **figures}


def introduction(arms: dict[str, dict[str, list[Run]]]) -> str:
    """Return the first section: the corpus, the arms and what training took."""
    world = read("world.json")
    runs = [run for found in arms.values() for one in found.values() for run in one]
    return page_text.INTRODUCTION.format(
        stories=f"{world['stories']:,}",
        tokens=f"{world['tokens'] / 1e6:.1f} million",
        own=f"{world['own_tokens'] / 1e6:.1f} million",
        nats=f"{world['source']['nats_float32'] * world['tokens'] / world['own_tokens']:.2f}",
        ended=f"{100 * world['ended']:.0f}",
        parameters=f"{runs[0]['parameters'] / 1e6:.1f} million",
        runs=str(len(runs)),
        hours=f"{sum(run['seconds'] for run in runs) / 3600:.1f}",
    )


def target(arms: dict[str, dict[str, list[Run]]]) -> str:
    """Return the section on the target and whether it was met."""
    ratios = sorted(figures(run)["ratio"] for run in arms["full"]["late-1-marks"])
    return filled(page_text.TARGET, ratios=ratios)


def prompts(folder: str, *path: str) -> int:
    """Return the number of prompts in an experiment, which all of its files share."""
    found = [json.loads(path.read_text("utf-8")) for path in (RESULTS / folder).glob("*.json")]
    (count,) = {tables.dig(each, (*path, "samples")) for each in found}
    return int(count)


def figures(run: Run) -> dict[str, Any]:
    """Return the figures of a run that the prose names."""
    written, trajectories = run["written"], run["written"]["trajectories"]
    value = {name: each["value"] for name, each in trajectories.items() if "value" in (each or {})}
    return {
        "nll": run["held_out"]["nll"],
        "text": run["parts"]["text"],
        "order": run["parts"]["kind"] + run["parts"]["move"],
        "tax": run["policy"]["order_tax"]["value"] * math.log(2),
        "revised": value["revised"],
        "sentence": tables.dig(written, ("landings", "sentence", "value")),
        "ratio": tables.dig(written, ("ratio_to_baseline", "value")),
        "ppl": written["perplexity"][0]["perplexity"]["value"],
        "distinct": written["diversity"]["distinct_2"]["value"],
        "words": written["diversity"]["words"]["value"],
    }


def learned(arms: dict[str, dict[str, list[Run]]]) -> str:
    """Return the section on what was learned."""
    screen = {arm: figures(runs[0]) for arm, runs in arms["screen"].items()}
    full = {
        f"{arm}-{run['seed']}": figures(run) for arm in arms["full"] for run in arms["full"][arm]
    }
    paper, append = screen["paper"], screen[BASELINE]
    one, other = full["append-0"], full["append-1"]
    return filled(
        page_text.LEARNED,
        screen=screen,
        full=full,
        above=paper["nll"] - append["nll"],
        harder=paper["text"] - append["text"],
        uncounted=paper["order"] - paper["tax"] - append["order"],
        apart={name: abs(other[name] / one[name] - 1) for name in ("ppl", "distinct")},
        words=abs(other["words"] - one["words"]),
        seeds=[full[f"late-1-marks-{n}"]["nll"] - full[f"append-{n}"]["nll"] for n in (0, 1)],
    )


def section(budget: str, found: dict[str, list[Run]]) -> str:
    """Return the figure and the tables of one budget."""
    ids = sum(run["seen"]["ids"] for run in found[BASELINE]) / len(found[BASELINE])
    return (
        page_text.HEADINGS[budget].format(ids=f"{ids / 1e6:.1f} million ids")
        + f"![Nats per token above append, by ids seen](results-{budget}.svg)\n\n"
        + f"Held out:\n\n{tables.scores(found)}\n"
        + f"Written, {found[BASELINE][0]['written']['samples']:,} prompts:\n\n"
        + tables.written(found)
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


def revising(figures: dict[str, str]) -> Iterator[str]:
    """Yield the section on quality against diversity, and add its figures."""
    parts = {
        "late": (page_text.LATE, page_text.LATE_END),
        "own-errors": (page_text.OWN_ERRORS, page_text.OWN_ERRORS_END),
        "own-errors-few": (page_text.FEW_ERRORS, page_text.FEW_ERRORS_END),
        "rewards": (filled(page_text.REWARDS), page_text.REWARDS_END),
    }
    comparisons = {name: frontier.read(name) for name in parts}
    systems = [points for found in comparisons.values() for points in found["systems"].values()]
    (prompts,) = {point["samples"] for points in systems for point in points}
    yield filled(page_text.REVISING, prompts=prompts)
    for name, (before, after) in parts.items():
        found = comparisons[name]
        figures[f"results-{name}.svg"] = frontier.figure(found)
        image = f"![Bits per character against distinct-2](results-{name}.svg)"
        if name == "late":
            before = f"{before}\n{frontier.compared(found)}"
        yield f"{before}\n{image}\n"
        yield filled(after, **FIGURES[name](found))


def late(found: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of the system that writes a sentence last."""
    baseline, points = found["systems"].values()
    shipped = read("full/late-1-marks-0.json")["written"]["perplexity"][0]
    characters = math.log2(shipped["perplexity"]["value"]) / shipped["bits_per_character"]["value"]
    ratios = [frontier.to_line(baseline, point) for point in points]
    above = [ratio - 1 for ratio, _, _ in ratios]
    worse = [  # perplexity by token
        2 ** (characters * point["bits_per_character"]["value"] * (1 - 1 / ratio)) - 1
        for point, (ratio, _, _) in zip(points, ratios, strict=True)
    ]
    return {
        "above": [min(above), max(above)],
        "worse": [min(worse), max(worse)],
        "even": sum(low <= 1 <= high for _, low, high in ratios),
        "temperatures": len(points),
    }


def many_errors(found: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of the system that deletes much."""
    baseline, points = found["systems"].values()
    (within,) = (point for point in points if frontier.is_within(baseline, point))
    return {
        "above": frontier.to_line(baseline, within)[0] - 1,
        "deletes": max(point["deletes_per_token"] for point in points),
        "actions": max(point["actions_per_token"]["value"] for point in points),
    }


def few_errors(found: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of the system that deletes little."""
    baseline, points = found["systems"].values()
    actions = [point["actions_per_token"]["value"] for point in points]
    within = [point for point in points if frontier.is_within(baseline, point)]
    above = [frontier.to_line(baseline, point)[0] - 1 for point in within]
    return {
        "deletes": 1 / max(point["deletes_per_token"] for point in points),
        "actions": [min(actions), max(actions)],
        "above": [min(above), max(above)],
        "revised": max(point["revised"]["value"] for point in points),
    }


def rewarded(found: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of the systems that learned from rewards, at equal diversity."""
    baseline, append, before, deletes = found["systems"].values()

    def ends(points: list[dict[str, Any]]) -> list[float]:
        within = [point for point in points if frontier.is_within(baseline, point)]
        ratios = [frontier.to_line(baseline, point)[0] for point in within]
        return [min(ratios), max(ratios)]

    return {
        "append": ends(append),
        "before": ends(before),
        "deletes": ends(deletes),
        "revised": max(point["revised"]["value"] for point in deletes),
    }


FIGURES = {
    "late": late,
    "own-errors": many_errors,
    "own-errors-few": few_errors,
    "rewards": rewarded,
}


def main() -> None:
    for name, content in pages().items():
        (ROOT / "docs" / name).write_text(content, "utf-8")
    for name, content in cards().items():
        (ROOT / name).write_text(content, "utf-8")


if __name__ == "__main__":
    main()
