"""Drafts of commands that revise files: the text to revise, and what belongs to the file."""

from __future__ import annotations

import errno
import sys
from dataclasses import dataclass
from pathlib import Path

from reviser.errors import DataError, MissingExtra, nearest_path
from reviser.files import write_whole
from reviser.markup import Choice, chosen_spans
from reviser.markup.spans import Span

_BOM = "\ufeff"
"""The byte order mark, which some files begin with."""


@dataclass(frozen=True)
class Draft:
    """A file, or standard input, and the text in it."""

    file: Path | None
    content: bytes
    whole: str
    text: str
    """The text without the byte order mark and the last line ends, which belong to the file."""
    start: int
    markup: list[Span]
    model: str

    @classmethod
    def read(cls, file: Path | None, markup: Choice, model: str) -> Draft:
        """Read a file, or standard input, and find its markup."""
        content = _read(file, model)
        try:
            whole = content.decode()
        except UnicodeDecodeError as error:
            name = "Standard input" if file is None else repr(str(file))
            raise DataError(
                f"{name} is not UTF-8 text (byte 0x{content[error.start]:02x} at position"
                f" {error.start + 1:,}). Convert it to UTF-8, or leave it out."
            ) from error
        bare = whole.removeprefix(_BOM)
        text, start = bare.rstrip("\r\n"), len(whole) - len(bare)
        spans = _markup_spans(text, markup, file)
        return cls(file, content, whole, text, start, spans, model)

    def offset(self, position: int) -> int:
        """Return the position in the text of a position in the whole file, or the nearest one."""
        return max(0, min(position - self.start, len(self.text)))

    def write(self, text: str) -> None:
        """Write the file, unless it was changed since it was read."""
        assert self.file is not None
        write_whole(self.file, text, expected=self.content)


def _markup_spans(text: str, markup: Choice, file: Path | None) -> list[Span]:
    """Return the spans of a draft that are markup."""
    try:
        return chosen_spans(text, markup, file)
    except MissingExtra as error:
        raise MissingExtra(
            f"{error} To revise without locked markup, use reviser revise --markup none."
        ) from error


def _read(file: Path | None, model: str) -> bytes:
    """Return the content of a file, or of standard input."""
    if file is None:
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):
            raise DataError(f"Cannot read {str(file)!r}: {error.strerror}.") from error
        text = str(file) if len(str(file)) <= 60 else str(file)[:57] + "..."
        pipe = f' To revise a text directly, pipe it: echo "{text}" | reviser revise -m {model}'
        pipe = pipe if " " in text else ""
        raise DataError(f"There is no file named {text!r}.{nearest_path(file) or pipe}") from error
