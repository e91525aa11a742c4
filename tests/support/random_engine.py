"""An engine without a model: any action the mask allows, by the request's own seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

import numpy as np

from reviser.core.actions import ActionVocab
from reviser.core.mask import ActionMask
from reviser.engines.base import Answer, Question, Request, Score, Scores, Step, StopReason
from reviser.errors import ConfigError
from support import naive, noting


@dataclass
class Walk:
    """A request and what was done for it."""

    request: Request
    rows: ActionMask
    rng: Random
    actions: int = 0


class RandomEngine:
    """Works on `rows` questions at a time, as a real engine does, and counts what it was asked."""

    context = 100_000
    versions: ClassVar = {"random": "1"}

    def __init__(self, vocab: ActionVocab, *, rows: int = 3) -> None:
        self.vocab = vocab
        self.added = 0
        self.cancelled: list[int] = []
        self.running: dict[int, Walk | Score] = {}
        self._rows = rows

    @property
    def walks(self) -> dict[int, Walk]:
        """The requests among the questions."""
        return {n: each for n, each in self.running.items() if isinstance(each, Walk)}

    def check(self, request: Request) -> None:
        if request.length > 1000:
            raise ConfigError("too long")

    def add(self, question: Question) -> int:
        if isinstance(question, Score):
            question.check(self.vocab, self.context)
            asked: Walk | Score = question
        else:
            request = question.request
            self.check(request)
            rows = ActionMask(self.vocab, 1)
            request.enter(rows, 0)
            asked = Walk(request, rows, Random(request.config.seed))
        self.added += 1
        self.running[self.added] = asked
        return self.added

    def cancel(self, number: int) -> None:
        if self.running.pop(number, None):
            self.cancelled.append(number)

    def close(self) -> None:
        self.running.clear()

    def step(self, wait: float = 0.0) -> list[Answer]:  # noqa: ARG002 - it never waits
        first = list(self.running.items())[: self._rows]
        answers = [Answer(number, self._say(asked)) for number, asked in first]
        for answer in answers:
            if answer.is_last:
                del self.running[answer.number]
        return answers

    def _say(self, asked: Walk | Score) -> Step | Scores:
        if isinstance(asked, Score):
            return noting.scores(asked, self.edit_probabilities)
        action = self.pick(asked, {*np.flatnonzero(asked.rows.allowed()[0]).tolist()})
        asked.rows.advance([action])
        asked.actions += 1
        ended: StopReason | None = None
        if asked.rows.is_finished[0]:
            ended = "stop"
        elif asked.actions == asked.request.config.max_actions:
            ended = "max_actions"
        return Step(action, -1.0, ended)

    def pick(self, walk: Walk, allowed: set[int]) -> int:
        return naive.pick(walk.rng, self.vocab, allowed)

    def edit_probabilities(self, history: tuple[int, ...]) -> Sequence[float]:
        """Return the probability that an edit is needed after each id."""
        return noting.edit_probabilities(history)
