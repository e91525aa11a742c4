"""Changes of a file as suggestions of a review: one comment for each group of lines."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from reviser.errors import plural
from reviser.writing.changes import Change, Changes

MOST_COMMENTS = 50
"""Most comments of one review, so that it stays readable."""


@dataclass(frozen=True, kw_only=True)
class Comment:
    """A suggestion for lines of the new side of a diff, with the names that GitHub uses."""

    path: str
    body: str
    line: int
    """The last line."""
    start_line: int | None = None
    """The first line, if there are several."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that GitHub reads."""
        values = asdict(self) | {"side": "RIGHT"}
        if self.start_line is None:
            del values["start_line"]
            return values
        return values | {"start_side": "RIGHT"}


def comments_of(path: str, changes: Changes, added: Container[int]) -> list[Comment]:
    """Return a comment for each group of changes whose lines are all added by the pull request."""
    lines = changes.draft.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    comments = []
    for first, last, group in _groups(changes):
        if not all(number in added for number in range(first, last + 1)):
            continue
        start, end = starts[first - 1], starts[last] - 1
        moved = (replace(each, start=each.start - start, end=each.end - start) for each in group)
        own = Changes(draft=changes.draft[start:end], changes=tuple(moved))
        comments.append(
            Comment(
                path=path,
                body=_body(own),
                line=last,
                start_line=first if first < last else None,
            )
        )
    return comments


def _groups(changes: Changes) -> Iterator[tuple[int, int, list[Change]]]:
    """Yield the first and the last line of changes that share lines, and the changes."""
    group: list[Change] = []
    low = high = 0
    for change in changes.changes:
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


def _body(changes: Changes) -> str:
    """Return a suggestion, in a fence that is longer than any in the text."""
    text = changes.text.replace("\r\n", "\n").removesuffix("\r")
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    sure = [each.confidence for each in changes.changes if each.confidence is not None]
    note = f"Confidence: {min(sure):.0%}\n\n" if sure else ""
    return f"{note}{fence}suggestion\n{text}\n{fence}"


def review_of(comments: Sequence[Comment], commit: str) -> dict[str, Any]:
    """Return the review that posts these comments on a commit."""
    shown = comments[:MOST_COMMENTS]
    body = f"Reviser has {plural(len(comments), 'suggestion')}."
    if len(shown) < len(comments):
        body += f" The first {len(shown)} are shown."
    return {
        "commit_id": commit,
        "event": "COMMENT",
        "body": body,
        "comments": [each.to_dict() for each in shown],
    }
