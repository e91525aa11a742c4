"""The diff of two texts as a dynamic program, and the shortest search.

Shapes: n tokens of the old text, m of the new one.
"""

from __future__ import annotations

import numpy as np

from reviser.trajectories._kernels.jit import I32, I64, Bools, Bytes, compiled, entry, inlined

NEVER = 1 << 60
"""A cost that no path has; adding to it does not overflow."""

# How a hunk got to a cell takes two bits of the cell's byte; each flag takes one more.
_DELETE, _INSERT, _REPLACE = 1, 2, 3
_OPENED, _CLOSED = 4, 8  # this operation begins a hunk; the kept token here follows a hunk


@inlined
def ragged(old_bounds: Bools, i: int, new_bounds: Bools, j: int) -> int:
    """Return how many of two boundaries lie inside a word."""
    return int(not old_bounds[i]) + int(not new_bounds[j])


@entry
def align(
    old: I32, new: I32, old_bounds: Bools, new_bounds: Bools, reach: int, may_delete: bool,
    may_replace: bool
) -> tuple[I64, bool]:  # fmt: skip
    """Return the hunks of least cost as rows (start, end, new start, new end), if there are any.

    This is Gotoh's recurrence for affine gaps, with two layers: `kept`, where the last token is
    in both texts, and `inside` a hunk. Opening a hunk costs `reach`, each token 1. The rows above
    are all that is needed for costs, and one byte per cell for the way back.
    """
    n, m = len(old), len(new)
    # Costs count in units of 2**20, so that ragged bounds, 1 each, only break ties. A hunk has at
    # most four, so it would take 2**18 hunks for them to add up to a unit.
    one = np.int64(1) << 20
    back = np.zeros((n + 1, m + 1), np.uint8)
    kept, inside = np.full(m + 1, NEVER), np.full(m + 1, NEVER)
    above_kept, above_inside = np.full(m + 1, NEVER), np.full(m + 1, NEVER)
    for i in range(n + 1):
        for j in range(m + 1):
            way, best, match = 0, NEVER, NEVER
            # Into `inside` from above: old[i - 1] is removed, as the first of a hunk or not.
            if i > 0 and may_delete:
                from_kept = above_kept[j] + reach * one + ragged(old_bounds, i - 1, new_bounds, j)
                opens = from_kept < above_inside[j]
                best = (from_kept if opens else above_inside[j]) + one
                way = _DELETE | (_OPENED if opens else 0)
            # From the left: new[j - 1] is inserted. On a tie a deletion comes first.
            if j > 0:
                from_kept = kept[j - 1] + reach * one + ragged(old_bounds, i, new_bounds, j - 1)
                opens = from_kept < inside[j - 1]
                cost = (from_kept if opens else inside[j - 1]) + one
                if cost < best:
                    best, way = cost, _INSERT | (_OPENED if opens else 0)
            if i > 0 and j > 0:
                bounds = ragged(old_bounds, i - 1, new_bounds, j - 1)
                if may_replace:  # costs as much as a deletion and an insertion
                    from_kept = above_kept[j - 1] + reach * one + bounds
                    opens = from_kept < above_inside[j - 1]
                    cost = (from_kept if opens else above_inside[j - 1]) + 2 * one
                    if cost < best:
                        best, way = cost, _REPLACE | (_OPENED if opens else 0)
                # Into `kept`, along the diagonal. A hunk that ends here pays for its ragged end.
                if old[i - 1] == new[j - 1]:
                    match = above_kept[j - 1]
                    if above_inside[j - 1] + bounds < match:
                        match = above_inside[j - 1] + bounds
                        way |= _CLOSED
            elif i == 0 and j == 0:
                match = 0
            # Capped, so that the costs of unreachable cells do not grow from row to row.
            kept[j], inside[j] = min(match, NEVER), min(best, NEVER)
            back[i, j] = way
        above_kept, kept = kept, above_kept
        above_inside, inside = inside, above_inside
    last = above_inside[m] + ragged(old_bounds, n, new_bounds, m)
    if min(last, above_kept[m]) >= NEVER:
        return np.empty((0, 4), np.int64), False
    return trace_hunks(back, last < above_kept[m]), True


@compiled
def trace_hunks(back: Bytes, is_inside: bool) -> I64:
    """Return the hunks on the way back from the last cell, in order."""
    i, j = back.shape[0] - 1, back.shape[1] - 1
    rows, count = np.empty((min(i, j) + 1, 4), np.int64), 0
    end, new_end = i, j
    while i > 0 or j > 0:
        way = back[i, j]
        if not is_inside:
            i, j = i - 1, j - 1
            if way & _CLOSED:
                is_inside, end, new_end = True, i, j
            continue
        # An insertion consumes no old token, a deletion no new one, a replacement one of each.
        step = way & 3
        i -= step != _INSERT
        j -= step != _DELETE
        if way & _OPENED:
            rows[count, 0], rows[count, 1], rows[count, 2], rows[count, 3] = i, end, j, new_end
            count += 1
            is_inside = False
    return rows[:count][::-1].copy()


@entry
def shortest_search(tokens: I32, cursor: int, goal: int) -> int:
    """Return how many tokens before `goal` are needed to find it first from the cursor.

    The time is linear in the distance (this is the Z-function of the tokens read backwards).

    >>> [shortest_search(np.array([5, 6, 7, 6, 8], np.int32), start, 4) for start in (0, 2)]
    [2, 1]
    """
    distance = goal - cursor
    shared = np.zeros(distance, np.int64)  # tokens shared with what ends so many tokens earlier
    longest = left = right = 0
    for back in range(1, distance):
        # What is known from the match that reaches furthest; only what lies beyond is compared.
        same = min(right - back, shared[back - left]) if back < right else 0
        while back + same < distance and tokens[goal - 1 - same] == tokens[goal - 1 - back - same]:
            same += 1
        if back + same > right:
            left, right = back, back + same
        shared[back] = same
        # As long as a suffix also occurs earlier, a search for it would stop there.
        longest = max(longest, same)
    return int(longest) + 1
