"""Requests: measured, checked, and the same after the way to another process."""

from math import log
from typing import Any

import pytest

from reviser.core.actions import Action, ActionVocab, Kind
from reviser.engines import mask_args
from reviser.engines.base import DecodeConfig, Request, Scores, measure
from reviser.errors import ConfigError, ReviserError

VOCAB = ActionVocab.build(20, operators=["delete", "replace", "span_delete"], max_move=4)


def test_what_the_mask_needs_of_a_request_survives_the_way_to_another_process() -> None:
    config = DecodeConfig(max_length=9, max_edits=3, max_moves=0, stop_bias=-0.5, move_bias=2.0)
    request = Request(
        history=(*VOCAB.prefix_actions([1, 2, 3]), 4, VOCAB.move_id(-2)),
        length=4,
        cursor=2,
        editable=((0, 1), (2, 2)),
        config=config,
    )
    args = mask_args.write(request)
    assert all(isinstance(value, int | float | list) for value in args.values())
    assert mask_args.read(VOCAB, request.history, args) == request
    nothing = Request(history=request.history, length=4, cursor=2, editable=())
    assert mask_args.read(VOCAB, request.history, mask_args.write(nothing)) == nothing


def test_without_arguments_a_history_is_locked_and_gone_on_from_at_its_end() -> None:
    history = VOCAB.prefix_actions([1, 2])
    assert mask_args.read(VOCAB, history, {}) == Request.continuation(VOCAB, [1, 2])


def test_a_history_is_measured_whatever_its_actions() -> None:
    ids = [*VOCAB.prefix_actions([1, 2, 3]), *VOCAB.spell(Action(Kind.SPAN_DELETE, 2))]
    assert measure(VOCAB, ids) == (1, 1)
    assert measure(VOCAB, [*ids, *VOCAB.spell(Action(Kind.REPLACE, 7))]) == (1, 1)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([], "empty"),
        ([1, -1], "outside"),
        ([1, VOCAB.size], "outside"),
        ([1, VOCAB.move_id(-2), VOCAB.move_id(2)], "leaves its canvas"),  # and comes back
        ([1, VOCAB.move_id(1)], "leaves its canvas"),
        ([VOCAB.delete, 1], "leaves its canvas"),
        ([1, VOCAB.stop], "has stopped"),
        ([1, VOCAB.replace], "incomplete action"),
        ([1, VOCAB.span_delete, VOCAB.move_id(1)], "incomplete action"),
        ([1, VOCAB.span_delete, VOCAB.move_id(2), VOCAB.end], "from 1 to 1"),
        ([1, VOCAB.end], "not an action"),
    ],
)
def test_a_history_that_cannot_be_is_refused(ids: list[int], words: str) -> None:
    with pytest.raises(ReviserError, match=words):
        measure(VOCAB, ids)


def test_an_edit_is_as_likely_as_not_stopping() -> None:
    assert Scores((-2.0,), (log(0.3), log(0.9))).edit_probabilities() == pytest.approx([0.7])


@pytest.mark.parametrize(
    "args",
    [
        {"reviser_editable": [1]},
        {"reviser_editable": [2, 1]},
        {"reviser_editable": [0.0, 1.0]},
        {"reviser_editable": [-1, 1]},
        {"reviser_editable": "0, 1"},
        {"reviser_max_length": 1.5},
        {"reviser_max_edits": True},
        {"reviser_max_edits": 1 << 63},
        {"reviser_stop_bias": float("nan")},
        {"reviser_stop_bias": 1e39},
        {"reviser_stop_bias": "1"},
        {"reviser_max_moves": -1},
        {"reviser_move_bias": 1e31},
        {"reviser_gap": [0, 1]},
    ],
)
def test_an_argument_of_the_mask_that_cannot_be_is_refused_by_name(args: dict[str, Any]) -> None:
    mask_args.check({"another": "thing"})
    with pytest.raises(ConfigError, match=next(iter(args))):
        mask_args.check(args)
