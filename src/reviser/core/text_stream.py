"""Edits of tokens as edits of the text that a person sees.

Byte-level tokens may hold part of a character, so an edit can break or join characters on either
side of it. A `TextStream` accounts for that. It knows the bytes of tokens, but no tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reviser.core.canvas import Edit
from reviser.errors import ConfigError

OffsetUnit = Literal["char", "utf16"]
"""The unit of text offsets: characters (code points), or UTF-16 units as in JavaScript."""


@dataclass(frozen=True, slots=True)
class TextEdit:
    """One change of the visible text: `inserted` takes the place of `removed` at `offset`.

    Offset and cursor count in `unit`. A cursor inside a character is reported after it.
    """

    offset: int
    removed: str
    inserted: str
    cursor: int
    unit: OffsetUnit = "char"

    def apply(self, text: str) -> str:
        """Return the text after this edit.

        >>> TextEdit(4, "cat", "dog", 7).apply("The cat sat")
        'The dog sat'
        """
        start = self.offset
        if self.unit == "utf16":
            start = len(text.encode("utf-16-le")[: 2 * start].decode("utf-16-le"))
        return text[:start] + self.inserted + text[start + len(self.removed) :]


class TextStream:
    """The visible text of one canvas while it is edited; made by `Codec.stream`.

    Like the canvas, it keeps two stacks that meet where the last edit was, with the number of
    characters that begin in each token. So an edit costs its size and its distance from the last.
    """

    def __init__(
        self,
        token_bytes: Sequence[bytes],
        tokens: Sequence[int] = (),
        *,
        hides_first_space: bool = False,
        unit: OffsetUnit = "char",
    ) -> None:
        if unit not in ("char", "utf16"):
            raise ConfigError(f"unit is {unit!r}; use 'char' or 'utf16'.")
        self._token_bytes = token_bytes
        self._hides_first_space = hides_first_space
        self._unit = unit
        self._left: list[bytes] = []
        self._right: list[bytes] = []  # reversed: the last is next to the boundary
        self._left_units: list[int] = []  # units of the characters that begin in each token
        self._right_units: list[int] = []
        self._offset = 0  # sum of _left_units
        if len(tokens):
            self.feed(Edit(0, (), tuple(tokens), 0, len(tokens)))

    @property
    def text(self) -> str:
        """The visible text now."""
        return decode_bytes(b"".join(self._left + self._right[::-1]), self._hides_first_space)

    def offset_of(self, position: int) -> int:
        """Return the offset in the text of a boundary between tokens."""
        distance = position - len(self._left)
        if distance > 0:
            return self._offset + sum(self._right_units[-distance:])
        return self._offset - sum(self._left_units[position:])

    def feed(self, edit: Edit) -> TextEdit:
        """Take an edit of the canvas and return the edit of the text."""
        if not edit.changes_text:
            self._go_to(edit.cursor)
            return TextEdit(self._offset, "", "", self._offset, self._unit)
        self._go_to(edit.position + len(edit.removed))
        removed = self._take(len(edit.removed))
        inserted = [self._token_bytes[token] for token in edit.inserted]
        before, after, hide = self._context()
        old = _read(before + removed + after, self._unit, hide)
        new = _read(before + inserted + after, self._unit, hide)
        first, last = len(before), len(new.units) - len(after)  # where the inserted tokens are
        offset = self._offset - sum(old.units[:first])
        # The edit may have broken or joined characters that begin in the neighbouring tokens.
        for n in range(first):
            self._left_units[n - first] += new.units[n] - old.units[n]
        for n in range(1, len(after) + 1):  # the right stack is reversed
            self._right_units[n - 1 - len(after)] += new.units[-n] - old.units[-n]
        self._left += inserted
        self._left_units += new.units[first:last]
        self._offset = offset + sum(new.units[:last])
        self._go_to(edit.cursor)
        return self._trimmed(offset, old, new, first, len(after))

    def _trimmed(
        self, offset: int, old: _Window, new: _Window, before: int, after: int
    ) -> TextEdit:
        """Return the edit from one window to the other, without context that did not change."""
        head = sum(old.chars[:before])
        kept = next((n for n in range(head) if old.text[n] != new.text[n]), head)
        tail = min(sum(w.chars[len(w.chars) - after :]) for w in (old, new))
        same = next((n for n in range(tail) if old.text[-1 - n] != new.text[-1 - n]), tail)
        return TextEdit(
            offset + sum(_size(char, self._unit) for char in old.text[:kept]),
            old.text[kept : len(old.text) - same],
            new.text[kept : len(new.text) - same],
            self._offset,
            self._unit,
        )

    def _context(self) -> tuple[list[bytes], list[bytes], bool]:
        """Return the parts of neighbouring tokens whose characters an edit here can change.

        UTF-8 resynchronises at every byte that does not continue a character, and a character
        has at most three bytes that do. A hidden first space depends on what comes first: the
        third result is True if the parts begin the text and its first space is hidden.
        """
        left, right = b"".join(_tail(self._left, 3)), b"".join(_head(self._right, 3))
        back, ahead = _open_bytes(left), _continuing_bytes(right)
        hide = self._hides_first_space and not left
        if hide:
            ahead += right[ahead : ahead + 1] == b" "
        return _tail(self._left, back), _head(self._right, ahead), hide

    def _take(self, count: int) -> list[bytes]:
        """Pop the last `count` tokens left of the boundary."""
        start = len(self._left) - count
        taken = self._left[start:]
        self._offset -= sum(self._left_units[start:])
        del self._left[start:], self._left_units[start:]
        return taken

    def _go_to(self, position: int) -> None:
        distance = position - len(self._left)
        if distance > 0:
            self._offset += sum(self._right_units[-distance:])
            _shift(self._right, self._left, distance)
            _shift(self._right_units, self._left_units, distance)
        elif distance < 0:
            self._offset -= sum(self._left_units[distance:])
            _shift(self._left, self._right, -distance)
            _shift(self._left_units, self._right_units, -distance)


@dataclass(frozen=True, slots=True)
class _Window:
    """Bytes decoded as text, and how much of it begins in each of the parts they came in."""

    text: str
    chars: list[int]
    units: list[int]  # the same in the unit of the stream


def _read(parts: list[bytes], unit: OffsetUnit, hide_first_space: bool) -> _Window:
    data = b"".join(parts)
    text = data.decode("utf-8", "replace")
    hidden = hide_first_space and text.startswith(" ")
    if data.isascii() and not hidden:
        sizes = [len(part) for part in parts]
        return _Window(text, sizes, sizes)
    chars, units = [0] * len(parts), [0] * len(parts)
    part, part_end, position = 0, len(parts[0]), 0
    for n, char in enumerate(text):
        while position >= part_end:
            part += 1
            part_end += len(parts[part])
        if n > 0 or not hidden:
            chars[part] += 1
            units[part] += _size(char, unit)
        position += _width(data, position, char)
    return _Window(text[hidden:], chars, units)


def _width(data: bytes, position: int, char: str) -> int:
    """Return how many bytes a decoded character took; U+FFFD stands for up to three."""
    if char != "\ufffd":
        return len(char.encode())
    tries = (data[position : position + n] for n in (3, 2, 1))
    return next(len(piece) for piece in tries if piece.decode("utf-8", "replace") == "\ufffd")


def _size(char: str, unit: OffsetUnit) -> int:
    return 2 if unit == "utf16" and ord(char) > 0xFFFF else 1


def _open_bytes(data: bytes) -> int:
    """Return how many of the last bytes may belong to a character that is not complete."""
    for n in range(1, min(3, len(data)) + 1):
        if data[-n] >= 0xC0:
            return n
        if data[-n] < 0x80:
            return 0
    return 0


def _continuing_bytes(data: bytes) -> int:
    """Return how many of the first bytes may belong to a character that began before them."""
    return next((n for n, byte in enumerate(data[:3]) if byte & 0xC0 != 0x80), len(data[:3]))


def _tail(tokens: list[bytes], size: int) -> list[bytes]:
    """Return the last `size` bytes, one part for each token that holds some of them."""
    parts: list[bytes] = []
    for token in reversed(tokens):
        if size == 0:
            break
        parts.append(token[-size:])
        size -= len(parts[-1])
    return parts[::-1]


def _head(reversed_tokens: list[bytes], size: int) -> list[bytes]:
    """Return the first `size` bytes of tokens kept in reverse, in parts as `_tail` does."""
    parts: list[bytes] = []
    for token in reversed(reversed_tokens):
        if size == 0:
            break
        parts.append(token[:size])
        size -= len(parts[-1])
    return parts


def _shift(source: list[Any], target: list[Any], count: int) -> None:
    """Move the last `count` items of one stack onto the other, which faces it."""
    target.extend(reversed(source[-count:]))
    del source[-count:]


def decode_bytes(data: bytes, hide_first_space: bool) -> str:
    """Return bytes as text; those that make no character become U+FFFD."""
    text = data.decode("utf-8", "replace")
    return text[1:] if hide_first_space and text.startswith(" ") else text
