"""One row of the mask, the slow and readable way: a canvas, its ranges and budgets, id by id.

`core.mask.ActionMask` does the same for many rows with arrays. Here the canvas knows content, marks
and the unfinished action, and each id that may be chosen is decided by itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas, Edit
from support.strategies import Layout

EDITS = (Kind.INSERT, Kind.DELETE, Kind.SWAP, Kind.REPLACE)
SPANS = (Kind.SPAN_DELETE, Kind.SPAN_MOVE, Kind.SPAN_COPY)


class SlowRow:
    """The state of one sequence, and which ids may follow."""

    def __init__(self, vocab: ActionVocab, canvas: Canvas, layout: Layout) -> None:
        self.vocab, self.canvas = vocab, canvas.fork(past=False)
        self.editable = list(layout.editable)
        self.layout = layout
        self.edits = self.moves = 0
        self.pending: Kind | None = None
        self.numbers: list[int] = []  # the numbers of the unfinished action, the last incomplete
        self.digit = 0
        self.typed: list[int] = []

    # -- what may follow ----------------------------------------------------------------------

    def allowed(self) -> set[int]:
        """Return the ids that may follow."""
        vocab = self.vocab
        if self.canvas.is_finished:
            return {vocab.stop}
        ids = {i for i in range(vocab.size) if self._is_allowed(i, vocab.kind(i))}
        if self.pending is Kind.FIND:
            ids |= {*self.findable()}
        return ids

    def findable(self) -> list[int]:
        """Return the tokens with which a search may continue."""
        if self.pending is not Kind.FIND:
            return []
        return self.canvas.findable(max((high for _, high in self.editable), default=-1))

    def _is_allowed(self, action_id: int, kind: Kind) -> bool:
        if self.pending is None:
            return self._may_begin(action_id, kind)
        if self.pending is Kind.REPLACE:
            return kind is Kind.INSERT
        if self.pending is Kind.FIND:
            return kind is Kind.FIND_END and bool(self.typed)
        if kind is Kind.MOVE:
            return self._may_add(action_id)
        return kind is Kind.NUMBER_END and self._may_end()

    def _may_begin(self, action_id: int, kind: Kind) -> bool:
        canvas, layout, cursor = self.canvas, self.layout, self.canvas.cursor
        left, _ = self._editable()
        floor = min((low for low, _ in self.editable), default=1 << 40)
        ceiling = max((high for _, high in self.editable), default=-1)
        may_edit = layout.max_edits is None or self.edits < layout.max_edits
        may_move = may_edit and (layout.max_moves is None or self.moves < layout.max_moves)
        can_grow = layout.max_length is None or len(canvas) < layout.max_length
        if kind is Kind.STOP:
            return True
        if kind is Kind.MOVE:
            return (
                may_move and floor <= cursor + int(self.vocab.cursor_deltas[action_id]) <= ceiling
            )
        if kind is Kind.INSERT:
            return may_edit and self._is_editable(cursor) and can_grow
        if kind is Kind.MARK:
            return may_edit and self._is_editable(cursor) and cursor not in canvas.marks
        if kind is Kind.TO_MARK:
            return may_move and bool(canvas.marks) and floor <= canvas.marks[0] <= ceiling
        if kind is Kind.FIND:
            return may_move and canvas.can_find(min(ceiling, len(canvas)))
        if kind is Kind.SPAN_COPY:
            return may_edit and cursor > 0 and can_grow and bool(self.editable)
        if kind in (*EDITS, *SPANS):
            return may_edit and left >= (2 if kind is Kind.SWAP else 1)
        return False

    def _is_editable(self, boundary: int) -> bool:
        return any(low <= boundary <= high for low, high in self.editable)

    def _editable(self) -> tuple[int, int]:
        """Return the editable tokens left and right of the cursor."""
        cursor = self.canvas.cursor
        around = [
            (cursor - low, high - cursor) for low, high in self.editable if low <= cursor <= high
        ]
        return around[0] if around else (0, 0)

    def _may_add(self, digit_id: int) -> bool:
        """Return whether a digit may follow in a number."""
        vocab, digit = self.vocab, digit_id - self.vocab.first_move
        if not vocab.digit_follows[self.digit, digit]:
            return False
        delta = int(vocab.cursor_deltas[digit_id])
        amount, (left, right) = self.numbers[-1] + delta, self._editable()
        if len(self.numbers) == 1:
            longest = self.canvas.cursor if self.pending is Kind.SPAN_COPY else left
            if self.pending is Kind.SPAN_COPY and self.layout.max_length is not None:
                longest = min(longest, self.layout.max_length - len(self.canvas))
            return 1 <= amount <= longest
        if self.pending is Kind.SPAN_MOVE:
            return self.numbers[0] - left <= amount <= right
        # Digits decrease and only the largest repeats: some range must be within what is left.
        rest = 1 << 40 if abs(delta) == vocab.max_move else abs(delta) - 1
        ends = sorted([amount, amount + (rest if delta > 0 else -rest)])
        first, last = (self.canvas.cursor + end for end in ends)
        return any(low <= last and first <= high for low, high in self.editable)

    def _may_end(self) -> bool:
        if len(self.numbers) == 1:
            return self.numbers[0] > 0
        goes = self.canvas.cursor + self.numbers[1]
        return self.pending is Kind.SPAN_MOVE or self._is_editable(goes)

    # -- following ----------------------------------------------------------------------------

    def advance(self, action_id: int) -> None:
        """Take one id; the canvas raises InvalidAction if it refuses it."""
        if self.canvas.is_finished:
            return
        kind, was_free = self.vocab.kind(action_id), self.pending is None
        is_search = self.pending is Kind.FIND
        edit = self.canvas.apply(action_id)
        self.edits += was_free and kind in (Kind.INSERT, Kind.DELETE, Kind.SWAP)
        self.edits += not was_free and not is_search and not self.canvas.is_spelling
        self._count_move(kind, is_search=is_search)
        self._read(action_id, kind)
        self._move_gaps(edit)

    def _count_move(self, kind: Kind, *, is_search: bool) -> None:
        if kind in (Kind.MOVE, Kind.TO_MARK, Kind.FIND):
            self.moves += 1
        elif kind is not Kind.SEPARATOR and not is_search:
            self.moves = 0

    def _read(self, action_id: int, kind: Kind) -> None:
        """Follow the unfinished action."""
        if self.pending is None:
            if kind in (Kind.FIND, Kind.REPLACE, *SPANS):
                self.pending, self.numbers, self.digit, self.typed = kind, [0], 0, []
        elif not self.canvas.is_spelling:
            self.pending = None
        elif self.pending is Kind.FIND:
            self.typed.append(action_id)
        elif kind is Kind.MOVE:
            self.numbers[-1] += int(self.vocab.cursor_deltas[action_id])
            self.digit = action_id - self.vocab.first_move + 1
        else:
            self.numbers.append(0)
            self.digit = 0

    def _move_gaps(self, edit: Edit) -> None:
        """Move the ranges along with an edit: with its end, if it removes text."""
        growth = len(edit.inserted) - len(edit.removed)
        at = edit.position + len(edit.removed)
        if growth:
            self.editable = [
                (low + growth * (low > at), high + growth * (high >= at))
                for low, high in self.editable
            ]


def seen(row: SlowRow) -> tuple[int, int, bool, bool, list[tuple[int, int]], set[int]]:
    """Return all that can be asked of a row."""
    canvas = row.canvas
    parts = len(canvas), canvas.cursor, canvas.is_finished, canvas.is_spelling
    return *parts, row.editable, row.allowed()


def replayed(row: SlowRow, ids: Iterable[int]) -> SlowRow:
    """Return the row after some ids."""
    for action_id in ids:
        row.advance(action_id)
    return row
