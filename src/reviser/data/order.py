"""The order of examples and their random numbers, as pure functions of seeds and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
Hash = npt.NDArray[np.uint64]

HELD_OUT, ORDER, PREFIX, SHUFFLE, DIGEST, VISITED, DRAFT, TURN, ROLLOUT = range(9)
"""The purposes of hashes. No two purposes share random numbers."""


def permute(offsets: IntArray, size: int, *, seed: int, epoch: int) -> IntArray:
    """Apply a seeded permutation of 0..size-1 to some of its members, without storing it.

    The permutation is a Feistel network over the next power of four. A value that falls outside
    0..size-1 is permuted again until it falls inside (cycle walking).
    """
    half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    low = np.uint64((1 << int(half)) - 1)
    result = np.array(offsets, np.uint64)
    outside = np.ones(len(result), bool)
    while outside.any():
        left, right = result[outside] >> half, result[outside] & low
        for turn in range(6):
            left, right = right, left ^ (hashed(seed, ORDER, right, epoch, turn) & low)
        result[outside] = (left << half) | right
        outside = result >= size
    return result.astype(np.int64)


def hashed(seed: int, use: int, values: npt.NDArray[Any], *more: int) -> Hash:
    """Return random bits that depend on all arguments: SplitMix64's finalizer, once per key."""
    state = np.asarray(values).astype(np.uint64)
    for key in (seed, use, *more):
        state = state + np.uint64((key * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % (1 << 64))
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return state
