"""The way documents are cut into training examples, as recipes give it.

Imports no torch, so that a recipe is checked at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from reviser.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class WindowConfig:
    """The way documents are cut into prefixes and targets."""

    size: int = 180
    """Number of tokens in a window. Documents are cut into windows of this size."""
    prefix: tuple[int, int] = (0, 64)
    """Minimum and maximum number of prefix tokens, drawn uniformly; (35, 35) in the paper. The rest
    of the window is the target."""
    least_target: int = 8
    """Minimum number of target tokens. A shorter rest of a document is left out."""
    held_out: float = 0.01
    """Share of the documents that is kept for evaluation."""

    def __post_init__(self) -> None:
        if not 0 <= self.prefix[0] <= self.prefix[1]:
            raise ConfigError(
                f"prefix is {self.prefix}; give the minimum and maximum of tokens, 0 or more."
            )
        if not 1 <= self.least_target <= self.size - self.prefix[1]:
            raise ConfigError(
                f"A window of size {self.size} leaves {self.size - self.prefix[1]} tokens after the"
                f" longest prefix; least_target is {self.least_target}, but must be from 1 to that."
            )
        if not 0 <= self.held_out < 1:
            raise ConfigError(f"held_out is {self.held_out}; it must be at least 0 and below 1.")
