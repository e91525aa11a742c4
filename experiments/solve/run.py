"""Train and score the arms of a task at equal ids; every run leaves a record in `results/`.

python -m experiments.solve.run mazes --work runs/solve --seeds 0 1 2

The arms train on files of the same problems (`write.py`), with the same trunk. First every arm gets
the same number of trials of its learning rate and batch, judged by its own held-out loss; then it
is trained with each seed for the same number of ids, prompts included, and solves test problems
that no arm has seen. Runs that are finished are not run again, and runs that were stopped are
resumed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

from experiments.solve import arithmetic
from experiments.solve.score import score
from experiments.solve.write import write
from reviser.data.recorded_dataset import RecordedSplit
from reviser.data.trajectory_files import TrajectoryFiles, make_indexes
from reviser.provenance import made_with
from reviser.train.recipe import Recipe, load_recipe
from reviser.train.run import train
from reviser.trajectories.policy import Recorded

HERE = Path(__file__).parent
RESULTS = HERE / "results"
TRIAL = ["evaluation.solve=0", "evaluation.examples=512", "training.compile=false"]
SET = 250
"""Test problems of each further set."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to write the answers of a task."""

    file: str
    """The file of recorded edits that it trains on."""
    policy: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a task's arms are, and how much they train."""

    arms: dict[str, Arm]
    ids: int
    """Ids that every arm trains on, prompts included."""
    trial_ids: int
    """Ids of a trial of a learning rate and a batch."""
    rates: tuple[float, ...]
    """The learning rates that are tried, for every arm."""
    step_ids: tuple[int, ...] = ()
    """About how many ids a step reads, for each batch that is tried. Empty: 32 examples."""
    files: int
    """Problems in the files."""
    sets: dict[str, int] = field(default_factory=dict)
    """More test problems: the index of the first of each set."""


PLANS = {
    "mazes": Plan(
        arms={
            "touch": Arm(file="touch"),
            "ltr": Arm(file="touch", policy={"versions": "final"}),
            "cot": Arm(file="cot"),
            "revise": Arm(file="revise"),
        },
        ids=9_000_000,
        trial_ids=1_000_000,
        rates=(2e-3, 4e-3, 8e-3, 1.6e-2),
        files=150_000,
    ),
    "mazes8": Plan(
        arms={"touch": Arm(file="touch")},
        ids=18_000_000,
        trial_ids=1_000_000,
        rates=(4e-3,),
        files=150_000,
    ),
    "arithmetic": Plan(
        arms={
            "refresh": Arm(file="edit", policy={"refresh": {"action": "insert", "keep": 0}}),
            "edit": Arm(file="edit"),
            "ltr": Arm(file="edit", policy={"versions": "final"}),
            "cot": Arm(file="cot"),
            "steps": Arm(file="steps"),
        },
        ids=4_000_000,
        trial_ids=1_000_000,
        rates=(4e-3, 8e-3),
        step_ids=(700,),
        files=150_000,
        sets={name: first for name, (first, _) in arithmetic.LONGER.items()},
    ),
}


def recipe_of(task: str, arm: Arm, files: Path, changes: Sequence[str]) -> Recipe:
    """Return the recipe of an arm."""
    path = (files / f"{arm.file}.jsonl").absolute()
    data = {"trajectories": [str(path)], "words": str(HERE / f"{task}.json")}
    policy = {"kind": "recorded", **arm.policy}
    own = [f"data={json.dumps(data)}", f"policy={json.dumps(policy)}"]
    return load_recipe(HERE / f"{task}.yaml", [*own, *changes])


def length_of(task: str, name: str, plan: Plan, files: Path) -> float:
    """Return the mean length of an arm's histories, in ids."""
    path = files / "lengths.json"
    lengths = json.loads(path.read_text()) if path.exists() else {}
    if name not in lengths:
        lengths[name] = _mean_length(recipe_of(task, plan.arms[name], files, []))
        path.write_text(json.dumps(lengths))
    found: float = lengths[name]
    return found


