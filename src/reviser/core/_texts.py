"""The texts of many rows, so that searches know what can be found.

Each row is a line of one array, with a gap at the cursor: what is left of the cursor lies at the
start of the line, what is right of it at the end. So an insert, a deletion or a replacement is one
write for all rows at once, and a move copies the tokens that it passes. The tokens that an
unfinished search has typed lie in the gap, from the cursor on.

`canvas.Canvas` is the same for one row, and decides what is legal.

Shapes: B rows, N pairs of a row and something else, W tokens of a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np
import numpy.typing as npt

from reviser.core._rows import NONE, BoolArray, Indices, Rows

_FEWEST = 64  # tokens of a line; widths are powers of two


class Texts:
    """The tokens of B rows. Cursors and lengths belong to the caller, who passes them.

    `right` is how many tokens are right of the cursor, `typed` how many tokens a search has typed.
    """

    def __init__(self, rows: int) -> None:
        self._lines = np.zeros((rows, _FEWEST), np.int32)
        self._slots = np.arange(rows)  # the line of each row
        self._is_view = False

    def view(self, rows: Indices) -> Texts:
        """Return some of the rows, sharing their lines."""
        view = copy(self)
        view._slots, view._is_view = self._slots[rows], True
        return view

    def own(self) -> None:
        """Take copies of shared lines."""
        if self._is_view:
            self._lines, self._slots = self._lines[self._slots], np.arange(len(self._slots))
            self._is_view = False

    def reset(self, row: int, tokens: Sequence[int], cursor: int) -> None:
        """Start a row from a text."""
        self.widen(len(tokens))
        line = self._lines[self._slots[row]]
        line[:cursor] = tokens[:cursor]
        line[len(line) - len(tokens) + cursor :] = tokens[cursor:]

    def put(self, rows: Indices, other: Texts) -> None:
        """Overwrite rows with those of others."""
        if not rows.size:
            return
        self.own()
        self.widen(other._lines.shape[1])
        lines = _widened(other._lines[other._slots], self._lines.shape[1])
        self._lines[self._slots[rows]] = lines

    def widen(self, needed: int) -> None:
        """Make space for texts of this many tokens."""
        if needed > self._lines.shape[1]:
            self._lines = _widened(self._lines, 1 << (needed - 1).bit_length())

    def tokens(self, row: int, cursor: int, length: int) -> list[int]:
        """Return the text of a row."""
        line = self._lines[self._slots[row]]
        right = line[len(line) - length + cursor :]
        return [*line[:cursor].tolist(), *right.tolist()]

    def typed(self, row: int, cursor: int, count: int) -> list[int]:
        """Return what a row has typed of a search."""
        typed: list[int] = self._lines[self._slots[row], cursor : cursor + count].tolist()
        return typed

    # -- edits; `rows` has no row twice -------------------------------------------------------

    def write(
        self,
        rows: Indices,
        column: Indices,
        ids: Indices,
    ) -> None:
        """Write one token per row left of its right part; `column` counts from the line's start."""
        self._lines[self._slots[rows], column] = ids

    def swap(self, rows: Indices, cursor: Rows) -> None:
        """Exchange the two tokens left of the cursor."""
        slots = self._slots[rows]
        last = self._lines[slots, cursor - 1]
        self._lines[slots, cursor - 1] = self._lines[slots, cursor - 2]
        self._lines[slots, cursor - 2] = last

    def move(self, rows: Indices, cursor: Rows, right: Rows, steps: npt.NDArray[np.int64]) -> None:
        """Move the gap along with the cursor."""
        start = self._lines.shape[1] - right  # of the right part
        # What lies between the cursor's old and new boundary goes to the other side of the gap.
        source = np.where(steps > 0, start, cursor + steps)
        goal = np.where(steps > 0, cursor, start + steps)
        count = np.abs(steps)
        before = np.cumsum(count) - count
        offset_N = np.arange(int(count.sum())) - np.repeat(before, count)
        slot_N = np.repeat(self._slots[rows], count)
        passed_N = self._lines[slot_N, np.repeat(source, count) + offset_N]
        self._lines[slot_N, np.repeat(goal, count) + offset_N] = passed_N

    def move_span(self, row: int, cursor: int, right: int, span: int, jump: int) -> None:
        """Move the tokens left of a cursor over `jump` others; the gap follows to the right."""
        line = self._lines[self._slots[row]]
        start = cursor - span
        if jump < 0:
            line[start + jump : cursor] = np.roll(line[start + jump : cursor], span)
            return
        moved = line[start:cursor].copy()
        first = len(line) - right
        line[start : start + jump] = line[first : first + jump].copy()
        line[start + jump : cursor + jump] = moved

    def copy_span(self, row: int, cursor: int, right: int, span: int, offset: int) -> None:
        """Copy the tokens left of a cursor to a boundary; the gap goes to the end of the copy."""
        at = np.array([row])
        copied = self._lines[self._slots[row], cursor - span : cursor].copy()
        self.move(at, np.array([cursor]), np.array([right]), np.array([offset]))
        self._lines[self._slots[row], cursor + offset : cursor + offset + span] = copied

    # -- searches -----------------------------------------------------------------------------

    def can_find(self, rows: Indices, right: Rows, limit: Rows, findable: BoolArray) -> BoolArray:
        """Return which rows have a findable token among the first `limit` ones right of the cursor.

        `findable` says by id what can be searched for.
        """
        width = self._lines.shape[1]
        slots, start = self._slots[rows], width - right
        some = (limit > 0) & (right > 0)
        found = some & findable[self._lines[slots, np.minimum(start, width - 1)]]
        # Only a prefix has tokens that cannot be found, so the next token nearly always can.
        for n in np.flatnonzero(some & ~found).tolist():
            ahead = self._lines[slots[n], start[n] : start[n] + limit[n]]
            found[n] = findable[ahead].any()
        return found

    def first_match(self, rows: Indices, cursor: Rows, right: Rows, typed: Rows) -> Rows:
        """Return how far right of the cursor the typed tokens first begin; NONE if nowhere."""
        first = np.full(len(rows), NONE)
        row_N, offset_N = self._matches(rows, cursor, right, typed)
        is_first = np.ones(len(row_N), np.bool_)
        is_first[1:] = row_N[1:] != row_N[:-1]
        first[row_N[is_first]] = offset_N[is_first]
        return first

    def next_tokens(
        self, rows: Indices, cursor: Rows, right: Rows, typed: Rows, limit: Rows
    ) -> tuple[Rows, Rows]:
        """Return what can continue searches: indices into `rows` and tokens, pair by pair.

        The token is one of the first `limit` ones right of the cursor. No pair occurs twice, and
        the tokens of a row are in order.
        """
        limit = np.minimum(limit, right)
        fresh, begun = np.flatnonzero(typed == 0), np.flatnonzero(typed > 0)
        found = []
        for part in _alike(right[fresh]):
            at = fresh[part]
            width = int(right[at].max(initial=0))
            ahead_BW = self._ahead(rows[at], width)
            offset_BW = np.arange(width) - (width - right[at])[:, None]
            ahead_BW[(offset_BW < 0) | (offset_BW >= limit[at][:, None])] = NONE
            ahead_BW.sort(axis=1)  # by far the quickest way to drop what occurs twice
            is_new = ahead_BW != NONE
            is_new[:, 1:] &= ahead_BW[:, 1:] != ahead_BW[:, :-1]
            row_N, column_N = np.nonzero(is_new)
            found.append((at[row_N], ahead_BW[row_N, column_N].astype(np.int64)))
        if begun.size:
            row_N, offset_N = self._matches(rows[begun], cursor[begun], right[begun], typed[begun])
            row_N = begun[row_N]
            offset_N = offset_N + typed[row_N]
            row_N, offset_N = (each[offset_N < limit[row_N]] for each in (row_N, offset_N))
            column_N = self._lines.shape[1] - right[row_N] + offset_N
            token_N = self._lines[self._slots[rows[row_N]], column_N]
            pairs = np.sort((row_N << 32) | token_N)
            pairs = (
                pairs[np.concatenate([[True], pairs[1:] != pairs[:-1]])] if pairs.size else pairs
            )
            found.append((pairs >> 32, pairs & ((1 << 32) - 1)))
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        row, token = zip(*found, strict=True)
        return np.concatenate(row), np.concatenate(token)

    def _ahead(self, rows: Indices, width: int) -> npt.NDArray[np.int32]:
        """Return the ends of lines, where the right parts are."""
        ends: npt.NDArray[np.int32] = self._lines[self._slots[rows], self._lines.shape[1] - width :]
        return ends

    def _matches(self, rows: Indices, cursor: Rows, right: Rows, typed: Rows) -> tuple[Rows, Rows]:
        """Return where the typed tokens, at least one, occur right of the cursor.

        The result is indices into `rows` and offsets from the cursor, pair by pair. Those of one
        row are together and in order.
        """
        slots = self._slots[rows]
        row_parts, offset_parts = [], []
        for part in _alike(right):
            width = int(right[part].max(initial=0))
            sought = self._lines[slots[part], cursor[part]]
            row, column = np.nonzero(self._ahead(rows[part], width) == sought[:, None])
            row_parts.append(part[row])
            offset_parts.append(column - (width - right[part[row]]))
        row_N, offset_N = np.concatenate(row_parts), np.concatenate(offset_parts)
        fits = (offset_N >= 0) & (offset_N + typed[row_N] <= right[row_N])
        row_N, offset_N = row_N[fits], offset_N[fits]
        start = self._lines.shape[1] - right
        for n in range(1, int(typed.max())):  # few candidates are left after the first token
            longer = typed[row_N] > n
            column_N = np.where(longer, start[row_N] + offset_N + n, 0)
            wanted_N = self._lines[slots[row_N], np.where(longer, cursor[row_N] + n, 0)]
            same = self._lines[slots[row_N], column_N] == wanted_N
            row_N, offset_N = row_N[same], offset_N[same]
        return row_N, offset_N


def _alike(right: Rows) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the indices of texts of about the same length, which share an array without waste."""
    sizes = np.frexp(right)[1]
    for size in sorted({*sizes.tolist()}):
        yield np.flatnonzero(sizes == size)


def _widened(lines: npt.NDArray[np.int32], width: int) -> npt.NDArray[np.int32]:
    """Return the lines, of a power of two of tokens each, with the same or a larger one."""
    old = lines.shape[1]
    if old == width:
        return lines
    # The left part stays at the start and the right part goes to the end. Each is somewhere in the
    # old line, so the whole line goes to both. What is never written takes no memory.
    wide = np.zeros((len(lines), width), np.int32)
    wide[:, :old] = lines
    wide[:, width - old :] = lines
    return wide
