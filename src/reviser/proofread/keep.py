"""Which edits are kept: of those that meet, the surest, if it is sure enough."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from operator import attrgetter

from reviser.writing.changes import Change, Changes


def most_confident(suggestions: Sequence[Change], least: float) -> list[Change]:
    """Return changes that do not meet, from the left: of those that do, the most confident."""
    sure = [each for each in suggestions if (each.confidence or 0.0) >= least]
    return _apart(sorted(sure, key=lambda each: (-(each.confidence or 0.0), -(each.gain or 0.0))))


def longest_apart(changes: Sequence[Change]) -> list[Change]:
    """Return changes that do not meet, from the left: of those that do, the longest."""
    return _apart(sorted(changes, key=lambda each: (each.start - each.end, each.start)))


def _apart(changes: Sequence[Change]) -> list[Change]:
    """Return changes that meet none of those before them, from the left."""
    chosen: list[Change] = []
    for change in changes:
        n = bisect_left(chosen, change.start, key=attrgetter("start"))
        is_after = not n or chosen[n - 1].end < change.start
        if is_after and (n == len(chosen) or change.end < chosen[n].start):
            chosen.insert(n, change)
    return chosen


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
