"""Texts written while a model is trained, so that a person can see it learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from reviser.core.policy import Edits
from reviser.engines.base import DecodeConfig
from reviser.engines.hf import HFEngine
from reviser.errors import ConfigError, VocabError
from reviser.generate import Plan, Reviser
from reviser.train.parts import Parts
from reviser.train.recipe import Recipe
from reviser.train.report import append_line


def sample_writer(recipe: Recipe, parts: Parts, path: Path) -> Callable[[Any, int], None]:
    """A function that has a model continue the recipe's prompts, and adds the texts to a file.

    A model that learns to edit revises them.
    """
    requests = [_request(recipe, parts, prompt) for prompt in recipe.evaluation.prompts]

    def write(model: Any, step: int) -> None:
        model = getattr(model, "module", model)  # not DDP's, which would wait for the others
        is_main = not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0
        sharded = is_sharded(model)  # then each forward needs every process
        if not sharded and not is_main:
            return
        agree = _main_process_decides if sharded else list
        engine = HFEngine(model, parts.vocab, agree=agree)
        reviser = Reviser(engine, parts.codec)
        plans = [_plan(reviser, recipe, *request) for request in requests]
        for (prompt, _), rollout in zip(requests, reviser.write_many(plans), strict=True):
            told = {"text": rollout.text, "ended": rollout.stop_reason}
            record = {"step": step, "prompt": prompt, **told, **rollout.trajectory.to_dict()}
            if is_main:
                append_line(path, record)

    return write


def _plan(reviser: Reviser, recipe: Recipe, prompt: str, config: DecodeConfig) -> Plan:
    if not isinstance(recipe.policy, Edits):
        return reviser.plan(prompt, **asdict(config))
    return next(reviser.plan_revise(prompt, max_actions=config.max_actions))


def _request(recipe: Recipe, parts: Parts, prompt: str) -> tuple[str, DecodeConfig]:
    """A prompt that can be continued, refused before training rather than in the middle of it."""
    prefix = parts.codec.encode(prompt)
    try:
        free = parts.context - len(parts.vocab.prefix_actions(prefix))
    except VocabError as error:
        raise ConfigError(f"evaluation.prompts has {prompt!r}: {error}") from error
    if free < 1:
        raise ConfigError(
            f"evaluation.prompts has {prompt!r}, {len(prefix)} tokens, which leaves no room in a"
            f" context of {parts.context}."
        )
    return prompt, DecodeConfig(max_actions=recipe.evaluation.max_actions, seed=recipe.seed)


def _main_process_decides(actions: list[int]) -> list[int]:
    chosen: list[Any] = [actions]
    torch.distributed.broadcast_object_list(chosen)
    return list(chosen[0])


def is_sharded(model: Any) -> bool:
    """Whether each process holds a part of the weights only."""
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())
