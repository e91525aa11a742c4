"""Train and score the arms of a task at equal ids; every run leaves a record in `results/`.

python -m experiments.solve.run mazes --work runs/solve --seeds 0 1 2

The arms train on files of the same problems (`write.py`), with the same trunk. First every arm gets
the same number of trials of its learning rate, judged by its own held-out loss; then it is trained
with each seed for the same number of ids, prompts included, and solves test problems that no arm
has seen. Runs that are finished are not run again, and runs that were stopped are resumed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

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


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to write the answers of a task."""

    file: str
    """The file of recorded edits that it trains on."""
    versions: str = "all"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a task's arms are, and how much they train."""

    arms: dict[str, Arm]
    ids: int
    """Ids that every arm trains on, prompts included."""
    trial_ids: int
    """Ids of a trial of a learning rate."""
    rates: tuple[float, ...]
    """The learning rates that are tried, for every arm."""
    files: int
    """Problems in the files."""


PLANS = {
    "mazes": Plan(
        arms={
            "touch": Arm(file="touch"),
            "ltr": Arm(file="touch", versions="final"),
            "cot": Arm(file="cot"),
            "revise": Arm(file="revise"),
        },
        ids=9_000_000,
        trial_ids=1_000_000,
        rates=(2e-3, 4e-3, 8e-3, 1.6e-2),
        files=120_000,
    ),
}


def recipe_of(task: str, arm: Arm, files: Path, changes: Sequence[str]) -> Recipe:
    """Return the recipe of an arm."""
    path = (files / f"{arm.file}.jsonl").absolute()
    data = {"trajectories": [str(path)], "words": str(HERE / f"{task}.json")}
    own = [f"data={json.dumps(data)}", f"policy={{kind: recorded, versions: {arm.versions}}}"]
    return load_recipe(HERE / f"{task}.yaml", [*own, *changes])


def steps_for(task: str, arm: Arm, files: Path, ids: int) -> int:
    """Return the steps that read this many ids, by the mean length of an arm's histories."""
    recipe = recipe_of(task, arm, files, [])
    path = files / f"{arm.file}.mean.json"
    means = json.loads(path.read_text()) if path.exists() else {}
    if arm.versions not in means:
        means[arm.versions] = _mean_length(recipe)
        path.write_text(json.dumps(means))
    return round(ids / means[arm.versions] / recipe.training.batch)


def _mean_length(recipe: Recipe) -> float:
    make_indexes(recipe.data.trajectories)
    data = TrajectoryFiles(recipe.data.trajectories)
    assert isinstance(recipe.policy, Recorded)
    assert recipe.trunk is not None
    split = RecordedSplit(data, recipe.data.windows.held_out, recipe.trunk.context)
    learned = recipe.policy.compile(data.vocab)
    count = min(2000, len(split))
    sizes = [len(learned(split.read(n)).history(data.vocab)) for n in range(count)]
    return sum(sizes) / count


def tuned(task: str, name: str, plan: Plan, work: Path) -> tuple[float, dict[str, float]]:
    """Return the best learning rate of an arm, and the held-out loss of every one tried."""
    if len(plan.rates) == 1:
        return plan.rates[0], {}
    arm, files = plan.arms[name], work / task
    steps = steps_for(task, arm, files, plan.trial_ids)
    losses = {}
    for rate in plan.rates:
        output = work / f"{task}-trial-{name}-{rate:g}"
        changes = [f"training.steps={steps}", "evaluation.solve=0", "evaluation.examples=512"]
        train(recipe_of(task, arm, files, [*changes, *_rate(rate)]), output)
        metrics = json.loads((output / "run.json").read_text())["metrics"]
        losses[f"{rate:g}"] = metrics["eval_held_out_nll"]
    return float(min(losses, key=lambda rate: losses[rate])), losses


def _rate(rate: float) -> list[str]:
    return [f"training.learning_rate={rate}", f"training.min_learning_rate={rate / 50}"]


def run(task: str, name: str, seed: int, plan: Plan, work: Path, *, ids: int) -> None:
    """Train an arm with one seed, and write its record."""
    size = "" if ids == plan.ids else f"-{ids / plan.ids:g}"
    record = RESULTS / f"{task}-{name}{size}-{seed}.json"
    if record.exists():
        return
    rate, losses = tuned(task, name, plan, work)
    arm, files = plan.arms[name], work / task
    output = work / f"{task}-{name}{size}-{seed}"
    steps = steps_for(task, arm, files, ids)
    changes = [f"training.steps={steps}", f"seed={seed}", *_rate(rate)]
    began = time.process_time()
    train(recipe_of(task, arm, files, changes), output)
    seconds = time.process_time() - began
    done = json.loads((output / "run.json").read_text())
    module = import_module(f"experiments.solve.{task}")
    found = {
        "task": task,
        "arm": name,
        "seed": seed,
        "rate": rate,
        "trials": losses,
        "steps": steps,
        "batch": done["recipe"]["training"]["batch"],
        "context": done["recipe"]["trunk"]["context"],
        "parameters": done["parameters"],
        "ids": done["seen"]["ids"],
        "problems": done["seen"]["examples"],
        "cpu_seconds": round(seconds),
        "scores": score(output, module, name),
        **made_with("torch", "transformers"),
    }
    RESULTS.mkdir(exist_ok=True)
    record.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(task, name, seed, found["scores"]["exact"], flush=True)


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
            ids = round(plan.ids * options.times)
            run(options.task, name, seed, plan, options.work, ids=ids)


if __name__ == "__main__":
    main()
