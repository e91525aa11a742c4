"""Commands that write one text or a file of texts: generate and infill."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from reviser.cli.options import (
    BatchChoice,
    ModelChoice,
    batch_options,
    decoding_options,
    model_options,
    parse_options,
    with_options,
)
from reviser.cli.output import (
    exit_interrupted,
    progress_bars,
    quiet_libraries,
    read_stdin,
    stop_message,
    terminable,
)
from reviser.engines.settings import DecodeConfig
from reviser.errors import EngineError, plural

if TYPE_CHECKING:
    from reviser.writing.tasks import Task

writing_options = with_options(
    model_options,
    decoding_options(DecodeConfig()),
    click.option("--pace", default=30.0, show_default=True, type=click.FloatRange(0),
                 help="Maximum number of actions shown per second in a terminal; 0 for no limit."),
    click.option("--json", "as_json", is_flag=True,
                 help="Print the text and every action as JSON."),
)  # fmt: skip


@click.command()
@click.argument("prompt", required=False)
@writing_options
@batch_options("prompts", "PROMPT", "rollouts")
def generate(
    prompt: str | None, batch: BatchChoice, pace: float, as_json: bool, choice: ModelChoice,
    config: DecodeConfig,
) -> None:  # fmt: skip
    """Continue a prompt.

    For example: reviser generate "Ben had a" -m models/stories-revise

    A terminal shows the text while it is edited. Without PROMPT, the prompt is read from standard
    input. With --input and --output, the command runs a batch of any size: each line is a JSON
    object with a "prompt", or with a text to "infill". Run the same command again to continue after
    an interruption.
    """
    from reviser.writing.tasks import Continue

    if batch.is_chosen:
        if prompt is not None:
            raise click.UsageError("Give a PROMPT, or --input and --output together.")
        write_batch(batch, choice, settings=asdict(config))
        return
    if prompt is None:
        prompt = "" if sys.stdin.isatty() else read_stdin()
    _write(Continue(prompt), choice, config, pace, as_json)


@click.command()
@click.argument("text", required=False)
@writing_options
def infill(
    text: str | None, pace: float, as_json: bool, choice: ModelChoice, config: DecodeConfig
) -> None:
    """Fill the gaps of a text, marked with {}.

    For example: reviser infill "Ben had a {} and ran home." -m models/stories-revise

    The text around the gaps never changes. Without TEXT, the text is read from standard input.
    """
    from reviser.writing.tasks import Infill

    if text is None and sys.stdin.isatty():
        raise click.UsageError("Give a TEXT, with {} for its gaps.")
    _write(Infill(read_stdin() if text is None else text), choice, config, pace, as_json)


def _write(
    task: Task, choice: ModelChoice, config: DecodeConfig, pace: float, as_json: bool
) -> None:
    """Write one text and print it; a terminal also shows the edits as they happen."""
    from rich.console import Console

    from reviser.player.terminal import Screen, print_result, printable, show

    console = Console(highlight=False)
    choice.check(task, config)
    writing = choice.load().stream(task, config)
    is_live = console.is_terminal and not console.is_dumb_terminal and not as_json
    screen = Screen(writing.text, writing.cursor, writing.marks)
    try:
        if is_live:
            show(screen, writing, console, pace=pace, marks=lambda: writing.marks)
        rollout = writing.rollout()
    except KeyboardInterrupt:  # the text written so far is a result
        writing.cancel()
        rollout = writing.rollout()
    if is_live and screen.text == rollout.text:
        print_result(screen, console)
    else:
        result = rollout.to_json() if as_json else rollout.text
        click.echo(printable(result) if console.is_terminal else result)
    if sys.stderr.isatty() and not as_json:
        counts = rollout.statistics
        written = counts.tokens_after - counts.tokens_before
        plain = f"{plural(counts.actions, 'action')}, {plural(written, 'token')} added"
        end = {"stop": "Done: ", "cancelled": "Interrupted: "}.get(rollout.stop_reason, "")
        click.secho(end + (screen.summary() if is_live else plain), err=True, dim=True)
    if message := stop_message([rollout.stop_reason], rollout.config.max_actions):
        click.echo(message, err=True)
    if rollout.stop_reason == "cancelled":
        raise SystemExit(130)


def write_batch(
    batch: BatchChoice, choice: ModelChoice, *, settings: dict[str, Any], is_revision: bool = False
) -> None:
    """Write a file or a folder of rollouts or revisions, with a progress bar."""
    from reviser.batch.job import begin
    from reviser.batch.run import run
    from reviser.writing.tasks import Revise

    if is_revision:
        choice.check(Revise(""), DecodeConfig())
    quiet_libraries(choice.model)
    with progress_bars() as (_, progress):
        try:
            with terminable():
                job = begin(
                    *batch.paths, choice.model, engine=choice.engine, options=choice.options,
                    settings=settings, is_revision=is_revision, text_key=batch.text_key,
                    chunk_rows=batch.chunk_rows,
                )  # fmt: skip
                counts = run(
                    job, backend=batch.backend, workers=batch.workers, part=batch.part,
                    options=parse_options(batch.backend_options),
                    progress=lambda *done: progress("writing", *done),
                )  # fmt: skip
        except KeyboardInterrupt as error:
            exit_interrupted(error, "Run the same command again to continue.")
    result = "revision" if is_revision else "rollout"
    click.echo(f"{batch.output}: {plural(counts.documents - counts.failed, result)}")
    if counts.failed:
        raise EngineError(
            f"{counts.failed:,} of {plural(counts.documents, 'document')} failed. To see why, look"
            f" for 'error' in {batch.output!r}."
        )
