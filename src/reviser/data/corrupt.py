"""Pairs from clean English text: mistakes are inserted, and the clean text is the target.

Only plain words and the punctuation and spaces next to them are changed. Line ends stay, and so
does everything between two spaces that has digits, slashes and the like, such as numbers, addresses
and most code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reviser.data import english
from reviser.data.mistakes import Kind, Mistake, apply, draw
from reviser.data.pairs import Pair
from reviser.data.words import read_words
from reviser.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Corruption:
    """The number and the kinds of mistakes, and the share of texts without any."""

    rate: float = 5.0
    """Mean number of mistakes per 100 words. A text that has any has at least one."""
    unchanged: float = 0.3
    """Share of pairs without a mistake, from which a model learns to stop at once."""
    kinds: Sequence[Kind] = english.KINDS
    """The kinds of mistakes, each with its weight."""

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 100:
            raise ConfigError(f"rate is {self.rate}; it must be above 0 and at most 100.")
        if not 0 <= self.unchanged <= 1:
            raise ConfigError(f"unchanged is {self.unchanged}; it must be 0 to 1.")
        if not self.kinds or not all(0 < kind.weight < np.inf for kind in self.kinds):
            weights = {kind.name: kind.weight for kind in self.kinds}
            raise ConfigError(f"kinds is {weights}; give at least one a weight, all above 0.")


def corrupt(text: str, rng: np.random.Generator, corruption: Corruption | None = None) -> str:
    """Return the text with mistakes; unchanged only if no mistake is possible in it."""
    return apply(text, _drawn(text, rng, corruption or Corruption()))


def corrupted(texts: Iterable[str], corruption: Corruption, seed: int) -> Iterator[Pair]:
    """Yield a pair for each clean text. Pair n depends only on the seed, n and its text."""
    for n, text in enumerate(texts):
        rng = np.random.default_rng((seed, n))
        keep = rng.random() < corruption.unchanged
        mistakes = [] if keep else _drawn(text, rng, corruption)
        kinds = {"mistakes": [mistake.kind for mistake in mistakes]}
        yield Pair(before=apply(text, mistakes), after=text, more=kinds)


def _drawn(text: str, rng: np.random.Generator, corruption: Corruption) -> list[Mistake]:
    """Draw mistakes that together change the text."""
    words = read_words(text)
    size = sum(word.text[0].isalpha() for word in words)
    count = max(1, int(rng.poisson(corruption.rate * size / 100)))
    # Enough to find out that most kinds have no site in a short text, and to make one mistake.
    tries = 20 * count + 100
    mistakes = draw(text, words, corruption.kinds, count, rng, tries=tries)
    if apply(text, mistakes) == text:  # "so so so": one is left out, another one written twice
        del mistakes[1:]
    return mistakes
