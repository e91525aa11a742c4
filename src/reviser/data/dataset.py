"""Index to example: windows of documents, their trajectories, and micro-batches of like length.

Stateless: what stands at a place of the stream is computed from the seed and the place, never
stored, so any rank, worker, restart or number of processes sees the same. Knows shards and the
sampler; nothing of models or optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset

from reviser.core.actions import ActionVocab
from reviser.core.codec import UNITS
from reviser.data.shards import TokenShards
from reviser.errors import ConfigError, DataError
from reviser.trajectories.sampler import Sampler

IntArray = npt.NDArray[np.int64]
Hash = npt.NDArray[np.uint64]
UnitStarts = Callable[[npt.NDArray[np.int32]], npt.NDArray[np.uint8]]

NO_LABEL = -100
"""The label that bears no loss, as torch and Transformers spell it."""
GROUP = 16
"""Micro-batches that are sorted by length together. Whoever needs one samples them all, so this
bounds the extra sampling, however many processes train."""
COUNTS = ("ids", "text_tokens", "examples", "cut", "digest", "cells")
"""Of a micro-batch: ids without padding, tokens they write, examples, those cut to fit, a sum that
tells which examples they are, and ids with padding."""
DIGEST_RANGE = 1 << 48
"""Digests add up modulo this, so that sums over many processes stay exact."""
WIDTH_MULTIPLE = 8
"""Micro-batches are so many ids wide, or a multiple: kernels are prepared once per shape."""
HELD_OUT, ORDER, PREFIX, SHUFFLE, DIGEST = range(5)
"""What a hash is for, so that no two uses share random numbers."""


@dataclass(frozen=True, kw_only=True)
class WindowConfig:
    """How documents become prefixes and targets."""

    size: int = 180
    """Tokens of a window, into which documents are cut."""
    prefix: tuple[int, int] = (0, 64)
    """Fewest and most tokens of a prefix, drawn uniformly; the paper's are (35, 35). The rest of
    the window is the target."""
    least_target: int = 8
    """What is left with fewer tokens than this to write is left out."""
    held_out: float = 0.01
    """Share of the documents kept for evaluation."""

    def __post_init__(self) -> None:
        if not 0 <= self.prefix[0] <= self.prefix[1]:
            raise ConfigError(f"prefix is {self.prefix}; give fewest and most tokens, 0 or more.")
        if not 1 <= self.least_target <= self.size - self.prefix[1]:
            raise ConfigError(
                f"A window of size {self.size} leaves {self.size - self.prefix[1]} tokens behind"
                f" the longest prefix; least_target, {self.least_target}, must be from 1 to that."
            )
        if not 0 <= self.held_out < 1:
            raise ConfigError(f"held_out is {self.held_out}; it goes from 0 to below 1.")


class Windows:
    """The windows of one side of the split, in document order.

    Memory is eight bytes per document, beside the shards' own lengths. Which documents are held
    out does not depend on the seed of a run, so that no run learns what another is scored on.
    """

    def __init__(
        self, shards: TokenShards, config: WindowConfig, *, held_out: bool = False
    ) -> None:
        self.shards = shards
        self.config = config
        self.size = config.size
        self.least = config.prefix[0] + config.least_target
        lengths = shards.lengths
        chosen = held_out_documents(shards, config) == held_out
        # A last piece too short to learn from is no window.
        counts = lengths // self.size + (lengths % self.size >= self.least)
        self.left_out = int(np.count_nonzero(chosen & (counts == 0)))
        """Documents of this side that are too short to have a window."""
        self._ends = np.cumsum(np.where(chosen, counts, 0))
        if not len(self):
            side = "held-out" if held_out else "training"
            raise DataError(
                f"The {side} side of the split has no document of {self.least} tokens or more"
                f" ({len(lengths)} documents, held_out {config.held_out}). Add text, or change"
                " held_out, prefix or least_target."
            )

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def read(self, indices: IntArray) -> list[npt.NDArray[np.int32]]:
        """The tokens of some windows."""
        documents = np.searchsorted(self._ends, indices, side="right")
        firsts = np.where(documents > 0, self._ends[documents - 1], 0)
        starts = (indices - firsts) * self.size
        stops = np.minimum(starts + self.size, self.shards.lengths[documents])
        return self.shards.read_many(documents, starts, stops)


def held_out_documents(shards: TokenShards, config: WindowConfig) -> npt.NDArray[np.bool_]:
    """For each document, whether it is kept for evaluation."""
    documents = np.arange(len(shards.lengths), dtype=np.uint64)
    share = hashed(0, HELD_OUT, documents) >> np.uint64(11)
    chosen: npt.NDArray[np.bool_] = share < config.held_out * (1 << 53)
    return chosen


class Example(NamedTuple):
    """One history and what is learned of it."""

    ids: npt.NDArray[np.int32]
    labels: npt.NDArray[np.int32]
    """What is to be said at each place, mostly the id itself; NO_LABEL where nothing is learned."""
    text_tokens: int
    """How many tokens the restoration writes."""
    is_cut: bool
    """Whether the target was cut to fit the context."""
    digest: int
    """A hash of the example's epoch and index, to tell which were seen."""

    @property
    def learned(self) -> npt.NDArray[np.bool_]:
        """Where something is learned."""
        return self.labels != NO_LABEL


