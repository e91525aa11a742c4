"""The answer of a chat model: its schema, and how it becomes changes that touch no lock.

An answer is JSON: `{"edits": [{"anchor": "s2", "do": "replace", "text": "..."}]}`. Nothing in it is
trusted: what cannot be done is dropped and reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from reviser.markup.sentences import UnitKind
from reviser.markup.spans import Span, touched
from reviser.writing.changes import Changes
from reviser.writing.word_diff import Hunk, changes_from, rewritten

VERBS = ("replace", "delete", "insert_before", "insert_after")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_LINE_END = re.compile(r"\r\n?|\n")
_BRACES = 100
"""Opening braces of an answer at which its JSON may begin."""


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """Something that a model asked for, or should have answered, and that was not done."""

    start: int
    end: int
    """Start and end count characters of the draft."""
    text: str
    """What the model wrote."""
    reason: str
    """Why it was dropped, in a sentence."""


def schema(names: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of an answer; `names` are the anchors of what may change."""
    fields: dict[str, Any] = {
        "anchor": {"type": "string", "enum": list(names)},
        "do": {"type": "string", "enum": list(VERBS)},
        "text": {"type": "string"},
    }
    edits = {"edits": {"type": "array", "items": _object(fields)}}
    return _object(edits)


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    closed = {"required": list(fields), "additionalProperties": False}
    return {"type": "object", "properties": fields, **closed}


