"""An engine without a model: any action the mask allows, by the request's own seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import numpy as np

from reviser.core.actions import ActionVocab
from reviser.core.mask import Boundary
from reviser.engines.base import Request, Step, StopReason
from reviser.errors import ConfigError
from support import naive, noting


@dataclass
class Walk:
    request: Request
    rows: Boundary
    rng: Random
    actions: int = 0


class RandomEngine:
    """Runs `rows` requests at a time, as a real engine does, and counts what it was asked."""

    def __init__(self, vocab: ActionVocab, *, rows: int = 3) -> None:
        self.vocab = vocab
        self.added = 0
        self.cancelled: list[int] = []
        self.running: dict[int, Walk] = {}
        self._rows = rows

    def check(self, request: Request) -> None:
        if request.length > 1000:
            raise ConfigError("too long")

    def add(self, request: Request) -> int:
        rows = Boundary(self.vocab, 1)
        request.enter(rows, 0)
        self.added += 1
        self.running[self.added] = Walk(request, rows, Random(request.config.seed))
        return self.added

    def cancel(self, number: int) -> None:
        if self.running.pop(number, None):
            self.cancelled.append(number)

    def close(self) -> None:
        self.running.clear()

    def step(self) -> list[Step]:
        steps = []
        for number, walk in list(self.running.items())[: self._rows]:
            allowed = np.flatnonzero(walk.rows.allowed()[0])
            action = self.pick(walk, {*allowed.tolist()})
            walk.rows.advance([action])
            walk.actions += 1
            ended: StopReason | None = None
            if walk.rows.is_finished[0]:
                ended = "stop"
            elif walk.actions == walk.request.config.max_actions:
                ended = "max_actions"
            if ended:
                del self.running[number]
            read = None
            if walk.request.with_reading and walk.actions == 1:
                history = walk.request.history
                read = noting.reading(self.edit_probabilities(history), history)
                if walk.request.top:
                    read = replace(read, top=noting.top(history, self.vocab.size))
            steps.append(Step(number, action, -1.0, ended, reading=read))
        return steps

    def pick(self, walk: Walk, allowed: set[int]) -> int:
        return naive.pick(walk.rng, self.vocab, allowed)

    def edit_probabilities(self, history: tuple[int, ...]) -> tuple[float, ...]:
        return noting.edit_probabilities(history)
