"""The canvas and its executor: the one place where an action changes content.

A canvas belongs to one request. It knows the law (what can be done at all) and no policy: prefix
floor, locked regions and budgets are the mask's. Text is the codec's.
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
    """The effect of one id on the tokens: `removed` at `position` gave way to `inserted`.

    A move, a stop and an id that only begins or continues an action change no token.
    """

    position: int
    removed: tuple[int, ...]
    inserted: tuple[int, ...]
    cursor_before: int
    cursor: int

    def inverse(self) -> Edit:
        """The edit that undoes this one."""
        return Edit(self.position, self.inserted, self.removed, self.cursor, self.cursor_before)

    @property
    def changes_text(self) -> bool:
        """Whether any token was removed or inserted."""
        return bool(self.removed or self.inserted)


@dataclass(frozen=True, slots=True)
class _Pending:
    """An action begun and not yet complete; numbers are read digit by digit."""

    kind: Kind
    span: int = 0  # the first number, once closed
    amount: int = 0  # the number being read, so far
    digit: int = 0  # 1 + its last digit's place among the deltas; 0 before the first


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """A search begun and not yet closed."""

    ahead: npt.NDArray[np.int64]  # the tokens to the right of the cursor
    found: npt.NDArray[np.int64]  # where those typed so far stand among them
    typed: int = 0
    kind: Kind = Kind.FIND

    def followed(self, room: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The places with a token behind what is typed, among the first so many, and the tokens."""
        found = self.found[self.found + self.typed < min(room, len(self.ahead))]
        return found, self.ahead[found + self.typed]


_Begun: TypeAlias = _Pending | _Search


