"""Drafts of a given length with a given number of mistakes, to measure what mending them costs.

From clean paragraphs, parted by blank lines: some of them in a row, cut after about so many tokens,
and mistakes far enough apart that each is an edit of its own. The mistakes are plain (a word
misspelled, left out, written twice, of the other case or exchanged for its like); they are there to
be counted, not to be lifelike.

    python benchmarks/revise/drafts.py CLEAN.txt --tokenizer models/stories-append -o drafts.jsonl
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from reviser import Codec
from reviser.core.codec import read_tokenizer
from reviser.data.files import write_whole
from reviser.errors import DataError

SIZES = (25, 100, 250, 500, 1000, 2000)
MISTAKES = (1, 2, 5, 10, 20)
APART = 3
"""A mistake for so many words at most; texts too short for theirs are left out."""

OMITTED = 0.2
"""How often a mistake is a word left out, with the space before it."""

LIKE = [["a", "an", "the"], ["is", "are", "was", "were"], ["in", "on", "at"], ["to", "for", "of"]]
EXCHANGES = {word: [w for w in group if w != word] for group in LIKE for word in group}
LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A text with mistakes in it, and the text without."""

    id: str
    size: int
    """Tokens asked for; `tokens` are those of the draft."""
    mistakes: int
    tokens: int
    draft: str
    clean: str


def drafts(
    paragraphs: Sequence[str],
    count: Callable[[str], int],
    *,
    each: int,
    seed: int,
    sizes: Sequence[int] = SIZES,
    mistakes: Sequence[int] = MISTAKES,
) -> Iterator[Draft]:
    """Some drafts of every size and number of mistakes; each has random numbers of its own.

    Drafts of one size and number within it are the same text, whatever their mistakes.
    """
    for size, number in product(sizes, range(each)):
        clean = passage(paragraphs, size, count, random.Random(f"{seed} {size} {number}"))
        for many in mistakes:
            if many * APART > len(clean.split()):
                continue
            rng = random.Random(f"{seed} {size} {number} {many}")
            draft = corrupted(clean, many, rng)
            yield Draft(
                id=f"{size}-{many}-{number}",
                size=size,
                mistakes=many,
                tokens=count(draft),
                draft=draft,
                clean=clean,
            )


def passage(
    paragraphs: Sequence[str], size: int, count: Callable[[str], int], rng: random.Random
) -> str:
    """Paragraphs in a row from a random one on, cut behind the last word that fits."""
    first = rng.randrange(len(paragraphs))
    text = ""
    for paragraph in (*paragraphs[first:], *paragraphs[:first]):
        text = f"{text}\n\n{paragraph}" if text else paragraph
        if count(text) >= size:
            break
    else:
        raise DataError(f"All paragraphs together have {count(text)} tokens; {size} are needed.")
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    low, high = 1, len(ends)  # the first words that fit: between these many
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[: ends[middle - 1]]) <= size else (low, middle - 1)
    return text[: ends[low - 1]]


def corrupted(text: str, many: int, rng: random.Random) -> str:
    """The text with so many mistakes, no two of them in neighbouring words."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    if many * APART > len(spans):
        raise DataError(f"{len(spans)} words have no room for {many} mistakes.")
    # Choosing from a list without the words between gives places at least APART apart.
    room = len(spans) - (many - 1) * (APART - 1)
    places = [n * (APART - 1) + i for n, i in enumerate(sorted(rng.sample(range(room), many)))]
    for place in reversed(places):
        start, end = spans[place]
        before = text[spans[place - 1][1] : start] if place else ""
        beside = {text[slice(*spans[n])] for n in (place - 1, place + 1) if 0 <= n < len(spans)}
        if before == " " and text[start:end] not in beside and rng.random() < OMITTED:
            text = text[: start - 1] + text[end:]
        else:
            text = text[:start] + mistaken(text[start:end], beside, rng) + text[end:]
    return text


def mistaken(word: str, beside: set[str], rng: random.Random) -> str:
    """The word with a mistake, which must not make it like one beside it."""
    found = LETTERS.search(word)
    ways = [f"{word} {word}"]
    if found:
        letters = found[0]
        ways.append(word.replace(letters, letters.swapcase(), 1))
        ways += [word.replace(letters, other, 1) for other in EXCHANGES.get(letters, ())]
        if len(letters) > 3:
            i = rng.randrange(1, len(letters) - 1)
            ways.append(word.replace(letters, letters[:i] + letters[i + 1 :], 1))
            ways.append(word.replace(letters, letters[:i] + letters[i] + letters[i:], 1))
    return rng.choice([way for way in ways if way not in {word, *beside}])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--tokenizer", required=True, help="a folder with tokenizer.json, to count")
    parser.add_argument("--each", type=int, default=10, help="drafts of each kind")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="in tokens")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    codec = Codec(read_tokenizer(given.tokenizer))
    text = given.text.read_text(encoding="utf-8")
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    options = {"each": given.each, "seed": given.seed, "sizes": given.sizes}
    made = drafts(paragraphs, lambda t: len(codec.encode(t)), **options)
    lines = [json.dumps(asdict(draft), ensure_ascii=False) + "\n" for draft in made]
    write_whole(given.output, "".join(lines))


if __name__ == "__main__":
    main()
