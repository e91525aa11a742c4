"""Resuming a run: which recipe an output belongs to, and which of its checkpoints are complete.

The Trainer writes a checkpoint directly into its final folder, so a kill can leave half of one. It
also opens only checkpoints of its own layout, and silently starts from scratch otherwise.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from reviser.errors import ConfigError
from reviser.files import write_json
from reviser.train.inputs import Inputs
from reviser.train.recipe import Recipe
from reviser.train.yaml_reader import from_plain, to_plain

COMPLETE = "complete"
"""A file in every complete checkpoint; it holds the layout, which says whether there are shards."""
START_TOKEN = "process-0"
"""A file in the output with a random token of the main process, new at every start."""
FREE_TO_CHANGE: dict[str, set[str]] = {
    "data": {"shards", "text", "text_key", "split", "tokenizer", "bpe"},  # known by content
    "training": {"workers", "parallel", "reporters", "log_every", "save_every", "evaluate_every"},
    "evaluation": {"examples", "policies", "prompts", "max_actions"},
}
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


class MarkComplete(TrainerCallback):
    """Callback that marks each checkpoint as complete."""

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Write the mark once every process has written its part."""
        if torch.distributed.is_initialized():
            torch.distributed.barrier()
        if state.is_world_process_zero:
            folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
            for path in folder.iterdir():  # the weights must be on disk before the mark is
                with path.open("rb") as file:
                    os.fsync(file.fileno())
            (folder / COMPLETE).write_text(_layout(args), "utf-8")


def _layout(arguments: TrainingArguments) -> str:
    """Return the layout of this run's checkpoints; the Trainer opens no other."""
    return "fsdp" if arguments.fsdp and arguments.world_size > 1 else "plain"


def check_layout(checkpoint: Path, arguments: TrainingArguments) -> None:
    """Refuse a checkpoint of another layout, which the Trainer would ignore."""
    written = (checkpoint / COMPLETE).read_text("utf-8")
    if written != _layout(arguments):
        advice = {
            "fsdp": "with training.parallel fsdp and two processes or more",
            "plain": "in one process, or with training.parallel ddp",
        }
        raise ConfigError(f"{str(checkpoint)!r} can only be resumed {advice[written]}.")


def check_claim(output: Path, recipe: Recipe) -> None:
    """Refuse an output that another recipe started; delete incomplete checkpoints."""
    path = output / "recipe.json"
    if path.is_file():
        changed = sorted(_differences(_plain(_read_recipe(path)), _plain(recipe)))
        if changed:
            raise ConfigError(
                f"{str(output)!r} was started with a recipe that differs in {', '.join(changed)}."
                " Use the same values, choose another output, or delete this one."
            )
    for folder in (output / "checkpoints").glob("checkpoint-*"):
        if not (folder / COMPLETE).exists():
            shutil.rmtree(folder)


def claim(output: Path, recipe: Recipe, inputs: Inputs) -> None:
    """Record recipe and data of an output; refuse data that differs from an earlier start.

    Data is compared by content, so it may have moved.
    """
    path = output / "data.json"
    found = {"shards": inputs.data.fingerprint, "tokenizer": inputs.codec.fingerprint}
    before = json.loads(path.read_text("utf-8")) if path.is_file() else found
    changed = [name for name in found if before[name] != found[name]]
    if changed:
        raise ConfigError(
            f"{str(output)!r} was started with other {' and '.join(changed)}: their fingerprints"
            " differ. Restore the data, choose another output, or delete this one."
        )
    write_json(path, found)
    write_json(output / "recipe.json", to_plain(recipe))


def _read_recipe(path: Path) -> Recipe:
    """Read a saved recipe; settings that did not exist yet get their defaults."""
    recipe: Recipe = from_plain(Recipe, json.loads(path.read_text("utf-8")), "")
    return recipe


def _plain(recipe: Recipe) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(to_plain(recipe)))
    return plain


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    names = []
    for section in before.keys() | after.keys():
        a, b = before.get(section), after.get(section)
        if isinstance(a, dict) and isinstance(b, dict):
            compared = (a.keys() | b.keys()) - FREE_TO_CHANGE.get(section, set())
            names += [f"{section}.{key}" for key in compared if a.get(key) != b.get(key)]
        elif a != b and section != "base":  # a started run has its weights in the checkpoint
            names.append(section)
    return names
