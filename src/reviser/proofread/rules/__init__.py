"""Rules that find mistakes, without a model."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from reviser.proofread.rules.capitals import capitals
from reviser.proofread.rules.grammar import a_or_an, apostrophes, number, verb_forms
from reviser.proofread.rules.punctuation import punctuation
from reviser.proofread.rules.spelling import confused, doubled, misspelled, other_dialect
from reviser.proofread.rules.tables import listed
from reviser.proofread.rules.text import Text
from reviser.proofread.suggestion import Dialect, Suggestion

__all__ = ["Rules"]


class Rules:
    """Find mistakes by rules and lists.

    Sure suggestions need no model: their rules were measured. The others are many, and most of
    them are wrong; a language model judges them.

    >>> [(s.replacements[0], s.sure) for s in Rules()("We was here on monday for a hour.")]
    [('Monday', True), ('an', True), ...]
    """

    def __init__(self, dialect: Dialect = "auto", words: Collection[str] = ()) -> None:
        """`words` are the user's: they are never reported as misspelt."""
        self.dialect = dialect
        self.known = frozenset(word.lower() for word in words)

    def __call__(self, text: str) -> Iterator[Suggestion]:
        """Yield suggestions for a text, the sure ones first; equal ones once."""
        read = Text(text)
        found = [
            *capitals(read),
            *misspelled(read, self.known),
            *a_or_an(read),
            *doubled(read),
            *listed(read),
            *apostrophes(read),
            *verb_forms(read),
            *number(read),
            *other_dialect(read, self.dialect),
            *confused(read),
            *punctuation(read),
        ]
        seen: set[tuple[int, int, str]] = set()
        last = 0
        for each in sorted(found, key=lambda s: (not s.sure, s.start, s.end)):
            if text[each.start : each.end].lower() in self.known and each.start < each.end:
                continue
            new = tuple(r for r in each.replacements if (each.start, each.end, r) not in seen)
            if new:
                seen.update((each.start, each.end, word) for word in new)
                sure = each.sure and each.start >= last  # of two that overlap, one is sure
                last = each.end if sure else last
                yield replace(each, replacements=new, sure=sure)
