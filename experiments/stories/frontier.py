"""Does a model that revises write better than one that only appends?

Each system continues the same prompts at several temperatures. Texts are judged by the model that
wrote the training stories: bits per character, against distinct-2. A lower temperature lowers both,
so a system wins only below the line that the baseline draws: fewer bits at the same diversity.

    python -m experiments.stories.frontier NAME PROMPTS JUDGE append=FOLDER late=FOLDER ...

The first system is the baseline. `experiments.stories.report` writes the tables and figures.
Finished texts are kept in the model folders, so a second start continues.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from experiments import lines
from experiments.markdown import table
from experiments.stories.measure import system
from reviser.core.actions import ActionVocab
from reviser.files import write_json
from reviser.lab.evals import intervals, perplexity
from reviser.lab.evals.diversity import diversity
from reviser.lab.evals.systems import System
from reviser.provenance import made_with

RESULTS = Path(__file__).parent / "results" / "frontier"
TEMPERATURES = (1.0, 0.9, 0.8, 0.7)


def measure(texts: System, scorer: perplexity.Scorer) -> dict[str, Any]:
    """Return the figures of one system at one temperature."""
    report = perplexity.evaluate(scorer, texts.samples)
    found = diversity(texts.samples)
    assert texts.folder is not None
    vocab = ActionVocab.load(texts.folder)
    rollouts = [sample.rollout for sample in texts.samples if sample.rollout]
    taken_back = [sum(i == vocab.delete for i in r.trajectory.restoration) for r in rollouts]
    written = [r.statistics.tokens_after - r.statistics.tokens_before for r in rollouts]
    clusters = [sample.id for sample in texts.samples]
    actions = intervals.ratio_of_means([r.statistics.actions for r in rollouts], written, clusters)
    return {
        "samples": len(rollouts),
        "bits_per_character": report.bits_per_character.to_dict(),
        **{name: found[name].to_dict() for name in ("distinct_2", "distinct_3", "words")},
        "actions_per_token": actions.to_dict(),
        "revised": intervals.share(
            [
                count + rollout.statistics.moves > 0
                for count, rollout in zip(taken_back, rollouts, strict=True)
            ]
        ).to_dict(),
        "deletes_per_token": sum(taken_back) / sum(written),
    }


def line(points: list[dict[str, Any]], diversity_: float) -> float:
    """Return the baseline's bits per character at a diversity, between its temperatures.

    >>> points = [{"distinct_2": {"value": x}, "bits_per_character": {"value": x}} for x in (0, 1)]
    >>> line(points, 0.25)
    0.25
    """
    known = sorted((p["distinct_2"]["value"], p["bits_per_character"]["value"]) for p in points)
    return float(np.interp(diversity_, [x for x, _ in known], [y for _, y in known]))


def to_line(baseline: list[dict[str, Any]], point: dict[str, Any]) -> tuple[float, float, float]:
    """Return a point's bits per character over those of the baseline's line, and an interval.

    The interval is that of the point; the line counts as exact.
    """
    bits, expected = point["bits_per_character"], line(baseline, point["distinct_2"]["value"])
    return bits["value"] / expected, bits["low"] / expected, bits["high"] / expected


def is_within(baseline: list[dict[str, Any]], point: dict[str, Any]) -> bool:
    """Return whether the line has texts that are as varied, within the interval of the point."""
    varied = [each["distinct_2"]["value"] for each in baseline]
    own = point["distinct_2"]
    return bool(min(varied) <= own["high"] and own["low"] <= max(varied))


def rows(found: dict[str, Any]) -> list[list[str]]:
    """Return the rows of the table."""
    baseline = next(iter(found["systems"].values()))
    made = []
    for name, points in found["systems"].items():
        for point in points:
            bits, distinct = point["bits_per_character"], point["distinct_2"]
            ratio, low, high = to_line(baseline, point)
            made.append(
                [
                    name,
                    f"{point['temperature']}",
                    f"{bits['value']:.3f} [{bits['low']:.3f}, {bits['high']:.3f}]",
                    f"{distinct['value']:.3f} [{distinct['low']:.3f}, {distinct['high']:.3f}]",
                    "1" if point in baseline else f"{ratio:.3f} [{low:.3f}, {high:.3f}]",
                    f"{point['actions_per_token']['value']:.3f}",
                    f"{100 * point['revised']['value']:.0f} %",
                ]
            )
    return made


def figure(found: dict[str, Any]) -> str:
    """Draw bits per character against distinct-2, a line for each system."""
    series = {
        name: [(p["distinct_2"]["value"], p["bits_per_character"]["value"]) for p in points]
        for name, points in found["systems"].items()
    }
    return lines.chart(series, x="distinct-2 (varied to the right)", y="bits per character")


def read(name: str) -> dict[str, Any]:
    """Return the record of one comparison."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return found


def compared(found: dict[str, Any]) -> str:
    """Return the table of one comparison."""
    head = ["system", "temperature", "bits per character", "distinct-2", "ratio to the line"]
    return table([*head, "actions per token", "texts revised"], rows(found))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="Name of the comparison.")
    parser.add_argument("prompts", type=Path)
    parser.add_argument("judge", type=Path)
    parser.add_argument("systems", nargs="+", metavar="NAME=FOLDER")
    options = parser.parse_args()
    scorer = perplexity.Scorer.load(options.judge)
    found: dict[str, Any] = {}
    seen: dict[str, Any] = {}
    for each in options.systems:
        name, _, folder = each.partition("=")
        found[name] = []
        seen[name] = json.loads(Path(folder, "run.json").read_text("utf-8"))["seen"]
        for temperature in TEMPERATURES:
            settings = {"temperature": temperature, "top_k": 0}
            texts = system(Path(folder), options.prompts, settings)
            found[name].append({"temperature": temperature, **measure(texts, scorer)})
            print(name, json.dumps(found[name][-1]), flush=True)
            record = {"systems": found, "seen": seen, **made_with("torch", "transformers")}
            write_json(RESULTS / f"{options.name}.json", record)
    print(compared(found=record))


if __name__ == "__main__":
    main()
