"""What a rule is: a name, a kind, a reason, and how it makes a suggestion for some words."""

from __future__ import annotations

from dataclasses import dataclass

from reviser.proofread.rules.text import Text
from reviser.proofread.suggestion import Suggestion


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its name, its category and its reason."""

    name: str
    category: str
    message: str
    """In a sentence for the writer. `{old}` and `{new}` are the words before and after; the pool
    fills in the second, because a suggestion may have several."""

    def words(self, text: Text, first: int, last: int, *new: str, sure: bool = False) -> Suggestion:
        """Suggest something for the words from `first` to `last`; capitals are as they were."""
        return self.span(text, text.start[first], text.end[last], *new, sure=sure)

    def span(self, text: Text, start: int, end: int, *new: str, sure: bool = False) -> Suggestion:
        """Suggest something for the characters from `start` to `end`."""
        old = text.text[start:end]
        if old[:1].isupper():
            new = tuple(word[:1].upper() + word[1:] for word in new)
            if len(old) > 1 and old.isupper() and old != "I":
                new = tuple(word.upper() for word in new)
        if "\u2019" in text.text:
            new = tuple(word.replace("'", "\u2019") for word in new)
        new = tuple(dict.fromkeys(word for word in new if word != old))
        shown = self.message.replace("{old}", old)
        return Suggestion(start, end, new, self.name, self.category, shown, sure=sure)
