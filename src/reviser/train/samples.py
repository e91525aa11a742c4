"""What a model writes during training: sample texts, and held-out prompts that it should solve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from reviser.core.actions import ActionVocab
from reviser.core.canvas import Canvas
from reviser.core.trajectory import Trajectory
from reviser.engines.base import DecodeConfig, Request
from reviser.engines.hf import HFEngine
from reviser.errors import ConfigError, VocabError
from reviser.train.inputs import Inputs, recorded_stream
from reviser.train.recipe import Recipe
from reviser.train.report import append_line
from reviser.trajectories.policy import Edits, Recorded
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
    about = _model(recipe, inputs)

    def write(model: Any, step: int) -> None:
        model = getattr(model, "module", model)  # DDP's wrapper would wait for the other processes
        is_main = not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0
        sharded = is_sharded(model)  # then each forward pass needs every process
        if not sharded and not is_main:
            return
        engine = (_ShardedEngine if sharded else HFEngine)(model, inputs.vocab)
        # In this thread: processes that share the weights must go in step.
        for run in run_many((_write(prompt, about) for prompt in shown), Inline(engine)):
            rollout = run.wait()
            record = {"step": step, "prompt": rollout.prompt, "text": rollout.text}
            record |= {"ended": rollout.stop_reason, **rollout.trajectory.to_dict()}
            if is_main:
                append_line(path, record)

    return write


def solver(recipe: Recipe, inputs: Inputs) -> Callable[[Any], dict[str, float]]:
    """Return a function that has a model continue held-out recordings greedily and scores them.

    A recording is solved if the text is exactly the recorded one when the model stops.
    """
    count = recipe.evaluation.solve
    if not count:
        return lambda _: {}
    policy = recipe.policy
    assert isinstance(policy, Recorded)  # the recipe was checked
    split = recorded_stream(recipe, inputs, policy, held_out=True).split
    whole = replace(policy, refresh=None).compile(inputs.vocab, inputs.context)
    recordings = [whole(split.read(index))[0] for index in range(min(count, len(split)))]
    config = DecodeConfig(temperature=0.0, max_actions=recipe.evaluation.max_actions)
    prompts = [prompt_of(inputs.vocab, recording, config) for recording in recordings]
    goals = [recording.target(inputs.vocab) for recording in recordings]
    about = _model(recipe, inputs)

    def solve(model: Any) -> dict[str, float]:
        model = getattr(model, "module", model)
        engine = (_ShardedEngine if is_sharded(model) else HFEngine)(model, inputs.vocab)
        flows = (_write(prompt, about) for prompt in prompts)
        rollouts = [run.wait() for run in run_many(flows, Inline(engine))]
        solved = [
            rollout.stop_reason == "stop" and rollout.trajectory.target(inputs.vocab) == goal
            for rollout, goal in zip(rollouts, goals, strict=True)
        ]
        low, high = wilson(sum(solved), len(solved))
        return {"solved": sum(solved) / len(solved), "solved_low": low, "solved_high": high}

    return solve


def prompt_of(vocab: ActionVocab, recording: Trajectory, config: DecodeConfig) -> Prompt:
    """Return the prompt that asks for what was recorded: after the prefix, and the draft shown."""
    canvas = Canvas.replay(vocab, [*recording.prefix, *recording.shown])
    request = Request(
        history=(*vocab.prefix_actions(recording.prefix), *recording.shown),
        length=len(canvas),
        cursor=canvas.cursor,
        editable=((len(recording.prefix), len(canvas)),),
        config=config,
    )
    return Prompt(text="", prefix=recording.prefix, preamble=recording.shown, request=request)


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, by Wilson's formula.

    >>> low, high = wilson(50, 100)
    >>> round(low, 3), round(high, 3)
    (0.404, 0.596)
    """
    z = 1.96
    share, spread = successes / trials, z * z / trials
    centre = (share + spread / 2) / (1 + spread)
    half = (share * (1 - share) * spread + spread * spread / 4) ** 0.5 / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)


def _write(prompt: Prompt, model: Model) -> Flow[Rollout]:
    writing = Writing(prompt, model)
    yield from act([writing], model)
    return writing.rollout()


def _model(recipe: Recipe, inputs: Inputs) -> Model:
    refresh = recipe.policy.refresh if isinstance(recipe.policy, Recorded) else None
    return Model(vocab=inputs.vocab, codec=inputs.codec, context=inputs.context, refresh=refresh)


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
        return prompts_of(task, _model(recipe, inputs), DecodeConfig(**settings))
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
