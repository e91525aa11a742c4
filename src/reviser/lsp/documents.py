"""Documents as a client counts them, and their paragraphs with what is locked in each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from lsprotocol import types

from reviser.markup.spans import Span, joined
from reviser.writing import positions


class Positions(positions.Positions):
    """The lines of a text, with ranges as the protocol library has them."""

    def range(self, start: int, end: int) -> types.Range:
        """Return the range of a span."""
        low, high = (types.Position(*self.position(each)) for each in (start, end))
        return types.Range(low, high)


def apply_changes(
    text: str, changes: Iterable[types.TextDocumentContentChangeEvent], encoding: str
) -> str:
    """Return a document after the changes that a client reports, one after the other."""
    for change in changes:
        if isinstance(change, types.TextDocumentContentChangePartial):
            lines = Positions(text, encoding)
            start, end = lines.offset(change.range.start), lines.offset(change.range.end)
            text = text[:start] + change.text + text[end:]
        else:
            text = change.text
    return text


@dataclass(frozen=True)
class Paragraph:
    """A block of a document, with its locked spans, which count from its own start."""

    start: int
    text: str
    locked: tuple[Span, ...]


def paragraphs(text: str, locked: Sequence[Span], words: Iterable[str] = ()) -> list[Paragraph]:
    """Return the blocks between blank lines that have text to check.

    `locked` is markup; the `words` of a dictionary are locked, too.
    """
    found = []
    for start, end in _blocks(text):
        first = bisect_right(locked, start, key=itemgetter(1))
        own: list[Span] = []
        while first < len(locked) and locked[first][0] < end:
            low, high = locked[first]
            own.append((max(low, start) - start, min(high, end) - start))
            first += 1
        block = text[start:end]
        own = joined([*own, *_word_spans(block, words)])
        edges = [0, *(edge for span in own for edge in span), len(block)]
        free = zip(edges[::2], edges[1::2], strict=True)
        if any(char.isalnum() for a, b in free for char in block[a:b]):
            found.append(Paragraph(start, block, tuple(own)))
    return found


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


def _word_spans(text: str, words: Iterable[str]) -> Iterable[Span]:
    """Yield where words occur as whole words."""
    for word in words:
        at = text.find(word) if word else -1
        while at >= 0:
            end = at + len(word)
            if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
                yield at, end
            at = text.find(word, at + 1)
