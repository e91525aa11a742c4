"""The canvas after every id of some histories: the executor of `core.canvas`, for many at once.

Histories must be valid; nothing is checked here. `core.canvas.Canvas` is the reference.

Shapes: B histories, T ids of each, L tokens of the longest canvas.
"""

from __future__ import annotations

import numpy as np

from reviser.core.kinds import Kind
from reviser.trajectories._kernels.jit import I32, I64, compiled, entry

_INSERT, _PREFIX_ONLY, _MOVE = int(Kind.INSERT), int(Kind.PREFIX_ONLY), int(Kind.MOVE)
_STOP, _DELETE, _REPLACE, _SWAP = map(int, (Kind.STOP, Kind.DELETE, Kind.REPLACE, Kind.SWAP))
_SPAN_DELETE, _SPAN_MOVE, _END = int(Kind.SPAN_DELETE), int(Kind.SPAN_MOVE), int(Kind.END)
_MARK, _BACK, _FIND, _HERE = map(int, (Kind.MARK, Kind.BACK, Kind.FIND, Kind.HERE))
_NOTHING = -1


@compiled
def shift_marks(marks: I64, count: int, position: int, growth: int) -> int:
    """Shift marks as `core.canvas.shift_marks` does; return how many are left."""
    kept = 0
    for n in range(count):
        mark = marks[n]
        if mark > position:
            mark = max(position, mark + growth)
        if kept == 0 or marks[kept - 1] != mark:
            marks[kept] = mark
            kept += 1
    return kept


@compiled
def find(tokens: I32, cursor: int, typed: I32, size: int) -> int:
    """Return the end of the first match at or right of the cursor; a valid search has one."""
    start = same = 0
    while same < size:
        if tokens[cursor + start + same] == typed[same]:
            same += 1
        else:
            start, same = start + 1, 0
    return cursor + start + size


@compiled
def follow(ids: I64, kinds: I64, deltas: I64, out: I32) -> int:
    """Write the canvas after each id of one history; return the length of the longest."""
    steps = len(ids)
    tokens, typed = np.empty(steps + 1, np.int32), np.empty(steps + 1, np.int32)
    marks = np.empty(steps + 1, np.int64)
    length = cursor = count = longest = 0
    # The action that the ids so far have begun: its number so far, a finished first number, and how
    # many tokens were typed of a search.
    pending, amount, span, size = _NOTHING, 0, 0, 0
    for t in range(steps):
        action, kind = ids[t], kinds[ids[t]]
        removed = 0  # tokens to remove left of the cursor
        if pending == _NOTHING:
            if kind in (_INSERT, _PREFIX_ONLY):
                # Copies, because the parts overlap.
                tokens[cursor + 1 : length + 1] = tokens[cursor:length].copy()
                tokens[cursor] = action
                count = shift_marks(marks, count, cursor, 1)
                length, cursor = length + 1, cursor + 1
            elif kind == _MOVE:
                cursor += deltas[action]
            elif kind == _DELETE:
                removed = 1
            elif kind == _SWAP:
                tokens[cursor - 2], tokens[cursor - 1] = tokens[cursor - 1], tokens[cursor - 2]
            elif kind == _MARK:
                n = count  # marks stay in order
                while n > 0 and marks[n - 1] > cursor:
                    marks[n] = marks[n - 1]
                    n -= 1
                marks[n] = cursor
                count += 1
            elif kind == _BACK:  # to the leftmost mark, which is used up
                cursor = marks[0]
                count -= 1
                marks[:count] = marks[1 : count + 1].copy()
            elif kind in (_REPLACE, _FIND, _SPAN_DELETE, _SPAN_MOVE, _STOP):
                pending, amount, span, size = kind, 0, 0, 0
        elif pending == _REPLACE:
            tokens[cursor - 1] = action
            pending = _NOTHING
        elif pending == _FIND:
            if kind == _HERE:
                cursor = find(tokens, cursor, typed, size)
                pending = _NOTHING
            else:
                typed[size] = action
                size += 1
        # Nothing follows STOP but padding, which is STOP again.
        elif pending != _STOP:  # a number, digit by digit
            if kind == _MOVE:
                amount += deltas[action]
            elif kind == _END and pending == _SPAN_DELETE:
                removed, pending = amount, _NOTHING
            elif kind == _END and span == 0:
                span, amount = amount, 0
            elif kind == _END:
                # A span jumps over its neighbours: to the left past `-amount` tokens, and the
                # cursor stays; or to the right past `amount` tokens, and the cursor goes along.
                start = cursor - span
                moved = tokens[start:cursor].copy()
                if amount < 0:
                    tokens[start + amount + span : cursor] = tokens[start + amount : start].copy()
                    tokens[start + amount : start + amount + span] = moved
                else:
                    tokens[start : start + amount] = tokens[cursor : cursor + amount].copy()
                    tokens[start + amount : cursor + amount] = moved
                    cursor += amount
                pending = _NOTHING
        if removed:
            tokens[cursor - removed : length - removed] = tokens[cursor:length].copy()
            length, cursor = length - removed, cursor - removed
            count = shift_marks(marks, count, cursor, -removed)
        out[t, :length] = tokens[:length]
        longest = max(longest, length)
    return longest


@entry
def canvases(ids: I64, kinds: I64, deltas: I64) -> tuple[I32, int]:
    """Return the canvas after every id (B, T, T), -1 beyond its end, and the longest length."""
    rows, steps = ids.shape
    out = np.full((rows, steps, steps), -1, np.int32)
    longest = 0
    for row in range(rows):
        longest = max(longest, follow(ids[row], kinds, deltas, out[row]))
    return out, longest
