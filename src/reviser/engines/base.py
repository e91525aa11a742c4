"""What every engine is asked: how to decode. Knows no torch and no model."""

from __future__ import annotations

from dataclasses import dataclass

from reviser.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """How actions are chosen; the defaults are the paper's."""

    temperature: float = 0.9
    """0 takes the likeliest action."""
    top_k: int = 50
    """Choose among so many likeliest actions; 0 for all."""
    max_actions: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        if self.temperature < 0 or self.top_k < 0 or self.max_actions < 1:
            raise ConfigError(
                f"temperature {self.temperature} and top_k {self.top_k} must be 0 or more,"
                f" max_actions {self.max_actions} 1 or more."
            )
