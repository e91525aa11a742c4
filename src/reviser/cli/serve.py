"""The serve command."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import click

from reviser.cli.options import (
    Decorator,
    ModelChoice,
    collected,
    model_argument,
    model_choice,
    with_options,
)
from reviser.cli.output import needs_extra, quiet_libraries
from reviser.models.hub import CONFIG_FILES, find, refuse_missing_folder

LOCAL = ("127.0.0.1", "::1", "localhost")


def _range(limit: Field[Any]) -> click.ParamType[Any]:
    low = limit.metadata["low"]
    return click.IntRange(low) if isinstance(limit.default, int) else click.FloatRange(low)


def _limit_options() -> Decorator:
    """Return an option for each limit; the command gets them as one `Limits`."""
    from reviser.serve.limits import Limits

    options = [
        click.option(
            f"--{each.name.replace('_', '-')}",
            default=each.default,
            show_default=True,
            type=_range(each),
            help=each.metadata["help"],
        )
        for each in fields(Limits)
    ]
    return with_options(
        *options, collected("limits", [each.name for each in fields(Limits)], Limits)
    )


@click.command()
@model_choice(model_argument)
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Address to listen on; 0.0.0.0 for all networks.")  # fmt: skip
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535),
              help="Port to listen on; 0 for any free one.")  # fmt: skip
@click.option("--name", help="Name that clients use for the model; by default, that of its folder.")
@click.option("--api-key-file", metavar="FILE", type=click.Path(path_type=Path),
              help="File of accepted API keys, one per line; or set REVISER_API_KEYS, with commas"
                   " between keys.")  # fmt: skip
@click.option("--allow-origin", "origins", multiple=True, metavar="URL",
              help="Origin of web pages that may send requests, such as https://example.org; may be"
                   " repeated.")  # fmt: skip
@click.option("--allow-host", "names", multiple=True, metavar="NAME",
              help="Name under which clients reach the server, such as example.org; may be"
                   " repeated. Local names and --host are always allowed; on all networks, any name"
                   " is, unless this is given.")  # fmt: skip
@click.option("--playground/--no-playground", default=True, show_default=True,
              help="Serve a page at / to try the model.")  # fmt: skip
@_limit_options()
def serve(
    choice: ModelChoice, host: str, port: int, name: str | None, api_key_file: Path | None,
    origins: tuple[str, ...], names: tuple[str, ...], playground: bool, limits: Any,
) -> None:  # fmt: skip
    """Serve a model over HTTP, with a page to try it.

    For example: reviser serve models/stories-revise

    MODEL is a folder or a hub name. Clients can ask for whole texts, for streams of edits, or use
    OpenAI's completions API. On SIGTERM the server finishes the requests it has accepted, then
    exits. Its log goes to standard error, as text in a terminal and as JSON lines elsewhere, and
    never contains user text.
    """
    refuse_missing_folder(choice.model)  # before the slow imports
    with needs_extra("serve"):
        from reviser.player.playground import read_page_text
        from reviser.serve.app import make_app
        from reviser.serve.logs import write_log
        from reviser.serve.middleware import allowed_hosts, read_keys
        from reviser.serve.run import listen, run
    hosts = allowed_hosts(host, names)
    keys = read_keys(api_key_file, os.environ.get("REVISER_API_KEYS"))
    socket = listen(host, port)
    quiet_libraries(choice.model)
    write_log(for_people=sys.stderr.isatty())
    if not keys and host not in LOCAL:
        logging.getLogger("reviser.serve").warning("open to everyone on the network: no API keys")
    public_name = name or Path(choice.model).name or choice.model
    page_text = read_page_text(find(choice.model, CONFIG_FILES))
    with choice.load(own_process=choice.engine == "hf") as reviser:
        app = make_app(reviser, limits, name=public_name, keys=keys, origins=origins, hosts=hosts,
                       playground=playground, page_text=page_text)  # fmt: skip
        status = run(app, socket)
    sys.exit(status)
