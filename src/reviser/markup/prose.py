"""Text of a document that is too expensive to parse: whole lines of nothing but words.

There is no grammar here, so this locks whatever could be markup or code in any of the formats. It
reads each character a fixed number of times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reviser.markup.spans import Span, line_breaks, plain_lines, subtract

_PAIRS = {
    "```": "```", "~~~": "~~~", "$$": "$$", "\\[": "\\]", "\\begin{": "\\end{", "<!--": "-->",
    "<pre": "</pre", "<script": "</script", "<style": "</style",
}  # fmt: skip
"""Openings of blocks that can contain blank lines, with their ends."""
_MARKS = frozenset("#$%&*+/<=>@[\\]^_`{|}~")
_BEFORE, _AFTER = "\"'(“‘", "\"').,;:!?”’…"  # noqa: RUF001  # quotes as people type them
"""Punctuation before and after a word."""
_WORD = re.compile(r"\S+")


def editable_spans(text: str) -> list[Span]:
    r"""Return the spans of a document that look like nothing but prose.

    >>> text = "Some words.\n\nMore `code\nand` more,\nfoo.bar and words.\n\n```\ncode\n```\n"
    >>> [text[start:end] for start, end in editable_spans(text)]
    ['Some words.', ' and words.']
    """
    plain = plain_lines(text)
    editable: list[Span] = []
    locked: list[Span] = []
    for lines in _paragraphs(plain):
        marked = [n for n, (start, end) in enumerate(lines) if _has_marks(plain[start:end])]
        # Something can be open between the first and the last of these lines.
        kept = lines[: marked[0]] + lines[marked[-1] + 1 :] if marked else lines
        for start, end in kept:
            editable.append((start, end))
            locked += (
                (start + word.start(), start + word.end())
                for word in _WORD.finditer(plain[start:end])
                if not _is_word(word[0], is_first=not word.start())
            )
    return subtract(editable, [*locked, *line_breaks(plain, editable)])


def _paragraphs(text: str) -> Iterator[list[Span]]:
    """Yield the lines between blank lines, outside blocks that can contain blank lines."""
    lines: list[Span] = []
    at = 0
    closing = text[:3] if text.startswith(("---", "+++")) else ""  # of front matter
    for line in text.split("\n"):
        if closing:
            closing = closing if at == 0 or closing not in line else ""
        else:
            closing = _opened(line)
            if not closing and line.strip():
                lines.append((at, at + len(line)))
            elif lines:
                yield lines
                lines = []
        at += len(line) + 1
    if lines:
        yield lines


def _opened(line: str) -> str:
    """Return the end of the block that a line opens and does not close, or an empty text."""
    for opening, closing in _PAIRS.items():
        at = line.rfind(opening)
        is_even = opening == closing and line.count(opening) % 2 == 0
        if at >= 0 and not is_even and closing not in line[at + len(opening) :]:
            return closing
    return ""


def _has_marks(line: str) -> bool:
    """Return whether a line has marks of any format, or does not start like a sentence."""
    return (
        not (line[0].isalnum() or line[0] in _BEFORE) or "::" in line or not _MARKS.isdisjoint(line)
    )


def _is_word(word: str, *, is_first: bool) -> bool:
    """Return whether a word has only letters; "a)" at the start of a line is a list's mark."""
    if is_first and len(word) < 6 and word.endswith((".", ")")):
        return False
    inner = word.lstrip(_BEFORE).rstrip(_AFTER)
    return inner[:1].isalpha() and all(char.isalpha() or char in "'’-" for char in inner)  # noqa: RUF001
