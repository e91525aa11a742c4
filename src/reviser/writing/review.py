"""A second look at changes: how likely the model finds the text with and without each of them.

The model compares both texts as plain text, over the change and a few tokens after it. This needs
no training: a language model knows which of two texts is the usual one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.engines.base import Reading, Request
from reviser.writing.changes import Change

BEFORE, AFTER = 240, 60
"""Characters before and after a change that are looked at."""
FOLLOWING = 6
"""Tokens after a change that count. With fewer, more wrong changes pass; more help little."""
SHOWN, COMPARED = 24, 64
"""Tokens that the model is shown before a change, and from its start on. Of a longer change, only
the start is compared."""
TOP = 256
"""Ids that the reading of a draft holds for each position, to tell which suggestions to compare."""
INSERTED, REPLACED = 3.0, -1.0
"""Least margin, in nats, of the first token of a suggestion over the token in the draft: for a word
that is inserted, and for one that replaces another. Almost all right suggestions have it."""


@dataclass(frozen=True)
class Comparison:
    """A stretch of text without and with a change, as requests that only read it."""

    requests: tuple[Request, Request]
    first: int
    """Index of the first id that differs between the two."""
    at: int | None
    """Where in the text the first id starts that differs; None if that is within a character, or
    at the end of either text."""

    def is_plausible(
        self, change: Change, history: Sequence[int], reading: Reading, position: int
    ) -> bool:
        """Return whether the first token of a suggestion is likely enough to compare it at all.

        `history` shows the draft, and `position` is the index in it of the first token that
        differs. Most suggestions are wrong, and most of these fail here, without another forward.
        Spellings and removed words always pass. So do suggestions next to locked text, where the
        history can have other tokens.
        """
        old, new = (request.history[self.first] for request in self.requests)
        if change.source == "spelling" or not change.after or history[position] != old:
            return True
        margin = reading.at_most(position - 1, new) - reading.actual[position - 1]
        return margin >= (REPLACED if change.before else INSERTED)

    def gain(self, readings: Sequence[Reading]) -> float:
        """Return how much more likely the text is with the change, in nats."""
        without, having = (fsum(reading.text_logprobs()[self.first - 1 :]) for reading in readings)
        return having - without


def compare(text: str, change: Change, *, vocab: ActionVocab, codec: Codec) -> Comparison:
    """Return the comparison of a text with and without a change."""
    low = text.rfind(" ", 0, max(0, change.start - BEFORE)) + 1
    high = text.find(" ", min(len(text), change.end + AFTER))
    high = len(text) if high < 0 else high
    # A line break after the text judges its end: without it, a missing full stop goes unnoticed.
    end = "\n" if high == len(text) else ""
    before, after = text[low : change.start], text[change.end : high] + end
    without, having = (
        codec.encode(before + middle + after) for middle in (change.before, change.after)
    )
    shortest = min(len(without), len(having))
    same = next((n for n in range(shortest) if without[n] != having[n]), shortest)
    pairs = zip(reversed(without[same:]), reversed(having[same:]), strict=False)
    rest = next((n for n, (a, b) in enumerate(pairs) if a != b), shortest - same)
    begin = [] if vocab.begin is None else [vocab.begin]
    start, unread = max(0, same - SHOWN), max(0, rest - FOLLOWING)

    def request(ids: list[int]) -> Request:
        shown = ids[start : len(ids) - unread][: SHOWN + COMPARED]
        length = len(shown)
        return Request(
            history=(*begin, *shown), length=length, cursor=length, gaps=((length, length),)
        )

    first = max(1, len(begin) + same - start)
    inside = int(codec.char_offsets(without)[same]) if same < shortest else -1
    at = low + inside if inside >= 0 else None
    return Comparison((request(without), request(having)), first=first, at=at)
