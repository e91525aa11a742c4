"""Train the arms of the story world, measure what they write and keep the results.

    python -m experiments.stories.run prepare WORLD --source STORIES15M
    python -m experiments.stories.run run late-1 append --world WORLD --judge STORIES15M
    python -m experiments.stories.report                      # writes docs/results.md

WORLD is a folder with the output of `experiments.stories.sample_corpus`. Runs go to WORLD/runs and
their results to `experiments/stories/results`. A step whose output exists is not repeated.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import reviser
from experiments.stories.arms import ARMS, plan
from experiments.stories.measure import (
    baseline_of,
    measure,
    policy_figures,
    score_in_parts,
    system,
    trained,
)
from experiments.stories.world import (
    BUDGETS,
    PROMPTS,
    RESULTS,
    ROOT,
    prepare,
    prompts_of,
    read_lines,
    real_prompts,
    recipe_of,
)
from reviser.core.codec import read_tokenizer
from reviser.data.shards import Manifest
from reviser.files import write_json, write_whole
from reviser.lab.evals import evaluation
from reviser.lab.evals.evaluation import Measures
from reviser.models import trunks
from reviser.train.run import train


def run_arm(
    world: Path, judge: Path, arm: str, seed: int, budget: str, own: tuple[str, ...]
) -> None:
    """Train one arm unless that is done, measure what it writes and keep the results."""
    name = f"{arm}-{seed}"
    folder = world / "runs" / budget / name
    changes = plan(world, arm, seed, budget, own)
    recipe = recipe_of(world, *changes)
    train(recipe, folder)
    found = trained(folder)
    found |= {"policy": policy_figures(recipe), "parts": score_in_parts(recipe, folder)}
    found |= {"arm": arm, "seed": seed, "budget": budget, "changes": changes}
    found["written"] = measure(world, judge, folder)
    write_json(RESULTS / budget / f"{name}.json", found)


def check(world: Path, judges: dict[str, Path], real: Path, folder: Path) -> None:
    """Measure a model with other judges, and on prompts that stories15M did not write."""
    found: dict[str, Any] = {"run": folder.name}
    count = PROMPTS["screen"]
    for name, prompts in {
        "world": prompts_of(world, count),
        "TinyStories": real_prompts(world, real, count),
    }.items():
        systems = [system(model, prompts, {}) for model in (folder, baseline_of(folder))]
        measures = Measures(
            scorers=tuple(str(path) for path in judges.values()),
            names={str(path): judge for judge, path in judges.items()},
        )
        record = evaluation.evaluate(systems, measures, cache=world / "measured")
        found[name] = {
            "samples": count,
            "perplexity": {s["name"]: s["perplexity"] for s in record["systems"]},
            "ratio": record["comparisons"][0]["perplexity_ratio"],
        }
    write_json(RESULTS / "checks" / f"{folder.parent.name}-{folder.name}.json", found)


def ship(runs: list[Path], name: str) -> None:
    """Copy a writer to models/ in bfloat16, without the paths and the name of this machine.

    Each run but the first began with the model of the one before. The last one is copied.
    """
    folder = runs[-1]
    model, vocab = trunks.load(folder, dtype=torch.bfloat16)
    goal = ROOT / "models" / name
    trunks.save(model, read_tokenizer(folder), vocab, goal)
    records = [json.loads((run / "run.json").read_text("utf-8")) for run in runs]
    record = records[-1]
    record["runs"] = [
        {"steps": each["recipe"]["training"]["steps"], "ids": each["seen"]["ids"]}
        for each in records
    ]
    record["recipe"]["base"] = "the model of the run before" if runs[1:] else "stories-edit"
    record["recipe"]["data"]["text"] = ["stories.jsonl"]
    record["stories"] = Manifest.load(folder / "shards").documents
    kept = ("recipe", "data", "tokenizer", "stories", "parameters", "runs")
    kept += ("seen", "metrics", "versions", "commit")
    write_json(goal / "run.json", {key: record[key] for key in kept})


def choose_rollouts(path: Path, name: str, count: int = 10, seed: int = 7) -> None:
    """Keep a shipped model's continuations of a few prompts, drawn by a seed, for the player."""
    prompts = read_lines(path)
    chosen = sorted(random.Random(seed).sample(range(len(prompts)), count))
    lines = []
    with reviser.load(ROOT / "models" / name) as model:
        for n in chosen:
            rollout = model.generate(prompts[n]["prompt"], seed=n)
            provenance = rollout.provenance | {"model": f"models/{name}"}
            record = replace(rollout, provenance=provenance).to_dict() | {"id": n}
            lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    write_whole(RESULTS / "rollouts.jsonl", "".join(lines))


def arguments_of(words: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare", help="Make a tokenizer and shards of sampled stories.")
    first.add_argument("world", type=Path)
    first.add_argument("--source", required=True, help="Folder of stories15M.")
    runs = commands.add_parser("run", help="Train and measure arms.")
    runs.add_argument("arms", nargs="+", choices=ARMS)
    runs.add_argument("--budget", choices=BUDGETS, default="screen")
    runs.add_argument("--seeds", type=int, nargs="+", default=[0])
    runs.add_argument("--set", action="append", default=[], dest="own", help="A recipe setting.")
    shipped = commands.add_parser("ship", help="Copy a run of recipes/story-writer.yaml.")
    shipped.add_argument("name")
    shipped.add_argument("runs", type=Path, nargs="+", help="In order; the last one is copied.")
    shipped.add_argument("--prompts", type=Path, help="Keep continuations of ten of them to watch.")
    checks = commands.add_parser("check", help="Use another judge, and real stories.")
    checks.add_argument("--second", type=Path, required=True, help="Folder of SmolLM2-135M.")
    checks.add_argument("--real", type=Path, required=True, help="Path of tiny_stories.txt.xz.")
    checks.add_argument("runs", type=Path, nargs="+", help="Folders in WORLD/runs/BUDGET.")
    for command in (runs, checks):
        command.add_argument("--world", type=Path, required=True)
        command.add_argument("--judge", type=Path, required=True, help="Folder of stories15M.")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    given = arguments_of(words)
    if given.command == "prepare":
        prepare(given.world.absolute(), given.source)
    elif given.command == "ship":
        ship([run.absolute() for run in given.runs], given.name)
        if given.prompts:
            choose_rollouts(given.prompts, given.name)
    elif given.command == "check":
        judges = {"stories15M": given.judge, "SmolLM2-135M-Instruct": given.second}
        for folder in given.runs:
            check(given.world.absolute(), judges, given.real, folder.absolute())
    else:
        for arm in given.arms:
            for seed in given.seeds:
                where = given.world.absolute(), given.judge
                run_arm(*where, arm, seed, given.budget, tuple(given.own))


if __name__ == "__main__":
    main()
