"""The files of a pull request, and the lines that it adds to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reviser.errors import DataError
from reviser.markup.spans import Span

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True, kw_only=True)
class Patch:
    """A file of a pull request with the lines that are new in it."""

    path: str
    added: Mapping[int, str]
    """The text of each added line by its number, which counts from 1."""

    @classmethod
    def from_github(cls, values: Mapping[str, Any]) -> Patch:
        """Read an entry of GitHub's list of files; a removed or binary file has no added lines."""
        added: dict[int, str] = {}
        number = 0
        for line in str(values.get("patch") or "").split("\n"):
            if hunk := _HUNK.match(line):
                number = int(hunk[1])
            elif line.startswith("+"):
                added[number] = line[1:]
                number += 1
            elif line.startswith(" "):
                number += 1
        return cls(path=str(values["filename"]), added=added)

    def unchanged_spans(self, text: str) -> list[Span]:
        """Return the spans of a file's text that are not in added lines.

        The file must be the one of the pull request: added lines are compared with the text.
        """
        spans: list[Span] = []
        start = 0
        lines = text.split("\n")
        for number, line in self.added.items():
            if number > len(lines) or lines[number - 1].rstrip("\r") != line.rstrip("\r"):
                raise DataError(
                    f"Line {number} of {self.path!r} differs from the pull request. Check out its"
                    " head commit, not a merge with another branch."
                )
        for number, line in enumerate(lines, 1):
            if number not in self.added:
                spans.append((start, min(len(text), start + len(line) + 1)))
            start += len(line) + 1
        return spans
