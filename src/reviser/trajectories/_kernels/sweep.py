"""The fewest ids that make one short text of another, in one sweep from left to right.

Shapes: n tokens of the old text, m of the new one.
"""

from __future__ import annotations

import numpy as np

from reviser.trajectories._kernels.backward import fewest_moves, fewest_unbounded, path_capacity
from reviser.trajectories._kernels.diff import NEVER
from reviser.trajectories._kernels.jit import I32, I64, compiled, entry


@entry
def pack(cost: int, ids: int, actions: int) -> int:
    """Return a price as one number: first the cost of the diff, then ids, then actions.

    Packed prices add up and compare like tuples as long as each part stays below 2**20.
    """
    return (cost << 40) | (ids << 20) | actions


@compiled
def count_moves(start: int, goal: int, length: int, largest: int, path: I64) -> int:
    """Return how many moves `fewest_moves` writes, usually without searching for them."""
    # A shortest path on an endless canvas overshoots the goal by at most a third of the
    # distance (7 = 8 - 1 is the typical case). With that much space, the canvas's edges do not
    # matter.
    distance = abs(goal - start)
    beyond = length - goal if goal > start else goal
    if 3 * beyond >= distance:
        return fewest_unbounded(distance, largest)
    return fewest_moves(start, goal, length, largest, path)


@entry
def sweep(
    old: I32, new: I32, cursor: int, before: int, after: int, at_end: I64, one_by_one: I64,
    reach: int, budget: int, may_swap: bool, largest: int
) -> tuple[I64, int]:  # fmt: skip
    """Return steps (start, removed, new start, size, way) of the fewest ids, and how many ids.

    In cell (i, j), new[:j] is written, old[i:] is still to come and the cursor is between them. A
    step keeps some equal tokens and then turns `removed` tokens into `size` others: from their
    end (way 0), one by one (1) or by SWAP (2). `at_end` and `one_by_one` hold the prices. Only
    steps whose diff costs the least are taken, and none beyond `budget`. `before` and `after` are
    the tokens around; `cursor` counts from the first of `old`.
    """
    n, m = len(old), len(new)
    best = np.full((n + 1, m + 1), NEVER)
    back = np.zeros((n + 1, m + 1, 7), np.int64)
    path = np.empty(path_capacity(before + n + m + after, largest), np.int64)
    best[0, 0] = 0
    # Every step leads to a cell further down or right, so a cell is final when it is visited.
    for i in range(n + 1):
        for j in range(m + 1):
            if best[i, j] >= NEVER:
                continue
            at = cursor if i == 0 and j == 0 else i
            # Positions count tokens of `old`; on the canvas they are further right by `shift`.
            shift, length = before + j - i, before + j + n - i + after
            a, b = i, j
            # A step may come after none, one, two ... kept tokens. Its hunk may cost what the
            # budget leaves; a larger one could only belong to a worse diff.
            while True:
                left = budget - (best[i, j] >> 40) - reach
                for removed in range(min(n - a, left) + 1):
                    for size in range(min(m - b, left - removed) + 1):
                        if removed + size == 0:
                            continue
                        for way in range(3):
                            goal, price = a + removed, NEVER
                            if way == 0:
                                price = at_end[removed, size]
                            elif way == 1:
                                goal, price = a + 1, one_by_one[removed, size]
                            elif (
                                may_swap
                                and removed == 2
                                and size == 2
                                and old[a] == new[b + 1]
                                and old[a + 1] == new[b]
                            ):
                                price = pack(0, 1, 1)
                            if price >= NEVER:
                                continue
                            moves = count_moves(shift + at, shift + goal, length, largest, path)
                            price += best[i, j] + pack(reach + removed + size, moves, moves)
                            if price < best[a + removed, b + size]:
                                best[a + removed, b + size] = price
                                step = back[a + removed, b + size]
                                step[0], step[1], step[2] = a, removed, b
                                step[3], step[4], step[5], step[6] = size, way, i, j
                if a == n or b == m or old[a] != new[b]:
                    break
                a, b = a + 1, b + 1
    # Tokens that are kept after the last step cost nothing, so it may end before the last cell.
    a, b = n, m
    i, j, least = n, m, best[n, m]
    while a > 0 and b > 0 and old[a - 1] == new[b - 1]:
        a, b = a - 1, b - 1
        if best[a, b] < least:
            i, j, least = a, b, best[a, b]
    rows, count = np.empty((n + m + 1, 5), np.int64), 0
    while i > 0 or j > 0:
        rows[count] = back[i, j, :5]
        count += 1
        i, j = back[i, j, 5], back[i, j, 6]
    return rows[:count][::-1].copy(), (least >> 20) & 0xFFFFF
