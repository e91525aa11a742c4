"""Output of commands: progress bars, tables, and text that cannot control a terminal."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from reviser.errors import DataError, MissingExtra, exists, plural

if TYPE_CHECKING:
    from rich.text import Text

    from reviser.writing.changes import Changes

Progress = Callable[[str, int, int], None]
"""Called with the name of a stage, how much of it is done, and its total."""
LINE_INTERVAL = 30.0
"""Seconds between two lines about the progress of a stage where there is no bar."""


def quiet_libraries(*models: str) -> None:
    """Hide the progress bars of local models, and all of vLLM's log but its errors.

    The bar of a download stays: it is the only sign of life for minutes.
    """
    if all(exists(Path(model)) for model in models):
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")


@contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Turn a missing module into an error that names the extra with it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"This command needs the {name} extra: {error.name} is not installed. Install it with:"
            f" pip install 'reviser-lm[{name}]'."
        ) from error


@contextmanager
def progress_bars(
    *, lines: bool = True, unit: str = ""
) -> Iterator[tuple[Callable[[str], None], Progress]]:
    """Yield two functions: one prints a message, the other updates the bar of a stage.

    With a `unit`, such as "words", the bars also show how many of them are done.

    Both write to standard error. Bars are only drawn in a terminal; elsewhere each stage prints a
    line at its beginning, at its end and from time to time, unless `lines` is False.
    """
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TaskID, TextColumn

    console = Console(stderr=True, highlight=False)
    columns = Progress.get_default_columns()
    if unit:
        columns = (*columns, MofNCompleteColumn(), TextColumn(unit))
    # What is printed in the same terminal goes above the bars.
    bars = Progress(*columns, console=console, disable=not console.is_terminal,
                    redirect_stdout=sys.stdout.isatty(), transient=bool(unit))  # fmt: skip
    tasks: dict[str, TaskID] = {}
    printed: dict[str, float] = {}

    def log(message: str) -> None:
        console.print(message, markup=False, soft_wrap=True)

    def update(stage: str, done: int, total: int) -> None:
        if not console.is_terminal:
            now = time.monotonic()
            is_due = now - printed.get(stage, -LINE_INTERVAL) >= LINE_INTERVAL
            if lines and (is_due or done >= total):
                printed[stage] = now
                log(f"{stage}: {done:,} of {total:,}")
            return
        if stage not in tasks:
            bars.start()  # not earlier: training draws its own bar
            tasks[stage] = bars.add_task(stage)
        bars.update(tasks[stage], completed=done, total=total)

    try:
        yield log, update
    finally:
        bars.stop()


@contextmanager
def announce_if_slow(message: str) -> Iterator[None]:
    """Print a message to a terminal's standard error if the block takes longer than a second."""
    timer = threading.Timer(1, click.echo, [message], {"err": True})
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a long command as Ctrl-C does."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` in the block at the first SIGTERM; a second one kills the process.

    This is not done in one of several processes of a training run: it could wait forever for
    processes that have ended, where an ordinary SIGTERM ends it at once.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or int(os.environ.get("WORLD_SIZE") or 1) > 1:
        yield
        return

    def terminate(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def exit_interrupted(error: KeyboardInterrupt, message: str) -> NoReturn:
    """Print what was interrupted and exit with the status of Ctrl-C, or of SIGTERM."""
    word, status = ("Terminated", 143) if isinstance(error, Terminated) else ("Interrupted", 130)
    click.echo(f"{word}. {message}", err=True)
    raise SystemExit(status) from None


def stop_message(reasons: Sequence[str], max_actions: int) -> str:
    """Return why texts ended before the model was done, and what to do; empty if none did."""
    causes = {
        "max_actions": f"reached the limit of {plural(max_actions, 'action')}; raise"
        " --max-actions.",
        "context": "reached the end of the model's context.",
    }
    sentences = []
    for reason, cause in causes.items():
        count = reasons.count(reason)
        if count and len(reasons) == 1:
            sentences.append(cause[0].upper() + cause[1:])
        elif count:
            sentences.append(f"{count:,} of {plural(len(reasons), 'window')} {cause}")
    return " ".join(sentences)


def read_stdin() -> str:
    """Return the text of standard input without its last line end."""
    try:
        return sys.stdin.read().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataError("Standard input is not UTF-8 text. Convert it to UTF-8.") from error


def print_text(text: str, changes: Changes | None = None) -> None:
    """Print a text unchanged to a pipe, and safely to a terminal, with its changes in colour."""
    from rich.console import Console
    from rich.text import Text

    from reviser.player.terminal import printable

    console = Console(highlight=False)
    if not console.is_terminal:
        sys.stdout.buffer.write(text.encode())
        return
    styled = Text(printable(text.removesuffix("\n")))
    if changes is not None and not console.is_dumb_terminal and not console.no_color:
        styled, offset = Text(), 0
        for change in changes:
            styled.append(printable(changes.draft[offset : change.start]))
            styled.append(printable(change.before), "red strike")
            styled.append(printable(change.after), "green")
            offset = change.end
        styled.append(printable(changes.draft[offset:].removesuffix("\n")))
    console.print(styled, soft_wrap=True)


def print_styled(text: Text) -> None:
    """Print a line in its colours to a terminal, and without them to a pipe."""
    from rich.console import Console

    console = Console(highlight=False)
    if console.is_terminal:
        # A console writes to the terminal itself, into a progress bar that is drawn there.
        # `sys.stdout` knows of the bar, and puts the line above it.
        with console.capture() as captured:
            console.print(text, soft_wrap=True)
        sys.stdout.write(captured.get())
    else:
        sys.stdout.buffer.write(f"{text.plain}\n".encode())


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, width: int, no_wrap: bool = False
) -> None:
    """Print a table as wide as the terminal, or `width` columns wide to a pipe."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in header:
        table.add_column(heading, no_wrap=no_wrap)
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else width).print(table)


def print_skipped(skipped: Mapping[str, int], damaged: Sequence[str] = ()) -> None:
    """Print how much input was left out for which reason, and which files are damaged."""
    for reason, count in skipped.items():
        click.echo(f"left out, {reason}: {count:,}")
    for name in damaged:
        click.echo(f"damaged, read up to the damage: {name}")
