"""Training examples: windows of documents, their trajectories, and micro-batches of like length.

The example at a position of the stream is a pure function of the seed and the position. No state is
stored, so every rank, worker and restart, and any number of processes, sees the same examples. This
module knows shards and the sampler, but not models or optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset

from reviser.core.actions import ActionVocab
from reviser.core.codec import UNITS
from reviser.data.order import DIGEST, PREFIX, SHUFFLE, hashed, permute
from reviser.data.window_config import WindowConfig as WindowConfig  # users import both from here
from reviser.data.windows import Windows as Windows
from reviser.errors import ConfigError, DataError
from reviser.trajectories.sampler import Sampler

IntArray = npt.NDArray[np.int64]
UnitStarts = Callable[[npt.NDArray[np.int32]], npt.NDArray[np.uint8]]

NO_LABEL = -100
"""The label without a loss, as torch and Transformers define it."""
GROUP = 16
"""Micro-batches that are sorted by length together. A process that needs one of them samples all of
them, so this number bounds the extra sampling, however many processes train."""
COUNTS = ("ids", "text_tokens", "examples", "cut", "digest", "cells")
"""Counts of a micro-batch: ids without padding, text tokens they write, examples, examples cut to
fit the context, a checksum that identifies the examples, and ids with padding."""
DIGEST_RANGE = 1 << 48
"""Modulus of digest sums, which keeps sums over many processes exact."""
WIDTH_MULTIPLE = 8
"""The width of a micro-batch is a multiple of this, because kernels are prepared once per shape."""


class Example(NamedTuple):
    """One history and its labels."""

    ids: npt.NDArray[np.int32]
    labels: npt.NDArray[np.int32]
    """The label at each position, usually the id itself; NO_LABEL where nothing is learned."""
    text_tokens: int
    """Number of tokens that the restoration writes."""
    is_cut: bool
    """True if the target was cut to fit the context."""
    digest: int
    """A hash of the example's epoch and index, which identifies it in the log."""

    @property
    def learned(self) -> npt.NDArray[np.bool_]:
        """True at the positions with a label."""
        return self.labels != NO_LABEL


class Split(Protocol):
    """The part of the data that is trained on, or the part that is held out."""

    left_out: int

    def __len__(self) -> int: ...


class ExampleStream:
    """An endless sequence of examples, accessed by position.

    Each epoch visits the data in an order of its own.
    """

    def __init__(self, split: Split, vocab: ActionVocab, *, context: int, seed: int = 0) -> None:
        self.split = split
        self.vocab = vocab
        self.context = context
        self.seed = seed

    def examples(self, positions: IntArray, *, progress: float = 0.0) -> list[Example]:
        """Return the examples at some positions.

        `progress`, from 0 to 1, is for policies that change during training.
        """
        epochs, offsets = np.divmod(positions, len(self.split))
        examples: dict[int, Example] = {}
        for epoch in np.unique(epochs).tolist():
            chosen = np.flatnonzero(epochs == epoch)
            indices = permute(offsets[chosen], len(self.split), seed=self.seed, epoch=epoch)
            examples |= zip(chosen.tolist(), self._sample(indices, epoch, progress), strict=True)
        return [examples[n] for n in range(len(positions))]

    def _sample(self, indices: IntArray, epoch: int, progress: float, /) -> list[Example]:
        raise NotImplementedError

    def _digests(self, indices: IntArray, epoch: int) -> list[int]:
        """Return a hash of each example that is the same in every process."""
        digests = hashed(self.seed, DIGEST, indices.astype(np.uint64), epoch) >> np.uint64(16)
        as_list: list[int] = digests.tolist()
        return as_list


