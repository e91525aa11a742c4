"""TRL's GRPO trainer on rollouts of our engine, with the probabilities of legal actions only.

The loop, the advantages, the clipped loss, the KL penalty and the entropy bonus are TRL's. This
module adds three things: rollouts, masked log-probabilities, and the regulariser of action types.

Shapes: B rollouts, P ids of a history, C ids of a completion, T ids of both, A ids of the
vocabulary, K types of actions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerFast
from trl import GRPOTrainer

from reviser.engines.base import Request
from reviser.engines.hf import HFEngine
from reviser.engines.logits import LogitsMask
from reviser.lab.recipe import LabRecipe
from reviser.lab.reinforce.likelihood import Likelihood, likelihood, masked_steps, type_divergence
from reviser.lab.reinforce.prompts import HELD_OUT, TRAINING, Prompts
from reviser.lab.reinforce.rewards import Ranked, Reward, guards
from reviser.lab.reinforce.rollouts import ROWS, Rollout, roll_out
from reviser.train.inputs import Inputs
from reviser.train.trainer import refuse_broken

SEEN = ("ids", "text_tokens", "examples")
"""Counts that a run adds up from its start: ids read, tokens of the texts, and rollouts."""
_PARTS = ("prompt", "completion")


class EditGRPOTrainer(GRPOTrainer):
    """GRPO whose actions are edits."""

    model: Any  # the base class allows None, and never has it

    def __init__(
        self,
        *,
        recipe: LabRecipe,
        inputs: Inputs,
        prompts: Mapping[str, Prompts],
        held_out: int,
        reward: Reward,
        write_samples: Callable[[Any, int], None],
        **options: Any,
    ) -> None:
        assert recipe.reinforce is not None
        self.seen = dict.fromkeys(SEEN, 0)
        """Counts of all processes together, including earlier starts of the run."""
        self._reinforce = recipe.reinforce
        self._inputs_of_run = inputs
        self.prompts = prompts
        self._write_samples = write_samples
        self._counts = dict.fromkeys(SEEN, 0)  # of this process, since the last log
        self._clock = 0.0
        self._scored: tuple[int, dict[str, float]] = (-1, {})
        # Of the newest rollouts, for training and evaluation apart: rollouts to train on may wait
        # for their second update while others are evaluated.
        self._requests: dict[bool, dict[tuple[int, ...], Request]] = {}
        self._reference_types: dict[bool, dict[tuple[int, ...], torch.Tensor]] = {}
        self._types: Likelihood | None = None
        training = recipe.training
        updates = self._reinforce.updates
        count = training.steps // updates * training.batch // self._reinforce.group
        super().__init__(
            reward_funcs=_reward_functions(reward),
            train_dataset=_numbered(TRAINING, count),
            eval_dataset=_numbered(HELD_OUT, held_out),
            processing_class=_tokenizer(inputs),
            rollout_func=_roll_out,
            **options,
        )
        self._mask = LogitsMask(inputs.vocab, self.args.device)

    def _send_telemetry(self) -> None:
        """Report nothing about a run to anyone."""

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """Write no model card: run.json says how the model was made."""

    def roll_out(self, keys: Sequence[str]) -> list[Rollout]:
        """Run the prompts with these keys with the present weights."""
        is_training, model, began = self.model.training, self.model, time.perf_counter()
        share = self._reinforce.oracle_share(self.state.global_step / self.args.max_steps)
        prompts = {key: self.prompts[split][int(n)] for key in keys for split, n in [key.split()]}
        engine = HFEngine(model, self._inputs_of_run.vocab, rows=min(ROWS, len(keys)))
        with self.accelerator.autocast():
            rollouts = roll_out(
                engine,
                self._inputs_of_run.codec,
                [prompts[key] for key in keys],
                seed=self.args.seed,
                oracle=share if is_training else 0.0,
            )
        model.train(is_training)  # which an engine turns off
        self._requests[is_training] = {p.request.history: p.request for p in prompts.values()}
        self._reference_types[is_training] = {}
        if is_training:
            self._clock = self._clock or began
            self._counts["ids"] += sum(len(r.prompt.request.history) + len(r.ids) for r in rollouts)
            self._counts["text_tokens"] += sum(rollout.tokens for rollout in rollouts)
            self._counts["examples"] += len(rollouts)
        return rollouts

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **_: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, None]:
        """Return log-probabilities and entropies of the completions, in place of TRL's own."""
        size = batch_size or len(input_ids)
        chunks = zip(input_ids.split(size), attention_mask.split(size), strict=True)
        found = [self._likelihood(model, *chunk, logits_to_keep) for chunk in chunks]
        self._types = found[-1]  # of the loss, which has one chunk
        entropies = torch.cat([each.entropies for each in found]) if compute_entropy else None
        return torch.cat([each.logprobs for each in found]), entropies, None

    def _likelihood(
        self, model: Any, ids_BT: torch.Tensor, is_real_BT: torch.Tensor, width: int
    ) -> Likelihood:
        is_training = self.model.training
        histories, actions = (
            [tuple(row[real].tolist()) for row, real in zip(ids, mask.bool(), strict=True)]
            for ids, mask in (
                (ids_BT[:, :-width], is_real_BT[:, :-width]),
                (ids_BT[:, -width:], is_real_BT[:, -width:]),
            )
        )
        requests = [self._requests[is_training][history] for history in histories]
        steps = masked_steps(self._mask, requests, actions)
        # Dropout would give other probabilities than those that the rollouts were sampled from.
        model.eval()
        with self.accelerator.autocast():
            logits_BTA = model(
                input_ids=ids_BT,
                attention_mask=is_real_BT,
                # Histories are padded on the left, and positions count from their first id.
                position_ids=(is_real_BT.cumsum(1) - 1).clamp(min=0),
                logits_to_keep=width + 1,
                use_cache=False,
            ).logits[:, -width - 1 : -1]
        self.model.train(is_training)
        result = likelihood(
            logits_BTA, ids_BT[:, -width:], steps, self._mask, temperature=self.temperature
        )
        if model is self.ref_model and self._reinforce.types:
            for history, chosen, types_CK in zip(histories, actions, result.types, strict=True):
                self._reference_types[is_training][history + chosen] = types_CK[: len(chosen)]
        return result

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """Return TRL's loss with the regulariser of action types."""
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        if not self._reinforce.types:
            return loss
        assert self._types is not None
        is_training = self.model.training
        types_BCK, counted_BC = self._types.types, inputs["completion_mask"].clone()
        if "tool_mask" in inputs:  # without the oracle's actions
            counted_BC *= inputs["tool_mask"]
        reference_BCK = torch.zeros_like(types_BCK)
        parts = [(inputs[f"{name}_ids"], inputs[f"{name}_mask"]) for name in _PARTS]
        for n, row_CK in enumerate(reference_BCK):
            whole = tuple(i for ids, mask in parts for i in ids[n][mask[n].bool()].tolist())
            types_CK = self._reference_types[is_training][whole]
            row_CK[: len(types_CK)] = types_CK
        divergence = type_divergence(types_BCK, reference_BCK, counted_BC)
        mode = "train" if is_training else "eval"
        gathered = self.accelerator.gather(divergence.detach())
        self._metrics[mode]["type_divergence"].append(gathered.mean().item())
        micro_batches = self.current_gradient_accumulation_steps if is_training else 1
        return loss + self._reinforce.types * divergence / micro_batches

    def evaluate(self, *args: Any, **options: Any) -> dict[str, float]:
        """Score rollouts of held-out prompts, and write sample texts."""
        metrics: dict[str, float] = super().evaluate(*args, **options)
        self._write_samples(self.model, self.state.global_step)
        self._scored = self.state.global_step, metrics
        return metrics

    def evaluate_once(self) -> dict[str, float]:
        """Return the scores at this step, computing them only if that was not done yet."""
        step, metrics = self._scored
        return metrics if step == self.state.global_step else self.evaluate()

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add counts and speed to TRL's figures; stop at a broken loss."""
        if "loss" in logs:
            refuse_broken(logs, self.state.global_step)
            own = torch.tensor([*self._counts.values()], device=self.args.device)
            sums = self.accelerator.reduce(own, reduction="sum").tolist()
            read = dict(zip(SEEN, sums, strict=True))
            now = time.perf_counter()
            logs["ids_per_second"] = read["ids"] / (now - self._clock)
            for name in SEEN:
                self.seen[name] += read[name]
                logs[f"{name}_seen"] = self.seen[name]
            self._counts, self._clock = dict.fromkeys(SEEN, 0), now
        super().log(logs, start_time)


