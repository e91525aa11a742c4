"""The canvas and its executor: the only code where an action changes content.

A canvas belongs to one request. It refuses what is impossible, such as a move past the end. That
text is locked or a budget is spent is the mask's business. Text is the codec's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reviser.core.actions import Action, ActionVocab, Kind
from reviser.errors import InvalidAction


@dataclass(frozen=True, slots=True)
class Edit:
    """The effect of one id on the tokens: `inserted` takes the place of `removed` at `position`.

    Moves, stops and ids that only begin or continue an action change no token.
    """

    position: int
    removed: tuple[int, ...]
    inserted: tuple[int, ...]
    cursor_before: int
    cursor: int

    def inverse(self) -> Edit:
        """Return the edit that undoes this one."""
        return Edit(self.position, self.inserted, self.removed, self.cursor, self.cursor_before)

    def shifted(self, by: int) -> Edit:
        """Return the edit on a canvas with this many more tokens before it.

        >>> Edit(1, (), (7,), 1, 2).shifted(3)
        Edit(position=4, removed=(), inserted=(7,), cursor_before=4, cursor=5)
        """
        before, after = self.cursor_before + by, self.cursor + by
        return Edit(self.position + by, self.removed, self.inserted, before, after)

    @property
    def changes_text(self) -> bool:
        """True if any token was removed or inserted."""
        return bool(self.removed or self.inserted)


@dataclass(frozen=True, slots=True)
class Pending:
    """A stop, or an operator whose arguments are still being read, digit by digit."""

    kind: Kind
    span: int = 0  # the first number, once it is complete
    amount: int = 0  # the number being read, so far
    digit: int = 0  # 1 + index of its last digit among the deltas; 0 before the first


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """A search that has begun and not ended."""

    ahead: npt.NDArray[np.int64]  # the tokens to the right of the cursor
    found: npt.NDArray[np.int64]  # where the tokens typed so far occur in `ahead`
    typed: int = 0
    kind: Kind = Kind.FIND

    def next_tokens(self, limit: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the matches that another token follows before `limit`, and those tokens."""
        found = self.found[self.found + self.typed < min(limit, len(self.ahead))]
        return found, self.ahead[found + self.typed]


Partial: TypeAlias = Pending | Search


