"""Whole histories at once: length and cursor after every id, and the role of every id.

All of it is computed by running sums over time, without executing any action, so it works on
batches of training data. Histories must be legal.

Shapes: B histories, T ids of each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def trace(vocab: ActionVocab, history_BT: npt.NDArray[np.integer]) -> tuple[Ints, Ints]:
    """Return length and cursor of the canvas after every id.

    Ids without effect (begin, delimiter, reserved ones) can serve as padding.

    >>> vocab = ActionVocab.build(100)
    >>> length, cursor = trace(vocab, np.array([[7, 8, vocab.move_id(-1), 9]]))
    >>> length.tolist(), cursor.tolist()
    ([[1, 2, 2, 3]], [[1, 2, 1, 2]])
    """
    return lengths(vocab, history_BT), _cursors(vocab, history_BT)


def lengths(vocab: ActionVocab, history_BT: npt.NDArray[np.integer]) -> Ints:
    """Return the length of the canvas after every id."""
    kinds_BT = vocab.kinds[history_BT]
    growth_BT = vocab.length_deltas[history_BT].astype(np.int64)
    if vocab.find is not None:
        growth_BT[is_search(vocab, history_BT)] = 0
    if vocab.end is not None:
        steps_BT = vocab.cursor_deltas[history_BT].astype(np.int64)
        growth_BT, _ = _span_effects(kinds_BT, growth_BT, steps_BT)
    # The tables give REPLACE an effect of -1 and its argument +1, but nothing happens in between.
    found: Ints = np.cumsum(growth_BT, axis=1) + (kinds_BT == Kind.REPLACE)
    return found


def _cursors(vocab: ActionVocab, history_BT: npt.NDArray[np.integer]) -> Ints:
    kinds_BT = vocab.kinds[history_BT]
    if np.isin(kinds_BT, [Kind.TO_MARK, Kind.FIND]).any():  # where they lead depends on the canvas
        return np.array([_replayed(vocab, ids) for ids in history_BT.tolist()], np.int64)
    steps_BT = vocab.cursor_deltas[history_BT].astype(np.int64)
    if vocab.end is not None:
        _, steps_BT = _span_effects(kinds_BT, np.zeros_like(steps_BT), steps_BT)
    found: Ints = np.cumsum(steps_BT, axis=1) + (kinds_BT == Kind.REPLACE)
    return found


def _replayed(vocab: ActionVocab, ids: list[int]) -> list[int]:
    canvas, cursors = Canvas(vocab), list[int]()
    for action_id in ids:
        if not canvas.is_finished and vocab.kinds[action_id] != Kind.RESERVED:
            canvas.apply(action_id)
        cursors.append(canvas.cursor)
    return cursors


def is_argument(vocab: ActionVocab, history_BT: npt.NDArray[np.integer]) -> Bools:
    """Return which ids are arguments of an action before them."""
    kinds_BT = vocab.kinds[history_BT]
    # REPLACE takes exactly one argument, the next id.
    replaced = np.zeros(kinds_BT.shape, np.bool_)
    replaced[:, 1:] = kinds_BT[:, :-1] == Kind.REPLACE
    searched = is_search(vocab, history_BT) & (kinds_BT != Kind.FIND)
    inside: Bools = replaced | searched | _Numbers(kinds_BT).inside
    return inside


def is_search(vocab: ActionVocab, history_BT: npt.NDArray[np.integer]) -> Bools:
    """Return which ids spell a search, from FIND to FIND_END."""
    kinds_BT = vocab.kinds[history_BT]
    here = kinds_BT == Kind.FIND_END
    begun = np.cumsum(kinds_BT == Kind.FIND, axis=1)
    # More searches have begun than ended before this id; FIND_END still belongs to its search.
    inside: Bools = begun > np.cumsum(here, axis=1) - here
    return inside


class _Numbers:
    """The numbers of span operators in histories.

    `start` is the time of the operator that an id may be an argument of, the last one before it,
    and `operator` its kind. `inside` are the ids of numbers, and `completes` the last NUMBER_END of
    each operator.
    """

    def __init__(self, kinds_BT: npt.NDArray[np.uint8]) -> None:
        self.is_end = kinds_BT == Kind.NUMBER_END
        opens = (kinds_BT >= Kind.SPAN_DELETE) & (kinds_BT <= Kind.SPAN_COPY)
        self.time = np.broadcast_to(np.arange(kinds_BT.shape[1]), kinds_BT.shape)
        opened = np.maximum.accumulate(np.where(opens, self.time, -1), axis=1)
        self.start = np.maximum(opened, 0)  # 0 instead of -1: an index, even if there is none
        self.operator = np.where(opened >= 0, self.at_start(kinds_BT), 0)
        ends = np.cumsum(self.is_end, axis=1)
        closed = ends - self.at_start(ends)  # numbers of this operator that are complete by now
        needed = np.where(self.operator == Kind.SPAN_DELETE, 1, 2) * (opened >= 0)
        # A NUMBER_END belongs to the number it ends, so it does not count as closed for itself.
        self.inside = (closed - self.is_end < needed) & ~opens
        self.completes = self.inside & self.is_end & (closed == needed)

    def at_start(self, values_BT: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return each id's value at the time of its operator."""
        return np.take_along_axis(values_BT, self.start, axis=1)


def _span_effects(
    kinds_BT: npt.NDArray[np.uint8], growth_BT: Ints, steps_BT: Ints
) -> tuple[Ints, Ints]:
    """Remove the digits of numbers from the sums; add each span operator's effect where it ends."""
    numbers = _Numbers(kinds_BT)
    # A digit is spelled as a move, so the table of cursor steps holds its value.
    digits = np.cumsum(np.where(numbers.inside, steps_BT, 0), axis=1)
    both = digits - numbers.at_start(digits)  # first and second number together
    earlier_end = np.zeros(kinds_BT.shape, np.int64)
    ends = np.maximum.accumulate(np.where(numbers.is_end, numbers.time, 0), axis=1)
    earlier_end[:, 1:] = ends[:, :-1]
    second = digits - np.take_along_axis(digits, earlier_end, axis=1)  # since the NUMBER_END before
    deletes, moves, copies = (
        numbers.completes & (numbers.operator == kind)
        for kind in (Kind.SPAN_DELETE, Kind.SPAN_MOVE, Kind.SPAN_COPY)
    )
    growth_BT = growth_BT - np.where(deletes, both, 0) + np.where(copies, both - second, 0)
    steps_BT = np.where(numbers.inside, 0, steps_BT) - np.where(deletes, both, 0)
    # A span that moves left leaves the cursor where it is. A copy takes it to its own end, which
    # is the offset (second number) plus the size of the span (first number) further.
    steps_BT += np.where(moves, np.maximum(second, 0), 0) + np.where(copies, both, 0)
    return growth_BT, steps_BT
