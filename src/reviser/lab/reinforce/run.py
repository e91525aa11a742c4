"""A run of reinforcement learning: from a recipe to a model folder, with restarts.

The frame of the run is that of all training; the loop is TRL's.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from trl import GRPOConfig

from reviser.errors import ConfigError
from reviser.files import claim
from reviser.lab.canvas_trunks import reads_canvas
from reviser.lab.recipe import LabRecipe
from reviser.lab.reinforce.prompts import HELD_OUT, TRAINING, Prompts
from reviser.lab.reinforce.rewards import open_reward
from reviser.lab.reinforce.trainer import EditGRPOTrainer
from reviser.models import hub
from reviser.models.editing import Editing
from reviser.train import session
from reviser.train.arguments import training_arguments
from reviser.train.report import LogWriter
from reviser.train.resume import MarkComplete, StopAt
from reviser.train.samples import sample_writer
from reviser.train.session import Session


def reinforce(recipe: LabRecipe, output: str | Path) -> Path:
    """Run a recipe with a section `reinforce` to its end, from its last complete checkpoint."""
    if recipe.reinforce is None or recipe.base is None:
        raise ConfigError("This recipe has no section reinforce: run it with reviser lab train.")
    output = Path(output)
    arguments = training_arguments(recipe, output, GRPOConfig, **_options(recipe))
    if recipe.training.batch // arguments.world_size % recipe.reinforce.group:
        raise ConfigError(
            f"training.batch is {recipe.training.batch} rollouts in {arguments.world_size}"
            f" processes; each needs a multiple of reinforce.group, {recipe.reinforce.group}."
        )
    run = session.start(recipe, output, arguments)
    if run is None:
        return output
    if reads_canvas(run.inputs.model):
        raise ConfigError(f"{recipe.base} reads the canvas, which reinforce does not support.")
    # The base is the reference throughout, so it must not change while a run is interrupted.
    folder = hub.find(recipe.base)
    reference = hub.identity(folder)
    session.in_main_process(arguments, lambda: claim(output / "reference.json", reference))
    with warnings.catch_warnings():
        for message in ("You are using 'rollout_func'", "`is_gradient_checkpointing` is"):
            warnings.filterwarnings("ignore", message)  # TRL's, about itself and Transformers
        trainer = _trainer(recipe, run)
        run.fit(trainer, run.checkpoint())
        metrics = trainer.evaluate_once()
    editing = Editing.load(folder)
    run.finish(
        trainer,
        {name: value for name, value in metrics.items() if value is not None},
        splits=[trainer.prompts[split].stream.split for split in (TRAINING, HELD_OUT)],
        # What was measured of the base is not true of this model.
        editing=editing and replace(editing, calibration=()),
        packages=["trl"],
    )
    return output


def _options(recipe: LabRecipe) -> dict[str, Any]:
    """Return what GRPO needs beyond the settings of all training."""
    settings = recipe.reinforce
    assert settings is not None
    # Ranks need a group; other rewards are measured on one rollout per prompt.
    samples = settings.group if settings.reward.kind == "judge" else 1
    return {
        "per_device_train_batch_size": recipe.training.micro_batch,
        "per_device_eval_batch_size": samples * max(1, recipe.training.micro_batch // samples),
        "num_generations": settings.group,
        "num_generations_eval": samples,
        "num_iterations": settings.updates,
        "max_completion_length": settings.max_actions,
        "temperature": settings.temperature,
        "beta": settings.kl,
        "epsilon": settings.clip,
        "entropy_coef": settings.entropy,
        "reward_weights": [1.0, -settings.price_per_action],
        "shuffle_dataset": False,  # the order of the prompts is ours
        "gradient_checkpointing": None,  # by default on in TRL; False warns of its new name
    }


def _trainer(recipe: LabRecipe, run: Session) -> EditGRPOTrainer:
    inputs, output = run.inputs, run.output
    assert recipe.reinforce is not None
    prompts = {split: Prompts(recipe, inputs, split) for split in (TRAINING, HELD_OUT)}
    return EditGRPOTrainer(
        recipe=recipe,
        inputs=inputs,
        prompts=prompts,
        held_out=min(recipe.evaluation.examples, len(prompts[HELD_OUT])),
        reward=open_reward(recipe.reinforce.reward, str(run.arguments.device)),
        write_samples=sample_writer(recipe, inputs, output / "samples.jsonl"),
        model=inputs.model,
        args=run.arguments,
        callbacks=[
            StopAt(recipe.training.steps),
            LogWriter(output / "log.jsonl"),
            run.bar,
            MarkComplete(),
        ],
    )