class Canvas:
    """Tokens and a cursor between them, changed one action id at a time.

    Two stacks of tokens meet at the cursor, so an edit costs its own size and a move its distance.

    >>> vocab = ActionVocab.build(100)
    >>> canvas = Canvas(vocab, [7, 8])
    >>> canvas.apply(vocab.move_id(-1)).cursor
    1
    >>> canvas.apply(9)
    Edit(position=1, removed=(), inserted=(9,), cursor_before=1, cursor=2)
    >>> canvas.tokens()
    [7, 9, 8]
    >>> _ = canvas.rollback(2)
    >>> canvas.tokens(), canvas.cursor
    ([7, 8], 2)
    """

    def __init__(
        self,
        vocab: ActionVocab,
        tokens: Iterable[int] = (),
        cursor: int | None = None,
        marks: Iterable[int] = (),
    ) -> None:
        self.vocab = vocab
        self._left = list(tokens)
        self._right: list[int] = []  # reversed: the last is next to the cursor
        self._log: list[tuple[Edit, Partial | None, tuple[int, ...]]] = []
        self._pending: Partial | None = None
        self._marks = tuple(sorted(marks))
        if cursor is not None:
            if not 0 <= cursor <= len(self._left):
                raise InvalidAction(f"Cursor {cursor} is outside 0..{len(self._left)}.")
            self._go_to(cursor)

    @classmethod
    def replay(cls, vocab: ActionVocab, history: Iterable[int]) -> Canvas:
        """Return the canvas that a history makes of a blank one."""
        canvas = cls(vocab)
        for action_id in history:
            canvas.apply(action_id)
        return canvas

    def __repr__(self) -> str:
        left, right = (" ".join(map(str, part)) for part in self.window(8, 8))
        return f"<Canvas of {len(self)} tokens: ... {left} | {right} ...>"

    def __len__(self) -> int:
        return len(self._left) + len(self._right)

    @property
    def cursor(self) -> int:
        """The boundary the cursor is at, 0..len(canvas)."""
        return len(self._left)

    @property
    def is_finished(self) -> bool:
        """True once STOP was applied."""
        return self._pending is not None and self._pending.kind is Kind.STOP

    @property
    def is_spelling(self) -> bool:
        """True while an action of several ids has begun and is not complete."""
        return self._pending is not None and self._pending.kind is not Kind.STOP

    @property
    def pending(self) -> Partial | None:
        """The action of several ids that has begun and is not complete, or STOP; else None."""
        return self._pending

    @property
    def marks(self) -> tuple[int, ...]:
        """The marked boundaries, from left to right."""
        return self._marks

    def tokens(self) -> list[int]:
        """Return all tokens, in order."""
        return self._left + self._right[::-1]

    def window(self, before: int, after: int) -> tuple[list[int], list[int]]:
        """Return up to `before` tokens left and `after` tokens right of the cursor."""
        left = self._left[max(0, len(self._left) - before) :]
        return left, self._right[max(0, len(self._right) - after) :][::-1]

    def findable(self, until: int | None = None) -> list[int]:
        """Return the tokens that a search can continue with; none if no search has begun.

        With `until`, only matches that end at or before this boundary count.

        >>> vocab = ActionVocab.build(100, search=True)
        >>> canvas = Canvas(vocab, [7, 8, 7, 9], cursor=0)
        >>> for action_id in (vocab.find, 7):
        ...     _ = canvas.apply(action_id)
        >>> canvas.findable(), canvas.findable(until=3)
        ([8, 9], [8])
        """
        search = self._pending
        if not isinstance(search, Search):
            return []
        limit = len(self._right) if until is None else until - self.cursor
        tokens = np.unique(search.next_tokens(limit)[1])
        findable: list[int] = tokens[self.vocab.kinds[tokens] == Kind.INSERT].tolist()
        return findable

    @property
    def found(self) -> tuple[int, int] | None:
        """Start and end of the first match of an unfinished search; None if nothing is typed.

        >>> vocab = ActionVocab.build(100, search=True)
        >>> canvas = Canvas(vocab, [7, 8, 7, 9], cursor=0)
        >>> [(canvas.apply(i), canvas.found)[1] for i in (vocab.find, 7, 9)]
        [None, (0, 1), (2, 4)]
        """
        search = self._pending
        if not isinstance(search, Search) or not search.typed:
            return None
        start = self.cursor + int(search.found[0])
        return start, start + search.typed

    def can_find(self, until: int | None = None) -> bool:
        """Return whether a token between the cursor and `until` can be searched for."""
        count = len(self._right) if until is None else until - self.cursor
        kind, right = self.vocab.kind, self._right
        indices = range(len(right) - 1, max(len(right) - count, 0) - 1, -1)
        return any(kind(right[n]) is Kind.INSERT for n in indices)

    def apply(self, action_id: int) -> Edit:
        """Apply one id and return its effect, or change nothing and raise InvalidAction."""
        action_id = int(action_id)
        pending, cursor = self._pending, len(self._left)
        if pending is None:
            edit, after = self._begin(action_id, cursor)
        elif pending.kind is Kind.STOP:
            raise InvalidAction("The trajectory has stopped; nothing can follow STOP.")
        else:
            edit, after = self._continue(action_id, cursor, pending)
        self._log.append((edit, pending, self._marks))
        if self.vocab.mark is not None:
            kind = None if pending else self.vocab.kind(action_id)
            self._marks = self._marks_after(kind, edit)
        self._pending = after
        self._splice(edit.position, len(edit.removed), edit.inserted, edit.cursor)
        return edit

    def act(self, action: Action) -> list[Edit]:
        """Apply all ids of a whole action, or change nothing and raise InvalidAction."""
        if self.is_spelling:
            raise InvalidAction("An action is unfinished; complete it or roll it back first.")
        edits: list[Edit] = []
        try:
            for action_id in self.vocab.spell(action):
                edits.append(self.apply(action_id))
        except InvalidAction:
            self.rollback(len(edits))
            raise
        return edits

    def rollback(self, count: int = 1) -> list[Edit]:
        """Undo the last `count` ids and return the edits that did so."""
        if not 0 <= count <= len(self._log):
            raise InvalidAction(f"Cannot roll back {count} ids: {len(self._log)} were applied.")
        undone = []
        for _ in range(count):
            edit, self._pending, self._marks = self._log.pop()
            undone.append(edit.inverse())
            self._splice(edit.position, len(edit.inserted), edit.removed, edit.cursor_before)
        return undone

    def fork(self, *, past: bool = True) -> Canvas:
        """Return an independent copy, with or without the undo log."""
        copy = Canvas(self.vocab)
        copy._left, copy._right = self._left.copy(), self._right.copy()
        copy._log, copy._pending = self._log.copy() if past else [], self._pending
        copy._marks = self._marks
        return copy

    # -- the executor: what each id does ------------------------------------------------------

    def _begin(self, action_id: int, cursor: int) -> tuple[Edit, Partial | None]:
        vocab, kind = self.vocab, self.vocab.kind(action_id)
        if kind in (Kind.INSERT, Kind.PREFIX_ONLY):  # the mask keeps the second from being chosen
            return Edit(cursor, (), (action_id,), cursor, cursor + 1), None
        if kind is Kind.MOVE:
            goal = cursor + int(vocab.cursor_deltas[action_id])
            if not 0 <= goal <= len(self):
                raise _refused(vocab, action_id, cursor, f"it would land at {goal}")
            return Edit(cursor, (), (), cursor, goal), None
        if kind is Kind.TO_MARK:
            if not self._marks:
                raise _refused(vocab, action_id, cursor, "there must be a mark to go back to")
            return Edit(cursor, (), (), cursor, self._marks[0]), None
        nothing = Edit(cursor, (), (), cursor, cursor)
        if kind is Kind.MARK and cursor in self._marks:
            raise _refused(vocab, action_id, cursor, "there is a mark already")
        if kind in (Kind.SEPARATOR, Kind.MARK):
            return nothing, None
        if kind is Kind.FIND:
            if not self.can_find():
                raise _refused(vocab, action_id, cursor, "there must be a token to its right")
            ahead = np.array(self._right[::-1], np.int64)
            return nothing, Search(ahead, np.arange(len(ahead)))
        if kind in (Kind.FIND_END, Kind.NUMBER_END, Kind.RESERVED):
            raise InvalidAction(f"Cannot apply {vocab.describe(action_id)}: it is not an action.")
        if kind is Kind.STOP:
            return nothing, Pending(kind)
        needed = 2 if kind is Kind.SWAP else 1
        if cursor < needed:
            raise _refused(vocab, action_id, cursor, f"it needs {needed} token(s) to its left")
        if kind is Kind.DELETE:
            return self._span_delete(1, cursor), None
        if kind is Kind.SWAP:
            first, second = self._left[-2:]
            return Edit(cursor - 2, (first, second), (second, first), cursor, cursor), None
        return nothing, Pending(kind)

    def _continue(
        self, action_id: int, cursor: int, pending: Partial
    ) -> tuple[Edit, Partial | None]:
        vocab, kind = self.vocab, self.vocab.kind(action_id)
        if pending.kind is Kind.REPLACE:
            if kind is not Kind.INSERT:
                raise _misspelled(vocab, action_id, pending, "a token")
            old = (self._left[-1],)
            return Edit(cursor - 1, old, (action_id,), cursor, cursor), None
        if isinstance(pending, Search):
            return self._search(action_id, kind, cursor, pending)
        if kind is Kind.MOVE:
            digit = action_id - vocab.first_move
            amount = pending.amount + int(vocab.cursor_deltas[action_id])
            low, high = self._number_bounds(pending, cursor)
            if not vocab.digit_follows[pending.digit, digit] or not low <= amount <= high:
                raise _misspelled(vocab, action_id, pending, f"a number from {low} to {high}")
            nothing = Edit(cursor, (), (), cursor, cursor)
            return nothing, Pending(pending.kind, pending.span, amount, digit + 1)
        if kind is not Kind.NUMBER_END or not (pending.span or pending.amount):
            raise _misspelled(vocab, action_id, pending, "a digit")
        return self._close_number(pending, cursor)

    def _search(
        self, action_id: int, kind: Kind, cursor: int, search: Search
    ) -> tuple[Edit, Partial | None]:
        if kind is Kind.FIND_END and search.typed:
            goal = cursor + int(search.found[0]) + search.typed
            return Edit(cursor, (), (), cursor, goal), None
        found, tokens = search.next_tokens(len(search.ahead))
        found = found[tokens == action_id]
        if kind is not Kind.INSERT or not found.size:
            raise _misspelled(self.vocab, action_id, search, "tokens that occur to the right")
        nothing = Edit(cursor, (), (), cursor, cursor)
        return nothing, replace(search, typed=search.typed + 1, found=found)

    def _number_bounds(self, pending: Pending, cursor: int) -> tuple[int, int]:
        if not pending.span:
            return 1, cursor
        kept_left = cursor - pending.span if pending.kind is Kind.SPAN_MOVE else cursor
        return -kept_left, len(self._right)

    def _close_number(self, pending: Pending, cursor: int) -> tuple[Edit, Pending | None]:
        if pending.kind is Kind.SPAN_DELETE:
            return self._span_delete(pending.amount, cursor), None
        if not pending.span:
            nothing = Edit(cursor, (), (), cursor, cursor)
            return nothing, Pending(pending.kind, pending.amount)
        span = tuple(self._left[cursor - pending.span :])
        if pending.kind is Kind.SPAN_COPY:
            goal = cursor + pending.amount
            return Edit(goal, (), span, cursor, goal + len(span)), None
        return self._span_move(span, pending.amount, cursor), None

    def _span_delete(self, size: int, cursor: int) -> Edit:
        span = tuple(self._left[cursor - size :])
        return Edit(cursor - size, span, (), cursor, cursor - size)

    def _span_move(self, span: tuple[int, ...], jump: int, cursor: int) -> Edit:
        start = cursor - len(span)
        if jump < 0:  # the paper's j = u - k + jump: the cursor does not move
            passed = tuple(self._left[start + jump : start])
            return Edit(start + jump, passed + span, span + passed, cursor, cursor)
        passed = tuple(self.window(0, jump)[1])  # j = u + jump: the cursor moves too
        return Edit(start, span + passed, passed + span, cursor, cursor + jump)

    def _marks_after(self, kind: Kind | None, edit: Edit) -> tuple[int, ...]:
        if kind is Kind.MARK:
            return tuple(sorted((*self._marks, edit.cursor)))
        if kind is Kind.TO_MARK:
            return self._marks[1:]
        return shift_marks(self._marks, edit.position, len(edit.inserted) - len(edit.removed))

    # -- the two stacks -----------------------------------------------------------------------

    def _splice(self, position: int, size: int, inserted: Sequence[int], cursor: int) -> None:
        if size or inserted:
            self._go_to(position + size)
            if size:
                del self._left[-size:]
            self._left.extend(inserted)
        self._go_to(cursor)

    def _go_to(self, cursor: int) -> None:
        left, right = self._left, self._right
        distance = cursor - len(left)
        if distance > 0:
            left.extend(reversed(right[-distance:]))
            del right[-distance:]
        elif distance < 0:
            right.extend(reversed(left[distance:]))
            del left[distance:]


def shift_marks(marks: tuple[int, ...], position: int, growth: int) -> tuple[int, ...]:
    """Shift marks after `growth` tokens were inserted at a position, or removed if negative.

    A mark stays before what is inserted at it. Where tokens are removed, marks may coincide.
    """
    if not (marks and growth):
        return marks
    moved = (mark if mark <= position else max(position, mark + growth) for mark in marks)
    return tuple(dict.fromkeys(moved))


def _refused(vocab: ActionVocab, action_id: int, cursor: int, why: str) -> InvalidAction:
    return InvalidAction(
        f"Cannot apply {vocab.describe(action_id)}: the cursor is at {cursor}, so {why}."
        " The canvas is unchanged."
    )


def _misspelled(
    vocab: ActionVocab, action_id: int, pending: Partial, expected: str
) -> InvalidAction:
    return InvalidAction(
        f"Cannot apply {vocab.describe(action_id)}: {pending.kind.word} expects"
        f" {expected} here. The canvas is unchanged."
    )
