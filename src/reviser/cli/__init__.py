"""The `reviser` command: results to standard output, one-line errors, a traceback on --debug."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from reviser.data.readers import Reader, Split
from reviser.engines.base import DecodeConfig
from reviser.errors import ConfigError, DataError, EngineError, MissingExtra, ReviserError
from reviser.evals.texts import Protocol
from reviser.files import write_json, write_whole
from reviser.writing.tasks import CONTEXT, WINDOW

if TYPE_CHECKING:
    from reviser.data.pairs import Pair
    from reviser.data.readers import Tally
    from reviser.trajectories.order_tax import Interval
    from reviser.writing.changes import Changes
    from reviser.writing.model import Revision

_MARK_OF_UTF8 = "\ufeff"
"""With which some files begin."""


class _Group(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ReviserError as error:
            if ctx.params.get("debug"):
                raise
            if os.environ.get("RANK", "0") == "0":  # one of several processes speaks for all
                from reviser.player.terminal import printable

                click.echo(printable(f"error: {error}"), err=True)
            ctx.exit(1)


def _reading_options(command: Any) -> Any:
    """The options of every command that reads text for training."""
    split = click.option("--split", default="blank", show_default=True,
                         type=click.Choice(get_args(Split)),
                         help="What parts the documents of a text file: blank lines, every line"
                              " end, or nothing.")  # fmt: skip
    text_key = click.option("--text-key", default="text", show_default=True,
                            help="Field of JSON lines or column of parquet to read.")  # fmt: skip
    return split(text_key(command))


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
@click.option("--marks", is_flag=True, help="With marks where late spans are left out.")
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
    marks: bool,
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
    from reviser.trajectories.order_tax import policy_cost, rich_enough, synthetic_targets
    from reviser.trajectories.policy import PRESETS

    if (text is None) != (tokenizer is None):
        raise click.UsageError("--text and --tokenizer go together.")
    units = None
    if text is not None and tokenizer is not None:
        targets, units, tokens = _targets_from(text, tokenizer, length, samples)
    else:
        targets, tokens = synthetic_targets(length, samples), length
    rows = []
    for name, policy in PRESETS.items():
        vocab = rich_enough(policy, tokens, max_move, marks=marks)
        cost = policy_cost(policy, targets, vocab=vocab, units=units, seed=seed)
        rows.append((name, cost))
        if as_json:
            setting = {"length": length, "samples": samples, "seed": seed}
            setting |= {"max_move": max_move, "marks": marks}
            click.echo(json.dumps({"policy": name, **setting, **asdict(cost)}))
    if not as_json:
        _print_costs(rows, len(targets), length)


@main.command()
@click.argument("checkpoint", type=click.Path(path_type=Path), metavar="FILE.pt")
@click.option("-o", "--output", required=True, metavar="FOLDER",
              type=click.Path(file_okay=False, path_type=Path),
              help="Model folder to write.")  # fmt: skip
@click.option("--tokenizer", required=True, metavar="FOLDER", type=click.Path(path_type=Path),
              help="Folder with GPT-2's tokenizer.json.")  # fmt: skip
@click.option("--heads", type=click.IntRange(1), help="Attention heads; width / 64 if not given.")
@click.option("--context", type=click.IntRange(1),
              help="Most ids in a history; what the 300M was trained on if not given.")  # fmt: skip
def convert(
    checkpoint: Path, output: Path, tokenizer: Path, heads: int | None, context: int | None
) -> None:
    """Turn a checkpoint released with the paper into a model folder.

    The folder is an ordinary Hugging Face one, with safetensors, and opens in every engine. The
    file is read as tensors only: code inside it is refused, never run.
    """
    with _extra("hf"):
        from reviser.models import checkpoints
    sizes = checkpoints.convert(
        checkpoint, output, tokenizer=tokenizer, heads=heads, context=context
    )
    click.echo(
        f"{output}: {sizes.layers} layers, width {sizes.width}, {sizes.heads} heads, MLP width"
        f" {sizes.mlp_width}, context {sizes.context}"
    )


@main.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("-o", "--output", required=True, metavar="FOLDER",
              type=click.Path(file_okay=False, path_type=Path),
              help="Folder of shards to write, or to continue.")  # fmt: skip
@click.option("--tokenizer", required=True, metavar="FOLDER", type=click.Path(path_type=Path),
              help="Folder with the tokenizer.json to use.")  # fmt: skip
@_reading_options
@click.option("--max-document-bytes", default=Reader.max_document_bytes, show_default=True,
              type=click.IntRange(1), help="Leave out longer documents.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1), help="Processes; one per core if not given.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest.")
def tokenize(sources: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Turn text into shards of tokens to train on.

    A SOURCE is a file of JSON lines, parquet or plain text (also .gz, .xz, .zst), a folder of
    these, a quoted pattern, or hf:NAME. What cannot be used is left out and counted. The same
    command again continues where it stopped.
    """
    from reviser.data import shards

    output, folder = options.pop("output"), options.pop("tokenizer")
    manifest = shards.tokenize(sources, output, folder, progress=True, **options)
    if as_json:
        click.echo(json.dumps(manifest.to_dict()))
        return
    click.echo(
        f"{output}: {manifest.documents:,} documents, {manifest.tokens:,} tokens in"
        f" {len(manifest.shards)} shard(s)"
    )
    for reason, count in manifest.skipped.items():
        click.echo(f"left out, {reason}: {count:,}")
    for name in manifest.damaged:
        click.echo(f"damaged, read as far as it went: {name}")


