"""A text as rules read it: its words, and which of its lines are sentences.

Nothing here knows a rule. Locked characters belong to no word, and words on both sides of one are
not neighbours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from reviser.proofread.rules.words import words
from reviser.proofread.suggestion import LOCKED

_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_MARKER = re.compile(r"[ \t]*(?:[-*+\u2022>|#]+|\(?(?:\d{1,3}|[a-zA-Z])[.)])(?=[ \t])[ \t]*")
_STOP = re.compile(r"[.!?][)\"'\u201d\u2019\]]{0,3}\Z")
_JOINS = frozenset((" ", "\n"))
_TECHNICAL_BEFORE = frozenset("/\\@#_=$<&~^%" + LOCKED)
_TECHNICAL_AFTER = frozenset("/\\@_=<(&^[" + LOCKED)
WRAPPED = 50
"""Characters that a line has at least if the next line continues its sentence."""

VERBS = words("verbs")
"""Frequent words that make a sentence of a line."""


ABBREVIATIONS = words("abbreviations")
FREQUENT = VERBS | words("frequent") - {
    "was",
    "me",
    "in",
}  # which are also German, French and Dutch
"""Frequent words that show that a line is English."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line, or lines that continue each other; a paragraph of most texts."""

    start: int
    end: int
    is_item: bool
    """True after a list marker."""
    is_sentence: bool
    """True if it may be asked for capitals, commas and stops."""
    ends: bool
    """True if it ends with a stop."""
    is_alone: bool
    """True if a blank line, or an end of the text, is on both sides."""


class Text:
    """A text, its words and its lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: list[str] = []
        self.start: list[int] = []
        self.end: list[int] = []
        self.low: list[str] = []
        """Words in lower case; empty for those that are parts of an address or of code."""
        for match in _WORD.finditer(text):
            self.words.append(match[0])
            self.start.append(match.start())
            self.end.append(match.end())
            is_plain = not self._is_technical(match.start(), match.end())
            self.low.append(match[0].lower().replace("\u2019", "'") if is_plain else "")
        self._joined = [
            self.text[a:b] in _JOINS for a, b in zip(self.end, self.start[1:], strict=False)
        ]

    def _is_technical(self, start: int, end: int) -> bool:
        text = self.text
        before, after = text[start - 1 : start] if start else "", text[end : end + 1]
        if before in _TECHNICAL_BEFORE or after in _TECHNICAL_AFTER:
            return True
        if before == "." and text[start - 2 : start - 1] != ".":
            return True
        return bool(after) and after in ".:" and text[end + 1 : end + 2].isalnum()

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def at(self) -> dict[str, list[int]]:
        """The numbers of each word's positions, by the word in lower case."""
        found: dict[str, list[int]] = {}
        for n, word in enumerate(self.low):
            if word:
                found.setdefault(word, []).append(n)
        return found

    def where(self, words: Iterable[str]) -> Iterator[int]:
        """Yield the numbers of the words that are one of some words."""
        at = self.at
        for word in words:
            yield from at.get(word, ())

    def next(self, n: int, step: int = 1) -> str:
        """Return the word `step` words later in lower case, or "" if something is between."""
        if n + step >= len(self.words) or not all(self._joined[n : n + step]):
            return ""
        return self.low[n + step]

    def previous(self, n: int, step: int = 1) -> str:
        """Return the word `step` words before in lower case, or "" if something is between."""
        if n < step or not all(self._joined[n - step : n]):
            return ""
        return self.low[n - step]

    def gap(self, n: int) -> str:
        """Return what is between a word and the one before it."""
        return self.text[self.end[n - 1] if n else 0 : self.start[n]]

    def after(self, n: int) -> str:
        """Return the character after a word, or "" at the end."""
        return self.text[self.end[n] : self.end[n] + 1]

    def is_same_line(self, n: int) -> bool:
        """Return whether one space separates a word from the next one."""
        return n + 1 < len(self.words) and self.text[self.end[n] : self.start[n + 1]] == " "

    @cached_property
    def lines(self) -> list[Line]:
        """The lines of the text."""
        found: list[Line] = []
        block: list[tuple[int, int]] = []
        position = 0
        for raw in [*self.text.split("\n"), ""]:
            end = position + len(raw) + 1
            if raw and not raw.isspace():
                block.append((position, min(end, len(self.text))))
            elif block:
                found += _lines_of(self.text, block)
                block = []
            position = end
        return found

    @cached_property
    def line_of(self) -> list[Line]:
        """The line of each word."""
        found: list[Line] = []
        lines = iter(self.lines)
        line = next(lines, None)
        for start in self.start:
            while line is not None and line.end <= start:
                line = next(lines, None)
            assert line is not None
            found.append(line)
        return found

    @cached_property
    def starts(self) -> list[bool]:
        """Whether each word is the first of a sentence or a line."""
        found, last = [], None
        for n, line in enumerate(self.line_of):
            gap = self.gap(n)
            has_stop = any(mark in gap for mark in ".!?:") and not gap[-1:].isalnum()
            is_short = has_stop and self.low[n - 1] in ABBREVIATIONS and gap[:1] == "."
            found.append(line is not last or (has_stop and not is_short))
            last = line
        return found

    @cached_property
    def foreign(self) -> list[bool]:
        """Whether each word is in a line that may be in another language, or a list of names."""
        counts: dict[int, list[int]] = {}
        for line, word in zip(self.line_of, self.low, strict=True):
            both = counts.setdefault(line.start, [0, 0])
            both[0] += 1
            both[1] += word in FREQUENT
        bad = {start for start, (all_, known) in counts.items() if all_ > 5 and known < 0.15 * all_}
        return [line.start in bad for line in self.line_of]

    @cached_property
    def names(self) -> frozenset[str]:
        """Words in lower case that stand with a capital within a sentence."""
        counts = Counter(
            low
            for word, low, starts in zip(self.words, self.low, self.starts, strict=True)
            if not starts and word[0].isupper()
        )
        return frozenset(word for word, count in counts.items() if count > 1)

    def is_name(self, n: int) -> bool:
        """Return whether a word may be a name: it has a capital within a sentence."""
        word = self.words[n]
        return word[:1].isupper() and (not self.starts[n] or self.low[n] in self.names)


