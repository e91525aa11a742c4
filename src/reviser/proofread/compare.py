"""A text without and with a suggestion, as two branches of the history that shows it.

The model compares both as plain text: all that differs, and a few tokens after it. This needs no
training, because a language model knows which of two texts is the usual one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reviser.engines.base import Branch
from reviser.proofread.draft import Draft
from reviser.writing.changes import Change
from reviser.writing.prompts import Model

AFTER = 60
"""Characters after a suggestion that are encoded with it."""
FOLLOWING = 6
"""Tokens after a suggestion that count. With fewer, more wrong ones pass; more help little."""
COMPARED = 64
"""Tokens that are compared: of a longer suggestion only the start."""
INSERTED, REPLACED = 3.0, -1.0
"""Least margin, in nats, of the first token of a suggestion over the token in the draft: for a word
that is inserted, and for one that replaces another. Almost all right suggestions have it."""


@dataclass(frozen=True)
class Comparison:
    """A suggestion, and the ids of the text without and with it."""

    suggestion: Change
    without: Branch
    having: Branch
    alike: int
    """Ids that both begin with: none, unless the draft was encoded in another way there."""

    def branches(self, *, is_first: bool) -> tuple[Branch, Branch]:
        """Return both branches, whole or up to the first id that differs."""
        stop = self.alike + 1 if is_first else None
        cut = self.without.cut
        return Branch(cut, self.without.ids[:stop]), Branch(cut, self.having.ids[:stop])

    def is_plausible(self, margin: float) -> bool:
        """Return whether the first token of a suggestion is likely enough to compare all of it.

        Most suggestions are wrong, and most of these fail here. Spellings and removed words pass.
        """
        change = self.suggestion
        if change.source == "spelling" or not change.after:
            return True
        return margin >= (REPLACED if change.before else INSERTED)


def compare(draft: Draft, suggestion: Change, model: Model) -> Comparison | None:
    """Return the comparison of a window without and with a suggestion.

    For "The cat sat on a old mat." and "an" in place of "a", the text from " on" on is encoded
    with both. Both agree with the draft's tokens in " on", so the history is cut after it:

        without   " a"   " old" " mat" "."
        having    " an"  " old" " mat" "."

    None where nothing differs in what is compared, or nothing stands before it.
    """
    text, start, end = draft.prompt.text, suggestion.start, suggestion.end
    # From a whole word before the suggestion on, because it may join the word that it stands in.
    low = max(0, text.rfind(" ", 0, max(0, start - 1)))
    while low and low not in draft.token_at:
        low = max(0, text.rfind(" ", 0, low))
    high = text.find(" ", min(len(text), end + AFTER))
    high = len(text) if high < 0 else high
    # A line break after the draft judges its end: without it, a missing full stop goes unnoticed.
    is_end = high == len(text) and draft.window.end == len(draft.task.draft)
    after = text[end:high] + "\n" * is_end
    without = _encode(text[low:start] + suggestion.before + after, model, is_start=not low)
    having = _encode(text[low:start] + suggestion.after + after, model, is_start=not low)
    first = draft.token_at[low] if low else 0
    parting = _common(without, having)
    same = min(parting, _common(without, draft.tokens[first:]))
    unread = max(0, _common(without[parting:][::-1], having[parting:][::-1]) - FOLLOWING)
    if not draft.positions:
        return None
    at = first + same
    cut = draft.positions[at] if at < len(draft.positions) else draft.positions[-1] + 1
    longest = min(COMPARED, model.context - cut)
    one = Branch(cut, tuple(without[same : len(without) - unread][:longest]))
    other = Branch(cut, tuple(having[same : len(having) - unread][:longest]))
    alike = parting - same
    if not cut or alike >= min(len(one.ids), len(other.ids)):
        return None
    return Comparison(suggestion, one, other, alike)


def _encode(piece: str, model: Model, *, is_start: bool) -> list[int]:
    """Encode a piece of a text byte for byte, at its start or within it."""
    return model.codec.encode_parts([piece] if is_start else ["", piece])[-1]


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many ids two sequences have in common at their start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))
