"""Does it help a trunk to read the canvas, and what does it cost?

The same Llama trunk, data, steps and seeds, with the history alone, with a pooled canvas and with
cross-attention to it. Held-out scores are nats per text token. The cost of a step is measured side
by side on the trained models: a training step and a decoding step, as ratios to the trunk that has
the history alone.

    python -m experiments.canvas.compare -o runs --seeds 2

Finished models are kept, so a second start continues. Figures are written to
`experiments/canvas/results/compare.json`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from reviser.engines.base import DecodeConfig, Request
from reviser.engines.hf import HFEngine
from reviser.files import write_json
from reviser.lab.recipe import load_recipe
from reviser.lab.train import train
from reviser.models import trunks
from reviser.provenance import made_with
from reviser.train.inputs import open_inputs, training_set

RECIPES = Path(__file__).parents[2] / "recipes"
RESULTS = Path(__file__).parent / "results" / "compare.json"
ARMS = {
    "history": ("pooled.yaml", ["trunk.canvas=null"]),
    "pooled": ("pooled.yaml", []),
    "cross-attention": ("cross-attention.yaml", []),
}
ROUNDS = 7
ROWS = 8


def training_step(folder: Path, recipe: Any) -> Callable[[], None]:
    """Return a function that runs one micro-batch forward and backward."""
    inputs = open_inputs(recipe, folder)
    batch = training_set(recipe, inputs)[0]
    ids, labels = batch["input_ids"], batch["labels"]

    def step() -> None:
        inputs.model(input_ids=ids, labels=labels).loss.backward()
        inputs.model.zero_grad()

    return step


def decoding(folder: Path) -> Callable[[], None]:
    """Return a function that writes a hundred actions in each of a few rows."""
    model, vocab = trunks.load(folder, dtype=torch.float32)
    engine = HFEngine(model, vocab, rows=ROWS)
    config = DecodeConfig(max_actions=100, stop_bias=-1e9)

    def write() -> None:
        for seed in range(ROWS):
            engine.add(Request.continuation(vocab, [5 + seed], config.with_seed_offset(seed)))
        while engine.step():
            pass

    return write


def take_turns(works: dict[str, Callable[[], None]]) -> dict[str, dict[str, float]]:
    """Return the time of each as a ratio to the first, with its quartiles."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS + 1):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - began)
    first = next(iter(seconds.values()))[1:]  # the first round warms up
    found = {}
    for name, times in seconds.items():
        ratios = [a / b for a, b in zip(times[1:], first, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        found[name] = {"ratio": middle, "low": low, "high": high}
    return found


def main() -> None:
    """Train every arm, measure it, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    arms: dict[str, Any] = {}
    recipes = {}
    for name, (file, changes) in ARMS.items():
        scores = []
        for seed in range(options.seeds):
            recipe = load_recipe(RECIPES / file, [*changes, f"seed={seed}"])
            folder = train(recipe, options.output / f"{name}-{seed}")
            metrics = json.loads((folder / "run.json").read_text())["metrics"]
            scores.append([metrics["eval_held_out_nll"], metrics["eval_held_out_nll_95"]])
        recipes[name] = recipe
        arms[name] = {"nats_per_token": scores}
        print(name, scores, flush=True)
    folders = {name: options.output / f"{name}-0" for name in ARMS}
    steps = {name: training_step(folders[name], recipes[name]) for name in ARMS}
    costs = {
        "training_step": take_turns(steps),
        "decoding_step": take_turns({name: decoding(folders[name]) for name in ARMS}),
    }
    print(json.dumps(costs, indent=1))
    write_json(RESULTS, {"arms": arms, "costs": costs, **made_with("torch", "transformers")})


if __name__ == "__main__":
    main()
