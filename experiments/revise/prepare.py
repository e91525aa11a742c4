"""Make pairs to train and test an editor: people's edits, and mistakes put into clean text.

DATA has three folders:

- `revisions-git`: git histories of books as JSON lines (src, licence, before, after). Records with
  a non-commercial licence are left out.
- `argrewrite`: essays in three drafts. Each draft is paired with the next.
- `openstax`: textbooks, an archive of text files with one paragraph per line.

Whole books and whole essays are held out, a book with both its history and its text. Training texts
that share much with a test text are left out.

    python -m experiments.revise.prepare DATA -o pairs
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from reviser.data.corrupt import Corruption, corrupted
from reviser.data.pairs import Pair, aligned, with_unchanged, write_pairs

HELD_OUT = ("introduction-philosophy", "psychology", "us-history")
"""The held-out books: of medium size, each from a different field."""
ESSAYS = 7
"""Every seventh essay is held out."""
LEAST_SIMILAR = 0.5
SHINGLE = 8
"""Consecutive words by which texts are compared."""
MOST_SHARED = 0.2
"""The largest share of a training text's shingles that may occur in test texts."""
SENTENCE = re.compile(r"(?<=[.!?])[\"'\u201d\u2019)]*\s+(?=[\"'\u201c\u2018(]?[A-Z])")
UNITS = {"paragraph": "para", "sentence": "sent"}

Sets = dict[str, list[Pair]]
"""Pairs by split: train, test."""


def revisions(data: Path, unit: str, held_out: tuple[str, ...]) -> Sets:
    """Return the edits that commits made to books."""
    found: Sets = {"train": [], "test": []}
    with lzma.open(data / f"revisions-git/revisions_{UNITS[unit]}.jsonl.xz", "rt") as file:
        for line in file:
            record = json.loads(line)
            if "-NC" in record["licence"]:
                continue
            more = {"source": record["src"], "licence": record["licence"]}
            pair = Pair(before=record["before"], after=record["after"], more=more)
            found[split_of(record["src"].rpartition("osbooks-")[2], held_out)].append(pair)
    return found


def essays(data: Path, unit: str) -> Sets:
    """Return the paragraphs or sentences of each draft, paired with those of the next."""
    found: Sets = {"train": [], "test": []}
    for essay in json.loads((data / "argrewrite/argrewrite_v2_drafts.json").read_text("utf-8")):
        pairs = found["test" if int(essay["essay"]) % ESSAYS == 0 else "train"]
        drafts = [parts(essay[f"draft{n}"], unit) for n in (1, 2, 3)]
        for n, (old, new) in enumerate(pairwise(drafts), start=1):
            more = {"source": f"argrewrite/{essay['essay']}", "licence": "CC-BY-4.0", "draft": n}
            for i, j in aligned(old, new, LEAST_SIMILAR):
                if old[i] != new[j]:
                    pairs.append(Pair(before=old[i], after=new[j], more=more))
    return found


