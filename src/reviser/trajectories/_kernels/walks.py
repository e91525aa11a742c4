"""Algorithm 2: delete and move at random until nothing is left, and write the inverse.

The paper records the obfuscation in B and the deleted tokens in D, and inverts both afterwards.
Here each step's inverse is written at once, backward (see `backward`), so neither is kept.

The canvas is a gap buffer: tokens left of the gap are at the front of `buffer`, the rest at its
back, and the gap follows the cursor when a token is deleted.
"""

from __future__ import annotations

import numpy as np

from reviser.trajectories._kernels.backward import (
    count_powers,
    path_capacity,
    write_move,
    write_path,
)
from reviser.trajectories._kernels.jit import I32, I64, U64, compiled, inlined
from reviser.trajectories._kernels.layout import (
    DELETE,
    ID_STOP,
    MAX_ATTEMPTS,
    MAX_MOVE,
    MAX_STEPS,
    MERGE,
    START_LEFT,
)
from reviser.trajectories._kernels.philox import below, draw

OVER_BUDGET, FULL = -1, -2  # results of a walk that did not reach its end


@inlined
def draw_jump(rng: U64, left: int, right: int, largest: int) -> int:
    """Return a signed power of two, uniform among those that fit; there is always one."""
    forward = count_powers(right, largest)
    n = below(rng, forward + count_powers(left, largest))
    return 1 << n if n < forward else -(1 << (n - forward))


@inlined
def shift_gap(buffer: I32, gap: int, length: int, delta: int) -> None:
    """Move the gap by `delta` tokens; the other direction's loop runs zero times."""
    back = len(buffer) - (length - gap)
    for n in range(delta):
        buffer[gap + n] = buffer[back + n]
    for n in range(-delta):
        buffer[back - 1 - n] = buffer[gap - 1 - n]


@compiled
def walk(
    target: I32, row: I64, ids: I64, rng: U64, buffer: I32, path: I64, out: I32
) -> int:  # fmt: skip
    """Walk once, write the restoration into the end of `out` and return where it begins.

    Or return OVER_BUDGET or FULL, if the walk takes too many steps or `out` is too small.
    """
    length = len(target)
    buffer[:] = target
    cursor = 0 if row[START_LEFT] == 1 else below(rng, length + 1)
    # All tokens are left of the gap at first. `origin` is where the restoration has to be after
    # the moves that come next in it, or -1 at its very end, where moves lead nowhere and merging
    # drops them.
    gap, origin, steps, at = length, -1, 0, len(out) - 1
    out[at] = ids[ID_STOP]
    largest, merge, budget = ids[MAX_MOVE], row[MERGE] == 1, row[MAX_STEPS]
    # One step writes at most a path and a token, so with this much space none overruns `out`.
    reserve = len(path) + 1
    # The walk goes from the full text to the empty one, and the restoration from the empty one to
    # the full: each step writes its inverse in front of those of the steps before it.
    # A budget of -1 is none: `steps` never equals it.
    while length > 0 and steps != budget and at >= reserve:
        steps += 1
        # A delete at the left edge becomes a move: the validity masking of the paper.
        if draw(rng) >= row[DELETE] or cursor == 0:
            delta = draw_jump(rng, cursor, length - cursor, largest)
            cursor += delta
            if not merge:
                at = write_move(out, at, -delta, ids)  # the inverse of a move is the move back
        else:
            shift_gap(buffer, gap, length, cursor - gap)
            # Read forward: insert the token, then go from here to where the next action is.
            if merge and origin >= 0 and origin != cursor:
                at = write_path(out, at, cursor, origin, length, ids, path)
            at -= 1
            out[at] = buffer[cursor - 1]  # the inverse of a delete is an insertion
            length -= 1
            cursor -= 1
            gap = origin = cursor
    if length == 0:
        return at
    return FULL if at < reserve else OVER_BUDGET


@compiled
def obfuscate(target: I32, row: I64, ids: I64, rng: U64, out: I32) -> tuple[I32, int]:
    """Sample a restoration into the end of `out`, or of a larger array, and return where it begins.

    A walk over the step budget is discarded and sampled again; the index is OVER_BUDGET if all of
    MAX_ATTEMPTS were.
    """
    buffer = np.empty(len(target), np.int32)
    path = np.empty(path_capacity(len(target), ids[MAX_MOVE]), np.int64)
    first_draw, attempts = rng.copy(), 0
    while attempts < MAX_ATTEMPTS:
        at = walk(target, row, ids, rng, buffer, path, out)
        if at >= 0:
            return out, at
        if at == FULL:
            # The length of a walk is random. Take the same one again, with more space.
            rng[:] = first_draw
            out = np.empty(2 * len(out), np.int32)
        else:
            first_draw[:] = rng
            attempts += 1
    return out, OVER_BUDGET