def _lines_of(text: str, block: list[tuple[int, int]]) -> Iterator[Line]:
    """Yield the lines of a block without blank lines; wrapped lines are one."""
    bounds: list[tuple[int, int]] = []
    last = ""
    for start, end in block:
        raw = text[start:end]
        if bounds and _continues(last) and not _MARKER.match(raw):
            bounds[-1] = bounds[-1][0], end
        else:
            bounds.append((start, end))
        last = raw.strip()
    parts = [text[a:b].strip() for a, b in bounds]
    is_verse = _is_verse(parts)
    for (a, b), part in zip(bounds, parts, strict=True):
        marker = _MARKER.match(part)
        ends = bool(_STOP.search(part[-4:]))
        is_sentence = not is_verse and not marker and _is_sentence(part, ends)
        yield Line(a, b, marker is not None, is_sentence, ends, len(bounds) == 1)


def _continues(line: str) -> bool:
    """Return whether a line is long enough to go on in the next one."""
    return WRAPPED <= len(line) <= 110


def _is_verse(parts: list[str]) -> bool:
    """Return whether lines are verse, an address or a table: short ones, mostly without a stop."""
    if len(parts) < 3:
        return False
    short = sum(len(part) < 60 for part in parts)
    open_ = sum(part[-1] not in ".!?" for part in parts)
    return short > 0.7 * len(parts) and open_ >= 0.5 * len(parts)


def _is_sentence(part: str, ends: bool) -> bool:
    """Return whether a line is a sentence, or several, and not a heading or a greeting."""
    words = _WORD.findall(part[:2000])
    if len(words) < 4 or part.isupper():
        return False
    if ends:
        return len(words) > 5 or not VERBS.isdisjoint(map(str.lower, words))
    has_verb = any(word in VERBS or word in ("I", "I'm") for word in words)
    capitals = sum(word[0].isupper() for word in words)
    return len(words) > 5 and has_verb and capitals < 0.5 * len(words) and part[-1] not in ":,;|"
