"""The arms of the story world: policies that are trained with equal training FLOPs.

All arms share one trunk, one text and one recipe, and differ in their policy alone. An arm whose
policy takes more actions per token is trained for fewer steps.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.stories.world import BUDGETS, NO_OUTPUT, SCREEN_FLOPS, recipe_of
from reviser.data.dataset import WindowStream
from reviser.lab.evals import flops
from reviser.train import inputs
from reviser.train.recipe import Recipe

BASELINE = "append"
MARKS = "vocab.marks=true"


def late_after(start: float, end: float = 1.0) -> str:
    """Return a policy that appends until `start` and is `late-1` from `end` of training on."""
    schedule = f", change_from: {start}" if start else ""
    schedule += f", change_until: {end}" if end < 1 else ""
    return (
        "policy={kind: mixture, policies: [append, late-1], weights: [1.0, 0.0],"
        f" final_weights: [0.0, 1.0]{schedule}}}"
    )


ARMS: dict[str, tuple[str, ...]] = {
    "append": ("policy=append",),
    "paper": ("policy=paper",),
    "delete-0.9": ("policy=delete-0.9",),
    "spans-16": ("policy=spans-16",),
    "spans-32": ("policy=spans-32",),
    "late-1": ("policy=late-1",),
    "late-2": ("policy=late-2",),
    "late-1-marks": ("policy=late-1", MARKS),
    "short-1-marks": ("policy={kind: spans, mean: 4, unit: word, late: 1}", MARKS),
    "mixed-50": (
        "policy={kind: mixture, policies: [append, spans-16], weights: [0.5, 0.5]}",
    ),
    "annealed-late-marks": (late_after(0.0), MARKS),
    "then-late-marks": (late_after(0.6), MARKS),
    "half-late-marks": (late_after(0.4, 0.6), MARKS),
}  # fmt: skip
"""The changes that each arm makes to the recipe, as `reviser train --set` takes them."""


def plan(world: Path, arm: str, seed: int, budget: str, own: tuple[str, ...]) -> list[str]:
    """Return the recipe changes of one run, with as many steps as its budget of FLOPs allows."""
    changes = [*ARMS[arm], f"seed={seed}", *own]
    recipe = recipe_of(world, *changes)
    flops_per_step = _flops_per_example(recipe) * recipe.training.batch
    steps = round(SCREEN_FLOPS * BUDGETS[budget] / flops_per_step)
    every = max(1, steps // 5)
    return [
        *changes,
        f"training.steps={steps}",
        f"training.warmup={max(1, steps // 20)}",
        f"training.evaluate_every={every}",
        f"training.save_every={every}",
    ]


def _flops_per_example(recipe: Recipe) -> float:
    """Return the mean training FLOPs of an example over the whole schedule of its policy."""
    assert recipe.trunk is not None
    trunk, stream = recipe.trunk, stream_of(recipe)
    rows = stream.sampler.vocab.size
    sizes = flops.Sizes(L=trunk.layers, d=trunk.width, d_ff=trunk.mlp_width, V=rows)
    lengths = [
        len(example.ids)
        for progress in (0.0, 0.25, 0.5, 0.75, 1.0)
        for example in stream.examples(np.arange(1024), progress=progress)
    ]
    # `flops` counts multiply-adds of a forward pass. Each is two FLOPs, and the backward pass
    # takes twice the forward pass: 2 * 3 = 6.
    return 6 * float(np.mean([flops.autoregressive(sizes, n) for n in lengths]))


def stream_of(recipe: Recipe) -> WindowStream:
    """Return the stream of training examples of a recipe."""
    return inputs.training_set(recipe, inputs.open_inputs(recipe, NO_OUTPUT)).stream
