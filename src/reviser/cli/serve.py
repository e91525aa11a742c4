"""The serve command."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reviser.cli.options import (
    Decorator,
    JudgeChoice,
    ModelChoice,
    collected,
    judge_without_url,
    model_argument,
    model_choice,
    with_options,
)
from reviser.cli.output import announce_if_slow, needs_extra, quiet_libraries
from reviser.models.hub import CONFIG_FILES, find, refuse_missing_folder

if TYPE_CHECKING:
    from reviser.model import Reviser

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
@judge_without_url
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Address to listen on; 0.0.0.0 for all networks.")  # fmt: skip
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535),
              help="Port to listen on; 0 for any free one.")  # fmt: skip
@click.option("--name", help="Name that clients use for the model; by default, that of its"
                             " folder, or proofreader.")  # fmt: skip
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
              help="Serve a page at / to use it in a browser.")  # fmt: skip
@_limit_options()
def serve(
    choice: ModelChoice, judge: str | None, backend: str, no_judge: bool, host: str, port: int,
    name: str | None, api_key_file: Path | None, origins: tuple[str, ...],
    names: tuple[str, ...], playground: bool, limits: Any,
) -> None:  # fmt: skip
    """Serve the proofreader or a model over HTTP, with a page to use it.

    For example: reviser serve

    Without MODEL, it is the proofreader: --judge, --backend and --no-judge choose what judges its
    suggestions, and settings are in [tool.reviser] of pyproject.toml, or in .reviser.toml. MODEL is
    a folder or a hub name of a model that writes edits. Its clients can ask for whole texts, for
    streams of edits, or use OpenAI's completions API.

    On SIGTERM the server finishes the requests it has accepted, then exits. Its log goes to
    standard error, as text in a terminal and as JSON lines elsewhere, and never contains user text.
    """
    reader = JudgeChoice(judge=judge, backend=backend, url=choice.url, no_judge=no_judge)
    _check(choice, reader)
    with needs_extra("serve"):
        from reviser.player.playground import PROOFREADER, read_page_text
        from reviser.serve.app import make_app
        from reviser.serve.logs import write_log
        from reviser.serve.middleware import allowed_hosts, read_keys
        from reviser.serve.run import listen, run
    hosts = allowed_hosts(host, names)
    keys = read_keys(api_key_file, os.environ.get("REVISER_API_KEYS"))
    socket = listen(host, port)
    write_log(for_people=sys.stderr.isatty())
    if not keys and host not in LOCAL:
        logging.getLogger("reviser.serve").warning("open to everyone on the network: no API keys")
    model = choice.model
    public_name = name or (Path(model).name or model if model else "proofreader")
    if model:
        quiet_libraries(model)
    page_text = read_page_text(find(model, CONFIG_FILES)) if model else PROOFREADER
    opened = choice.load(own_process=choice.engine == "hf") if model else _proofreader(reader)
    with opened as reviser:
        app = make_app(reviser, limits, name=public_name, keys=keys, origins=origins, hosts=hosts,
                       playground=playground, page_text=page_text)  # fmt: skip
        status = run(app, socket)
    sys.exit(status)


def _check(choice: ModelChoice, reader: JudgeChoice) -> None:
    """Refuse options that have no effect on what is served, and a folder that is missing."""
    if not choice.model:
        if choice.engine != "hf" or choice.engine_options:
            raise click.UsageError(
                "--engine and --engine-option are for a MODEL. Give one, or choose what runs the"
                " proofreader's judge with --backend."
            )
        return
    if reader.judge or reader.no_judge or reader.backend != "auto":
        raise click.UsageError(
            "--judge, --backend and --no-judge are for the proofreader, which is served without a"
            " MODEL. Leave them out, or leave out MODEL."
        )
    refuse_missing_folder(choice.model)  # before the slow imports


def _proofreader(reader: JudgeChoice) -> Reviser:
    """Open the proofreader, with the settings of the folder in which the command runs."""
    from reviser.proofread.settings import settings_for
    from reviser.proofreading import with_settings

    settings = settings_for(Path("text"))
    warn = logging.getLogger("reviser.serve").warning
    with announce_if_slow("Loading the judge ..."):
        opened = reader.open(settings.judge, warn, own_process=reader.backend != "vllm")
    return with_settings(opened, settings)
