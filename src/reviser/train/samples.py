"""Sample texts that a model writes during training, so that a person can see it learn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from reviser.engines.base import DecodeConfig
from reviser.engines.hf import HFEngine
from reviser.errors import ConfigError, VocabError
from reviser.train.inputs import Inputs
from reviser.train.recipe import Recipe
from reviser.train.report import append_line
from reviser.trajectories.policy import Edits
from reviser.writing.driver import Flow, Inline, run_many
from reviser.writing.flows import act
from reviser.writing.prompts import Model, Prompt, prompts_of
from reviser.writing.rollout import Rollout
from reviser.writing.tasks import Continue, Revise, Task
from reviser.writing.text import Writing


def sample_writer(recipe: Recipe, inputs: Inputs, path: Path) -> Callable[[Any, int], None]:
    """Return a function that has a model continue the prompts and appends the texts to a file.

    A model that learns to edit revises the prompts instead; each part of a long one is a line.
    """
    texts = recipe.evaluation.prompts
    shown = [prompt for text in texts for prompt in _prompts(recipe, inputs, text)]

    def write(model: Any, step: int) -> None:
        model = getattr(model, "module", model)  # DDP's wrapper would wait for the other processes
        is_main = not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0
        sharded = is_sharded(model)  # then each forward pass needs every process
        if not sharded and not is_main:
            return
        engine = (_ShardedEngine if sharded else HFEngine)(model, inputs.vocab)
        # In this thread: processes that share the weights must go in step.
        for run in run_many((_write(prompt, inputs) for prompt in shown), Inline(engine)):
            rollout = run.wait()
            record = {"step": step, "prompt": rollout.prompt, "text": rollout.text}
            record |= {"ended": rollout.stop_reason, **rollout.trajectory.to_dict()}
            if is_main:
                append_line(path, record)

    return write


def _write(prompt: Prompt, inputs: Inputs) -> Flow[Rollout]:
    writing = Writing(prompt, _model(inputs))
    yield from act([writing])
    return writing.rollout()


def _model(inputs: Inputs) -> Model:
    return Model(vocab=inputs.vocab, codec=inputs.codec, context=inputs.context)


def _prompts(recipe: Recipe, inputs: Inputs, prompt: str) -> list[Prompt]:
    """Return the prompts of a sample; a bad one is refused before training starts."""
    settings: dict[str, Any] = {"max_actions": recipe.evaluation.max_actions}
    try:
        task: Task
        if isinstance(recipe.policy, Edits):
            task = Revise(prompt)
            settings["temperature"] = 0.0
        else:
            task = Continue(prompt)
            settings["seed"] = recipe.seed
        return prompts_of(task, _model(inputs), DecodeConfig(**settings))
    except (ConfigError, VocabError) as error:
        raise ConfigError(f"evaluation.prompts has {prompt[:80]!r}: {error}") from error


class _ShardedEngine(HFEngine):
    """An engine of processes that share the weights: all take the main process's actions."""

    def _chosen(self, raw_BA: torch.Tensor, errors: dict[int, Exception]) -> list[int]:
        chosen: list[Any] = [super()._chosen(raw_BA, errors)]
        torch.distributed.broadcast_object_list(chosen)
        return list(chosen[0])


def is_sharded(model: Any) -> bool:
    """Return whether each process holds only a part of the weights."""
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())
