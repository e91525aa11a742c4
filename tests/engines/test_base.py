"""How to decode: the paper's way by default, and nothing that cannot be."""

from typing import Any

import pytest

from reviser.core.actions import Action, ActionVocab, Kind
from reviser.engines.base import DecodeConfig, Request, check_extra_args, measure
from reviser.errors import ConfigError, ReviserError

VOCAB = ActionVocab.build(20, operators=["delete", "replace", "span_delete"], max_move=4)


def test_the_defaults_are_the_papers() -> None:
    config = DecodeConfig()
    assert (config.temperature, config.top_k, config.max_actions) == (0.9, 50, 256)
    assert (config.top_p, config.min_p, config.stop_bias) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize("fields", [{"temperature": -0.1}, {"top_k": -1}, {"max_actions": 0}])
def test_what_cannot_be_decoded_with_is_refused(fields: dict[str, float]) -> None:
    ((name, value),) = fields.items()
    with pytest.raises(ConfigError, match=rf"\b{name} {value}\b.* or more"):
        DecodeConfig(**fields)


def test_nothing_but_the_likeliest_and_all_actions_are_allowed() -> None:
    config = DecodeConfig(temperature=0, top_k=0, max_actions=1)
    assert (config.temperature, config.top_k, config.max_actions) == (0, 0, 1)


def test_what_the_mask_needs_of_a_request_survives_the_way_to_another_process() -> None:
    config = DecodeConfig(max_length=9, max_edits=3, stop_bias=-0.5)
    request = Request(
        history=(*VOCAB.prefix_actions([1, 2, 3]), 4, VOCAB.move_id(-2)),
        length=4,
        cursor=2,
        gaps=((0, 1), (2, 2)),
        config=config,
    )
    args = request.extra_args()
    assert all(isinstance(value, int | float | list) for value in args.values())
    assert Request.from_extra_args(VOCAB, request.history, args) == request
    nothing = Request(history=request.history, length=4, cursor=2, gaps=())
    assert Request.from_extra_args(VOCAB, request.history, nothing.extra_args()) == nothing


def test_without_arguments_a_history_is_locked_and_gone_on_from_at_its_end() -> None:
    history = VOCAB.prefix_actions([1, 2])
    assert Request.from_extra_args(VOCAB, history, {}) == Request.continuation(VOCAB, [1, 2])


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
        ([1, VOCAB.replace], "cannot be inserted"),
        ([1, VOCAB.span_delete, VOCAB.move_id(1)], "not closed"),
        ([1, VOCAB.span_delete, VOCAB.move_id(2), VOCAB.end], "from 1 to 1"),
        ([1, VOCAB.end], "not an action"),
    ],
)
def test_a_history_that_cannot_be_is_refused(ids: list[int], words: str) -> None:
    with pytest.raises(ReviserError, match=words):
        measure(VOCAB, ids)


@pytest.mark.parametrize(
    "args",
    [
        {"reviser_gaps": [1]},
        {"reviser_gaps": [2, 1]},
        {"reviser_gaps": [0.0, 1.0]},
        {"reviser_gaps": [-1, 1]},
        {"reviser_gaps": "0, 1"},
        {"reviser_max_length": 1.5},
        {"reviser_max_edits": True},
        {"reviser_max_edits": 1 << 63},
        {"reviser_stop_bias": float("nan")},
        {"reviser_stop_bias": 1e39},
        {"reviser_stop_bias": "1"},
        {"reviser_gap": [0, 1]},
    ],
)
def test_an_argument_of_the_mask_that_cannot_be_is_refused_by_name(args: dict[str, Any]) -> None:
    check_extra_args({"another": "thing"})
    with pytest.raises(ConfigError, match=next(iter(args))):
        check_extra_args(args)