@main.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("-o", "--output", required=True, metavar="FOLDER",
              type=click.Path(file_okay=False, path_type=Path),
              help="Folder to write tokenizer.json in.")  # fmt: skip
@click.option("--size", default=4096, show_default=True, type=click.IntRange(256),
              help="Tokens, at most.")  # fmt: skip
@_reading_options
def tokenizer(sources: tuple[str, ...], output: Path, size: int, split: Any, text_key: str) -> None:
    """Train a byte-level BPE tokenizer on text.

    SOURCES are those of `reviser tokenize`.
    """
    from reviser.data.tokenizer import train_bpe

    trained = train_bpe(sources, size, split=split, text_key=text_key)
    write_whole(output / "tokenizer.json", trained.to_str(pretty=True))
    click.echo(f"{output}: {trained.get_vocab_size()} tokens")


@main.group()
def data() -> None:
    """Make pairs of texts, before and after an edit, to learn editing from."""


def _pairs_options(command: Any) -> Any:
    """The options of every command that makes pairs."""
    output = click.option("-o", "--output", required=True, metavar="PAIRS.jsonl",
                          type=click.Path(dir_okay=False, path_type=Path),
                          help="New file to write, one pair a line; also .gz, .xz"
                               " or .zst.")  # fmt: skip
    unchanged = click.option("--unchanged", default=0.3, show_default=True,
                             type=click.FloatRange(0, 0.5),
                             help="Share of pairs that need no change.")  # fmt: skip
    seed = click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**64 - 1),
                        help="Of the random numbers.")  # fmt: skip
    return output(unchanged(seed(command)))


@data.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@_pairs_options
@click.option("--rate", default=5.0, show_default=True,
              type=click.FloatRange(0, 100, min_open=True),
              help="Mistakes in 100 words, on average.")  # fmt: skip
@_reading_options
def corrupt(
    sources: tuple[str, ...], output: Path, unchanged: float, seed: int, rate: float, split: Any,
    text_key: str,
) -> None:  # fmt: skip
    """Put mistakes into clean English text.

    SOURCES are those of `reviser tokenize`. Typos, words dropped, doubled, swapped or confused,
    agreement, capitals, punctuation and spaces.
    """
    from reviser.data.corrupt import Corruption, corrupted
    from reviser.data.readers import Tally

    tally, reader = Tally(), Reader(split=split, text_key=text_key)
    corruption = Corruption(rate=rate, unchanged=unchanged)
    _write_pairs(output, corrupted(reader.read(sources, tally), corruption, seed), tally)


@data.command("from-git")
@click.argument("repo", metavar="REPO", type=click.Path(path_type=Path))
@_pairs_options
@click.option("--suffix", "suffixes", multiple=True, metavar=".SUFFIX",
              help="Of the files to read, as .md; may be repeated. Those of prose and code if not"
                   " given.")  # fmt: skip
@click.option("--unit", default="part", show_default=True, type=click.Choice(["part", "file"]),
              help="A paragraph of prose or a hunk of code, or all of a file.")  # fmt: skip
@click.option("--max-chars", default=4000, show_default=True, type=click.IntRange(1),
              help="Leave out longer texts.")  # fmt: skip
@click.option("--min-similarity", default=0.5, show_default=True, type=click.FloatRange(0, 1),
              help="Leave out pairs that have a smaller share of words in common.")  # fmt: skip
@click.option("--subjects", is_flag=True, help="Take the commits' subjects as instructions.")
def from_git(
    repo: Path, output: Path, unchanged: float, seed: int, suffixes: tuple[str, ...], **how: Any
) -> None:
    """Take what people changed in a git repository, before and after.

    REPO is the folder that holds .git, or a bare repository; the commits that led to HEAD are
    read, without merges. Reverts, repetitions, white space, generated files and paragraphs that
    only came or went are left out and counted.
    """
    from reviser.data.git import from_git
    from reviser.data.pairs import with_unchanged
    from reviser.data.readers import Tally

    tally = Tally()
    if suffixes:
        how["suffixes"] = suffixes
    found = from_git(repo, tally=tally, **how)
    _write_pairs(output, with_unchanged(found, unchanged, seed), tally)


def _write_pairs(output: Path, pairs: Iterable[Pair], tally: Tally) -> None:
    """Write a file of pairs, and say how many there are and what was left out."""
    from reviser.data.pairs import write_pairs

    unchanged = 0

    def counted() -> Iterator[Pair]:
        nonlocal unchanged
        for pair in pairs:
            unchanged += pair.is_unchanged
            yield pair

    count = write_pairs(output, counted())
    click.echo(f"{output}: {count:,} pairs, {unchanged / max(1, count):.1%} of them unchanged")
    for reason, left_out in tally.skipped.items():
        click.echo(f"left out, {reason}: {left_out:,}")
    for name in tally.damaged:
        click.echo(f"damaged, read as far as it went: {name}")


@main.command()
@click.argument("recipe", type=click.Path(path_type=Path), metavar="RECIPE.yaml")
@click.option("-o", "--output", required=True, metavar="FOLDER",
              type=click.Path(file_okay=False, path_type=Path),
              help="Model folder to write, or to continue.")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE",
              help="Replace a value of the recipe, in YAML, as training.steps=100; may be"
                   " repeated. Paths are relative to the recipe's folder.")  # fmt: skip
