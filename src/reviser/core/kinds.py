"""The kinds of action ids, and whole actions as values.

The lowest module of the action vocabulary: it knows names and numbers of arguments, but no ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


class Kind(IntEnum):
    """The effect of an id that comes first, that is, not as the argument of another action."""

    INSERT = 0
    MOVE = 1
    STOP = 2
    DELETE = 3
    REPLACE = 4
    SWAP = 5
    SPAN_DELETE = 6
    SPAN_MOVE = 7
    SPAN_COPY = 8
    MARK = 9  # marks the cursor's position, to come back to it later
    TO_MARK = 10  # moves the cursor to the leftmost mark and removes that mark
    FIND = 11  # begins a search for the tokens that follow
    FIND_END = 12  # ends a search: the cursor moves to the end of the first match
    NUMBER_END = 13  # ends a number
    SEPARATOR = 14  # begin and delimiter: part of a history, never chosen, no effect
    PREFIX_ONLY = 15  # a token that a prefix may hold but that is never chosen
    RESERVED = 16  # never in a history

    @property
    def word(self) -> str:
        """The kind's name in messages, in saved files and among the fields of a vocabulary."""
        return _WORDS.get(self, self.name.lower())


# Models and rollouts were saved with these words.
_WORDS = {Kind.TO_MARK: "back", Kind.FIND_END: "here", Kind.NUMBER_END: "end"}
KIND_OF_WORD = {kind.word: kind for kind in Kind}


MOVES = (Kind.MOVE, Kind.TO_MARK, Kind.FIND)
"""Kinds that only move the cursor."""

OPERATORS = ("delete", "replace", "swap", "span_delete", "span_move", "span_copy")
"""The optional operators of the paper's appendix; a vocabulary has any subset of them."""

NUMBER_ARGUMENTS = {Kind.SPAN_DELETE: 1, Kind.SPAN_MOVE: 2, Kind.SPAN_COPY: 2}
"""Number of numbers that follow an operator."""


@dataclass(frozen=True)
class Action:
    """One whole action, which may take several ids to spell.

    `argument` is the token of an insert or replace, the delta of a move or the length of a span.
    `offset` belongs to the last two operators. For SPAN_MOVE it is how many tokens the span jumps
    over (negative: to the left); for SPAN_COPY it is where the copy goes, relative to the cursor.
    `tokens` is what FIND searches for.

    >>> print(Action(Kind.MOVE, -4), Action(Kind.SPAN_MOVE, 3, -2), Action(Kind.STOP), sep=", ")
    move -4, span_move 3 -2, stop
    """

    kind: Kind
    argument: int = 0
    offset: int = 0
    tokens: tuple[int, ...] = field(default=(), kw_only=True)

    def __str__(self) -> str:
        name, numbers = self.kind.word, NUMBER_ARGUMENTS.get(self.kind, 0)
        if self.kind is Kind.FIND:
            return " ".join([name, *map(str, self.tokens)])
        if self.kind is Kind.MOVE:
            return f"{name} {self.argument:+d}"
        if numbers == 2:
            return f"{name} {self.argument} {self.offset:+d}"
        takes_one = numbers == 1 or self.kind in (Kind.INSERT, Kind.REPLACE)
        return f"{name} {self.argument}" if takes_one else name
