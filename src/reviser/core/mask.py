"""The validity mask: which actions are allowed, for many sequences at once.

A row of integers per sequence (`_rows`) is enough: length, cursor, gaps, budgets and an unfinished
action. Content does not matter, so filling a mask takes a few dozen comparisons per row, however
large the vocabulary is. Only in a vocabulary with searches does each row keep a canvas, to ask it
what can be found. This is the paper's m_t, where True means allowed; "Mask" in Algorithm 1.

Shapes: B rows, G gaps, D deltas, C columns of a mask (all inserts, then `vocab.controls`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from reviser.core import _rows as r
from reviser.core._rows import BoolArray, Route, Rows, check_gaps, shift_gaps
from reviser.core.actions import MOVES, ActionVocab, Kind
from reviser.core.canvas import Canvas, shift_marks
from reviser.core.history import is_argument, is_search, trace
from reviser.errors import ConfigError, InvalidAction

__all__ = [
    "BoolArray",
    "Boundary",
    "check_gaps",
    "is_argument",
    "is_search",
    "shift_gaps",
    "trace",
]

_HAS_DIGITS = [Kind.SPAN_DELETE, Kind.SPAN_MOVE, Kind.SPAN_COPY]
_TAKES_ARGUMENT = [Kind.REPLACE, *_HAS_DIGITS]

# Tables by kind, so that a whole batch is classified by one lookup.
_EDITS_AT_ONCE = np.isin(np.arange(len(Kind)), [Kind.INSERT, Kind.DELETE, Kind.SWAP])
_BECOMES_PENDING = np.isin(np.arange(len(Kind)), [Kind.STOP, Kind.FIND, *_TAKES_ARGUMENT])
_IS_MOVE = np.isin(np.arange(len(Kind)), MOVES)
_KEEPS_MOVE_COUNT = _IS_MOVE | (np.arange(len(Kind)) == Kind.SEPARATOR)


class Boundary:
    """The state of B sequences that decides which actions are allowed.

    A gap (low, high) is a pair of boundaries between which tokens may be inserted and removed.
    Text outside every gap is locked; the cursor may pass over it. A prefix is locked by a single
    gap after it. The bounds move as text is inserted and removed. STOP is always allowed, except
    inside an action of several ids: then only what can complete it is.

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
        self._state = r.blank_rows(rows)
        self._deltas = np.array(vocab.deltas, np.int64)
        columns: dict[int | None, int] = {int(i): n for n, i in enumerate(vocab.controls, start=1)}
        self._move_columns = slice(2, 2 + len(self._deltas))
        self._operators = [
            (columns[i], kind)
            for kind in (Kind.DELETE, Kind.SWAP, *_TAKES_ARGUMENT)
            if (i := getattr(vocab, kind.name.lower())) is not None
        ]
        # Column 0 is for inserts, so 0 can stand for "not in this vocabulary".
        self._end_column = columns.get(vocab.end, 0)
        self._mark_column = columns.get(vocab.mark, 0)
        self._back_column = columns.get(vocab.back, 0)
        self._find_column = columns.get(vocab.find, 0)
        self._here_column = columns.get(vocab.here, 0)
        self._marks: list[tuple[int, ...]] = [()] * (rows if self._mark_column else 0)
        self._canvases = [Canvas(vocab) for _ in range(rows if self._find_column else 0)]
        self._routes: list[Route | None] = [None] * len(self._canvases)

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
        route: Sequence[Sequence[int]] | None = None,
        max_length: int | None = None,
        max_edits: int | None = None,
        max_moves: int | None = None,
    ) -> None:
        """Start a row from a canvas of `length`; by default all of it is one gap.

        The cursor starts at the end of the first gap unless `cursor` is given. `max_edits` limits
        the actions that change the canvas; when none is left, only STOP is allowed. After
        `max_moves` moves in a row, no move is allowed until another action is taken; the digits of
        a number do not count. If the vocabulary has searches, pass the canvas too, unless it is
        blank. With a `route`, the row takes these searches in turn and no other moves, and may stop
        after the last one.
        """
        gaps = [(0, length)] if gaps is None else gaps
        if cursor is None:
            cursor = gaps[0][1] if gaps else length
        check_gaps(length, cursor, gaps)
        if self._canvases:
            own = Canvas(self.vocab) if canvas is None else canvas.fork(past=False)
            if (len(own), own.cursor) != (length, cursor):
                raise ConfigError(
                    f"Searches need the canvas: one of length {length} with its cursor at"
                    f" {cursor}, not of length {len(own)} with its cursor at {own.cursor}."
                )
            self._canvases[row] = own
            self._routes[row] = None if route is None else Route.of(self.vocab.kinds, route)
        elif route is not None:
            raise ConfigError("A route needs a vocabulary with searches.")
        if self._marks:
            self._marks[row] = tuple(marks)
        limits = max_length, max_edits, max_moves
        self._state = r.with_row(self._state, row, length, cursor, limits, gaps)

    @property
    def routed(self) -> list[int]:
        """Rows with a route that are between two actions."""
        free = self._state[:, r.PENDING] == r.NONE
        return [n for n, route in enumerate(self._routes) if route is not None and free[n]]

    @property
    def length(self) -> Rows:
        """Canvas length of each row."""
        return self._state[:, r.LENGTH].copy()

    @property
    def cursor(self) -> Rows:
        """Cursor of each row."""
        return self._state[:, r.CURSOR].copy()

    @property
    def is_finished(self) -> BoolArray:
        """True for rows that have stopped."""
        finished: BoolArray = self._state[:, r.PENDING] == Kind.STOP
        return finished

    @property
    def is_spelling(self) -> BoolArray:
        """True for rows whose action of several ids is not complete."""
        spelling: BoolArray = (self._state[:, r.PENDING] != r.NONE) & ~self.is_finished
        return spelling

    def gaps(self, row: int) -> list[tuple[int, int]]:
        """Return the current gaps of a row, in order."""
        state = self._state[row : row + 1]
        pairs = zip(r.lows(state)[0].tolist(), r.highs(state)[0].tolist(), strict=True)
        return [(low, high) for low, high in pairs if low <= high]

    def fork(self, rows: Sequence[int] | None = None) -> Boundary:
        """Return an independent copy of all rows, or of the given rows in that order."""
        forked = self.view(range(len(self)) if rows is None else rows)
        forked._canvases = [canvas.fork(past=False) for canvas in forked._canvases]
        return forked

    def view(self, rows: Sequence[int]) -> Boundary:
        """Return a fork that shares canvases: for reading masks, not for advancing."""
        view = copy(self)
        view._state = self._state[np.asarray(rows, int)]
        view._marks = [self._marks[n] for n in rows] if self._marks else []
        view._canvases = [self._canvases[n] for n in rows] if self._canvases else []
        view._routes = [self._routes[n] for n in rows] if self._canvases else []
        return view

    def put(self, rows: Sequence[int], other: Boundary) -> None:
        """Overwrite rows with those of another boundary: to roll back, move or swap rows."""
        gaps = max(r.lows(state).shape[1] for state in (self._state, other._state))
        self._state = r.fit_gaps(self._state, gaps)
        self._state[np.asarray(rows, int)] = r.fit_gaps(other._state, gaps)
        for row, marks in zip(rows, other._marks, strict=bool(self._marks)):
            self._marks[row] = marks
        for row, canvas in zip(rows, other._canvases, strict=bool(self._canvases)):
            self._canvases[row] = canvas.fork(past=False)
        for row, route in zip(rows, other._routes, strict=bool(self._canvases)):
            self._routes[row] = route

    def replay(self, row: int, history: Iterable[int]) -> None:
        """Advance one row by many ids, to resume a request."""
        alone = self.fork([row])
        for action_id in history:
            alone.advance([action_id])
        self.put([row], alone)

    # -- the mask -----------------------------------------------------------------------------

    def fill_mask(self, out: BoolArray | None = None) -> BoolArray:
        """Return what each row may do next: column 0 for inserts, then one per `vocab.controls`.

        The state does not change. To apply the mask to logits, in this order: close
        `[:, :tokens]` where column 0 is False, except for the `findable` tokens; write the
        controls' columns; close `vocab.forbidden` and everything from `vocab.size` on. A row that
        has stopped allows STOP alone, as padding.
        """
        state, vocab = self._state, self.vocab
        if out is None:
            out = np.empty((len(state), 1 + len(vocab.controls)), np.bool_)
        low_BG, high_BG = r.lows(state), r.highs(state)
        length, cursor, pending = state[:, r.LENGTH], state[:, r.CURSOR], state[:, r.PENDING]
        left, right, in_gap = r.editable_around(cursor, low_BG, high_BG)
        # The cursor stays between the outermost bounds: beyond them there is nothing to edit. For
        # a prefix with one gap after it, `floor` is the paper's prefix floor.
        floor, ceiling = low_BG.min(axis=1), high_BG.max(axis=1)
        can_grow = length < state[:, r.MAX_LENGTH]
        is_free = pending == r.NONE
        # Moves need an edit left, too: without one, nothing could be done where they lead.
        may_edit = is_free & (state[:, r.EDITS_LEFT] > 0)
        may_move = may_edit & (state[:, r.MOVES] < state[:, r.MAX_MOVES])

        out[:, 0] = may_edit & in_gap & can_grow
        out[:, 1] = is_free | (pending == Kind.STOP)
        goal_BD = cursor[:, None] + self._deltas
        in_reach_BD = (goal_BD >= floor[:, None]) & (goal_BD <= ceiling[:, None])
        np.logical_and(in_reach_BD, may_move[:, None], out=out[:, self._move_columns])
        for column, kind in self._operators:
            if kind is Kind.SPAN_COPY:  # reads locked text too, and writes into any gap
                out[:, column] = may_edit & (cursor > 0) & can_grow & (ceiling >= 0)
            else:
                out[:, column] = may_edit & (left >= (2 if kind is Kind.SWAP else 1))
        if self._end_column:
            out[:, self._end_column] = False
        if self._marks:
            pairs = zip(cursor.tolist(), self._marks, strict=True)
            is_marked = np.array([at in marks for at, marks in pairs], np.bool_)
            out[:, self._mark_column] = may_edit & in_gap & ~is_marked
            first = np.array([marks[0] if marks else r.NONE for marks in self._marks])
            in_reach = (first >= np.maximum(floor, 0)) & (first <= ceiling)
            out[:, self._back_column] = may_move & in_reach
        # A search leads to the end of its match, so that must lie within the outermost bounds.
        if self._canvases:
            ends = np.minimum(ceiling, length).tolist()
            asked = zip(self._canvases, may_move.tolist(), ends, strict=True)
            out[:, self._find_column] = [may and c.can_find(end) for c, may, end in asked]
            out[:, self._here_column] = False
        # Rows that may not stop are inside an action; few are, so they get their masks last.
        inside = np.flatnonzero(~out[:, 1])
        for row in self.routed:
            self._keep_to_route(row, out[row], bool(may_edit[row]))
        if inside.size:
            out[inside] = self._argument_mask(state[inside], left[inside], right[inside])
        for row in inside.tolist() if self._canvases else ():
            if self._routes[row] is not None and pending[row] == Kind.FIND:
                out[row, self._here_column] = not self.findable(row)
        return out

    def _keep_to_route(self, row: int, out: BoolArray, may_edit: bool) -> None:
        """Close, in a row's mask, all moves but the next search of its route, and STOP before."""
        route = self._routes[row]
        assert route is not None
        # Without an edit left there is nothing to do at the next place, so the row may stop here.
        goes_on = may_edit and bool(route.searches)
        out[self._move_columns] = False
        out[[column for column in (self._mark_column, self._back_column) if column]] = False
        out[self._find_column], out[1] = goes_on, not goes_on
        if route.is_underway:
            out[[0, *(column for column, _ in self._operators)]] = False

    def findable(self, row: int) -> list[int]:
        """Return the tokens that may follow in the search of a row; none if it has none."""
        if not self._canvases or self._state[row, r.PENDING] != Kind.FIND:
            return []
        route = self._routes[row]
        if route is not None:
            typed = int(self._state[row, r.AMOUNT])
            return list(route.searches[0][typed : typed + 1])
        return self._canvases[row].findable(int(r.highs(self._state[row : row + 1]).max()))

    def allowed(self) -> BoolArray:
        """Return a mask as wide as the vocabulary: for tests and inspection, not for engines."""
        mask_BC = self.fill_mask()
        wide = np.zeros((len(mask_BC), self.vocab.size), np.bool_)
        wide[:, self.vocab.kinds == Kind.INSERT] = mask_BC[:, :1]
        wide[:, self.vocab.controls] = mask_BC[:, 1:]
        for row in range(len(self)):
            wide[row, self.findable(row)] = True
        return wide

    def _argument_mask(self, state: Rows, left: Rows, right: Rows) -> BoolArray:
        """Return what may follow in rows whose action is unfinished."""
        out = np.zeros((len(state), 1 + len(self.vocab.controls)), np.bool_)
        kind, cursor, span = state[:, r.PENDING], state[:, r.CURSOR], state[:, r.SPAN]
        out[:, 0] = kind == Kind.REPLACE
        if self._here_column:
            out[:, self._here_column] = (kind == Kind.FIND) & (state[:, r.AMOUNT] > 0)
        if not self._end_column:
            return out
        # The first number is the size of a span, from 1 to what lies to the left: of a copy any
        # text that leaves the canvas short enough, else editable text. The second is a jump
        # within the same gap: over what is left of the span, or over what is right of the cursor.
        growth_left = state[:, r.MAX_LENGTH] - state[:, r.LENGTH]
        copies, is_first = kind == Kind.SPAN_COPY, span == 0
        largest_span = np.where(copies, np.minimum(cursor, growth_left), left)
        low = np.where(is_first, 1, span - left)
        high = np.where(is_first, largest_span, right)
        amount_BD = state[:, r.AMOUNT, None] + self._deltas
        fits_BD = (amount_BD >= low[:, None]) & (amount_BD <= high[:, None])
        # A jump may be 0, which has no digits; a span may not be empty.
        may_end = np.where(is_first, state[:, r.AMOUNT] > 0, True)
        aims = copies & ~is_first
        if aims.any():
            fits_BD[aims], may_end[aims] = self._copy_goals(state[aims], amount_BD[aims])
        has_digits = np.isin(kind, _HAS_DIGITS)
        digits_BD = fits_BD & self.vocab.digit_follows[state[:, r.DIGIT]] & has_digits[:, None]
        out[:, self._move_columns] = digits_BD
        out[:, self._end_column] = may_end & has_digits
        return out

    def _copy_goals(self, state: Rows, amount_BD: Rows) -> tuple[BoolArray, BoolArray]:
        """Return which digits still lead to a gap, and whether the number so far does."""
        # Digits decrease, so those that follow a digit 2**k add up to at most 2**k - 1; only the
        # largest repeats, without limit. Each digit thus leaves an interval of reachable goals,
        # and it is allowed if that interval meets some gap.
        low_B1G, high_B1G = r.lows(state)[:, None], r.highs(state)[:, None]
        near_BD = state[:, r.CURSOR, None] + amount_BD
        reach_D = np.abs(self._deltas) - 1
        reach_D[reach_D == self.vocab.max_move - 1] = r.UNLIMITED
        far_BD = near_BD + np.sign(self._deltas) * reach_D
        first_BD1 = np.minimum(near_BD, far_BD)[..., None]
        last_BD1 = np.maximum(near_BD, far_BD)[..., None]
        fits_BD = np.any((low_B1G <= last_BD1) & (first_BD1 <= high_B1G), axis=2)
        goal = (state[:, r.CURSOR] + state[:, r.AMOUNT])[:, None]
        return fits_BD, np.any((low_B1G[:, 0] <= goal) & (goal <= high_B1G[:, 0]), axis=1)

    # -- advancing ----------------------------------------------------------------------------

    def advance(
        self, action_ids: Sequence[int] | npt.NDArray[np.integer], rows: Sequence[int] | None = None
    ) -> None:
        """Take one id for every row, or for the given rows; the mask must have allowed each.

        Begin and delimiter have no effect, so a whole history can be fed. If the vocabulary has
        searches, an id that a canvas refuses raises InvalidAction, and no row changes.
        """
        ids = np.asarray(action_ids, np.int64)
        chosen = np.arange(len(self)) if rows is None else np.asarray(rows, int)
        if ids.shape != chosen.shape:
            raise InvalidAction(f"Give one id per row; got {ids.size} for {chosen.size} rows.")
        if ids.size and (ids.min() < 0 or ids.max() >= self.vocab.size):
            raise InvalidAction(f"Action ids must lie in 0..{self.vocab.size - 1}; got {ids}.")
        # First: only a canvas can refuse an id, and then nothing else may have changed.
        if self._canvases:
            self._advance_canvases(chosen.tolist(), ids.tolist())
        state = self._state[chosen]
        kind = self.vocab.kinds[ids]
        cursor, pending = state[:, r.CURSOR], state[:, r.PENDING]
        is_free = pending == r.NONE
        at_once = is_free & (kind != Kind.REPLACE)  # a replacement happens with its argument
        growth = np.where(at_once, self.vocab.length_deltas[ids], 0)
        steps = np.where(at_once, self.vocab.cursor_deltas[ids], 0)
        edits = at_once & _EDITS_AT_ONCE[kind]
        position = cursor.copy()  # where the length changes
        inside = np.flatnonzero(~is_free & (pending != Kind.STOP))
        begins = is_free & _BECOMES_PENDING[kind]
        searches = pending == Kind.FIND
        # `pending` is a view of the state: what depends on its old values comes before this line.
        pending[begins] = kind[begins]
        if inside.size:
            part = state[inside]
            effects = self._read_argument(part, ids[inside], kind[inside])
            growth[inside], steps[inside], position[inside], edits[inside] = effects
            state[inside] = part
        # Only the canvas knows where a search has led; it has taken this id already.
        for n in np.flatnonzero(searches & (kind == Kind.HERE)).tolist():
            steps[n] = self._canvases[chosen[n]].cursor - cursor[n]
            route = self._routes[chosen[n]]
            self._routes[chosen[n]] = None if route is None else route.next()
        if self._marks:
            first_kind = np.where(is_free, kind, Kind.END)  # an argument is never MARK or BACK
            self._follow_marks(chosen.tolist(), first_kind, state, position, growth)
        shift_gaps(r.lows(state), r.highs(state), position[:, None], growth[:, None])
        state[:, r.LENGTH] += growth
        state[:, r.CURSOR] += steps
        state[:, r.EDITS_LEFT] -= edits
        # Digits count as moves at first, but the END after them sets the count to zero.
        moves = state[:, r.MOVES] + _IS_MOVE[kind]
        state[:, r.MOVES] = np.where(_KEEPS_MOVE_COUNT[kind] | searches, moves, 0)
        self._state[chosen] = state

    def _advance_canvases(self, rows: Sequence[int], ids: list[int]) -> None:
        advanced: list[Canvas] = []
        try:
            for row, action_id in zip(rows, ids, strict=True):
                canvas = self._canvases[row]
                if not canvas.is_finished:  # STOP may follow STOP, as padding
                    canvas.apply(action_id)
                    advanced.append(canvas)
        except BaseException:  # whatever one canvas raises, the others must not change
            for canvas in advanced:
                canvas.rollback()
            raise
        for canvas in advanced:
            canvas.forget()

    def _follow_marks(
        self, rows: Sequence[int], kind: npt.NDArray[Any], state: Rows, position: Rows, growth: Rows
    ) -> None:
        """Add, remove and shift marks; `growth` is at `position`, or before it if negative."""
        starts = np.minimum(position, position + growth).tolist()
        for n, row in enumerate(rows):
            marks, cursor = self._marks[row], int(state[n, r.CURSOR])
            if kind[n] == Kind.MARK:
                self._marks[row] = tuple(sorted((*marks, cursor)))
            elif kind[n] == Kind.BACK and marks:
                state[n, r.CURSOR], self._marks[row] = marks[0], marks[1:]
            else:
                self._marks[row] = shift_marks(marks, starts[n], int(growth[n]))

    def _read_argument(
        self, state: Rows, ids: Rows, kind: npt.NDArray[np.uint8]
    ) -> tuple[Rows, Rows, Rows, BoolArray]:
        """Feed one id to unfinished actions and return their effects, zero if not complete."""
        pending, span, cursor = state[:, r.PENDING], state[:, r.SPAN], state[:, r.CURSOR]
        is_digit, is_end = kind == Kind.MOVE, kind == Kind.END
        searches = pending == Kind.FIND
        state[:, r.DIGIT] = np.where(is_digit, ids - self.vocab.first_move + 1, 0)
        state[:, r.AMOUNT] += np.where(is_digit, self.vocab.cursor_deltas[ids], 0)
        amount = state[:, r.AMOUNT].copy()
        state[:, r.AMOUNT] += searches  # of a search, how many tokens were typed
        is_last = (span > 0) | (pending == Kind.SPAN_DELETE) | (pending == Kind.REPLACE)
        done = (is_last & ~is_digit) | (kind == Kind.HERE)
        deletes, copies, moves = (
            done & (pending == k) for k in (Kind.SPAN_DELETE, Kind.SPAN_COPY, Kind.SPAN_MOVE)
        )
        # These are the effects that `canvas` executes, such as: a span that moves left leaves the
        # cursor where it is, and a copy takes it to the copy's end.
        growth = np.where(copies, span, 0) - np.where(deletes, amount, 0)
        steps = np.where(moves, np.maximum(amount, 0), 0) - np.where(deletes, amount, 0)
        steps += np.where(copies, amount + span, 0)
        position = cursor + np.where(copies, amount, 0)
        state[:, r.SPAN] = np.where(done, 0, np.where(is_end, amount, span))
        state[is_end | done, r.AMOUNT] = 0
        state[done, r.PENDING] = r.NONE
        return growth, steps, position, done & ~searches
