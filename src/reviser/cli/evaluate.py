"""Commands that measure: prompts, eval and report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from reviser.cli.options import InputPath, folder_option, reader_options, tokenizer_option
from reviser.cli.output import (
    exit_interrupted,
    needs_extra,
    print_skipped,
    print_table,
    progress_bars,
    quiet_libraries,
    terminable,
)
from reviser.data.readers import Reader, Split
from reviser.errors import ConfigError, plural
from reviser.evals.texts import Protocol
from reviser.files import write_json


@click.command()
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
    sources: tuple[str, ...], output: Path, tokenizer: Path, split: Split, text_key: str,
    **protocol: Any,
) -> None:  # fmt: skip
    """Draw prompts from documents, for an evaluation as in the paper.

    A SOURCE is a file, a folder or a pattern, as for `reviser tokenize`. Each line of the output
    has the id of a document, its beginning as the prompt, and the rest as the reference. `reviser
    generate --input` reads these files.
    """
    from reviser.core.codec import Codec
    from reviser.data.readers import Tally
    from reviser.evals import texts

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


@click.command("eval")
@click.argument("systems", nargs=-1, required=True, metavar="NAME=PATH...")
@click.option("-o", "--output", required=True, metavar="FILE.json",
              type=click.Path(dir_okay=False, path_type=Path),
              help="File for the results.")  # fmt: skip
@click.option("--prompts", "references", multiple=True, metavar="PATH",
              type=InputPath(),
              help="References: a file from `reviser prompts`, or a folder of them.")  # fmt: skip
@click.option("--model", "folders", multiple=True, metavar="NAME=FOLDER",
              help="Folder of a system's model, if it is no longer where its rollouts"
                   " say.")  # fmt: skip
@click.option("--scorer", "scorers", multiple=True, metavar="MODEL",
              help="Causal LM for evalPPL: folder or hub name; may be repeated.")  # fmt: skip
@click.option("--mauve", multiple=True, metavar="KIND:MODEL",
              help="Features for MAUVE: pll of a masked LM, as in the paper, or the last or mean"
                   " hidden state; may be repeated.")  # fmt: skip
@click.option("--judge", metavar="MODEL",
              help="Model that judges the arena: folder, hub name, or its name at"
                   " --judge-url.")  # fmt: skip
@click.option("--judge-url", metavar="URL",
              help="Endpoint with OpenAI's API, up to /v1; its key is read from"
                   " REVISER_JUDGE_KEY.")  # fmt: skip
@click.option("--judge-template", metavar="FILE",
              help="File with the question to the judge, with {prompt}, {a} and {b} in"
                   " it.")  # fmt: skip
@click.option("--verdicts", metavar="FILE", help="File of verdicts to use in place of a judge.")
@click.option("--questions", metavar="FILE.jsonl", type=click.Path(path_type=Path),
              help="Write the arena's questions to this file and measure nothing. People can then"
                   " add a verdict to each line.")  # fmt: skip
@click.option("--order", default="both", show_default=True, type=click.Choice(["both", "random"]),
              help="Show each pair in both orders, or in one random order, as in the"
                   " paper.")  # fmt: skip
@click.option("--device", default="auto", show_default=True,
              help="Device that runs the models, such as cpu or cuda:0; auto takes a GPU if there"
                   " is one.")  # fmt: skip
def evaluate(
    systems: tuple[str, ...], output: Path, references: tuple[Path, ...], folders: tuple[str, ...],
    questions: Path | None, scorers: tuple[str, ...], mauve: tuple[str, ...],
    judge: str | None, judge_url: str | None, judge_template: str | None, verdicts: str | None,
    order: Any, device: str,
) -> None:  # fmt: skip
    """Score the texts of several systems, and compare the systems.

    The first system is compared with each of the others. A PATH is a file of rollouts, a file of
    JSON lines that another system wrote, or a folder of either. Repeat a NAME to add more files. A
    line of another system has an "id", a "prompt" and a "continuation". Run the same command again
    to continue after an interruption.
    """
    from reviser.evals import judges, texts

    samples = texts.read_systems(systems, references)
    if questions is not None:
        count = judges.write_questions(questions, samples, order)
        click.echo(f"{questions}: {plural(count, 'question')}")
        return
    quiet_libraries(*scorers, *(f.partition(":")[2] for f in mauve), *filter(None, [judge]))
    with needs_extra("eval"):
        from reviser.evals.evaluation import Measures, System, device_of, evaluate
    opened = None
    if judge is None and (judge_url or (judge_template and verdicts is None)):
        raise click.UsageError("--judge-url and --judge-template need the name of a --judge.")
    if judge is not None or verdicts is not None:
        config = judges.JudgeConfig(
            model=judge, url=judge_url, template=judge_template, verdicts=verdicts
        )
        opened = judges.open_judge(config, device_of(device))
    measures = Measures(scorers=scorers, mauve=mauve, judge=opened, order=order, device=device)
    models = {name: Path(path) for name, path in texts.named_paths(folders)}
    if unknown := models.keys() - samples.keys():
        raise click.UsageError(f"--model names {min(unknown)!r}, which is not one of the systems.")
    compared = [
        System(name=name, samples=tuple(own), folder=models.get(name))
        for name, own in samples.items()
    ]
    with progress_bars() as (_, progress):
        try:
            cache = output.with_suffix(".measured")
            with terminable():
                record = evaluate(compared, measures, cache=cache, progress=progress)
        except KeyboardInterrupt as error:
            exit_interrupted(error, "Run the same command again to continue.")
    record |= texts.read_prompts_manifest(references)
    write_json(output, record)
    _print_record(record)
    click.echo(f"Saved to {output}. To make a page: reviser report {output} -o page.html", err=True)


@click.command()
@click.argument("record", metavar="RECORD.json", type=InputPath(dir_okay=False))
@click.option("-o", "--output", required=True, metavar="PAGE.html",
              type=click.Path(dir_okay=False, path_type=Path),
              help="Page to write; the same content goes to .md and .json next to it.")  # fmt: skip
def report(record: Path, output: Path) -> None:
    """Make a page from the results of `reviser eval`.

    The page shows them next to the paper's own figures.
    """
    from reviser.evals import report

    if output.suffix != ".html":
        raise click.UsageError(f"The name of the page must end with .html; got {output.name!r}.")
    click.echo(report.write(report.read(record), output))


def _print_record(record: dict[str, Any]) -> None:
    """Print the main numbers of an evaluation: a row per system, a line per comparison."""
    from reviser.evals.report.format import interval

    def cell(estimate: dict[str, Any] | None) -> str:
        return "" if estimate is None else interval(estimate)

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
            click.echo(f"evalPPL of {pair}, {each['scorer']}: {interval(each['ratio'])}")
        if match := comparison["arena"]:
            biased = "; the judge prefers one side" if match["is_biased"] else ""
            click.echo(f"wins of {pair}: {interval(match['win_rate'])}{biased}")
