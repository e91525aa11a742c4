"""Commands about model folders: info and convert."""

from __future__ import annotations

import json
from pathlib import Path

import click

from reviser.cli.options import (
    InputPath,
    folder_option,
    model_argument,
    tokenizer_option,
)
from reviser.cli.output import needs_extra


@click.command()
@model_argument
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def info(model: str, as_json: bool) -> None:
    """Describe a model.

    MODEL is a folder or a hub name.
    """
    from reviser.models.hub import find
    from reviser.models.info import describe, summary
    from reviser.player.terminal import printable

    description = describe(find(model))
    if as_json:
        click.echo(json.dumps(description))
        return
    for name, line in summary(description):
        click.echo(printable(f"{name:<10} {line}"))


@click.command()
@click.argument("checkpoint", type=InputPath(dir_okay=False), metavar="FILE.pt")
@folder_option("-o", "--output", help="Model folder to write.")
@tokenizer_option(help="Folder with GPT-2's tokenizer.json.")
@click.option("--heads", type=click.IntRange(1),
              help="Number of attention heads; width / 64 by default.")  # fmt: skip
@click.option("--context", type=click.IntRange(1),
              help="Maximum number of ids in a history, the begin token included; by default, 256"
                   " for the width of the 100M model and 512 for others.")  # fmt: skip
@click.option("--without-canvas", is_flag=True,
              help="Say that the weights were trained on the history of actions alone. The paper's"
                   " code always saves weights that read the canvas too; the converted model"
                   " ignores them.")  # fmt: skip
def convert(
    checkpoint: Path, output: Path, tokenizer: Path, heads: int | None, context: int | None,
    without_canvas: bool,
) -> None:  # fmt: skip
    """Convert a checkpoint released with the paper.

    The result is an ordinary Hugging Face model folder with safetensors, which every engine can
    open. The checkpoint is read as tensors only: code inside it is refused, never run.
    """
    with needs_extra("hf"):
        from reviser.lab import checkpoints
    sizes = checkpoints.convert(
        checkpoint,
        output,
        tokenizer=tokenizer,
        heads=heads,
        context=context,
        without_canvas=without_canvas,
    )
    click.echo(
        f"{output}: {sizes.layers} layers, width {sizes.width}, {sizes.heads} heads, MLP width"
        f" {sizes.mlp_width}, context {sizes.context}"
    )
