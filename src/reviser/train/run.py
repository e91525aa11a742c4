"""A training run: from a recipe to a model folder, through any number of kills and restarts.

The output is the model folder itself. It also holds the log, samples, checkpoints and provenance.
The training loop is the Trainer's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import torch
import transformers
from safetensors import SafetensorError
from transformers import TrainingArguments
from transformers.integrations import TensorBoardCallback

from reviser.data.pair_dataset import Visited
from reviser.errors import CheckpointError, ReviserError
from reviser.files import write_json
from reviser.models import adaptation, trunks
from reviser.models.editing import Editing
from reviser.provenance import made_with
from reviser.train import dagger
from reviser.train.arguments import training_arguments
from reviser.train.inputs import Inputs, held_out_set, make_missing, open_inputs, training_set
from reviser.train.recipe import Recipe
from reviser.train.report import LogWriter, TerminalBar, truncate_log
from reviser.train.resume import (
    MarkComplete,
    StopAt,
    check_claim,
    check_layout,
    check_start_token,
    claim,
    last_checkpoint,
    step_of,
    write_start_token,
)
from reviser.train.samples import is_sharded, sample_writer
from reviser.train.trainer import SEEN, ReviserTrainer
from reviser.train.yaml_reader import to_plain
from reviser.trajectories.policy import Edits

_T = TypeVar("_T")


def train(recipe: Recipe, output: str | Path) -> Path:
    """Run a recipe to its end, from the last complete checkpoint in the output if there is one.

    Processes on several machines need an output folder that all of them share.
    """
    output = Path(output)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    arguments = training_arguments(recipe, output)

    def begin() -> tuple[str, str | None]:
        output.mkdir(parents=True, exist_ok=True)
        check_claim(output, recipe)
        make_missing(recipe, output)
        return write_start_token(output), last_checkpoint(output)

    token, checkpoint = _in_main_process(arguments, begin)
    check_start_token(output, token)
    bar = TerminalBar()
    step = 0 if checkpoint is None else step_of(checkpoint)
    if step == recipe.training.steps and (output / "run.json").is_file():
        bar.print(f"{output} is finished. To score the model again, delete its run.json.")
        return output
    inputs = open_inputs(recipe, output)
    if inputs.note:
        bar.print(inputs.note)
    parameters = _parameters(inputs.model)
    _in_main_process(arguments, lambda: claim(output, recipe, inputs))
    # Score a base before training too, to compare with the score after it.
    arguments.eval_on_start = recipe.base is not None and checkpoint is None
    for stop in dagger.stops(recipe):
        if stop > step or stop == recipe.training.steps:
            trainer = _train_until(stop, recipe, inputs, arguments, output, bar)
            arguments.eval_on_start = False
    metrics = trainer.evaluate_once()
    record = _provenance(recipe, inputs, trainer) | {"parameters": parameters, "metrics": metrics}
    _save(trainer, inputs, output)
    if arguments.process_index == 0:
        if isinstance(recipe.policy, Edits):
            Editing(edit_probabilities=recipe.policy.edit_probabilities).save(output)
        write_json(output / "run.json", record)
    return output


def _train_until(
    stop: int,
    recipe: Recipe,
    inputs: Inputs,
    arguments: TrainingArguments,
    output: Path,
    bar: TerminalBar,
) -> ReviserTrainer:
    """Train from the last complete checkpoint until a step, and write a checkpoint there."""
    checkpoint = _in_main_process(arguments, lambda: last_checkpoint(output))
    rank, world = arguments.process_index, arguments.world_size
    visited = dagger.rollouts(recipe, inputs, output, checkpoint, arguments)
    several = f", {world} processes" * (world > 1)
    steps = f"from step {0 if checkpoint is None else step_of(checkpoint)} of"
    line = f"{_parameters(inputs.model) / 1e6:.1f}M parameters{several}, {steps}"
    trainer = _trainer(recipe, inputs, arguments, output, bar, stop=stop, visited=visited)
    bar.print(f"{line} {recipe.training.steps}")  # once nothing can be refused any more
    if checkpoint is not None:
        check_layout(Path(checkpoint), arguments)
    if rank == 0:
        # The steps after the checkpoint will be run and logged again.
        last, kept = recipe.training.steps, -1 if checkpoint is None else step_of(checkpoint)
        counts = truncate_log(output / "log.jsonl", kept, last=last)
        truncate_log(output / "samples.jsonl", kept, last=last)
        trainer.seen |= {name: counts.get(f"{name}_seen", 0) for name in SEEN}
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    except SafetensorError as error:
        raise CheckpointError(
            f"Cannot open {checkpoint!r}: {error}. Delete it to resume from an earlier one."
        ) from error
    finally:
        bar.stop()  # also when interrupted, because the bar hides the cursor
    return trainer


def _in_main_process(arguments: TrainingArguments, work: Callable[[], _T]) -> _T:
    """Run a function in one process; return its result, or raise its error, in all of them."""
    outcome: list[Any] = [None, None]
    if arguments.process_index == 0:
        try:
            outcome[0] = work()
        except ReviserError as error:
            outcome[1] = error
    if arguments.world_size > 1:
        torch.distributed.broadcast_object_list(outcome)
    if outcome[1] is not None:
        raise outcome[1]
    result: _T = outcome[0]
    return result


def _trainer(
    recipe: Recipe,
    inputs: Inputs,
    arguments: TrainingArguments,
    output: Path,
    bar: TerminalBar,
    *,
    stop: int,
    visited: Sequence[Visited],
) -> ReviserTrainer:
    scored = recipe.evaluation.policies or {"held_out": recipe.policy}
    held_out = {name: held_out_set(recipe, inputs, policy) for name, policy in scored.items()}
    model, lora = inputs.model, recipe.training.lora
    if recipe.training.compile and arguments.device.type == "cpu":
        model.set_attn_implementation("eager")  # the faster one on CPUs once it is compiled
    if lora is not None:
        model = adaptation.with_lora(model, inputs.vocab, **to_plain(lora))
    if recipe.training.compile:
        model.compile(dynamic=True)
    trainer = ReviserTrainer(
        vocab=inputs.vocab,
        held_out=held_out,
        write_samples=sample_writer(recipe, inputs, output / "samples.jsonl"),
        model=model,
        args=arguments,
        train_dataset=training_set(recipe, inputs, visited),
        callbacks=[StopAt(stop), LogWriter(output / "log.jsonl"), bar, MarkComplete()],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    board = trainer.pop_callback(TensorBoardCallback)
    if isinstance(board, TensorBoardCallback):
        board.logging_dir = str(output / "tensorboard")
        trainer.add_callback(board)
    return trainer


def _parameters(model: Any, *, trained_only: bool = False) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad or not trained_only)


def _save(trainer: ReviserTrainer, inputs: Inputs, output: Path) -> None:
    model: Any = trainer.model
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    weights = trainer.accelerator.get_state_dict(model)  # gathers shards from every process
    if trainer.args.process_index == 0:
        kept = {k: v for k, v in weights.items() if k not in model.all_tied_weights_keys}
        trunks.save_weights(model, output, state_dict=kept)
        trunks.save_tokenizer(inputs.tokenizer, inputs.vocab, output)


def _provenance(recipe: Recipe, inputs: Inputs, trainer: ReviserTrainer) -> dict[str, Any]:
    scored = next(iter(trainer.held_out.values()))
    splits = [trainer.split, scored.stream.split]
    parallel = "fsdp" if is_sharded(trainer.model) else "ddp"
    return {
        "recipe": to_plain(recipe),
        "data": inputs.data.fingerprint,
        "tokenizer": inputs.codec.fingerprint,
        "trained_parameters": _parameters(trainer.model, trained_only=True),
        "windows": [len(split) for split in splits],
        "left_out": [split.left_out for split in splits],
        "processes": trainer.args.world_size,
        "parallel": parallel if trainer.args.world_size > 1 else None,
        "seen": trainer.seen,
        "flops": trainer.state.total_flos,
        **made_with("torch", "transformers", "accelerate", "datatrove", "numpy"),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
