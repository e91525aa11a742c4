"""The lsp command: a language server on standard input and output."""

from __future__ import annotations

import logging
import sys

import click

from reviser.cli.options import JudgeChoice, judge_options
from reviser.cli.output import needs_extra


@click.command()
@judge_options
@click.option("--stdio", is_flag=True, hidden=True)
def lsp(choice: JudgeChoice, stdio: bool) -> None:  # noqa: ARG001 - for editors
    """Start a language server that proofreads in an editor.

    For example: reviser lsp

    The server speaks the Language Server Protocol on standard input and output. It shows
    suggestions as diagnostics with their reasons, and has quick fixes. Settings are in
    [tool.reviser] of pyproject.toml, or in .reviser.toml.
    """
    with needs_extra("editor"):
        from reviser.lsp.server import make_server

    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)  # standard output is the protocol's
    make_server(choice.open).start_io()
