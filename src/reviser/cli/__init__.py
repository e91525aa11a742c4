"""The `reviser` command: results on standard output, one-line errors, a traceback with --debug.

One module per group of commands. Each imports what it runs inside its commands, so `--help` is fast
and an extra that is not installed is missed only by the command that needs it.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

import click

from reviser.cli import (
    data,
    edit,
    export,
    lab,
    lsp,
    mcp,
    models,
    proofread,
    replay,
    revise,
    serve,
    train,
    write,
)
from reviser.errors import ReviserError

SECTIONS = {
    "Write and revise text": (
        proofread.proofread,
        edit.edit,
        write.generate,
        write.infill,
        revise.revise,
        lsp.lsp,
        mcp.mcp,
        serve.serve,
        replay.replay,
    ),
    "Train models": (train.train, data.tokenizer, data.tokenize, data.data),
    "Measure models": (lab.lab,),
    "Manage model folders": (
        models.info,
        models.convert,
        export.export,
    ),
}
"""All commands, by what they are for."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says about a disk without space left, for anyone or for this user."""


class _Group(click.Group):
    """A group of commands that prints the package's own errors, and a full disk, as one line."""

    def main(self, *args: Any, **more: Any) -> Any:
        try:
            try:
                return super().main(*args, **more)
            finally:
                if not sys.stdout.closed:  # as the language server's library leaves it
                    sys.stdout.flush()  # here, where a full disk can be reported
        except OSError as error:
            if error.errno not in _FULL:
                raise
            _discard_stdout()
            _print_error(f"Cannot write the output: {error.strerror}.")
            sys.exit(1)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, in sections."""
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(str(each.name), each.get_short_help_str(70)) for each in commands]
                )

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ReviserError as error:
            if ctx.params.get("debug"):
                raise
            _print_error(str(error))
            ctx.exit(
                2 if ctx.invoked_subcommand in ("proofread", "edit") else 1
            )  # 1 is for changes


def _print_error(sentence: str) -> None:
    if os.environ.get("RANK", "0") == "0":  # of several processes only the first prints
        from reviser.player.terminal import printable

        click.echo(printable(f"error: {sentence}"), err=True)


def _discard_stdout() -> None:
    """Drop what could not be written, which Python would try, and report, again at its end."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, sys.stdout.fileno())
    os.close(descriptor)


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="reviser-lm")
@click.option("--debug", is_flag=True, help="Show the traceback if there is an error.")
def main(debug: bool) -> None:
    """Language models that write by editing.

    Try it: reviser generate "Ben had a" -m models/stories-revise
    """


for commands in SECTIONS.values():
    for command in commands:
        main.add_command(command)


def run() -> None:
    """Run the command; what the script `reviser` does."""
    # Without it, the processes that multiprocessing starts would look for their modules in the
    # working folder first, and so run a `random.py` that lies there.
    os.environ["PYTHONSAFEPATH"] = "1"
    main()
