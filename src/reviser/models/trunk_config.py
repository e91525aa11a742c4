"""The shape of a trunk, as recipes give it; `trunks` makes the model.

Imports no torch, so that a recipe is checked at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from reviser.core.actions import ActionVocab
from reviser.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Architecture = Literal["gpt_neox", "llama"]


@dataclass(frozen=True, kw_only=True)
class TrunkConfig:
    """The shape of a trunk. The defaults are the paper's 100M model."""

    architecture: Architecture = "gpt_neox"
    layers: int = 24
    width: int = 512
    heads: int = 8
    mlp_width: int = 2048
    context: int = 256
    """Maximum number of ids in a history."""
    dropout: float = 0.1
    """Dropout of hidden states and attention. Llama applies it to attention only."""

    def __post_init__(self) -> None:
        known = get_args(Architecture)
        if self.architecture not in known:
            raise ConfigError(
                f"architecture is {self.architecture!r}; use one of {', '.join(known)}."
            )
        if min(self.layers, self.width, self.heads, self.mlp_width, self.context) < 1:
            raise ConfigError(f"Every size of a trunk must be 1 or more: {self}.")
        if self.width % (2 * self.heads):
            raise ConfigError(
                f"width {self.width} cannot be divided into {self.heads} heads of the same, even"
                " size. Change width or heads."
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is {self.dropout}; it must be at least 0 and below 1.")

    def build(self, vocab: ActionVocab, *, seed: int = 0) -> PreTrainedModel:
        """Build the trunk with random weights, which are the same for the same seed."""
        from reviser.models import trunks

        return trunks.build(self, vocab, seed=seed)
