"""A passage: a part of a text, as the judge reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from reviser.core.codec import UNITS, Codec
from reviser.engines.base import Score
from reviser.writing.windows import Window, windows

WINDOW, BEFORE = 192, 64
"""Tokens of a text that are judged at a time, and tokens that the judge reads before them."""
AFTER = 60
"""Characters that it reads after them, which show whether the last words are right."""


@dataclass(frozen=True)
class Passage:
    """A window of a text with what stands around it; positions count its own characters."""

    text: str
    window: Window
    """Where it stands in the whole text."""
    tokens: tuple[int, ...]
    begin: int
    """The id that begins a history."""
    codec: Codec

    @cached_property
    def token_at(self) -> dict[int, int]:
        """Numbers of tokens, by the positions in the text where they begin."""
        starts = self.codec.char_offsets(self.tokens)[: len(self.tokens)].tolist()
        return {start: n for n, start in enumerate(starts) if start >= 0}

    @cached_property
    def sentences(self) -> npt.NDArray[np.intp]:
        """Numbers of the tokens that begin a sentence; the first one does."""
        return np.flatnonzero(self.codec.unit_starts(self.tokens) & UNITS["sentence"])

    @property
    def words(self) -> int:
        """Number of words that are judged."""
        window = self.window
        by = window.context_start
        return len(self.text[window.start - by : window.end - by].split())

    @property
    def score(self) -> Score:
        """The question how likely the text is."""
        return Score((self.begin, *self.tokens))

    def encode(self, piece: str, *, is_start: bool) -> list[int]:
        """Encode a piece of a text byte for byte, at its start or within it."""
        if is_start or not self.codec.hides_first_space:
            return self.codec.encode_parts([piece])[-1]
        return self.codec.encode_parts(["", piece])[-1]


def passages(codec: Codec, text: str, begin: int) -> Iterator[Passage]:
    """Yield the passages of a text, from the left."""
    for window in windows(codec, text, WINDOW, BEFORE):
        shown = text[window.context_start : window.end + AFTER]
        # A line break after the text judges its end: without it, a missing full stop is not seen.
        shown += "\n" * (window.end + AFTER >= len(text))
        (tokens,) = codec.encode_parts([shown])
        yield Passage(shown, window, tuple(tokens), begin, codec)
