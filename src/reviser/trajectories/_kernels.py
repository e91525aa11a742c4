"""The sampling loops, compiled by numba; nothing here is public.

Plain loops over integers: a target goes in as token ids, its restoration comes out as action ids.
Random numbers come from Philox4x32-10, a counter-based generator: the key is the seed and the
counter is (draw, epoch, index), so an example is the same whoever computes it.

`policy.py` compiles policies into the rows read here; `tests/support/naive_policy.py` is a readable
reference. At the end are the two dynamic programs of `alignment.py`, which draw nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from reviser.core import _moves
from reviser.core.actions import MOST_MOVE
from reviser.trajectories.policy import MEAN_SCALE, NOISE_SPAN, WHOLE

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U64 = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

# Only what Python calls is cached: a cached function is linked, not inlined, into its callers.
entry: Any = njit(cache=True, nogil=True)
compiled: Any = njit(nogil=True)
inlined: Any = njit(nogil=True, forceinline=True)  # too small to pay for a call

# What a row of `rows` describes; appending is a single span.
OBFUSCATE, SPANS = 0, 1

# Columns of a policy's row. Probabilities are thresholds out of WHOLE. The operations are tried
# in the order of their columns, each threshold holding the sum so far.
(KIND, WEIGHT, DELETE, INSERT, REPLACE, SWAP, SPAN_INSERT, SPAN_MOVE, START_LEFT, MERGE,
 MAX_STEPS, MEAN_SPAN, UNIT, LATE, COLUMNS) = range(15)  # fmt: skip
MOVE = SPAN_MOVE + 1  # an operation, not a column: what is left when no threshold is met

# Entries of `ids`, the part of an ActionVocab that restorations are written with.
(ID_STOP, ID_FIRST_MOVE, ID_DELETE, ID_REPLACE, ID_SWAP, ID_SPAN_DELETE, ID_SPAN_MOVE, ID_END,
 MAX_MOVE, ID_BACK, ID_MARK, IDS) = range(12)  # fmt: skip

MAX_ATTEMPTS = 1000
LEAST_SPAN, MOST_SPAN = NOISE_SPAN
MAX_SPELLING = 16  # more ids than any inverse takes, even with +-1 as the only digits
_POWERS = np.array([n.bit_length() for n in range(MOST_MOVE + 1)], np.uint8)

# -- random numbers ---------------------------------------------------------------------------

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
# A generator is one array: key (2), counter (4), how many numbers are used, then the numbers of
# the last few blocks: made together, they keep the multipliers busy.
_USED, _OUT, _BLOCKS = 6, 7, 16
RNG_SIZE = _OUT + 4 * _BLOCKS


@compiled
def philox(rng: U64) -> None:
    """Make the next numbers and count up."""
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
    rng[2] = (draws + np.uint64(_BLOCKS)) & _LOW
    rng[_USED] = np.uint64(0)


@compiled
def start_rng(rng: U64, seed: np.uint64, epoch: np.uint64, index: np.uint64) -> None:
    """Point a generator at the first draw of an example."""
    rng[0], rng[1] = seed & _LOW, seed >> _32
    rng[2], rng[3] = np.uint64(0), epoch & _LOW
    rng[4], rng[5] = index & _LOW, index >> _32
    rng[_USED] = np.uint64(4 * _BLOCKS)


@inlined
def draw(rng: U64) -> np.int64:
    """A number below 2**32."""
    used = np.int64(rng[_USED])
    if used == 4 * _BLOCKS:
        philox(rng)
        used = np.int64(0)
    rng[_USED] = np.uint64(used + 1)
    return np.int64(rng[_OUT + used])


@inlined
def below(rng: U64, bound: int) -> int:
    """A number below `bound`, by scaling: biased by less than bound / 2**32."""
    return int((draw(rng) * bound) >> 32)


# -- moves ------------------------------------------------------------------------------------


@inlined
def count_powers(limit: int, largest: int) -> int:
    """How many powers of two are at most `limit` and `largest`."""
    return int(_POWERS[min(limit, largest)])


# These are plain Python in core, where a vocabulary calls them now and then; the loops here call
# them for every sampled move, so they are compiled.
fewest_unbounded: Any = compiled(_moves.fewest_unbounded)
fewest_moves: Any = entry(_moves.fewest_moves)
path_capacity: Any = entry(_moves.path_capacity)


# -- Algorithm 2 ------------------------------------------------------------------------------
# The restoration is the obfuscation inverted and reversed. So each step's inverse is written at
# once, from the end of `out` backwards; `at` is where the restoration so far begins.
#
# The canvas is a gap buffer: what is left of the gap lies at the front, the rest at the back. It
# holds token ids; a temporary token t is held as -1 - t.


@inlined
def draw_jump(rng: U64, left: int, right: int, largest: int) -> int:
    """A signed power of two, uniform among those that fit; there is always one."""
    forward = count_powers(right, largest)
    n = below(rng, forward + count_powers(left, largest))
    return 1 << n if n < forward else -(1 << (n - forward))


@inlined
def shift_gap(buffer: I32, gap: int, length: int, delta: int) -> None:
    back = len(buffer) - (length - gap)
    for n in range(delta):
        buffer[gap + n] = buffer[back + n]
    for n in range(-delta):
        buffer[back - 1 - n] = buffer[gap - 1 - n]


@inlined
def is_possible(operation: int, cursor: int, length: int, capacity: int) -> bool:
    """Whether the canvas allows an operation; a move is always possible."""
    if operation == INSERT:
        return length < capacity
    if operation == SPAN_INSERT:
        return length + MOST_SPAN <= capacity
    if operation == SWAP:
        return cursor >= 2
    if operation == SPAN_MOVE:
        return cursor >= 1 and length >= 2
    return cursor >= 1


@inlined
def choose(row: I64, x: int, cursor: int, length: int, capacity: int) -> int:
    """The operation that `x` picks; what the canvas does not allow becomes a move.

    For Delete at the left edge, the only such case in the paper, that is its validity masking.
    """
    if x < row[DELETE]:
        return DELETE if cursor > 0 else MOVE
    if x >= row[SPAN_MOVE]:
        return MOVE
    operation = INSERT
    while x >= row[operation]:
        operation += 1
    return operation if is_possible(operation, cursor, length, capacity) else MOVE


# The state of a walk. `origin` is where the restoration has to be after the moves that come next
# in it, or -1 at its very end, where moves lead nowhere and merging drops them.
LENGTH, CURSOR, GAP, ORIGIN, AT, STEPS = range(6)


@compiled
def walk(
    row: I64, ids: I64, rng: U64, state: I64, buffer: I32, out: I32, learn: Bools, path: I64
) -> int:  # fmt: skip
    """Delete and move until the canvas is empty, the budget is spent or `out` is nearly full.

    If noise comes up, return its operation at once: it is rare, and its code would slow this
    loop.
    """
    length, cursor, gap, origin, at, steps = state
    largest, merge, budget = ids[MAX_MOVE], row[MERGE] == 1, row[MAX_STEPS]
    room = len(path) + MAX_SPELLING
    operation = MOVE
    while length > 0 and steps != budget and at >= room:
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
            if merge and origin >= 0 and origin != cursor:
                at = write_path(out, at, cursor, origin, length, ids, path)
            token = buffer[cursor - 1]
            at -= 1
            out[at] = token if token >= 0 else -1 - token
            learn[at] = token >= 0
            length -= 1
            cursor -= 1
            gap = origin = cursor
    state[LENGTH], state[CURSOR], state[GAP] = length, cursor, gap
    state[ORIGIN], state[AT], state[STEPS] = origin, at, steps
    return operation


@compiled
def make_noise(
    operation: int, target: I32, row: I64, ids: I64, rng: U64, state: I64, buffer: I32, out: I32,
    learn: Bools, path: I64
) -> None:  # fmt: skip
    """One step with an operation of the richer set."""
    length, cursor, gap, origin, at, _ = state
    largest, merge = ids[MAX_MOVE], row[MERGE] == 1
    shift_gap(buffer, gap, length, cursor - gap)
    a, jump, fresh, grows = 0, 0, 0, 0
    if operation == SWAP:
        buffer[cursor - 1], buffer[cursor - 2] = buffer[cursor - 2], buffer[cursor - 1]
    elif operation == SPAN_MOVE:
        a = 1 + below(rng, min(cursor, length - 1, MOST_SPAN))
        jump = draw_jump(rng, cursor - a, length - cursor, largest)
        jump_span(buffer, cursor, length, a, jump)
    elif operation == REPLACE:
        a = int(buffer[cursor - 1])
        fresh = 1
    else:
        a = 1 if operation == INSERT else LEAST_SPAN + below(rng, MOST_SPAN - LEAST_SPAN + 1)
        fresh = grows = a
    first = cursor if grows > 0 else cursor - 1
    for i in range(fresh):
        buffer[first + i] = -1 - target[below(rng, len(target))]
    # A span takes the cursor along to the right and leaves it behind to the left, so its inverse
    # departs from where the span went and arrives where the cursor is then.
    arrival, departure = cursor + max(jump, 0), cursor + jump
    if merge:
        if origin >= 0 and origin != arrival:
            at = write_path(out, at, arrival, origin, length, ids, path)
    elif jump > 0:
        at = write_move(out, at, -jump, ids)
    at = write_inverse(out, learn, at, operation, a, jump, ids)
    if jump < 0 and not merge:
        at = write_move(out, at, jump, ids)
    state[LENGTH], state[AT] = length + grows, at
    state[CURSOR] = state[GAP] = arrival + grows
    state[ORIGIN] = departure + grows


@compiled
def jump_span(buffer: I32, cursor: int, length: int, size: int, jump: int) -> None:
    """Move the span left of the cursor, and to the right the gap with it."""
    last = cursor + max(jump, 0)
    shift_gap(buffer, cursor, length, last - cursor)
    part, lead = buffer[last - size - abs(jump) : last], (size if jump > 0 else -jump)
    part[:] = np.concatenate((part[lead:], part[:lead]))


@compiled
def obfuscate(
    target: I32, row: I64, ids: I64, rng: U64, out: I32, learn: Bools
) -> tuple[I32, Bools, int]:
    """Algorithm 2: the restoration fills the end of `out` (grown if need be), from the result on.

    What exceeds the step budget is discarded and sampled again; -1 if that never ends.
    """
    n = len(target)
    noisy = row[SPAN_MOVE] > row[DELETE]
    buffer = np.empty(2 * n + 2 * MOST_SPAN if noisy else n, np.int32)
    path = np.empty(path_capacity(len(buffer), ids[MAX_MOVE]), np.int64)
    state = np.empty(6, np.int64)
    for _ in range(MAX_ATTEMPTS):
        start_walk(target, row, ids, rng, state, buffer, out)
        while state[LENGTH] > 0 and state[STEPS] != row[MAX_STEPS]:
            operation = walk(row, ids, rng, state, buffer, out, learn, path)
            if operation != DELETE and operation != MOVE:
                make_noise(operation, target, row, ids, rng, state, buffer, out, learn, path)
            elif state[AT] < len(path) + MAX_SPELLING:
                out, learn, state[AT] = grow_front(out, learn, state[AT])
        if state[LENGTH] == 0:
            return out, learn, state[AT]
        learn[:] = True
    return out, learn, -1


@compiled
def start_walk(
    target: I32, row: I64, ids: I64, rng: U64, state: I64, buffer: I32, out: I32
) -> None:
    """A full canvas, the cursor where the policy starts it, and STOP at the end of `out`."""
    n, cursor = len(target), 0
    buffer[len(buffer) - n :] = target
    if row[START_LEFT] == 0:
        cursor = below(rng, n + 1)
        shift_gap(buffer, 0, n, cursor)
    out[-1] = ids[ID_STOP]
    state[LENGTH], state[CURSOR], state[GAP], state[ORIGIN] = n, cursor, cursor, -1
    state[AT], state[STEPS] = len(out) - 1, 0


# -- writing backwards ------------------------------------------------------------------------


@compiled
def grow_front(out: I32, learn: Bools, at: int) -> tuple[I32, Bools, int]:
    """Twice the room, the old contents at the end."""
    size = len(out)
    return (
        np.concatenate((np.empty_like(out), out)),
        np.concatenate((np.ones_like(learn), learn)),
        at + size,
    )


@inlined
def move_id(delta: int, ids: I64) -> int:
    exponent = int(_POWERS[abs(delta)]) - 1
    return ids[ID_FIRST_MOVE] + 2 * exponent + (1 if delta < 0 else 0)


@inlined
def write_move(out: I32, at: int, delta: int, ids: I64) -> int:
    out[at - 1] = move_id(delta, ids)
    return at - 1


@compiled
def write_path(out: I32, at: int, start: int, goal: int, length: int, ids: I64, path: I64) -> int:
    """The fewest moves from one boundary to another."""
    for n in range(fewest_moves(start, goal, length, ids[MAX_MOVE], path) - 1, -1, -1):
        at = write_move(out, at, path[n], ids)
    return at


@compiled
def write_number(out: I32, at: int, value: int, ids: I64) -> int:
    """A number as ActionVocab.spell writes it: binary digits, largest first, then END."""
    at -= 1
    out[at] = ids[ID_END]
    sign, rest, digit = (-1 if value < 0 else 1), abs(value), 1
    while rest > 0:
        if digit == ids[MAX_MOVE] or rest & digit:
            at = write_move(out, at, sign * digit, ids)
            rest -= digit
        if digit < ids[MAX_MOVE]:
            digit <<= 1
    return at


@compiled
def write_inverse(out: I32, learn: Bools, at: int, operation: int, a: int, b: int, ids: I64) -> int:
    """What undoes a step of noise. Bringing back a temporary token bears no loss."""
    at -= 1
    if operation == INSERT:
        out[at] = ids[ID_DELETE]
    elif operation == SWAP:
        out[at] = ids[ID_SWAP]
    elif operation == REPLACE:
        out[at] = a if a >= 0 else -1 - a
        out[at - 1] = ids[ID_REPLACE]
        learn[at] = learn[at - 1] = a >= 0
        at -= 1
    else:
        at += 1
        if operation == SPAN_MOVE:
            at = write_number(out, at, -b, ids)
        at = write_number(out, at, a, ids) - 1
        out[at] = ids[ID_SPAN_MOVE] if operation == SPAN_MOVE else ids[ID_SPAN_DELETE]
    return at


# -- spans ------------------------------------------------------------------------------------


@compiled
def cut_spans(units: Bytes, row: I64, rng: U64) -> I64:
    """Where spans start, and the end: cuts at unit starts, to a mean length."""
    n = len(units)
    candidates = 0
    for i in range(1, n):
        if units[i] & row[UNIT]:
            candidates += 1
    threshold = cut_threshold(n, candidates, row[MEAN_SPAN])
    cuts, count = np.zeros(candidates + 2, np.int64), 1
    for i in range(1, n):
        if units[i] & row[UNIT] and draw(rng) < threshold:
            cuts[count] = i
            count += 1
    cuts[count] = n
    return cuts[: count + 1]


@entry
def cut_threshold(n: int, candidates: int, mean: int) -> int:
    """The chance of a cut at each candidate, out of WHOLE."""
    if candidates == 0:
        return 0
    wanted = n * MEAN_SCALE / mean - 1.0  # spans wanted, less the one there always is
    return int(min(max(wanted / candidates, 0.0), 1.0) * WHOLE)


@compiled
def draw_order(count: int, late: int, rng: U64) -> I64:
    """A random permutation (Fisher-Yates), or with `late` the numbers in order but for so many."""
    order = np.arange(count)
    if late >= 0:
        return put_off(order, min(late, max(count - 2, 0)), rng)
    for i in range(count - 1, 0, -1):
        j = below(rng, i + 1)
        order[i], order[j] = order[j], order[i]
    return order


@compiled
def put_off(order: I64, late: int, rng: U64) -> I64:
    """Draw some numbers, neither the first nor the last, and put them last, in order."""
    inner = order[1:-1]
    for i in range(late):
        j = i + below(rng, len(inner) - i)
        inner[i], inner[j] = inner[j], inner[i]
    drawn = np.sort(inner[:late])
    inner[late:].sort()
    count = len(order)
    order[1 : count - late] = order[1 + late :].copy()
    order[count - late :] = drawn
    return order


@compiled
def write_spans(target: I32, cuts: I64, order: I64, ids: I64, out: I32) -> int:
    """Spans in the order given, each left to right, with the fewest moves between them.

    Written backwards too: the last span first, taken out of a full canvas.
    """
    spans, at = len(order), len(out) - 1
    there = np.zeros(spans + 1, np.int64)  # Fenwick tree: tokens on the canvas, by span
    for span in range(spans):
        there[span + 1] += cuts[span + 1] - cuts[span]
        parent = span + 1 + ((span + 1) & -(span + 1))
        if parent <= spans:
            there[parent] += there[span + 1]
    path = np.empty(path_capacity(len(target), ids[MAX_MOVE]), np.int64)
    out[at] = ids[ID_STOP]
    length, origin = len(target), -1
    for n in range(spans - 1, -1, -1):
        span = order[n]
        size = cuts[span + 1] - cuts[span]
        place, node = 0, span
        while node > 0:
            place += there[node]
            node &= node - 1
        if origin >= 0 and origin != place + size:
            at = write_path(out, at, place + size, origin, length, ids, path)
        at -= size
        out[at : at + size] = target[cuts[span] : cuts[span + 1]]
        length, origin, node = length - size, place, span + 1
        while node <= spans:
            there[node] -= size
            node += node & -node
    return at


@compiled
def write_marked(target: I32, cuts: I64, order: I64, ids: I64, out: I32) -> int:
    """Spans left to right, with a mark where late ones are left out; then back to each mark.

    Late spans that follow each other share a mark. `order` has them behind the last span.
    """
    spans = len(order)
    is_late = np.zeros(spans, np.bool_)
    n = spans - 1
    while order[n] != spans - 1:
        is_late[order[n]] = True
        n -= 1
    marks = 0
    for span in range(1, spans):
        marks += is_late[span] and not is_late[span - 1]
    at = place = len(out) - len(target) - 2 * marks - 1
    for late in (False, True):
        for span in range(spans):
            if is_late[span] and not is_late[span - 1]:
                out[place] = ids[ID_BACK] if late else ids[ID_MARK]
                place += 1
            if is_late[span] == late:
                size = cuts[span + 1] - cuts[span]
                out[place : place + size] = target[cuts[span] : cuts[span + 1]]
                place += size
    out[place] = ids[ID_STOP]
    return at


# -- a batch ----------------------------------------------------------------------------------


@entry
def restorations(
    tokens: I32,
    offsets: I64,
    units: Bytes,
    rows: I64,
    ids: I64,
    seed: np.uint64,
    epoch: np.uint64,
    indices: U64,
) -> tuple[I32, Bools, I64]:
    """Restorations of many targets: ids, which bear loss, where each ends (-1: not found)."""
    results = np.empty(2 * len(tokens) + 64, np.int32)
    learned = np.empty(len(results), np.bool_)
    ends = np.zeros(len(offsets), np.int64)
    out = np.empty(1024, np.int32)
    learn = np.ones(len(out), np.bool_)
    rng = np.zeros(RNG_SIZE, np.uint64)
    for d in range(len(indices)):
        target = tokens[offsets[d] : offsets[d + 1]]
        start_rng(rng, seed, epoch, indices[d])
        row = draw_row(rows, rng)
        if row[KIND] == OBFUSCATE:
            out, learn, at = obfuscate(target, row, ids, rng, out, learn)
            if at < 0:
                ends[d + 1 :] = -1
                break
        else:
            cuts = cut_spans(units[offsets[d] : offsets[d + 1]], row, rng)
            order = draw_order(len(cuts) - 1, row[LATE], rng)
            while len(out) < spans_capacity(len(target), len(order), ids[MAX_MOVE]):
                out, learn, at = grow_front(out, learn, 0)
            if row[LATE] > 0 and ids[ID_MARK] >= 0:
                at = write_marked(target, cuts, order, ids, out)
            else:
                at = write_spans(target, cuts, order, ids, out)
        first, last = ends[d], ends[d] + len(out) - at
        while len(results) < last:
            results = np.concatenate((results, np.empty_like(results)))
            learned = np.concatenate((learned, np.empty_like(learned)))
        results[first:last] = out[at:]
        learned[first:last] = learn[at:]
        learn[at:] = True
        ends[d + 1] = last
    return results[: ends.max()], learned[: ends.max()], ends


@inlined
def spans_capacity(n: int, spans: int, largest: int) -> int:
    return n + spans * path_capacity(n, largest) + 1


@compiled
def draw_row(rows: I64, rng: U64) -> I64:
    """The component of a mixture that an example takes; a lone policy draws nothing."""
    chosen = 0
    if len(rows) > 1:
        x = draw(rng)
        while x >= rows[chosen, WEIGHT]:
            chosen += 1
    return rows[chosen]


# -- diff -------------------------------------------------------------------------------------

NEVER = 1 << 60
_DELETE, _INSERT, _REPLACE = 1, 2, 3  # how a hunk got to a cell; two bits of its byte
_OPENED, _CLOSED = 4, 8  # a hunk begins with that; a kept token ends a hunk


@inlined
def ragged(old_bounds: Bools, i: int, new_bounds: Bools, j: int) -> int:
    """How many of two boundaries lie inside a word."""
    return int(not old_bounds[i]) + int(not new_bounds[j])


@entry
def align(
    old: I32, new: I32, old_bounds: Bools, new_bounds: Bools, reach: int, may_delete: bool,
    may_replace: bool
) -> tuple[I64, bool]:  # fmt: skip
    """Hunks as rows (start, end, start in new, end in new) at the least cost, if there are any.

    Gotoh's recurrence over two layers: `kept`, where the last token is in both, and `inside` a
    hunk. Each cell's way back is one byte. Costs are scaled so that ragged bounds only break ties.
    """
    n, m = len(old), len(new)
    one = np.int64(1) << 20
    back = np.zeros((n + 1, m + 1), np.uint8)
    kept, inside = np.full(m + 1, NEVER), np.full(m + 1, NEVER)
    above_kept, above_inside = np.full(m + 1, NEVER), np.full(m + 1, NEVER)
    for i in range(n + 1):
        for j in range(m + 1):
            way, best, match = 0, NEVER, NEVER
            if i > 0 and may_delete:
                from_kept = above_kept[j] + reach * one + ragged(old_bounds, i - 1, new_bounds, j)
                opens = from_kept < above_inside[j]
                best = (from_kept if opens else above_inside[j]) + one
                way = _DELETE | (_OPENED if opens else 0)
            if j > 0:
                from_kept = kept[j - 1] + reach * one + ragged(old_bounds, i, new_bounds, j - 1)
                opens = from_kept < inside[j - 1]
                cost = (from_kept if opens else inside[j - 1]) + one
                if cost < best:
                    best, way = cost, _INSERT | (_OPENED if opens else 0)
            if i > 0 and j > 0:
                bounds = ragged(old_bounds, i - 1, new_bounds, j - 1)
                if may_replace:
                    from_kept = above_kept[j - 1] + reach * one + bounds
                    opens = from_kept < above_inside[j - 1]
                    cost = (from_kept if opens else above_inside[j - 1]) + 2 * one
                    if cost < best:
                        best, way = cost, _REPLACE | (_OPENED if opens else 0)
                if old[i - 1] == new[j - 1]:
                    match = above_kept[j - 1]
                    if above_inside[j - 1] + bounds < match:
                        match = above_inside[j - 1] + bounds
                        way |= _CLOSED
            elif i == 0 and j == 0:
                match = 0
            kept[j], inside[j] = min(match, NEVER), min(best, NEVER)
            back[i, j] = way
        above_kept, kept = kept, above_kept
        above_inside, inside = inside, above_inside
    last = above_inside[m] + ragged(old_bounds, n, new_bounds, m)
    if min(last, above_kept[m]) >= NEVER:
        return np.empty((0, 4), np.int64), False
    return trace_hunks(back, last < above_kept[m]), True


@compiled
def trace_hunks(back: Bytes, is_inside: bool) -> I64:
    """Follow the way back from the last cell."""
    i, j = back.shape[0] - 1, back.shape[1] - 1
    rows, count = np.empty((min(i, j) + 1, 4), np.int64), 0
    end, new_end = i, j
    while i > 0 or j > 0:
        way = back[i, j]
        if not is_inside:
            i, j = i - 1, j - 1
            if way & _CLOSED:
                is_inside, end, new_end = True, i, j
            continue
        step = way & 3
        i -= step != _INSERT
        j -= step != _DELETE
        if way & _OPENED:
            rows[count, 0], rows[count, 1], rows[count, 2], rows[count, 3] = i, end, j, new_end
            count += 1
            is_inside = False
    return rows[:count][::-1].copy()


@entry
def shortest_search(tokens: I32, cursor: int, goal: int) -> int:
    """How many tokens before `goal` are found nowhere else between the cursor and there."""
    longest = 0
    for end in range(cursor + 1, goal):
        size = 0
        while size < end - cursor and tokens[end - 1 - size] == tokens[goal - 1 - size]:
            size += 1
        longest = max(longest, size)
    return longest + 1


# -- the sweep of a script --------------------------------------------------------------------


@entry
def pack(cost: int, ids: int, actions: int) -> int:
    """A price as one number: first the diff's cost, then ids, then actions."""
    return (cost << 40) | (ids << 20) | actions


