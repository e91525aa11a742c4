"""The shortest search that takes the cursor to a goal.

This is plain Python that numba can compile. `trajectories/_kernels` compiles it for training;
`writing` calls it uncompiled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def shortest_search(tokens: Sequence[int] | npt.NDArray[np.int32], cursor: int, goal: int) -> int:
    """Return how many tokens before `goal` are needed to find it first from the cursor.

    The time is linear in the distance (this is the Z-function of the tokens read backwards).

    >>> shortest_search([5, 6, 7, 6, 8], 0, 4), shortest_search([5, 6, 7, 6, 8], 2, 4)
    (2, 1)
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
