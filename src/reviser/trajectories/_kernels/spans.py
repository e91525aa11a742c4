"""Spans: cut a text at random, and write the spans in another order."""

from __future__ import annotations

import numpy as np

from reviser.trajectories._kernels.backward import path_capacity, write_path
from reviser.trajectories._kernels.jit import I32, I64, U64, Bytes, compiled, entry, inlined
from reviser.trajectories._kernels.layout import (
    ID_BACK,
    ID_MARK,
    ID_STOP,
    MAX_MOVE,
    MEAN_SCALE,
    MEAN_SPAN,
    UNIT,
    WHOLE,
)
from reviser.trajectories._kernels.philox import below, draw


@compiled
def cut_spans(units: Bytes, row: I64, rng: U64) -> I64:
    """Return where spans start, and the end: cuts at unit starts, to a mean length."""
    n = len(units)
    candidates = 0
    for i in range(1, n):
        if units[i] & row[UNIT]:
            candidates += 1
    threshold = cut_threshold(n, candidates, row[MEAN_SPAN])
    cuts, count = np.zeros(candidates + 2, np.int64), 1
    for i in range(1, n):
        # Every candidate takes one draw, whether it becomes a cut or not.
        if units[i] & row[UNIT] and draw(rng) < threshold:
            cuts[count] = i
            count += 1
    cuts[count] = n
    return cuts[: count + 1]


@entry
def cut_threshold(n: int, candidates: int, mean: int) -> int:
    """Return the probability of a cut at each candidate, out of WHOLE."""
    if candidates == 0:
        return 0
    wanted = n * MEAN_SCALE / mean - 1.0  # cuts: one fewer than spans
    return int(min(max(wanted / candidates, 0.0), 1.0) * WHOLE)


@compiled
def draw_order(count: int, late: int, rng: U64) -> I64:
    """Return a random permutation, or if `late` is not -1, the order with that many put last."""
    order = np.arange(count)
    if late >= 0:
        return put_last(order, min(late, max(count - 2, 0)), rng)
    for i in range(count - 1, 0, -1):  # Fisher-Yates: entries after `i` are drawn already
        j = below(rng, i + 1)
        order[i], order[j] = order[j], order[i]
    return order


@compiled
def put_last(order: I64, late: int, rng: U64) -> I64:
    """Draw some entries, neither the first nor the last, and put them at the end, in order."""
    inner = order[1:-1]  # a view, so `order` changes with it
    # The first `late` steps of Fisher-Yates are a uniform sample without replacement.
    for i in range(late):
        j = i + below(rng, len(inner) - i)
        inner[i], inner[j] = inner[j], inner[i]
    drawn = np.sort(inner[:late])
    inner[late:].sort()
    count = len(order)
    order[1 : count - late] = order[1 + late :].copy()
    order[count - late :] = drawn
    return order


@inlined
def spans_capacity(n: int, spans: int, largest: int) -> int:
    """Return how many ids at most `write_spans` writes."""
    return n + spans * path_capacity(n, largest) + 1


@compiled
def write_spans(target: I32, cuts: I64, order: I64, ids: I64, out: I32) -> int:
    """Write spans in the given order, with the fewest moves between them.

    The loop runs backward: it begins with the full text and the span that is written last, takes
    that span from the canvas, and goes on with the one written before it.
    """
    spans, at = len(order), len(out) - 1
    # A Fenwick tree: how many tokens of which spans are on the canvas. A span's position is the
    # sum over the spans before it in the text, which takes O(log spans) to read and to update.
    tree = np.zeros(spans + 1, np.int64)
    for span in range(spans):
        # Each node hands its sum on to its parent, so the tree is built in O(spans).
        tree[span + 1] += cuts[span + 1] - cuts[span]
        parent = span + 1 + ((span + 1) & -(span + 1))
        if parent <= spans:
            tree[parent] += tree[span + 1]
    path = np.empty(path_capacity(len(target), ids[MAX_MOVE]), np.int64)
    out[at] = ids[ID_STOP]
    length, origin = len(target), -1  # `origin` is where the span written after this one begins
    for n in range(spans - 1, -1, -1):
        span = order[n]
        size = cuts[span + 1] - cuts[span]
        position, node = 0, span
        while node > 0:
            position += tree[node]
            node &= node - 1  # clears the lowest bit: the node of the spans before
        # Read forward: the cursor is at the end of this span and the next one begins at `origin`.
        if origin >= 0 and origin != position + size:
            at = write_path(out, at, position + size, origin, length, ids, path)
        # This goes in front of the path, because it happens before it.
        at -= size
        out[at : at + size] = target[cuts[span] : cuts[span + 1]]
        # From here on the canvas is the one before this span was written.
        length, origin, node = length - size, position, span + 1
        while node <= spans:
            tree[node] -= size
            node += node & -node
    return at


@compiled
def write_marked(target: I32, cuts: I64, order: I64, ids: I64, out: I32) -> int:
    """Write spans left to right with marks for the late ones, then go back to each mark.

    Late spans that follow each other share a mark.
    """
    spans = len(order)
    is_late = np.zeros(spans, np.bool_)
    n = spans - 1
    while order[n] != spans - 1:  # the late ones come after the last span of the text
        is_late[order[n]] = True
        n -= 1
    marks = 0
    for span in range(1, spans):
        marks += is_late[span] and not is_late[span - 1]
    # The length is known beforehand, so this one is written forward.
    at = index = len(out) - len(target) - 2 * marks - 1
    for late in (False, True):
        for span in range(spans):
            if is_late[span] and not is_late[span - 1]:
                out[index] = ids[ID_BACK] if late else ids[ID_MARK]
                index += 1
            if is_late[span] == late:
                size = cuts[span + 1] - cuts[span]
                out[index : index + size] = target[cuts[span] : cuts[span + 1]]
                index += size
    out[index] = ids[ID_STOP]
    return at
