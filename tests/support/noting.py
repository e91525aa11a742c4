"""Edit probabilities of engines without a model: the same for the same history, and mostly low."""

from collections.abc import Sequence
from math import inf, log1p
from random import Random

from reviser.engines.base import Reading


def edit_probabilities(history: tuple[int, ...]) -> tuple[float, ...]:
    rng = Random(repr(history))
    return tuple(1 - rng.choice([0.1, 0.9, 1.0, 1.0]) for _ in history[1:])


def reading(probabilities: Sequence[float]) -> Reading:
    return Reading(tuple(log1p(-each) if each < 1 else -inf for each in probabilities))
