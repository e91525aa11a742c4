"""Write cli.md from the commands: their options, defaults and help.

python docs/cli_reference.py > docs/reference/cli.md
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

import click

from reviser.cli import main

INTRODUCTION = """\
# Commands

Results go to standard output, messages to standard error. An error is one line, `error: ...`, with [exit status](errors.md#exit-status-of-the-command) 1. `reviser --debug COMMAND` also shows its traceback, and `reviser COMMAND -h` prints the help below.
"""


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[Any, Any]]:
    """Yield every command with its context, a group before its commands."""
    yield command, context
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, click.Context(child, info_name=name, parent=context))


def span(kind: Any) -> str:
    """Return the range of an option in words."""
    low = f"Above {kind.min:,}, up" if kind.min_open else f"{kind.min:,}"
    high = "2^64 - 1" if kind.max == 2**64 - 1 else kind.max
    return f"{low} or more" if high is None else f"{low} to {high}"


def option(parameter: click.Option, context: click.Context) -> str:
    """Return the table row of an option."""
    names = ", ".join(f"`{name}`" for name in parameter.opts + parameter.secondary_opts)
    kind, more = parameter.type, parameter.get_help_extra(context)
    if parameter.metavar:
        names = names[:-1] + f" {parameter.metavar}`"
    default = "required" if parameter.required else more.get("default", "")
    text = [(parameter.help or "").strip()]
    if isinstance(kind, click.Choice):
        *first, last = [f"`{choice}`" for choice in kind.choices]
        text.append(f"{', '.join(first)} or {last}.")
    elif "range" in more:
        text.append(f"{span(kind)}.")
    return f"| {names} | {default} | {' '.join(text).strip()} |"


def section(command: click.Command, context: click.Context, shown: dict[str, str]) -> str:
    """Return the section of one command.

    `shown` has the rows of earlier commands, each with its command. Options that a command shares
    with an earlier one are only named.
    """
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    options = [
        parameter
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option)
        and not parameter.hidden
        and "--help" not in parameter.opts
    ]
    parts = [f"## {context.command_path}", f"```text\n{usage}\n```"]
    parts.append(inspect.cleandoc(command.help or ""))
    if options:
        rows = [option(parameter, context) for parameter in options]
        others = list(dict.fromkeys(shown[row] for row in rows if row in shown))
        new = [row for row in rows if row not in shown]
        if new:
            parts.append("\n".join(["| option | default | meaning |", "|---|---|---|", *new]))
        for other in others:
            names = [row.split(" | ")[0].strip("| ") for row in rows if shown.get(row) == other]
            link = f"[`{other}`](#{other.replace(' ', '-')})"
            parts.append(f"As for {link}: {', '.join(names)}.")
        shown |= dict.fromkeys(new, context.command_path)
    return "\n\n".join(parts)


def reference() -> str:
    """Return the page."""
    root = click.Context(main, info_name="reviser")
    shown: dict[str, str] = {}
    sections = [section(command, context, shown) for command, context in commands(main, root)]
    return "\n\n".join([INTRODUCTION.strip("\n"), *sections]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
