"""Texts written while a model is trained, so that a person can see it learn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from reviser.engines.base import DecodeConfig
from reviser.engines.hf import HFEngine
from reviser.errors import ConfigError, VocabError
from reviser.train.inputs import Parts
from reviser.train.recipe import Recipe
from reviser.train.report import append_line
from reviser.trajectories.policy import Edits
from reviser.writing.model import Reviser
from reviser.writing.tasks import Plan, Revising, continuation


def sample_writer(recipe: Recipe, parts: Parts, path: Path) -> Callable[[Any, int], None]:
    """A function that has a model continue the recipe's prompts, and adds the texts to a file.

    A model that learns to edit revises them; each part of a long one is a line.
    """
    plans = [plan for prompt in recipe.evaluation.prompts for plan in _plans(recipe, parts, prompt)]

    def write(model: Any, step: int) -> None:
        model = getattr(model, "module", model)  # not DDP's, which would wait for the others
        is_main = not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0
        sharded = is_sharded(model)  # then each forward needs every process
        if not sharded and not is_main:
            return
        agree = _main_process_decides if sharded else list
        reviser = Reviser(HFEngine(model, parts.vocab, agree=agree), parts.codec)
        for rollout in reviser.write_many(plans):
            told = {"text": rollout.text, "ended": rollout.stop_reason}
            record = {"step": step, "prompt": rollout.prompt, **told}
            if is_main:
                append_line(path, record | rollout.trajectory.to_dict())

    return write


def _plans(recipe: Recipe, parts: Parts, prompt: str) -> list[Plan]:
    """For a prompt; one that cannot be written for is refused before training, not in it."""
    most = recipe.evaluation.max_actions
    try:
        if isinstance(recipe.policy, Edits):
            config = DecodeConfig(max_actions=most, temperature=0.0)
            revising = Revising(vocab=parts.vocab, codec=parts.codec, config=config)
            plans = list(revising.plans(prompt))
        else:
            config = DecodeConfig(max_actions=most, seed=recipe.seed)
            plans = [continuation(parts.vocab, parts.codec, prompt, config)]
        for plan in plans:
            plan.request.check(parts.vocab, parts.context)
    except (ConfigError, VocabError) as error:
        raise ConfigError(f"evaluation.prompts has {prompt[:80]!r}: {error}") from error
    return plans


def _main_process_decides(actions: list[int]) -> list[int]:
    chosen: list[Any] = [actions]
    torch.distributed.broadcast_object_list(chosen)
    return list(chosen[0])


def is_sharded(model: Any) -> bool:
    """Whether each process holds a part of the weights only."""
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())
