"""Drafts of commands that revise files: the text to revise, and what belongs to the file."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reviser.errors import DataError, MissingExtra, nearest_path
from reviser.files import write_whole
from reviser.markup import Choice, chosen_spans
from reviser.markup.docx import Docx
from reviser.markup.spans import Span, joined

if TYPE_CHECKING:
    from reviser.writing.changes import Changes

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
    document: Docx | None = None
    """The document, for a Word file; its whole text is that of its paragraphs."""

    @classmethod
    def read(cls, file: Path | None, markup: Choice, command: str) -> Draft:
        """Read a file, or standard input, and find its markup; messages name the command."""
        content = _read(file, command)
        if file is not None and file.suffix.lower() == ".docx":
            document = Docx(content)
            text = document.text
            locked = joined(sorted([*document.locked, *chosen_spans(text, "text", None)]))
            return cls(file, content, text, text, 0, locked, document)
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
        spans = _markup_spans(text, markup, file, command)
        return cls(file, content, whole, text, start, spans)

    @property
    def name(self) -> str:
        """The name of the file in results."""
        return "draft" if self.file is None else self.file.as_posix()

    def locks(self, texts: Sequence[str], *, is_only: bool) -> list[str | Span]:
        """Return the markup and the texts to lock; one draft must hold all of these.

        Among many drafts, only some may hold a text.
        """
        return [*(text for text in texts if is_only or text in self.text), *self.markup]

    def offset(self, position: int) -> int:
        """Return the position in the text of a position in the whole file, or the nearest one."""
        return max(0, min(position - self.start, len(self.text)))

    def write(self, changes: Changes) -> None:
        """Write the changed file, unless it was changed since it was read."""
        assert self.file is not None
        write_whole(self.file, self.changed(changes), expected=self.content)

    def changed(self, changes: Changes) -> str | bytes:
        """Return the content of the file with changes of its whole text made, or tracked."""
        if self.document is None:
            return changes.text
        return self.document.tracked((each.start, each.end, each.after) for each in changes)


def _markup_spans(text: str, markup: Choice, file: Path | None, command: str) -> list[Span]:
    """Return the spans of a draft that are markup."""
    try:
        return chosen_spans(text, markup, file)
    except MissingExtra as error:
        raise MissingExtra(
            f"{error} To leave markup unlocked, use {command} --markup none."
        ) from error


def _read(file: Path | None, command: str) -> bytes:
    """Return the content of a file, or of standard input."""
    if file is None:
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):
            raise DataError(f"Cannot read {str(file)!r}: {error.strerror}.") from error
        text = str(file) if len(str(file)) <= 60 else str(file)[:57] + "..."
        pipe = f' To revise a text directly, pipe it: echo "{text}" | {command}'
        pipe = pipe if " " in text else ""
        raise DataError(f"There is no file named {text!r}.{nearest_path(file) or pipe}") from error
