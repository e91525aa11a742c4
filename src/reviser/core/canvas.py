"""The canvas and its executor: the one place where an action changes content.

A canvas belongs to one request. It knows the law (what can be done at all) and no policy: prefix
floor, locked regions and budgets are the mask's. Text is the codec's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
        # Behind which tokens hops land: of the left ones by distance from the left edge, of the
        # right ones from the right edge.
        self._left_landings = self._landings_in(self._left, 0) if vocab.landings else []
        self._right_landings: list[int] = []
        self._log: list[tuple[Edit, _Pending | None]] = []
        self._pending: _Pending | None = None
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

    def tokens(self) -> list[int]:
        """All tokens, in order."""
        return self._left + self._right[::-1]

    def window(self, before: int, after: int) -> tuple[list[int], list[int]]:
        """Up to `before` tokens left and `after` tokens right of the cursor."""
        left = self._left[max(0, len(self._left) - before) :]
        return left, self._right[max(0, len(self._right) - after) :][::-1]

    def hop_goals(self, side: int, most: int | None = None) -> list[int]:
        """Where hops lead from here, right (+1) or left (-1), nearest first, up to `most`."""
        cursor, length = len(self._left), len(self)
        first = None if most is None else -most - 1  # one more, since it may be where we are
        if side < 0:
            goals = [place for place in self._left_landings[first:][::-1] if place < cursor]
            goals += [0] * (cursor > 0)
        else:
            goals = [length - place for place in self._right_landings[first:][::-1]]
            goals += [length] * (bool(self._right) and goals[-1:] != [length])
        return goals[:most]

    def way(self, goal: int) -> tuple[int, ...]:
        """The ids that take the cursor to `goal`, fewest.

        Hops, if the vocabulary has any and they lead from landing to landing; else moves.
        """
        cursor, length = self.cursor, len(self)
        left, right = self.hop_goals(-1), self.hop_goals(+1)
        is_landing = cursor in (0, length) or self._left_landings[-1:] == [cursor]
        if self.vocab.first_hop is not None and is_landing and goal in {*left, *right}:
            hops = -1 - left.index(goal) if goal < cursor else 1 + right.index(goal)
            deltas = self.vocab.split_hop(hops, before=len(left), behind=len(right))
            return tuple(self.vocab.hop_id(delta) for delta in deltas)
        deltas = self.vocab.split_move(goal - cursor, cursor=cursor, length=length)
        return tuple(self.vocab.move_id(delta) for delta in deltas)

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
        self._log.append((edit, pending))
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
            edit, self._pending = self._log.pop()
            undone.append(edit.inverse())
            self._splice(edit.position, len(edit.inserted), edit.removed, edit.cursor_before)
        return undone

    def fork(self) -> Canvas:
        """An independent copy that shares the past."""
        twin = Canvas(self.vocab)
        twin._left, twin._right = self._left.copy(), self._right.copy()
        twin._left_landings = self._left_landings.copy()
        twin._right_landings = self._right_landings.copy()
        twin._log, twin._pending = self._log.copy(), self._pending
        return twin

    # -- the executor's law -------------------------------------------------------------------

    def _begin(self, action_id: int, cursor: int) -> tuple[Edit, _Pending | None]:
        vocab, kind = self.vocab, self.vocab.kind(action_id)
        if kind in (Kind.INSERT, Kind.BARRED):  # that BARRED is not chosen is the mask's rule
            return Edit(cursor, (), (action_id,), cursor, cursor + 1), None
        if kind is Kind.MOVE:
            goal = cursor + int(vocab.cursor_deltas[action_id])
            if not 0 <= goal <= len(self):
                raise _refused(vocab, action_id, cursor, f"it would land at {goal}")
            return Edit(cursor, (), (), cursor, goal), None
        if kind is Kind.HOP:
            hop = vocab.hop_delta(action_id)
            goals = self.hop_goals(hop, abs(hop))
            if abs(hop) > len(goals):
                raise _refused(vocab, action_id, cursor, f"it has {len(goals)} places to land")
            return Edit(cursor, (), (), cursor, goals[-1]), None
        nothing = Edit(cursor, (), (), cursor, cursor)
        if kind is Kind.GIVEN:
            return nothing, None
        if kind in (Kind.END, Kind.FORBIDDEN):
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

    def _continue(
        self, action_id: int, cursor: int, pending: _Pending
    ) -> tuple[Edit, _Pending | None]:
        vocab, kind = self.vocab, self.vocab.kind(action_id)
        if pending.kind is Kind.REPLACE:
            if kind is not Kind.INSERT:
                raise _misspelled(vocab, action_id, pending, "a token")
            old = (self._left[-1],)
            return Edit(cursor - 1, old, (action_id,), cursor, cursor), None
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

    # -- the two stacks -----------------------------------------------------------------------

    def _splice(self, position: int, size: int, inserted: Sequence[int], cursor: int) -> None:
        if size or inserted:
            self._go_to(position + size)
            if size:
                del self._left[-size:]
                self._drop_landings()
            if self.vocab.landings:
                self._left_landings += self._landings_in(inserted, len(self._left))
            self._left.extend(inserted)
        self._go_to(cursor)

    def _go_to(self, cursor: int) -> None:
        left, right = self._left, self._right
        distance = cursor - len(left)
        if distance > 0:
            left.extend(reversed(right[-distance:]))
            del right[-distance:]
            while self._right_landings and self._right_landings[-1] >= len(right):
                self._left_landings.append(len(self) - self._right_landings.pop())
        elif distance < 0:
            right.extend(reversed(left[distance:]))
            del left[distance:]
            self._right_landings += [len(self) - p for p in self._drop_landings()]

    def _landings_in(self, tokens: Sequence[int], offset: int) -> list[int]:
        """Boundaries that hops may lead to in tokens that stand behind `offset` others."""
        is_landing = self.vocab.is_landing
        return [n for n, token in enumerate(tokens, offset + 1) if is_landing[token]]

    def _drop_landings(self) -> list[int]:
        """Take those off the left that are beyond its end, the last first."""
        dropped = []
        while self._left_landings and self._left_landings[-1] > len(self._left):
            dropped.append(self._left_landings.pop())
        return dropped


def _refused(vocab: ActionVocab, action_id: int, cursor: int, why: str) -> InvalidAction:
    return InvalidAction(
        f"Cannot apply {vocab.describe(action_id)}: the cursor is at {cursor}, so {why}."
        " The canvas is unchanged."
    )


def _misspelled(
    vocab: ActionVocab, action_id: int, pending: _Pending, expected: str
) -> InvalidAction:
    return InvalidAction(
        f"Cannot apply {vocab.describe(action_id)}: {pending.kind.name.lower()} expects"
        f" {expected} here. The canvas is unchanged."
    )
