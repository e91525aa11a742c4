"""A text and its branches as one tree, the table of what is known of it, and the texts kept.

A text is read once, and its keys and values are kept. A branch then costs its own ids only: each
stands at the position it would have, and sees the text up to the cut and the ids before it on its
branch. Branches share what they have in common, with each other and with the text:

    position     0    1    2    3    4    5
    text        The  cat  sat  on   a   mat
    branches              ran  on               cut 2: one node, "ran"; a last id is never read
                          ran  to                      shares it
                          sat  by                      "sat" is the text's own

This module runs no model: engines read nodes (`scoring` with torch, `onnx` with ONNX Runtime) and
put the results into the table.

Shapes: N nodes that are read at a time, T ids of a text.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import ceil
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from reviser.engines.base import Score, Scores

CACHED_IDS = 2048
"""Ids of texts whose keys and values are kept, because branches of them may be asked for next."""

T = TypeVar("T")


class Tree:
    """What a question is about: nodes, the text's own first, and what may follow them."""

    def __init__(self, question: Score) -> None:
        history, count = question.history, len(question.history)
        self.length = count
        self.actions = list(history)
        self.parents = list(range(-1, count - 1))
        self.roots = list(range(count))
        """The last node of the text on the way to each node."""
        self.positions = list(range(count))
        self._children = {(n - 1, action): n for n, action in enumerate(history)}
        self.text = [(n - 1, history[n]) for n in range(question.start, count)]
        """Nodes, and the ids after them whose log-probabilities are asked for."""
        self.branches = [self._add(*branch) for branch in question.branches]

    def _add(self, cut: int, ids: Sequence[int]) -> list[tuple[int, int]]:
        node, asked = cut - 1, []
        for n, action in enumerate(ids):
            asked.append((node, action))
            if n == len(ids) - 1:
                break
            following = self._children.setdefault((node, action), len(self.actions))
            if following == len(self.actions):
                self.actions.append(action)
                self.parents.append(node)
                self.roots.append(self.roots[node])
                self.positions.append(self.positions[node] + 1)
            node = following
        return asked

    def parts(self, nodes: Sequence[int], most: int) -> Iterator[list[int]]:
        """Yield nodes in parts that can be read one after the other, about equally large.

        They have about `most` nodes, more where branches leave the text at one position: no branch
        is cut in two. A small part costs nearly as much as a large one, because each
        reads all weights.
        """
        size = ceil(len(nodes) / ceil(len(nodes) / most)) if nodes else 0
        part: list[int] = []
        for _, group in groupby(sorted(nodes, key=self.roots.__getitem__), self.roots.__getitem__):
            part += group
            if len(part) >= size:
                yield part
                part = []
        if part:
            yield part

    def sees(self, part: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Return what each node of a part sees: ids of the text [T], then nodes of the part [N].

        A node of the text itself, which is read again, sees the text up to its own id.
        """
        row = {node: n for n, node in enumerate(part) if node >= self.length}
        sees = np.zeros((len(part), self.length + len(part)), np.bool_)
        for n, node in enumerate(part):
            parent = self.parents[node]
            if parent in row:
                sees[n] = sees[row[parent]]
            else:
                sees[n, : self.roots[node] + 1] = True
            if node >= self.length:
                sees[n, self.length + n] = True
        return sees


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many ids two sequences have in common at their start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


class Table:
    """Log-probabilities of what is asked for, as they come."""

    def __init__(self, tree: Tree, *, stops: bool) -> None:
        self._tree, self._stops = tree, stops
        self._asked: dict[int, set[int]] = {}
        for pairs in (tree.text, *tree.branches):
            for node, action in pairs:
                self._asked.setdefault(node, set()).add(action)
        self._asked.setdefault(tree.length - 1, set())  # for STOP after the text
        self._logprobs: dict[tuple[int, int], float] = {}
        self.stop: dict[int, float] = {}
        """Log-probabilities of STOP by node, if the model has it."""

    @property
    def text_nodes(self) -> list[int]:
        """Nodes of the text after which something is asked for."""
        return sorted(node for node in self._asked if node < self._tree.length)

    def pairs(self, nodes: Sequence[int]) -> list[tuple[int, int]]:
        """Return what is asked about some nodes: the index of each, and an id after it."""
        return [(n, action) for n, node in enumerate(nodes) for action in self._asked[node]]

    def add(self, nodes: Sequence[int], logprobs: Iterable[float]) -> None:
        """Take the log-probabilities of the pairs of some nodes."""
        keys = ((nodes[n], action) for n, action in self.pairs(nodes))
        self._logprobs |= zip(keys, logprobs, strict=True)

    def scores(self) -> Scores:
        """Return the answer, once everything has come."""
        tree = self._tree
        nodes = [*(node for node, _ in tree.text), tree.length - 1]
        stop = tuple(self.stop[node] for node in nodes) if self._stops else ()
        branches = tuple(Scores(self._of(pairs)) for pairs in tree.branches)
        return Scores(self._of(tree.text), stop, branches)

    def _of(self, pairs: Sequence[tuple[int, int]]) -> tuple[float, ...]:
        return tuple(self._logprobs[pair] for pair in pairs)


class Texts(Generic[T]):
    """The texts that were read last, up to a number of ids, and what was kept of each."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, ...], T] = OrderedDict()

    def __contains__(self, history: tuple[int, ...]) -> bool:
        return history in self._kept

    def pop(self, history: tuple[int, ...]) -> T | None:
        """Return what was kept of a text, which is not kept from then on."""
        return self._kept.pop(history, None)

    def nearest(self, history: tuple[int, ...]) -> tuple[int, T | None]:
        """Return how much a text has in common with the start of one that is kept, and that one."""
        shared = {each: common(each, history) for each in self._kept}
        nearest = max(shared, key=shared.__getitem__, default=())
        return shared.get(nearest, 0), self._kept.get(nearest)

    def keep(self, history: tuple[int, ...], text: T) -> None:
        """Keep a text as the newest, and drop the oldest if there are too many ids."""
        self._kept[history] = text
        while len(self._kept) > 1 and sum(map(len, self._kept)) > CACHED_IDS:
            self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget all texts."""
        self._kept.clear()
