"""Readings of engines without a model: the same for the same history, edits mostly unlikely."""

from collections.abc import Sequence
from math import inf, log1p
from random import Random
from zlib import crc32

import numpy as np
import numpy.typing as npt

from reviser.engines.base import Reading


def edit_probabilities(history: tuple[int, ...]) -> tuple[float, ...]:
    rng = Random(repr(history))
    return tuple(1 - rng.choice([0.1, 0.9, 1.0, 1.0]) for _ in history[1:])


def actual(history: tuple[int, ...]) -> tuple[float, ...]:
    """Log-probabilities of the ids after the first, each of what came before it and itself."""
    found, state = [], 0
    for action in history:
        state = crc32(action.to_bytes(4, "little"), state)
        found.append(-(state % 1000) / 1000)
    return tuple(found[1:])


def top(
    history: tuple[int, ...], size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """All ids and their log-probabilities after each id of a history but the last."""
    logprobs = np.array(
        [
            [actual((*history[:end], each))[-1] for each in range(size)]
            for end in range(1, len(history))
        ],
        np.float32,
    ).reshape(-1, size)
    order = np.argsort(-logprobs, axis=1)
    return order, np.take_along_axis(logprobs, order, axis=1)


def reading(probabilities: Sequence[float], history: tuple[int, ...] = ()) -> Reading:
    stops = tuple(log1p(-each) if each < 1 else -inf for each in probabilities)
    return Reading(stops, actual(history))
