"""The windows of a long text: parts that a model revises one at a time, with context."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from reviser.core.codec import Codec


def windows(
    codec: Codec, text: str, window: int, context: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the windows of a text as character positions: context start, start, end, context end.

    A window ends before a sentence, or else before a word, where it can.
    """
    (tokens,) = codec.encode_parts([text])
    if len(tokens) <= window:
        yield 0, 0, len(text), len(text)
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
        at = characters[[low, start, end, high]].tolist()
        yield at[0], at[1], at[2], at[3]
        start = end
