"""Find the fewest moves between two cursor positions.

Deltas are signed powers of two. Plain Python without imports of ours, because two callers share
it: `actions.ActionVocab.split_move` calls it as it is, and the sampling loops in
`trajectories/_kernels.py` compile it with numba. Numba cannot call plain functions, so
`fewest_moves` calls none.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def path_capacity(length: int, largest: int) -> int:
    """Return how long a path `fewest_moves` may write on a canvas of `length`."""
    return length // largest + 64


def fewest_unbounded(distance: int, largest: int) -> int:
    """Return the fewest moves on an endless canvas, which bound those on any other from below.

    These are strides of the largest move, and for the rest the weight of its non-adjacent form,
    which is the shortest sum of signed powers of two.
    """
    strides, rest = abs(distance) // largest, abs(distance) % largest
    digits, weight = rest ^ (3 * rest), strides  # the ones mark the digits that are not zero
    while digits:
        digits &= digits - 1
        weight += 1
    return weight


def fewest_moves(
    start: int, goal: int, length: int, largest: int, path: npt.NDArray[np.int64]
) -> int:
    """Write into `path` the fewest deltas from start to goal, and return how many.

    Every position on the way stays within 0..length. The result is exact: the search is iterative
    deepening, cut by the bound that `fewest_unbounded` computes (inlined here).
    """
    count = 0
    while abs(goal - start) > largest:
        delta = largest if goal > start else -largest
        path[count] = delta
        start += delta
        count += 1
    distance = abs(goal - start)
    if distance == 0:
        return count
    if distance & (distance - 1) == 0:  # a power of two: one move
        path[count] = goal - start
        return count + 1
    choices = 0  # how many powers of two there are up to `largest`
    while (1 << choices) <= largest:
        choices += 1
    at = np.zeros(64, np.int64)  # position at each depth
    tried = np.zeros(64, np.int64)  # choices already tried at each depth
    sign = 1 if goal > start else -1
    budget = 1
    while True:  # ends: walking by +-1 is always legal
        depth = 0
        at[0], tried[0] = start, 0
        while depth >= 0:
            n = tried[depth]
            if n == 2 * choices:  # nothing left to try here: go back up
                depth -= 1
                continue
            tried[depth] = n + 1
            # The largest deltas first, and of each first the one that leads toward the goal.
            delta = (largest >> (n // 2)) * (sign if n % 2 == 0 else -sign)
            position = at[depth] + delta
            if position < 0 or position > length:
                continue
            rest = abs(goal - position)
            bound = rest // largest
            digits = (rest % largest) ^ (3 * (rest % largest))
            while digits:
                digits &= digits - 1
                bound += 1
            if bound > budget - depth - 1:
                continue
            path[count + depth] = delta
            if position == goal:
                return count + depth + 1
            depth += 1
            at[depth], tried[depth] = position, 0
        budget += 1
