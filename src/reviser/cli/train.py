"""Commands that train: train, reproduce, and policies, which compares what to train with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reviser.cli.options import (
    SEED,
    InputPath,
    engine_option,
    engine_options_option,
    folder_option,
    parse_options,
)
from reviser.cli.output import (
    exit_interrupted,
    needs_extra,
    print_table,
    progress_bars,
    terminable,
)
from reviser.errors import plural

if TYPE_CHECKING:
    from reviser.train.recipe import Recipe
    from reviser.trajectories.order_tax import CostEstimate, PolicyCost


@click.command()
@click.argument("recipe", type=InputPath(dir_okay=False), metavar="RECIPE.yaml")
@folder_option("-o", "--output", help="Model folder to write, or to continue.")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE",
              help="Replace a value of the recipe, in YAML, such as training.steps=100; may be"
                   " repeated. Paths of data and base are relative to the working"
                   " directory.")  # fmt: skip
def train(recipe: Path, output: Path, changes: tuple[str, ...]) -> None:
    """Train a model from a recipe.

    FOLDER becomes an ordinary model folder that also contains log.jsonl, samples.jsonl, run.json
    and the checkpoints. Run the same command again to continue from the last checkpoint. To train
    with several processes, use torchrun or accelerate launch:

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
            from reviser.reinforce.run import reinforce as run
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


@click.command()
@click.argument("recipe", type=InputPath(dir_okay=False), metavar="RECIPE.yaml")
@folder_option("-o", "--output",
               help="Folder for models, rollouts and the page, or such a folder to"
                    " continue.")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE",
              help="Replace a value of the recipe for all models; may be repeated.")  # fmt: skip
@engine_option
@engine_options_option
@click.option("--device", default="auto", show_default=True,
              help="Device that runs the measuring models, such as cpu or cuda:0; auto takes a GPU"
                   " if there is one.")  # fmt: skip
def reproduce(
    recipe: Path, output: Path, changes: tuple[str, ...], engine: str,
    engine_options: tuple[str, ...], device: str,
) -> None:  # fmt: skip
    """Train a model and its left-to-right baseline, and compare them.

    The result is one page. The section "comparison" of the recipe lists the models to train, the
    prompts they continue and the measures. Run the same command again to continue where it stopped.
    A model that is already in FOLDER/models/ARM, trained elsewhere, is not trained again.
    """
    with needs_extra("train"):
        from reviser.train.recipe import absolute_paths, check_inputs, load_recipe

        changes = tuple(map(absolute_paths, changes))
        read = load_recipe(recipe, changes)
        if not output.exists():  # what was done before may outlive its data
            check_inputs(read)
        # After the checks, because importing torch takes seconds.
        from reviser.reproduce import reproduce
    with progress_bars() as (log, progress):
        try:
            with terminable():
                page = reproduce(
                    recipe, output, changes=changes, engine=engine,
                    options=parse_options(engine_options), device=device, log=log,
                    progress=progress,
                )  # fmt: skip
        except KeyboardInterrupt as error:
            exit_interrupted(error, "Run the same command again to continue.")
    click.echo(page)


@click.command()
@click.option("--length", default=145, show_default=True, type=click.IntRange(1),
              help="Target length in tokens.")  # fmt: skip
@click.option("--samples", default=2000, show_default=True, type=click.IntRange(2),
              help="Trajectories per policy.")  # fmt: skip
@click.option("--max-move", default=512, show_default=True, help="Largest move, a power of two.")
@click.option("--marks", is_flag=True, help="Mark positions whose text is written later.")
@click.option("--seed", default=0, show_default=True, type=SEED, help="Random seed.")
@click.option("--text", type=InputPath(dir_okay=False),
              help="Measure on this text; by default, on made-up tokens.")  # fmt: skip
@click.option("--tokenizer", type=InputPath(file_okay=False),
              help="Folder with the tokenizer.json for --text.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per policy.")
def policies(
    length: int, samples: int, max_move: int, marks: bool, seed: int, text: Path | None,
    tokenizer: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Compare the costs of trajectory policies.

    A policy decides the order in which a text is written. The order tax is the entropy of that
    order in bits per token: loss that no model can avoid. +- is a 95 % interval; a value without
    one is exact; <= marks an upper bound. Without --text, every token counts as a word. The first
    run compiles code, so it takes longer.
    """
    from reviser.trajectories.order_tax import policy_cost, rich_enough, synthetic_targets
    from reviser.trajectories.policy import PRESETS

    if (text is None) != (tokenizer is None):
        raise click.UsageError("Give --text and --tokenizer together.")
    units = None
    if text is not None and tokenizer is not None:
        targets, units, tokens = _targets_from(text, tokenizer, length, samples)
    else:
        targets, tokens = synthetic_targets(length, samples), length
    rows = []
    for name, policy in PRESETS.items():
        vocab = rich_enough(policy, tokens, max_move, marks=marks)
        cost = policy_cost(policy, targets, vocab=vocab, units=units, seed=seed)
        rows.append((name, cost))
        if as_json:
            settings = {"length": length, "samples": samples, "seed": seed}
            settings |= {"max_move": max_move, "marks": marks}
            click.echo(json.dumps({"policy": name, **settings, **asdict(cost)}))
    if not as_json:
        click.echo(f"{len(targets):,} trajectories per policy, {plural(length, 'token')} each")
        _print_costs(rows)


def _targets_from(text: Path, tokenizer: Path, length: int, samples: int) -> tuple[Any, Any, int]:
    """Return evenly spaced windows of a text, their unit marks and the size of the vocabulary.

    Windows repeat if the text is short.
    """
    from reviser.core.codec import Codec

    codec = Codec.load(tokenizer)
    try:
        tokens = codec.encode(text.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{text} is not UTF-8: {error}.") from error
    if len(tokens) < length:
        raise click.UsageError(f"{text} has {len(tokens)} tokens; --length asks for {length}.")
    marks = codec.unit_starts(tokens)
    starts = [i * (len(tokens) - length) // max(1, samples - 1) for i in range(samples)]
    windows = [tokens[start : start + length] for start in starts]
    return windows, [marks[start : start + length] for start in starts], len(codec.token_bytes)


def _print_costs(rows: Sequence[tuple[str, PolicyCost]]) -> None:
    header = ("policy", "actions per token", "moves, %", "order tax, bits")
    table = [
        (
            name,
            _format(cost.actions_per_token),
            _format(cost.move_fraction, scale=100, digits=1),
            _format(cost.order_tax),
        )
        for name, cost in rows
    ]
    print_table(header, table, width=80, no_wrap=True)


def _format(interval: CostEstimate, scale: float = 1.0, digits: int = 3) -> str:
    value = f"{scale * interval.value:.{digits}f}"
    if interval.kind == "exact":
        return value
    if interval.kind == "at most":
        return f"<= {value}"
    return f"{value} +- {scale * (interval.high - interval.low) / 2:.{digits}f}"