class Side(Protocol):
    """What of the data is trained on, or what is held out."""

    left_out: int

    def __len__(self) -> int: ...


class Passes:
    """An endless sequence of examples: place to example.

    Each pass over the data has an order of its own.
    """

    def __init__(self, windows: Side, vocab: ActionVocab, *, context: int, seed: int = 0) -> None:
        self.windows = windows
        self.vocab = vocab
        self.context = context
        self.seed = seed

    def examples(self, places: IntArray, *, progress: float = 0.0) -> list[Example]:
        """The examples at some places; `progress` is for policies that change in training."""
        epochs, offsets = np.divmod(places, len(self.windows))
        examples: dict[int, Example] = {}
        for epoch in np.unique(epochs).tolist():
            chosen = np.flatnonzero(epochs == epoch)
            indices = permute(offsets[chosen], len(self.windows), seed=self.seed, epoch=epoch)
            examples |= zip(chosen.tolist(), self._sample(indices, epoch, progress), strict=True)
        return [examples[n] for n in range(len(places))]

    def _sample(self, indices: IntArray, epoch: int, progress: float, /) -> list[Example]:
        raise NotImplementedError

    def _digests(self, indices: IntArray, epoch: int) -> list[int]:
        """What tells one example from another, wherever it is seen."""
        digests = hashed(self.seed, DIGEST, indices.astype(np.uint64), epoch) >> np.uint64(16)
        told: list[int] = digests.tolist()
        return told


class Stream(Passes):
    """Windows of text, each with a trajectory of its own in every pass."""

    windows: Windows

    def __init__(
        self,
        windows: Windows,
        sampler: Sampler,
        *,
        context: int,
        unit_starts: UnitStarts | None = None,
        seed: int = 0,
    ) -> None:
        vocab = sampler.vocab
        super().__init__(windows, vocab, context=context, seed=seed)
        self.sampler = sampler
        self._unit_starts = unit_starts
        self._begin, self._delimiter = (
            np.array([] if i is None else [i], np.int32) for i in (vocab.begin, vocab.delimiter)
        )
        self._most = context - len(self._begin) - len(self._delimiter)
        least_prefix, most_prefix = windows.config.prefix
        if vocab.needs_prefix and least_prefix == 0:
            raise ConfigError(
                "An empty prefix gives the model no input without a begin token or delimiter: the"
                " fewest tokens of a prefix must be 1 or more."
            )
        if most_prefix + windows.config.least_target >= self._most:
            raise ConfigError(
                f"A context of {context} ids does not hold a prefix of {most_prefix} tokens and"
                f" the restoration of {windows.config.least_target}. Raise the trunk's context."
            )

    def _sample(self, indices: IntArray, epoch: int, progress: float) -> list[Example]:
        tokens = self.windows.read(indices)
        largest = max(int(t.max()) for t in tokens)
        if largest >= self.sampler.vocab.tokens:
            raise DataError(
                f"The shards hold token {largest}; the tokenizer ends at"
                f" {self.sampler.vocab.tokens - 1}. They are damaged: tokenize again."
            )
        keys = hashed(self.seed, PREFIX, indices.astype(np.uint64), epoch)
        least, most = self.windows.config.prefix
        lengths = np.array([len(t) for t in tokens])
        widest = np.minimum(most, lengths - self.windows.config.least_target)
        cuts = least + (keys % (widest - least + 1).astype(np.uint64)).astype(np.int64)
        targets = [t[cut:] for t, cut in zip(tokens, cuts, strict=True)]
        restorations = self._restorations(targets, indices, self._most - cuts, epoch, progress)
        digests = self._digests(indices, epoch)
        examples = []
        for n, (ids, learned, text_tokens) in enumerate(restorations):
            is_cut = text_tokens < lengths[n] - cuts[n]
            history = np.concatenate([self._begin, tokens[n][: cuts[n]], self._delimiter, ids])
            mask = np.zeros(len(history), bool)
            mask[len(history) - len(ids) :] = learned
            labels = labelled(history, mask)
            examples.append(Example(history, labels, text_tokens, is_cut, digests[n]))
        return examples

    def _restorations(
        self,
        targets: list[npt.NDArray[np.int32]],
        indices: IntArray,
        budgets: IntArray,
        epoch: int,
        progress: float,
    ) -> list[tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_], int]]:
        """Restorations within their budgets of ids; a target too long for its own is cut."""
        results: list[Any] = [None] * len(targets)
        todo = list(range(len(targets)))
        while todo:
            chosen = [targets[n] for n in todo]
            batch = self.sampler.batch(
                chosen,
                indices[todo].tolist(),
                seed=self.seed,
                epoch=epoch,
                units=self._units(chosen),
                progress=progress,
            )
            sizes = np.diff(batch.offsets)
            for i, n in enumerate(todo):
                fitting = len(targets[n]) * int(budgets[n]) // int(sizes[i])
                if sizes[i] <= budgets[n] or fitting == 0:  # the last: all moves, so cut short
                    ids, learned = batch[i]
                    results[n] = ids[: budgets[n]], learned[: budgets[n]], len(targets[n])
                else:
                    targets[n] = targets[n][:fitting]
            todo = [n for n in todo if results[n] is None]
        return results

    def _units(self, targets: list[npt.NDArray[np.int32]]) -> list[npt.NDArray[np.uint8]] | None:
        if self._unit_starts is None:
            return None
        ends = np.cumsum([len(target) for target in targets])
        marks = self._unit_starts(np.concatenate(targets))
        marks[np.concatenate([[0], ends[:-1]])] |= UNITS["sentence"]
        return np.split(marks, ends[:-1])


