"""Sharded checkpoints: every process writes its own part, in the background, during training.

The files are those of torch's distributed checkpoints, in the folders where Accelerate looks for
them, so resuming is the Trainer's own. They can be read by another number of processes.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist
from accelerate.utils.constants import FSDP_MODEL_NAME, OPTIMIZER_NAME
from torch.distributed.checkpoint import async_save
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict
from transformers import TrainerCallback, TrainingArguments

from reviser.train.resume import mark_complete


class ShardedSaves(TrainerCallback):
    """Callback that writes one checkpoint at a time in the background, and marks it when written.

    The weights are copied to main memory first, so training can change them at once. This takes
    three times the memory of this process's part of the weights: they and two moments of Adam.
    """

    def __init__(self, arguments: TrainingArguments) -> None:
        self._arguments = arguments
        # The threads of the two parts talk to other processes at the same time as training does,
        # so each needs a channel of its own.
        timeout = timedelta(seconds=arguments.ddp_timeout)
        self._groups = [dist.new_group(backend="gloo", timeout=timeout) for _ in range(2)]
        self._folder = Path()
        self._parts: list[Any] = []

    def start(self, folder: Path, model: Any, optimizer: Any) -> None:
        """Copy weights and optimizer and begin to write them, after the previous checkpoint."""
        self.finish()
        folder.mkdir(parents=True, exist_ok=True)  # other files go there before the threads start
        if hasattr(model, "peft_config"):
            from peft import get_peft_model_state_dict

            weights = get_peft_model_state_dict(model)
        else:
            weights = get_model_state_dict(model)
        parts = {
            f"{FSDP_MODEL_NAME}_0": {"model": weights},
            f"{OPTIMIZER_NAME}_0": {"optimizer": get_optimizer_state_dict(model, optimizer)},
        }
        self._folder = folder
        self._parts = [
            async_save(state, checkpoint_id=folder / name, process_group=group)
            for (name, state), group in zip(parts.items(), self._groups, strict=True)
        ]

    def finish(self) -> None:
        """Wait for the checkpoint that is being written, if there is one, and mark it.

        A part is written when all processes have written theirs.
        """
        for part in self._parts:
            part.result()
        if self._parts and self._arguments.process_index == 0:
            mark_complete(self._folder, self._arguments)
        self._parts = []

    def on_save(self, *_: Any, **__: Any) -> None:
        """Wait until every process has written its small files, which are not part of the save."""
        dist.barrier()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Mark the checkpoint as soon as it is written."""
        if all(part.done() for part in self._parts):
            self.finish()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Wait for the last checkpoint."""
        self.finish()


def keep_tied_rows_together(model: Any) -> None:
    """Have a model with adapters sharded correctly if its input and output rows are the same.

    Accelerate shards both tables separately, because it cannot see through PEFT's wrappers that
    they share their rows, and torch refuses that. If it does not find the tables, it shards them
    together with what is left of the model.
    """
    parameters = [p for _, p in model.named_parameters(remove_duplicate=False)]
    if len({id(p) for p in parameters}) < len(parameters):
        model.get_input_embeddings = model.get_output_embeddings = lambda: None