@compiled
def count_moves(start: int, goal: int, length: int, largest: int, path: I64) -> int:
    """How many `fewest_moves` there are, seldom by writing them.

    Those of an endless canvas pass the goal by less than a third of the way.
    """
    distance = abs(goal - start)
    beyond = length - goal if goal > start else goal
    if 3 * beyond >= distance:
        return fewest_unbounded(distance, largest)
    return fewest_moves(start, goal, length, largest, path)


@entry
def sweep(
    old: I32, new: I32, cursor: int, before: int, behind: int, at_end: I64, one_by_one: I64,
    reach: int, budget: int, may_swap: bool, largest: int
) -> tuple[I64, int]:  # fmt: skip
    """Steps (start, removed, start in new, size, way) of the fewest ids, and how many ids.

    Cell (i, j): new[:j] is written, old[i:] still to come, the cursor between them. A step keeps
    some equal tokens and then makes size tokens of removed ones: at their end, one by one or by
    SWAP. Only steps whose diff costs the least are taken, and none beyond `budget`. `before` and
    `behind` are the tokens around, `cursor` counts from the first of `old`.
    """
    n, m = len(old), len(new)
    best = np.full((n + 1, m + 1), NEVER)
    back = np.zeros((n + 1, m + 1, 7), np.int64)
    path = np.empty(path_capacity(before + n + m + behind, largest), np.int64)
    best[0, 0] = 0
    for i in range(n + 1):
        for j in range(m + 1):
            if best[i, j] >= NEVER:
                continue
            at = cursor if i == 0 and j == 0 else i
            here, length = before + j - i, before + j + n - i + behind
            a, b = i, j
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
                            moves = count_moves(here + at, here + goal, length, largest, path)
                            price += best[i, j] + pack(reach + removed + size, moves, moves)
                            if price < best[a + removed, b + size]:
                                best[a + removed, b + size] = price
                                step = back[a + removed, b + size]
                                step[0], step[1], step[2] = a, removed, b
                                step[3], step[4], step[5], step[6] = size, way, i, j
                if a == n or b == m or old[a] != new[b]:
                    break
                a, b = a + 1, b + 1
    # What is kept after the last step costs nothing.
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
