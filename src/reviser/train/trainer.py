"""Hugging Face's Trainer, fed with numbered micro-batches and scored per text token.

This module adds three things: counts of what was read, a held-out score by kind of action, and
sample texts. The loop, the optimizer, precision, DDP and FSDP are the Trainer's.

Shapes: B rows, T ids of a history, A ids of the vocabulary, K groups of actions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from accelerate import PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from torch.distributed.fsdp import MixedPrecisionPolicy
from transformers.trainer import SCHEDULER_NAME

from reviser.core.actions import MOVES, ActionVocab, Kind
from reviser.core.mask import is_argument, is_search
from reviser.data.dataset import COUNTS, DIGEST_RANGE, NO_LABEL, MicroBatches
from reviser.errors import ReviserError
from reviser.train.resume import MarkComplete
from reviser.train.sharded import ShardedSaves

GROUPS = ("insert", "move", "stop", "operator")
"""The groups of the held-out score. Arguments belong to their operator; searches are moves."""
SEEN = ("ids", "text_tokens", "examples", "digest")
"""The counts of `COUNTS` that a run adds up from its start."""


class ReviserTrainer(transformers.Trainer):
    """Trainer on `MicroBatches` that evaluates on one such set per policy."""

    def __init__(
        self,
        *,
        vocab: ActionVocab,
        train_dataset: MicroBatches,
        held_out: Mapping[str, MicroBatches],
        write_samples: Callable[[Any, int], None],
        solve: Callable[[Any], dict[str, float]] = lambda _: {},
        **options: Any,
    ) -> None:
        super().__init__(
            data_collator=_unwrap,
            train_dataset=train_dataset,
            eval_dataset=next(iter(held_out.values())),
            **options,
        )
        self.vocab = vocab
        self.held_out = held_out
        self.seen = dict.fromkeys(SEEN, 0)
        """Counts of all processes together, including earlier starts of the run."""
        self._saves = ShardedSaves(self.args) if self.args.fsdp else None
        self.add_callback(self._saves or MarkComplete())
        self._write_samples, self._solve = write_samples, solve
        self._counts = dict.fromkeys(COUNTS, 0)  # of this process, since the last log
        self._clock = 0.0
        self.split = train_dataset.split
        self._scored: tuple[int, dict[str, float]] = (-1, {})

    def create_accelerator_and_postprocess(self) -> None:
        """Shard on CPUs too, and add up in float32."""
        copies, on_cpu = self.args.parallelism_config, self.args.device.type == "cpu"
        if on_cpu:
            # Without this: Accelerate refuses the grid, because it does not know that we shard.
            self.args.parallelism_config = None
        super().create_accelerator_and_postprocess()
        state = self.accelerator.state
        if self.args.fsdp and on_cpu:
            # Without this: Accelerate knows FSDP only on accelerators, takes the processes for
            # MULTI_CPU, and trains a whole copy in each of them (DDP) without a warning.
            state.fsdp_plugin = FullyShardedDataParallelPlugin(**self.args.fsdp_plugin_args)
            state.distributed_type = PartialState().distributed_type = DistributedType.FSDP
            self.is_fsdp_enabled = True  # the Trainer looked for a plugin before there was one
            if copies is not None:
                self.args.parallelism_config = state.parallelism_config = copies
                state.device_mesh = copies.get_device_mesh("cpu")
        if self.is_fsdp_enabled and self.args.bf16:
            # Without this: Accelerate also takes bf16 for the sums of gradients and for what the
            # model returns, so the loss is rounded to 8 bits.
            state.fsdp_plugin.mixed_precision_policy = MixedPrecisionPolicy(
                param_dtype=torch.bfloat16,
                reduce_dtype=torch.float32,
                output_dtype=torch.float32,
            )

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
        """Return the model's own loss, after taking our counts out of the batch."""
        for name, count in inputs.pop("counts").items():
            self._counts[name] += count
        del inputs["text_tokens"]
        return super().compute_loss(model, inputs, *args, **options)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        """Write shards in the background, where the Trainer would wait for them."""
        if self._saves is None:
            super()._save_optimizer_and_scheduler(output_dir)
            return
        self._saves.start(Path(output_dir), self.model, self.optimizer)
        if self.args.should_save:
            assert self.lr_scheduler is not None
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / SCHEDULER_NAME)

    def training_step(self, *args: Any, **options: Any) -> torch.Tensor:
        """Run the Trainer's step; start the clock at the first one."""
        self._clock = self._clock or time.perf_counter()
        return super().training_step(*args, **options)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add counts, speed and memory to the Trainer's figures; stop at a broken loss."""
        if "loss" in logs:
            refuse_broken(logs, self.state.global_step)
            logs = logs | self._throughput()
        super().log(logs, start_time)

    def _throughput(self) -> dict[str, float]:
        seconds = time.perf_counter() - self._clock
        own = torch.tensor([*self._counts.values()], device=self.args.device)
        sums = self.accelerator.reduce(own, reduction="sum").tolist()
        read = dict(zip(COUNTS, sums, strict=True))
        for name in SEEN:
            self.seen[name] += read[name]
        self.seen["digest"] %= DIGEST_RANGE
        self._counts = dict.fromkeys(COUNTS, 0)
        self._clock = time.perf_counter()
        speed = read["ids"] / seconds
        return {
            "padding": 1 - read["ids"] / read["cells"],
            "cut": read["cut"] / read["examples"],
            "ids_per_second": speed,
            f"ids_per_second_per_{_unit()[0]}": speed / (self.args.world_size * _unit()[1]),
            "peak_memory_gb": _peak_memory(),
            "epochs_seen": self.seen["examples"] / len(self.split),
            **{f"{name}_seen": count for name, count in self.seen.items()},
        }

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Score every held-out set in nats per text token, by kind of action."""
        began = time.perf_counter()
        model = self.model_wrapped
        step = self.state.global_step
        model.eval()  # each training step sets the training mode again
        metrics: dict[str, float] = {}
        with torch.compiler.set_stance("force_eager"):  # compiling pays off for steps only
            for name, batches in self.held_out.items():
                scores = self._score(model, batches)
                metrics |= {f"eval_{name}_{key}": value for key, value in scores.items()}
            self._write_samples(model, step)
            metrics |= {f"eval_{name}": value for name, value in self._solve(model).items()}
        self._scored = step, metrics
        self.log(metrics.copy())  # a copy, because the Trainer adds to it
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        self._clock += (time.perf_counter() - began) * bool(self._clock)  # not training time
        return metrics

    def evaluate_once(self) -> dict[str, float]:
        """Return the score at this step, computing it only if that was not done yet."""
        step, metrics = self._scored
        return metrics if step == self.state.global_step else self.evaluate()

    @torch.no_grad()
    def _score(self, model: Any, batches: MicroBatches) -> dict[str, float]:
        rank, world = self.args.process_index, self.args.world_size
        sums = torch.zeros(len(GROUPS) + 7, dtype=torch.float64)
        for first in range(0, len(batches), world):
            # Every process takes part in every forward pass, because sharded weights need it.
            batch = batches[min(first + rank, len(batches) - 1)]
            nll_BK, actions_B = self._nll(model, batch)
            if first + rank < len(batches):  # a repeated last batch does not count
                total, tokens = nll_BK.sum(1), batch["text_tokens"].double()
                squares = [(total * total).sum(), (total * tokens).sum(), (tokens * tokens).sum()]
                counts = [batch["counts"][name] for name in ("examples", "cut")]
                parts = [*nll_BK.sum(0), actions_B.sum(), tokens.sum(), *squares, *counts]
                sums += torch.tensor([float(part) for part in parts], dtype=torch.float64)
        sums = self.accelerator.reduce(sums.to(self.args.device), reduction="sum").cpu()
        *by_group, actions, tokens, tt, tn, nn, examples, cut = sums.tolist()
        nll = sum(by_group) / tokens
        # Standard error of a ratio (delta method): residuals are total - nll * tokens per row.
        spread = max(0.0, tt - 2 * nll * tn + nll * nll * nn) ** 0.5 / tokens
        named = {f"{name}_nll": part / tokens for name, part in zip(GROUPS, by_group, strict=True)}
        rates = {"actions_per_token": actions / tokens, "text_tokens": tokens}
        rates["cut"] = cut / examples
        return {"nll": nll, "nll_95": 1.96 * spread, **named, **rates}

    def _nll(self, model: Any, batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return for each row the loss by group, and the number of labelled ids but STOP."""
        ids_BT, labels_BT = batch["input_ids"], batch["labels"]
        logits_BTA = model(input_ids=ids_BT.to(self.args.device)).logits[:, :-1]
        goals_BT = labels_BT[:, 1:].to(logits_BTA.device)
        nll_BT = torch.nn.functional.cross_entropy(
            logits_BTA.float().flatten(0, 1), goals_BT.flatten(), reduction="none"
        ).view(goals_BT.shape)
        groups_BT = torch.from_numpy(groups_of(self.vocab, ids_BT.numpy()))
        one_hot_BTK = torch.nn.functional.one_hot(groups_BT[:, 1:], len(GROUPS))
        nll_BK = (nll_BT.cpu().double()[:, :, None] * one_hot_BTK).sum(1)
        is_action_BT = (goals_BT != NO_LABEL) & (goals_BT != self.vocab.stop)
        return nll_BK, is_action_BT.sum(1).cpu()


