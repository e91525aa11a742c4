"""Comments and docstrings in source code, found by Pygments; their text is read as Markdown."""

from __future__ import annotations

import time
from collections.abc import Iterator
from doctest import DocTestParser
from functools import cache
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from pygments.lexers import get_all_lexers, get_lexer_by_name
from pygments.token import Comment, String

from reviser.errors import ConfigError
from reviser.markup import markdown, rst
from reviser.markup.spans import (
    Excerpt,
    Span,
    Unreadable,
    complement,
    joined,
    plain_lines,
    subtract,
)

_MARKS = "#/*;%-!<>\"'="
"""Characters with which the lines of comments begin in one language or another."""


_PRAGMAS = ("eslint-", "fmt:", "isort:", "mypy:", "noqa", "pragma", "pylint:", "type:")
"""Starts of comments that are for programs."""
_LONGEST = 2000
"""Characters of a line. Where lines are longer, a program wrote them, and lexers can take the
square of that to read one."""
_SECONDS, _MORE_SECONDS = 30e-6, 1.0
"""Processor time for each character, and more for any text; a usual file needs a tenth of it. What
a lexer's regular expressions do cannot be counted, so this is the only limit that is a time."""


@cache
def _lexer(suffix: str, name: str) -> Any:
    """Return the lexer for a file, without those of plugins, which take seconds to look for."""
    found = [
        get_lexer_by_name(aliases[0])
        for _, aliases, patterns, _ in get_all_lexers(plugins=False)
        if aliases and ((f"*{suffix}" if suffix else name) in patterns)
    ]
    return max(found, key=lambda lexer: lexer.priority, default=None)


def is_known(name: str) -> bool:
    """Return whether there is a lexer for a file of this name."""
    return _lexer_of(name) is not None


def _lexer_of(name: str) -> Any:
    suffix = PurePath(name).suffix
    return _lexer(suffix, "") if suffix else _lexer("", name)


def editable_spans(text: str, name: str) -> list[Span]:
    """Return the spans of source code that are text in a comment or docstring."""
    lexer = _lexer_of(name)
    if lexer is None:
        raise ConfigError(
            f"The programming language of {name!r} is not known by its name. Choose another format,"
            " or rename the file."
        )
    plain = plain_lines(text)
    if max(map(len, plain.split("\n"))) > _LONGEST:
        raise Unreadable(f"has a line of more than {_LONGEST:,} characters")
    editable: list[Span] = []
    for start, end, is_docstring in _passages(plain, lexer):
        lines = list(_docstring(plain, start, end) if is_docstring else _comment(plain, start, end))
        inner = Excerpt(plain, lines)
        spans = markdown.editable_spans(inner.text)
        if is_docstring:
            # Docstrings are Markdown in one project and reStructuredText in the next: text is what
            # both of them take for text.
            other = complement(joined(rst.editable_spans(inner.text)), len(inner.text))
            spans = subtract(spans, [*other, *_doctests(inner.text)])
        editable += inner.back(spans)
    return editable


def _passages(text: str, lexer: Any) -> Iterator[tuple[int, int, bool]]:
    """Yield docstrings, and comments whose lines follow each other, with their positions."""
    last: tuple[int, int] | None = None
    for start, kind, value in _tokens(text + "\n", lexer):
        end = min(start + len(value), len(text))
        if kind in String.Doc:
            yield start, end, True
        elif kind in Comment and not (
            kind in Comment.Preproc or kind in Comment.PreprocFile or kind in Comment.Hashbang
        ):
            if last is not None and text[last[1] : start].strip(" \t") in ("", "\n"):
                last = last[0], end
            else:
                if last is not None:
                    yield *last, False
                last = start, end
    if last is not None:
        yield *last, False


def _tokens(text: str, lexer: Any) -> Iterator[tuple[int, Any, str]]:
    """Yield the tokens of a text, or raise Unreadable."""
    end = time.thread_time() + _MORE_SECONDS + _SECONDS * len(text)
    try:
        for token in lexer.get_tokens_unprocessed(text):
            if time.thread_time() > end:
                raise Unreadable
            yield token
    except RecursionError as error:  # some lexers call themselves for what is in brackets
        raise Unreadable from error


def _comment(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the lines of a comment without their marks."""
    edges = [start, *(n + 1 for n in range(start, end) if text[n] == "\n"), end]
    for low, high in pairwise(edges):
        line = text[low:high]
        inner = line.lstrip().lstrip(_MARKS)
        low += len(line) - len(inner) + inner.startswith(" ")
        close = text[low:high].rstrip()
        bare = close.removesuffix("*/").removesuffix("-->").removesuffix('"""').rstrip()
        if not bare.startswith(_PRAGMAS):
            yield low, low + len(bare)
        if line.endswith("\n"):
            yield high - 1, high


def _docstring(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the lines of a docstring without quotes and indentation."""
    quotes = '"""' if text[end - 3 : end] == '"""' else "'''"
    opening = text.find(quotes, start, end)
    if opening >= 0 and text.endswith(quotes, opening + 3, end):
        yield from rst.dedented(text, opening + 3, end - 3)


def _doctests(text: str) -> Iterator[Span]:
    """Yield the examples of a docstring, each with its output."""
    starts = [0, *(n + 1 for n, char in enumerate(text) if char == "\n"), len(text)]
    try:
        examples = DocTestParser().get_examples(text)
    except ValueError:  # an example that doctest itself refuses
        yield 0, len(text)
        return
    for each in examples:
        lines = each.source.count("\n") + each.want.count("\n")
        yield starts[each.lineno], starts[min(each.lineno + lines, len(starts) - 1)]
