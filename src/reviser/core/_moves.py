"""The fewest moves between two cursor positions, where deltas are signed powers of two.

This is plain Python that numba can compile. `ActionVocab.split_move` calls `shortest_path`, and
the sampling loops in `trajectories/_kernels` compile the other functions. Compiled code cannot
call plain functions, so `fewest_moves` calls none.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt


def path_capacity(length: int, largest: int) -> int:
    """Return the size of a `path` that `fewest_moves` can fill on a canvas of `length`."""
    return length // largest + 64


def fewest_moves(
    start: int, goal: int, length: int, largest: int, path: npt.NDArray[np.int64]
) -> int:
    """Write the fewest deltas from start to goal into `path` and return their number.

    Every position on the way stays within 0..length. The result is exact: this is iterative
    deepening (IDA*), pruned by the number of moves on an endless canvas: strides of the largest
    move, and for the rest the digits of its non-adjacent form, which is the shortest way to write
    a number as a sum of signed powers of two.
    """
    count = 0
    # Far away, a stride toward the goal is always part of a shortest path.
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
            n = int(tried[depth])  # int: plain numbers are twice as fast where nothing is compiled
            if n == 2 * choices:  # nothing left to try here: go back up
                depth -= 1
                continue
            tried[depth] = n + 1
            # Try large deltas first, and for each size the direction toward the goal first.
            delta = (largest >> (n // 2)) * (sign if n % 2 == 0 else -sign)
            position = int(at[depth]) + delta
            if position < 0 or position > length:
                continue
            rest = abs(goal - position)
            bound = rest // largest
            digits = (rest % largest) ^ (3 * (rest % largest))  # set bits are the nonzero digits
            while digits:
                digits &= digits - 1
                bound += 1
            if bound > budget - depth - 1:  # too far for the moves that are left
                continue
            path[count + depth] = delta
            if position == goal:
                return count + depth + 1
            depth += 1
            at[depth], tried[depth] = position, 0
        budget += 1


@lru_cache(maxsize=4096)
def shortest_path(start: int, goal: int, length: int, largest: int) -> tuple[int, ...]:
    """Return the deltas that `fewest_moves` writes; an uncached search takes up to 2 ms."""
    path = np.empty(path_capacity(abs(goal - start), largest), np.int64)
    count = fewest_moves(start, goal, length, largest, path)
    return tuple(path[:count].tolist())
