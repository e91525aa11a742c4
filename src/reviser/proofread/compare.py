"""A text without and with an edit, as two branches of the history that shows it.

The model compares both as plain text: all that differs, and a few tokens after it. This needs no
training, because a language model knows which of two texts is the usual one.
"""

from __future__ import annotations

from dataclasses import dataclass

from reviser.engines.base import Branch
from reviser.engines.tree import common
from reviser.proofread.passage import Passage
from reviser.proofread.pool import Candidate

FOLLOWING = 6
"""Tokens after an edit that count. With fewer, more wrong ones pass; more help little."""
COMPARED = 64
"""Tokens that are compared: of a longer edit only the start."""


@dataclass(frozen=True)
class Comparison:
    """An edit, and the ids of the text without and with it."""

    candidate: Candidate
    without: Branch
    having: Branch

    def branches(self, *, is_first: bool) -> tuple[Branch, Branch]:
        """Return both branches, whole or only their first ids, which differ."""
        if not is_first:
            return self.without, self.having
        cut = self.without.cut
        return Branch(cut, self.without.ids[:1]), Branch(cut, self.having.ids[:1])


def compare(passage: Passage, candidate: Candidate, context: int) -> Comparison | None:
    """Return the comparison of a passage without and with an edit.

    For "The cat sat on a old mat." and "an" in place of "a", the words " on an" are encoded: one
    word before the edit, because the edit may join it. The tokens of the text follow:

        without   " on"   " a"   " old" " mat" "."
        having    " on"   " an"  " old" " mat" "."

    Both agree in " on", so the history is cut after it. None where nothing differs.
    """
    text, starts = passage.text, passage.token_at
    low = max(0, text.rfind(" ", 0, max(0, candidate.start - 1)))
    while low and low not in starts:
        low = max(0, text.rfind(" ", 0, low))
    high = text.find(" ", candidate.end)
    while high >= 0 and high not in starts:
        high = text.find(" ", high + 1)
    high = len(text) if high < 0 else high
    first, last = starts.get(low, 0), starts.get(high, len(passage.tokens))
    piece = text[low : candidate.start] + candidate.after + text[candidate.end : high]
    rest = passage.tokens[last : last + FOLLOWING]
    without = (*passage.tokens[first:last], *rest)
    having = (*passage.encode(piece, is_start=not low), *rest)
    alike = common(without, having)
    # What both end with counts only as far as the tokens that follow the edit.
    unread = max(0, common(without[alike:][::-1], having[alike:][::-1]) - FOLLOWING)
    cut = 1 + first + alike  # after the id that begins a history
    longest = max(1, min(COMPARED, context - cut))
    one, other = (each[alike : len(each) - unread][:longest] for each in (without, having))
    return Comparison(candidate, Branch(cut, one), Branch(cut, other)) if one and other else None
