"""Settings: the paper's by default, each declared once, and nothing that cannot be."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

from reviser.engines.settings import SETTINGS, DecodeConfig, DecodeSettings
from reviser.errors import ConfigError


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
        ("top_k", -1, "a whole number from 0 to 2147483647"),
        ("top_k", 1.5, "a whole number from 0 to 2147483647"),
        ("top_k", 2**31, "a whole number from 0 to 2147483647"),
        ("top_k", True, "a whole number"),
        ("top_p", 1.1, "a number above 0 and at most 1"),
        ("top_p", 0, "above 0"),
        ("min_p", -0.1, "a number from 0 to 1"),
        ("seed", -1, "a whole number from 0 to 18446744073709551615"),
        ("seed", None, "a whole number"),
        ("max_actions", 0, "a whole number, 1 or more"),
        ("max_length", -1, "a whole number, 0 or more"),
        ("max_edits", 2.0, "a whole number, 0 or more"),
        ("max_moves", -1, "a whole number, 0 or more"),
        ("stop_bias", "much", "a number from"),
        ("move_bias", float("inf"), "a number from"),
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


@pytest.mark.parametrize("name", [name for name, each in SETTINGS.items() if each.type is int])
def test_every_whole_number_has_an_upper_bound_that_an_engine_can_count_to(name: str) -> None:
    assert SETTINGS[name].high < 2**64
    with pytest.raises(ConfigError, match=f"{name} is 10000.*; it must be a whole number"):
        DecodeConfig(**{name: 10**309})
    with pytest.raises(ConfigError, match="thousands of digits"):
        DecodeConfig(**{name: 10**5000})


def test_keyword_arguments_are_the_fields() -> None:
    assert get_type_hints(DecodeSettings) == get_type_hints(DecodeConfig)
    assert list(SETTINGS) == [each.name for each in fields(DecodeConfig)]
    for name, each in SETTINGS.items():
        assert each.default == getattr(DecodeConfig(), name)
        assert each.help.endswith(".")


def test_settings_by_name_change_a_base() -> None:
    base = DecodeConfig(temperature=0.0, seed=2**64 - 1)
    assert DecodeConfig.of({"top_k": 3}, base) == DecodeConfig(
        temperature=0, seed=base.seed, top_k=3
    )
    assert DecodeConfig.of({}) == DecodeConfig()
    assert base.with_seed_offset(3).seed == 2
    with pytest.raises(
        ConfigError, match=r"`temprature` is not a setting. Did you mean `temperature`"
    ):
        DecodeConfig.of({"temprature": 1.0})
    with pytest.raises(ConfigError, match="Choose from: temperature, top_k"):
        DecodeConfig.of({"xyz": 1.0})
