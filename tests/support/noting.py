"""Edit probabilities of engines without a model: the same for the same history, and mostly low."""

from random import Random


def edit_probabilities(history: tuple[int, ...]) -> tuple[float, ...]:
    rng = Random(repr(history))
    return tuple(1 - rng.choice([0.1, 0.9, 1.0, 1.0]) for _ in history[1:])
