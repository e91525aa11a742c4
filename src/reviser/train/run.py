"""A training run: from a recipe to a model folder, through any number of kills and restarts.

The output is the model folder itself. It also holds the log, samples, checkpoints and provenance.
The training loop is the Trainer's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainingArguments

from reviser.data.dataset import ExampleStream
from reviser.models import adaptation
from reviser.models.editing import Editing
from reviser.train import session, sharded
from reviser.train.arguments import training_arguments
from reviser.train.inputs import held_out_set, training_set
from reviser.train.recipe import Recipe
from reviser.train.report import LogWriter
from reviser.train.resume import StopAt
from reviser.train.samples import sample_writer, solver
from reviser.train.session import Session
from reviser.train.trainer import ReviserTrainer
from reviser.train.yaml_reader import to_plain
from reviser.trajectories.policy import AnyPolicy, Edits, Recorded


def train(recipe: Recipe, output: str | Path) -> Path:
    """Run a recipe to its end, from the last complete checkpoint in the output if there is one.

    Processes on several machines need an output folder that all of them share.
    """
    run = start(recipe, output)
    if run is not None:
        finish(run, train_until(recipe.training.steps, run))
    return Path(output)


def start(recipe: Recipe, output: str | Path) -> Session | None:
    """Open the inputs of a run; return None if the run is finished already."""
    output = Path(output)
    return session.start(recipe, output, training_arguments(recipe, output, TrainingArguments))


def finish(run: Session, trainer: ReviserTrainer) -> None:
    """Score the model at the end of training, and write it."""
    splits = [trainer.split, next(iter(trainer.held_out.values())).stream.split]
    editing = _editing(run.recipe.policy, splits[1])
    run.finish(trainer, trainer.evaluate_once(), splits=splits, editing=editing)


def _editing(policy: AnyPolicy, held_out: Any) -> Editing | None:
    """Return what a model learned about editing drafts; None if it was shown none."""
    if isinstance(policy, Edits):
        return Editing(policy.edit_probabilities)
    if isinstance(policy, Recorded) and policy.versions == "all":
        shows_drafts = bool(held_out.read(0).shown)
        return Editing(refresh=policy.refresh) if policy.refresh or shows_drafts else None
    return None


def train_until(stop: int, run: Session, stream: ExampleStream | None = None) -> ReviserTrainer:
    """Train from the last complete checkpoint until a step, and write a checkpoint there.

    `stream` has the examples, if they are not those of the recipe's policy alone.
    """
    checkpoint = run.checkpoint()
    trainer = _trainer(run, stop, stream)
    run.fit(trainer, checkpoint)
    return trainer


def _trainer(run: Session, stop: int, stream: ExampleStream | None) -> ReviserTrainer:
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
        solve=solver(recipe, inputs),
        model=model,
        args=run.arguments,
        train_dataset=training_set(recipe, inputs, stream),
        callbacks=[StopAt(stop), LogWriter(output / "log.jsonl"), run.bar],
    )
