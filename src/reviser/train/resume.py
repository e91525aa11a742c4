"""Resuming a run: which recipe an output belongs to, and which of its checkpoints are complete.

The Trainer writes a checkpoint directly into its final folder, so a kill can leave half of one. It
also opens only checkpoints of its own layout, and silently starts from scratch otherwise.
"""

from __future__ import annotations

import os
import secrets
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from reviser import files
from reviser.errors import ConfigError
from reviser.train.inputs import Inputs
from reviser.train.recipe import Recipe
from reviser.train.yaml_reader import from_plain, to_plain

COMPLETE = "complete"
"""A file in every complete checkpoint; it holds the layout, which says whether there are shards."""
START_TOKEN = "process-0"
"""A file in the output with a random token of the main process, new at every start."""
_FREE: dict[str, str] = {
    # The data is compared by its content.
    "data": "shards text text_key split tokenizer bpe words trajectories generator",
    "training": "workers parallel recompute reporters log_every save_every evaluate_every",
    "evaluation": "examples policies prompts max_actions solve",
}
FREE_TO_CHANGE = {f"{section}.{name}" for section in _FREE for name in _FREE[section].split()}
FREE_TO_CHANGE |= {"base"}  # a started run has its weights in the checkpoint
"""Settings that may differ when a run is resumed, because they do not change the weights."""


def last_checkpoint(output: Path) -> str | None:
    """Return the newest complete checkpoint."""
    found = (output / "checkpoints").glob(f"checkpoint-*/{COMPLETE}")
    return max((str(path.parent) for path in found), key=step_of, default=None)


def step_of(checkpoint: str) -> int:
    """Return the step after which a checkpoint was written."""
    return int(checkpoint.rpartition("-")[2])


def write_start_token(output: Path) -> str:
    """Write a token into the output, for the other processes to compare."""
    token = secrets.token_hex(8)
    (output / START_TOKEN).write_text(token, "utf-8")
    return token


def check_start_token(output: Path, token: str) -> None:
    """Check that this process sees the same output folder as the main process."""
    path = output / START_TOKEN
    if not path.is_file() or path.read_text("utf-8") != token:
        raise ConfigError(
            f"{str(output)!r} is not the same folder for every process: put the output on a disk"
            " that all machines share."
        )


class StopAt(TrainerCallback):
    """Callback that ends training at a step, with a checkpoint there."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Save and stop once the step is reached."""
        if state.global_step >= self._step:
            control.should_save = control.should_training_stop = True


class MarkComplete(TrainerCallback):
    """Callback that marks each checkpoint as complete."""

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Write the mark once every process has written its part."""
        if torch.distributed.is_initialized():
            torch.distributed.barrier()
        if state.is_world_process_zero:
            mark_complete(Path(str(args.output_dir)) / f"checkpoint-{state.global_step}", args)


def mark_complete(folder: Path, args: TrainingArguments) -> None:
    """Mark a checkpoint as complete, after all that it consists of is on disk."""
    for path in filter(Path.is_file, folder.rglob("*")):
        with path.open("rb") as file:
            os.fsync(file.fileno())
    (folder / COMPLETE).write_text(_layout(args), "utf-8")


def _layout(arguments: TrainingArguments) -> str:
    """Return the layout of this run's checkpoints; the Trainer opens no other."""
    return "shards" if arguments.fsdp and arguments.world_size > 1 else "plain"


def check_layout(checkpoint: Path, arguments: TrainingArguments) -> None:
    """Refuse a checkpoint of another layout, which the Trainer would ignore."""
    written = (checkpoint / COMPLETE).read_text("utf-8")
    if written != _layout(arguments):
        advice = {
            "shards": "with training.parallel fsdp or hybrid, and two processes or more",
            "plain": "in one process, or with training.parallel ddp",
        }
        raise ConfigError(f"{str(checkpoint)!r} can only be resumed {advice[written]}.")


def check_claim(output: Path, recipe: Recipe) -> None:
    """Refuse an output that another recipe started; delete incomplete checkpoints."""
    path = output / "recipe.json"
    if path.is_file():  # a start that fails before `claim` leaves the output free
        files.claim(
            path,
            to_plain(recipe),
            ignored=FREE_TO_CHANGE,
            update=partial(_with_defaults, type(recipe)),
        )
    for folder in (output / "checkpoints").glob("checkpoint-*"):
        if not (folder / COMPLETE).exists():
            shutil.rmtree(folder)


def claim(output: Path, recipe: Recipe, inputs: Inputs) -> None:
    """Record recipe and data of an output; refuse data that differs from an earlier start.

    Data is compared by content, so it may have moved.
    """
    found = {"shards": inputs.data.fingerprint, "tokenizer": inputs.codec.fingerprint}
    files.claim(output / "data.json", found)
    files.write_json(output / "recipe.json", to_plain(recipe))


def _with_defaults(cls: type[Recipe], saved: dict[str, Any]) -> dict[str, Any]:
    """Return a saved recipe with defaults for the settings that did not exist yet."""
    plain: dict[str, Any] = to_plain(from_plain(cls, saved))
    return plain
