"""The canvas after every id of a history, for trunks that read the canvas itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab
from reviser.core.canvas import Canvas
from reviser.errors import VocabError

EMPTY = -1
"""In place of a token, beyond the end of a canvas."""
Canvases = npt.NDArray[np.int32]


def canvases(vocab: ActionVocab, ids_BT: npt.NDArray[np.int64]) -> Canvases:
    """Return the canvas after each id of valid histories (B, T, L), padded with `EMPTY`.

    >>> vocab = ActionVocab.build(100)
    >>> canvases(vocab, np.array([[7, 8, vocab.move_id(-1), 9]])).tolist()
    [[[7, -1, -1], [7, 8, -1], [7, 8, -1], [7, 9, 8]]]
    """
    from reviser.trajectories._kernels import canvases as kernel

    check(vocab)
    kinds, deltas = (np.asarray(table, np.int64) for table in (vocab.kinds, vocab.cursor_deltas))
    out_BTL, longest = kernel.canvases(np.ascontiguousarray(ids_BT, np.int64), kinds, deltas)
    trimmed: Canvases = out_BTL[:, :, : max(1, longest)]
    return trimmed


def canvases_of(vocab: ActionVocab, history: Sequence[int]) -> list[list[int]]:
    """Return the canvas after each id of one history, by the executor of `core`.

    It needs no compiler, and is the reference of `canvases`.
    """
    canvas, found = Canvas(vocab), []
    for action_id in history:
        canvas.apply(action_id)
        found.append(canvas.tokens())
    return found


def stacked(rows: Sequence[Sequence[Sequence[int]]]) -> Canvases:
    """Return rows of canvases as one array (B, T, L); shorter rows are padded on the left.

    >>> stacked([[[7], [7, 8]], [[9]]]).tolist()
    [[[7, -1], [7, 8]], [[-1, -1], [9, -1]]]
    """
    steps = max(map(len, rows))
    length = max(1, *(len(canvas) for row in rows for canvas in row))
    out_BTL = np.full((len(rows), steps, length), EMPTY, np.int32)
    for out_TL, row in zip(out_BTL, rows, strict=True):
        for n, canvas in enumerate(row, start=steps - len(row)):
            out_TL[n, : len(canvas)] = canvas
    return out_BTL


def check(vocab: ActionVocab) -> None:
    """Refuse span_copy: with it a canvas can be longer than its history."""
    if vocab.span_copy is not None:
        raise VocabError("A trunk that reads the canvas cannot have the operator span_copy.")
