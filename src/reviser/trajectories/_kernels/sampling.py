"""A batch of restorations under any policy: the one entry point of sampling."""

from __future__ import annotations

import numpy as np

from reviser.trajectories._kernels.jit import I32, I64, U64, Bytes, compiled, entry
from reviser.trajectories._kernels.layout import ID_MARK, KIND, LATE, MAX_MOVE, OBFUSCATE, WEIGHT
from reviser.trajectories._kernels.philox import RNG_SIZE, draw, start_rng
from reviser.trajectories._kernels.spans import (
    cut_spans,
    draw_order,
    spans_capacity,
    write_marked,
    write_spans,
)
from reviser.trajectories._kernels.walks import obfuscate


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
) -> tuple[I32, I64]:
    """Return the ids of restorations, and where each ends.

    Ends are -1 from the first target on for which no walk within the step budget was found.
    """
    results = np.empty(2 * len(tokens) + 64, np.int32)
    ends = np.zeros(len(offsets), np.int64)
    # Each restoration is written into the end of `out` and then copied.
    out = np.empty(1024, np.int32)
    rng = np.zeros(RNG_SIZE, np.uint64)
    for d in range(len(indices)):
        target = tokens[offsets[d] : offsets[d + 1]]
        start_rng(rng, seed, epoch, indices[d])
        row = draw_row(rows, rng)
        if row[KIND] == OBFUSCATE:
            out, at = obfuscate(target, row, ids, rng, out)
            if at < 0:
                ends[d + 1 :] = -1
                break
        else:
            cuts = cut_spans(units[offsets[d] : offsets[d + 1]], row, rng)
            order = draw_order(len(cuts) - 1, row[LATE], rng)
            # Spans have a known bound, so `out` grows beforehand; a walk's length is random.
            while len(out) < spans_capacity(len(target), len(order), ids[MAX_MOVE]):
                out = np.empty(2 * len(out), np.int32)
            if row[LATE] > 0 and ids[ID_MARK] >= 0:
                at = write_marked(target, cuts, order, ids, out)
            else:
                at = write_spans(target, cuts, order, ids, out)
        first, last = ends[d], ends[d] + len(out) - at
        while len(results) < last:
            results = np.concatenate((results, np.empty_like(results)))
        results[first:last] = out[at:]
        ends[d + 1] = last
    return results[: ends.max()], ends


@compiled
def draw_row(rows: I64, rng: U64) -> I64:
    """Return the component of a mixture that an example takes; a lone policy draws nothing."""
    chosen = 0
    if len(rows) > 1:
        x = draw(rng)
        while x >= rows[chosen, WEIGHT]:
            chosen += 1
    return rows[chosen]
