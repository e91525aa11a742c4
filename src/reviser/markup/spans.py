"""Arithmetic with spans of characters, and texts that were cut out of a document line by line."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import TypeAlias

import numpy as np

Span: TypeAlias = tuple[int, int]


class Unreadable(Exception):
    """A text that a parser cannot read, or not within a budget that is linear in its length.

    Its text says why, after the name of the document: "takes too long to parse".
    """

    def __init__(self, reason: str = "takes too long to parse") -> None:
        super().__init__(reason)


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, without empty ones; those that touch or overlap become one.

    >>> joined([(4, 6), (0, 2), (2, 3), (5, 9), (7, 7)])
    [(0, 3), (4, 9)]
    """
    found: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def complement(spans: Sequence[Span], length: int) -> list[Span]:
    """Return what lies between spans that are in order and apart from each other.

    >>> complement([(0, 2), (5, 6)], 8)
    [(2, 5), (6, 8)]
    """
    edges = [0, *(edge for span in spans for edge in span), length]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]


def subtract(spans: Iterable[Span], removed: Iterable[Span]) -> list[Span]:
    """Return the parts of spans that no removed span covers.

    >>> subtract([(0, 9)], [(2, 3), (8, 12)])
    [(0, 2), (3, 8)]
    """
    found: list[Span] = []
    gone = joined(removed)
    at = 0
    for start, end in joined(spans):
        while at and gone[at - 1][1] > start:
            at -= 1
        while at < len(gone) and gone[at][1] <= start:
            at += 1
        low = start
        n = at
        while n < len(gone) and gone[n][0] < end:
            found.append((low, gone[n][0]))
            low = max(low, gone[n][1])
            n += 1
        found.append((low, end))
    return [span for span in found if span[0] < span[1]]


def touched(locked: Sequence[Span], start: int, end: int) -> Sequence[Span]:
    """Return the locked spans that a change from `start` to `end` would touch.

    Text may be inserted at either end of one, but not inside of it.

    >>> touched([(0, 2), (5, 8)], 2, 6), touched([(5, 8)], 5, 5), touched([(5, 8)], 6, 6)
    ([(5, 8)], [], [(5, 8)])
    """
    low = high = bisect_right(locked, start, key=itemgetter(1))
    while high < len(locked) and locked[high][0] < end:
        high += 1
    return locked[low:high]


def plain_lines(text: str) -> str:
    r"""Return a text of the same length whose lines all end with a line feed, without NUL.

    >>> plain_lines("a\r\nb\rc")
    'a \nb\nc'
    """
    return text.replace("\r\n", " \n").replace("\r", "\n").replace("\0", "\ufffd")


def line_breaks(text: str, spans: Iterable[Span]) -> list[Span]:
    """Return the line breaks inside spans, each with the blanks around it.

    They are locked: a document keeps its lines.
    """
    found = []
    for start, end in spans:
        at = text.find("\n", start, end)
        while at >= 0:
            low, high = at, at + 1
            while low > start and text[low - 1].isspace():
                low -= 1
            while high < end and text[high].isspace():
                high += 1
            found.append((low, high))
            at = text.find("\n", high, end)
    return found


class ByteOffsets:
    """Offsets of characters in a text, by offsets of bytes in its UTF-8."""

    def __init__(self, text: str) -> None:
        self.data = text.encode("utf-8", "surrogatepass")
        self._chars = None
        if not text.isascii():
            is_start = (np.frombuffer(self.data, np.uint8) & 0xC0) != 0x80
            self._chars = np.append(np.cumsum(is_start) - is_start, len(text))

    def char(self, offset: int) -> int:
        """Return the offset of the character that starts at a byte."""
        return offset if self._chars is None else int(self._chars[offset])


class Excerpt:
    """Pieces of a document as a text of their own, with the way back.

    A parser reads the pieces without what stands around them, such as the marks of a comment.
    """

    def __init__(self, text: str, pieces: Sequence[Span]) -> None:
        self.text = "".join(text[start:end] for start, end in pieces)
        self._starts = list(accumulate((end - start for start, end in pieces), initial=0))
        self._pieces = list(pieces)

    def back(self, spans: Iterable[Span]) -> list[Span]:
        """Return spans of the excerpt as spans of the document."""
        found = []
        for start, end in spans:
            n = bisect_right(self._starts, start) - 1
            while n < len(self._pieces) and self._starts[n] < end:
                shift = self._pieces[n][0] - self._starts[n]
                low, high = max(start, self._starts[n]), min(end, self._starts[n + 1])
                found.append((low + shift, high + shift))
                n += 1
        return found
