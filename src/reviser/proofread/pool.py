"""The pool: what all proposers suggest, each edit once, with everything that speaks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from reviser.proofread.suggestion import LOCKED, Proposer, Suggestion
from reviser.writing.changes import Change


@dataclass(frozen=True)
class Candidate:
    """An edit: the characters from `start` to `end` become `after`."""

    start: int
    end: int
    before: str
    after: str
    suggestions: tuple[Suggestion, ...]
    """All that make this edit; the first says why."""

    @property
    def is_sure(self) -> bool:
        """True if the edit needs no judge."""
        return any(each.sure for each in self.suggestions)

    def change(self, *, gain: float | None = None, confidence: float | None = None) -> Change:
        """Return this edit as a change of its text."""
        reason = self.suggestions[0]
        return Change(
            start=self.start,
            end=self.end,
            before=self.before,
            after=self.after,
            gain=gain,
            confidence=confidence,
            source=reason.source,
            rule=reason.rule,
            category=reason.category,
            message=reason.message.replace("{new}", self.after),
        )


def hidden(text: str, locked: Iterable[tuple[int, int]]) -> str:
    r"""Return a text in which locked characters cannot be read; lines stay.

    >>> hidden("Use `ls`\nnow", [(4, 9)]).replace(LOCKED, "_")
    'Use ____\nnow'
    """
    parts, done = [], 0
    for start, end in locked:
        parts += [text[done:start], "".join("\n" if c == "\n" else LOCKED for c in text[start:end])]
        done = end
    return "".join([*parts, text[done:]])


def pool(
    text: str,
    proposers: Iterable[Proposer],
    may_change: Callable[[int, int], bool],
    *,
    shown: str | None = None,
) -> list[Candidate]:
    """Return what proposers suggest for a text, where it may change.

    `shown` is the text as proposers get it, with locked characters hidden. Edits with the same
    result are one candidate: "an" for "a" and an "n" after it, or either "of" of "of of" deleted.
    """
    shown = text if shown is None else shown
    found: dict[tuple[int, int, str], Candidate] = {}
    for proposer in proposers:
        for suggestion in proposer(shown):
            start, end = suggestion.start, suggestion.end
            before = text[start:end]
            if LOCKED in shown[start:end] or not may_change(start, end):
                continue
            for after in suggestion.replacements:
                if after == before:
                    continue
                key = _canonical(text, start, end, after)
                if key in found:
                    known = found[key]
                    reasons = (*known.suggestions, suggestion)
                    found[key] = replace(known, suggestions=reasons)
                else:
                    found[key] = Candidate(start, end, before, after, (suggestion,))
    return sorted(found.values(), key=lambda each: (each.start, each.end))


def _canonical(text: str, start: int, end: int, after: str) -> tuple[int, int, str]:
    """Return an edit without what stays, and as far to the left as it can be made."""
    while start < end and after and text[end - 1] == after[-1]:
        end, after = end - 1, after[:-1]
    while start < end and after and text[start] == after[0]:
        start, after = start + 1, after[1:]
    while start and start == end and after and text[start - 1] == after[-1]:
        start, end, after = start - 1, end - 1, after[-1] + after[:-1]
    while start and start < end and not after and text[start - 1] == text[end - 1]:
        start, end = start - 1, end - 1
    return start, end, after
