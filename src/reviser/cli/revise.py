"""The revise command: one draft or a file of drafts, with the result in five formats."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reviser.cli.options import ModelChoice, batch_options, decoding_options, model_options
from reviser.cli.output import exit_interrupted, plural, print_text, progress_bars
from reviser.cli.write import write_batch
from reviser.engines.base import DecodeConfig
from reviser.errors import DataError
from reviser.files import write_whole
from reviser.writing.tasks import Revise

if TYPE_CHECKING:
    from reviser.writing.changes import Changes
    from reviser.writing.rollout import Revision

_BOM = "\ufeff"
"""The byte order mark, which some files begin with."""


@click.command()
@click.argument("file", required=False, metavar="[FILE]",
                type=click.Path(dir_okay=False, path_type=Path))  # fmt: skip
@click.option("--instruction", default="", metavar="TEXT", help="What to change.")
@click.option("--lock", "locked", multiple=True, metavar="TEXT",
              help="Never change this text, wherever it occurs; may be repeated.")  # fmt: skip
@click.option("--format", "form", default="text", show_default=True,
              type=click.Choice(["text", "diff", "critic", "lsp", "json"]),
              help="The revised text, a unified diff for patch -p0, CriticMarkup, the text edits"
                   " of a language server, or everything as JSON.")  # fmt: skip
@click.option("--in-place", is_flag=True, help="Write the FILE back if anything changed.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if anything would change.")
@click.option("--precision", type=float, metavar="SHARE",
              help="Share of changes that should be correct, by the model's"
                   " calibration.")  # fmt: skip
@click.option("--min-edit-probability", type=float, metavar="SHARE",
              help="Only change words with at least this predicted edit probability; 0 lets the"
                   " model change every word. By default, as the model was trained.")  # fmt: skip
@click.option("--notes", type=float, metavar="SHARE", hidden=True, deprecated="use --min-edit-probability")
@click.option("--window", default=Revise.window, show_default=True, type=int,
              help="Tokens to revise at a time; the limits of actions and edits hold for"
                   " each.")  # fmt: skip
@click.option("--context", default=Revise.context, show_default=True, type=int,
              help="Tokens of context shown on either side of a window.")  # fmt: skip
@batch_options("drafts", "FILE", "revisions")
@model_options
@decoding_options(Revise.default_config)
def revise(
    file: Path | None, form: str, in_place: bool, check: bool, source: Path | None,
    output: Path | None, workers: int, choice: ModelChoice, config: DecodeConfig,
    instruction: str, locked: tuple[str, ...], precision: float | None,
    min_edit_probability: float | None, notes: float | None, window: int, context: int,
) -> None:  # fmt: skip
    """Revise a draft: change what needs a change, and nothing else.

    Without FILE, the draft is read from standard input. With --in-place or --check, the number of
    changes is printed instead of the text; other formats are still printed. With --input and
    --output, a file of any length is worked through: each line is an object with a "draft", or the
    "before" of a pair, and an optional "instruction". Run the same command again to continue after
    an interruption.
    """
    is_single = file is not None or in_place or check or form != "text"
    if (source is None) != (output is None) or (source is not None and is_single):
        raise click.UsageError("Give a FILE, or --input and --output together.")
