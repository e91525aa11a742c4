"""Grounding after a move, as an experiment on training: the history shows the model where it is.

After a chain of moves the model says LOOK, and the executor writes the tokens left and right of
the cursor into the history. They are observations: no edit, and no loss. LOOK is learned; that a
chain has ended is a choice the model makes anyway. What this costs in ids counts as training and
as writing. Only the held-out score is measured: decoding would need forced ids in every engine,
which is worth building if the score wins at equal FLOPs.

Two operators that take no argument and that no policy here uses lend their ids: `swap` is LOOK,
`delete` stands for what lies beyond an edge of the text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reviser.core.actions import ActionVocab, Kind
from reviser.data.dataset import Example, IntArray, Stream

OPERATORS = "vocab.operators=[delete, swap]"


def looking(width: int) -> type[Stream]:
    """A stream whose histories show `width` tokens on either side after each chain of moves."""

    class Looking(Stream):
        def examples(self, places: IntArray, *, progress: float = 0.0) -> list[Example]:
            found = super().examples(places, progress=progress)
            return [ground(e, self.sampler.vocab, width, self.context) for e in found]

    return Looking


def ground(example: Example, vocab: ActionVocab, width: int, context: int) -> Example:
    """The example with what the model is shown; what no longer fits the context is cut off."""
    assert vocab.swap is not None
    assert vocab.delete is not None
    ids: list[int] = []
    learned: list[bool] = []
    canvas: list[int] = []
    cursor, moved = 0, False
    for action, is_learned in zip(example.ids.tolist(), example.learned.tolist(), strict=True):
        kind = vocab.kinds[action]
        if moved and kind == Kind.INSERT:
            edge = [vocab.delete] * width
            around = [*edge, *canvas, *edge][cursor : cursor + 2 * width]
            ids += [vocab.swap, *around]
            learned += [True, *[False] * len(around)]
        ids.append(action)
        learned.append(is_learned)
        moved = kind == Kind.MOVE
        if kind == Kind.INSERT:
            canvas.insert(cursor, action)
            cursor += 1
        elif moved:
            cursor += vocab.deltas[action - vocab.first_move]
    whole: Any = np.array(ids[:context], np.int32)
    return example._replace(ids=whole, learned=np.array(learned[:context], bool))