def books(data: Path, held_out: tuple[str, ...]) -> dict[str, list[tuple[str, str]]]:
    """Return clean paragraphs, each with its book."""
    found: dict[str, list[tuple[str, str]]] = {"train": [], "test": []}
    with tarfile.open(data / "openstax/openstax_prose_ccby.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is None:
                continue
            book = Path(member.name).name.partition(".")[0]
            lines = file.read().decode().splitlines()
            found[split_of(book, held_out)] += [(book, line) for line in lines if line.strip()]
    return found


def split_of(book: str, held_out: tuple[str, ...]) -> str:
    return "test" if book in held_out else "train"


def parts(text: str, unit: str) -> list[str]:
    paragraphs = [line.strip() for line in text.split("\n") if line.strip()]
    if unit == "paragraph":
        return paragraphs
    return [sentence for paragraph in paragraphs for sentence in SENTENCE.split(paragraph)]


def shingles(text: str) -> set[int]:
    """Return hashes of each SHINGLE consecutive words, or of all words if there are fewer."""
    words = re.findall(r"\w+", text.lower())
    last = max(1, len(words) - SHINGLE + 1)
    return {hash(tuple(words[i : i + SHINGLE])) for i in range(last)}


def far_from(tests: Iterable[str], pairs: Iterable[Pair]) -> list[Pair]:
    """Return the pairs whose texts share little with the test texts."""
    known = {shingle for text in tests for shingle in shingles(text)}

    def is_near(text: str) -> bool:
        own = shingles(text)
        return len(own & known) > MOST_SHARED * len(own)

    return [pair for pair in pairs if not (is_near(pair.before) or is_near(pair.after))]


def once(pairs: Iterable[Pair], most: int) -> list[Pair]:
    """Return the pairs without duplicates and without those that are too long."""
    first = {(pair.before, pair.after): pair for pair in reversed(list(pairs))}
    short = (pair for pair in first.values() if max(len(pair.before), len(pair.after)) <= most)
    return list(short)[::-1]


def mistakes(clean: list[tuple[str, str]], how: Corruption, seed: int, most: int) -> list[Pair]:
    kept = list({text: book for book, text in clean if len(text) <= most}.items())
    made = corrupted((text for text, _ in kept), how, seed)
    return [
        replace(pair, more={"source": book, "licence": "CC-BY-4.0", **pair.more})
        for pair, (_, book) in zip(made, kept, strict=True)
    ]


def spread(texts: list[tuple[str, str]], most: int | None) -> list[tuple[str, str]]:
    """Return at most `most` of the texts, evenly spaced."""
    step = 1.0 if most is None else max(1.0, len(texts) / most)
    return [texts[int(i * step)] for i in range(int(len(texts) / step))]


def collected(arguments: argparse.Namespace) -> Iterator[tuple[str, str, list[Pair]]]:
    """Yield the name, split and pairs of each output file."""
    data, unit, most = arguments.data, arguments.unit, arguments.max_chars
    held_out, seed = tuple(arguments.held_out), arguments.seed
    how = Corruption(rate=arguments.rate, unchanged=arguments.unchanged)
    clean = books(data, held_out)
    if unit == "sentence":
        clean = {
            split: [(book, part) for book, text in texts for part in parts(text, unit)]
            for split, texts in clean.items()
        }
    edits = {"revisions": revisions(data, unit, held_out), "essays": essays(data, unit)}
    sets = {name: {split: once(found[split], most) for split in found}
            for name, found in edits.items()}  # fmt: skip
    sets["mistakes"] = {
        "test": mistakes(spread(clean["test"], arguments.most), how, seed + 1, most),
        "train": mistakes(spread(clean["train"], arguments.most), how, seed, most),
    }
    tests = [text for found in sets.values() for pair in found["test"]
             for text in (pair.before, pair.after)]  # fmt: skip
    tests += [text for _, text in clean["test"]]
    for name, found in sets.items():
        far = far_from(tests, found["train"])
        print(f"{name}: {len(found['train']) - len(far):,} similar to a test text, left out")
        for split, pairs in (("test", found["test"]), ("train", far)):
            if name != "mistakes":
                pairs = list(with_unchanged(pairs, arguments.unchanged, seed))
            yield name, split, pairs


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, help="A new folder.")
    parser.add_argument("--unit", choices=UNITS, default="paragraph")
    parser.add_argument("--held-out", nargs="+", default=HELD_OUT, metavar="BOOK")
    parser.add_argument("--unchanged", type=float, default=0.3)
    parser.add_argument("--rate", type=float, default=Corruption.rate)
    parser.add_argument("--max-chars", type=int, default=2000)
    parser.add_argument("--most", type=int, help="Clean texts per split that get mistakes.")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(words)
    for name, split, pairs in collected(arguments):
        path = arguments.output / split / f"{name}.jsonl.xz"
        write_pairs(path, pairs)
        unchanged = sum(pair.is_unchanged for pair in pairs) / max(1, len(pairs))
        length = median([len(pair.after) for pair in pairs] or [0])
        print(f"{path}: {len(pairs):,} pairs, {length:.0f} characters (median),"
              f" {unchanged:.1%} unchanged")  # fmt: skip


if __name__ == "__main__":
    main()
