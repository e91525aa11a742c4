"""Texts written while a model is trained, so that a person can see it learn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from reviser.core.canvas import Canvas
from reviser.engines.base import DecodeConfig
from reviser.engines.hf import rollout
from reviser.errors import ConfigError, VocabError
from reviser.train.parts import Parts
from reviser.train.recipe import Recipe
from reviser.train.report import append_line


def sample_writer(recipe: Recipe, parts: Parts, path: Path) -> Callable[[Any, int], None]:
    """A function that has a model continue the recipe's prompts, and adds the texts to a file."""
    prompts = []
    for prompt in recipe.evaluation.prompts:  # before training, so that a bad one costs none
        prefix = parts.codec.encode(prompt)
        try:
            free = parts.context - len(parts.vocab.prefix_actions(prefix))
        except VocabError as error:
            raise ConfigError(f"evaluation.prompts has {prompt!r}: {error}") from error
        if free < 1:
            raise ConfigError(
                f"evaluation.prompts has {prompt!r}, {len(prefix)} tokens, which leaves no room in"
                f" a context of {parts.context}."
            )
        most = min(free, recipe.evaluation.max_actions)
        limit = "context" if free < recipe.evaluation.max_actions else "max_actions"
        config = DecodeConfig(max_actions=most, seed=recipe.seed)
        prompts.append((prompt, prefix, config, limit))

    def write(model: Any, step: int) -> None:
        model = getattr(model, "module", model)  # not DDP's, which would wait for the others
        is_main = not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0
        sharded = is_sharded(model)  # then each forward needs every process
        if not sharded and not is_main:
            return
        agree = _main_process_decides if sharded else int
        for prompt, prefix, config, limit in prompts:
            trajectory = rollout(model, parts.vocab, prefix, config, agree=agree)
            canvas = Canvas.replay(parts.vocab, [*prefix, *trajectory.restoration])
            text = parts.codec.decode(canvas.tokens())
            ended = "stop" if canvas.is_finished else limit
            record = {"step": step, "prompt": prompt, "text": text, "ended": ended}
            record |= json.loads(trajectory.to_json())
            if is_main:
                append_line(path, record)

    return write


def _main_process_decides(action: int) -> int:
    chosen: list[Any] = [action]
    torch.distributed.broadcast_object_list(chosen)
    return int(chosen[0])


def is_sharded(model: Any) -> bool:
    """Whether each process holds a part of the weights only."""
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())
