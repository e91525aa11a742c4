"""Make drafts of a given length with a given number of mistakes, to measure what fixing them costs.

The input is clean paragraphs, separated by blank lines. A draft is some of them in a row, cut after
about the right number of tokens, with mistakes far enough apart that each is an edit of its own.
The mistakes are simple (a word misspelled, left out, repeated, with the other case, or swapped for
a similar one): they need to be countable, not realistic.

    python -m experiments.revise.drafts CLEAN.txt --tokenizer models/stories-revise -o drafts.jsonl
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
from reviser.errors import DataError
from reviser.files import write_whole

SIZES = (25, 100, 250, 500, 1000, 2000)
MISTAKES = (1, 2, 5, 10, 20)
APART = 3
"""The fewest words per mistake; texts that are too short for their mistakes are left out."""

OMITTED = 0.2
"""The probability that a mistake is a missing word, with the space before it."""

LIKE = [["a", "an", "the"], ["is", "are", "was", "were"], ["in", "on", "at"], ["to", "for", "of"]]
EXCHANGES = {word: [w for w in group if w != word] for group in LIKE for word in group}
LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A text with mistakes, and the text without them."""

    id: str
    size: int
    """The requested number of tokens; `tokens` is the draft's own."""
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
    """Yield drafts of every size and number of mistakes, each from its own random numbers.

    Drafts with the same size and index have the same clean text, whatever their mistakes.
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
    """Return paragraphs in a row, starting at a random one, cut after the last word that fits."""
    first = rng.randrange(len(paragraphs))
    text = ""
    for paragraph in (*paragraphs[first:], *paragraphs[:first]):
        text = f"{text}\n\n{paragraph}" if text else paragraph
        if count(text) >= size:
            break
    else:
        raise DataError(f"All paragraphs together have {count(text)} tokens; {size} are needed.")
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    low, high = 1, len(ends)  # bounds of the number of words that fit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[: ends[middle - 1]]) <= size else (low, middle - 1)
    return text[: ends[low - 1]]


def corrupted(text: str, many: int, rng: random.Random) -> str:
    """Return the text with `many` mistakes, no two of them in adjacent words."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    if many * APART > len(spans):
        raise DataError(f"{len(spans)} words are too few for {many} mistakes.")
    # Choosing from a list without the words between gives indices at least APART apart.
    free = len(spans) - (many - 1) * (APART - 1)
    chosen = [n * (APART - 1) + i for n, i in enumerate(sorted(rng.sample(range(free), many)))]
    for word in reversed(chosen):
        start, end = spans[word]
        before = text[spans[word - 1][1] : start] if word else ""
        adjacent = {text[slice(*spans[n])] for n in (word - 1, word + 1) if 0 <= n < len(spans)}
        if before == " " and text[start:end] not in adjacent and rng.random() < OMITTED:
            text = text[: start - 1] + text[end:]
        else:
            text = text[:start] + mistaken(text[start:end], adjacent, rng) + text[end:]
    return text


def mistaken(word: str, adjacent: set[str], rng: random.Random) -> str:
    """Return the word with a mistake that does not make it equal to an adjacent word."""
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
    return rng.choice([way for way in ways if way not in {word, *adjacent}])


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--tokenizer", required=True, help="Folder with tokenizer.json.")
    parser.add_argument("--each", type=int, default=10, help="Drafts of each size and number.")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="Sizes in tokens.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args(words)
    codec = Codec(read_tokenizer(given.tokenizer))
    text = given.text.read_text(encoding="utf-8")
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    options = {"each": given.each, "seed": given.seed, "sizes": given.sizes}
    made = drafts(paragraphs, lambda t: len(codec.encode(t)), **options)
    lines = [json.dumps(asdict(draft), ensure_ascii=False) + "\n" for draft in made]
    write_whole(given.output, "".join(lines))


if __name__ == "__main__":
    main()
