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
from reviser.writing.model import Reviser
from reviser.writing.plan import Plan, plan_task
from reviser.writing.rollout import Revision
from reviser.writing.running import run_plans
from reviser.writing.tasks import Continue, Revise, Task


def sample_writer(recipe: Recipe, inputs: Inputs, path: Path) -> Callable[[Any, int], None]:
    """Return a function that has a model continue the prompts and appends the texts to a file.

    A model that learns to edit revises the prompts instead; each part of a long one is a line.
    """
    plans = [_plan(recipe, inputs, prompt) for prompt in recipe.evaluation.prompts]

    def write(model: Any, step: int) -> None:
        model = getattr(model, "module", model)  # DDP's wrapper would wait for the other processes
        is_main = not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0
        sharded = is_sharded(model)  # then each forward pass needs every process
        if not sharded and not is_main:
            return
        engine = (_ShardedEngine if sharded else HFEngine)(model, inputs.vocab)
        reviser = Reviser(engine, inputs.codec)
        for result in run_plans(plans, reviser.driver, reviser.provenance):
            for rollout in result.rollouts if isinstance(result, Revision) else [result]:
                record = {"step": step, "prompt": rollout.prompt, "text": rollout.text}
                record |= {"ended": rollout.stop_reason, **rollout.trajectory.to_dict()}
                if is_main:
                    append_line(path, record)

    return write


def _plan(recipe: Recipe, inputs: Inputs, prompt: str) -> Plan:
    """Plan the sample of a prompt, so that a bad prompt is refused before training starts."""
    settings: dict[str, Any] = {"max_actions": recipe.evaluation.max_actions}
    try:
        task: Task
        if isinstance(recipe.policy, Edits):
            # Edit probabilities are off: a sample shows what the model would write by itself.
            task = Revise(prompt, min_edit_probability=0)
            settings["temperature"] = 0.0
        else:
            task = Continue(prompt)
            settings["seed"] = recipe.seed
        plan = plan_task(task, DecodeConfig(**settings), vocab=inputs.vocab, codec=inputs.codec)
        for part in plan.parts:
            part.request.check(inputs.vocab, inputs.context)
    except (ConfigError, VocabError) as error:
        raise ConfigError(f"evaluation.prompts has {prompt[:80]!r}: {error}") from error
    return plan


class _ShardedEngine(HFEngine):
    """An engine of processes that share the weights: all take the main process's actions."""

    def _chosen(self, raw_BA: torch.Tensor, errors: dict[int, Exception]) -> list[int]:
        chosen: list[Any] = [super()._chosen(raw_BA, errors)]
        torch.distributed.broadcast_object_list(chosen)
        return list(chosen[0])


def is_sharded(model: Any) -> bool:
    """Return whether each process holds only a part of the weights."""
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())
