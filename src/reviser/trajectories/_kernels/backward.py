"""Writing a restoration backward, from the end of an array toward its front.

An obfuscation is undone from its last step to its first. So while it is sampled, the inverse of
each step is written before what is there already, and `at` is the index where the restoration so
far begins. Every function here takes `at` and returns the new one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reviser.core import _moves
from reviser.core.layout import MAX_DELTA
from reviser.trajectories._kernels.jit import I32, I64, compiled, inlined
from reviser.trajectories._kernels.layout import ID_FIRST_MOVE, MAX_MOVE

# A table, since numba has no int.bit_length. The exponent of a power of two is one less.
_BIT_LENGTHS = np.array([n.bit_length() for n in range(MAX_DELTA + 1)], np.uint8)

# Plain Python in core, where it is called now and then; here it runs for every merged move.
fewest_moves: Any = compiled(_moves.fewest_moves)
path_capacity: Any = compiled(_moves.path_capacity)


@inlined
def count_powers(limit: int, largest: int) -> int:
    """Return how many powers of two are at most `limit` and `largest`."""
    return int(_BIT_LENGTHS[min(limit, largest)])


@inlined
def write_move(out: I32, at: int, delta: int, ids: I64) -> int:
    """Write one move."""
    exponent = int(_BIT_LENGTHS[abs(delta)]) - 1
    out[at - 1] = ids[ID_FIRST_MOVE] + 2 * exponent + (1 if delta < 0 else 0)
    return at - 1


@compiled
def write_path(out: I32, at: int, start: int, goal: int, length: int, ids: I64, path: I64) -> int:
    """Write the fewest moves from one boundary to another."""
    for n in range(fewest_moves(start, goal, length, ids[MAX_MOVE], path) - 1, -1, -1):
        at = write_move(out, at, path[n], ids)
    return at
