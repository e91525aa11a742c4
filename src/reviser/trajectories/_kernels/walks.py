"""Algorithm 2: delete and move at random until nothing is left, and write the inverse.

The paper records the obfuscation in B and the deleted tokens in D, and inverts both afterwards.
Here each step's inverse is written at once, backward (see `backward`), so neither is kept.

The canvas is a gap buffer: tokens left of the gap are at the front of `buffer`, the rest at its
back, and the gap follows the cursor when something changes. It holds token ids; a temporary token
t, which noise put there, is held as -1 - t.
"""

from __future__ import annotations

import numpy as np

from reviser.trajectories._kernels.backward import (
    MAX_SPELLING,
    count_powers,
    grow_front,
    path_capacity,
    write_inverse,
    write_move,
    write_path,
)
from reviser.trajectories._kernels.jit import I32, I64, U64, Bools, compiled, inlined
from reviser.trajectories._kernels.layout import (
    DELETE,
    ID_STOP,
    INSERT,
    MAX_ATTEMPTS,
    MAX_MOVE,
    MAX_NOISE_SPAN,
    MAX_STEPS,
    MERGE,
    MIN_NOISE_SPAN,
    MOVE,
    REPLACE,
    SPAN_INSERT,
    SPAN_MOVE,
    START_LEFT,
    SWAP,
)
from reviser.trajectories._kernels.philox import below, draw

# The state of a walk. ORIGIN is where the restoration has to be after the moves that come next in
# it, or -1 at its very end, where moves lead nowhere and merging drops them.
LENGTH, CURSOR, GAP, ORIGIN, AT, STEPS = range(6)


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


@inlined
def is_possible(operation: int, cursor: int, length: int, capacity: int) -> bool:
    """Return whether the canvas allows an operation; a move is always possible."""
    if operation == INSERT:
        return length < capacity
    if operation == SPAN_INSERT:
        return length + MAX_NOISE_SPAN <= capacity
    if operation == SWAP:
        return cursor >= 2
    if operation == SPAN_MOVE:
        return cursor >= 1 and length >= 2
    return cursor >= 1


@inlined
def choose(row: I64, x: int, cursor: int, length: int, capacity: int) -> int:
    """Return the operation that the draw `x` selects; an impossible one becomes a move.

    In the paper the only such case is Delete at the left edge, and this is its validity masking.
    """
    if x < row[DELETE]:
        return DELETE if cursor > 0 else MOVE
    if x >= row[SPAN_MOVE]:
        return MOVE
    operation = INSERT
    while x >= row[operation]:
        operation += 1
    return operation if is_possible(operation, cursor, length, capacity) else MOVE


@compiled
def walk(
    row: I64, ids: I64, rng: U64, state: I64, buffer: I32, out: I32, learned: Bools, path: I64
) -> int:  # fmt: skip
    """Delete and move until the canvas is empty, the budget is spent or `out` is nearly full.

    If noise comes up, return its operation at once: it is rare, and its code would slow this
    loop down.
    """
    length, cursor, gap, origin, at, steps = state
    largest, merge, budget = ids[MAX_MOVE], row[MERGE] == 1, row[MAX_STEPS]
    # One step writes at most a path and an inverse, so with this much space left none overruns
    # the front of `out`. A budget of -1 is none: `steps` never equals it.
    reserve = len(path) + MAX_SPELLING
    operation = MOVE
    while length > 0 and steps != budget and at >= reserve:
        steps += 1
        operation = choose(row, draw(rng), cursor, length, len(buffer))
        if operation != DELETE and operation != MOVE:
            break
        if operation == MOVE:
            delta = draw_jump(rng, cursor, length - cursor, largest)
            cursor += delta
            if not merge:
                at = write_move(out, at, -delta, ids)
        else:
            shift_gap(buffer, gap, length, cursor - gap)
            # Read forward: insert the token, then go from here to where the next action is.
            if merge and origin >= 0 and origin != cursor:
                at = write_path(out, at, cursor, origin, length, ids, path)
            token = buffer[cursor - 1]
            at -= 1
            out[at] = token if token >= 0 else -1 - token
            learned[at] = token >= 0
            length -= 1
            cursor -= 1
            gap = origin = cursor
    state[LENGTH], state[CURSOR], state[GAP] = length, cursor, gap
    state[ORIGIN], state[AT], state[STEPS] = origin, at, steps
    return operation


