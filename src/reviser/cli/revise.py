"""The revise command: one draft or a file of drafts, with the result in six formats."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from reviser.cli.drafts import Draft
from reviser.cli.formats import print_report, print_revision
from reviser.cli.options import (
    BatchChoice,
    ModelChoice,
    batch_options,
    decoding_options,
    model_options,
)
from reviser.cli.output import exit_interrupted, progress_bars, stop_message
from reviser.cli.write import write_batch
from reviser.engines.settings import DecodeConfig
from reviser.errors import plural
from reviser.files import refuse_special
from reviser.markup import Choice
from reviser.writing.tasks import CONTEXT, WINDOW, Revise

if TYPE_CHECKING:
    from reviser.writing.changes import Changes
    from reviser.writing.rollout import Revision


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE]...",
                type=click.Path(dir_okay=False, path_type=Path))  # fmt: skip
@click.option("--instruction", default="", metavar="TEXT",
              help="What to change, in words, for a model that was trained with"
                   " instructions.")  # fmt: skip
@click.option("--lock", "locked", multiple=True, metavar="TEXT",
              help="Never change this text, wherever it occurs; may be repeated.")  # fmt: skip
@click.option("--markup", default="auto", show_default=True,
              type=click.Choice(get_args(Choice)),
              help="Never change markup of this format: auto chooses by the file's suffix, text"
                   " locks only links, and code locks all but comments and docstrings. Standard"
                   " input has no suffix, so auto locks nothing there.")  # fmt: skip
@click.option("--format", "form", default="text", show_default=True,
              type=click.Choice(["text", "diff", "criticmarkup", "lsp", "rdjson", "json"]),
              help="Print the revised text, a unified diff for patch -p0, CriticMarkup, the text"
                   " edits of a language server, suggestions for reviewdog -f=rdjson, or everything"
                   " as JSON.")  # fmt: skip
@click.option("--in-place", is_flag=True, help="Save the revised text to each FILE.")
@click.option(
    "--check", is_flag=True, help="Write nothing; exit with status 1 if a FILE would change."
)
@click.option("--precision", type=float, metavar="SHARE",
              help="Share of changes that should be correct, from 0 to 1, for a model that was"
                   " calibrated.")  # fmt: skip
@click.option("--min-edit-probability", type=float, metavar="SHARE",
              help="Only change words with at least this predicted edit probability; 0 allows"
                   " changes everywhere. By default, the model's own threshold.")  # fmt: skip
@click.option("--window", default=WINDOW, show_default=True,
              help="Tokens to revise at a time. The limits on actions and edits are per"
                   " window.")  # fmt: skip
@click.option("--context", default=CONTEXT, show_default=True,
              help="Tokens of context that the model sees on each side of a window.")  # fmt: skip
@batch_options("drafts", "FILE", "revisions")
@model_options
@decoding_options(Revise.default_config)
def revise(
    files: tuple[Path, ...], markup: Choice, form: str, in_place: bool, check: bool,
    batch: BatchChoice, choice: ModelChoice, config: DecodeConfig, instruction: str,
    locked: tuple[str, ...], precision: float | None, min_edit_probability: float | None,
    window: int, context: int,
) -> None:  # fmt: skip
    """Correct a draft and leave the rest of it alone.

    For example: reviser revise letter.md -m MODEL --format diff

    MODEL must be trained to edit; see recipes/revise.yaml. Without FILE, the draft is read from
    standard input. --in-place, --check and --format rdjson take many files. With the first two, the
    number of changes is printed in place of the text; other formats are still printed. Markup and
    code never change: see --markup. With --input and --output, the command runs a batch of any
    size: each line is a JSON object with a "draft", or the "before" of a pair, and an optional
    "instruction". Run the same command again to continue after an interruption.
    """
    options: dict[str, Any] = {
        "instruction": instruction, "min_edit_probability": min_edit_probability,
        "precision": precision, "window": window, "context": context,
    }  # fmt: skip
    is_single = bool(files) or in_place or check or form != "text"
    if batch.is_chosen:
        if is_single:
            raise click.UsageError("Give a FILE, or --input and --output together.")
        settings = asdict(config) | Revise("", **options).to_dict()  # refuses wrong options first
        del settings["draft"]
        settings |= {"locked": list(locked)} if locked else {}
        write_batch(batch, choice, settings=settings, is_revision=True)
        return
    if not files and (in_place or sys.stdin.isatty()):
        raise click.UsageError("Give a FILE.")
    if in_place and check:
        raise click.UsageError("--check writes nothing: leave out --in-place.")
    if len(files) > 1 and not (in_place or check or form == "rdjson"):
        raise click.UsageError("Give one FILE, or add --check or --in-place, or --format rdjson.")
    if in_place:
        for file in files:
            refuse_special(file)  # before it is read: a device may have no end
    command = f"reviser revise -m {choice.model}"
    drafts = [Draft.read(file, markup, command) for file in files or (None,)]
    tasks = [
        Revise(draft.text, locked=draft.locks(locked, is_only=len(files) < 2), **options)
        for draft in drafts
    ]
    found: list[tuple[str, Changes]] = []
    for draft, revision in zip(drafts, _revisions(tasks, choice, config), strict=True):
        changes = revision.changes.within(draft.whole, draft.start)
        found.append((draft.name, changes))
        if in_place and changes:
            draft.write(changes)
        if form == "text" and (in_place or check):
            click.echo(f"{draft.file or 'draft'}: {plural(len(changes), 'change')}")
        elif form != "rdjson":
            print_revision(form, revision, changes, draft.name)
    if form == "rdjson":  # one result for all files
        print_report(form, found)
    if check and any(changes for _, changes in found):
        raise SystemExit(1)


def _revisions(
    tasks: list[Revise], choice: ModelChoice, config: DecodeConfig
) -> Iterator[Revision]:
    """Revise drafts one after the other, with a progress bar for those with several windows."""

    def report(done: int, total: int) -> None:
        if total > 1:
            progress("revising", done, total)

    for task in tasks:
        choice.check(task, config)
    reasons: list[str] = []
    try:
        with choice.load() as reviser:
            for task in tasks:
                with progress_bars(lines=False) as (_, progress):
                    revision = reviser.run(task, config, progress=report)
                ends = [rollout.stop_reason for rollout in revision.rollouts]
                reasons += ends or [revision.stop_reason]
                yield revision
    except KeyboardInterrupt as error:
        done = "The files before it are done." if reasons else "Nothing was written."
        exit_interrupted(error, done)
    if message := stop_message(reasons, config.max_actions):
        click.echo(message, err=True)
