"""The `reviser` command: results to standard output, one-line errors, a traceback on --debug."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reviser.errors import ReviserError

if TYPE_CHECKING:
    from reviser.core.order_tax import Interval


class _Group(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ReviserError as error:
            if ctx.params.get("debug"):
                raise
            click.echo(f"error: {error}", err=True)
            ctx.exit(1)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="reviser-lm")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(debug: bool) -> None:
    """Language models that write by editing."""


@main.command()
@click.option("--length", default=145, show_default=True, type=click.IntRange(1),
              help="Target length in tokens.")  # fmt: skip
@click.option("--samples", default=2000, show_default=True, type=click.IntRange(2),
              help="Trajectories per policy.")  # fmt: skip
@click.option("--max-move", default=512, show_default=True, help="Largest move, a power of two.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**64 - 1),
              help="Of the sampled trajectories.")  # fmt: skip
@click.option("--text", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Measure on this text instead of on targets without words.")  # fmt: skip
@click.option("--tokenizer", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder with the tokenizer.json to read --text with.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per policy.")
def policies(
    length: int,
    samples: int,
    max_move: int,
    seed: int,
    text: Path | None,
    tokenizer: Path | None,
    as_json: bool,
) -> None:
    """Compare trajectory policies by what they cost.

    The order tax is the entropy, in bits per token, of the order a text is written in: what no
    model can learn away. +- is a 95 % interval; a value without one is exact; <= marks an upper
    bound. Without --text, every token counts as a word. The very first run compiles, so it pauses.
    """
    from reviser.core.order_tax import policy_cost, rich_enough, synthetic_targets
    from reviser.core.policy import PRESETS

    if (text is None) != (tokenizer is None):
        raise click.UsageError("--text and --tokenizer go together.")
    units = None
    if text is not None and tokenizer is not None:
        targets, units, tokens = _targets_from(text, tokenizer, length, samples)
    else:
        targets, tokens = synthetic_targets(length, samples), length
    rows = []
    for name, policy in PRESETS.items():
        vocab = rich_enough(policy, tokens, max_move)
        cost = policy_cost(policy, targets, vocab=vocab, units=units, seed=seed)
        rows.append((name, cost))
        if as_json:
            setting = {"length": length, "samples": samples, "max_move": max_move, "seed": seed}
            click.echo(json.dumps({"policy": name, **setting, **asdict(cost)}))
    if not as_json:
        _print_costs(rows, len(targets), length)


def _targets_from(text: Path, tokenizer: Path, length: int, samples: int) -> tuple[Any, Any, int]:
    """Windows of a text, evenly spaced and repeated if it is short, with their unit marks."""
    from reviser.core.codec import Codec

    codec = Codec.load(tokenizer)
    try:
        tokens = codec.encode(text.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{text} is not UTF-8: {error}.") from error
    if len(tokens) < length:
        raise click.UsageError(f"{text} has {len(tokens)} tokens; --length asks for {length}.")
    marks = codec.unit_starts(tokens)
    starts = [i * (len(tokens) - length) // max(1, samples - 1) for i in range(samples)]
    windows = [tokens[start : start + length] for start in starts]
    return windows, [marks[start : start + length] for start in starts], len(codec.token_bytes)


def _print_costs(rows: list[tuple[str, Any]], samples: int, length: int) -> None:
    from rich.console import Console
    from rich.table import Table

    click.echo(f"{samples} trajectories per policy, {length} token(s) each")
    table = Table(box=None, pad_edge=False)
    for heading in ("policy", "actions per token", "moves, %", "order tax, bits"):
        table.add_column(heading, no_wrap=True)
    for name, cost in rows:
        moves = _shown(cost.move_fraction, scale=100, digits=1)
        table.add_row(name, _shown(cost.actions_per_token), moves, _shown(cost.order_tax))
    width = None if sys.stdout.isatty() else 80
    Console(width=width).print(table)


def _shown(interval: Interval, scale: float = 1.0, digits: int = 3) -> str:
    value = f"{scale * interval.value:.{digits}f}"
    if interval.kind == "exact":
        return value
    if interval.kind == "at most":
        return f"<= {value}"
    return f"{value} +- {scale * (interval.high - interval.low) / 2:.{digits}f}"
