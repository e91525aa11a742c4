"""Which actions are allowed, for many sequences at once, from a few integers each.

Rows know length, cursor, marks, the editable gaps, budgets and a half-spelled action; no content,
so a mask costs a few dozen comparisons a row whatever the vocabulary. True means allowed. Only a
vocabulary with searches has each row keep a canvas, to ask it what can be found.

Shapes: B rows, G gaps, D deltas, C columns of a mask (all inserts, then `vocab.controls`),
T steps of a history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from reviser.core.actions import MOVES, ActionVocab, Kind
from reviser.core.canvas import Canvas, shifted
from reviser.errors import ConfigError, InvalidAction

BoolArray = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

# Columns of a row; the gaps' lower bounds and then their upper bounds follow.
# _SPAN is a number read, _AMOUNT one being read, _DIGIT a row of `vocab.digit_follows`, _MOVES
# how many moves there were since the last action that was none.
_LENGTH, _CURSOR, _PENDING, _SPAN, _AMOUNT, _DIGIT, _MOVES = range(7)
_MAX_LENGTH, _EDITS_LEFT, _MAX_MOVES, _GAPS = range(7, 11)

_NONE = -1  # nothing pending; otherwise the Kind that waits for an argument, or STOP
_UNLIMITED = 1 << 40
_TAKES_ARGUMENT = [Kind.REPLACE, Kind.SPAN_DELETE, Kind.SPAN_MOVE, Kind.SPAN_COPY]
_HAS_DIGITS = _TAKES_ARGUMENT[1:]
_EDITS_AT_ONCE = np.isin(np.arange(len(Kind)), [Kind.INSERT, Kind.DELETE, Kind.SWAP])
_STAYS_PENDING = np.isin(np.arange(len(Kind)), [Kind.STOP, Kind.FIND, *_TAKES_ARGUMENT])
_IS_MOVE = np.isin(np.arange(len(Kind)), MOVES)
_KEEPS_COUNT = _IS_MOVE | (np.arange(len(Kind)) == Kind.GIVEN)  # of moves in a row


class Boundary:
    """The state of B sequences that legality depends on; content stays with the canvas.

    A gap (low, high) is a pair of boundaries between which tokens may be inserted and removed;
    text outside every gap is locked, and the cursor may pass over it. A prefix is locked by a
    single gap behind it. Bounds move as text is inserted. STOP is always allowed, unless an
    action is half spelled: then only what can complete it is.

    >>> vocab = ActionVocab.build(100, max_move=2)
    >>> rows = Boundary(vocab, 1)
    >>> rows.reset(0, length=3, cursor=3, gaps=[(3, 3)])  # a prefix of three tokens
    >>> rows.fill_mask()  # inserts, stop, +1, -1, +2, -2
    array([[ True,  True, False, False, False, False]])
    >>> rows.advance([42])
    >>> rows.fill_mask()
    array([[ True,  True, False,  True, False, False]])
    """

    def __init__(self, vocab: ActionVocab, rows: int) -> None:
        self.vocab = vocab
        blank = [0, 0, _NONE, 0, 0, 0, 0, *[_UNLIMITED] * 3, 0, 0]  # one gap, of no tokens
        self._state: Rows = np.tile(np.array(blank, np.int64), (rows, 1))
        self._deltas = np.array(vocab.deltas, np.int64)
        columns = {int(i): n for n, i in enumerate(vocab.controls, start=1)}
        self._move_columns = slice(2, 2 + len(self._deltas))
        self._operators = [
            (columns[i], kind)
            for kind in (Kind.DELETE, Kind.SWAP, *_TAKES_ARGUMENT)
            if (i := getattr(vocab, kind.name.lower())) is not None
        ]
        self._end_column = 0 if vocab.end is None else columns[vocab.end]
        self._mark_column = 0 if vocab.mark is None else columns[vocab.mark]
        self._back_column = 0 if vocab.back is None else columns[vocab.back]
        self._marks: list[tuple[int, ...]] = [()] * (0 if vocab.mark is None else rows)
        self._find_column = 0 if vocab.find is None else columns[vocab.find]
        self._here_column = 0 if vocab.here is None else columns[vocab.here]
        count = 0 if vocab.find is None else rows
        self._canvases = [Canvas(vocab) for _ in range(count)]

    def __len__(self) -> int:
        return len(self._state)

    def reset(
        self,
        row: int,
        *,
        length: int = 0,
        cursor: int | None = None,
        gaps: Sequence[tuple[int, int]] | None = None,
        marks: Sequence[int] = (),
        canvas: Canvas | None = None,
        max_length: int | None = None,
        max_edits: int | None = None,
        max_moves: int | None = None,
    ) -> None:
        """Start a row from a canvas of `length`; by default all of it is one gap.

        The cursor starts at the end of the first gap unless told otherwise. `max_edits` counts
        actions that change the canvas; when none is left only STOP is allowed. After `max_moves`
        in a row none is allowed until something else is done; digits of a number are no moves.
        With searches in the vocabulary give the canvas itself too, unless it is blank.
        """
        gaps = [(0, length)] if gaps is None else gaps
        if cursor is None:
            cursor = gaps[0][1] if gaps else length
        check_gaps(length, cursor, gaps)
        if self._canvases:
            held = Canvas(self.vocab) if canvas is None else canvas.fork(past=False)
            if (len(held), held.cursor) != (length, cursor):
                raise ConfigError(
                    f"A search needs the canvas: one of length {length} with its cursor at"
                    f" {cursor}, not of {len(held)} at {held.cursor}."
                )
            self._canvases[row] = held
        if self._marks:
            self._marks[row] = tuple(marks)
        others = np.delete(self._highs(self._state), row, axis=0)
        in_use = int(np.count_nonzero(others >= 0, axis=1).max(initial=1))
        self._state = _fit_gaps(self._state, max(len(gaps), in_use))
        state = self._state[row : row + 1]
        state[0, :_MAX_LENGTH] = length, cursor, _NONE, 0, 0, 0, 0
        limits = max_length, max_edits, max_moves
        state[0, _MAX_LENGTH:_GAPS] = [_UNLIMITED if most is None else most for most in limits]
        lows, highs = self._lows(state), self._highs(state)
        lows[:], highs[:] = _UNLIMITED, _NONE  # unused gaps hold no boundary
        for n, (low, high) in enumerate(gaps):
            lows[0, n], highs[0, n] = low, high

    @property
    def length(self) -> Rows:
        """Canvas length of each row."""
        return self._state[:, _LENGTH].copy()

    @property
    def cursor(self) -> Rows:
        """Cursor of each row."""
        return self._state[:, _CURSOR].copy()

    @property
    def is_finished(self) -> BoolArray:
        """Which rows have stopped."""
        finished: BoolArray = self._state[:, _PENDING] == Kind.STOP
        return finished

    @property
    def is_spelling(self) -> BoolArray:
        """Which rows have begun an action of several ids that is not complete."""
        spelling: BoolArray = (self._state[:, _PENDING] != _NONE) & ~self.is_finished
        return spelling

    def gaps(self, row: int) -> list[tuple[int, int]]:
        """The gaps of a row as they are now, in order."""
        state = self._state[row : row + 1]
        pairs = zip(self._lows(state)[0].tolist(), self._highs(state)[0].tolist(), strict=True)
        return [(low, high) for low, high in pairs if low <= high]

    def fork(self, rows: Sequence[int] | None = None) -> Boundary:
        """An independent copy of all rows, or of some in the order given."""
        twin = self.view(range(len(self)) if rows is None else rows)
        twin._canvases = [canvas.fork(past=False) for canvas in twin._canvases]
        return twin

    def view(self, rows: Sequence[int]) -> Boundary:
        """A fork to read masks of, not to advance: what a search looks through is not copied."""
        twin = copy(self)
        twin._state = self._state[np.asarray(rows, int)]
        twin._marks = [self._marks[n] for n in rows] if self._marks else []
        twin._canvases = [self._canvases[n] for n in rows] if self._canvases else []
        return twin

    def put(self, rows: Sequence[int], other: Boundary) -> None:
        """Overwrite rows with another's: rolls back to a fork, moves and swaps rows."""
        gaps = max(self._lows(state).shape[1] for state in (self._state, other._state))
        self._state = _fit_gaps(self._state, gaps)
        self._state[np.asarray(rows, int)] = _fit_gaps(other._state, gaps)
        for row, marks in zip(rows, other._marks, strict=bool(self._marks)):
            self._marks[row] = marks
        for row, canvas in zip(rows, other._canvases, strict=bool(self._canvases)):
            self._canvases[row] = canvas.fork(past=False)

    def replay(self, row: int, history: Iterable[int]) -> None:
        """Advance one row by many ids, as when a request resumes."""
        alone = self.fork([row])
        for action_id in history:
            alone.advance([action_id])
        self.put([row], alone)

    # -- the mask -----------------------------------------------------------------------------

    def fill_mask(self, out: BoolArray | None = None) -> BoolArray:
        """What each row may do next: column 0 for every insert, then one per `vocab.controls`.

        Changes no state. To apply it to logits: close `[:, :tokens]` where column 0 is False, but
        for what is `findable`, then write the controls' columns, then close `vocab.forbidden` and
        everything from `vocab.size` on, in this order. A row that has stopped allows STOP alone,
        as padding.
        """
        state, vocab = self._state, self.vocab
        if out is None:
            out = np.empty((len(state), 1 + len(vocab.controls)), np.bool_)
        lows, highs = self._lows(state), self._highs(state)
        length, cursor, pending = state[:, _LENGTH], state[:, _CURSOR], state[:, _PENDING]
        left_room, right_room, in_gap = _rooms(cursor, lows, highs)
        floor, ceiling = lows.min(axis=1), highs.max(axis=1)
        has_room = length < state[:, _MAX_LENGTH]
        is_free = pending == _NONE
        may_edit = is_free & (state[:, _EDITS_LEFT] > 0)
        may_move = may_edit & (state[:, _MOVES] < state[:, _MAX_MOVES])

        out[:, 0] = may_edit & in_gap & has_room
        out[:, 1] = is_free | (pending == Kind.STOP)
        goals = cursor[:, None] + self._deltas
        in_reach = (goals >= floor[:, None]) & (goals <= ceiling[:, None])
        np.logical_and(in_reach, may_move[:, None], out=out[:, self._move_columns])
        for column, kind in self._operators:
            if kind is Kind.SPAN_COPY:  # reads locked text, writes into any gap
                out[:, column] = may_edit & (cursor > 0) & has_room & (ceiling >= 0)
            else:
                out[:, column] = may_edit & (left_room >= (2 if kind is Kind.SWAP else 1))
        if self._end_column:
            out[:, self._end_column] = False
        if self._marks:
            pairs = zip(cursor.tolist(), self._marks, strict=True)
            is_marked = np.array([place in marks for place, marks in pairs], np.bool_)
            out[:, self._mark_column] = may_edit & in_gap & ~is_marked
            first = np.array([marks[0] if marks else _NONE for marks in self._marks])
            out[:, self._back_column] = (
                may_move & (first >= np.maximum(floor, 0)) & (first <= ceiling)
            )
        if self._canvases:
            ends = np.minimum(ceiling, length).tolist()
            asked = zip(self._canvases, may_move.tolist(), ends, strict=True)
            out[:, self._find_column] = [may and c.can_find(end) for c, may, end in asked]
            out[:, self._here_column] = False
        waiting = np.flatnonzero(~out[:, 1])
        if waiting.size:
            rooms = left_room[waiting], right_room[waiting]
            out[waiting] = self._argument_mask(state[waiting], *rooms)
        return out

    def findable(self, row: int) -> list[int]:
        """The tokens that may follow in a row whose search has begun; none in any other."""
        if not self._canvases or self._state[row, _PENDING] != Kind.FIND:
            return []
        return self._canvases[row].findable(int(self._highs(self._state[row : row + 1]).max()))

    def allowed(self) -> BoolArray:
        """A mask as wide as the vocabulary, for tests and for looking at; engines do without."""
        mask_BC = self.fill_mask()
        wide = np.zeros((len(mask_BC), self.vocab.size), np.bool_)
        wide[:, self.vocab.kinds == Kind.INSERT] = mask_BC[:, :1]
        wide[:, self.vocab.controls] = mask_BC[:, 1:]
        for row in range(len(self)):
            wide[row, self.findable(row)] = True
        return wide

    def _argument_mask(self, state: Rows, left_room: Rows, right_room: Rows) -> BoolArray:
        out = np.zeros((len(state), 1 + len(self.vocab.controls)), np.bool_)
        kind, cursor, span = state[:, _PENDING], state[:, _CURSOR], state[:, _SPAN]
        amount = state[:, _AMOUNT, None] + self._deltas
        out[:, 0] = kind == Kind.REPLACE
        if self._here_column:
            out[:, self._here_column] = (kind == Kind.FIND) & (state[:, _AMOUNT] > 0)
        if not self._end_column:
            return out
        spare = state[:, _MAX_LENGTH] - state[:, _LENGTH]
        copies, first = kind == Kind.SPAN_COPY, span == 0
        high = np.where(copies, np.minimum(cursor, spare), left_room)
        low = np.where(first, 1, span - left_room)
        high = np.where(first, high, right_room)
        fits = (amount >= low[:, None]) & (amount <= high[:, None])
        closes = np.where(first, state[:, _AMOUNT] > 0, True)
        places = copies & ~first
        if places.any():
            fits[places], closes[places] = self._copy_places(state[places], amount[places])
        numbers = np.isin(kind, _HAS_DIGITS)
        digits = fits & self.vocab.digit_follows[state[:, _DIGIT]] & numbers[:, None]
        out[:, self._move_columns] = digits
        out[:, self._end_column] = closes & numbers
        return out

    def _copy_places(self, state: Rows, amount_BD: Rows) -> tuple[BoolArray, BoolArray]:
        # A digit is allowed if some gap can still be reached: smaller digits add up to one less
        # than it, and the largest may repeat.
        lows, highs = self._lows(state)[:, None], self._highs(state)[:, None]
        near = state[:, _CURSOR, None] + amount_BD
        reach = np.abs(self._deltas) - 1
        reach[reach == self.vocab.max_move - 1] = _UNLIMITED
        far = near + np.sign(self._deltas) * reach
        low, high = np.minimum(near, far)[..., None], np.maximum(near, far)[..., None]
        fits = np.any((lows <= high) & (low <= highs), axis=2)
        goal = (state[:, _CURSOR] + state[:, _AMOUNT])[:, None]
        return fits, np.any((lows[:, 0] <= goal) & (goal <= highs[:, 0]), axis=1)

    # -- advancing ----------------------------------------------------------------------------

    def advance(
        self, action_ids: Sequence[int] | npt.NDArray[np.integer], rows: Sequence[int] | None = None
    ) -> None:
        """Take one id per row, or per row named; each must be one the mask allowed.

        Begin and delimiter pass without effect, so a history can be fed as it is. With searches
        in the vocabulary, what a canvas refuses raises, and no row has changed.
        """
        ids = np.asarray(action_ids, np.int64)
        if ids.shape != (len(self) if rows is None else len(rows),):
            raise InvalidAction(
                f"Give one action id per row; got {ids.shape} for {len(self)} rows."
            )
        if ids.size and (ids.min() < 0 or ids.max() >= self.vocab.size):
            raise InvalidAction(f"Action ids must lie in 0..{self.vocab.size - 1}; got {ids}.")
        if self._canvases:
            self._follow_canvases(range(len(self)) if rows is None else rows, ids.tolist())
        chosen = None if rows is None else np.asarray(rows, int)
        state = self._state if chosen is None else self._state[chosen]
        kind = self.vocab.kinds[ids]
        cursor, pending = state[:, _CURSOR], state[:, _PENDING]
        free = pending == _NONE
        plain = free & (kind != Kind.REPLACE)  # a replacement happens with its argument
        grows = np.where(plain, self.vocab.length_deltas[ids], 0)
        steps = np.where(plain, self.vocab.cursor_deltas[ids], 0)
        changes = plain & _EDITS_AT_ONCE[kind]
        place = cursor.copy()  # where the length changes
        waiting = np.flatnonzero(~free & (pending != Kind.STOP))
        starts = free & _STAYS_PENDING[kind]
        searching = pending == Kind.FIND
        pending[starts] = kind[starts]
        if waiting.size:
            part = state[waiting]
            done = self._read_argument(part, ids[waiting], kind[waiting])
            grows[waiting], steps[waiting], place[waiting], changes[waiting] = done
            state[waiting] = part
        for n in np.flatnonzero(searching & (kind == Kind.HERE)).tolist():
            row = n if rows is None else rows[n]
            steps[n] = self._canvases[row].cursor - cursor[n]
        if self._marks:
            chosen_rows = range(len(self)) if rows is None else rows
            self._follow_marks(chosen_rows, np.where(free, kind, Kind.END), state, place, grows)
        shift_gaps(self._lows(state), self._highs(state), place[:, None], grows[:, None])
        state[:, _LENGTH] += grows
        state[:, _CURSOR] += steps
        state[:, _EDITS_LEFT] -= changes
        moves = state[:, _MOVES] + _IS_MOVE[kind]  # digits too, until the END behind them
        state[:, _MOVES] = np.where(_KEEPS_COUNT[kind] | searching, moves, 0)
        if chosen is not None:
            self._state[chosen] = state

    def _follow_canvases(self, rows: Sequence[int], ids: list[int]) -> None:
        followed: list[Canvas] = []
        try:
            for row, action_id in zip(rows, ids, strict=True):
                canvas = self._canvases[row]
                if not canvas.is_finished:  # STOP may follow it, as padding
                    canvas.apply(action_id)
                    followed.append(canvas)
        except InvalidAction:
            for canvas in followed:
                canvas.rollback()
            raise
        for canvas in followed:
            canvas.forget()

    def _follow_marks(
        self, rows: Sequence[int], kind: npt.NDArray[Any], state: Rows, place: Rows, grows: Rows
    ) -> None:
        """Set and take off marks, and move them along; `kind` is END where it is an argument."""
        places = np.minimum(place, place + grows).tolist()
        for n, row in enumerate(rows):
            marks, cursor = self._marks[row], int(state[n, _CURSOR])
            if kind[n] == Kind.MARK:
                self._marks[row] = tuple(sorted((*marks, cursor)))
            elif kind[n] == Kind.BACK and marks:
                state[n, _CURSOR], self._marks[row] = marks[0], marks[1:]
            else:
                self._marks[row] = shifted(marks, places[n], int(grows[n]))

    def _read_argument(
        self, state: Rows, ids: Rows, kind: npt.NDArray[np.uint8]
    ) -> tuple[Rows, Rows, Rows, BoolArray]:
        """Feed one id to half-spelled actions; return their effects, zero where not complete."""
        pending, span, cursor = state[:, _PENDING], state[:, _SPAN], state[:, _CURSOR]
        digit = kind == Kind.MOVE
        delta = self.vocab.cursor_deltas[ids]
        state[:, _DIGIT] = np.where(digit, ids - self.vocab.first_move + 1, 0)
        state[:, _AMOUNT] += np.where(digit, delta, 0)
        amount = state[:, _AMOUNT].copy()
        closed = kind == Kind.END
        searches = pending == Kind.FIND
        state[:, _AMOUNT] += searches  # as many tokens were typed
        last = (span > 0) | (pending == Kind.SPAN_DELETE) | (pending == Kind.REPLACE)
        done = (last & ~digit) | (kind == Kind.HERE)
        erases, copies, moves = (
            done & (pending == k) for k in (Kind.SPAN_DELETE, Kind.SPAN_COPY, Kind.SPAN_MOVE)
        )
        grows = np.where(copies, span, 0) - np.where(erases, amount, 0)
        steps = np.where(moves, np.maximum(amount, 0), 0) - np.where(erases, amount, 0)
        steps += np.where(copies, amount + span, 0)
        place = cursor + np.where(copies, amount, 0)
        state[:, _SPAN] = np.where(done, 0, np.where(closed, amount, span))
        state[closed | done, _AMOUNT] = 0
        state[done, _PENDING] = _NONE
        return grows, steps, place, done & ~searches

    # -- layout -------------------------------------------------------------------------------

    @staticmethod
    def _lows(state: Rows) -> Rows:
        return state[:, _GAPS : (_GAPS + state.shape[1]) // 2]

    @staticmethod
    def _highs(state: Rows) -> Rows:
        return state[:, (_GAPS + state.shape[1]) // 2 :]


def _fit_gaps(state: Rows, gaps: int) -> Rows:
    """The rows with room for so many gaps; unused ones hold no boundary."""
    lows, highs = Boundary._lows(state)[:, :gaps], Boundary._highs(state)[:, :gaps]
    spare = np.zeros((len(state), gaps - lows.shape[1]), np.int64)
    return np.concatenate([state[:, :_GAPS], lows, spare + _UNLIMITED, highs, spare + _NONE], 1)


def _rooms(cursor: Rows, lows: Rows, highs: Rows) -> tuple[Rows, Rows, BoolArray]:
    """Editable tokens left and right of each cursor, and whether it is in a gap at all."""
    at = cursor[:, None]
    inside: BoolArray = (lows <= at) & (at <= highs)
    left = np.where(inside, at - lows, 0).sum(axis=1)
    right = np.where(inside, highs - at, 0).sum(axis=1)
    return left, right, np.any(inside, axis=1)


def shift_gaps(lows: Rows, highs: Rows, position: Rows | int, growth: Rows | int) -> None:
    """Move gaps, in place, along with an edit that ends at a position and adds so many tokens."""
    lows += np.where(lows > position, growth, 0)
    highs += np.where(highs >= position, growth, 0)


def check_gaps(length: int, cursor: int, gaps: Sequence[tuple[int, int]]) -> None:
    """Refuse gaps that make no sense on a canvas of some length with the cursor at some place."""
    bounds = [bound for gap in gaps for bound in gap]
    ordered = all(low <= high for low, high in gaps)
    apart = all(a[1] < b[0] for a, b in pairwise(gaps))
    if not (ordered and apart and all(0 <= bound <= length for bound in [*bounds, cursor])):
        raise ConfigError(
            f"Gaps {list(gaps)} with cursor {cursor} do not fit a canvas of length {length}: they"
            " must be in order, apart from each other, and within it."
        )
    if bounds and not bounds[0] <= cursor <= bounds[-1]:
        raise ConfigError(
            f"The cursor is at {cursor}, outside the gaps {list(gaps)}, and could not get in."
            f" Start it between {bounds[0]} and {bounds[-1]}."
        )


def trace(vocab: ActionVocab, history_BT: npt.NDArray[np.integer]) -> tuple[Rows, Rows]:
    """Length and cursor after every id of legal histories, by running sums over time.

    Ids without effect (begin, delimiter, reserved ones) can serve as padding.

    >>> vocab = ActionVocab.build(100)
    >>> length, cursor = trace(vocab, np.array([[7, 8, vocab.move_id(-1), 9]]))
    >>> length.tolist(), cursor.tolist()
    ([[1, 2, 2, 3]], [[1, 2, 1, 2]])
    """
    kinds = vocab.kinds[history_BT]
    if np.isin(kinds, [Kind.BACK, Kind.FIND]).any():  # where they lead depends on the canvas
        return _replayed(vocab, history_BT)
    grows = vocab.length_deltas[history_BT].astype(np.int64)
    steps = vocab.cursor_deltas[history_BT].astype(np.int64)
    if vocab.end is not None:
        grows, steps = _span_effects(kinds, grows, steps)
    half_spelled = kinds == Kind.REPLACE  # its -1 takes effect with its argument
    return np.cumsum(grows, axis=1) + half_spelled, np.cumsum(steps, axis=1) + half_spelled


def _replayed(vocab: ActionVocab, history_BT: npt.NDArray[np.integer]) -> tuple[Rows, Rows]:
    lengths, cursors = np.empty((2, *history_BT.shape), np.int64)
    for row, ids in enumerate(history_BT.tolist()):
        canvas = Canvas(vocab)
        for place, action_id in enumerate(ids):
            if not canvas.is_finished and vocab.kinds[action_id] != Kind.FORBIDDEN:
                canvas.apply(action_id)
            lengths[row, place], cursors[row, place] = len(canvas), canvas.cursor
    return lengths, cursors


def is_argument(vocab: ActionVocab, history_BT: npt.NDArray[np.integer]) -> BoolArray:
    """Which ids of legal histories are arguments of an action before them."""
    kinds = vocab.kinds[history_BT]
    replaced = np.zeros(kinds.shape, np.bool_)
    replaced[:, 1:] = kinds[:, :-1] == Kind.REPLACE
    searched = is_search(vocab, history_BT) & (kinds != Kind.FIND)
    inside: BoolArray = replaced | searched | _Numbers(kinds).inside
    return inside


def is_search(vocab: ActionVocab, history_BT: npt.NDArray[np.integer]) -> BoolArray:
    """Which ids of legal histories spell a search, from FIND to HERE."""
    kinds = vocab.kinds[history_BT]
    here = kinds == Kind.HERE
    begun = np.cumsum(kinds == Kind.FIND, axis=1)
    inside: BoolArray = begun > np.cumsum(here, axis=1) - here
    return inside


class _Numbers:
    """Where the numbers of span operators stand in histories, found by running sums."""

    def __init__(self, kinds: npt.NDArray[np.uint8]) -> None:
        self.is_end = kinds == Kind.END
        opens = (kinds >= Kind.SPAN_DELETE) & (kinds <= Kind.SPAN_COPY)
        self.time = np.broadcast_to(np.arange(kinds.shape[1]), kinds.shape)
        opened = np.maximum.accumulate(np.where(opens, self.time, -1), axis=1)
        self.start = np.maximum(opened, 0)  # the operator that an argument belongs to
        self.operator = np.where(opened >= 0, self.at_start(kinds), 0)
        ends = np.cumsum(self.is_end, axis=1)
        closed = ends - self.at_start(ends)
        needed = np.where(self.operator == Kind.SPAN_DELETE, 1, 2) * (opened >= 0)
        self.inside = (closed - self.is_end < needed) & ~opens
        self.completes = self.inside & self.is_end & (closed == needed)

    def at_start(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Each position's value at the start of its operator."""
        return np.take_along_axis(values, self.start, axis=1)


def _span_effects(kinds: npt.NDArray[np.uint8], grows: Rows, steps: Rows) -> tuple[Rows, Rows]:
    """Take the digits of numbers out of the sums; put each span operator's effect at its END."""
    numbers = _Numbers(kinds)
    digits = np.cumsum(np.where(numbers.inside, steps, 0), axis=1)
    both = digits - numbers.at_start(digits)
    earlier_end = np.zeros(kinds.shape, np.int64)
    ends = np.maximum.accumulate(np.where(numbers.is_end, numbers.time, 0), axis=1)
    earlier_end[:, 1:] = ends[:, :-1]
    second = digits - np.take_along_axis(digits, earlier_end, axis=1)
    erases, moves, copies = (
        numbers.completes & (numbers.operator == kind)
        for kind in (Kind.SPAN_DELETE, Kind.SPAN_MOVE, Kind.SPAN_COPY)
    )
    grows = grows - np.where(erases, both, 0) + np.where(copies, both - second, 0)
    steps = np.where(numbers.inside, 0, steps) - np.where(erases, both, 0)
    steps += np.where(moves, np.maximum(second, 0), 0) + np.where(copies, both, 0)
    return grows, steps
