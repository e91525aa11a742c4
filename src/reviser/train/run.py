"""A training run: recipe in, model folder out, killed and restarted as often as need be.

The output is the model folder itself, with the log, samples, checkpoints and provenance beside
the weights. The loop is the Trainer's.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import TrainingArguments
from transformers.integrations import TensorBoardCallback, get_available_reporting_integrations

from reviser import models
from reviser.core.canvas import Canvas
from reviser.data.pipeline import write_atomically
from reviser.engines.base import DecodeConfig
from reviser.engines.hf import rollout
from reviser.errors import ConfigError, VocabError
from reviser.train.parts import Parts, held_out_set, open_parts, training_set
from reviser.train.recipe import Recipe, to_plain
from reviser.train.report import JsonLines, TerminalBar, append_line, cut_after
from reviser.train.resume import MarkComplete, check_layout, claim, last_checkpoint
from reviser.train.trainer import SEEN, ReviserTrainer


def train(recipe: Recipe, output: str | Path) -> Path:
    """Run a recipe to its end, from the last complete checkpoint in the output if there is one."""
    output = Path(output)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    arguments = _arguments(recipe, output)
    with arguments.main_process_first(local=False):
        if arguments.process_index == 0:
            output.mkdir(parents=True, exist_ok=True)
            claim(output, recipe)
        parts = open_parts(recipe, output)
    trainer = _trainer(recipe, parts, arguments, output)
    checkpoint = last_checkpoint(output)
    step = 0
    if checkpoint is not None:
        check_layout(checkpoint, arguments)
        step = int(checkpoint.name.rpartition("-")[2])
    if arguments.process_index == 0:
        # What follows the checkpoint will be done, and told, again.
        last = recipe.training.steps
        counts = cut_after(output / "log.jsonl", step, last=last)
        cut_after(output / "samples.jsonl", step, last=last)
        trainer.seen |= {name: counts.get(f"{name}_seen", 0) for name in SEEN}
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    metrics = trainer.evaluate_once()
    _save(trainer, parts, output)
    if arguments.process_index == 0:
        record = _provenance(recipe, parts, trainer, metrics)
        write_atomically(output / "run.json", record)
    return output


def _arguments(recipe: Recipe, output: Path) -> TrainingArguments:
    training = recipe.training
    on_cpu = not torch.cuda.is_available()
    # The Trainer refuses to shard over a single process, which needs none. Annotated as a text.
    sharded: Any = training.parallel == "fsdp" and int(os.environ.get("WORLD_SIZE", 1)) > 1
    missing = sorted({*training.reporters} - {*(known := get_available_reporting_integrations())})
    if missing:
        raise ConfigError(
            f"training.reporters has {missing[0]!r}, which Transformers does not know or which is"
            f" not installed. At hand: {', '.join(known) or 'none, so give an empty list'}."
        )
    arguments = TrainingArguments(
        output_dir=str(output / "checkpoints"),
        max_steps=training.steps,
        per_device_train_batch_size=1,  # one micro-batch, whose rows the dataset gathered
        train_sampling_strategy="sequential",
        learning_rate=training.learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr": training.min_learning_rate},
        warmup_steps=training.warmup,
        weight_decay=training.weight_decay,
        adam_beta1=training.betas[0],
        adam_beta2=training.betas[1],
        adam_epsilon=training.epsilon,
        max_grad_norm=training.clip,
        bf16=training.precision == "bf16",
        use_cpu=on_cpu,
        ddp_backend="gloo" if on_cpu and "WORLD_SIZE" in os.environ else None,
        ddp_find_unused_parameters=False,
        fsdp=sharded or None,
        dataloader_num_workers=training.workers,
        dataloader_pin_memory=not on_cpu,
        remove_unused_columns=False,
        logging_steps=training.log_every,
        logging_nan_inf_filter=False,
        eval_strategy="steps",
        eval_steps=training.evaluate_every,
        save_steps=training.save_every,
        save_total_limit=2,
        report_to=list(training.reporters) or "none",
        disable_tqdm=True,
        seed=recipe.seed,
    )
    shared = training.micro_batch * arguments.world_size
    if training.batch % shared:
        raise ConfigError(
            f"batch {training.batch} is no multiple of {arguments.world_size} processes with"
            f" micro_batch {training.micro_batch} each. Change one of the three."
        )
    arguments.gradient_accumulation_steps = training.batch // shared
    return arguments


def _trainer(
    recipe: Recipe, parts: Parts, arguments: TrainingArguments, output: Path
) -> ReviserTrainer:
    scored = recipe.evaluation.policies or {"held_out": recipe.policy}
    held_out = {name: held_out_set(recipe, parts, policy) for name, policy in scored.items()}
    model, lora = parts.model, recipe.training.lora
    if lora is not None:
        model = models.with_lora(model, parts.vocab, **to_plain(lora))
    trainer = ReviserTrainer(
        vocab=parts.vocab,
        held_out=held_out,
        write_samples=_sample_writer(recipe, parts, output / "samples.jsonl"),
        model=model,
        args=arguments,
        train_dataset=training_set(recipe, parts),
        callbacks=[JsonLines(output / "log.jsonl"), TerminalBar(), MarkComplete()],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    board = trainer.pop_callback(TensorBoardCallback)
    if isinstance(board, TensorBoardCallback):
        board.logging_dir = str(output / "tensorboard")
        trainer.add_callback(board)
    return trainer


def _sample_writer(recipe: Recipe, parts: Parts, path: Path) -> Callable[[Any, int], None]:
    prompts = []
    for prompt in recipe.evaluation.prompts:  # before training, so that a bad one costs none
        prefix = parts.codec.encode(prompt)
        try:
            free = parts.context - len(parts.vocab.prefix_actions(prefix))
        except VocabError as error:
            raise ConfigError(f"evaluation.prompts has {prompt!r}: {error}") from error
        if free < 1:
            raise ConfigError(
                f"evaluation.prompts has {prompt!r}, {len(prefix)} tokens, which leaves no room in"
                f" a context of {parts.context}."
            )
        most = min(free, recipe.evaluation.max_actions)
        prompts.append((prompt, prefix, DecodeConfig(max_actions=most, seed=recipe.seed)))

    def write(model: Any, step: int) -> None:
        for prompt, prefix, config in prompts:
            trajectory = rollout(model, parts.vocab, prefix, config)
            canvas = Canvas.replay(parts.vocab, [*prefix, *trajectory.restoration])
            text = parts.codec.decode(canvas.tokens())
            record = {"step": step, "prompt": prompt, "text": text}
            record |= json.loads(trajectory.to_json())
            if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
                append_line(path, record)

    return write


def _save(trainer: ReviserTrainer, parts: Parts, output: Path) -> None:
    model: Any = trainer.model
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    weights = trainer.accelerator.get_state_dict(model)  # gathers shards: every process helps
    if trainer.args.process_index == 0:
        kept = {k: v for k, v in weights.items() if k not in model.all_tied_weights_keys}
        model.save_pretrained(output, state_dict=kept)
        models.save_tokenizer(parts.tokenizer, parts.vocab, output)


def _provenance(
    recipe: Recipe, parts: Parts, trainer: ReviserTrainer, metrics: dict[str, float]
) -> dict[str, Any]:
    model: Any = trainer.model
    packages = ("reviser-lm", "torch", "transformers", "accelerate", "datatrove", "numpy")
    return {
        "recipe": to_plain(recipe),
        "data": parts.shards.fingerprint,
        "tokenizer": parts.codec.fingerprint,
        "parameters": sum(p.numel() for p in model.parameters()),
        "trained_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "processes": trainer.args.world_size,
        "parallel": trainer.accelerator.distributed_type.value,
        "seen": trainer.seen,
        "flops": trainer.state.total_flos,
        "metrics": metrics,
        "versions": {name: version(name) for name in packages},
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "commit": _commit(),
    }


def _commit() -> str | None:
    """The commit of this code, if it runs from a checkout."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() or None if asked.returncode == 0 else None
