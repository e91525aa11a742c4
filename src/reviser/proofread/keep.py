"""Which edits are kept: of those that meet, the surest, if it is sure enough."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from reviser.writing.changes import Change, Changes


def most_confident(suggestions: Sequence[Change], least: float) -> list[Change]:
    """Return changes that do not meet, from the left: of those that do, the most confident."""
    sure = [each for each in suggestions if (each.confidence or 0.0) >= least]
    chosen: list[Change] = []
    for change in sorted(sure, key=lambda each: (-(each.confidence or 0.0), -(each.gain or 0.0))):
        if all(change.end < other.start or other.end < change.start for other in chosen):
            chosen.append(change)
    return sorted(chosen, key=lambda change: change.start)


def longest_apart(changes: Sequence[Change]) -> list[Change]:
    """Return changes that do not meet, from the left: of those that do, the longest."""
    chosen: list[Change] = []
    for change in sorted(changes, key=lambda each: (each.start - each.end, each.start)):
        if all(change.end < other.start or other.end < change.start for other in chosen):
            chosen.append(change)
    return sorted(chosen, key=lambda change: change.start)


def composed(first: Changes, then: Sequence[Change]) -> Changes:
    """Return some changes, and those made to their result, as changes of the first draft.

    Those that meet are one change, with the reason of the later one.
    """
    draft, between = first.draft, first.text
    early, late, found = deque(first.changes), deque(then), list[Change]()
    moved = 0  # from the draft to the text between, behind the early changes so far
    while early or late:
        # The next run of changes that meet, as a span of the text between.
        starts = [change.start for change in islice(late, 1)]
        starts += [change.start + moved for change in islice(early, 1)]
        end = done = min(starts)
        low, reasons, parts = end - moved, deque[Change](), list[str]()
        while True:
            if early and early[0].start + moved <= end:
                reasons.append(early.popleft())
                end = max(end, reasons[-1].start + moved + len(reasons[-1].after))
                moved += len(reasons[-1].after) - len(reasons[-1].before)
            elif late and late[0].start <= end:
                reasons.appendleft(late.popleft())
                parts += [between[done : reasons[0].start], reasons[0].after]
                done = reasons[0].end
                end = max(end, done)
            else:
                break
        high, after = end - moved, "".join([*parts, between[done:end]])
        found.append(replace(reasons[0], start=low, end=high, before=draft[low:high], after=after))
    return Changes(draft=draft, changes=tuple(found))
