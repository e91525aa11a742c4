"""The command that trains."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from reviser.train.recipe import Recipe


@click.command()
@click.argument("recipe", type=InputPath(dir_okay=False), metavar="RECIPE.yaml")
@folder_option("-o", "--output", help="Model folder to write, or to continue.")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE",
              help="Replace a value of the recipe, in YAML, such as training.steps=100; may be"
                   " repeated. Paths of data and base are relative to the working"
                   " directory.")  # fmt: skip
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
        read = load_recipe(recipe, changes)
        if not (output / "run.json").is_file():  # a finished run may outlive its data
            check_inputs(read)
    # After the checks, because importing torch takes seconds.
    run: Callable[[Recipe, Path], Path]
    if read.reinforce is None:
        with needs_extra("train"):
            from reviser.train.run import train as run
    else:
        with needs_extra("rl"):
            from reviser.lab.reinforce.run import reinforce as run
    try:
        with terminable():
            folder = run(read, output)
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
