"""The part that both vLLM engines share: vLLM's form of a request, and counting its actions.

This module imports neither vllm nor torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from math import inf
from typing import Any

from reviser.core.actions import ActionVocab, Kind
from reviser.engines.base import Reading, Request, Step, StopReason, failed_step
from reviser.errors import EngineError

PROCESSOR = "reviser.engines.vllm_plugin:ReviserMask"
LOGPROBS_PER_ID = 20
"""Ids among which STOP is looked for after each id of a history: the most that vLLM reports."""


@dataclass
class Running:
    """A request that vLLM runs, and what it needs to end as it does on every engine."""

    request: Request
    context: int
    actions: int = 0

    def take(self, number: int, action: int, logprob: float, vocab: ActionVocab) -> Step:
        """Count one action and return its step; vLLM's own reason for an end is not used.

        An id that is never legal is how the mask reports that it failed on this request.
        """
        if not 0 <= action < vocab.size or vocab.kinds[action] >= Kind.SEPARATOR:
            return failed_step(number, EngineError("The mask failed on this request."))
        self.actions += 1
        ended: StopReason | None = None
        if action == vocab.stop:  # never another action's argument
            ended = "stop"
        elif self.actions == self.request.config.max_actions:
            ended = "max_actions"
        elif len(self.request.history) + self.actions >= self.context:
            ended = "context"
        return Step(number, action, logprob, ended)


def sampling(request: Request, vocab: ActionVocab, context: int) -> dict[str, Any]:
    """Return the settings under the names that vLLM has for them, offline and over HTTP."""
    config = request.config
    return {
        "temperature": config.temperature,
        "top_k": config.top_k or -1,
        "top_p": config.top_p,
        "min_p": config.min_p,
        "seed": config.seed & (1 << 63) - 1,  # signed there, and -1 means none
        "max_tokens": min(config.max_actions, context - len(request.history)),
        "stop_token_ids": [vocab.stop],
        "ignore_eos": True,  # the folder may name end tokens other than STOP
        "logprobs": 0,  # only that of the chosen action
        "prompt_logprobs": LOGPROBS_PER_ID if request.with_reading else None,
    }


def with_reading(
    steps: list[Step], stops: Iterable[float | None], actual: Iterable[float]
) -> list[Step]:
    """Return the steps, the first with a reading: log-probabilities of STOP and of what follows.

    Where vLLM reports none, twenty other ids are likelier than STOP, and an edit is certain.
    """
    found = tuple(-inf if logprob is None else logprob for logprob in stops)
    return [replace(steps[0], reading=Reading(found, tuple(actual))), *steps[1:]]


def versions(*names: str) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
