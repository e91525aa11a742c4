"""The lsp command: a language server on standard input and output."""

from __future__ import annotations

import logging
import sys

import click

from reviser.cli.options import open_quietly
from reviser.cli.output import needs_extra


@click.command()
@click.option("-m", "--model", metavar="MODEL",
              help="Model folder or hub name. By default, the project's settings name"
                   " it.")  # fmt: skip
@click.option("--stdio", is_flag=True, hidden=True)
def lsp(model: str | None, stdio: bool) -> None:  # noqa: ARG001 - for editors
    """Start a language server for an editor.

    For example: reviser lsp -m MODEL

    The server speaks the Language Server Protocol on standard input and output. It shows
    suggestions as diagnostics with quick fixes, and has commands that fill gaps and continue text.
    Settings are in [tool.reviser] of pyproject.toml, or in .reviser.toml.
    """
    with needs_extra("editor"):
        from reviser.lsp.server import make_server

    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)  # standard output is the protocol's
    make_server(open_quietly, model).start_io()
