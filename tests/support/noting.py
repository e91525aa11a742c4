"""Notes of engines without a model: the same of the same history, and mostly nothing to change."""

from random import Random


def notes(history: tuple[int, ...]) -> tuple[float, ...]:
    rng = Random(repr(history))
    return tuple(rng.choice([0.1, 0.9, 1.0, 1.0]) for _ in history[1:])
