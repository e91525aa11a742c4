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
from reviser.lab.canvases import EMPTY, canvases

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


@given(st.integers(0, 2**32), st.sampled_from([RICH, PLAIN]), st.booleans())
def test_canvases_are_the_executors_however_histories_are_padded(
    seed: int, vocab: ActionVocab, is_left: bool
) -> None:
    rng = Random(seed)
    histories = [random_history(rng, vocab, rng.randint(1, 60)) for _ in range(3)]
    width = max(map(len, histories))
    ids_BT = np.full((3, width), vocab.stop)
    firsts = np.array([width - len(history) if is_left else 0 for history in histories])
    for row, history, first in zip(ids_BT, histories, firsts, strict=True):
        row[first : first + len(history)] = history
    found_BTL = canvases(vocab, ids_BT, first_B=firsts)
    for found_TL, history, first in zip(found_BTL, histories, firsts, strict=True):
        canvas = Canvas(vocab)
        for found_L, action in zip(found_TL[first:], history, strict=False):
            canvas.apply(action)
            assert found_L[: len(canvas)].tolist() == canvas.tokens()
            assert (found_L[len(canvas) :] == EMPTY).all()
        # What pads a history after its end does not change its canvas.
        assert (found_TL[first + len(history) :] == found_L).all()
        assert (found_TL[:first] == EMPTY).all()
    last_BTL = canvases(vocab, ids_BT, first_B=firsts, last=1)
    assert (last_BTL == found_BTL[:, -1:, : last_BTL.shape[2]]).all()


def test_copies_are_refused() -> None:
    vocab = ActionVocab.build(5, operators=["span_copy"])
    with pytest.raises(VocabError, match="span_copy"):
        canvases(vocab, np.array([[1]]))
