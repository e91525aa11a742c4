"""The Trainer's settings, made from a recipe and checked against the launcher of the process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

import torch
import transformers
from accelerate import ParallelismConfig
from transformers import TrainingArguments
from transformers.integrations import get_available_reporting_integrations

from reviser.errors import ConfigError
from reviser.train.recipe import Recipe, TrainingConfig

# Transformers 5.23 renamed it, and warns about the old name.
_RECOMPUTE = "activation_checkpointing"
if _RECOMPUTE not in TrainingArguments.__dataclass_fields__:
    _RECOMPUTE = "gradient_checkpointing"

_Arguments = TypeVar("_Arguments", bound=TrainingArguments)


def training_arguments(
    recipe: Recipe, output: Path, cls: type[_Arguments], **options: Any
) -> _Arguments:
    """Return the settings of a Trainer, as its class of them; `options` replace or add some.

    Accumulation follows from the number of processes.
    """
    training = recipe.training
    missing = sorted({*training.reporters} - {*(known := get_available_reporting_integrations())})
    if missing:
        raise ConfigError(
            f"training.reporters has {missing[0]!r}, which Transformers does not know or which is"
            f" not installed. Available: {', '.join(known) or 'none, so give an empty list'}."
        )
    _check_launcher(training)
    if training.recompute and training.is_sharded:
        # Transformers would advise FSDP's own recomputation, which breaks dropout.
        transformers.logging.set_verbosity_error()
    try:
        arguments = cls(**_options(recipe, output) | options)
    except ValueError as error:  # for example bf16 on a device without it
        raise ConfigError(f"Transformers refuses these settings: {error}") from error
    # Without this: a process that sees several GPUs puts a part of each batch on each of them
    # (DataParallel). Here torchrun starts one process per device.
    arguments._n_gpu = 1
    shared = training.micro_batch * arguments.world_size
    if training.batch % shared:
        raise ConfigError(
            f"batch {training.batch} is not a multiple of {arguments.world_size} processes with"
            f" micro_batch {training.micro_batch} each. Change one of the three."
        )
    return arguments


def _check_launcher(training: TrainingConfig) -> None:
    """Refuse settings of `accelerate launch` that would silently override the recipe."""
    precision = {"bf16": "bf16", "fp32": "no"}[training.precision]
    launched = os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
    if launched not in ("no", precision):
        raise ConfigError(
            f"The launcher sets mixed precision {launched}, the recipe {training.precision}."
            " Change training.precision or the launcher's setting."
        )
    if os.environ.get("ACCELERATE_USE_FSDP") == "true" and not training.is_sharded:
        raise ConfigError("The launcher sets FSDP; set training.parallel to fsdp as well.")


def _copies_of_shards(training: TrainingConfig, processes: int) -> ParallelismConfig | None:
    """Return the grid of hybrid sharding: rows are machines with a copy, columns hold its shards.

    A single machine has one copy, which is FSDP2 without a grid.
    """
    local = int(os.environ.get("LOCAL_WORLD_SIZE", processes))
    if training.parallel != "hybrid" or local == processes:
        return None
    if local == 1 or processes % local:
        raise ConfigError(
            f"training.parallel is hybrid, which shards the weights within each machine, but"
            f" {processes} processes have {local} on this one. Start the same number on every"
            " machine, two or more, or use parallel: fsdp."
        )
    return ParallelismConfig(dp_replicate_size=processes // local, dp_shard_size=local)


def _options(recipe: Recipe, output: Path) -> dict[str, Any]:
    training = recipe.training
    on_cpu = not torch.cuda.is_available()
    processes = int(os.environ.get("WORLD_SIZE", 1))
    several = processes > 1
    sharded = training.is_sharded and several
    return {
        "output_dir": str(output / "checkpoints"),
        "max_steps": training.steps,
        "per_device_train_batch_size": 1,  # one item of the dataset is a whole micro-batch
        "gradient_accumulation_steps": max(1, training.batch // training.micro_batch // processes),
        # Without this: the Trainer shuffles the micro-batches, which are numbered in their order.
        "train_sampling_strategy": "sequential",
        "learning_rate": training.learning_rate,
        "lr_scheduler_type": "cosine_with_min_lr",
        "lr_scheduler_kwargs": {"min_lr": training.min_learning_rate},
        "warmup_steps": training.warmup,
        "weight_decay": training.weight_decay,
        "adam_beta1": training.betas[0],
        "adam_beta2": training.betas[1],
        "adam_epsilon": training.epsilon,
        "max_grad_norm": training.clip,
        "bf16": training.precision == "bf16",
        "use_cpu": on_cpu,  # without this: the Trainer takes MPS on a Mac
        # Without this: Accelerate takes MPI where PyTorch was built with it.
        "ddp_backend": "gloo" if on_cpu and several else None,
        "ddp_timeout": 24 * 60 * 60,  # the others wait while the main process tokenizes
        # Without this: DDP looks through the graph of every step for unused weights.
        "ddp_find_unused_parameters": False,
        # The Trainer refuses to shard over a single process, which needs no sharding.
        "fsdp": True if sharded else None,
        # Without this: one process collects all weights and writes them.
        "fsdp_config": {"state_dict_type": "SHARDED_STATE_DICT"} if sharded else None,
        "parallelism_config": _copies_of_shards(training, processes) if sharded else None,
        _RECOMPUTE: training.recompute,
        "dataloader_num_workers": training.workers,
        "dataloader_pin_memory": not on_cpu,  # only copies to a device gain from it
        # Without this: the Trainer drops the counts, which the model does not take.
        "remove_unused_columns": False,
        "logging_steps": training.log_every,
        # Without this: a loss that is NaN is logged as a mean of earlier ones, and the run goes on.
        "logging_nan_inf_filter": False,
        "eval_strategy": "steps",
        "eval_steps": training.evaluate_every,
        "save_steps": training.save_every,
        "save_total_limit": 2,
        "report_to": list(training.reporters) or "none",
        "disable_tqdm": True,
        "seed": recipe.seed,
    }
