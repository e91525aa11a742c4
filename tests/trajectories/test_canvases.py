"""The canvases of whole histories, compared with the executor id by id."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import ActionVocab
from reviser.core.canvas import Canvas
from reviser.errors import InvalidAction, VocabError
from reviser.trajectories.canvases import EMPTY, canvases, canvases_of, stacked

OPERATORS = ["delete", "replace", "swap", "span_delete", "span_move"]
RICH = ActionVocab.build(5, operators=OPERATORS, max_move=4, marks=True, search=True)
PLAIN = ActionVocab.build(5, max_move=4)


def random_history(rng: Random, vocab: ActionVocab, size: int) -> list[int]:
    """Ids that the executor allows, drawn until they fit; it may end within an action."""
    canvas, history = Canvas(vocab), []
    while len(history) < size and not canvas.is_finished:
        tokens = rng.random() < 0.4
        action = rng.randrange(vocab.tokens if tokens else vocab.size)
        try:
            canvas.apply(action)
        except InvalidAction:
            continue
        history.append(action)
    return history


@given(st.integers(0, 2**32), st.sampled_from([RICH, PLAIN]))
def test_canvases_are_the_executors(seed: int, vocab: ActionVocab) -> None:
    rng = Random(seed)
    histories = [random_history(rng, vocab, rng.randint(1, 60)) for _ in range(3)]
    steps = max(map(len, histories))
    ids_BT = np.full((3, steps), vocab.stop)
    for row, history in zip(ids_BT, histories, strict=True):
        row[: len(history)] = history
    found_BTL = canvases(vocab, ids_BT)
    for found_TL, history in zip(found_BTL, histories, strict=True):
        expected = canvases_of(vocab, history)
        for canvas, tokens in zip(found_TL, expected, strict=False):
            assert canvas[canvas != EMPTY].tolist() == tokens
            assert (canvas[len(tokens) :] == EMPTY).all()
        if vocab.stop not in history and not Canvas.replay(vocab, history).is_spelling:
            # What pads a history after its end does not change its canvas.
            assert (found_TL[len(history) :] == found_TL[len(history) - 1]).all()


def test_rows_of_canvases_end_on_the_right() -> None:
    rows = [canvases_of(PLAIN, [1, 2]), canvases_of(PLAIN, [3])]
    assert stacked(rows).tolist() == [[[1, EMPTY], [1, 2]], [[EMPTY, EMPTY], [3, EMPTY]]]
    assert stacked([[[]]]).tolist() == [[[EMPTY]]]


def test_copies_are_refused() -> None:
    vocab = ActionVocab.build(5, operators=["span_copy"])
    with pytest.raises(VocabError, match="span_copy"):
        canvases(vocab, np.array([[1]]))
