"""Recipes of `reviser lab train`: what the paper's appendix adds to those of `reviser train`.

This module holds values only, and imports no torch: `dagger` and `reinforce` run them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from reviser.core.actions import ActionVocab
from reviser.errors import ConfigError
from reviser.lab.reinforce.config import ReinforceConfig
from reviser.models.trunk_config import TrunkConfig
from reviser.train import recipe as base
from reviser.train.recipe import Recipe, VocabConfig
from reviser.trajectories.policy import PRESETS, AnyPolicy, ByKind, Edits, Recorded

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class Dagger(Edits):
    """Edits, and then rounds in which the model revises drafts itself and an oracle corrects it.

    The steps of training are divided equally: the first part learns the edits of the pairs, and
    each round adds a part. Before it, the model revises `drafts` drafts. Every state that it visits
    is labelled with the oracle's next action, and these labels are learned together with the edits.
    This is DAgger with the alignment oracle, from the paper's appendix.
    """

    rounds: int = 3
    """Number of times that the model revises drafts and learns from it."""
    drafts: int = 1000
    """Number of drafts that the model revises in each round."""
    share: float = 0.5
    """Share of the examples that are such rollouts, of all rounds so far."""
    oracle: float = 0.5
    """Probability in the first round that the oracle acts in place of the model. With several
    rounds it changes in equal steps to `last_oracle` in the last one."""
    last_oracle: float = 0.0
    """Probability in the last of several rounds that the oracle acts."""
    turn: int = 1
    """Number of ids after which it is drawn again who acts. A model that acts for several ids in
    a row makes mistakes of several tokens."""
    temperature: float = 1.0
    """Temperature at which the model samples its actions; 0 takes the most likely one."""

    def __post_init__(self) -> None:
        base.at_least(1, self, "rounds", "drafts", "turn")
        for name in ("oracle", "last_oracle"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be from 0 to 1.")
        if not (0 < self.share < 1 and self.temperature >= 0):
            raise ConfigError(
                f"share is {self.share} and temperature {self.temperature}: share must be between"
                " 0 and 1, temperature 0 or more."
            )

    def oracle_in(self, round_: int) -> float:
        """Return the probability that the oracle acts in a round; the first is 1.

        >>> [Dagger(rounds=3, oracle=0.5).oracle_in(n) for n in (1, 2, 3)]
        [0.5, 0.25, 0.0]
        """
        share = (round_ - 1) / max(1, self.rounds - 1)
        return (1 - share) * self.oracle + share * self.last_oracle


@dataclass(frozen=True, kw_only=True)
class CanvasReading:
    """The way a trunk reads the canvas itself, besides the history: the paper's appendix.

    Such a trunk must be a Llama model, and runs on the Transformers engine only. Import
    `reviser.lab.canvas_trunks` before you open one.
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
class CanvasTrunkConfig(TrunkConfig):
    """The shape of a trunk that may read the canvas too."""

    canvas: CanvasReading | None = None
    """Set this for a trunk that reads the canvas too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.canvas is None:
            return
        if self.architecture != "llama":
            raise ConfigError("A trunk that reads the canvas needs architecture: llama.")
        if self.canvas.layers > self.layers:
            raise ConfigError(
                f"canvas.layers is {self.canvas.layers}; the trunk has {self.layers} layers."
            )

    def build(self, vocab: ActionVocab, *, seed: int = 0) -> PreTrainedModel:
        """Build the trunk with random weights, which are the same for the same seed."""
        if self.canvas is None:
            return super().build(vocab, seed=seed)
        from reviser.lab import canvas_trunks

        return canvas_trunks.build(self, self.canvas, vocab, seed)


@dataclass(frozen=True, kw_only=True)
class LabRecipe(Recipe):
    """One training run, also by a method of the appendix."""

    policy: Annotated[AnyPolicy | Dagger, ByKind()] = PRESETS["paper"]
    trunk: CanvasTrunkConfig | None = None
    reinforce: ReinforceConfig | None = None
    """Reinforcement learning from rewards, instead of learning from trajectories."""

    def __post_init__(self) -> None:
        if isinstance(self.policy, Dagger):
            self._check_rounds(self.policy)
        if self.reinforce is not None:
            self._check_reinforce(self.reinforce)
        super().__post_init__()

    def _check_rounds(self, policy: Dagger) -> None:
        """Refuse what cannot be divided into rounds."""
        if self.training.steps % (policy.rounds + 1):
            raise ConfigError(
                f"training.steps is {self.training.steps}; with {policy.rounds} rounds it must be a"
                f" multiple of {policy.rounds + 1}."
            )
        if self.training.is_sharded or self.training.lora is not None:
            raise ConfigError(
                "A policy of kind dagger needs the whole weights in every process: use parallel:"
                " ddp without lora."
            )

    def _check_reinforce(self, reinforce: ReinforceConfig) -> None:
        """Refuse what cannot be learned from rewards."""
        training, pairs = self.training, bool(self.data.pairs)
        if self.base is None or self.vocab != VocabConfig():
            raise ConfigError(
                "reinforce improves a Reviser model: name it as base, and leave out trunk and"
                " vocab."
            )
        if isinstance(self.policy, Recorded):
            raise ConfigError("reinforce needs texts or pairs, not recorded edits.")
        if pairs and (not isinstance(self.policy, Edits) or isinstance(self.policy, Dagger)):
            raise ConfigError("reinforce with data.pairs needs a policy of kind edits.")
        if not pairs and (reinforce.oracle or reinforce.reward.kind == "edits"):
            raise ConfigError(
                "reinforce.oracle and a reward of kind edits need data.pairs, which have the"
                " corrected texts."
            )
        if training.is_sharded or training.lora or training.compile or training.recompute:
            raise ConfigError(
                "reinforce needs the whole weights in every process: use parallel: ddp, without"
                " lora, compile and recompute."
            )
        if training.batch % reinforce.group:
            raise ConfigError(
                f"training.batch is {training.batch} rollouts; it must be a multiple of"
                f" reinforce.group, {reinforce.group}."
            )
        for name in ("steps", "save_every"):
            # A checkpoint between two updates would lack the rollouts that both learn from.
            if getattr(training, name) % reinforce.updates:
                raise ConfigError(
                    f"training.{name} is {getattr(training, name)}; it must be a multiple of"
                    f" reinforce.updates, {reinforce.updates}."
                )


def load_recipe(path: str | Path, changes: Sequence[str] = ()) -> LabRecipe:
    """Read a recipe; `changes` such as "training.steps=100" replace single values."""
    recipe = base.load_recipe(path, changes, cls=LabRecipe)
    assert isinstance(recipe, LabRecipe)
    if recipe.reinforce is None:
        return recipe
    reward, folder = recipe.reinforce.reward, Path(path).absolute().parent
    judge = reward.judge if reward.url else base.resolve_base(folder, reward.judge)
    reward = dataclasses.replace(
        reward, judge=judge, scorer=base.resolve_base(folder, reward.scorer)
    )
    return dataclasses.replace(
        recipe, reinforce=dataclasses.replace(recipe.reinforce, reward=reward)
    )


def check_inputs(recipe: LabRecipe) -> None:
    """Refuse models, a tokenizer or data that do not exist; nothing is opened or downloaded."""
    base.check_inputs(recipe)
    if recipe.reinforce is not None:
        reward = recipe.reinforce.reward
        base.check_model("reinforce.reward.scorer", reward.scorer)
        base.check_model("reinforce.reward.judge", None if reward.url else reward.judge)
