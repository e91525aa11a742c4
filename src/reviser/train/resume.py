"""Taking up a run again: whose output it is, and which of its checkpoints are whole.

The Trainer writes a checkpoint into its final folder, so a kill can leave half of one; and it
opens only checkpoints laid out as its own, starting afresh without a word otherwise.
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
from reviser.train.inputs import Parts
from reviser.train.recipe import Recipe
from reviser.train.yaml_reader import read, to_plain

COMPLETE = "complete"
"""A file in every checkpoint that was written to its end; says whether it holds shards."""
MEETING = "process-0"
"""A file in the output with a word of the main process, new at every start."""
FREE_TO_CHANGE: dict[str, set[str]] = {
    "data": {"shards", "text", "text_key", "split", "tokenizer", "bpe"},  # known by content
    "training": {"workers", "parallel", "reporters", "log_every", "save_every", "evaluate_every"},
    "evaluation": {"examples", "policies", "prompts", "max_actions"},
}
"""What may differ when a run is taken up again: none of it changes the weights."""


def last_checkpoint(output: Path) -> str | None:
    """The newest checkpoint that was written to its end."""
    found = (output / "checkpoints").glob(f"checkpoint-*/{COMPLETE}")
    return max((str(path.parent) for path in found), key=step_of, default=None)


def step_of(checkpoint: str) -> int:
    """The step after which a checkpoint was written."""
    return int(checkpoint.rpartition("-")[2])


def meet(output: Path) -> str:
    """Leave a word in the output, for the other processes to find."""
    word = secrets.token_hex(8)
    (output / MEETING).write_text(word, "utf-8")
    return word


def check_meeting(output: Path, word: str) -> None:
    """See that this process has the same output before it as the one that left the word."""
    path = output / MEETING
    if not path.is_file() or path.read_text("utf-8") != word:
        raise ConfigError(
            f"{str(output)!r} is not the same folder for every process: put the output on a disk"
            " that all machines share."
        )


class MarkComplete(TrainerCallback):
    """Notes in each checkpoint that it was written to its end."""

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Write the note, once every process has written its part."""
        if torch.distributed.is_initialized():
            torch.distributed.barrier()
        if state.is_world_process_zero:
            folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
            for path in folder.iterdir():  # the weights before the word that they are there
                with path.open("rb") as file:
                    os.fsync(file.fileno())
            (folder / COMPLETE).write_text(_layout(args), "utf-8")


def _layout(arguments: TrainingArguments) -> str:
    """How a checkpoint of this run is laid out; the Trainer opens only its own layout."""
    return "fsdp" if arguments.fsdp and arguments.world_size > 1 else "plain"


def check_layout(checkpoint: Path, arguments: TrainingArguments) -> None:
    """Refuse a checkpoint that this run would open as none of its own."""
    written = (checkpoint / COMPLETE).read_text("utf-8")
    if written != _layout(arguments):
        advice = {
            "fsdp": "with training.parallel fsdp and two processes or more",
            "plain": "in one process, or with training.parallel ddp",
        }
        raise ConfigError(f"{str(checkpoint)!r} can only be taken up {advice[written]}.")


def check_claim(output: Path, recipe: Recipe) -> None:
    """Refuse an output that another recipe began; drop checkpoints that were cut short."""
    path = output / "recipe.json"
    if path.is_file():
        changed = sorted(_differences(_plain(_known(path)), _plain(recipe)))
        if changed:
            raise ConfigError(
                f"{str(output)!r} was begun with a recipe that differs in {', '.join(changed)}."
                " Go on with the same values, choose another output, or delete this one."
            )
    for folder in (output / "checkpoints").glob("checkpoint-*"):
        if not (folder / COMPLETE).exists():
            shutil.rmtree(folder)


def claim(output: Path, recipe: Recipe, parts: Parts) -> None:
    """Note whose output it is; refuse other data than it was begun with, wherever that lies."""
    path = output / "data.json"
    names = {"shards": parts.data.fingerprint, "tokenizer": parts.codec.fingerprint}
    before = json.loads(path.read_text("utf-8")) if path.is_file() else names
    changed = [name for name in names if before[name] != names[name]]
    if changed:
        raise ConfigError(
            f"{str(output)!r} was begun with other {' and '.join(changed)}: their fingerprints"
            " differ. Bring back the data, choose another output, or delete this one."
        )
    write_json(path, names)
    write_json(output / "recipe.json", to_plain(recipe))


def _known(path: Path) -> Recipe:
    """A recipe that was noted, perhaps before some of today's settings were there."""
    recipe: Recipe = read(Recipe, json.loads(path.read_text("utf-8")), "")
    return recipe


def _plain(recipe: Recipe) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(to_plain(recipe)))
    return plain


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    names = []
    for room in before.keys() | after.keys():
        a, b = before.get(room), after.get(room)
        if isinstance(a, dict) and isinstance(b, dict):
            free = FREE_TO_CHANGE.get(room, set())
            names += [f"{room}.{k}" for k in (a.keys() | b.keys()) - free if a.get(k) != b.get(k)]
        elif a != b and room != "base":  # once begun, its weights are those of the checkpoint
            names.append(room)
    return names
