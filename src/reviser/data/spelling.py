"""Misspellings of English words, by sound and by slips of the hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from reviser.data.mistakes import choose
from reviser.data.words import LISTS

_MISSPELLINGS = [(re.compile(old), new, weight) for old, new, weight in LISTS["misspellings"]]
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEAR = {
    key: (row[max(0, i - 1) : i] + row[i + 1 : i + 2])
    + (_ROWS[n - 1][i : i + 2] if n else "")
    + (_ROWS[n + 1][max(0, i - 1) : i + 1] if n < 2 else "")
    for n, row in enumerate(_ROWS)
    for i, key in enumerate(row)
}
"""The neighbouring keys of each letter, on its row and the rows above and below."""


def misspell(word: str, rng: np.random.Generator, known: Mapping[str, int]) -> str:
    """Return a misspelling of a word: by sound in half of the cases, else by a slip of the hand.

    A result that is another known word is kept in 3 of 10 cases only: those are harder to see, and
    the kind "confusion" has its share of them.
    """
    for _ in range(12):
        new = _by_sound(word, rng) if rng.random() < 0.5 else _by_hand(word, rng)
        if new != word and (new.lower() not in known or rng.random() < 0.3):
            return new
    return word


def _by_sound(word: str, rng: np.random.Generator) -> str:
    lower = word.lower()
    found = [
        (match, change, weight)
        for pattern, change, weight in _MISSPELLINGS
        for match in pattern.finditer(lower)
    ]
    if not found:
        return word
    match, change, _ = choose(found, list(accumulate(weight for *_, weight in found)), rng)
    new = lower[: match.start()] + match.expand(change) + lower[match.end() :]
    return new[:1].upper() + new[1:] if word[0].isupper() else new


def _by_hand(word: str, rng: np.random.Generator) -> str:
    lower, size = word.lower(), len(word)
    # People rarely get the first letter wrong.
    i = int(rng.integers(1, size)) if rng.random() < 0.93 else 0
    slip = rng.random()
    if slip < 0.30:
        return word[:i] + word[i + 1 :]
    if slip < 0.58 and i + 1 < size:
        return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    if slip < 0.75:
        return word[: i + 1] + lower[i] + word[i + 1 :]
    near = _NEAR.get(lower[i])
    if near is None:
        return word
    key = near[int(rng.integers(len(near)))]
    return word[:i] + key + word[i + 1 :] if slip < 0.92 else word[: i + 1] + key + word[i + 1 :]
