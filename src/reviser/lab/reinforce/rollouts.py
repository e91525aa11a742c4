"""Rollouts: a model continues prompts in the engine, and the executor says what came of it.

The random numbers of a rollout depend on the seed, its prompt and its number among the rollouts of
that prompt, so a resumed run repeats them. This module does not know rewards or TRL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reviser.core.codec import Codec
from reviser.data.order import ROLLOUT, hashed
from reviser.engines.base import Act, Request, Step, actions_of, measure, replay
from reviser.engines.hf import HFEngine
from reviser.lab.reinforce.prompts import HELD_OUT, Prompt

ROWS = 64
"""Rollouts that run side by side."""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """One rollout of a prompt, and the text that it left."""

    prompt: Prompt
    ids: tuple[int, ...]
    """All ids after the history, those of the oracle first."""
    by_oracle: int
    """How many of them the oracle chose."""
    text: str
    """The revised draft; or what was written after the beginning."""
    tokens: int
    """Tokens of that text."""
    is_revised: bool
    """True if a draft was changed; or if text was changed or inserted before the end."""
    has_stopped: bool
    """True if it ended with STOP, not at a limit."""

    @property
    def actions(self) -> int:
        """Number of ids that the model chose."""
        return len(self.ids) - self.by_oracle


def roll_out(
    engine: HFEngine, codec: Codec, prompts: Sequence[Prompt], *, seed: int, oracle: float = 0.0
) -> list[Rollout]:
    """Run every prompt to its end; one that occurs several times gets different rollouts."""
    seen: Counter[str] = Counter()
    started: list[tuple[int, ...]] = []
    running: dict[int, list[int]] = {}
    chosen: list[list[int]] = []
    for prompt in prompts:
        first = prompt.oracle(actions_of(engine.vocab), oracle, engine.context)
        request = _after(engine, prompt, first, _seed(seed, prompt, seen[prompt.key]))
        seen[prompt.key] += 1
        started.append(first)
        chosen.append([])
        running[engine.add(Act(request))] = chosen[-1]
    while running:
        for answer in engine.step():
            if isinstance(answer.value, Exception):
                raise answer.value
            assert isinstance(answer.value, Step)
            running[answer.number].append(answer.value.action)
            if answer.is_last:
                del running[answer.number]
    ends = zip(prompts, started, chosen, strict=True)
    return [_finished(engine, codec, *each) for each in ends]


def _seed(seed: int, prompt: Prompt, repeat: int) -> int:
    split, _, number = prompt.key.partition(" ")
    key = np.array([int(number)])
    return int(hashed(seed, ROLLOUT, key, repeat, split == HELD_OUT)[0])


def _after(engine: HFEngine, prompt: Prompt, first: tuple[int, ...], seed: int) -> Request:
    """Return the request that continues a prompt after the oracle's ids."""
    request = prompt.request
    history = (*request.history, *first)
    length, cursor = measure(actions_of(engine.vocab), history)
    left = max(1, request.config.max_actions - len(first))
    return replace(
        request,
        history=history,
        length=length,
        cursor=cursor,
        editable=((prompt.locked, length),),
        config=replace(request.config, seed=seed, max_actions=left),
    )


def _finished(
    engine: HFEngine, codec: Codec, prompt: Prompt, first: tuple[int, ...], chosen: list[int]
) -> Rollout:
    vocab, ids = actions_of(engine.vocab), (*first, *chosen)
    canvas = replay(vocab, (*prompt.request.history, *ids))
    tokens = canvas.tokens()[prompt.locked :]
    text = codec.decode(tokens)
    stops = ids[-1] == vocab.stop
    # Text that is only appended is the inserts in their order, and nothing else.
    written: Any = ids[:-1] if stops else ids
    return Rollout(
        prompt=prompt,
        ids=ids,
        by_oracle=len(first),
        text=text,
        tokens=len(tokens),
        is_revised=text != prompt.text if prompt.is_draft else list(written) != tokens,
        has_stopped=stops,
    )
