"""How to decode: the paper's way by default, and nothing that cannot be."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reviser.engines.base import DecodeConfig
from reviser.errors import ConfigError


def test_the_defaults_are_the_papers() -> None:
    config = DecodeConfig()
    assert (config.temperature, config.top_k, config.max_actions) == (0.9, 50, 256)
    assert (config.top_p, config.min_p, config.stop_bias) == (1.0, 0.0, 0.0)


def test_the_table_of_settings_is_the_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "generate.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \|", page, re.MULTILINE)
    assert rows == [(f.name, str(f.default).lower()) for f in fields(DecodeConfig)]


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("temperature", -0.1, "a number, 0 or more"),
        ("temperature", float("nan"), "a number, 0 or more"),
        ("temperature", "hot", "a number, 0 or more"),
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
        ("stop_bias", "much", "a number."),
    ],
)
def test_what_cannot_be_decoded_with_is_refused(name: str, value: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name} is {re.escape(repr(value))}; .*{sentence}"):
        DecodeConfig(**{name: value})


def test_what_lies_on_the_edge_is_taken() -> None:
    for given in (
        {"temperature": 0, "top_k": 0, "max_actions": 1, "max_length": None, "max_edits": 0},
        {"top_p": 1, "min_p": 1.0, "seed": 2**64 - 1, "stop_bias": -1e9, "top_k": np.int64(3)},
    ):
        config = DecodeConfig(**given)
        assert {name: getattr(config, name) for name in given} == given
