"""The mcp command: an MCP server on standard input and output."""

from __future__ import annotations

import asyncio
import logging
import sys
from functools import partial

import click

from reviser.cli.options import open_quietly
from reviser.cli.output import needs_extra


@click.command()
@click.option("-m", "--model", required=True, metavar="MODEL", help="Model folder or hub name.")
def mcp(model: str) -> None:
    """Start an MCP server for an agent.

    For example: reviser mcp -m MODEL

    The server speaks the Model Context Protocol on standard input and output. Its tools proofread,
    infill and revise_selection return edits with positions, never whole documents, and hashes that
    prove that the rest of the text is unchanged.
    """
    with needs_extra("agents"):
        from reviser.agents.server import serve

    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)  # standard output is the protocol's
    asyncio.run(serve(partial(open_quietly, model)))
