"""Sentences and lines of a text, as spans without the white space between them.

No language is known but for a few abbreviations, so a sentence may be split or joined by mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from reviser.markup.spans import Span

UnitKind: TypeAlias = Literal["sentence", "line"]
"""The units of a text: sentences of prose, or lines of code."""
WRAPPED = 50
"""Characters of a line from which on the next line may continue its sentence."""
LONGEST = 1000
"""Characters of a sentence; a longer one is split between words."""
_LINE = re.compile(r"[^\r\n]+")
_STOP = re.compile(r"(?<=[.!?…])[\"'”’)\]»]*\s+(?=\S)|[。！？]+[」』”’）]*")  # noqa: RUF001
_LAST_WORD = re.compile(r"(\w[\w.]*)[.!?…]+[\"'”’)\]»]*\s*$")  # noqa: RUF001
_PIECE = re.compile(rf"\S(?:.{{0,{LONGEST - 2}}}\S)?(?=\s|$)|\S{{{LONGEST}}}", re.DOTALL)
_ABBREVIATIONS = ("approx", "ca", "cf", "dr", "e.g", "eq", "etc", "fig", "i.e", "jr", "mr", "mrs",
                  "ms", "no", "nr", "pp", "prof", "sr", "st", "vol", "vs")  # fmt: skip


def unit_spans(text: str, kind: UnitKind) -> list[Span]:
    r"""Return the units of a text as spans, from the left.

    >>> text = "A cat sat. Mr. Fox, too!\n\n- One\n"
    >>> [text[start:end] for start, end in unit_spans(text, "sentence")]
    ['A cat sat.', 'Mr. Fox, too!', '- One']
    >>> [text[start:end] for start, end in unit_spans(text, "line")]
    ['A cat sat. Mr. Fox, too!', '- One']
    """
    if kind == "line":
        return [line.span() for line in _LINE.finditer(text) if not line[0].isspace()]
    return [
        (start + piece.start(), start + piece.end())
        for start, end in _sentences(text)
        for piece in _PIECE.finditer(text[start:end])
    ]


def _sentences(text: str) -> Iterator[Span]:
    """Yield spans that begin where a sentence does, with the space after it."""
    for low, high in _blocks(text):
        block, start = text[low:high], 0
        for stop in _STOP.finditer(block):
            if _ends_sentence(block, start, stop.end()):
                yield low + start, low + stop.end()
                start = stop.end()
        yield low + start, high


def _ends_sentence(block: str, start: int, end: int) -> bool:
    """Return whether a new sentence begins at a position after a full stop or the like."""
    if block[end : end + 1].islower():
        return False
    last = _LAST_WORD.search(block[max(start, end - 40) : end])
    if last is None:
        return True
    word = last[1].lower()
    # Initials, abbreviations, and the number of an item at the start of a line.
    is_number = word.isdecimal() and not block[start : end - len(last[0])].strip()
    return not (word in _ABBREVIATIONS or is_number or (len(word) == 1 and word.isalpha()))


def _blocks(text: str) -> Iterator[Span]:
    """Yield spans of lines that may share a sentence: those of a paragraph that is wrapped."""
    start, last = 0, None
    for line in _LINE.finditer(text):
        if last is None or not _continues(text, last, line):
            if last is not None:
                yield start, last.end()
            start = line.start()
        last = line
    if last is not None:
        yield start, last.end()


def _continues(text: str, last: re.Match[str], line: re.Match[str]) -> bool:
    """Return whether a line continues the one before it, as lines of a paragraph do."""
    one, two = last[0], line[0]
    is_next = text[last.end() : line.start()] in ("\n", "\r\n")
    both = (len(each) - len(each.lstrip()) for each in (one, two))
    return is_next and len(one) >= WRAPPED and len({*both}) == 1 and two.lstrip()[:1].isalpha()
