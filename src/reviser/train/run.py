"""A training run: recipe in, model folder out, killed and restarted as often as need be.

The output is the model folder itself, with the log, samples, checkpoints and provenance beside
the weights. The loop is the Trainer's.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import torch
import transformers
from safetensors import SafetensorError
from transformers import TrainingArguments
from transformers.integrations import TensorBoardCallback

from reviser.errors import CheckpointError, ReviserError
from reviser.files import write_json
from reviser.models import trunks
from reviser.provenance import made_with
from reviser.train.arguments import training_arguments
from reviser.train.inputs import Parts, held_out_set, make_missing, open_parts, training_set
from reviser.train.recipe import Recipe
from reviser.train.report import JsonLines, TerminalBar, cut_after
from reviser.train.resume import (
    MarkComplete,
    check_claim,
    check_layout,
    check_meeting,
    claim,
    last_checkpoint,
    meet,
    step_of,
)
from reviser.train.samples import is_sharded, sample_writer
from reviser.train.trainer import SEEN, ReviserTrainer
from reviser.train.yaml_reader import to_plain

_T = TypeVar("_T")


def train(recipe: Recipe, output: str | Path) -> Path:
    """Run a recipe to its end, from the last complete checkpoint in the output if there is one.

    Processes on several machines need the output on a disk that all of them share.
    """
    output = Path(output)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    arguments = training_arguments(recipe, output)

    def begin() -> tuple[str, str | None]:
        output.mkdir(parents=True, exist_ok=True)
        check_claim(output, recipe)
        make_missing(recipe, output)
        return meet(output), last_checkpoint(output)

    word, checkpoint = _in_main_process(arguments, begin)
    check_meeting(output, word)
    bar = TerminalBar()
    step = 0 if checkpoint is None else step_of(checkpoint)
    if step == recipe.training.steps and (output / "run.json").is_file():
        bar.say(f"{output} is finished. To score the model anew, delete its run.json.")
        return output
    parts = open_parts(recipe, output)
    parameters = _parameters(parts.model)
    _in_main_process(arguments, lambda: claim(output, recipe, parts))
    trainer = _trainer(recipe, parts, arguments, output, bar)
    if checkpoint is not None:
        check_layout(Path(checkpoint), arguments)
    if arguments.process_index == 0:
        # What follows the checkpoint will be done, and told, again.
        last, kept = recipe.training.steps, step if checkpoint else -1
        counts = cut_after(output / "log.jsonl", kept, last=last)
        cut_after(output / "samples.jsonl", kept, last=last)
        trainer.seen |= {name: counts.get(f"{name}_seen", 0) for name in SEEN}
    # What a base can do before it is trained is worth knowing after.
    arguments.eval_on_start = recipe.base is not None and checkpoint is None
    several = f", {arguments.world_size} processes" * (arguments.world_size > 1)
    steps = f"from step {step} of {recipe.training.steps}"
    bar.say(f"{parameters / 1e6:.1f}M parameters{several}, {steps}")
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    except SafetensorError as error:
        raise CheckpointError(
            f"Cannot open {checkpoint!r}: {error}. Delete it to go on from an earlier one."
        ) from error
    finally:
        bar.stop()  # also when interrupted: it hides the cursor
    metrics = trainer.evaluate_once()
    record = _provenance(recipe, parts, trainer) | {"parameters": parameters, "metrics": metrics}
    _save(trainer, parts, output)
    if arguments.process_index == 0:
        write_json(output / "run.json", record)
    return output


def _in_main_process(arguments: TrainingArguments, work: Callable[[], _T]) -> _T:
    """Have one process do something; every process gets its result, or its refusal."""
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
    recipe: Recipe, parts: Parts, arguments: TrainingArguments, output: Path, bar: TerminalBar
) -> ReviserTrainer:
    scored = recipe.evaluation.policies or {"held_out": recipe.policy}
    held_out = {name: held_out_set(recipe, parts, policy) for name, policy in scored.items()}
    model, lora = parts.model, recipe.training.lora
    if recipe.training.compile and arguments.device.type == "cpu":
        model.set_attn_implementation("eager")  # compiled, the faster one there
    if lora is not None:
        model = trunks.with_lora(model, parts.vocab, **to_plain(lora))
    if recipe.training.compile:
        model.compile(dynamic=True)
    trainer = ReviserTrainer(
        vocab=parts.vocab,
        held_out=held_out,
        write_samples=sample_writer(recipe, parts, output / "samples.jsonl"),
        model=model,
        args=arguments,
        train_dataset=training_set(recipe, parts),
        callbacks=[JsonLines(output / "log.jsonl"), bar, MarkComplete()],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    board = trainer.pop_callback(TensorBoardCallback)
    if isinstance(board, TensorBoardCallback):
        board.logging_dir = str(output / "tensorboard")
        trainer.add_callback(board)
    return trainer


def _parameters(model: Any, *, trained_only: bool = False) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad or not trained_only)


def _save(trainer: ReviserTrainer, parts: Parts, output: Path) -> None:
    model: Any = trainer.model
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    weights = trainer.accelerator.get_state_dict(model)  # gathers shards: every process helps
    if trainer.args.process_index == 0:
        kept = {k: v for k, v in weights.items() if k not in model.all_tied_weights_keys}
        trunks.save_weights(model, output, state_dict=kept)
        trunks.save_tokenizer(parts.tokenizer, parts.vocab, output)


def _provenance(recipe: Recipe, parts: Parts, trainer: ReviserTrainer) -> dict[str, Any]:
    scored = next(iter(trainer.held_out.values()))
    windows = [trainer.windows, scored.stream.windows]
    parallel = "fsdp" if is_sharded(trainer.model) else "ddp"
    return {
        "recipe": to_plain(recipe),
        "data": parts.data.fingerprint,
        "tokenizer": parts.codec.fingerprint,
        "trained_parameters": _parameters(trainer.model, trained_only=True),
        "windows": [len(side) for side in windows],
        "left_out": [side.left_out for side in windows],
        "processes": trainer.args.world_size,
        "parallel": parallel if trainer.args.world_size > 1 else None,
        "seen": trainer.seen,
        "flops": trainer.state.total_flos,
        **made_with("torch", "transformers", "accelerate", "datatrove", "numpy"),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
