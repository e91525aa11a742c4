"""An engine without a model: each request gets the same actions, legal or not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import ClassVar

from reviser.core.actions import ActionVocab
from reviser.engines.base import Act, Answer, Question, Request, Score, Scores, Step, StopReason
from support import noting


class ScriptedEngine:
    """Answers `Act` with the actions of a script, and `Score` with what a function returns."""

    context = 100_000
    logprob = 0.0
    versions: ClassVar = {"scripted": "1"}

    def __init__(
        self,
        vocab: ActionVocab,
        script: Sequence[int] = (),
        score: Callable[[Score], Scores] = noting.scores,
    ) -> None:
        self.vocab = vocab
        self.added = 0
        self.running: dict[int, deque[int] | Score] = {}
        self._script, self._score = script, score

    def script(self, _request: Request) -> Sequence[int]:
        """Return the actions of one request."""
        return self._script

    def add(self, question: Question) -> int:
        self.added += 1
        if isinstance(question, Act):
            self.running[self.added] = deque(self.script(question.request))
        else:
            self.running[self.added] = question
        return self.added

    def cancel(self, number: int) -> None:
        self.running.pop(number, None)

    def close(self) -> None:
        self.running.clear()

    def step(self, wait: float = 0.0) -> list[Answer]:  # noqa: ARG002 - it never waits
        answers = [Answer(number, self._say(left)) for number, left in self.running.items()]
        for answer in answers:
            if answer.is_last:
                self.running.pop(answer.number, None)
        return answers

    def _say(self, left: deque[int] | Score) -> Step | Scores:
        if isinstance(left, Score):
            return self._score(left)
        action = left.popleft()
        ended: StopReason | None = None if left else "max_actions"
        return Step(action, self.logprob, "stop" if action == self.vocab.stop else ended)