def train(recipe: Path, output: Path, changes: tuple[str, ...]) -> None:
    """Train a model by a recipe.

    FOLDER becomes an ordinary model folder, with log.jsonl, samples.jsonl, run.json and the
    checkpoints beside the weights. The same command again continues from the last checkpoint.
    For several processes run it under torchrun or accelerate launch:

        torchrun --nproc-per-node 8 -m reviser train RECIPE.yaml -o FOLDER
    """
    with _extra("train"):
        from reviser.train.recipe import load_recipe
        from reviser.train.run import train
    try:
        folder = train(load_recipe(recipe, changes), output)
    except KeyboardInterrupt:
        click.echo("interrupted; the same command goes on from the last checkpoint", err=True)
        raise SystemExit(130) from None
    if os.environ.get("RANK", "0") == "0":
        click.echo(folder)


@main.command()
@click.argument("model", metavar="MODEL")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def info(model: str, as_json: bool) -> None:
    """Tell what a model is.

    MODEL is a folder or a hub name.
    """
    from reviser.models.hub import find
    from reviser.models.info import describe, summary
    from reviser.player.terminal import printable

    facts = describe(find(model))
    if as_json:
        click.echo(json.dumps(facts))
        return
    for name, line in summary(facts):
        click.echo(printable(f"{name:<10} {line}"))


