"""The `reviser` command: results on standard output, one-line errors, a traceback with --debug.

One module per group of commands. Each imports what it runs inside its commands, so `--help` is fast
and an extra that is not installed is missed only by the command that needs it.
"""

from __future__ import annotations

import os
from typing import Any

import click

from reviser.cli import data, evaluate, models, play, revise, serve, train, write
from reviser.errors import ReviserError


class _Group(click.Group):
    """A group of commands that prints the package's own errors as one line."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ReviserError as error:
            if ctx.params.get("debug"):
                raise
            if os.environ.get("RANK", "0") == "0":  # of several processes only the first prints
                from reviser.player.terminal import printable

                click.echo(printable(f"error: {error}"), err=True)
            ctx.exit(1)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="reviser-lm")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(debug: bool) -> None:
    """Language models that write by editing."""


for command in (
    train.policies,
    models.convert,
    data.tokenize,
    data.tokenizer,
    data.data,
    train.train,
    models.info,
    write.generate,
    write.infill,
    revise.revise,
    serve.serve,
    play.play,
    evaluate.prompts,
    evaluate.evaluate,
    evaluate.report,
    train.reproduce,
):
    main.add_command(command)