class Canvas:
    """Tokens and a cursor between them, changed one action id at a time.

    Two stacks meet at the cursor, so an edit there costs its own size and a move its distance,
    whatever the canvas holds.

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
        self, vocab: ActionVocab, tokens: Iterable[int] = (), cursor: int | None = None
    ) -> None:
        self.vocab = vocab
        self._left = list(tokens)
        self._right: list[int] = []  # reversed: the last is next to the cursor
        self._log: list[tuple[Edit, _Begun | None, tuple[int, ...]]] = []
        self._pending: _Begun | None = None
        self._marks: tuple[int, ...] = ()
        if cursor is not None:
            if not 0 <= cursor <= len(self._left):
                raise InvalidAction(f"Cursor {cursor} is outside 0..{len(self._left)}.")
            self._go_to(cursor)

    @classmethod
    def replay(cls, vocab: ActionVocab, history: Iterable[int]) -> Canvas:
        """The canvas that a history leaves behind, from a blank one."""
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
        """Whether STOP was applied."""
        return self._pending is not None and self._pending.kind is Kind.STOP

    @property
    def is_spelling(self) -> bool:
        """Whether an action of several ids has begun and is not complete."""
        return self._pending is not None and self._pending.kind is not Kind.STOP

    @property
    def marks(self) -> tuple[int, ...]:
        """The boundaries where something was left out, from the left."""
        return self._marks

    def tokens(self) -> list[int]:
        """All tokens, in order."""
        return self._left + self._right[::-1]

    def window(self, before: int, after: int) -> tuple[list[int], list[int]]:
        """Up to `before` tokens left and `after` tokens right of the cursor."""
        left = self._left[max(0, len(self._left) - before) :]
        return left, self._right[max(0, len(self._right) - after) :][::-1]

    def findable(self, until: int | None = None) -> list[int]:
        """The tokens that a search may go on with, so that what it finds ends by a boundary.

        None if no search has begun.

        >>> vocab = ActionVocab.build(100, search=True)
        >>> canvas = Canvas(vocab, [7, 8, 7, 9], cursor=0)
        >>> for action_id in (vocab.find, 7):
        ...     _ = canvas.apply(action_id)
        >>> canvas.findable(), canvas.findable(until=3)
        ([8, 9], [8])
        """
        search = self._pending
        if not isinstance(search, _Search):
            return []
        room = len(self._right) if until is None else until - self.cursor
        tokens = np.unique(search.followed(room)[1])
        findable: list[int] = tokens[self.vocab.kinds[tokens] == Kind.INSERT].tolist()
        return findable

    @property
    def found(self) -> tuple[int, int] | None:
        """Where what a search has typed so far stands first; None if nothing is typed.

        >>> vocab = ActionVocab.build(100, search=True)
        >>> canvas = Canvas(vocab, [7, 8, 7, 9], cursor=0)
        >>> [(canvas.apply(i), canvas.found)[1] for i in (vocab.find, 7, 9)]
        [None, (0, 1), (2, 4)]
        """
        search = self._pending
        if not isinstance(search, _Search) or not search.typed:
            return None
        start = self.cursor + int(search.found[0])
        return start, start + search.typed

    def can_find(self, until: int | None = None) -> bool:
        """Whether there is a token to the right, ending by a boundary, that can be searched for."""
        count = len(self._right) if until is None else until - self.cursor
        kinds, right = self.vocab.kinds, self._right
        places = range(len(right) - 1, max(len(right) - count, 0) - 1, -1)
        return any(kinds[right[place]] == Kind.INSERT for place in places)

    def apply(self, action_id: int) -> Edit:
        """Apply one id and return its effect; if it cannot be done, change nothing and raise."""
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
        """Apply a whole action, however many ids spell it; all of it or nothing."""
        if self.is_spelling:
            raise InvalidAction("An action is half spelled; complete it or roll it back first.")
        edits: list[Edit] = []
        try:
            for action_id in self.vocab.spell(action):
                edits.append(self.apply(action_id))
        except InvalidAction:
            self.rollback(len(edits))
            raise
        return edits

    def rollback(self, count: int = 1) -> list[Edit]:
        """Undo the last `count` ids, at the cost of their edits; give the edits that did it."""
        if not 0 <= count <= len(self._log):
            raise InvalidAction(f"Cannot roll back {count} ids: {len(self._log)} were applied.")
        undone = []
        for _ in range(count):
            edit, self._pending, self._marks = self._log.pop()
            undone.append(edit.inverse())
            self._splice(edit.position, len(edit.inserted), edit.removed, edit.cursor_before)
        return undone

    def forget(self) -> None:
        """Let go of the past, which grows with every id; it can no longer be rolled back."""
        self._log.clear()

    def fork(self, *, past: bool = True) -> Canvas:
        """An independent copy; with the past, which it could roll back, unless told otherwise."""
        twin = Canvas(self.vocab)
        twin._left, twin._right = self._left.copy(), self._right.copy()
        twin._log, twin._pending = self._log.copy() if past else [], self._pending
        twin._marks = self._marks
        return twin

    # -- the executor's law -------------------------------------------------------------------

    def _begin(self, action_id: int, cursor: int) -> tuple[Edit, _Begun | None]:
        vocab, kind = self.vocab, self.vocab.kind(action_id)
        if kind in (Kind.INSERT, Kind.BARRED):  # that BARRED is not chosen is the mask's rule
            return Edit(cursor, (), (action_id,), cursor, cursor + 1), None
        if kind is Kind.MOVE:
            goal = cursor + int(vocab.cursor_deltas[action_id])
            if not 0 <= goal <= len(self):
                raise _refused(vocab, action_id, cursor, f"it would land at {goal}")
            return Edit(cursor, (), (), cursor, goal), None
        if kind is Kind.BACK:
            if not self._marks:
                raise _refused(vocab, action_id, cursor, "there must be a mark to go to")
            return Edit(cursor, (), (), cursor, self._marks[0]), None
        nothing = Edit(cursor, (), (), cursor, cursor)
        if kind is Kind.MARK and cursor in self._marks:
            raise _refused(vocab, action_id, cursor, "there is a mark already")
        if kind in (Kind.GIVEN, Kind.MARK):
            return nothing, None
        if kind is Kind.FIND:
            if not self.can_find():
                raise _refused(vocab, action_id, cursor, "there must be a token to its right")
            ahead = np.array(self._right[::-1], np.int64)
            return nothing, _Search(ahead, np.arange(len(ahead)))
        if kind in (Kind.HERE, Kind.END, Kind.FORBIDDEN):
            raise InvalidAction(f"Cannot apply {vocab.describe(action_id)}: it is not an action.")
        if kind is Kind.STOP:
            return nothing, _Pending(kind)
        needed = 2 if kind is Kind.SWAP else 1
        if cursor < needed:
            raise _refused(vocab, action_id, cursor, f"it needs {needed} token(s) to its left")
        if kind is Kind.DELETE:
            return self._span_delete(1, cursor), None
        if kind is Kind.SWAP:
            first, second = self._left[-2:]
            return Edit(cursor - 2, (first, second), (second, first), cursor, cursor), None
        return nothing, _Pending(kind)

    def _continue(self, action_id: int, cursor: int, pending: _Begun) -> tuple[Edit, _Begun | None]:
        vocab, kind = self.vocab, self.vocab.kind(action_id)
        if pending.kind is Kind.REPLACE:
            if kind is not Kind.INSERT:
                raise _misspelled(vocab, action_id, pending, "a token")
            old = (self._left[-1],)
            return Edit(cursor - 1, old, (action_id,), cursor, cursor), None
        if isinstance(pending, _Search):
            return self._search(action_id, kind, cursor, pending)
        if kind is Kind.MOVE:
            digit = action_id - vocab.first_move
            amount = pending.amount + int(vocab.cursor_deltas[action_id])
            low, high = self._number_bounds(pending, cursor)
            if not vocab.digit_follows[pending.digit, digit] or not low <= amount <= high:
                raise _misspelled(vocab, action_id, pending, f"a number from {low} to {high}")
            nothing = Edit(cursor, (), (), cursor, cursor)
            return nothing, _Pending(pending.kind, pending.span, amount, digit + 1)
        if kind is not Kind.END or not (pending.span or pending.amount):
            raise _misspelled(vocab, action_id, pending, "a digit")
        return self._close_number(pending, cursor)

    def _search(
        self, action_id: int, kind: Kind, cursor: int, search: _Search
    ) -> tuple[Edit, _Begun | None]:
        if kind is Kind.HERE and search.typed:
            goal = cursor + int(search.found[0]) + search.typed
            return Edit(cursor, (), (), cursor, goal), None
        found, tokens = search.followed(len(search.ahead))
        found = found[tokens == action_id]
        if kind is not Kind.INSERT or not found.size:
            raise _misspelled(self.vocab, action_id, search, "tokens that are found to the right")
        nothing = Edit(cursor, (), (), cursor, cursor)
        return nothing, replace(search, typed=search.typed + 1, found=found)

    def _number_bounds(self, pending: _Pending, cursor: int) -> tuple[int, int]:
        if not pending.span:
            return 1, cursor
        kept_left = cursor - pending.span if pending.kind is Kind.SPAN_MOVE else cursor
        return -kept_left, len(self._right)

    def _close_number(self, pending: _Pending, cursor: int) -> tuple[Edit, _Pending | None]:
        if pending.kind is Kind.SPAN_DELETE:
            return self._span_delete(pending.amount, cursor), None
        if not pending.span:
            nothing = Edit(cursor, (), (), cursor, cursor)
            return nothing, _Pending(pending.kind, pending.amount)
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
        if jump < 0:  # the paper's j = u - k + jump: the cursor stays
            passed = tuple(self._left[start + jump : start])
            return Edit(start + jump, passed + span, span + passed, cursor, cursor)
        passed = tuple(self.window(0, jump)[1])  # j = u + jump: the cursor goes with the span
        return Edit(start, span + passed, passed + span, cursor, cursor + jump)

    def _marks_after(self, kind: Kind | None, edit: Edit) -> tuple[int, ...]:
        if kind is Kind.MARK:
            return tuple(sorted((*self._marks, edit.cursor)))
        if kind is Kind.BACK:
            return self._marks[1:]
        return shifted(self._marks, edit.position, len(edit.inserted) - len(edit.removed))

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


def shifted(marks: tuple[int, ...], place: int, grown: int) -> tuple[int, ...]:
    """Where marks are when so many tokens were put in behind a place, or taken out.

    A mark stays before what is inserted at it; where tokens are taken out, marks may meet.
    """
    if not (marks and grown):
        return marks
    moved = (mark if mark <= place else max(place, mark + grown) for mark in marks)
    return tuple(dict.fromkeys(moved))


def _refused(vocab: ActionVocab, action_id: int, cursor: int, why: str) -> InvalidAction:
    return InvalidAction(
        f"Cannot apply {vocab.describe(action_id)}: the cursor is at {cursor}, so {why}."
        " The canvas is unchanged."
    )


def _misspelled(
    vocab: ActionVocab, action_id: int, pending: _Begun, expected: str
) -> InvalidAction:
    return InvalidAction(
        f"Cannot apply {vocab.describe(action_id)}: {pending.kind.name.lower()} expects"
        f" {expected} here. The canvas is unchanged."
    )
