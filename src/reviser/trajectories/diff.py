"""The diff of two token sequences: which hunks change, at the least cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reviser.errors import ConfigError

Tokens = npt.NDArray[np.int32]
Starts: TypeAlias = tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]
"""Masks of the tokens of before and of after that begin a word."""

REACH = 2
"""The cost of a hunk in addition to its tokens: about the ids it takes to get to it.

A diff costs one for every token it removes or inserts, and REACH for every hunk. Among diffs of
the same cost, the one whose bounds lie inside words least often is chosen.
"""

_MARGIN = 16  # equal tokens around a change over which its hunks may shift to begin with a word


@dataclass(frozen=True, slots=True)
class Hunk:
    """One change: `tokens` take the place of before[start:end]."""

    start: int
    end: int
    tokens: tuple[int, ...]

    @property
    def removed(self) -> int:
        """Number of tokens that the hunk removes."""
        return self.end - self.start


def diff(
    before: Sequence[int], after: Sequence[int], *, starts: Starts | None = None
) -> list[Hunk]:
    """Return the hunks of least cost (`REACH`), in order and apart from each other.

    >>> diff([1, 2, 3, 4, 5, 6], [1, 7, 3, 4, 5])
    [Hunk(start=1, end=2, tokens=(7,)), Hunk(start=5, end=6, tokens=())]
    """
    # Deleting and inserting are always enough, so there is a diff; a replacement costs the same.
    hunks = align(as_tokens(before), as_tokens(after), starts, may_delete=True, may_replace=False)
    assert hunks is not None
    return hunks


def align(
    before: Tokens, after: Tokens, starts: Starts | None, *, may_delete: bool, may_replace: bool
) -> list[Hunk] | None:
    """Return the diff of least cost, or None if these operations cannot make it.

    A replacement changes a token in place, so it needs no deletion.
    """
    from reviser.trajectories._kernels import diff as kernel  # numba takes a second to import

    # The program takes time and memory n * m, and most of a draft does not change: cut off what
    # is equal at both ends. With words to align to, hunks may shift over a little of it.
    margin = 0 if starts is None else _MARGIN
    shortest = min(len(before), len(after))
    head = _common(before[:shortest], after[:shortest])
    tail = _common(before[::-1][: shortest - head], after[::-1][: shortest - head])
    head, tail = max(0, head - margin), max(0, tail - margin)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    bounds = [
        _word_bounds(None if starts is None else starts[n], len(text), head, tail)
        for n, text in enumerate((before, after))
    ]
    # The kernel compares what is left; its hunks count from `head` in both texts.
    rows, found = kernel.align(old, new, *bounds, REACH, may_delete, may_replace)
    if not found:
        return None
    return [
        Hunk(head + start, head + end, tuple(new[low:high].tolist()))
        for start, end, low, high in rows.tolist()
    ]


def as_tokens(tokens: Sequence[int]) -> Tokens:
    """Return tokens as the array that the kernels read."""
    return np.array(tokens, np.int32)


def _word_bounds(
    starts: npt.NDArray[np.bool_] | None, length: int, head: int, tail: int
) -> npt.NDArray[np.bool_]:
    """Return which boundaries of the compared part lie between words."""
    if starts is None:
        return np.ones(length - head - tail + 1, np.bool_)
    if len(starts) != length:
        raise ConfigError(f"starts has {len(starts)} entries for {length} tokens: give one each.")
    # The end of a text is between words, and so is every boundary before a word's first token.
    whole = np.append(np.asarray(starts, np.bool_), np.True_)
    return whole[head : length - tail + 1]


def _common(first: Tokens, second: Tokens) -> int:
    """Return the length of the common beginning of two texts of one length."""
    # One vectorised comparison: drafts are long, and this runs for every pair of training data.
    differ = np.flatnonzero(first != second)
    return int(differ[0]) if differ.size else len(first)