class WindowStream(ExampleStream):
    """Windows of text, each with a new trajectory in every epoch."""

    split: Windows

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
                " minimum of data.windows.prefix must be 1 or more."
            )
        if most_prefix + windows.config.least_target >= self._most:
            raise ConfigError(
                f"A context of {context} ids is too short for a prefix of {most_prefix} tokens and"
                f" the restoration of {windows.config.least_target}. Raise the trunk's context."
            )

    def cut(self, indices: IntArray, epoch: int) -> tuple[list[npt.NDArray[np.int32]], IntArray]:
        """Return windows, and the length of the prefix of each."""
        tokens = self.split.read(indices)
        largest = max(int(t.max()) for t in tokens)
        if largest >= self.sampler.vocab.tokens:
            raise DataError(
                f"The shards hold token {largest}, but the tokenizer's last token is"
                f" {self.sampler.vocab.tokens - 1}. The shards are damaged: tokenize again."
            )
        keys = hashed(self.seed, PREFIX, indices.astype(np.uint64), epoch)
        least, most = self.split.config.prefix
        lengths = np.array([len(t) for t in tokens])
        # A short window leaves less for the prefix, so that its target has least_target tokens.
        widest = np.minimum(most, lengths - self.split.config.least_target)
        cuts = least + (keys % (widest - least + 1).astype(np.uint64)).astype(np.int64)
        return tokens, cuts

    def _sample(self, indices: IntArray, epoch: int, progress: float) -> list[Example]:
        tokens, cuts = self.cut(indices, epoch)
        lengths = np.array([len(t) for t in tokens])
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
        """Sample restorations that fit their budgets of ids, cutting targets that are too long.

        The length of a restoration is known only after sampling. A target whose restoration is too
        long is cut in proportion and sampled again, until it fits.
        """
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
                if sizes[i] <= budgets[n] or fitting == 0:  # 0: moves fill the budget, so cut them
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
        units = self._unit_starts(np.concatenate(targets))
        units[np.concatenate([[0], ends[:-1]])] |= UNITS["sentence"]  # every target starts one
        return np.split(units, ends[:-1])


class MicroBatches(Dataset[dict[str, Any]]):
    """Micro-batches by number: examples of like length, padded to a common width.

    A group of micro-batches takes its examples from consecutive positions and sorts them by length;
    the order of the micro-batches within the group is shuffled. Each has `input_ids` and `labels`
    (B, T), `text_tokens` (B,) and `counts`, plain numbers by the names of `COUNTS`.
    """

    def __init__(
        self,
        stream: ExampleStream,
        *,
        size: int,
        count: int,
        progress: float | None = None,
    ) -> None:
        self.stream = stream
        self.size = size
        self.count = count
        self._progress = progress  # None: the share of micro-batches before this one
        self._group: tuple[int, list[list[Example]]] = (-1, [])  # the last group, cached

    def __len__(self) -> int:
        return self.count

    @property
    def split(self) -> Split:
        """The data that the examples come from."""
        return self.stream.split

    def __getitem__(self, number: int) -> dict[str, Any]:
        if not 0 <= number < self.count:
            raise IndexError(f"Micro-batch {number} of {self.count}.")
        group, offset = divmod(number, GROUP)
        if self._group[0] != group:
            self._group = group, self._make_group(group)
        examples = self._group[1][offset]
        widest = max(len(example.ids) for example in examples)
        width = min(-(-widest // WIDTH_MULTIPLE) * WIDTH_MULTIPLE, self.stream.context)
        return _collate(examples, width, self.stream.vocab.stop)

    def _make_group(self, group: int) -> list[list[Example]]:
        micro_batches = min(GROUP, self.count - group * GROUP)
        first = group * GROUP * self.size
        positions = np.arange(first, first + micro_batches * self.size)
        progress = group * GROUP / self.count if self._progress is None else self._progress
        examples = self.stream.examples(positions, progress=progress)
        examples.sort(key=lambda example: len(example.ids))
        order = np.argsort(hashed(self.stream.seed, SHUFFLE, np.arange(micro_batches), group))
        return [examples[n * self.size : (n + 1) * self.size] for n in order.tolist()]


def labelled(ids: npt.NDArray[np.int32], learned: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """Return the ids as labels where they are learned, NO_LABEL elsewhere."""
    return np.where(learned, ids, np.int32(NO_LABEL))


def _collate(examples: list[Example], width: int, pad: int) -> dict[str, Any]:
    """Pad on the right. A causal trunk never attends there, so no attention mask is needed."""
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
