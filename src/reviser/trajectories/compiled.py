"""What a policy compiles to: a function from a batch of targets to their restorations.

`policy` has the policies, and `sampler` checks targets and calls the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, kw_only=True)
class Targets:
    """A batch of targets, concatenated, and all that their random numbers depend on."""

    tokens: npt.NDArray[np.int32]
    """The i-th target is tokens[offsets[i]:offsets[i + 1]]."""
    offsets: npt.NDArray[np.int64]
    units: npt.NDArray[np.uint8] | None
    """What `Codec.unit_starts` gives for each token, if the caller has it."""
    indices: npt.NDArray[np.uint64]
    """The number of each example, which no other example of the epoch has."""
    seed: int
    epoch: int
    progress: float
    """Share of training that is done, for schedules."""


@dataclass(frozen=True, kw_only=True)
class Restorations:
    """A batch of restorations, concatenated: the i-th is ids[offsets[i]:offsets[i + 1]]."""

    ids: npt.NDArray[np.int32]
    learned: npt.NDArray[np.bool_]
    """True for ids that have a loss."""
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """Return the ids of the i-th restoration, and which of them have a loss."""
        part = slice(self.offsets[:-1][i], self.offsets[1:][i])
        return self.ids[part], self.learned[part]


Compiled: TypeAlias = Callable[[Targets], Restorations]
Write: TypeAlias = Callable[[list[int], np.random.Generator], Sequence[int]]
"""A function that returns the ids which write a target, STOP included."""


def one_by_one(write: Write) -> Compiled:
    """Return what calls a function for each target, with random numbers of its own.

    It is as slow as Python. The policies of the library are compiled by numba instead.
    """

    def restore(targets: Targets) -> Restorations:
        parts = []
        for n, index in enumerate(targets.indices.tolist()):
            target = targets.tokens[targets.offsets[n] : targets.offsets[n + 1]].tolist()
            rng = np.random.default_rng([targets.seed, targets.epoch, index])
            parts.append(np.array(write(target, rng), np.int32))
        ids = np.concatenate([np.empty(0, np.int32), *parts])
        offsets = np.cumsum([0, *map(len, parts)])
        return Restorations(ids=ids, learned=np.ones(len(ids), bool), offsets=offsets)

    return restore
