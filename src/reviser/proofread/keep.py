"""Which suggestions are kept: of those that meet the surest, if it is sure enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from reviser.models.editing import Editing
from reviser.writing.changes import Change


def judged(suggestion: Change, gain: float, editing: Editing) -> Change:
    """Return a suggestion with how much likelier it makes the text, and how sure that makes us."""
    confidence = editing.confidence_of(suggestion.logprob, gain, suggestion.source)
    return replace(suggestion, gain=gain, confidence=confidence)


def may_be_kept(suggestion: Change, least: float, editing: Editing) -> bool:
    """Return whether any gain makes a suggestion sure enough; it counts only up to a limit."""
    highest = editing.confidence_of(suggestion.logprob, inf, suggestion.source)
    return highest is not None and highest >= least


def most_confident(suggestions: Sequence[Change], least: float) -> list[Change]:
    """Return suggestions that do not meet, from the left: of those that do, the most confident.

    Confidence has an upper limit; of those that reach it, the one with the highest gain counts.
    """
    rated = [(each.confidence, each) for each in suggestions if each.confidence is not None]
    chosen: list[Change] = []
    for confidence, change in sorted(rated, key=lambda pair: (-pair[0], -(pair[1].gain or 0.0))):
        is_apart = all(change.end < other.start or other.end < change.start for other in chosen)
        if is_apart and confidence >= least:
            chosen.append(change)
    return sorted(chosen, key=lambda change: change.start)
