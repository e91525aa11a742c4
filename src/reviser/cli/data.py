"""Commands that prepare data: tokenize, tokenizer, data corrupt and data from-git."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reviser.cli.options import (
    SEED,
    InputPath,
    folder_option,
    reader_options,
    tokenizer_option,
    with_options,
)
from reviser.cli.output import print_skipped
from reviser.data.readers import Reader, SplitBy
from reviser.errors import plural
from reviser.files import write_whole

if TYPE_CHECKING:
    from reviser.data.pairs import Pair
    from reviser.data.readers import Tally


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@folder_option("-o", "--output", help="Folder of shards to write, or to continue.")
@tokenizer_option(help="Folder with the tokenizer.json to use.")
@reader_options
@click.option("--workers", type=click.IntRange(1),
              help="Number of processes; one per core by default.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the manifest.")
def tokenize(
    sources: tuple[str, ...], output: Path, tokenizer: Path, split: SplitBy, text_key: str,
    workers: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Turn text into shards of tokens to train on.

    A SOURCE is a file of JSON lines, parquet or plain text (also .gz, .xz, .zst), a folder of such
    files, a quoted pattern such as 'text/*.md', a URL that fsspec opens such as s3://bucket/folder,
    or hf:NAME for a dataset on the Hugging Face hub.
    Documents that cannot be used are left out and counted. Run the same command again to continue
    where it stopped.
    """
    from reviser.data import shards

    manifest = shards.tokenize(
        sources, output, tokenizer, split=split, text_key=text_key, workers=workers, progress=True
    )
    if as_json:
        click.echo(json.dumps(manifest.to_dict()))
        return
    click.echo(
        f"{output}: {plural(manifest.documents, 'document')}, {plural(manifest.tokens, 'token')} in"
        f" {plural(len(manifest.shards), 'shard')}"
    )
    print_skipped(manifest.skipped, manifest.damaged)


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@folder_option("-o", "--output", help="Folder for tokenizer.json.")
@click.option("--size", default=4096, show_default=True, type=click.IntRange(256),
              help="Maximum number of tokens.")  # fmt: skip
@reader_options
def tokenizer(
    sources: tuple[str, ...], output: Path, size: int, split: SplitBy, text_key: str
) -> None:
    """Train a byte-level BPE tokenizer on text.

    A SOURCE is a file, a folder or a pattern, as for `reviser tokenize`.
    """
    from reviser.data.tokenizer import train_bpe

    trained = train_bpe(sources, size, split=split, text_key=text_key)
    write_whole(output / "tokenizer.json", trained.to_str(pretty=True))
    click.echo(f"{output}: {plural(trained.get_vocab_size(), 'token')}")


@click.group()
def data() -> None:
    """Make pairs of texts to train an editor on."""


_pair_options = with_options(
    click.option("-o", "--output", required=True, metavar="PAIRS.jsonl",
                 type=click.Path(dir_okay=False, path_type=Path),
                 help="New file to write, one pair per line; also .gz, .xz or .zst."),
    click.option("--unchanged", default=0.3, show_default=True, type=click.FloatRange(0, 0.5),
                 help="Share of pairs that need no change."),
    click.option("--seed", default=0, show_default=True, type=SEED, help="Random seed."),
)  # fmt: skip


@data.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@_pair_options
@click.option("--rate", default=5.0, show_default=True,
              type=click.FloatRange(0, 100, min_open=True),
              help="Mistakes per 100 words, on average.")  # fmt: skip
@reader_options
def corrupt(
    sources: tuple[str, ...], output: Path, unchanged: float, seed: int, rate: float,
    split: SplitBy, text_key: str,
) -> None:  # fmt: skip
    """Put mistakes into clean English text.

    A SOURCE is a file, a folder or a pattern, as for `reviser tokenize`. The mistakes are
    those of learners and native writers: in punctuation, spelling, articles, prepositions,
    agreement, capitals and spaces, and words that are missing, doubled, swapped or confused.
    """
    from reviser.data.corrupt import Corruption, corrupted
    from reviser.data.readers import Tally

    tally, reader = Tally(), Reader(split=split, text_key=text_key)
    corruption = Corruption(rate=rate, unchanged=unchanged)
    _write_pairs(output, corrupted(reader.read(sources, tally), corruption, seed), tally)


@data.command("from-git")
@click.argument("repo", metavar="REPO", type=InputPath(file_okay=False))
@_pair_options
@click.option("--suffix", "suffixes", multiple=True, metavar=".SUFFIX",
              help="Suffix of the files to read, such as .md; may be repeated. The default is the"
                   " usual suffixes of prose and code.")  # fmt: skip
@click.option(
    "--subjects", is_flag=True, help="Use the subject lines of the commits as instructions."
)
def from_git(
    repo: Path, output: Path, unchanged: float, seed: int, suffixes: tuple[str, ...],
    subjects: bool,
) -> None:  # fmt: skip
    """Collect the edits that people made in a git repository.

    REPO is the folder that contains .git, or a bare repository. A pair is a paragraph of prose or a
    hunk of code. All commits that lead to HEAD are read, except merges. Reverts, duplicates,
    changes of white space only, generated files, and paragraphs that were only added or removed are
    left out and counted.
    """
    from reviser.data import git
    from reviser.data.pairs import with_unchanged
    from reviser.data.readers import Tally

    tally = Tally()
    found = git.from_git(
        repo, tally=tally, suffixes=suffixes or git.PROSE + git.CODE, subjects=subjects,
    )  # fmt: skip
    _write_pairs(output, with_unchanged(found, unchanged, seed), tally)


def _write_pairs(output: Path, pairs: Iterable[Pair], tally: Tally) -> None:
    """Write a file of pairs, and print how many there are and what was left out."""
    from reviser.data.pairs import write_pairs

    unchanged = 0

    def counted() -> Iterator[Pair]:
        nonlocal unchanged
        for pair in pairs:
            unchanged += pair.is_unchanged
            yield pair

    count = write_pairs(output, counted())
    click.echo(
        f"{output}: {plural(count, 'pair')}, {unchanged / max(1, count):.1%} of them unchanged"
    )
    print_skipped(tally.skipped, tally.damaged)
