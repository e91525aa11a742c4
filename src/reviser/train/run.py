"""A training run: from a recipe to a model folder, through any number of kills and restarts.

The output is the model folder itself. It also holds the log, samples, checkpoints and provenance.
The training loop is the Trainer's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transformers import TrainingArguments

from reviser.data.pair_dataset import Visited
from reviser.errors import ConfigError
from reviser.models import adaptation
from reviser.models.editing import Editing
from reviser.train import dagger, session, sharded
from reviser.train.arguments import training_arguments
from reviser.train.inputs import held_out_set, training_set
from reviser.train.recipe import Recipe
from reviser.train.report import LogWriter
from reviser.train.resume import StopAt
from reviser.train.samples import sample_writer
from reviser.train.session import Session
from reviser.train.trainer import ReviserTrainer
from reviser.train.yaml_reader import to_plain
from reviser.trajectories.policy import Edits


def train(recipe: Recipe, output: str | Path) -> Path:
    """Run a recipe to its end, from the last complete checkpoint in the output if there is one.

    Processes on several machines need an output folder that all of them share.
    """
    if recipe.reinforce is not None:
        raise ConfigError(
            "This recipe has a section reinforce: run it with reviser train, or with"
            " reviser.lab.reinforce.run.reinforce."
        )
    output = Path(output)
    run = session.start(recipe, output, training_arguments(recipe, output, TrainingArguments))
    if run is None:
        return output
    for stop in dagger.stops(recipe):
        if stop > run.step or stop == recipe.training.steps:
            trainer = _train_until(stop, run)
            run.arguments.eval_on_start = False
    policy = recipe.policy
    run.finish(
        trainer,
        trainer.evaluate_once(),
        splits=[trainer.split, next(iter(trainer.held_out.values())).stream.split],
        editing=Editing(policy.edit_probabilities) if isinstance(policy, Edits) else None,
    )
    return output


def _train_until(stop: int, run: Session) -> ReviserTrainer:
    """Train from the last complete checkpoint until a step, and write a checkpoint there."""
    checkpoint = run.checkpoint()
    visited = dagger.rollouts(run.recipe, run.inputs, run.output, checkpoint, run.arguments)
    trainer = _trainer(run, stop=stop, visited=visited)
    run.fit(trainer, checkpoint)
    return trainer


def _trainer(run: Session, *, stop: int, visited: Sequence[Visited]) -> ReviserTrainer:
    recipe, inputs, output = run.recipe, run.inputs, run.output
    scored = recipe.evaluation.policies or {"held_out": recipe.policy}
    held_out = {name: held_out_set(recipe, inputs, policy) for name, policy in scored.items()}
    model, lora = inputs.model, recipe.training.lora
    if recipe.training.compile and run.arguments.device.type == "cpu":
        model.set_attn_implementation("eager")  # the faster one on CPUs once it is compiled
    if lora is not None:
        model = adaptation.with_lora(model, inputs.vocab, **to_plain(lora))
        if run.arguments.fsdp:
            sharded.keep_tied_rows_together(model)
    if recipe.training.compile:
        model.compile(dynamic=True)
    return ReviserTrainer(
        vocab=inputs.vocab,
        held_out=held_out,
        write_samples=sample_writer(recipe, inputs, output / "samples.jsonl"),
        model=model,
        args=run.arguments,
        train_dataset=training_set(recipe, inputs, visited),
        callbacks=[StopAt(stop), LogWriter(output / "log.jsonl"), run.bar],
    )
