"""The revise command: one draft or a file of drafts, with the result in five formats."""

from __future__ import annotations

import errno
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reviser.cli.options import ModelChoice, batch_options, decoding_options, model_options
from reviser.cli.output import exit_interrupted, print_text, progress_bars, stop_message
from reviser.cli.write import write_batch
from reviser.engines.settings import DecodeConfig
from reviser.errors import DataError, nearest_path, plural
from reviser.files import write_whole
from reviser.writing.tasks import CONTEXT, WINDOW, Revise

if TYPE_CHECKING:
    from reviser.writing.changes import Changes
    from reviser.writing.rollout import Revision

_BOM = "\ufeff"
"""The byte order mark, which some files begin with."""


@click.command()
@click.argument("file", required=False, metavar="[FILE]",
                type=click.Path(dir_okay=False, path_type=Path))  # fmt: skip
@click.option("--instruction", default="", metavar="TEXT",
              help="What to change, in words, for a model that was trained with"
                   " instructions.")  # fmt: skip
@click.option("--lock", "locked", multiple=True, metavar="TEXT",
              help="Never change this text, wherever it occurs; may be repeated.")  # fmt: skip
@click.option("--format", "form", default="text", show_default=True,
              type=click.Choice(["text", "diff", "critic", "lsp", "json"]),
              help="Print the revised text, a unified diff for patch -p0, CriticMarkup, the text"
                   " edits of a language server, or everything as JSON.")  # fmt: skip
@click.option("--in-place", is_flag=True, help="Save the revised text to FILE.")
@click.option(
    "--check", is_flag=True, help="Write nothing; exit with status 1 if FILE would change."
)
@click.option("--precision", type=float, metavar="SHARE",
              help="Share of changes that should be correct, from 0 to 1, for a model that was"
                   " calibrated.")  # fmt: skip
@click.option("--min-edit-probability", type=float, metavar="SHARE",
              help="Only change words with at least this predicted edit probability; 0 allows"
                   " changes everywhere. By default, the model's own threshold.")  # fmt: skip
@click.option("--notes", type=float, hidden=True)
@click.option("--window", default=WINDOW, show_default=True,
              help="Tokens to revise at a time. The limits on actions and edits are per"
                   " window.")  # fmt: skip
@click.option("--context", default=CONTEXT, show_default=True,
              help="Tokens of context that the model sees on each side of a window.")  # fmt: skip
@batch_options("drafts", "FILE", "revisions")
@model_options
@decoding_options(Revise.default_config)
def revise(
    file: Path | None, form: str, in_place: bool, check: bool, source: Path | None,
    output: Path | None, workers: int, choice: ModelChoice, config: DecodeConfig,
    instruction: str, locked: tuple[str, ...], precision: float | None,
    min_edit_probability: float | None, notes: float | None, window: int, context: int,
) -> None:  # fmt: skip
    """Correct a draft and leave the rest of it alone.

    For example: reviser revise letter.md -m MODEL --format diff

    MODEL must be trained to edit; see recipes/revise.yaml. Without FILE, the draft is read from
    standard input. With --in-place or --check, the number of changes is printed in place of the
    text; other formats are still printed. With --input and --output, the command processes a file
    of any size: each line is a JSON object with a "draft", or the "before" of a pair, and an
    optional "instruction". Run the same command again to continue after an interruption.
    """
    if notes is not None:
        click.echo("warning: --notes is now called --min-edit-probability.", err=True)
        min_edit_probability = notes if min_edit_probability is None else min_edit_probability
    options: dict[str, Any] = {
        "instruction": instruction, "min_edit_probability": min_edit_probability,
        "precision": precision, "window": window, "context": context,
    }  # fmt: skip
    is_single = file is not None or in_place or check or form != "text"
    if (source is None) != (output is None) or (source is not None and is_single):
        raise click.UsageError("Give a FILE, or --input and --output together.")
    if source is not None and output is not None:
        settings = asdict(config) | Revise("", **options).to_dict()  # refuses wrong options first
        del settings["draft"]
        settings |= {"locked": list(locked)} if locked else {}
        write_batch(source, output, workers, choice, settings=settings, is_revision=True)
        return
    if file is None and (in_place or sys.stdin.isatty()):
        raise click.UsageError("Give a FILE.")
    if in_place and check:
        raise click.UsageError("--check writes nothing: leave out --in-place.")
    content = _read(file, choice.model)
    name = "Standard input" if file is None else repr(str(file))
    try:
        whole = content.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not UTF-8: {error}.") from error
    # A byte order mark and the last line ends belong to the file, not to the text in it.
    draft = whole.removeprefix(_BOM).rstrip("\r\n")
    revision = _revise(Revise(draft, locked=locked, **options), choice, config)
    changes = revision.changes.within(whole, len(whole) - len(whole.removeprefix(_BOM)))
    if in_place and file is not None and changes.changes:
        if _read(file, choice.model) != content:
            raise DataError(
                f"{name} was changed by another program meanwhile, so it was not written. Revise it"
                " again."
            )
        write_whole(file.resolve(), changes.text)
    if form == "text" and (in_place or check):
        click.echo(f"{file or 'draft'}: {plural(len(changes.changes), 'change')}")
    else:
        _print(form, revision, changes, "draft" if file is None else file.as_posix())
    if check and changes.changes:
        raise SystemExit(1)


def _read(file: Path | None, model: str) -> bytes:
    """Return the content of a file, or of standard input."""
    if file is None:
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):
            raise DataError(f"Cannot read {str(file)!r}: {error.strerror}.") from error
        text = str(file) if len(str(file)) <= 60 else str(file)[:57] + "..."
        pipe = f' To revise a text directly, pipe it: echo "{text}" | reviser revise -m {model}'
        pipe = pipe if " " in text else ""
        raise DataError(f"There is no file named {text!r}.{nearest_path(file) or pipe}") from error


def _revise(task: Revise, choice: ModelChoice, config: DecodeConfig) -> Revision:
    """Revise one draft, with a progress bar if it has several windows."""

    def report(done: int, total: int) -> None:
        if total > 1:
            progress("revising", done, total)

    choice.check(task, config)
    try:
        with choice.load() as reviser, progress_bars() as (_, progress):
            revision = reviser.run(task, config, progress=report)
    except KeyboardInterrupt:
        exit_interrupted("Nothing was written.")
    reasons = [rollout.stop_reason for rollout in revision.rollouts]
    if message := stop_message(reasons, config.max_actions):
        click.echo(message, err=True)
    return revision


def _print(form: str, revision: Revision, changes: Changes, name: str) -> None:
    """Print a revision in one of the formats."""
    if form == "lsp":  # without the file's byte order mark, which editors do not count
        print_text(json.dumps(revision.changes.lsp(), ensure_ascii=False) + "\n")
    elif form == "diff":
        print_text(changes.unified(name))
    elif form == "critic":
        print_text(changes.critic())
    elif form == "json":
        print_text(replace(revision, changes=changes).to_json() + "\n")
    else:
        print_text(changes.text, changes)
