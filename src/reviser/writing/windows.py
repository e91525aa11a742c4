"""The windows of a long text: parts that a model revises one at a time, with context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from reviser.core.codec import Codec


class Window(NamedTuple):
    """A part of a text, and the context in which it is shown, as positions of characters."""

    context_start: int
    start: int
    end: int
    context_end: int


def windows(codec: Codec, text: str, window: int, context: int) -> Iterator[Window]:
    """Yield the windows of a text.

    A window ends before a sentence, or else before a word, where it can.
    """
    (tokens,) = codec.encode_parts([text])
    if len(tokens) <= window:
        yield Window(0, 0, len(text), len(text))
        return
    units, characters = codec.unit_starts(tokens), codec.char_offsets(tokens)
    whole = np.flatnonzero(characters >= 0)  # boundaries that are not within a character
    start = 0
    while start < len(tokens):
        end = len(tokens)
        if len(tokens) - start > window:
            reach = [start + 1, start + (window + 1) // 2, start + window + 1]
            following, first, last = np.searchsorted(whole, reach)
            late = whole[first:last]
            if not late.size:  # a character of many tokens
                late = whole[following : following + 1]
            if late[0] < len(tokens):
                rank = units[late]  # sentences before words before tokens
                end = int(late[np.flatnonzero(rank == rank.max())[-1]])
        low = whole[np.searchsorted(whole, max(0, start - context), side="right") - 1]
        high = whole[np.searchsorted(whole, min(len(tokens), end + context))]
        yield Window(*characters[[low, start, end, high]].tolist())
        start = end
