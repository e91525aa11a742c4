"""The validity mask: which actions are allowed, for many sequences at once.

A row of integers per sequence (`_rows`) is enough: length, cursor, editable ranges, budgets and an
unfinished action; a vocabulary with marks adds those of each row (`_marks`). Content does not
matter, so filling a mask takes a few dozen comparisons per row, however large the vocabulary is,
and no step runs Python code per row. In a vocabulary with searches or spans, content and numbers
matter, so each row also has a `Canvas`, which executes its ids. This is the paper's m_t, where True
means allowed; "Mask" in Algorithm 1.

Shapes: B rows, G ranges, D deltas, N pairs, C columns of a mask (all inserts, then
`vocab.controls`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy

import numpy as np
import numpy.typing as npt

from reviser.core import _arguments as arguments
from reviser.core._marks import (
    blank_marks,
    first_mark,
    follow_marks,
    is_marked,
    put_marks,
    steps_back,
    with_marks,
)
from reviser.core._rows import (
    CURSOR,
    EDITS_LEFT,
    LENGTH,
    MAX_LENGTH,
    MAX_MOVES,
    MOVE_COUNT,
    NONE,
    PENDING,
    BoolArray,
    Indices,
    Rows,
    blank_rows,
    check_editable,
    editable_before,
    fit_ranges,
    highs,
    lows,
    shift_ranges,
    with_row,
)
from reviser.core.actions import MOVES, ActionVocab, Kind
from reviser.core.canvas import Canvas, Edit
from reviser.core.history import is_argument, is_search, trace
from reviser.errors import ConfigError, InvalidAction

__all__ = [
    "ActionMask",
    "BoolArray",
    "check_editable",
    "is_argument",
    "is_search",
    "shift_ranges",
    "trace",
]

# Tables by kind, so that a whole batch is classified by one lookup.
_EDITS_AT_ONCE = np.isin(np.arange(len(Kind)), [Kind.INSERT, Kind.DELETE, Kind.SWAP])
_BECOMES_PENDING = np.isin(np.arange(len(Kind)), [Kind.STOP, Kind.REPLACE])
_SPANS = [Kind.SPAN_DELETE, Kind.SPAN_MOVE, Kind.SPAN_COPY]
_IS_MOVE = np.isin(np.arange(len(Kind)), MOVES)
_KEEPS_MOVE_COUNT = _IS_MOVE | (np.arange(len(Kind)) == Kind.SEPARATOR)


class ActionMask:
    """The state of B sequences that decides which actions are allowed.

    An editable range (low, high) is a pair of boundaries between which tokens may be inserted and
    removed. Text outside every range is locked; the cursor may pass over it. A prefix is locked by
    a single range after it. The bounds move as text is inserted and removed. STOP is always
    allowed, except inside an action of several ids: then only what can complete it is.

    >>> vocab = ActionVocab.build(100, max_move=2)
    >>> rows = ActionMask(vocab, 1)
    >>> rows.reset(0, length=3, cursor=3, editable=[(3, 3)])  # a prefix of three tokens
    >>> rows.fill_mask()  # inserts, stop, +1, -1, +2, -2
    array([[ True,  True, False, False, False, False]])
    >>> rows.advance([42])
    >>> rows.fill_mask()
    array([[ True,  True, False,  True, False, False]])
    """

    def __init__(self, vocab: ActionVocab, rows: int) -> None:
        self.vocab = vocab
        self._state = blank_rows(rows)
        self._deltas = np.array(vocab.deltas, np.int64)
        columns: dict[int | None, int] = {int(i): n for n, i in enumerate(vocab.controls, start=1)}
        self._move_columns = slice(2, 2 + len(self._deltas))
        self._operators = [
            (columns[i], kind)
            for kind in (Kind.DELETE, Kind.SWAP, Kind.REPLACE, *_SPANS)
            if (i := getattr(vocab, kind.word)) is not None
        ]
        # Column 0 is for inserts, so 0 can stand for "not in this vocabulary".
        self._mark_column = columns.get(vocab.mark, 0)
        self._back_column = columns.get(vocab.back, 0)
        self._find_column = columns.get(vocab.find, 0)
        self._argument_columns = [columns[i] for i in (vocab.here, vocab.end) if i is not None]
        self._marks = blank_marks(rows)
        self._controls = arguments.controls_of(vocab)
        needs_canvas = vocab.find is not None or vocab.end is not None
        self._canvases = [Canvas(vocab) for _ in range(rows)] if needs_canvas else None

    def __len__(self) -> int:
        return len(self._state)

    def reset(
        self,
        row: int,
        *,
        length: int = 0,
        cursor: int | None = None,
        editable: Sequence[tuple[int, int]] | None = None,
        marks: Sequence[int] = (),
        canvas: Canvas | None = None,
        max_length: int | None = None,
        max_edits: int | None = None,
        max_moves: int | None = None,
    ) -> None:
        """Start a row from a canvas of `length`; by default all of it may be edited.

        The cursor starts at the end of the first editable range unless `cursor` is given.
        `max_edits` limits the actions that change the canvas; when none is left, only STOP is
        allowed. After `max_moves` moves in a row, no move is allowed until another action is taken;
        the digits of a number do not count. If the vocabulary has searches, pass the canvas too,
        unless it is blank: its marks count then.
        """
        editable = [(0, length)] if editable is None else editable
        if cursor is None:
            cursor = editable[0][1] if editable else length
        check_editable(length, cursor, editable)
        if self._canvases is not None:
            if canvas is None:  # without searches, only its length matters
                blank = [0] * length if self.vocab.find is None else ()
                canvas = Canvas(self.vocab, blank, min(cursor, len(blank)), marks)
            if (len(canvas), canvas.cursor) != (length, cursor):
                raise ConfigError(
                    f"Searches need the canvas: one of length {length} with its cursor at"
                    f" {cursor}, not of length {len(canvas)} with its cursor at {canvas.cursor}."
                )
            self._canvases[row] = canvas.fork(past=False)
        if self._mark_column:
            self._marks = with_marks(self._marks, row, marks)
        limits = max_length, max_edits, max_moves
        self._state = with_row(self._state, row, length, cursor, limits, editable)

    @property
    def length(self) -> Rows:
        """Canvas length of each row."""
        return self._state[:, LENGTH].copy()

    @property
    def cursor(self) -> Rows:
        """Cursor of each row."""
        return self._state[:, CURSOR].copy()

    @property
    def is_finished(self) -> BoolArray:
        """True for rows that have stopped."""
        finished: BoolArray = self._state[:, PENDING] == Kind.STOP
        return finished

    @property
    def is_spelling(self) -> BoolArray:
        """True for rows whose action of several ids is not complete."""
        spelling: BoolArray = (self._state[:, PENDING] != NONE) & ~self.is_finished
        return spelling

    def editable(self, row: int) -> list[tuple[int, int]]:
        """Return the editable ranges of a row as they are now, in order."""
        state = self._state[row : row + 1]
        pairs = zip(lows(state)[0].tolist(), highs(state)[0].tolist(), strict=True)
        return [(low, high) for low, high in pairs if low <= high]

    def fork(self, rows: Sequence[int] | None = None) -> ActionMask:
        """Return an independent copy of all rows, or of the given rows in that order."""
        forked = self.view(range(len(self)) if rows is None else rows)
        if forked._canvases is not None:
            forked._canvases = [canvas.fork(past=False) for canvas in forked._canvases]
        return forked

    def view(self, rows: Sequence[int]) -> ActionMask:
        """Return a fork that shares canvases: for reading masks, not for advancing."""
        # An engine makes a view in every step. The integers of a row are few and are copied; its
        # text is long, so its canvas is shared.
        view, indices = copy(self), np.asarray(rows, int)
        view._state, view._marks = self._state[indices], self._marks[indices]
        if self._canvases is not None:
            view._canvases = [self._canvases[n] for n in indices.tolist()]
        return view

    def put(self, rows: Sequence[int], other: ActionMask) -> None:
        """Overwrite rows with those of another mask: to roll back, move or swap rows."""
        indices = np.asarray(rows, int)
        width = max(lows(state).shape[1] for state in (self._state, other._state))
        self._state = fit_ranges(self._state, width)
        self._state[indices] = fit_ranges(other._state, width)
        self._marks = put_marks(self._marks, indices, other._marks)
        if self._canvases is not None:
            # The other mask may be a view, so its canvases are not its own.
            forks = [canvas.fork(past=False) for canvas in other._canvases or ()]
            for n, canvas in zip(indices.tolist(), forks, strict=True):
                self._canvases[n] = canvas

    def replay(self, row: int, history: Iterable[int]) -> None:
        """Advance one row by many ids, to resume a request."""
        alone = self.fork([row])
        for action_id in history:
            alone.advance([action_id])
        self.put([row], alone)

    # -- the mask -----------------------------------------------------------------------------

    def fill_mask(self) -> BoolArray:
        """Return what each row may do next: column 0 for inserts, then one per `vocab.controls`.

        The state does not change. To apply the mask to logits, in this order: close
        `[:, :tokens]` where column 0 is False, except for the `searched` tokens; write the
        controls' columns; close `vocab.forbidden` and everything from `vocab.size` on. A row that
        has stopped allows STOP alone, as padding.
        """
        state, vocab = self._state, self.vocab
        out = np.empty((len(state), 1 + len(vocab.controls)), np.bool_)
        low_BG, high_BG = lows(state), highs(state)
        length, cursor, pending = state[:, LENGTH], state[:, CURSOR], state[:, PENDING]
        left, is_editable = editable_before(cursor, low_BG, high_BG)
        # The cursor stays between the outermost bounds: beyond them there is nothing to edit. For
        # a prefix with one range after it, `floor` is the paper's prefix floor.
        floor, ceiling = low_BG.min(axis=1), high_BG.max(axis=1)
        can_grow = length < state[:, MAX_LENGTH]
        is_free = pending == NONE
        # Moves need an edit left, too: without one, nothing could be done where they lead.
        may_edit = is_free & (state[:, EDITS_LEFT] > 0)
        may_move = may_edit & (state[:, MOVE_COUNT] < state[:, MAX_MOVES])

        # REPLACE waits for its token, and takes any.
        out[:, 0] = (may_edit & is_editable & can_grow) | (pending == Kind.REPLACE)
        out[:, 1] = is_free | (pending == Kind.STOP)
        goal_BD = cursor[:, None] + self._deltas
        in_reach_BD = (goal_BD >= floor[:, None]) & (goal_BD <= ceiling[:, None])
        np.logical_and(in_reach_BD, may_move[:, None], out=out[:, self._move_columns])
        for column, kind in self._operators:
            if kind is Kind.SPAN_COPY:  # reads locked text too, and writes into any range
                out[:, column] = may_edit & (cursor > 0) & can_grow & (ceiling >= 0)
            else:
                out[:, column] = may_edit & (left >= (2 if kind is Kind.SWAP else 1))
        # A mark is set where text will be written later, so only where text may be edited. TO_MARK
        # needs its mark within the outermost bounds, like any move. UNLIMITED, the first of a row
        # without marks, is never within them.
        if self._mark_column:
            out[:, self._mark_column] = may_edit & is_editable & ~is_marked(self._marks, cursor)
            first = first_mark(self._marks)
            in_reach = (first >= np.maximum(floor, 0)) & (first <= ceiling)
            out[:, self._back_column] = may_move & in_reach
        if self._canvases is not None:
            self._ask_canvases(self._canvases, out, np.flatnonzero(may_move), ceiling)
        return out

    def _ask_canvases(
        self, canvases: Sequence[Canvas], out: BoolArray, movable: Indices, ceiling: Rows
    ) -> None:
        """Write what depends on the text, and the arguments of unfinished actions."""
        # FIND_END and NUMBER_END are only allowed inside an action, which is decided last.
        out[:, self._argument_columns] = False
        if self._find_column:
            # A search leads to the end of its match, so that must lie within the outermost bounds.
            out[:, self._find_column] = False
            for n in movable.tolist():
                out[n, self._find_column] = canvases[n].can_find(int(ceiling[n]))
        waits = np.isin(self._state[:, PENDING], [Kind.FIND, *_SPANS])
        for n in np.flatnonzero(waits).tolist():
            longest = int(self._state[n, MAX_LENGTH])
            out[n, 1:] = arguments.allowed_arguments(
                canvases[n], self._controls, self.editable(n), longest
            )

    def searched(self) -> tuple[Rows, Rows]:
        """Return the tokens with which unfinished searches may continue: rows and tokens in pairs.

        >>> vocab = ActionVocab.build(100, search=True)
        >>> rows = ActionMask(vocab, 2)
        >>> for row in range(2):
        ...     rows.reset(row, length=3, cursor=0, canvas=Canvas(vocab, [7, 9, 8], cursor=0))
        >>> rows.advance([vocab.stop, vocab.find])
        >>> [pairs.tolist() for pairs in rows.searched()]
        [[1, 1, 1], [7, 8, 9]]
        """
        searching = np.flatnonzero(self._state[:, PENDING] == Kind.FIND)
        if self._canvases is None or not searching.size:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        ceiling = highs(self._state).max(axis=1)
        pairs = [
            (n, token)
            for n in searching.tolist()
            for token in self._canvases[n].findable(int(ceiling[n]))
        ]
        row_N, token_N = np.array(pairs, np.int64).reshape(-1, 2).T
        return row_N, token_N

    def findable(self, row: int) -> list[int]:
        """Return the tokens that may follow in the search of a row; none if it has none."""
        found: list[int] = self.view([row]).searched()[1].tolist()
        return found

    def allowed(self) -> BoolArray:
        """Return a mask as wide as the vocabulary: for tests and inspection, not for engines."""
        mask_BC = self.fill_mask()
        wide = np.zeros((len(mask_BC), self.vocab.size), np.bool_)
        wide[:, self.vocab.kinds == Kind.INSERT] = mask_BC[:, :1]
        wide[:, self.vocab.controls] = mask_BC[:, 1:]
        wide[self.searched()] = True
        return wide

    # -- advancing ----------------------------------------------------------------------------

    def advance(
        self, action_ids: Sequence[int] | npt.NDArray[np.integer], rows: Sequence[int] | None = None
    ) -> None:
        """Take one id for every row, or for the given rows; the mask must have allowed each.

        Begin and delimiter have no effect, so a whole history can be fed. If the vocabulary has
        searches or spans, an id that a canvas refuses raises InvalidAction, and no row changes.
        """
        ids, chosen = self._checked(action_ids, rows)
        state, marks = self._state[chosen], self._marks[chosen]
        kind = self.vocab.kinds[ids]
        pending = state[:, PENDING]  # a view: what depends on it comes before it is written
        is_free, searches = pending == NONE, pending == Kind.FIND
        first_kind = np.where(is_free, kind, Kind.NUMBER_END)  # NUMBER_END begins no action
        # First: only a canvas can refuse an id, and then nothing else may have changed.
        if self._canvases is None:
            growth, steps, position, after = self._effects(ids, state, marks)
        else:
            growth, steps, position, after = _execute([self._canvases[n] for n in chosen], ids)
        # An action of several ids is one edit, and counts once it is complete.
        completes = ~is_free & ~searches & (after == NONE)
        state[:, EDITS_LEFT] -= (is_free & _EDITS_AT_ONCE[kind]) | completes
        if self._mark_column:
            marks = follow_marks(marks, first_kind, state[:, CURSOR], position, growth)
            self._marks = put_marks(self._marks, chosen, marks)
        shift_ranges(lows(state), highs(state), position[:, None], growth[:, None])
        state[:, LENGTH] += growth
        state[:, CURSOR] += steps
        # Digits count as moves at first, but the NUMBER_END after them sets the count to zero.
        moves = state[:, MOVE_COUNT] + _IS_MOVE[kind]
        state[:, MOVE_COUNT] = np.where(_KEEPS_MOVE_COUNT[kind] | searches, moves, 0)
        state[:, PENDING] = after
        self._state[chosen] = state

    def _effects(self, ids: Rows, state: Rows, marks: Rows) -> tuple[Rows, Rows, Rows, Rows]:
        """Return growth, steps of the cursor, where the length changes, and what is unfinished."""
        kind, cursor, pending = self.vocab.kinds[ids], state[:, CURSOR], state[:, PENDING]
        is_free = pending == NONE
        at_once = is_free & (kind != Kind.REPLACE)  # a replacement happens with its argument
        growth = np.where(at_once, self.vocab.length_deltas[ids], 0)
        steps = np.where(at_once, self.vocab.cursor_deltas[ids], 0)
        if self._mark_column:
            steps += steps_back(marks, np.where(is_free, kind, Kind.NUMBER_END), cursor)
        after = np.where(pending == Kind.STOP, Kind.STOP, NONE)
        return growth, steps, cursor, np.where(is_free & _BECOMES_PENDING[kind], kind, after)

    def _checked(
        self, action_ids: Sequence[int] | npt.NDArray[np.integer], rows: Sequence[int] | None
    ) -> tuple[Rows, Rows]:
        """Return ids and their rows, or refuse ids that are none."""
        ids = np.asarray(action_ids, np.int64)
        chosen = np.arange(len(self)) if rows is None else np.asarray(rows, np.int64)
        if ids.shape != chosen.shape:
            raise InvalidAction(f"Give one id per row; got {ids.size} for {chosen.size} rows.")
        # Negative ids would index the tables from their end.
        if ids.size and (ids.min() < 0 or ids.max() >= self.vocab.size):
            raise InvalidAction(f"Action ids must lie in 0..{self.vocab.size - 1}; got {ids}.")
        return ids, chosen


def _execute(canvases: Sequence[Canvas], ids: Rows) -> tuple[Rows, Rows, Rows, Rows]:
    """Apply an id to each canvas, or change none; return what `ActionMask._effects` does."""
    edits: list[Edit] = []
    changed: list[Canvas] = []
    try:
        for canvas, action_id in zip(canvases, ids.tolist(), strict=True):
            # A row that has stopped is padding: whatever id it is fed does nothing.
            if canvas.is_finished:
                edits.append(Edit(canvas.cursor, (), (), canvas.cursor, canvas.cursor))
            else:
                edits.append(canvas.apply(action_id))
                changed.append(canvas)
    except Exception:
        for canvas in changed:
            canvas.rollback()
        raise
    after = [NONE if (each := canvas.pending) is None else each.kind for canvas in canvases]
    effects = [
        (len(e.inserted) - len(e.removed), e.cursor - e.cursor_before, e.position + len(e.removed))
        for e in edits
    ]
    growth, steps, position = np.array(effects, np.int64).reshape(-1, 3).T
    return growth, steps, position, np.array(after, np.int64)
