"""How to decode: the paper's way by default, and nothing that cannot be."""

import pytest

from reviser.engines.base import DecodeConfig
from reviser.errors import ConfigError


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
