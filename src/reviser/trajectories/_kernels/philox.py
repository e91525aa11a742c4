"""Random numbers: Philox4x32-10 (Salmon et al., 2011), a counter-based generator.

The key is the seed and the counter is (draw, epoch, index). So an example is the same in every
process that computes it, and no state needs to be stored.
"""

from __future__ import annotations

import numpy as np

from reviser.trajectories._kernels.jit import U64, compiled, inlined

# All words have 32 bits but are kept in 64, so that a product of two never overflows.
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)  # the multipliers of the paper
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)  # the golden ratio and sqrt(3) - 1

# A generator is one array: key (2 words), counter (4), how many numbers are used, and the numbers
# of a few blocks. Making several blocks at once keeps the processor's multipliers busy.
_USED, _OUT, _BLOCKS = 6, 7, 16
RNG_SIZE = _OUT + 4 * _BLOCKS


@compiled
def philox(rng: U64) -> None:
    """Make the next numbers and advance the counter."""
    key0, key1, draws, epoch, low, high = rng[0], rng[1], rng[2], rng[3], rng[4], rng[5]
    for block in range(_BLOCKS):
        k0, k1 = key0, key1
        c0, c1, c2, c3 = (draws + np.uint64(block)) & _LOW, epoch, low, high
        for _ in range(10):
            p0, p1 = _M0 * c0, _M1 * c2
            c0, c1, c2, c3 = (p1 >> _32) ^ c1 ^ k0, p1 & _LOW, (p0 >> _32) ^ c3 ^ k1, p0 & _LOW
            k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
        first = _OUT + 4 * block
        rng[first], rng[first + 1], rng[first + 2], rng[first + 3] = c0, c1, c2, c3
    # Only the first word counts: after 2**34 numbers an example would repeat itself.
    rng[2] = (draws + np.uint64(_BLOCKS)) & _LOW
    rng[_USED] = np.uint64(0)


@compiled
def start_rng(rng: U64, seed: np.uint64, epoch: np.uint64, index: np.uint64) -> None:
    """Point a generator at the first draw of an example."""
    rng[0], rng[1] = seed & _LOW, seed >> _32
    rng[2], rng[3] = np.uint64(0), epoch & _LOW
    rng[4], rng[5] = index & _LOW, index >> _32
    rng[_USED] = np.uint64(4 * _BLOCKS)  # all used up: the first draw makes new ones


@inlined
def draw(rng: U64) -> np.int64:
    """Return a number below 2**32."""
    used = np.int64(rng[_USED])
    if used == 4 * _BLOCKS:
        philox(rng)
        used = np.int64(0)
    rng[_USED] = np.uint64(used + 1)
    return np.int64(rng[_OUT + used])


@inlined
def below(rng: U64, bound: int) -> int:
    """Return a number below `bound`, by scaling: biased by less than bound / 2**32."""
    return int((draw(rng) * bound) >> 32)
