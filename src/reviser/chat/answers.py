"""The answer of a chat model: its schema, and how it becomes changes that touch no lock.

An answer is JSON: `{"edits": [{"anchor": "s2", "do": "replace", "text": "..."}]}`. Any text may be
one that a model wrote, so nothing of it is trusted.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rapidfuzz.distance import Levenshtein

from reviser.chat.units import UnitKind
from reviser.markup.spans import Span
from reviser.writing.changes import Change, Changes

VERBS = ("replace", "delete", "insert_before", "insert_after")
_TOKEN = re.compile(r"\s+|\w+(?:['’]\w+)*|[^\w\s]")  # noqa: RUF001
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_LINE_END = re.compile(r"\r\n?|\n")


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


class Hunk(NamedTuple):
    """A stretch of the draft, and the text that replaces it."""

    start: int
    end: int
    after: str


def schema(names: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of an answer; `names` are the anchors of what may change."""
    edit = {
        "type": "object",
        "properties": {
            "anchor": {"type": "string", "enum": list(names)},
            "do": {"type": "string", "enum": list(VERBS)},
            "text": {"type": "string"},
        },
        "required": ["anchor", "do", "text"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"edits": {"type": "array", "items": edit}},
        "required": ["edits"],
        "additionalProperties": False,
    }


def edits_in(content: str) -> list[Any] | None:
    """Return the edits of an answer, or None if it is broken.

    Servers that do not enforce the schema may put thoughts or a Markdown fence around the JSON.

    >>> edits_in('Here you are: {"edits": []}')
    []
    """
    content = content.rpartition("</think>")[2]
    decoder, at = json.JSONDecoder(), content.find("{")
    for _ in range(100):  # braces of a text around the JSON
        if at < 0:
            return None
        try:
            found, _ = decoder.raw_decode(content, at)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and isinstance(found.get("edits"), list):
            edits: list[Any] = found["edits"]
            return edits
        at = content.find("{", at + 1)
    return None