def edits_in(content: str) -> list[Any] | None:
    """Return the edits of an answer, or None if it is broken.

    Servers that do not enforce the schema may put thoughts or a Markdown fence around the JSON.

    >>> edits_in('Here you are: {"edits": []}')
    []
    """
    content = content.rpartition("</think>")[2]
    for brace, _ in zip(re.finditer("{", content), range(_BRACES), strict=False):
        try:
            found, _ = json.JSONDecoder().raw_decode(content, brace.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(found.get("edits"), list):
            edits: list[Any] = found["edits"]
            return edits
    return None


class Executor:
    """Applies edits to a draft, unless they touch what is locked; what it drops, it reports.

    `units` are the units of the draft by their anchors, in order.
    """

    def __init__(
        self, draft: str, units: dict[str, Span], locked: Sequence[Span], kind: UnitKind,
        *, one_line: bool = False,
    ) -> None:  # fmt: skip
        self.dropped: list[Dropped] = []
        self._draft, self._units, self._locked, self._kind = draft, units, locked, kind
        self._line_end = " " if one_line else "\r\n" if "\r\n" in draft else "\n"
        self._hunks: list[tuple[int, int, int, str]] = []  # the third puts those of one place right
        self._deleted: list[Span] = []
        self._done: set[str] = set()
        name = next(iter(units), "").rstrip("0123456789")
        self._anchor = re.compile(rf"(?:\[{name}\d+\]|{name}\d+:) ?")
        starts, ends = ([span[n] for span in units.values()] for n in (0, 1))
        self._next = dict(zip(ends, [*starts, len(draft)][1:], strict=True))
        self._last = dict(zip(starts, [0, *ends][:-1], strict=True))

    def take(self, edits: Iterable[Any], names: Sequence[str]) -> None:
        """Apply the edits of an answer, which may change the units with these names."""
        window = self._units[names[0]][0], self._units[names[-1]][1]
        for edit in edits:
            values = edit if isinstance(edit, dict) else {}
            anchor, verb, text = (values.get(name) for name in ("anchor", "do", "text"))
            text = "" if text is None else text
            if not isinstance(anchor, str) or verb not in VERBS or not isinstance(text, str):
                self._drop(window, _shown(edit), "It is not an edit.")
            elif anchor not in names:
                self._drop(window, _shown(edit), "Its anchor is none of those that may change.")
            elif reason := self._edit(anchor, verb, text):
                self._drop(self._units[anchor], text, reason)

    def changes(self) -> Changes:
        """Return the changes of all edits so far."""
        ranked = sorted([*self._hunks, *self._deletions()], key=itemgetter(0, 1, 2))
        return changes_from(self._draft, (Hunk(a, b, after) for a, b, _, after in ranked))

    def _drop(self, span: Span, text: str, reason: str) -> None:
        text = text.encode("utf-8", "replace").decode()
        self.dropped.append(Dropped(start=span[0], end=span[1], text=text, reason=reason))

    def _edit(self, anchor: str, verb: str, text: str) -> str:
        """Apply an edit of a unit; return why it is dropped, or an empty text."""
        start, end = unit = self._units[anchor]
        if _CONTROL.search(text):
            return "It holds characters that no text has."
        if echo := self._anchor.match(text):
            text = text[echo.end() :]
        if self._anchor.search(text):
            return "It holds an anchor, which is not part of the text."
        text = _LINE_END.sub(self._line_end, text)
        if verb != "delete" and not text.strip():
            return "It has no text."
        if verb.startswith("insert"):
            return self._insert(unit, text, is_after=verb == "insert_after")
        if anchor in self._done:
            return "An edit before it changed the same text."
        if verb == "delete":
            if touched(self._locked, start, end):
                return self._touches(start, end)
            self._deleted.append(unit)
        elif not self._replace(unit, text if self._kind == "line" else text.strip()):
            return self._touches(start, end)
        self._done.add(anchor)
        return ""

    def _replace(self, unit: Span, text: str) -> bool:
        """Replace the words of a unit that differ, but for locked ones; False if all are."""
        keeps_lines = self._kind == "sentence"
        fits, refused = rewritten(self._draft, unit, text, self._locked, keeps_lines=keeps_lines)
        self._hunks += [(start, end, 1, after) for start, end, after in fits]
        if fits:
            for start, end, after in refused:
                self._drop((start, end), after, self._touches(start, end))
        return bool(fits or not refused)

    def _insert(self, unit: Span, text: str, *, is_after: bool) -> str:
        """Insert a unit beside another."""
        position = unit[is_after]
        if touched(self._locked, position, position):
            return self._touches(position, position)
        bare = text.strip()
        given = text.partition(bare)[0 if is_after else 2]
        space = given if _LINE_END.search(given) else self._space_beside(unit)
        added = space + bare if is_after else bare + space
        self._hunks.append((position, position, 2 * is_after, added))
        return ""

    def _space_beside(self, unit: Span) -> str:
        """Return the space between a unit and one that is inserted beside it."""
        text = self._draft[slice(*unit)]
        if self._kind == "line":
            return self._line_end + text[: len(text) - len(text.lstrip())]
        sides = (self._last[unit[0]], unit[0]), (unit[1], self._next[unit[1]])
        gaps = [self._draft[start:end] for start, end in sides]
        lines = [len(_LINE_END.findall(gap)) for gap in gaps]
        # The items of a list are on lines that follow each other; a paragraph gets a sentence more.
        is_item = 1 in lines and not any(gap and not n for gap, n in zip(gaps, lines, strict=True))
        return gaps[lines.index(1)] if is_item and self._line_end != " " else " "

    def _deletions(self) -> Iterator[tuple[int, int, int, str]]:
        """Yield the deletions of units, each with the space on one side of it if that is free."""
        runs: list[Span] = []
        for start, end in sorted(self._deleted):
            is_next = runs and self._next[runs[-1][1]] == start
            if is_next and not touched(self._locked, runs[-1][0], end):
                start = runs.pop()[0]
            runs.append((start, end))
        for start, end in runs:
            low, high = self._last[start], self._next[end]
            if self._kind == "line":  # blank lines stay
                low = max(low, start - len(self._line_end))
                high = min(high, end + len(self._line_end))
            sides = [(start, high), (low, end), (start, end)]
            # The last sentence of a paragraph goes with the space before it.
            follows = low > 0 and not _LINE_END.search(self._draft, low, start)
            is_last = follows and _LINE_END.search(self._draft, end, high)
            if is_last or high == len(self._draft):
                sides = sides[1:]
            low, high = next(each for each in sides if not touched(self._locked, *each))
            yield low, high, 1, ""

    def _touches(self, start: int, end: int) -> str:
        low, high = touched(self._locked, start, end)[0]
        return f"It would change locked text: {self._draft[low:high][:40]!r}."


def _shown(edit: Any) -> str:
    try:
        return json.dumps(edit, ensure_ascii=False)[:200]
    except RecursionError:
        return "..."
