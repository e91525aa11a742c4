"""The state of a mask: one row of integers per sequence, and the ranges that may be edited.

An editable range (low, high) is a pair of boundaries between which tokens may be inserted and
removed. Text outside every range is locked. `mask.ActionMask` holds the rows and knows the rules.

A row of four tokens, of which the second may be changed, with the cursor after it and no limits:

    LENGTH  CURSOR  PENDING  MOVE_COUNT  MAX_LENGTH  EDITS_LEFT  MAX_MOVES | lows | highs
    4       2       NONE     0           UNLIMITED   UNLIMITED   UNLIMITED | 1    | 2

After a DELETE: length 3, cursor 1, and the range is (1, 1). All integers are one array, and not one
for each name, because engines take, copy and put back some rows in every step.

Shapes: B rows, S integers of a row, G ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from reviser.errors import ConfigError

BoolArray = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
Indices = npt.NDArray[np.integer]

# Integers of a row. MOVE_COUNT counts the moves since the last action that was none.
LENGTH, CURSOR, PENDING, MOVE_COUNT, MAX_LENGTH, EDITS_LEFT, MAX_MOVES = range(7)
BOUNDS = 7  # the lower bounds of all ranges follow, then their upper bounds

NONE = -1  # PENDING: no action is unfinished; otherwise the Kind of that action, or STOP
UNLIMITED = 1 << 40  # larger than any length; sums of two still fit into 64 bits


def blank_rows(count: int) -> Rows:
    """Return rows for blank canvases, each with one range of no tokens and no limits."""
    blank = [0, 0, NONE, 0, UNLIMITED, UNLIMITED, UNLIMITED, 0, 0]
    return np.tile(np.array(blank, np.int64), (count, 1))


def lows(state_BS: Rows) -> Rows:
    """Return a view of the lower bounds of the ranges."""
    return state_BS[:, BOUNDS : (BOUNDS + state_BS.shape[1]) // 2]


def highs(state_BS: Rows) -> Rows:
    """Return a view of the upper bounds of the ranges."""
    return state_BS[:, (BOUNDS + state_BS.shape[1]) // 2 :]


def fit_ranges(state_BS: Rows, count: int) -> Rows:
    """Return the rows with space for `count` ranges."""
    low_BG, high_BG = lows(state_BS)[:, :count], highs(state_BS)[:, :count]
    # An unused range has its bounds the wrong way round: no comparison ever finds a boundary in it,
    # and it changes neither the lowest low nor the highest high of a row.
    unused = np.zeros((len(state_BS), count - low_BG.shape[1]), np.int64)
    parts = [state_BS[:, :BOUNDS], low_BG, unused + UNLIMITED, high_BG, unused + NONE]
    return np.concatenate(parts, axis=1)


def with_row(
    state_BS: Rows,
    row: int,
    length: int,
    cursor: int,
    limits: Sequence[int | None],
    editable: Sequence[tuple[int, int]],
) -> Rows:
    """Return the rows with one started from scratch; `limits` are in the order of a row."""
    # All rows have the same width: as many ranges as the row that has the most.
    others_BG = np.delete(highs(state_BS), row, axis=0)
    in_use = int(np.count_nonzero(others_BG >= 0, axis=1).max(initial=1))
    state_BS = fit_ranges(state_BS, max(len(editable), in_use))
    state_BS[row, :MAX_LENGTH] = length, cursor, NONE, 0
    state_BS[row, MAX_LENGTH:BOUNDS] = [UNLIMITED if n is None else n for n in limits]
    low_G, high_G = lows(state_BS)[row], highs(state_BS)[row]
    low_G[:], high_G[:] = UNLIMITED, NONE
    for n, (low, high) in enumerate(editable):
        low_G[n], high_G[n] = low, high
    return state_BS


def editable_before(cursor: Rows, low_BG: Rows, high_BG: Rows) -> tuple[Rows, BoolArray]:
    """Return the editable tokens left of each cursor, and whether it is in an editable range."""
    cursor_B1 = cursor[:, None]
    inside: BoolArray = (low_BG <= cursor_B1) & (cursor_B1 <= high_BG)
    # Ranges are apart, so at most one holds the cursor and the sum has at most one term.
    left = np.where(inside, cursor_B1 - low_BG, 0).sum(axis=1)
    return left, np.any(inside, axis=1)


def shift_ranges(lows: Rows, highs: Rows, position: Rows | int, growth: Rows | int) -> None:
    """Move ranges, in place, with an edit that ends at a position and adds `growth` tokens."""
    # What is inserted at a range's lower bound is inside the range, so that bound stays.
    lows += np.where(lows > position, growth, 0)
    highs += np.where(highs >= position, growth, 0)


def check_editable(length: int, cursor: int, editable: Sequence[tuple[int, int]]) -> None:
    """Raise ConfigError for ranges that do not fit a canvas of `length` and its cursor."""
    bounds = [bound for pair in editable for bound in pair]
    ordered = all(low <= high for low, high in editable)
    apart = all(a[1] < b[0] for a, b in pairwise(editable))
    if not (ordered and apart and all(0 <= bound <= length for bound in [*bounds, cursor])):
        raise ConfigError(
            f"Editable ranges {list(editable)} with cursor {cursor} do not fit a canvas of length"
            f" {length}: they must be in order, apart from each other, and within it."
        )
    if bounds and not bounds[0] <= cursor <= bounds[-1]:
        raise ConfigError(
            f"The cursor is at {cursor}, outside the editable ranges {list(editable)}, and could"
            f" not get in. Start it between {bounds[0]} and {bounds[-1]}."
        )
