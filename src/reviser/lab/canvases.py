"""The canvas after every id of a history, for trunks that read the canvas itself."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab
from reviser.core.canvas import Canvas
from reviser.errors import InvalidAction, VocabError

EMPTY = -1
"""In place of a token, beyond the end of a canvas."""
Canvases = npt.NDArray[np.int32]


def canvases(
    vocab: ActionVocab,
    ids_BT: npt.NDArray[np.int64],
    *,
    first_B: npt.NDArray[np.int64] | None = None,
    last: int | None = None,
) -> Canvases:
    """Return the canvas after each id of histories, or the `last` ones; `EMPTY` beyond their ends.

    `first_B` is where each history begins, if it is padded on the left. What follows its end is
    padding too, and changes nothing.

    >>> vocab = ActionVocab.build(100)
    >>> canvases(vocab, np.array([[7, 8, vocab.move_id(-1), 9]])).tolist()
    [[[7, -1, -1], [7, 8, -1], [7, 8, -1], [7, 9, 8]]]
    """
    check(vocab)
    rows, width = ids_BT.shape
    start = 0 if last is None else width - last
    firsts = [0] * rows if first_B is None else first_B.tolist()
    found = [
        _after_each(vocab, ids[first:], first, start)
        for ids, first in zip(ids_BT.tolist(), firsts, strict=True)
    ]
    longest = max(1, *(len(tokens) for row in found for tokens in row))
    out_BTL = np.full((rows, width - start, longest), EMPTY, np.int32)
    for out_TL, row in zip(out_BTL, found, strict=True):
        for out_L, tokens in zip(out_TL, row, strict=True):
            out_L[: len(tokens)] = tokens
    return out_BTL


def _after_each(vocab: ActionVocab, ids: list[int], first: int, start: int) -> list[list[int]]:
    """Return the canvas at each position from `start` on, of a history that begins at `first`."""
    canvas, is_over = Canvas(vocab), False
    found: list[list[int]] = [[]] * max(0, first - start)
    for position, action_id in enumerate(ids, start=first):
        if not is_over:
            try:
                canvas.apply(action_id)
            except InvalidAction:  # padding after STOP, or after a cut within an action
                is_over = True
        if position >= start:
            found.append(found[-1] if is_over and found else canvas.tokens())
    return found


def check(vocab: ActionVocab) -> None:
    """Refuse span_copy: with it a canvas can be longer than its history."""
    if vocab.span_copy is not None:
        raise VocabError("A trunk that reads the canvas cannot have the operator span_copy.")
