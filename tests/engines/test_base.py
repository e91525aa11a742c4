"""How to decode: the paper's way by default, and nothing that cannot be."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reviser.core.actions import Action, ActionVocab, Kind
from reviser.engines import wire
from reviser.engines.base import DecodeConfig, Request, measure
from reviser.errors import ConfigError, ReviserError

VOCAB = ActionVocab.build(20, operators=["delete", "replace", "span_delete"], max_move=4)


def test_the_defaults_are_the_papers() -> None:
    config = DecodeConfig()
    assert (config.temperature, config.top_k, config.max_actions) == (0.9, 50, 256)
    assert (config.top_p, config.min_p) == (1.0, 0.0)
    assert (config.stop_bias, config.move_bias, config.max_moves) == (0.0, 0.0, None)


def test_the_table_of_settings_is_the_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "decode.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \|", page, re.MULTILINE)
    assert rows == [(f.name, str(f.default).lower()) for f in fields(DecodeConfig)]


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("temperature", -0.1, "a number from 0 to 1000"),
        ("temperature", float("nan"), "a number from 0 to 1000"),
        ("temperature", "hot", "a number from 0 to 1000"),
        ("top_k", -1, "a whole number, 0 or more"),
        ("top_k", 1.5, "a whole number, 0 or more"),
        ("top_k", True, "a whole number"),
        ("top_p", 1.1, "a number from 0 to 1"),
        ("top_p", 0, "above 0"),
        ("min_p", -0.1, "a number from 0 to 1"),
        ("seed", -1, "a whole number from 0 to 18446744073709551615"),
        ("seed", None, "a whole number"),
        ("max_actions", 0, "a whole number, 1 or more"),
        ("max_length", -1, "a whole number, 0 or more"),
        ("max_edits", 2.0, "a whole number, 0 or more"),
        ("max_moves", -1, "a whole number, 0 or more"),
        ("stop_bias", "much", "a number."),
        ("move_bias", float("inf"), "a number."),
    ],
)
def test_what_cannot_be_decoded_with_is_refused(name: str, value: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name} is {re.escape(repr(value))}; .*{sentence}"):
        DecodeConfig(**{name: value})


def test_what_lies_on_the_edge_is_taken() -> None:
    for given in (
        {"temperature": 0, "top_k": 0, "max_actions": 1, "max_length": None, "max_edits": 0},
        {"top_p": 1, "min_p": 1.0, "seed": 2**64 - 1, "stop_bias": -1e9, "top_k": np.int64(3)},
        {"max_moves": 0, "move_bias": -1e30},
    ):
        config = DecodeConfig(**given)
        assert {name: getattr(config, name) for name in given} == given


def test_what_the_mask_needs_of_a_request_survives_the_way_to_another_process() -> None:
    config = DecodeConfig(max_length=9, max_edits=3, max_moves=0, stop_bias=-0.5, move_bias=2.0)
    request = Request(
        history=(*VOCAB.prefix_actions([1, 2, 3]), 4, VOCAB.move_id(-2)),
        length=4,
        cursor=2,
        gaps=((0, 1), (2, 2)),
        config=config,
    )
    args = wire.write(request)
    assert all(isinstance(value, int | float | list) for value in args.values())
    assert wire.read(VOCAB, request.history, args) == request
    nothing = Request(history=request.history, length=4, cursor=2, gaps=())
    assert wire.read(VOCAB, request.history, wire.write(nothing)) == nothing


def test_without_arguments_a_history_is_locked_and_gone_on_from_at_its_end() -> None:
    history = VOCAB.prefix_actions([1, 2])
    assert wire.read(VOCAB, history, {}) == Request.continuation(VOCAB, [1, 2])


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
        ([1, VOCAB.replace], "half spelled"),
        ([1, VOCAB.span_delete, VOCAB.move_id(1)], "half spelled"),
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
        {"reviser_max_moves": -1},
        {"reviser_move_bias": 1e31},
        {"reviser_gap": [0, 1]},
    ],
)
def test_an_argument_of_the_mask_that_cannot_be_is_refused_by_name(args: dict[str, Any]) -> None:
    wire.check({"another": "thing"})
    with pytest.raises(ConfigError, match=next(iter(args))):
        wire.check(args)