def _mean_length(recipe: Recipe) -> float:
    make_indexes(recipe.data.trajectories)
    data = TrajectoryFiles(recipe.data.trajectories)
    assert isinstance(recipe.policy, Recorded)
    assert recipe.trunk is not None
    context = recipe.trunk.context
    split = RecordedSplit(data, recipe.data.windows.held_out, context)
    learned = recipe.policy.compile(data.vocab, context)
    sizes = []
    for index in range(min(2000, len(split))):
        histories = [each.history(data.vocab) for each in learned(split.read(index))]
        sizes.append(sum(map(len, histories)) / len(histories))
    return sum(sizes) / len(sizes)


def tuned(task: str, name: str, plan: Plan, work: Path) -> tuple[float, int, dict[str, float]]:
    """Return the best learning rate and batch of an arm, and the held-out loss of every trial."""
    losses: dict[tuple[float, int], float] = {}
    length = length_of(task, name, plan, work / task)
    batches = [round(ids / length) for ids in plan.step_ids] or [32]
    for rate, batch in product(plan.rates, batches):
        output = work / f"{task}-trial-{name}-{rate:g}-{batch}"
        steps = round(plan.trial_ids / length / batch)
        changes = [*_changes(rate, batch, steps), *TRIAL]
        train(recipe_of(task, plan.arms[name], work / task, changes), output)
        metrics = json.loads((output / "run.json").read_text())["metrics"]
        losses[rate, batch] = metrics["eval_held_out_nll"]
    rate, batch = min(losses, key=lambda trial: losses[trial])
    return rate, batch, {f"{rate:g} {batch}": loss for (rate, batch), loss in losses.items()}


def _changes(rate: float, batch: int, steps: int) -> list[str]:
    settings = {
        "steps": steps,
        "learning_rate": rate,
        "min_learning_rate": rate / 50,
        "batch": batch,
        "micro_batch": batch,
    }
    return [f"training.{name}={value}" for name, value in settings.items()]


def run(task: str, name: str, seed: int, plan: Plan, work: Path, *, times: float) -> None:
    """Train an arm with one seed, and write its record."""
    size = "" if times == 1 else f"-{times:g}"
    record = RESULTS / f"{task}-{name}{size}-{seed}.json"
    if record.exists():
        return
    rate, batch, losses = tuned(task, name, plan, work)
    output = work / f"{task}-{name}{size}-{seed}"
    steps = round(plan.ids * times / length_of(task, name, plan, work / task) / batch)
    changes = [*_changes(rate, batch, steps), f"seed={seed}"]
    began = time.process_time()
    train(recipe_of(task, plan.arms[name], work / task, changes), output)
    seconds = time.process_time() - began
    done = json.loads((output / "run.json").read_text())
    module = import_module(f"experiments.solve.{task}")
    found = {
        "task": task,
        "arm": name,
        "seed": seed,
        "times": times,
        "rate": rate,
        "batch": batch,
        "trials": losses,
        "steps": steps,
        "context": done["recipe"]["trunk"]["context"],
        "parameters": done["parameters"],
        "ids": done["seen"]["ids"],
        "problems": done["seen"]["examples"],
        "cpu_seconds": round(seconds),
        "curve": _curve(output),
        "scores": score(output, module, name),
        "sets": {
            title: score(output, module, name, first=first, count=SET)["exact"]
            for title, first in plan.sets.items()
        },
        **made_with("torch", "transformers"),
    }
    RESULTS.mkdir(exist_ok=True)
    record.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(task, name, seed, found["scores"]["exact"], found["sets"], flush=True)


def _curve(output: Path) -> list[tuple[int, float]]:
    """Return the share of held-out prompts that were solved, by step."""
    lines = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    found = {line["step"]: line["eval_solved"] for line in lines if "eval_solved" in line}
    return list(found.items())


def main() -> None:
    """Run what is asked for, one run after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=PLANS)
    parser.add_argument("--work", type=Path, required=True, help="folder of files and models")
    parser.add_argument("--arms", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--times", type=float, default=1.0, help="of the plan's ids")
    options = parser.parse_args()
    plan = PLANS[options.task]
    arms = options.arms or list(plan.arms)
    for file in dict.fromkeys(plan.arms[name].file for name in arms):
        write(options.task, file, plan.files, options.work / options.task)
    for seed in options.seeds:
        for name in arms:
            run(options.task, name, seed, plan, options.work, times=options.times)


if __name__ == "__main__":
    main()
