"""What a user sees of suggestions, in every front end, and which ones the user does not want."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from reviser.proofread.suggestion import Proposer, Suggestion
from reviser.writing.changes import Change

_WORD = re.compile(r"\w+(?:[-'\u2019]\w+)*")


def whole_words(text: str, change: Change) -> Change:
    """Return a change as people read it: from “teh” to “the”, not from “eh” to “he”.

    It is shown and never applied, because the rest of a word may be locked.
    """
    start, end = change.start, change.end
    ends = [each for each in (change.before, change.after) if each]
    if not change.before or any(each[0].isalnum() for each in ends):
        while start and text[start - 1].isalnum():
            start -= 1
    if not change.before or any(each[-1].isalnum() for each in ends):
        while end < len(text) and text[end].isalnum():
            end += 1
    if change.before.isspace() and not change.after:  # a space alone cannot be seen
        while start and not text[start - 1].isspace():
            start -= 1
        while end < len(text) and not text[end].isspace():
            end += 1
    after = text[start : change.start] + change.after + text[change.end : end]
    return replace(change, start=start, end=end, before=text[start:end], after=after)


def title_of(text: str, change: Change) -> str:
    """Return what a change does, in words."""
    whole = whole_words(text, change)
    before, after = whole.before.strip(), whole.after.strip()
    if before and after:
        return f"Replace “{before}” with “{after}”"
    return f"Insert “{after}”" if after else f"Delete “{before or whole.before}”"


def word_of(text: str, change: Change) -> str:
    """Return the one word that a change replaces, which a dictionary could hold; else nothing."""
    word = whole_words(text, change).before.strip()
    return word if _WORD.fullmatch(word) else ""


def reason_of(change: Change, confidence: float | None = None) -> str:
    """Return why a change is made: its category, the reason in words and how sure we are."""
    confidence = change.confidence if confidence is None else confidence
    sure = "" if confidence is None else f"({confidence:.0%})"
    category = f"{change.category}:" if change.category else ""
    return " ".join(filter(None, (category, change.message, sure)))


def without(proposer: Proposer, words: Collection[str], ignore: Collection[str]) -> Proposer:
    """Return a proposer that suggests nothing by ignored rules, and changes no dictionary word."""
    known, ignored = frozenset(word.lower() for word in words), frozenset(ignore)
    return _Wanted(proposer, known, ignored) if known or ignored else proposer


class _Wanted:
    """A proposer with only those suggestions of another that the user wants."""

    def __init__(self, proposer: Proposer, known: frozenset[str], ignored: frozenset[str]) -> None:
        self._proposer, self._known, self._ignored = proposer, known, ignored
        self.may_be_sure = getattr(proposer, "may_be_sure", True)

    def __call__(self, text: str) -> Iterator[Suggestion]:
        for each in self._proposer(text):
            if each.rule in self._ignored or each.category in self._ignored:
                continue
            kept = tuple(new for new in each.replacements if self._keeps(text, each, new))
            if kept:
                yield replace(each, replacements=kept)

    def _keeps(self, text: str, each: Suggestion, after: str) -> bool:
        """Return whether all words of the dictionary stay."""
        before = text[each.start : each.end]
        change = Change(start=each.start, end=each.end, before=before, after=after)
        whole = whole_words(text, change)
        lost = {*_WORD.findall(whole.before)} - {*_WORD.findall(whole.after)}
        return not any(word.lower() in self._known for word in lost)
