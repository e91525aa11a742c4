"""The section `reinforce` of a recipe: rewards, and how rollouts are made and learned from.

This module holds values only. The others of this package run them; they import torch and TRL, and
this module does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reviser.errors import ConfigError
from reviser.train.recipe import at_least


@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """What a rollout is rewarded for."""

    kind: Literal["edits", "likelihood", "judge"]
    """`edits` compares a revised draft with the corrected text of its pair. `likelihood` is the
    mean log-probability of a character under `scorer`. `judge` ranks the rollouts of a prompt, as
    in the paper: from 1 for the best to 0 for the worst."""
    measure: Literal["f0.5", "gleu"] = "f0.5"
    """For `edits`: F0.5 of the word edits of each text, or its GLEU."""
    price_per_byte: float = 0.0
    """For `edits`: subtracted for each byte of the draft that should have stayed and did not."""
    scorer: str | None = None
    """Folder or hub name of a causal LM, for `likelihood`. For `judge`: rank by its likelihood."""
    judge: str | None = None
    """For `judge`: name, at `url`, of a model that compares every two rollouts of a prompt, in
    both orders."""
    url: str | None = None
    """For `judge`: URL of an endpoint with OpenAI's API, up to /v1. `vllm serve` starts one."""

    def __post_init__(self) -> None:
        given = [name for name in ("scorer", "judge") if getattr(self, name) is not None]
        allowed: dict[str, list[list[str]]] = {
            "edits": [[]],
            "likelihood": [["scorer"]],
            "judge": [["scorer"], ["judge"]],
        }
        if given not in allowed[self.kind]:
            wanted = {
                "edits": "leave out scorer and judge",
                "likelihood": "give scorer, and not judge",
                "judge": "give scorer or judge, one of the two",
            }
            raise ConfigError(f"For a reward of kind {self.kind}, {wanted[self.kind]}.")
        if (self.url is None) != (self.judge is None):
            raise ConfigError("Give judge, the name of a model, and the url that serves it.")
        at_least(0, self, "price_per_byte")
        if self.kind != "edits" and self.price_per_byte:
            raise ConfigError("price_per_byte is for a reward of kind edits.")


@dataclass(frozen=True, kw_only=True)
class ReinforceConfig:
    """Reinforcement learning with GRPO, from the paper's appendix.

    `training.batch` and `micro_batch` count rollouts. `base` is the model to improve, and the
    reference that `kl` and `types` compare it with.
    """

    reward: RewardConfig
    group: int = 8
    """Rollouts of each prompt. A rollout is compared with the others of its group."""
    temperature: float = 1.0
    """Temperature at which rollouts are sampled, and of the probabilities that are learned."""
    max_actions: int = 256
    """Maximum number of actions in a rollout."""
    updates: int = 1
    """Steps that learn from each batch of rollouts. The first has nothing to clip."""
    clip: float = 0.2
    """Limit of the change of an action's probability, as a share, that a step is rewarded for."""
    kl: float = 0.02
    """Weight of the KL divergence from the reference, for each action."""
    entropy: float = 0.0
    """Weight of the mean entropy of an action, which is rewarded."""
    types: float = 0.0
    """Weight of the KL divergence between the shares of inserts, moves, STOP and operators of the
    model and those of the reference. Needs `kl` above 0."""
    price_per_action: float = 0.0
    """Subtracted from the reward for each action of the model."""
    oracle: float = 0.0
    """For pairs: share of the oracle's actions that a rollout starts with, at the first step."""
    oracle_until: float = 0.5
    """Share of the steps after which the oracle takes no actions. The share decreases linearly."""

    def __post_init__(self) -> None:
        at_least(2, self, "group")
        at_least(1, self, "max_actions", "updates")
        at_least(0, self, "kl", "entropy", "types", "price_per_action")
        if not (self.temperature > 0 and self.clip > 0):
            raise ConfigError(
                f"temperature is {self.temperature} and clip {self.clip}; both must be above 0."
            )
        if not (0 <= self.oracle <= 1 and 0 < self.oracle_until <= 1):
            raise ConfigError(
                f"oracle is {self.oracle} and oracle_until {self.oracle_until}: oracle must be from"
                " 0 to 1, oracle_until above 0 and at most 1."
            )
        if self.types and not self.kl:
            raise ConfigError("types needs kl above 0: both compare with the reference.")

    def oracle_share(self, progress: float) -> float:
        """Return the share of the oracle's actions at a progress of the run from 0 to 1."""
        return self.oracle * max(0.0, 1 - progress / self.oracle_until)