@compiled
def make_noise(
    operation: int, target: I32, row: I64, ids: I64, rng: U64, state: I64, buffer: I32, out: I32,
    learned: Bools, path: I64
) -> None:  # fmt: skip
    """Take one step with an operation of the richer set."""
    length, cursor, gap, origin, at, _ = state
    largest, merge = ids[MAX_MOVE], row[MERGE] == 1
    shift_gap(buffer, gap, length, cursor - gap)
    # What `write_inverse` needs (a, jump), how many tokens are drawn, and how many are added.
    a, jump, fresh, growth = 0, 0, 0, 0
    if operation == SWAP:
        buffer[cursor - 1], buffer[cursor - 2] = buffer[cursor - 2], buffer[cursor - 1]
    elif operation == SPAN_MOVE:
        a = 1 + below(rng, min(cursor, length - 1, MAX_NOISE_SPAN))
        jump = draw_jump(rng, cursor - a, length - cursor, largest)
        jump_span(buffer, cursor, length, a, jump)
    elif operation == REPLACE:
        a = int(buffer[cursor - 1])
        fresh = 1
    else:
        choices = MAX_NOISE_SPAN - MIN_NOISE_SPAN + 1
        a = 1 if operation == INSERT else MIN_NOISE_SPAN + below(rng, choices)
        fresh = growth = a
    first = cursor if growth > 0 else cursor - 1
    # `cursor - 1` is the token that a replacement overwrites; inserted ones follow the cursor.
    for i in range(fresh):
        buffer[first + i] = -1 - target[below(rng, len(target))]
    # A span moves the cursor with it to the right but not to the left. So its inverse departs
    # from where the span went and arrives where the cursor is then.
    arrival, departure = cursor + max(jump, 0), cursor + jump
    if merge:
        if origin >= 0 and origin != arrival:
            at = write_path(out, at, arrival, origin, length, ids, path)
    elif jump > 0:
        at = write_move(out, at, -jump, ids)
    at = write_inverse(out, learned, at, operation, a, jump, ids)
    if jump < 0 and not merge:
        at = write_move(out, at, jump, ids)
    state[LENGTH], state[AT] = length + growth, at
    state[CURSOR] = state[GAP] = arrival + growth
    state[ORIGIN] = departure + growth


@compiled
def jump_span(buffer: I32, cursor: int, length: int, size: int, jump: int) -> None:
    """Move the span left of the cursor; if it goes right, move the gap with it."""
    last = cursor + max(jump, 0)
    shift_gap(buffer, cursor, length, last - cursor)
    # The span and the tokens it passes are now next to each other: exchange them.
    part, lead = buffer[last - size - abs(jump) : last], (size if jump > 0 else -jump)
    part[:] = np.concatenate((part[lead:], part[:lead]))


@compiled
def start_walk(
    target: I32, row: I64, ids: I64, rng: U64, state: I64, buffer: I32, out: I32
) -> None:
    """Fill the canvas, put the cursor where the policy starts, and write STOP."""
    n, cursor = len(target), 0
    buffer[len(buffer) - n :] = target
    if row[START_LEFT] == 0:
        cursor = below(rng, n + 1)
        shift_gap(buffer, 0, n, cursor)
    out[-1] = ids[ID_STOP]
    state[LENGTH], state[CURSOR], state[GAP], state[ORIGIN] = n, cursor, cursor, -1
    state[AT], state[STEPS] = len(out) - 1, 0


@compiled
def obfuscate(
    target: I32, row: I64, ids: I64, rng: U64, out: I32, learned: Bools
) -> tuple[I32, Bools, int]:
    """Sample a restoration into the end of `out`, which may grow, and return where it begins.

    A walk over the step budget is discarded and sampled again; the index is -1 if all of
    MAX_ATTEMPTS were.
    """
    n = len(target)
    # Noise makes the canvas at most twice as long as the target, plus two spans.
    is_noisy = row[SPAN_MOVE] > row[DELETE]
    buffer = np.empty(2 * n + 2 * MAX_NOISE_SPAN if is_noisy else n, np.int32)
    path = np.empty(path_capacity(len(buffer), ids[MAX_MOVE]), np.int64)
    state = np.empty(6, np.int64)
    for _ in range(MAX_ATTEMPTS):
        start_walk(target, row, ids, rng, state, buffer, out)
        while state[LENGTH] > 0 and state[STEPS] != row[MAX_STEPS]:
            operation = walk(row, ids, rng, state, buffer, out, learned, path)
            if operation != DELETE and operation != MOVE:
                make_noise(operation, target, row, ids, rng, state, buffer, out, learned, path)
            elif state[AT] < len(path) + MAX_SPELLING:
                out, learned, state[AT] = grow_front(out, learned, state[AT])
        if state[LENGTH] == 0:
            return out, learned, state[AT]
        learned[:] = True  # what the discarded walk marked as temporary
    return out, learned, -1
