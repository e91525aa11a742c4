"""A training run: recipe in, model folder out, killed and restarted as often as need be.

The output is the model folder itself, with the log, samples, checkpoints and provenance beside
the weights. Tokenising, building and adapting are other rooms' work; so is the loop.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import TensorBoardCallback, get_available_reporting_integrations

from reviser import models
from reviser.core.actions import FILE_NAME, ActionVocab
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec
from reviser.core.policy import Policy
from reviser.core.trajectory import Sampler
from reviser.data.dataset import MicroBatches, Stream, Windows
from reviser.data.pipeline import write_atomically
from reviser.data.shards import TokenShards, tokenize
from reviser.data.tokenizer import train_bpe
from reviser.engines.base import DecodeConfig
from reviser.engines.hf import rollout
from reviser.errors import ConfigError, VocabError
from reviser.train.recipe import Recipe, VocabConfig, to_plain
from reviser.train.report import JsonLines, TerminalBar, append_line, cut_after
from reviser.train.trainer import SEEN, ReviserTrainer

COMPLETE = "complete"
"""A file in every checkpoint that was written to its end; says whether it holds shards."""
FREE_TO_CHANGE = {
    "training": {"workers", "parallel", "reporters", "log_every", "save_every", "evaluate_every"},
    "evaluation": {"micro_batches", "policies", "prompts", "max_actions"},
}
"""What may differ when a run is taken up again: none of it changes the weights."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a run is made of, once the recipe's paths are opened."""

    model: Any
    tokenizer: Tokenizer
    vocab: ActionVocab
    codec: Codec
    shards: TokenShards
    context: int


def train(recipe: Recipe, output: str | Path) -> Path:
    """Run a recipe to its end, from the last complete checkpoint in the output if there is one."""
    output = Path(output)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    arguments = _arguments(recipe, output)
    with arguments.main_process_first(local=False):
        if arguments.process_index == 0:
            output.mkdir(parents=True, exist_ok=True)
            _claim(output, recipe)
        parts = open_parts(recipe, output)
    trainer = _trainer(recipe, parts, arguments, output)
    checkpoint = last_checkpoint(output)
    step = 0
    if checkpoint is not None:
        _check_layout(checkpoint, arguments)
        step = int(checkpoint.name.rpartition("-")[2])
    if arguments.process_index == 0:
        # What follows the checkpoint will be done, and told, again.
        counts = cut_after(output / "log.jsonl", step)
        cut_after(output / "samples.jsonl", step)
        trainer.seen |= {name: counts.get(f"{name}_seen", 0) for name in SEEN}
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    metrics = trainer.evaluate_once()
    _save(trainer, parts, output)
    if arguments.process_index == 0:
        record = _provenance(recipe, parts, trainer, metrics)
        write_atomically(output / "run.json", record)
    return output


def open_parts(recipe: Recipe, output: Path) -> Parts:
    """Tokenizer, shards and model; what is missing of the first two is made in the output."""
    data = recipe.data
    base = None if recipe.base is None else models.find(recipe.base)
    if base is not None and (base / FILE_NAME).is_file():
        if recipe.vocab != VocabConfig():
            raise ConfigError(f"{recipe.base!r} brings its action vocabulary: leave out vocab.")
        model, vocab = models.load(base, dtype=torch.float32)
        Codec.load(base)  # refuses in our words
        tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
        folder = base
    elif base is not None:
        model, tokenizer = models.load_base(base)
        folder = _keep(tokenizer, output / "tokenizer")
        config = recipe.vocab
        vocab = models.adapt(
            model,
            tokenizer,
            operators=config.operators,
            max_move=config.max_move,
            begin=config.begin,
            delimiter=config.delimiter,
        )
    else:
        folder = data.tokenizer or _trained_tokenizer(recipe, output / "tokenizer")
        Codec.load(folder)  # refuses in our words
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        vocab = _vocab(recipe, tokenizer)
        assert recipe.trunk is not None
        model = models.build(recipe.trunk, vocab, seed=recipe.seed)
    codec = Codec(tokenizer)
    shards = data.shards
    if shards is None:
        shards = output / "shards"
        tokenize(data.text, shards, folder, split=data.split, progress=True)
    context = model.config.max_position_embeddings
    opened = TokenShards.open(shards, codec.fingerprint)
    return Parts(
        model=model, tokenizer=tokenizer, vocab=vocab, codec=codec, shards=opened, context=context
    )


def micro_batches(
    recipe: Recipe,
    parts: Parts,
    policy: Policy,
    *,
    count: int,
    held_out: bool = False,
) -> MicroBatches:
    """The training set of a recipe, or a held-out one under some policy."""
    windows = Windows(parts.shards, recipe.data.windows, held_out=held_out, seed=recipe.seed)
    stream = Stream(
        windows,
        Sampler(parts.vocab, policy),
        context=parts.context,
        unit_starts=parts.codec.unit_starts,
        seed=recipe.seed,
    )
    size = recipe.training.micro_batch
    progress = 1.0 if held_out else None  # where a changing policy ends up
    return MicroBatches(stream, size=size, count=count, progress=progress)


