"""Writing a restoration backward, from the end of an array toward its front.

An obfuscation is undone from its last step to its first. So while it is sampled, the inverse of
each step is written before what is there already, and `at` is the index where the restoration so
far begins. Every function here takes `at` and returns the new one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reviser.core import _moves
from reviser.core.layout import LARGEST_MOVE
from reviser.trajectories._kernels.jit import I32, I64, Bools, compiled, inlined
from reviser.trajectories._kernels.layout import (
    ID_DELETE,
    ID_END,
    ID_FIRST_MOVE,
    ID_REPLACE,
    ID_SPAN_DELETE,
    ID_SPAN_MOVE,
    ID_SWAP,
    INSERT,
    MAX_MOVE,
    REPLACE,
    SPAN_MOVE,
    SWAP,
)

MAX_SPELLING = 16
"""A bound on the ids of the inverse of one step of noise, even with +-1 as the only digits."""

# A table, since numba has no int.bit_length. The exponent of a power of two is one less.
_BIT_LENGTHS = np.array([n.bit_length() for n in range(LARGEST_MOVE + 1)], np.uint8)

# Plain Python in core, where it is called now and then; here it runs for every merged move.
fewest_unbounded: Any = compiled(_moves.fewest_unbounded)
fewest_moves: Any = compiled(_moves.fewest_moves)
path_capacity: Any = compiled(_moves.path_capacity)


@compiled
def grow_front(out: I32, learned: Bools, at: int) -> tuple[I32, Bools, int]:
    """Return arrays of twice the size, with the old contents at the end."""
    size = len(out)
    return (
        np.concatenate((np.empty_like(out), out)),
        np.concatenate((np.ones_like(learned), learned)),
        at + size,
    )


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


@compiled
def write_number(out: I32, at: int, value: int, ids: I64) -> int:
    """Write a number as `ActionVocab.spell` does: binary digits, largest first, then END."""
    at -= 1
    out[at] = ids[ID_END]
    # Backward means smallest first. Once the largest digit is reached, it repeats.
    sign, rest, digit = (-1 if value < 0 else 1), abs(value), 1
    while rest > 0:
        if digit == ids[MAX_MOVE] or rest & digit:
            at = write_move(out, at, sign * digit, ids)
            rest -= digit
        if digit < ids[MAX_MOVE]:
            digit <<= 1
    return at


@compiled
def write_inverse(
    out: I32, learned: Bools, at: int, operation: int, a: int, jump: int, ids: I64
) -> int:
    """Write what undoes a step of noise.

    `a` is the size of a span, or the token that was replaced, as a cell of the canvas: a
    temporary token t is held as -1 - t, and writing it back has no loss.
    """
    at -= 1
    # An inserted token is at the cursor's left, where DELETE takes it. SWAP is its own inverse.
    if operation == INSERT:
        out[at] = ids[ID_DELETE]
    elif operation == SWAP:
        out[at] = ids[ID_SWAP]
    # Backward means arguments before their operator: a token here, numbers below.
    elif operation == REPLACE:
        out[at] = a if a >= 0 else -1 - a
        out[at - 1] = ids[ID_REPLACE]
        learned[at] = learned[at - 1] = a >= 0
        at -= 1
    else:
        at += 1
        if operation == SPAN_MOVE:
            at = write_number(out, at, -jump, ids)
        at = write_number(out, at, a, ids) - 1
        out[at] = ids[ID_SPAN_MOVE] if operation == SPAN_MOVE else ids[ID_SPAN_DELETE]
    return at
