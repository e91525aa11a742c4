"""The frame of a training run: claim its output, resume, and write model and provenance at the end.

Every method of training shares it. It knows Trainers of Transformers, but not what they learn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import torch
import transformers
from safetensors import SafetensorError
from transformers import TrainingArguments
from transformers.integrations import TensorBoardCallback

from reviser.data.dataset import Split
from reviser.errors import CheckpointError, ReviserError
from reviser.files import write_json
from reviser.models import adaptation, trunks
from reviser.models.editing import Editing
from reviser.provenance import made_with
from reviser.train.card import write_card
from reviser.train.inputs import Inputs, make_missing, open_inputs
from reviser.train.recipe import Recipe
from reviser.train.report import TerminalBar, truncate_log
from reviser.train.resume import (
    check_claim,
    check_layout,
    check_start_token,
    claim,
    last_checkpoint,
    step_of,
    write_start_token,
)
from reviser.train.samples import is_sharded
from reviser.train.yaml_reader import to_plain

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Session:
    """A run that has been started or resumed in this process."""

    recipe: Recipe
    inputs: Inputs
    arguments: TrainingArguments
    output: Path
    bar: TerminalBar
    parameters: int
    step: int
    """The step that it starts from."""

    def checkpoint(self) -> str | None:
        """Return the newest complete checkpoint, the same in every process."""
        return in_main_process(self.arguments, lambda: last_checkpoint(self.output))

    def fit(self, trainer: Any, checkpoint: str | None) -> None:
        """Train from a checkpoint; the Trainer's `seen` continues with the counts of the log."""
        output, arguments = self.output, self.arguments
        if (0 if checkpoint is None else step_of(checkpoint)) == self.step:
            self._begin()
        _report_in(trainer, output)
        if checkpoint is not None:
            check_layout(Path(checkpoint), arguments)
        if arguments.process_index == 0:
            # The steps after the checkpoint will be run and logged again.
            last = self.recipe.training.steps
            kept = -1 if checkpoint is None else step_of(checkpoint)
            counts = truncate_log(output / "log.jsonl", kept, last=last)
            truncate_log(output / "samples.jsonl", kept, last=last)
            trainer.seen |= {name: counts.get(f"{name}_seen", 0) for name in trainer.seen}
        try:
            trainer.train(resume_from_checkpoint=checkpoint)
        except SafetensorError as error:
            raise CheckpointError(
                f"Cannot open {checkpoint!r}: {error}. Delete it to resume from an earlier one."
            ) from error
        finally:
            self.bar.stop()  # also when interrupted, because the bar hides the cursor

    def _begin(self) -> None:
        """Claim the output and report the start, once a Trainer was made without an error."""
        in_main_process(self.arguments, lambda: claim(self.output, self.recipe, self.inputs))
        several = f", {self.arguments.world_size} processes" * (self.arguments.world_size > 1)
        steps = f"from step {self.step} of {self.recipe.training.steps}"
        self.bar.print(f"{self.parameters / 1e6:.1f}M parameters{several}, {steps}")

    def finish(
        self,
        trainer: Any,
        metrics: dict[str, float],
        *,
        splits: Sequence[Split],
        editing: Editing | None,
        packages: Sequence[str] = (),
    ) -> None:
        """Write the model folder and its card, and last the provenance: the run is finished."""
        record = {
            "recipe": to_plain(self.recipe),
            "data": self.inputs.data.fingerprint,
            "tokenizer": self.inputs.codec.fingerprint,
            "trained_parameters": count_parameters(trainer.model, trained_only=True),
            "windows": [len(split) for split in splits],
            "left_out": [split.left_out for split in splits],
            "processes": trainer.args.world_size,
            "parallel": _parallel(trainer),
            "seen": trainer.seen,
            "flops": trainer.state.total_flos,
            **made_with("torch", "transformers", "accelerate", "datatrove", "numpy", *packages),
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "parameters": self.parameters,
            "metrics": metrics,
        }
        self._save(trainer)
        if self.arguments.process_index == 0:
            if editing is not None:
                editing.save(self.output)
            write_card(self.output, record, is_editor=editing is not None)
            write_json(self.output / "run.json", record)

    def _save(self, trainer: Any) -> None:
        model: Any = trainer.model
        is_main, lora = trainer.args.process_index == 0, self.recipe.training.lora
        if lora is not None and not is_sharded(model):
            model = model.merge_and_unload()
        weights = trainer.accelerator.get_state_dict(model)  # gathers shards from every process
        if lora is not None and is_sharded(model) and is_main:
            model = adaptation.merge_lora(model, weights, self.inputs.vocab, **to_plain(lora))
            weights = model.state_dict()
        if is_main:
            kept = {k: v for k, v in weights.items() if k not in model.all_tied_weights_keys}
            trunks.save_weights(model, self.output, state_dict=kept)
            trunks.save_tokenizer(self.inputs.tokenizer, self.inputs.vocab, self.output)


def start(recipe: Recipe, output: Path, arguments: TrainingArguments) -> Session | None:
    """Open the inputs of a run; return None if the run is finished already."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()

    def begin() -> tuple[str, str | None]:
        output.mkdir(parents=True, exist_ok=True)
        check_claim(output, recipe)
        make_missing(recipe, output)
        return write_start_token(output), last_checkpoint(output)

    token, checkpoint = in_main_process(arguments, begin)
    check_start_token(output, token)
    bar = TerminalBar()
    step = 0 if checkpoint is None else step_of(checkpoint)
    if step == recipe.training.steps and (output / "run.json").is_file():
        bar.print(f"{output} is finished. To score the model again, delete its run.json.")
        return None
    inputs = open_inputs(recipe, output)
    if inputs.note:
        bar.print(inputs.note)
    parameters = count_parameters(inputs.model)
    # Score a base before training too, to compare with the score after it.
    arguments.eval_on_start = recipe.base is not None and checkpoint is None
    return Session(
        recipe=recipe,
        inputs=inputs,
        arguments=arguments,
        output=output,
        bar=bar,
        parameters=parameters,
        step=step,
    )


def in_main_process(arguments: TrainingArguments, work: Callable[[], _T]) -> _T:
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


def count_parameters(model: Any, *, trained_only: bool = False) -> int:
    """Return the number of weights, or of those that are trained."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad or not trained_only)


def _report_in(trainer: Any, output: Path) -> None:
    """Keep the Trainer from printing, and put TensorBoard's files into the output."""
    trainer.remove_callback(transformers.PrinterCallback)
    board = trainer.pop_callback(TensorBoardCallback)
    if isinstance(board, TensorBoardCallback):
        board.logging_dir = str(output / "tensorboard")
        trainer.add_callback(board)


def _parallel(trainer: Any) -> str | None:
    if trainer.args.world_size == 1:
        return None
    if not is_sharded(trainer.model):
        return "ddp"
    return "fsdp" if trainer.args.parallelism_config is None else "hybrid"
