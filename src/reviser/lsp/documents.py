"""Documents as a client counts them, and their paragraphs with what is locked in each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from pathlib import PurePath

from lsprotocol import types

from reviser.markup import format_of, locked_spans, segment_starts
from reviser.markup.spans import Span
from reviser.writing import positions


class Positions(positions.Positions):
    """The lines of a text, with ranges as the protocol library has them."""

    def range(self, start: int, end: int) -> types.Range:
        """Return the range of a span."""
        low, high = (types.Position(*self.position(each)) for each in (start, end))
        return types.Range(low, high)


def apply_changes(
    lines: Positions, changes: Iterable[types.TextDocumentContentChangeEvent]
) -> tuple[Positions, int]:
    """Return a document after the changes that a client reports, and where the last one starts."""
    start = 0
    for change in changes:
        text = lines.text
        if isinstance(change, types.TextDocumentContentChangePartial):
            start, end = lines.offset(change.range.start), lines.offset(change.range.end)
            lines = Positions(text[:start] + change.text + text[end:], lines.encoding)
        else:
            start, lines = 0, Positions(change.text, lines.encoding)
    return lines, start


@dataclass(frozen=True)
class Paragraph:
    """A block of a document, with its locked spans, which count from its own start."""

    start: int
    text: str
    locked: tuple[Span, ...]


def paragraphs(text: str, locked: Sequence[Span]) -> list[Paragraph]:
    """Return the blocks between blank lines that have text to check, with their locked markup."""
    found = []
    for start, end in _blocks(text):
        first = bisect_right(locked, start, key=itemgetter(1))
        own: list[Span] = []
        while first < len(locked) and locked[first][0] < end:
            low, high = locked[first]
            own.append((max(low, start) - start, min(high, end) - start))
            first += 1
        block = text[start:end]
        edges = [0, *(edge for span in own for edge in span), len(block)]
        free = zip(edges[::2], edges[1::2], strict=True)
        if any(char.isalnum() for a, b in free for char in block[a:b]):
            found.append(Paragraph(start, block, tuple(own)))
    return found


@dataclass(frozen=True)
class Segment:
    """A part of a document that is parsed by itself; its paragraphs count from its own start."""

    text: str
    paragraphs: tuple[Paragraph, ...]


def placed(segments: Iterable[Segment]) -> Iterator[tuple[int, Paragraph]]:
    """Yield the paragraphs of a document with their offsets in it."""
    at = 0
    for segment in segments:
        for each in segment.paragraphs:
            yield at + each.start, each
        at += len(segment.text)


def parse(text: str, path: PurePath, *, is_start: bool) -> list[Segment]:
    """Return the segments of a document, or of a part of one that starts where a segment does."""
    language = format_of(path)
    # Only at the start of a document, a line of dashes opens front matter.
    whole = text if is_start else f"\n{text}"
    first = len(whole) - len(text)
    starts = [first, *(start for start in segment_starts(whole, language) if start > first)]
    found = paragraphs(whole, locked_spans(whole, language, path))
    parts: list[list[Paragraph]] = [[] for _ in starts]
    for each in found:
        n = bisect_right(starts, each.start) - 1
        parts[n].append(replace(each, start=each.start - starts[n]))
    spans = pairwise([*starts, len(whole)])
    return [Segment(whole[a:b], tuple(own)) for (a, b), own in zip(spans, parts, strict=True)]


def parse_again(text: str, path: PurePath, known: Sequence[Segment]) -> list[Segment]:
    """Return the segments of a document of which an earlier version is known.

    The result is that of `parse`. The work grows with what changed: segments before and after the
    change are kept if the parser, too, starts a segment where the unchanged text begins again.
    """
    head = start = 0
    while head < len(known) and text.startswith(known[head].text, start):
        start += len(known[head].text)
        head += 1
    if head:  # where a segment ends depends on what follows it
        head -= 1
        start -= len(known[head].text)
    tail, end = len(known), len(text)
    while (
        tail > max(head, 1)  # what is first in a document may be front matter, what follows may not
        and end - start >= len(known[tail - 1].text)
        and text.endswith(known[tail - 1].text, start, end)
    ):
        tail -= 1
        end -= len(known[tail].text)
    more = 1  # unchanged segments that are read to see where they start
    while True:
        read = known[tail : tail + more]
        stop = end + sum(len(each.text) for each in read)
        found = parse(text[start:stop], path, is_start=start == 0)
        if tail + more >= len(known):
            return [*known[:head], *found]
        at = start
        for n, each in enumerate(found):
            if at == end > 0:
                return [*known[:head], *found[:n], *known[tail:]]
            at += len(each.text)
        more *= 4


def _blocks(text: str) -> Iterable[Span]:
    """Yield the spans of lines in a row that are not blank, without the last line end."""
    start: int | None = None
    last = at = 0
    for match in (*positions.LINE_END.finditer(text), None):
        end, after = (match.start(), match.end()) if match else (len(text), len(text))
        if text[at:end].strip():
            start, last = at if start is None else start, end
        elif start is not None:
            yield start, last
            start = None
        at = after
    if start is not None:
        yield start, last
