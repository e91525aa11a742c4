"""Locked markup: which characters of a document are markup or code, and never change.

Parsers of other projects read the document, one module for each format. A format names what is
text; everything else is locked, so that a construct which a parser does not know stays locked too.
This package knows no models; `Revise(draft, locked=locked_spans(draft, "markdown"))` uses it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import accumulate
from pathlib import PurePath
from typing import Literal, TypeAlias, get_args

from reviser.errors import ConfigError, MissingExtra, did_you_mean
from reviser.markup import prose
from reviser.markup.spans import Span, Unreadable, complement, joined, plain_lines, subtract

__all__ = ["Choice", "Format", "chosen_spans", "format_of", "locked_spans", "segment_starts"]

log = logging.getLogger("reviser.markup")

Format: TypeAlias = Literal["text", "markdown", "rst", "latex", "code"]
"""The formats whose markup can be locked."""
Choice: TypeAlias = Literal["auto", "none", "text", "markdown", "rst", "latex", "code"]
"""What a person can ask for: a format, `none`, or `auto`, which goes by the file's name."""

_SUFFIXES: dict[str, Format] = {
    ".markdown": "markdown",
    ".md": "markdown",
    ".mdx": "markdown",
    ".qmd": "markdown",
    ".rmd": "markdown",
    ".rst": "rst",
    ".rest": "rst",
    ".latex": "latex",
    ".ltx": "latex",
    ".tex": "latex",
    ".txt": "text",
    ".text": "text",
    "": "text",
}
_NOT_PROSE = (".csv", ".json", ".jsonl", ".tsv")
"""Data, in which a lexer finds no comments."""


def format_of(name: str | PurePath) -> Format:
    """Return the format of a file by its suffix; source code is whatever Pygments knows.

    >>> format_of("README.md"), format_of("main.c"), format_of("letter")
    ('markdown', 'code', 'text')
    """
    suffix = PurePath(name).suffix.lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if suffix in _NOT_PROSE:
        return "text"
    with _extra():
        code = import_module("reviser.markup.code")
    return "code" if code.is_known(PurePath(name).name) else "text"


def locked_spans(text: str, language: Format, name: str | PurePath = "") -> list[Span]:
    """Return the spans of characters that are markup or code, in order and apart from each other.

    `name` is the file's name, from which the programming language of code is known. A text that
    is too hard for its parser is locked, except lines of plain words; code is locked whole.

    >>> text = "A `cat` *sat*."
    >>> [text[start:end] for start, end in locked_spans(text, "markdown")]
    ['`cat`', '*', '*']
    """
    if language not in get_args(Format):
        names = get_args(Format)
        raise ConfigError(
            f"{language!r} is not a format with markup. {did_you_mean(language, names)}"
        )
    with _extra():
        links = import_module("reviser.markup.links")
        editable: list[Span] = [(0, len(text))]
        if language != "text":
            module = import_module(f"reviser.markup.{language}")
            find: Callable[..., list[Span]] = module.editable_spans
            more = (PurePath(name).name,) if language == "code" else ()
            try:
                editable = joined(find(text, *more))
            except Unreadable as reason:
                is_code = language == "code"
                log.warning("%s %s, so %s can be changed.", repr(str(name)) if name else "The text",
                            reason,
                            "nothing in it" if is_code else "only its lines of plain words",
                            )  # fmt: skip
                editable = [] if is_code else joined(prose.editable_spans(text))
        editable = subtract(editable, links.link_spans(text, editable))
    return complement(editable, len(text))


def segment_starts(text: str, language: Format) -> list[int]:
    r"""Return offsets that split a document into segments that can be parsed by themselves.

    A segment has the same locked spans alone, after a blank line, as in the document. The first
    offset is 0. Only Markdown and plain text have more; other documents are one segment.

    >>> segment_starts("One.\n\n- two\n\n- three\n\nFour.", "markdown")
    [0, 6, 22]
    """
    if language == "text":
        lines = plain_lines(text).split("\n")
        ends = accumulate(len(line) + 1 for line in lines[:-1])  # nothing is open after blank lines
        return [0, *(end for line, end in zip(lines, ends, strict=False) if not line.strip())]
    if language != "markdown":
        return [0]
    with _extra():
        module = import_module("reviser.markup.markdown")
    try:
        return list(module.segment_starts(text))
    except Unreadable:
        return [0]


def chosen_spans(text: str, choice: Choice, name: str | PurePath | None) -> list[Span]:
    """Return the spans of markup by a choice; `auto` locks nothing in a text without a name.

    >>> [len(chosen_spans("A `cat`.", "auto", name)) for name in ("a.md", "a.txt", None)]
    [1, 0, 0]
    """
    if choice == "none" or (choice == "auto" and name is None):
        return []
    name = name or "a text without a name"
    return locked_spans(text, format_of(name) if choice == "auto" else choice, name)


@contextmanager
def _extra() -> Iterator[None]:
    """Report missing modules with the extra that has them."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"Locking markup needs the markup extra: {error.name} is not installed. Install it"
            " with: pip install 'reviser-lm[markup]'."
        ) from error
