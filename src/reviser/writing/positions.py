"""Positions of a language server's client: lines, and units of an encoding within a line."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import Literal, NamedTuple, Protocol, get_args

from reviser.errors import ConfigError

__all__ = ["LINE_END", "Encoding", "Position", "Positions"]

Encoding = Literal["utf-8", "utf-16", "utf-32"]
"""The units in which the client of a language server counts."""

_UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
LINE_END = re.compile(r"\r\n|\n|\r")
"""The protocol's line ends: Python's own `splitlines` knows more, and would count wrongly."""


class Position(NamedTuple):
    """A line, and a unit of the encoding in it; both count from 0."""

    line: int
    character: int


class HasPosition(Protocol):
    """A position of this module or of a library for the protocol."""

    @property
    def line(self) -> int: ...
    @property
    def character(self) -> int: ...


class Positions:
    r"""The lines of a text: offsets of characters to positions, and back.

    >>> positions = Positions("One\r\ntwo")
    >>> positions.position(6), positions.offset(Position(1, 1))
    (Position(line=1, character=1), 6)
    """

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        if encoding not in _UNITS:
            raise ConfigError(f"encoding is {encoding!r}; use one of {get_args(Encoding)}.")
        self.text, self.encoding = text, encoding
        self._codec, self._size = _UNITS[encoding]
        if "\r" in text:
            self._starts = [0, *(match.end() for match in LINE_END.finditer(text))]
        else:  # the same, and faster: an editor needs this for each keystroke
            ends = accumulate(len(line) + 1 for line in text.split("\n"))
            self._starts = [0, *ends][:-1]

    def position(self, offset: int) -> Position:
        """Return the position of a character."""
        line = bisect_right(self._starts, offset) - 1
        before = self.text[self._starts[line] : offset].encode(self._codec, "surrogatepass")
        return Position(line, len(before) // self._size)

    def offset(self, position: HasPosition) -> int:
        """Return the offset of a position; one beyond a line is its end, as the protocol says."""
        if position.line >= len(self._starts):
            return len(self.text)
        start = self._starts[position.line]
        following = self._starts[position.line + 1 : position.line + 2]
        line = self.text[start : following[0] if following else len(self.text)].rstrip("\r\n")
        units = line.encode(self._codec, "surrogatepass")[: position.character * self._size]
        return start + len(units.decode(self._codec, "ignore"))