class MicroBatches(Dataset[dict[str, Any]]):
    """Number to micro-batch: examples of like length, padded to the longest or a little more.

    A group of micro-batches takes its examples from consecutive places, sorted by length; which
    comes first is shuffled. Beside `input_ids` and `labels` (B, T) each holds the `text_tokens`
    (B,) and its `counts`, plain numbers by the names of `COUNTS`.
    """

    def __init__(
        self,
        stream: Passes,
        *,
        size: int,
        count: int,
        progress: float | None = None,
    ) -> None:
        self.stream = stream
        self.size = size
        self.count = count
        self._progress = progress  # None: as far as the count is done
        self._made: tuple[int, list[list[Example]]] = (-1, [])  # the group made last

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> dict[str, Any]:
        if not 0 <= number < self.count:
            raise IndexError(f"Micro-batch {number} of {self.count}.")
        group, place = divmod(number, GROUP)
        if self._made[0] != group:
            self._made = group, self._make_group(group)
        examples = self._made[1][place]
        widest = max(len(example.ids) for example in examples)
        width = min(-(-widest // WIDTH_MULTIPLE) * WIDTH_MULTIPLE, self.stream.context)
        return _collate(examples, width, self.stream.vocab.stop)

    def _make_group(self, group: int) -> list[list[Example]]:
        micro_batches = min(GROUP, self.count - group * GROUP)
        first = group * GROUP * self.size
        places = np.arange(first, first + micro_batches * self.size)
        progress = group * GROUP / self.count if self._progress is None else self._progress
        examples = self.stream.examples(places, progress=progress)
        examples.sort(key=lambda example: len(example.ids))
        order = np.argsort(hashed(self.stream.seed, SHUFFLE, np.arange(micro_batches), group))
        return [examples[n * self.size : (n + 1) * self.size] for n in order.tolist()]


def labelled(ids: npt.NDArray[np.int32], learned: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """The ids where they are learned."""
    return np.where(learned, ids, np.int32(NO_LABEL))


def _collate(examples: list[Example], width: int, pad: int) -> dict[str, Any]:
    """Pad on the right: a causal trunk never looks there, so no attention mask is needed."""
    shape = len(examples), width
    ids_BT = np.full(shape, pad, np.int64)
    labels_BT = np.full(shape, NO_LABEL, np.int64)
    for row, example in enumerate(examples):
        width = len(example.ids)
        ids_BT[row, :width] = example.ids
        labels_BT[row, :width] = example.labels
    return {
        "input_ids": torch.from_numpy(ids_BT),
        "labels": torch.from_numpy(labels_BT),
        "text_tokens": torch.tensor([example.text_tokens for example in examples]),
        "counts": {
            "ids": sum(len(example.ids) for example in examples),
            "text_tokens": sum(example.text_tokens for example in examples),
            "examples": len(examples),
            "cut": sum(example.is_cut for example in examples),
            "digest": sum(example.digest for example in examples) % DIGEST_RANGE,
            "cells": ids_BT.size,
        },
    }


def permute(offsets: IntArray, size: int, *, seed: int, epoch: int) -> IntArray:
    """Where a seeded permutation of 0..size-1 sends some of its members, computed on the spot.

    A Feistel network over the next power of four; what falls outside is sent on until it is in.
    """
    half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    low = np.uint64((1 << int(half)) - 1)
    result = np.array(offsets, np.uint64)
    outside = np.ones(len(result), bool)
    while outside.any():
        left, right = result[outside] >> half, result[outside] & low
        for turn in range(6):
            left, right = right, left ^ (hashed(seed, ORDER, right, epoch, turn) & low)
        result[outside] = (left << half) | right
        outside = result >= size
    return result.astype(np.int64)


def hashed(seed: int, use: int, values: npt.NDArray[Any], *more: int) -> Hash:
    """Random bits keyed by everything given: SplitMix64's finalizer, once per key."""
    state = np.asarray(values).astype(np.uint64)
    for key in (seed, use, *more):
        state = state + np.uint64((key * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % (1 << 64))
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return state
