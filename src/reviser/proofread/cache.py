"""What a language model said about edits, kept by the sentence.

An answer is used again for the same comparison after the same text, back to the start of the
sentence before. So an edit of a text costs its own sentence and the next one. What is farther away
is left out: the answer may differ a little from the one that the model would give now.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from reviser.engines.base import Branch
from reviser.proofread.passage import Passage

CACHED = 50_000
"""Answers that are kept, a few hundred bytes each."""
NEAR = 16
"""Least number of ids before a sentence that count; the sentence before it may be "Hi!"."""
T = TypeVar("T")


class Cache(Generic[T]):
    """Answers of one language model about comparisons of two branches."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, T] = OrderedDict()

    def get(self, passage: Passage, branches: Sequence[Branch]) -> T | None:
        """Return what was kept about two branches of a passage."""
        key = _key(passage, branches)
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, passage: Passage, branches: Sequence[Branch], answer: T) -> None:
        """Keep an answer, and drop the oldest if there are too many."""
        self._kept[_key(passage, branches)] = answer
        while len(self._kept) > CACHED:
            self._kept.popitem(last=False)


def _key(passage: Passage, branches: Sequence[Branch]) -> bytes:
    """Return what decides about an answer: the ids of the branches, and those before that count."""
    cut = branches[0].cut - 1  # without the id that begins a history
    starts = passage.sentences
    own = starts[np.searchsorted(starts, cut, side="right") - 1]
    before = starts[max(0, np.searchsorted(starts, own - NEAR, side="right") - 1)]
    ids = [*passage.tokens[before:cut]]
    for branch in branches:
        ids += (-1, *branch.ids)
    return np.array(ids, np.int32).tobytes()
