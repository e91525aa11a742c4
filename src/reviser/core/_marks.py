"""The marks of many rows: one line of an array per row, from left to right.

Lines have the same width, as many as the row with the most marks needs. The rest of a line is
`UNLIMITED`, which is to the right of every mark. `canvas.shift_marks` is the same for one row.

Shapes: B rows, M marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reviser.core._rows import UNLIMITED, BoolArray, Indices, Rows
from reviser.core.kinds import Kind


def blank_marks(rows: int) -> Rows:
    """Return lines without marks."""
    return np.empty((rows, 0), np.int64)


def fit_marks(marks_BM: Rows, count: int) -> Rows:
    """Return the lines with space for `count` marks; what is cut off must be unused."""
    missing = count - marks_BM.shape[1]
    if missing <= 0:
        return marks_BM[:, :count]
    unused = np.full((len(marks_BM), missing), UNLIMITED)
    return np.concatenate([marks_BM, unused], axis=1)


def with_marks(marks_BM: Rows, row: int, marks: Sequence[int]) -> Rows:
    """Return the lines with one written from scratch; they are as wide as they must be."""
    others = np.count_nonzero(np.delete(marks_BM, row, axis=0) != UNLIMITED, axis=1)
    marks_BM = fit_marks(marks_BM, max(len(marks), int(others.max(initial=0)))).copy()
    marks_BM[row] = UNLIMITED
    marks_BM[row, : len(marks)] = sorted(marks)
    return marks_BM


def put_marks(marks_BM: Rows, rows: Indices, other_BM: Rows) -> Rows:
    """Return the lines with some of them overwritten by others."""
    count = max(marks_BM.shape[1], other_BM.shape[1])
    marks_BM = fit_marks(marks_BM, count)
    marks_BM[rows] = fit_marks(other_BM, count)
    return marks_BM


def first_mark(marks_BM: Rows) -> Rows:
    """Return the leftmost mark of each row; `UNLIMITED` if it has none."""
    if not marks_BM.shape[1]:
        return np.full(len(marks_BM), UNLIMITED)
    return marks_BM[:, 0].copy()


def is_marked(marks_BM: Rows, cursor: Rows) -> BoolArray:
    """Return which rows have a mark at their cursor."""
    marked: BoolArray = (marks_BM == cursor[:, None]).any(axis=1)
    return marked


def steps_back(marks_BM: Rows, kind: npt.NDArray[Any], cursor: Rows) -> Rows:
    """Return the steps of the rows that take TO_MARK, if they have a mark; 0 for the others."""
    first = first_mark(marks_BM)
    return np.where((kind == Kind.TO_MARK) & (first != UNLIMITED), first - cursor, 0)


def follow_marks(
    marks_BM: Rows, kind: npt.NDArray[Any], cursor: Rows, position: Rows, growth: Rows
) -> Rows:
    """Return the marks after one id per row.

    `kind` is the kind of an id that begins an action, and any other for an argument. `growth`
    tokens were inserted at `position`, or removed before it if negative.
    """
    adds, goes = kind == Kind.MARK, kind == Kind.TO_MARK
    if adds.any():
        used = np.count_nonzero(marks_BM[adds] != UNLIMITED, axis=1)
        marks_BM = fit_marks(marks_BM, max(marks_BM.shape[1], int(used.max()) + 1))
        # A line that gets a mark has an unused place, which is its last. Sorting puts it right.
        marks_BM[adds, -1] = cursor[adds]
        marks_BM[adds] = np.sort(marks_BM[adds], axis=1)
    if not marks_BM.shape[1]:
        return marks_BM
    if goes.any():  # TO_MARK uses up the first mark
        marks_BM[goes, :-1] = marks_BM[goes, 1:]
        marks_BM[goes, -1] = UNLIMITED
    if not growth.any():
        return marks_BM
    start = np.minimum(position, position + growth)[:, None]
    # A mark stays before what is inserted at it; marks in removed text go to its start.
    stays = (marks_BM <= start) | (marks_BM == UNLIMITED)
    marks_BM = np.where(stays, marks_BM, np.maximum(start, marks_BM + growth[:, None]))
    if growth.min() < 0:  # only then can marks coincide, and one of them is enough
        again = (marks_BM[:, 1:] == marks_BM[:, :-1]) & (marks_BM[:, 1:] != UNLIMITED)
        if again.any():
            marks_BM[:, 1:][again] = UNLIMITED
            marks_BM.sort(axis=1)
    return marks_BM
