"""Micro-batches where each node reads only its own part of the shards.

The shards are cut into one part per node, and each part has an order of its own. Micro-batches are
numbered as always, and every process takes each n-th of them, so numbers that belong to the
processes of one node come from one part. Which examples a micro-batch has depends on its number
alone: with another number of processes the same examples are read, only not by one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from reviser.data.dataset import ExampleStream, MicroBatches
from reviser.data.order import NODE, hashed
from reviser.errors import ConfigError


class NodeBatches(Dataset[dict[str, Any]]):
    """Micro-batches by number, from the parts of several nodes in turn.

    `make` returns the examples of one node's part, given its number and its seed. A part is opened
    when its first micro-batch is asked for.
    """

    def __init__(
        self,
        make: Callable[[int, int], ExampleStream],
        *,
        nodes: int,
        processes: int,
        seed: int,
        size: int,
        count: int,
    ) -> None:
        self.make = make
        self.nodes = nodes
        self.processes = processes
        self.seed = seed
        self.size = size
        self.count = count
        self._parts: dict[int, MicroBatches] = {}

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> dict[str, Any]:
        if not 0 <= number < self.count:
            raise IndexError(f"Micro-batch {number} of {self.count}.")
        node, number_in_part = self.locate(number)
        return self._part(node)[number_in_part]

    def locate(self, number: int) -> tuple[int, int]:
        """Return the node of a micro-batch, and the number that it has among the node's own."""
        turn, process = divmod(number, self.nodes * self.processes)
        node, process = divmod(process, self.processes)
        return node, turn * self.processes + process

    @property
    def split(self) -> NodeSplit:
        """The data of all parts together."""
        return NodeSplit([self._part(node) for node in range(self.nodes)])

    def _part(self, node: int) -> MicroBatches:
        if node not in self._parts:
            # A seed of its own, so that no two parts share random numbers.
            seed = int(hashed(self.seed, NODE, np.array([node]))[0] >> np.uint64(32))
            turns = -(-self.count // (self.nodes * self.processes))
            stream = self.make(node, seed)
            self._parts[node] = MicroBatches(stream, size=self.size, count=turns * self.processes)
        return self._parts[node]


class NodeSplit:
    """The size of the data of several parts."""

    def __init__(self, parts: Sequence[MicroBatches]) -> None:
        self.left_out = sum(part.split.left_out for part in parts)
        """Documents that are too short for a window."""
        self._size = sum(len(part.split) for part in parts)

    def __len__(self) -> int:
        return self._size


def part_of_node(parts: Sequence[int], node: int, nodes: int) -> range:
    """Return the shards of one node: neighbours, with about as many documents as each other node's.

    >>> [list(part_of_node([5, 5, 5, 20], node, 2)) for node in range(2)]
    [[0, 1, 2], [3]]
    """
    if nodes > len(parts):
        raise ConfigError(
            f"data.windows.nodes asks for {nodes} parts, but there are {len(parts)} shards: each"
            " node needs at least one. Use fewer nodes, or leave nodes out."
        )
    ends = np.cumsum(parts)
    goals = ends[-1] * np.arange(1, nodes) / nodes
    cuts = np.searchsorted(ends, goals, side="left") + 1
    # At least one shard for each node, before and after every cut.
    for n in range(nodes - 1):
        cuts[n] = min(max(cuts[n], cuts[n - 1] + 1 if n else 1), len(parts) - (nodes - 1 - n))
    bounds = [0, *cuts.tolist(), len(parts)]
    return range(bounds[node], bounds[node + 1])
