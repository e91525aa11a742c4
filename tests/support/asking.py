"""Questions for an engine, asked side by side until all are answered."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from reviser.engines.base import Act, Engine, Request, Score, Scores, Step
from reviser.errors import ReviserError


def records_of(
    engine: Engine, requests: Sequence[Request], cancel: float = 0.0
) -> list[dict[str, Any]]:
    """Run requests, some of which are cancelled on the way; return what each gave."""
    rng = Random(5)
    records: list[dict[str, Any]] = [
        {"actions": [], "logprobs": [], "ended": None, "error": None} for _ in requests
    ]
    live = {engine.add(Act(each)): record for each, record in zip(requests, records, strict=True)}
    while live:
        for number, value in engine.step(1.0):
            record = live[number]
            if isinstance(value, Step):
                record["actions"].append(value.action)
                record["logprobs"].append(value.logprob)
                record["ended"] = value.ended
            else:
                record["error"], record["ended"] = value, "error"
            if record["ended"] is not None:
                del live[number]
        if rng.random() < cancel and live:
            number = rng.choice(sorted(live))
            engine.cancel(number)
            live.pop(number)["ended"] = "cancelled"
    return records


def answers_of(engine: Engine, questions: Sequence[Score]) -> list[Scores | ReviserError]:
    """Ask questions side by side; return the answers in order."""
    numbers = [engine.add(question) for question in questions]
    found: dict[int, Any] = {}
    while len(found) < len(numbers):
        found |= engine.step(1.0)
    return [found[number] for number in numbers]
