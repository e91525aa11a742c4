"""The Reviewdog Diagnostic Format: the changes of files as suggestions for whole lines.

Reviewdog posts them on pull requests and knows which it has posted. The format also has columns,
but GitLab's suggestions, and those of several changes on a line, need whole lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from reviser.writing.changes import Change, Changes


def result_of(files: Sequence[tuple[str, Changes]]) -> dict[str, Any]:
    """Return the result of a run, with one diagnostic for each group of lines that change."""
    found = [each for name, changes in files for each in _diagnostics(name, changes)]
    return {"source": {"name": "reviser"}, "severity": "INFO", "diagnostics": found}


def _diagnostics(name: str, changes: Changes) -> Iterator[dict[str, Any]]:
    starts = [0]
    for line in changes.draft.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    for first, last, group in _groups(changes):
        start, end = starts[first - 1], starts[last] - 1
        moved = (replace(each, start=each.start - start, end=each.end - start) for each in group)
        own = Changes(draft=changes.draft[start:end], changes=tuple(moved))
        text = own.text.replace("\r\n", "\n").removesuffix("\r")
        lines = {"start": {"line": first}, "end": {"line": last}}  # the last one is included
        yield {
            "message": "; ".join(map(_message, group)),
            "location": {"path": name, "range": lines},
            "suggestions": [{"range": lines, "text": text}],
        }


def _groups(changes: Changes) -> Iterator[tuple[int, int, list[Change]]]:
    """Yield the first and the last line of changes that share lines, and the changes."""
    group: list[Change] = []
    low = high = 0
    for change in changes:
        first = changes.draft.count("\n", 0, change.start) + 1
        if group and first > high:
            yield low, high, group
            group = []
        low = first if not group else low
        # The line at the end counts, even if the change ends at its start: a removed line break
        # joins it with the line before.
        high = changes.draft.count("\n", 0, change.end) + 1
        group.append(change)
    if group:
        yield low, high, group


def _message(change: Change) -> str:
    sure = "" if change.confidence is None else f" (confidence {change.confidence:.0%})"
    return f'"{change.before}" -> "{change.after}"{sure}'
