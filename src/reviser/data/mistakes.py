"""Draw mistakes for a clean text: where they fall, and what they make of it.

A mistake falls on a site: a span of characters that one kind of mistake can change. This module
knows no language: `reviser.data.english` has kinds of mistakes, and callers can pass their own.
All mistakes are planned on the clean text, so no mistake falls on another.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

import numpy as np

_T = TypeVar("_T")


class Word(NamedTuple):
    """A word or a punctuation mark of a text."""

    start: int
    end: int
    tag: str
    """Its part of speech, as in the Penn Treebank; empty if it is not known."""
    text: str

    @property
    def lower(self) -> str:
        """The word in lower case."""
        return self.text.lower()


class Site(NamedTuple):
    """A span of the clean text and its possible replacements."""

    start: int
    end: int
    options: Sequence[str] | Callable[[str, np.random.Generator], str]
    weight: float = 1.0


class Kind(NamedTuple):
    """A kind of mistake: how often it is drawn, and where it is possible."""

    name: str
    weight: float
    sites: Callable[[str, Sequence[Word]], Iterable[Site]]


class Mistake(NamedTuple):
    """One mistake: `start` to `end` of the clean text became `text`."""

    kind: str
    start: int
    end: int
    text: str


def draw(
    text: str,
    words: Sequence[Word],
    kinds: Sequence[Kind],
    count: int,
    rng: np.random.Generator,
    *,
    tries: int,
) -> list[Mistake]:
    """Draw up to `count` mistakes, in text order and apart.

    What stands in no word is never changed, other than spaces. There are fewer mistakes if the
    text has no room for more, or after `tries` draws.
    """
    fixed = bytearray(char != " " for char in text)
    for word in words:
        fixed[word.start : word.end] = bytes(word.end - word.start)
    left, sites, sums = list(kinds), dict[str, list[Site]](), dict[str, list[float]]()
    taken = bytearray(len(text) + 2)
    made: list[Mistake] = []
    for _ in range(tries):
        if len(made) >= count or not left:
            break
        kind = choose(left, list(accumulate(kind.weight for kind in left)), rng)
        name = kind.name
        if name not in sites:
            found = kind.sites(text, words)
            sites[name] = [site for site in found if not any(fixed[site.start : site.end])]
            sums[name] = list(accumulate(site.weight for site in sites[name]))
        if not sites[name]:
            left.remove(kind)
            continue
        start, end, options, _ = choose(sites[name], sums[name], rng)
        # One more character on both sides, so that two mistakes never touch.
        if any(taken[start : end + 2]):
            continue
        old = text[start:end]
        new = options(old, rng) if callable(options) else options[int(rng.integers(len(options)))]
        if new == old:
            continue
        taken[start : end + 2] = b"\1" * (end + 2 - start)
        made.append(Mistake(name, start, end, new))
    return sorted(made, key=lambda mistake: mistake.start)


def choose(things: Sequence[_T], sums: Sequence[float], rng: np.random.Generator) -> _T:
    """Draw one of some things by the running sums of their weights."""
    return things[min(bisect_right(sums, rng.random() * sums[-1]), len(things) - 1)]


def apply(text: str, mistakes: Iterable[Mistake]) -> str:
    """Return the text with the mistakes in it, which are in text order."""
    parts, done = [], 0
    for mistake in mistakes:
        parts += [text[done : mistake.start], mistake.text]
        done = mistake.end
    return "".join([*parts, text[done:]])
