"""Commands of the laboratory, `reviser lab ...`: what the paper's evaluation needs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reviser.cli.options import (
    InputPath,
    engine_option,
    engine_options_option,
    folder_option,
    parse_options,
    reader_options,
    tokenizer_option,
)
from reviser.cli.output import (
    exit_interrupted,
    needs_extra,
    print_skipped,
    print_table,
    progress_bars,
    quiet_libraries,
    terminable,
)
from reviser.cli.train import changes_option, model_option, recipe_argument, run_training
from reviser.data.readers import Reader, SplitBy
from reviser.errors import ConfigError, plural
from reviser.files import write_json, write_whole
from reviser.lab.evals.texts import Protocol

if TYPE_CHECKING:
    from reviser.lab.order_tax import CostEstimate, PolicyCost


_device_option = click.option(
    "--device", default="auto", show_default=True,
    help="Device that runs the measuring models, such as cpu or cuda:0; auto takes a GPU if there"
         " is one.",
)  # fmt: skip


@contextmanager
def _progress() -> Iterator[tuple[Any, Any]]:
    """Show progress of work that the same command continues after an interruption."""
    with progress_bars() as (log, progress):
        try:
            with terminable():
                yield log, progress
        except KeyboardInterrupt as error:
            exit_interrupted(error, "Run the same command again to continue.")


@click.group()
def lab() -> None:
    """Measure and train models as the paper does."""


@lab.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@folder_option("-o", "--output", help="Folder for the files of prompts, one per seed.")
@tokenizer_option(help="Folder with the tokenizer.json that counts the tokens.")
@click.option("--prefix-tokens", default=Protocol.prefix_tokens, show_default=True,
              help="Length of a prompt in tokens.")  # fmt: skip
@click.option("--total-tokens", default=Protocol.total_tokens, show_default=True,
              help="Length at which documents are cut, prompt included.")  # fmt: skip
@click.option("--min-tokens", default=Protocol.min_tokens, show_default=True,
              help="Leave out shorter documents.")  # fmt: skip
@click.option("--max-tokens", default=Protocol.max_tokens, show_default=True,
              help="Leave out longer documents.")  # fmt: skip
@click.option("--count", "prompts", default=Protocol.prompts, show_default=True,
              help="Prompts per seed.")  # fmt: skip
@click.option("--seed", "seeds", multiple=True, default=Protocol.seeds, show_default=True,
              type=int, help="Random seed of one draw; may be repeated.")  # fmt: skip
@reader_options
def prompts(
    sources: tuple[str, ...], output: Path, tokenizer: Path, split: SplitBy, text_key: str,
    **protocol: Any,
) -> None:  # fmt: skip
    """Draw prompts from documents, for an evaluation as in the paper.

    A SOURCE is a file, a folder or a pattern, as for `reviser tokenize`. Each line of the output
    has the id of a document, its beginning as the prompt, and the rest as the reference. `reviser
    generate --input` reads these files.
    """
    from reviser.core.codec import Codec
    from reviser.data.readers import Tally
    from reviser.lab.evals import texts

    tally, reader = Tally(), Reader(split=split, text_key=text_key)
    codec, chosen_by = Codec.load(tokenizer), Protocol(**protocol)
    about, manifest = texts.describe_prompts(chosen_by, sources, codec), output / texts.MANIFEST
    if manifest.is_file() and json.loads(manifest.read_text("utf-8")) != about:
        raise ConfigError(
            f"{str(output)!r} holds prompts that were chosen differently: delete it or name another"
            " folder."
        )
    chosen, left_out = texts.choose_prompts(reader.read(sources, tally), codec, chosen_by)
    write_json(manifest, about)
    for seed, drawn in chosen.items():
        path = output / f"{seed}.jsonl"
        texts.write_prompts(path, drawn)
        click.echo(f"{path}: {plural(len(drawn), 'prompt')}")
    print_skipped(tally.skipped + left_out)


@lab.command("eval")
@click.argument("systems", nargs=-1, required=True, metavar="NAME=PATH...")
@click.option("-o", "--output", required=True, metavar="FILE.json",
              type=click.Path(dir_okay=False, path_type=Path),
              help="File for the results.")  # fmt: skip
@click.option("--prompts", "references", multiple=True, metavar="PATH",
              type=InputPath(),
              help="References: a file from `reviser lab prompts`, or a folder of"
                   " them.")  # fmt: skip
@click.option("--model", "folders", multiple=True, metavar="NAME=FOLDER",
              help="Folder of a system's model, if it is no longer where its rollouts"
                   " say.")  # fmt: skip
@click.option("--scorer", "scorers", multiple=True, metavar="MODEL",
              help="Causal LM for evalPPL: folder or hub name; may be repeated.")  # fmt: skip
@click.option("--mauve", multiple=True, metavar="KIND:MODEL",
              help="Features for MAUVE: pll of a masked LM, as in the paper, or the last hidden"
                   " state; may be repeated.")  # fmt: skip
@click.option("--judge", metavar="MODEL",
              help="Model that judges pairs of texts: its name at --judge-url.")  # fmt: skip
@click.option("--judge-url", metavar="URL",
              help="Endpoint with OpenAI's API, up to /v1; its key is read from"
                   " REVISER_JUDGE_KEY.")  # fmt: skip
@_device_option
def evaluate(
    systems: tuple[str, ...], output: Path, references: tuple[Path, ...], folders: tuple[str, ...],
    scorers: tuple[str, ...], mauve: tuple[str, ...], judge: str | None, judge_url: str | None,
    device: str,
) -> None:  # fmt: skip
    """Score the texts of several systems, and compare the systems.

    The first system is compared with each of the others. A PATH is a file of rollouts, a file of
    JSON lines that another system wrote, or a folder of either. Repeat a NAME to add more files. A
    line of another system has an "id", a "prompt" and a "continuation". Run the same command again
    to continue after an interruption.
    """
    from reviser.lab.evals import judges, texts

    if (judge is None) != (judge_url is None):
        raise click.UsageError("Give --judge and --judge-url together.")
    samples = texts.read_systems(systems, references)
    quiet_libraries(*scorers, *(f.partition(":")[2] for f in mauve))
    with needs_extra("eval"):
        from reviser.lab.evals.evaluation import Measures, System, evaluate
    opened = None
    if judge is not None and judge_url is not None:
        opened = judges.open_judge(judges.JudgeConfig(model=judge, url=judge_url))
    measures = Measures(scorers=scorers, mauve=mauve, judge=opened, device=device)
    models = {name: Path(path) for name, path in texts.named_paths(folders)}
    if unknown := models.keys() - samples.keys():
        raise click.UsageError(f"--model names {min(unknown)!r}, which is not one of the systems.")
    compared = [
        System(name=name, samples=tuple(own), folder=models.get(name))
        for name, own in samples.items()
    ]
    with _progress() as (_, progress):
        cache = output.with_suffix(".measured")
        record = evaluate(compared, measures, cache=cache, progress=progress)
    record |= texts.read_prompts_manifest(references)
    write_json(output, record)
    _print_record(record)
    click.echo(
        f"Saved to {output}. To make a page: reviser lab report {output} -o page.md", err=True
    )


@lab.command()
@click.argument("record", metavar="RECORD.json", type=InputPath(dir_okay=False))
@click.option("-o", "--output", required=True, metavar="PAGE.md",
              type=click.Path(dir_okay=False, path_type=Path),
              help="Markdown page to write.")  # fmt: skip
def report(record: Path, output: Path) -> None:
    """Make a page from the results of `reviser lab eval`.

    The page shows them next to the paper's own figures.
    """
    with needs_extra("eval"):
        from reviser.lab.evals import report

    if output.suffix != ".md":
        raise click.UsageError(f"The name of the page must end with .md; got {output.name!r}.")
    write_whole(output, report.to_markdown(report.read(record)))
    click.echo(output)


def _print_record(record: dict[str, Any]) -> None:
    """Print the main numbers of an evaluation: a row per system, a line per comparison."""
    from reviser.lab.evals.page import Interval

    def cell(estimate: dict[str, Any] | None) -> str:
        return "" if estimate is None else str(Interval(estimate))

    rows = []
    for system in record["systems"]:
        row = {"system": system["name"], "texts": f"{system['samples']:,}"}
        for each in system["perplexity"]:
            row[f"evalPPL, {each['scorer']['model']}"] = cell(each["perplexity"])
        for each in system["mauve"]:
            row[f"MAUVE, {each['features']['model']}"] = cell(each["mauve"])
        row["distinct-2"] = cell(system["diversity"].get("distinct_2"))
        row["actions per token"] = cell((system["trajectories"] or {}).get("actions_per_token"))
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row if any(r.get(name) for r in rows))
    print_table([*names], [[row.get(name, "") for name in names] for row in rows], width=160)
    for comparison in record["comparisons"]:
        pair = " / ".join(comparison["systems"])
        for each in comparison["perplexity_ratio"]:
            click.echo(f"evalPPL of {pair}, {each['scorer']}: {Interval(each['ratio'])}")
        if match := comparison["arena"]:
            biased = "; the judge prefers one side" if match["is_biased"] else ""
            click.echo(f"wins of {pair}: {Interval(match['win_rate'])}{biased}")


@lab.command()
@recipe_argument
@model_option
@changes_option
def train(recipe: Path, output: Path, changes: tuple[str, ...]) -> None:
    """Train a model by a method of the paper's appendix.

    Like `reviser train`, but the model can also learn from rewards (`reinforce`) or from its own
    mistakes (a policy of kind `dagger`), or read the canvas (`trunk.canvas`).
    """
    with needs_extra("train"):
        from reviser.lab.recipe import check_inputs, load_recipe
        from reviser.train.recipe import absolute_paths

        read = load_recipe(recipe, tuple(map(absolute_paths, changes)))
        if not (output / "run.json").is_file():  # a finished run may outlive its data
            check_inputs(read)
    # After the checks, because importing torch takes seconds.
    with needs_extra("train" if read.reinforce is None else "rl"):
        from reviser.lab.train import train

        run_training(train, read, output)


@lab.command()
@recipe_argument
@folder_option("-o", "--output",
               help="Folder for models, rollouts and the page, or such a folder to"
                    " continue.")  # fmt: skip
@changes_option
@engine_option
@engine_options_option
@_device_option
def reproduce(
    recipe: Path, output: Path, changes: tuple[str, ...], engine: str,
    engine_options: tuple[str, ...], device: str,
) -> None:  # fmt: skip
    """Train a model and its left-to-right baseline, and compare them.

    The result is one page. The section "comparison" of the recipe lists the models to train, the
    prompts they continue and the measures. Run the same command again to continue where it stopped.
    A model that is already in FOLDER/models/ARM, trained elsewhere, is not trained again.
    """
    with needs_extra("train"):
        from reviser.lab.recipe import check_inputs, load_recipe
        from reviser.train.recipe import absolute_paths

        changes = tuple(map(absolute_paths, changes))
        read = load_recipe(recipe, changes)
        if not output.exists():  # what was done before may outlive its data
            check_inputs(read)
        # After the checks, because importing torch takes seconds.
        from reviser.lab.reproduce import reproduce
    with _progress() as (log, progress):
        page = reproduce(
            recipe, output, changes=changes, engine=engine, options=parse_options(engine_options),
            device=device, log=log, progress=progress,
        )  # fmt: skip
    click.echo(page)


@lab.command()
@click.option("--length", default=145, show_default=True, type=click.IntRange(1),
              help="Target length in tokens.")  # fmt: skip
@click.option("--samples", default=2000, show_default=True, type=click.IntRange(2),
              help="Trajectories per policy.")  # fmt: skip
@click.option("--text", type=InputPath(dir_okay=False),
              help="Measure on this text; by default, on made-up tokens.")  # fmt: skip
@click.option("--tokenizer", type=InputPath(file_okay=False),
              help="Folder with the tokenizer.json for --text.")  # fmt: skip
def policies(length: int, samples: int, text: Path | None, tokenizer: Path | None) -> None:
    """Compare the costs of trajectory policies.

    A policy decides the order in which a text is written. The order tax is the entropy of that
    order in bits per token: loss that no model can avoid. +- is a 95 % interval; a value without
    one is exact; <= marks an upper bound. Without --text, every token counts as a word. The first
    run compiles code, so it takes longer.
    """
    from reviser.core.actions import ActionVocab
    from reviser.lab.order_tax import policy_cost, synthetic_targets
    from reviser.trajectories.policy import PRESETS

    if (text is None) != (tokenizer is None):
        raise click.UsageError("Give --text and --tokenizer together.")
    units = None
    if text is not None and tokenizer is not None:
        targets, units, tokens = _targets_from(text, tokenizer, length, samples)
    else:
        targets, tokens = synthetic_targets(length, samples), length
    vocab = ActionVocab.build(tokens)
    rows = [
        (name, policy_cost(policy, targets, vocab=vocab, units=units))
        for name, policy in PRESETS.items()
    ]
    click.echo(f"{len(targets):,} trajectories per policy, {plural(length, 'token')} each")
    _print_costs(rows)


def _targets_from(text: Path, tokenizer: Path, length: int, samples: int) -> tuple[Any, Any, int]:
    """Return evenly spaced windows of a text, their unit marks and the size of the vocabulary.

    Windows repeat if the text is short.
    """
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


def _print_costs(rows: Sequence[tuple[str, PolicyCost]]) -> None:
    header = ("policy", "actions per token", "moves, %", "order tax, bits")
    table = []
    for name, cost in rows:
        moves = _format(cost.move_fraction, scale=100, digits=1)
        table.append((name, _format(cost.actions_per_token), moves, _format(cost.order_tax)))
    print_table(header, table, width=80, no_wrap=True)


def _format(interval: CostEstimate, scale: float = 1.0, digits: int = 3) -> str:
    value = f"{scale * interval.value:.{digits}f}"
    if interval.kind == "exact":
        return value
    if interval.kind == "at most":
        return f"<= {value}"
    return f"{value} +- {scale * (interval.high - interval.low) / 2:.{digits}f}"