def _roll_out(keys: list[str], trainer: Any) -> dict[str, Any]:
    """Return the rollouts of prompts as TRL reads them.

    There are no log-probabilities of the sampler: TRL computes them again with the same weights
    and, here, the same mask. `env_mask` leaves out what the oracle did.
    """
    rollouts = trainer.roll_out(keys)
    return {
        "prompt_ids": [list(each.prompt.request.history) for each in rollouts],
        "completion_ids": [list(each.ids) for each in rollouts],
        "logprobs": None,
        "env_mask": [[0] * each.by_oracle + [1] * each.actions for each in rollouts],
        "rollout": rollouts,
    }


def _reward_functions(reward: Reward) -> list[Any]:
    """Return the reward, and the number of actions, which has a price."""

    def quality(*, rollout: list[Rollout], log_metric: Any, **_: Any) -> list[float]:
        rewards = reward(rollout)
        figures = guards(rollout)
        if isinstance(reward, Ranked):
            figures["score"] = sum(reward.scores) / len(rollout)
        for name, value in figures.items():
            log_metric(name, value)
        return rewards

    def actions(*, rollout: list[Rollout], **_: Any) -> list[float]:
        return [float(each.actions) for each in rollout]

    return [quality, actions]


def _numbered(split: str, count: int) -> Dataset:
    """Return the keys of the first prompts of a split, as a dataset of TRL's form."""
    return Dataset.from_dict({"prompt": [f"{split} {number}" for number in range(count)]})


def _tokenizer(inputs: Inputs) -> PreTrainedTokenizerFast:
    """Return the tokenizer with STOP as end and padding, by which TRL knows what has ended."""
    stop = inputs.tokenizer.id_to_token(inputs.vocab.stop)
    return PreTrainedTokenizerFast(
        tokenizer_object=inputs.tokenizer, eos_token=stop, pad_token=stop, padding_side="left"
    )