def _decoding_options(command: Any, **defaults: Any) -> Any:
    """The options of every command that writes or revises with a model."""
    number, count = click.FLOAT, click.IntRange(0)

    def setting(name: str, kind: Any, meaning: str) -> Any:
        default = defaults.get(name, getattr(DecodeConfig, name))
        flag = f"--{name.replace('_', '-')}"
        return click.option(flag, default=default, show_default=True, type=kind, help=meaning)

    options = [
        click.option("-m", "--model", required=True, metavar="MODEL",
                     help="Model folder or hub name."),
        click.option("--engine", default="hf", show_default=True,
                     type=click.Choice(["hf", "vllm"]), help="What runs the model."),
        click.option("--url", help="Of a vLLM server that runs the model; for --engine vllm."),
        click.option("--engine-option", "engine_options", multiple=True, metavar="NAME=JSON",
                     help="For the engine, as rows=16 or enforce_eager=true; may be repeated."),
        setting("seed", click.IntRange(0, 2**64 - 1), "Of the random numbers."),
        setting("temperature", number, "0 takes the likeliest action."),
        setting("top_k", count, "Choose among so many likeliest actions; 0 for all."),
        setting("top_p", number, "Choose among the likeliest that together have this share."),
        setting("min_p", number, "Leave out what is less likely than this share of the likeliest."),
        setting("max_actions", click.IntRange(1), "Of the model; what is left is the text."),
        setting("max_length", count, "Most tokens of the text, prompt included."),
        setting("max_edits", count, "Most actions that change the text."),
        setting("max_moves", count, "Most moves in a row; 0 for none at all."),
        setting("stop_bias", number, "Below 0 the model writes on, above it ends sooner."),
        setting("move_bias", number, "Below 0 the cursor moves less, above it moves more."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _writing_options(command: Any) -> Any:
    """The options of every command that writes with a model."""
    pace = click.option("--pace", default=30.0, show_default=True, type=click.FloatRange(0),
                        help="Most actions shown a second in a terminal; 0 for no"
                             " limit.")  # fmt: skip
    as_json = click.option("--json", "as_json", is_flag=True, help="Print the rollout as JSON.")
    return _decoding_options(pace(as_json(command)))


def _file_options(command: Any, given: str, instead: str, made: str) -> Any:
    """The options of every command that works through a file of texts."""
    path = click.Path(path_type=Path)
    options = [
        click.option("--input", "source", metavar="FILE.jsonl", type=path,
                     help=f"{given}, one JSON object a line, instead of {instead}."),
        click.option("--output", metavar="FILE.jsonl", type=path,
                     help=f"Where the {made} of --input go."),
        click.option("--workers", default=1, show_default=True, type=click.IntRange(1),
                     help="Processes for --input, each with the model."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@main.command()
@click.argument("prompt", required=False)
@_writing_options
@partial(_file_options, given="Prompts", instead="PROMPT", made="rollouts")
def generate(
    prompt: str | None, source: Path | None, output: Path | None, workers: int, **options: Any
) -> None:
    """Write on behind a prompt.

    In a terminal the text is shown as it is edited. Without PROMPT it is read from standard
    input. With --input and --output a file of any length is worked through; its lines are objects
    with a "prompt" or a text to "infill". The same command again goes on where a kill stopped it.
    """
    if (source is None) != (output is None) or (source is not None and prompt is not None):
        raise click.UsageError("Give a PROMPT, or --input and --output together.")
    if source is not None and output is not None:
        del options["pace"], options["as_json"]  # there is nothing to watch, and the file is JSON
        _write_file(source, output, workers, **options)
        return
    if prompt is None:
        prompt = "" if sys.stdin.isatty() else _standard_input()
    _write("stream", prompt, **options)


@main.command()
@click.argument("text", required=False)
@_writing_options
def infill(text: str | None, **options: Any) -> None:
    """Fill the gaps of a text, marked with {}; the rest stays as it is, to the byte.

    Without TEXT it is read from standard input.
    """
    if text is None and sys.stdin.isatty():
        raise click.UsageError("Give a TEXT, with {} for its gaps.")
    _write("stream_infill", _standard_input() if text is None else text, **options)


@main.command()
@click.argument("file", required=False, metavar="[FILE]",
                type=click.Path(dir_okay=False, path_type=Path))  # fmt: skip
@click.option("--instruction", default="", metavar="TEXT", help="What is to be done.")
@click.option("--lock", "locked", multiple=True, metavar="TEXT",
              help="Leave this as it is, wherever it occurs; may be repeated.")  # fmt: skip
@click.option("--format", "form", default="text", show_default=True,
              type=click.Choice(["text", "diff", "critic", "lsp", "json"]),
              help="The revised text, a unified diff for patch -p0, CriticMarkup, a language"
                   " server's edits, or all there is to know.")  # fmt: skip
@click.option("--in-place", is_flag=True, help="Write the FILE back if anything changed.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if anything would change.")
@click.option("--precision", type=click.FloatRange(0, 1), metavar="SHARE",
              help="Share of changes that are to be right, by the model's own"
                   " calibration.")  # fmt: skip
@click.option("--notes", type=click.FloatRange(0, 1), metavar="SHARE",
              help="Read the draft first, and edit only where a change is this likely or more;"
                   " for models that learned to note.")  # fmt: skip
@click.option("--window", default=WINDOW, show_default=True, type=click.IntRange(1),
              help="Tokens that are revised at a time; limits of actions and edits are for"
                   " each.")  # fmt: skip
@click.option("--context", default=CONTEXT, show_default=True, type=click.IntRange(0),
              help="Tokens shown on either side of these.")  # fmt: skip
@partial(_file_options, given="Drafts", instead="FILE", made="revisions")
@partial(_decoding_options, temperature=0.0)
def revise(
    file: Path | None, form: str, in_place: bool, check: bool, source: Path | None,
    output: Path | None, workers: int, **options: Any,
) -> None:  # fmt: skip
    """Revise a draft: edit it where it needs it, and leave the rest as it is, to the byte.

    Without FILE it is read from standard input. With --in-place or --check the text is not
    printed, but the number of changes is; other formats are. With --input and --output a file of
    any length is worked through; its lines are objects with a "draft", or the "before" of a pair,
    and an "instruction" if there is one. The same command again goes on where a kill stopped it.
    """
    for_one = file is not None or in_place or check or form != "text"
    if (source is None) != (output is None) or (source is not None and for_one):
        raise click.UsageError("Give a FILE, or --input and --output together.")
    if source is not None and output is not None:
        _write_file(source, output, workers, is_revision=True, **options)
        return
    if file is None and (in_place or sys.stdin.isatty()):
        raise click.UsageError("Give a FILE.")
    if in_place and check:
        raise click.UsageError("--check writes nothing: leave out --in-place.")
    given = _bytes_of(file)
    name = "Standard input" if file is None else repr(str(file))
    try:
        whole = given.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not UTF-8: {error}.") from error
    # What begins or ends a file is no part of what is written there.
    draft = whole.removeprefix(_MARK_OF_UTF8).rstrip("\r\n")
    place = len(whole) - len(whole.removeprefix(_MARK_OF_UTF8))
    revision = _revise(draft, **options)
    changes = revision.changes.within(whole, place)
    if in_place and file is not None and changes.changes:
        if _bytes_of(file) != given:
            raise DataError(f"{name} was changed meanwhile, and is left as it is: revise it again.")
        write_whole(file.resolve(), changes.text)
    if form == "lsp":  # editors do not count what begins a file
        _print(json.dumps(revision.changes.lsp(), ensure_ascii=False) + "\n")
    elif form == "diff":
        _print(changes.unified("draft" if file is None else file.as_posix()))
    elif form == "critic":
        _print(changes.critic())
    elif form == "json":
        _print(replace(revision, changes=changes).to_json() + "\n")
    elif in_place or check:
        count = len(changes.changes)
        click.echo(f"{file or 'draft'}: {count:,} change{'s' if count != 1 else ''}")
    else:
        _print(changes.text, changes)
    if check and changes.changes:
        raise SystemExit(1)


def _revise(
    draft: str, model: str, engine: str, url: str | None, engine_options: tuple[str, ...],
    **options: Any,
) -> Revision:  # fmt: skip
    """Revise one draft, with a bar if it has several parts."""
    from reviser.writing.model import load

    _quiet(model)
    settings = {f.name: options[f.name] for f in fields(DecodeConfig)}
    DecodeConfig(**settings)  # refuses what cannot be before the model is opened
    try:
        opened = load(model, engine=engine, **_options(url, engine_options))
        with opened as reviser, _bars() as (_, tell):
            plans, rollouts = reviser.checked(reviser.plan_revise(draft, **options)), []
            for rollout in reviser.write_many(plans):
                rollouts.append(rollout)
                if len(plans) > 1:
                    tell("revising", len(rollouts), len(plans))
            revision = reviser.revision(draft, plans, rollouts)
    except KeyboardInterrupt:
        click.echo("interrupted; nothing was written", err=True)
        raise SystemExit(130) from None
    cut = [rollout.stop_reason for rollout in rollouts if rollout.stop_reason != "stop"]
    if cut:
        parts = f"{len(cut):,} of {len(rollouts):,} parts " if len(rollouts) > 1 else ""
        click.echo(f"{parts}ended by {', '.join(sorted({*cut}))}", err=True)
    return revision


def _print(text: str, changes: Changes | None = None) -> None:
    """To a pipe as it is; to a terminal nothing that would command it, and changes in colour."""
    from rich.console import Console
    from rich.text import Text

    from reviser.player.terminal import printable

    console = Console(highlight=False)
    if not console.is_terminal:
        sys.stdout.buffer.write(text.encode())
        return
    shown = Text(printable(text.removesuffix("\n")))
    if changes is not None and not console.is_dumb_terminal and not console.no_color:
        shown, place = Text(), 0
        for each in changes.changes:
            shown.append(printable(changes.draft[place : each.start]))
            shown.append(printable(each.before), "red strike")
            shown.append(printable(each.after), "green")
            place = each.end
        shown.append(printable(changes.draft[place:].removesuffix("\n")))
    console.print(shown, soft_wrap=True)


def _limit_options(command: Any) -> Any:
    """An option for each limit that an operator is likely to set."""
    from reviser.serve.limits import Limits

    meanings = {
        "running": "Requests that the engine works on at a time.",
        "waiting": "Requests that wait for it; one more is answered 429.",
        "body_bytes": "Largest body of a request.",
        "prompt_characters": "Longest prompt or text with gaps.",
        "prompt_tokens": "The same, in ids of its history.",
        "max_actions": "Highest max_actions of a request.",
        "max_length": "Most tokens of a text, whatever a request says.",
        "seconds": "Longest time for a request; then the text is sent as it is.",
        "stream_bytes": "Events kept for a stream, for readers who are slow or come back.",
        "resume_seconds": "How long a stream goes on, or is kept, without a reader.",
        "drain_seconds": "Longest time from SIGTERM to the end.",
        "stall_seconds": "Longest time for a step of the engine; then it counts as dead.",
        "recovery_seconds": "For an engine that failed to answer again; then the server ends.",
    }
    for name, meaning in reversed(meanings.items()):
        flag, default = f"--{name.replace('_', '-')}", getattr(Limits, name)
        option = click.option(flag, default=default, show_default=True, type=type(default),
                              help=meaning)  # fmt: skip
        command = option(command)
    return command


@main.command()
@click.argument("model", metavar="MODEL")
@click.option("--engine", default="hf", show_default=True, type=click.Choice(["hf", "vllm"]),
              help="What runs the model.")  # fmt: skip
@click.option("--url", help="Of a vLLM server that runs the model; for --engine vllm.")
@click.option("--engine-option", "engine_options", multiple=True, metavar="NAME=JSON",
              help="For the engine, as rows=16 or enforce_eager=true; may be"
                   " repeated.")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0 for all networks.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535))
@click.option("--name", help="What clients call the model; its folder's name if not given.")
@click.option("--api-key-file", metavar="FILE", type=click.Path(path_type=Path),
              help="Keys that are let in, one a line; or REVISER_API_KEYS, with commas"
                   " between.")  # fmt: skip
@click.option("--allow-origin", "origins", multiple=True, metavar="URL",
              help="Web page whose scripts may ask, as https://example.org; may be"
                   " repeated.")  # fmt: skip
@click.option("--playground/--no-playground", default=True, show_default=True,
              help="A page at / to try the model on.")  # fmt: skip
@_limit_options
def serve(
    model: str, engine: str, url: str | None, engine_options: tuple[str, ...], host: str,
    port: int, name: str | None, api_key_file: Path | None, origins: tuple[str, ...],
    playground: bool, **limits: Any,
) -> None:  # fmt: skip
    """Serve a model over HTTP: texts, edits as they happen, and OpenAI's completions.

    MODEL is a folder or a hub name. SIGTERM lets what was accepted end first. The log, JSON lines
    without anybody's text, goes to standard error.
    """
    from reviser.writing.model import load

    with _extra("serve"):
        from reviser.serve.app import make_app
        from reviser.serve.limits import Limits
        from reviser.serve.logs import write_json_lines
        from reviser.serve.middleware import read_keys
        from reviser.serve.run import listen, run
    checked = Limits(**limits)
    keys = read_keys(api_key_file, os.environ.get("REVISER_API_KEYS"))
    taken = listen(host, port)
    _quiet(model)
    write_json_lines()
    if not keys and host not in ("127.0.0.1", "::1", "localhost"):
        logging.getLogger("reviser.serve").warning("open to all who reach it: there are no keys")
    called = name or Path(model).name or model
    with load(model, engine=engine, **_options(url, engine_options)) as reviser:
        app = make_app(reviser, checked, name=called, keys=keys, origins=origins,
                       playground=playground)  # fmt: skip
        status = run(app, taken)
    sys.exit(status)


def _write(
    how: str, text: str, model: str, engine: str, url: str | None,
    engine_options: tuple[str, ...], pace: float, as_json: bool, **settings: Any,
) -> None:  # fmt: skip
    """Write one text, live in a terminal."""
    from rich.console import Console

    from reviser.player.terminal import printable, show
    from reviser.writing.model import load
    from reviser.writing.tasks import GAP

    console = Console(highlight=False)
    _quiet(model)
    DecodeConfig(**settings)  # refuses what cannot be before the model is opened
    if how == "stream_infill" and GAP not in text:
        raise ConfigError(f"The text has no gap: mark one or more with {GAP}.")
    writing = getattr(load(model, engine=engine, **_options(url, engine_options)), how)(
        text, **settings
    )
    in_terminal = console.is_terminal and not console.is_dumb_terminal
    try:
        if in_terminal and not as_json:
            show(writing.text, writing.cursor, writing, console, pace=pace)
        rollout = writing.rollout()
    except KeyboardInterrupt:  # there is a text at any time
        writing.cancel()
        rollout = writing.rollout()
    written = rollout.to_json() if as_json else rollout.text
    click.echo(printable(written) if console.is_terminal else written)
    if rollout.stop_reason == "cancelled":
        raise SystemExit(130)
    if rollout.stop_reason != "stop" and sys.stderr.isatty():
        Console(stderr=True).print(f"(ended by {rollout.stop_reason})", style="dim")


def _write_file(
    source: Path, output: Path, workers: int, model: str, engine: str, url: str | None,
    engine_options: tuple[str, ...], is_revision: bool = False, **settings: Any,
) -> None:  # fmt: skip
    """Write a file of rollouts or revisions, with a bar."""
    from rich.console import Console
    from rich.progress import Progress

    from reviser.writing import batch

    _quiet(model)
    options = _options(url, engine_options)
    job = batch.Job(input=source, output=output, model=model, engine=engine, options=options,
                    settings=settings, is_revision=is_revision, workers=workers)  # fmt: skip
    console = Console(stderr=True, highlight=False)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("writing", total=None)
        try:
            written, failed = batch.run(job, lambda n, of: bar.update(task, completed=n, total=of))
        except KeyboardInterrupt:
            click.echo("interrupted; the same command goes on from here", err=True)
            raise SystemExit(130) from None
    made = "revisions" if is_revision else "rollouts"
    click.echo(f"{output}: {written - failed:,} {made}")
    if failed:
        raise EngineError(
            f"{failed:,} of {written:,} lines could not be written: see their 'error'."
        )


@main.command()
@click.argument("rollouts", nargs=-1, required=True, metavar="ROLLOUTS.jsonl...",
                type=click.Path(path_type=Path))  # fmt: skip
@click.option("-o", "--output", metavar="PAGE.html",
              type=click.Path(dir_okay=False, path_type=Path), help="The page.")  # fmt: skip
@click.option("-m", "--model", metavar="MODEL",
              help="Who wrote them, folder or hub name, if not where they say.")  # fmt: skip
@click.option("--limit", type=click.IntRange(1), help="Take so many of each file, from the first.")
@click.option("--title", default="Rollouts", show_default=True, help="Of the page.")
@click.option("--gif", metavar="FILE.gif", type=click.Path(dir_okay=False, path_type=Path),
              help="Write one of them as a moving picture.")  # fmt: skip
@click.option("--rollout", "number", default=1, show_default=True, type=click.IntRange(1),
              help="Which one --gif shows.")  # fmt: skip
@click.option("--pace", default=12.0, show_default=True, type=click.FloatRange(0.1, 10_000),
              help="Actions a second, for --gif.")  # fmt: skip
@click.option("--width", default=640, show_default=True, type=click.IntRange(160, 4096),
              help="Pixels, for --gif.")  # fmt: skip
def play(
    rollouts: tuple[Path, ...], output: Path | None, model: str | None, limit: int | None,
    title: str, gif: Path | None, number: int, pace: float, width: int,
) -> None:  # fmt: skip
    """Make a page to watch rollouts in, as they were written, edit by edit.

    ROLLOUTS are files that `reviser generate` wrote, with --output or with --json. The page is one
    file that needs no network. Lines that hold an error are left out and counted.
    """
    from reviser.player import film, page

    if output is None and gif is None:
        raise click.UsageError("Say where the page goes, with -o, or a moving picture, with --gif.")
    films, failed = film.read(rollouts, model=model, limit=limit)
    if output is not None:
        write_whole(output, page.to_html(films, title=title))
        click.echo(f"{output}: {len(films):,} rollout{'s' if len(films) > 1 else ''}")
    if gif is not None:
        with _extra("player"):
            from reviser.player.picture import write_gif
        if number > len(films):
            raise click.UsageError(f"--rollout is {number}; there are {len(films)}.")
        frames = write_gif(gif, films[number - 1], pace=pace, width=width)
        click.echo(f"{gif}: {frames:,} frames")
    if failed:
        click.echo(f"left out, an error instead of a rollout: {failed:,}")


@main.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("-o", "--output", required=True, metavar="FOLDER",
              type=click.Path(file_okay=False, path_type=Path),
              help="Folder for a file of prompts per seed.")  # fmt: skip
@click.option("--tokenizer", required=True, metavar="FOLDER", type=click.Path(path_type=Path),
              help="Folder with the tokenizer.json that counts the tokens.")  # fmt: skip
@click.option("--prefix-tokens", default=Protocol.prefix_tokens, show_default=True,
              help="Tokens of a prompt.")  # fmt: skip
@click.option("--total-tokens", default=Protocol.total_tokens, show_default=True,
              help="Where documents are cut, prompt included.")  # fmt: skip
@click.option("--min-tokens", default=Protocol.min_tokens, show_default=True,
              help="Leave out shorter documents.")  # fmt: skip
@click.option("--max-tokens", default=Protocol.max_tokens, show_default=True,
              help="Leave out longer documents.")  # fmt: skip
@click.option("--count", "prompts", default=Protocol.prompts, show_default=True,
              help="Prompts for each seed.")  # fmt: skip
@click.option("--seed", "seeds", multiple=True, default=Protocol.seeds, show_default=True,
              type=int, help="Of a draw; may be repeated.")  # fmt: skip
@_reading_options
def prompts(
    sources: tuple[str, ...], output: Path, tokenizer: Path, split: Any, text_key: str,
    **protocol: Any,
) -> None:  # fmt: skip
    """Choose documents for systems to continue, as the paper does.

    SOURCES are those of `reviser tokenize`. A line has the id of its document, the prompt and the
    reference, which is how the document goes on. `reviser generate --input` reads these files.
    """
    from reviser.core.codec import Codec
    from reviser.data.readers import Tally
    from reviser.evals import texts

    tally, reader = Tally(), Reader(split=split, text_key=text_key)
    codec, asked = Codec.load(tokenizer), Protocol(**protocol)
    about, note = texts.about_prompts(asked, sources, codec), output / texts.MADE
    if note.is_file() and json.loads(note.read_text("utf-8")) != about:
        raise ConfigError(f"{str(output)!r} holds other prompts: delete it or name another.")
    chosen, left_out = texts.choose_prompts(reader.read(sources, tally), codec, asked)
    write_json(note, about)
    for seed, some in chosen.items():
        texts.write_prompts(output / f"{seed}.jsonl", some)
        click.echo(f"{output / f'{seed}.jsonl'}: {len(some):,} prompts")
    for reason, count in (tally.skipped + left_out).items():
        click.echo(f"left out, {reason}: {count:,}")


@main.command("eval")
@click.argument("systems", nargs=-1, required=True, metavar="NAME=PATH...")
@click.option("-o", "--output", required=True, metavar="FILE.json",
              type=click.Path(dir_okay=False, path_type=Path),
              help="Where the record of all measures goes.")  # fmt: skip
@click.option("--prompts", "references", multiple=True, metavar="PATH",
              type=click.Path(exists=True, path_type=Path),
              help="File of `reviser prompts`, or a folder of them: the references.")  # fmt: skip
@click.option("--model", "folders", multiple=True, metavar="NAME=FOLDER",
              help="Where a system's model is now, if not where its rollouts say.")  # fmt: skip
@click.option("--scorer", "scorers", multiple=True, metavar="MODEL",
              help="Causal LM for evalPPL: folder or hub name; may be repeated.")  # fmt: skip
@click.option("--mauve", multiple=True, metavar="KIND:MODEL",
              help="Features for MAUVE: pll of a masked LM, as the paper's, or last or mean hidden"
                   " state; may be repeated.")  # fmt: skip
@click.option("--judge", metavar="MODEL", help="Who judges the arena: folder, hub name, or what"
              " --judge-url calls it.")  # fmt: skip
@click.option("--judge-url", metavar="URL", help="An endpoint that speaks OpenAI's protocol, up to"
              " /v1; its key is read from REVISER_JUDGE_KEY.")  # fmt: skip
@click.option("--judge-template", metavar="FILE",
              help="The question's words, with {prompt}, {a} and {b}.")  # fmt: skip
@click.option("--verdicts", metavar="FILE", help="Verdicts to judge by, in place of a judge.")
@click.option("--questions", metavar="FILE.jsonl", type=click.Path(path_type=Path),
              help="Write the arena's questions to this file, for someone to add a verdict to each"
                   " line, and measure nothing.")  # fmt: skip
@click.option("--order", default="both", show_default=True, type=click.Choice(["both", "random"]),
              help="Show each pair in both orders, or in one drawn at random, as the paper"
                   " does.")  # fmt: skip
@click.option("--device", default="auto", show_default=True, help="Where models run.")
def evaluate(
    systems: tuple[str, ...], output: Path, references: tuple[Path, ...], folders: tuple[str, ...],
    questions: Path | None, scorers: tuple[str, ...], mauve: tuple[str, ...],
    judge: str | None, judge_url: str | None, judge_template: str | None, verdicts: str | None,
    order: Any, device: str,
) -> None:  # fmt: skip
    """Measure what systems wrote; the first is compared with each of the others.

    A PATH is a file of rollouts, or of JSON lines that any other system wrote, or a folder of
    these; give a NAME again for more of it. Such a line has an "id", a "prompt" and a
    "continuation". The same command again goes on where a kill stopped it.
    """
    from reviser.evals import judges, texts

    found = texts.read_systems(systems, references)
    if questions is not None:
        click.echo(f"{questions}: {judges.write_questions(questions, found, order):,} questions")
        return
    _quiet(*scorers, *(features.partition(":")[2] for features in mauve), *filter(None, [judge]))
    with _extra("eval"):
        from reviser.evals.evaluation import Measures, System, device_of, evaluate
    asked = None
    if judge is None and (judge_url or (judge_template and verdicts is None)):
        raise click.UsageError("--judge-url and --judge-template need the name of a --judge.")
    if judge is not None or verdicts is not None:
        config = judges.JudgeConfig(
            model=judge, url=judge_url, template=judge_template, verdicts=verdicts
        )
        asked = judges.open_judge(config, device_of(device))
    measures = Measures(scorers=scorers, mauve=mauve, judge=asked, order=order, device=device)
    places = {name: Path(place) for name, place in texts.named(folders)}
    if unknown := places.keys() - found.keys():
        raise click.UsageError(f"--model names {min(unknown)!r}, which is no system here.")
    given = [
        System(name=name, samples=tuple(samples), folder=places.get(name))
        for name, samples in found.items()
    ]
    with _bars() as (_, tell):
        try:
            record = evaluate(given, measures, kept=output.with_suffix(".measured"), tell=tell)
        except KeyboardInterrupt:
            click.echo("interrupted; the same command goes on from here", err=True)
            raise SystemExit(130) from None
    record |= texts.read_about(references)
    write_json(output, record)
    _print_record(record)
    click.echo(f"all of it: {output}; as a page: reviser report {output} -o page.html", err=True)


@main.command()
@click.argument("record", metavar="RECORD.json", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, metavar="PAGE.html",
              type=click.Path(dir_okay=False, path_type=Path),
              help="The page; beside it goes the same as .md and .json.")  # fmt: skip
def report(record: Path, output: Path) -> None:
    """Make one page of what `reviser eval` measured, beside the paper's figures."""
    from reviser.evals import report

    if output.suffix != ".html":
        raise click.UsageError(f"The page is a file .html, not {output.name!r}.")
    click.echo(report.write(report.read(record), output))


@main.command()
@click.argument("recipe", type=click.Path(path_type=Path), metavar="RECIPE.yaml")
@click.option("-o", "--output", required=True, metavar="FOLDER",
              type=click.Path(file_okay=False, path_type=Path),
              help="Folder for models, rollouts and the page; or one to continue.")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE",
              help="Replace a value of the recipe, for all arms; may be repeated.")  # fmt: skip
@click.option("--engine", default="hf", show_default=True,
              type=click.Choice(["hf", "vllm"]), help="What runs the rollouts.")  # fmt: skip
@click.option("--engine-option", "engine_options", multiple=True, metavar="NAME=JSON",
              help="For the engine, as rows=16; may be repeated.")  # fmt: skip
@click.option("--device", default="auto", show_default=True,
              help="Where the measures' models run.")  # fmt: skip
def reproduce(
    recipe: Path, output: Path, changes: tuple[str, ...], engine: str,
    engine_options: tuple[str, ...], device: str,
) -> None:  # fmt: skip
    """Train a recipe's model and its autoregressive twin, and compare them on one page.

    What is trained, on which prompts it is compared and by which measures stands under
    "comparison" in the recipe. The same command again goes on where it stopped. A model that was
    trained elsewhere, into FOLDER/models/ARM, is taken as it is.
    """
    with _extra("train"):
        from reviser.reproduce import reproduce
    with _bars() as (say, tell):
        try:
            page = reproduce(
                recipe, output, changes=changes, engine=engine,
                options=_options(None, engine_options), device=device, say=say, tell=tell,
            )  # fmt: skip
        except KeyboardInterrupt:
            click.echo("interrupted; the same command goes on from here", err=True)
            raise SystemExit(130) from None
    click.echo(page)


@contextmanager
def _bars() -> Iterator[tuple[Any, Any]]:
    """Two functions: one says what is being done, the other how much of it is done."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True, highlight=False)
    bars = Progress(console=console, disable=not console.is_terminal)
    tasks: dict[str, Any] = {}

    def tell(what: str, done: int, of: int) -> None:
        if what not in tasks:
            bars.start()  # not before: training has a bar of its own
            tasks[what] = bars.add_task(what)
        bars.update(tasks[what], completed=done, total=of)

    try:
        yield partial(console.print, markup=False), tell
    finally:
        bars.stop()


def _bytes_of(file: Path | None) -> bytes:
    """Of a file, or of standard input."""
    if file is None:
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataError(f"Cannot read {str(file)!r}: {error.strerror}.") from error


def _standard_input() -> str:
    """All of it, less the end of the last line."""
    try:
        return sys.stdin.read().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataError(f"Standard input is not UTF-8: {error}.") from error


def _options(url: str | None, pairs: tuple[str, ...]) -> dict[str, Any]:
    options: dict[str, Any] = {} if url is None else {"url": url}
    for pair in pairs:
        name, _, value = pair.partition("=")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value  # a word needs no quotes
    return options


def _quiet(*models: str) -> None:
    """No bar for opening folders, though for a download; of vLLM's log only what went wrong."""
    if all(Path(model).is_dir() for model in models):
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """Turn a module that is not installed into the extra that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"This command needs the {name} extra: {error.name} is not installed. Install it with:"
            f" pip install 'reviser-lm[{name}]'."
        ) from error


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


def _print_record(record: dict[str, Any]) -> None:
    """The main numbers of an evaluation, a row for each system."""
    from rich.console import Console
    from rich.table import Table

    from reviser.evals.report.format import interval

    def shown(found: dict[str, Any] | None) -> str:
        return "" if found is None else interval(found)

    rows = []
    for system in record["systems"]:
        row = {"system": system["name"], "texts": f"{system['samples']:,}"}
        for each in system["perplexity"]:
            row[f"evalPPL, {each['scorer']['model']}"] = shown(each["perplexity"])
        for each in system["mauve"]:
            row[f"MAUVE, {each['features']['model']}"] = shown(each["mauve"])
        row["distinct-2"] = shown(system["diversity"].get("distinct_2"))
        row["actions per token"] = shown((system["trajectories"] or {}).get("actions_per_token"))
        rows.append(row)
    table = Table(box=None, pad_edge=False)
    names = dict.fromkeys(name for row in rows for name in row if any(r.get(name) for r in rows))
    for name in names:
        table.add_column(name)
    for row in rows:
        table.add_row(*(row.get(name, "") for name in names))
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    for comparison in record["comparisons"]:
        pair = " / ".join(comparison["systems"])
        for each in comparison["perplexity_ratio"]:
            click.echo(f"evalPPL of {pair}, {each['scorer']}: {interval(each['ratio'])}")
        if match := comparison["arena"]:
            biased = "; the judge prefers a side" if match["is_biased"] else ""
            click.echo(f"wins of {pair}: {interval(match['win_rate'])}{biased}")


def _shown(interval: Interval, scale: float = 1.0, digits: int = 3) -> str:
    value = f"{scale * interval.value:.{digits}f}"
    if interval.kind == "exact":
        return value
    if interval.kind == "at most":
        return f"<= {value}"
    return f"{value} +- {scale * (interval.high - interval.low) / 2:.{digits}f}"
