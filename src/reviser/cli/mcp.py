"""The mcp command: an MCP server on standard input and output."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reviser.cli.options import JudgeChoice, judge_options, open_quietly
from reviser.cli.output import needs_extra

if TYPE_CHECKING:
    from reviser.model import Reviser


@click.command()
@click.option("-m", "--model", metavar="MODEL",
              help="Model that writes edits: a folder or a hub name. By default, the tools"
                   " proofread.")  # fmt: skip
@judge_options
def mcp(model: str | None, choice: JudgeChoice) -> None:
    """Start an MCP server for an agent.

    For example: reviser mcp

    The server speaks the Model Context Protocol on standard input and output. Its tools proofread
    and revise_selection return edits with positions, never whole documents, and hashes that prove
    that the rest of the text is unchanged. With a MODEL that writes edits, there is a tool infill,
    too. Settings are in [tool.reviser] of pyproject.toml, or in .reviser.toml.
    """
    with needs_extra("agents"):
        from reviser.agents.server import serve

    def load() -> Reviser:
        from reviser.proofread.settings import settings_for
        from reviser.proofreading import with_settings

        if model is not None:
            return open_quietly(model)
        settings = settings_for(Path("text"))  # of the folder where the agent started this
        opened = choice.open(settings.judge, lambda warning: click.echo(warning, err=True))
        return with_settings(opened, settings)

    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)  # standard output is the protocol's
    asyncio.run(serve(load, writes=model is not None))
