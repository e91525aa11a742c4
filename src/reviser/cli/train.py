"""The command that trains."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from reviser.cli.options import (
    InputPath,
    folder_option,
)
from reviser.cli.output import (
    exit_interrupted,
    needs_extra,
    terminable,
)
from reviser.errors import ConfigError

recipe_argument = click.argument("recipe", type=InputPath(dir_okay=False), metavar="RECIPE.yaml")
model_option = folder_option("-o", "--output", help="Model folder to write, or to continue.")
changes_option = click.option(
    "--set", "changes", multiple=True, metavar="NAME=VALUE",
    help="Replace a value of the recipe, in YAML, such as training.steps=100; may be repeated."
         " Paths of data and base are relative to the working directory.",
)  # fmt: skip


@click.command()
@recipe_argument
@model_option
@changes_option
def train(recipe: Path, output: Path, changes: tuple[str, ...]) -> None:
    """Train a model from a recipe.

    FOLDER becomes an ordinary model folder that also contains a model card (README.md), log.jsonl,
    samples.jsonl, run.json and the checkpoints. Run the same command again to continue from the
    last checkpoint. To train with several processes, use torchrun or accelerate launch:

        torchrun --nproc-per-node 8 -m reviser train RECIPE.yaml -o FOLDER
    """
    with needs_extra("train"):
        from reviser.train.recipe import absolute_paths, check_inputs, load_recipe

        changes = tuple(map(absolute_paths, changes))
        _refuse_the_labs(recipe, changes)
        read = load_recipe(recipe, changes)
        if not (output / "run.json").is_file():  # a finished run may outlive its data
            check_inputs(read)
        # After the checks, because importing torch takes seconds.
        from reviser.train.run import train
    run_training(train, read, output)


def _refuse_the_labs(recipe: Path, changes: Sequence[str]) -> None:
    """Refuse a recipe that asks for a method of the paper's appendix."""
    from reviser.train.recipe import read_yaml

    fields = read_yaml(recipe, changes)
    if not isinstance(fields, dict):
        return  # `load_recipe` reports it
    policy, trunk = fields.get("policy"), fields.get("trunk")
    found = {
        "policy.kind: dagger": isinstance(policy, dict) and policy.get("kind") == "dagger",
        "trunk.canvas": isinstance(trunk, dict) and "canvas" in trunk,
        "reinforce": "reinforce" in fields,
    }
    for asked in [name for name, is_there in found.items() if is_there]:
        raise ConfigError(
            f"`{asked}` is a setting of the paper's appendix. Train this recipe with: reviser lab"
            f" train {recipe}"
        )


def run_training(train: Callable[[Any, Path], Path], recipe: Any, output: Path) -> None:
    """Run a recipe with a function and print the folder; if it is interrupted, say how to continue.

    Of several processes, only the first prints.
    """
    try:
        with terminable():
            folder = train(recipe, output)
    except KeyboardInterrupt as error:
        exit_interrupted(error, _how_to_continue(output))
    if os.environ.get("RANK", "0") == "0":
        click.echo(folder)


def _how_to_continue(output: Path) -> str:
    from reviser.train.resume import last_checkpoint, step_of

    checkpoint = last_checkpoint(output)
    if checkpoint is None:
        return "There is no checkpoint yet: the same command starts again from step 0."
    return f"Run the same command again to continue from step {step_of(checkpoint)}."