class Executor:
    """Applies edits to a draft, unless they touch what is locked; what it drops, it reports."""

    def __init__(
        self, draft: str, units: dict[str, Span], locked: Sequence[Span], kind: UnitKind,
        *, one_line: bool = False,
    ) -> None:  # fmt: skip
        self.draft = draft
        self.dropped: list[Dropped] = []
        self._units, self._locked, self._kind = units, locked, kind
        self._one_line = one_line
        self._line_end = "\r\n" if "\r\n" in draft else "\n"
        self._hunks: list[tuple[Hunk, int]] = []
        self._replaced: set[str] = set()
        self._deleted: list[Span] = []
        name = re.escape(next(iter(units), "").rstrip("0123456789"))
        self._echo = re.compile(rf"(?:\[{name}\d+\]|{name}\d+:) ?")
        starts = [start for start, _ in units.values()]
        ends = [end for _, end in units.values()]
        self._gap_after = dict(zip(ends, [*starts[1:], len(draft)], strict=True))
        self._gap_before = dict(zip(starts, [0, *ends[:-1]], strict=True))

    def take(self, edits: Iterable[Any], names: Iterable[str]) -> None:
        """Apply the edits of an answer, which may change the units with these names."""
        allowed = frozenset(names)
        window = [self._units[name] for name in allowed]
        whole = min(start for start, _ in window), max(end for _, end in window)
        for edit in edits:
            values = edit if isinstance(edit, dict) else {}
            anchor, verb, text = (values.get(name) for name in ("anchor", "do", "text"))
            if not (isinstance(anchor, str) and verb in VERBS and isinstance(text or "", str)):
                self._drop(whole, _shown(edit), "It is not an edit.")
            elif anchor not in allowed:
                self._drop(whole, _shown(edit), "Its anchor is none of those that may change.")
            elif reason := self._edit(anchor, verb, text or ""):
                self._drop(self._units[anchor], text or "", reason)

    def changes(self) -> Changes:
        """Return all changes so far."""
        ranked = [*self._hunks, *((each, 1) for each in self._deletions())]
        hunks = [hunk for hunk, _ in sorted(ranked, key=lambda it: (it[0][:2], it[1]))]
        merged: list[Hunk] = []
        for hunk in hunks:
            if merged and hunk.start <= merged[-1].end:
                start, end, after = merged.pop()
                hunk = Hunk(start, max(end, hunk.end), after + hunk.after)
            merged.append(hunk)
        found = (
            Change(start=start, end=end, before=self.draft[start:end], after=after)
            for start, end, after in merged
            if self.draft[start:end] != after
        )
        return Changes(draft=self.draft, changes=tuple(found))

    def _drop(self, span: Span, text: str, reason: str) -> None:
        start, end = span
        shown = text.encode("utf-8", "replace").decode()
        self.dropped.append(Dropped(start=start, end=end, text=shown, reason=reason))

    def _edit(self, anchor: str, verb: str, text: str) -> str:
        """Apply an edit of a unit; return why it is dropped, or an empty text."""
        if _CONTROL.search(text):
            return "It holds characters that no text has."
        echo = self._echo.match(text)
        text = text[echo.end() :] if echo else text
        if self._echo.search(text):
            return "It holds an anchor, which is not part of the text."
        text = _LINE_END.sub(" " if self._one_line else self._line_end, text)
        if verb.startswith("insert"):
            return self._insert(self._units[anchor], text, is_after=verb == "insert_after")
        if anchor in self._replaced:
            return "Another edit replaced the same text before."
        start, end = self._units[anchor]
        if verb == "delete" or not text.strip():
            reason = "" if verb == "delete" else "It has no text; to delete is another edit."
            if not reason and self._may_change(start, end):
                self._deleted.append((start, end))
            elif not reason:
                reason = self._touches(start, end)
        else:
            reason = self._replace(start, end, text)
        if not reason:
            self._replaced.add(anchor)
        return reason

    def _insert(self, unit: Span, text: str, *, is_after: bool) -> str:
        position = unit[1] if is_after else unit[0]
        bare = text.strip()
        if not bare:
            return "It has no text."
        if not self._may_change(position, position):
            return self._touches(position, position)
        gap = self._separator(*unit)
        if is_after:
            own = text[: len(text) - len(text.lstrip())]
            added = (own if "\n" in own else gap) + bare
        else:
            own = text[len(text.rstrip()) :]
            added = bare + (own if "\n" in own else gap)
        self._hunks.append((Hunk(position, position, added), 2 if is_after else 0))
        return ""

    def _separator(self, start: int, end: int) -> str:
        """Return the space between a unit and one that is inserted beside it."""
        if self._one_line:
            return " "
        after = self.draft[end : self._gap_after[end]]
        before = self.draft[self._gap_before[start] : start]
        if self._kind == "line":
            indent = self.draft[start:end]
            return self._line_end + indent[: len(indent) - len(indent.lstrip())]
        spaces = [gap for gap in (after, before) if gap.strip() == "" and gap]
        if not spaces or any("\n" not in gap for gap in spaces):
            return " "
        # Items of a list stand on lines that follow each other; a paragraph gets a sentence more.
        return min(spaces, key=len) if any(gap.count("\n") == 1 for gap in spaces) else " "

    def _deletions(self) -> Iterator[Hunk]:
        """Yield the deletions of units, each with the space on one side of it if that is free."""
        runs: list[Span] = []
        for start, end in sorted(self._deleted):
            is_next = runs and self._gap_after[runs[-1][1]] == start
            if is_next and self._may_change(runs[-1][0], end):
                runs[-1] = runs[-1][0], end
            else:
                runs.append((start, end))
        for start, end in runs:
            low, high = self._gap_before[start], self._gap_after[end]
            if self._kind == "line":  # blank lines stay
                low = max(low, start - len(self._line_end))
                high = min(high, end + len(self._line_end))
            is_inline = low > 0 and not _LINE_END.search(self.draft, low, start)
            is_last = high == len(self.draft) or _LINE_END.search(self.draft, end, high)
            sides = [(start, high), (low, end), (start, end)]
            if is_last and (is_inline or high == len(self.draft)):
                sides = [(low, end), (start, end)]
            side = next(each for each in sides if self._may_change(*each))
            yield Hunk(*side, "")

    def _replace(self, start: int, end: int, text: str) -> str:
        """Replace the words of a unit that differ, but for those that are locked."""
        old = self.draft[start:end]
        if self._kind == "sentence":
            text = text.strip()
        fits: list[Hunk] = []
        refused: list[Hunk] = []
        for choices in self._diff(start, old, text):
            fit = next((each for each in choices if self._may_change(each.start, each.end)), None)
            (refused if fit is None else fits).append(fit or choices[0])
        if not refused:
            self._hunks += [(hunk, 1) for hunk in self._joined(fits)]
            return ""
        first = refused[0]
        reason = self._touches(first.start, first.end)
        pieces = {self.draft[a:b] for hunk in refused for a, b in self._locks_of(*hunk[:2])}
        result = Changes(draft=old, changes=tuple(self._relative(start, fits))).text
        if not fits or any(result.count(each) > old.count(each) for each in pieces):
            return reason  # locked text was moved, so the rest of the edit would copy it
        self._hunks += [(hunk, 1) for hunk in self._joined(fits)]
        for hunk in refused:
            self._drop(hunk[:2], hunk.after, self._touches(hunk.start, hunk.end))
        return ""

    def _diff(self, start: int, old: str, new: str) -> Iterator[list[Hunk]]:
        """Yield the differences of two texts by words, each in all the ways it can be written.

        The ways differ in the order of equal words, or leave out the letters that are equal.
        """
        words, others = _TOKEN.findall(old), _TOKEN.findall(new)
        keys, other_keys = self._keys(words), self._keys(others)
        at = [start]
        for word in words:
            at.append(at[-1] + len(word))
        found = list(_hunks_of(keys, other_keys))
        for n, (i, j, k, m) in enumerate(found):
            hunk = Hunk(at[i], at[j], "".join(others[k:m]))
            choices = [hunk, _trimmed(hunk, old[at[i] - start : at[j] - start])]
            # In "it of of it" either "of" may go, unless another change lies next to it.
            least = found[n - 1][1] + 1 if n else 0
            most = found[n + 1][0] - 1 if n + 1 < len(found) else len(keys)
            if k == m and i > least and keys[i - 1] == keys[j - 1]:
                choices.append(Hunk(at[i - 1], at[j - 1], ""))
            if k == m and j < most and keys[i] == keys[j]:
                choices.append(Hunk(at[i + 1], at[j + 1], ""))
            yield choices

    def _keys(self, words: Sequence[str]) -> list[str]:
        """Return words as they are compared: in prose, a space may stand for a line end."""
        return [" " if self._kind == "sentence" and word.isspace() else word for word in words]

    def _joined(self, hunks: Sequence[Hunk]) -> Iterator[Hunk]:
        """Join changes of words that follow each other, so that people read them as one."""
        last: Hunk | None = None
        for hunk in sorted(hunks):
            if last is not None:
                between = self.draft[last.end : hunk.start]
                is_space = not between.strip() and "\n" not in between
                if is_space and self._may_change(last.start, hunk.end):
                    last = Hunk(last.start, hunk.end, last.after + between + hunk.after)
                    continue
                yield last
            last = hunk
        if last is not None:
            yield last

    def _relative(self, start: int, hunks: Sequence[Hunk]) -> Iterator[Change]:
        for low, high, after in self._joined(hunks):
            before = self.draft[low:high]
            yield Change(start=low - start, end=high - start, before=before, after=after)

    def _locks_of(self, start: int, end: int) -> Sequence[Span]:
        """Return the locked spans that a change of a stretch would touch."""
        low = bisect_right(self._locked, start, key=lambda lock: lock[1])
        high = low
        while high < len(self._locked) and self._locked[high][0] < end:
            high += 1
        return self._locked[low:high]

    def _may_change(self, start: int, end: int) -> bool:
        return not self._locks_of(start, end)

    def _touches(self, start: int, end: int) -> str:
        pieces = self._locks_of(start, end)
        low, high = pieces[0] if pieces else (start, end)
        return f"It would change locked text: {self.draft[low:high][:40]!r}."


def _hunks_of(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield where two lists of words differ, as positions in both."""
    i = k = 0
    for block in (*Levenshtein.opcodes(old, new), None):
        if block is not None and block.tag != "equal":
            continue
        j, m = (len(old), len(new)) if block is None else (block.src_start, block.dest_start)
        if i < j or k < m:
            yield i, j, k, m
        if block is not None:
            i, k = block.src_end, block.dest_end


def _trimmed(hunk: Hunk, before: str) -> Hunk:
    """Return a change without the letters that both of its texts begin or end with."""
    start, end, after = hunk
    while before and after and before[0] == after[0]:
        start, before, after = start + 1, before[1:], after[1:]
    while before and after and before[-1] == after[-1]:
        end, before, after = end - 1, before[:-1], after[:-1]
    return Hunk(start, end, after)


def _shown(edit: Any) -> str:
    try:
        return json.dumps(edit, ensure_ascii=False)[:200]
    except RecursionError:
        return "..."