def refuse_broken(logs: dict[str, float], step: int) -> None:
    """Stop a run whose loss or gradient is not finite."""
    for name in ("loss", "grad_norm"):  # the same in every process, so all of them stop
        if not isfinite(logs.get(name, 0.0)):
            raise ReviserError(
                f"The {name} is {logs[name]} at step {step}: the weights broke after the previous"
                " line of the log. Start again with a lower learning_rate or more warmup."
            )


def _unwrap(batches: list[dict[str, Any]]) -> dict[str, Any]:
    (batch,) = batches
    return batch


def groups_of(vocab: ActionVocab, history_BT: np.ndarray) -> np.ndarray:
    """Return the index in `GROUPS` of each id of some histories."""
    kinds = np.where(is_argument(vocab, history_BT), Kind.NUMBER_END, vocab.kinds[history_BT])
    is_move = np.isin(kinds, MOVES) | is_search(vocab, history_BT)
    found = [kinds == Kind.INSERT, is_move, kinds == Kind.STOP]
    return np.select(found, range(len(found)), default=GROUPS.index("operator"))


def _unit() -> tuple[str, int]:
    """Return what a process computes on, and how many of it."""
    return ("device", 1) if torch.cuda.is_available() else ("core", torch.get_num_threads())


def _peak_memory() -> float:
    """Return the largest amount of memory this process has used so far, in GB."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**30
    if sys.platform == "win32":
        import psutil

        return float(psutil.Process().memory_info().peak_wset) / 2**30
    import resource  # Unix only; psutil does not report the peak there

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**30 if sys.platform == "darwin" else 2**20)
