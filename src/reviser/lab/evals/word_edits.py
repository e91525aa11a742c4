"""Word-level edits between two texts: alignment, edits, and what is left alone.

Hypotheses and references use the same alignment rule. This module knows words, but not scores,
models or tokenizers.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

ONE, EXCHANGE = 10, 11
"""Costs of an insertion or deletion, and of a replacement, in the edit distance.

A replacement costs hardly more, so that the alignment prefers it to a deletion and an insertion.
"""

_PIECE = re.compile(r"\w+|\s+|[^\w\s]")


class WordEdit(NamedTuple):
    """A span of words of the source and the words that replace it."""

    start: int
    end: int
    words: tuple[str, ...]


def edits_between(source: str, revised: str) -> list[WordEdit]:
    """Return the edits that turn one tokenized text into the other.

    An edit is a stretch between words that both texts share (see `aligned`). A stretch with as many
    words on both sides counts as that many edits. The rule has no linguistics: these are not
    ERRANT's edits, and scores are not comparable with ERRANT's.

    >>> edits_between("he go to school", "he went to the school")
    [WordEdit(start=1, end=2, words=('went',)), WordEdit(start=3, end=3, words=('the',))]
    """
    old, new = source.split(), revised.split()
    edits, i, j = [], 0, 0
    for a, b in [*aligned(old, new), (len(old), len(new))]:
        if a - i == b - j:
            edits += [WordEdit(i + k, i + k + 1, (new[j + k],)) for k in range(a - i)]
        elif (a, b) != (i, j):
            edits.append(WordEdit(i, a, tuple(new[j:b])))
        i, j = a + 1, b + 1
    return edits


def pieces(text: str) -> list[str]:
    """Split a text into words, punctuation marks and runs of spaces."""
    return _PIECE.findall(text)


def untouched(source: str, revised: str) -> set[int]:
    """Return the indices of the source's `pieces` that the revised text keeps.

    The alignment is that of `edits_between`. All spaces are alike, so a space only counts as kept
    next to another piece that is kept.
    """
    old, new = pieces(source), pieces(revised)
    pairs = aligned(old, new)
    solid = {(i, j) for i, j in pairs if not old[i].isspace()}
    return {
        i for i, j in pairs if (i, j) in solid or (i - 1, j - 1) in solid or (i + 1, j + 1) in solid
    }


def aligned(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the indices of items that both sequences share, in an alignment with fewest changes.

    Of two alignments with equally many changes, the one that keeps more items is returned.

    >>> aligned("abcd", "acxd")
    [(0, 0), (2, 1), (3, 3)]
    """
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    rest = shorter - head
    tail = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    ends = len(old) - tail, len(new) - tail
    return [
        *((n, n) for n in range(head)),
        *((head + i, head + j) for i, j in _by_table(old[head : ends[0]], new[head : ends[1]])),
        *((ends[0] + n, ends[1] + n) for n in range(tail)),
    ]


def _by_table(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Align by the usual table of edit distances, filled row by row and traced back."""
    codes: dict[Hashable, int] = {}
    mine, theirs = (
        np.array([codes.setdefault(item, len(codes)) for item in items], np.int32)
        for items in (old, new)
    )
    put_in = ONE * np.arange(len(new) + 1, dtype=np.int32)
    table = np.empty((len(old) + 1, len(new) + 1), np.int32)
    table[0] = put_in
    for i, item in enumerate(mine):
        row = table[i] + ONE
        np.minimum(row[1:], table[i, :-1] + EXCHANGE * (theirs != item), out=row[1:])
        # Insertions depend on the cell to their left; subtracting their cost turns them into a
        # running minimum, so that the row needs no loop.
        table[i + 1] = np.minimum.accumulate(row - put_in) + put_in
    # The way back prefers the diagonal, so equal costs give the same alignment everywhere.
    pairs, i, j = [], len(old), len(new)
    while i and j:
        is_equal = mine[i - 1] == theirs[j - 1]
        if table[i, j] == table[i - 1, j - 1] + (0 if is_equal else EXCHANGE):
            i, j = i - 1, j - 1
            if is_equal:
                pairs.append((i, j))
        elif table[i, j] == table[i - 1, j] + ONE:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]
