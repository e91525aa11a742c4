"""The shape of a trunk, as recipes give it; `trunks.build` makes the model.

Imports no torch, so that a recipe is checked at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from reviser.errors import ConfigError

Architecture = Literal["gpt_neox", "llama"]
CANVAS_MODEL = "reviser_canvas"
"""The `model_type` of a trunk that reads the canvas too."""


@dataclass(frozen=True, kw_only=True)
class CanvasReading:
    """The way a trunk reads the canvas itself, besides the history: the paper's appendix.

    Such a trunk must be a Llama model, and runs on the Transformers engine only.
    """

    kind: Literal["pooled", "cross_attention"] = "pooled"
    """`pooled` adds a summary of the canvas to the input of every step; `cross_attention` lets
    layers attend to it."""
    projection: bool = True
    """True applies a learned matrix to a pooled summary (W_m in the paper)."""
    rows: int = 1
    """Number of summaries that cross-attention sees, each with a query of its own."""
    layers: int = 0
    """Number of layers, the last ones, with cross-attention; 0 for all."""

    def __post_init__(self) -> None:
        if self.kind not in ("pooled", "cross_attention"):
            raise ConfigError(f"kind is {self.kind!r}; use 'pooled' or 'cross_attention'.")
        if self.rows < 1 or self.layers < 0 or (self.kind == "pooled" and self.rows > 1):
            raise ConfigError(
                f"rows is {self.rows} and layers {self.layers}: rows must be 1 or more, and 1 for a"
                " pooled canvas; layers must be 0 or more."
            )


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
    canvas: CanvasReading | None = None
    """Set this for a trunk that reads the canvas too."""

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
        if self.canvas is not None:
            if self.architecture != "llama":
                raise ConfigError("A trunk that reads the canvas needs architecture: llama.")
            if self.canvas.layers > self.layers:
                raise ConfigError(
                    f"canvas.layers is {self.canvas.layers}; the trunk has {self.layers} layers."
                )
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is {self.dropout}; it must be at least 0 and below 1.")