def last_checkpoint(output: Path) -> Path | None:
    """The newest checkpoint that was written to its end."""
    found = [path.parent for path in (output / "checkpoints").glob(f"checkpoint-*/{COMPLETE}")]
    return max(found, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


class _MarkComplete(TrainerCallback):
    def on_save(
        self, args: TrainingArguments, state: TrainerState, _control: TrainerControl, **_: Any
    ) -> None:
        if state.is_world_process_zero:
            folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
            os.sync()  # the weights before the word that they are there
            (folder / COMPLETE).write_text(_layout(args), "utf-8")


def _layout(arguments: TrainingArguments) -> str:
    """How a checkpoint of this run is laid out; the Trainer opens only its own layout."""
    return "fsdp" if arguments.fsdp and arguments.world_size > 1 else "plain"


def _check_layout(checkpoint: Path, arguments: TrainingArguments) -> None:
    written = (checkpoint / COMPLETE).read_text("utf-8")
    if written != _layout(arguments):
        advice = {
            "fsdp": "with training.parallel fsdp and two processes or more",
            "plain": "in one process, or with training.parallel ddp",
        }
        raise ConfigError(f"{str(checkpoint)!r} can only be taken up {advice[written]}.")


def _arguments(recipe: Recipe, output: Path) -> TrainingArguments:
    training = recipe.training
    on_cpu = not torch.cuda.is_available()
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
        fsdp=True if training.parallel == "fsdp" else None,
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
    training, evaluation = recipe.training, recipe.evaluation
    micro = training.steps * training.batch // training.micro_batch
    scored = evaluation.policies or {"held_out": recipe.policy}
    held_out = {
        name: micro_batches(
            recipe, parts, policy, count=evaluation.micro_batches, held_out=True
        )
        for name, policy in scored.items()
    }
    model = parts.model
    if training.lora is not None:
        model = models.with_lora(model, parts.vocab, **to_plain(training.lora))
    trainer = ReviserTrainer(
        vocab=parts.vocab,
        held_out=held_out,
        write_samples=_sample_writer(recipe, parts, output / "samples.jsonl"),
        model=model,
        args=arguments,
        train_dataset=micro_batches(recipe, parts, recipe.policy, count=micro),
        eval_dataset=next(iter(held_out.values())),
        callbacks=[JsonLines(output / "log.jsonl"), TerminalBar(), _MarkComplete()],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    board = trainer.pop_callback(TensorBoardCallback)
    if board is not None:
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


def _vocab(recipe: Recipe, tokenizer: Tokenizer) -> ActionVocab:
    config = recipe.vocab
    if config.preset == "paper":
        vocab = ActionVocab.paper()
        vocab.extend(tokenizer)
        return vocab
    return ActionVocab.from_tokenizer(
        tokenizer,
        operators=config.operators,
        max_move=config.max_move,
        begin=config.begin,
        delimiter=config.delimiter,
    )


def _trained_tokenizer(recipe: Recipe, folder: Path) -> Path:
    data = recipe.data
    assert data.bpe is not None
    if not (folder / "tokenizer.json").is_file():
        _keep(train_bpe(data.text, data.bpe, split=data.split), folder)
    return folder


def _keep(tokenizer: Tokenizer, folder: Path) -> Path:
    """Write a tokenizer as it is now, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / "tokenizer.json.draft"
    tokenizer.save(str(draft))
    draft.replace(folder / "tokenizer.json")
    return folder


def _claim(output: Path, recipe: Recipe) -> None:
    """Refuse an output that another recipe began; drop checkpoints that were cut short."""
    path = output / "recipe.json"
    plain = json.loads(json.dumps(to_plain(recipe)))
    if path.is_file():
        before = json.loads(path.read_text("utf-8"))
        changed = sorted(_differences(before, plain))
        if changed:
            raise ConfigError(
                f"{str(output)!r} was begun with another recipe: {', '.join(changed)} differ(s)."
                " Take up the run with the same values, or choose another output."
            )
    write_atomically(path, plain)
    for folder in (output / "checkpoints").glob("checkpoint-*"):
        if not (folder / COMPLETE).exists():
            shutil.rmtree(folder)


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    names = []
    for room in before.keys() | after.keys():
        a, b = before.get(room), after.get(room)
        if isinstance(a, dict) and isinstance(b, dict):
            free = FREE_TO_CHANGE.get(room, set())
            names += [f"{room}.{k}" for k in a.keys() | b.keys() if a.get(k) != b.get(k)
                      and k not in free]
        elif a != b:
            names.append(room)
    return names


def _save(trainer: ReviserTrainer, parts: Parts, output: Path) -> None:
    model = trainer.model
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
    packages = ("reviser-lm", "torch", "transformers", "accelerate", "datatrove", "numpy")
    return {
        "recipe": to_plain(recipe),
        "data": parts.shards.fingerprint,
        "tokenizer": parts.codec.fingerprint,
        "parameters": sum(p.numel() for p in trainer.model.parameters()),
        "processes": trainer.args.world_size,
        "parallel": trainer.accelerator.distributed_type.value,
        "seen": trainer.seen,
        "flops": trainer.state.total_flos,
        "metrics": metrics,
        "versions": {name: version(name) for name in packages},
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
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
