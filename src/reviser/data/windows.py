"""Windows of documents: the pieces of text that examples are made of, found without a list of them.

Shapes: N windows, K documents of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from reviser.data.order import HELD_OUT, hashed
from reviser.data.shards import TokenShards
from reviser.data.window_config import WindowConfig
from reviser.errors import DataError

IntArray = npt.NDArray[np.int64]

MIN_BLOCK, MAX_BLOCKS = 64, 1 << 22
"""Documents of a block at least, and blocks at most, roughly. Eight bytes per block are in memory;
to find a window, the lengths of all documents of its block are read."""
_SCANNED = 1 << 18
"""Documents that are counted at a time while blocks are made."""


class Documents(Protocol):
    """Documents in parts, numbered from 0 through all of them; `TokenShards` is the usual one."""

    @property
    def parts(self) -> Sequence[int]:
        """Number of documents of each part."""
        ...

    def lengths_in(self, part: int, start: int, stop: int, /) -> IntArray:
        """Return the number of tokens of documents `start` to `stop` of one part."""
        ...

    def read_many(
        self, documents: IntArray, starts: IntArray, stops: IntArray, /
    ) -> list[npt.NDArray[np.int32]]:
        """Return tokens `start` to `stop` of each of several documents."""
        ...


class Windows:
    """The windows of the training or the held-out split, in document order.

    In memory is only how many windows lie before each block of documents; the rest is read from the
    index of the shards. So memory does not grow with the documents beyond `MAX_BLOCKS`. Which
    documents are held out does not depend on the seed of a run, so no run trains on documents that
    another run is scored on.
    """

    def __init__(self, shards: Documents, config: WindowConfig, *, held_out: bool = False) -> None:
        self.shards = shards
        self.config = config
        self.size = config.size
        self.least = config.prefix[0] + config.least_target
        self._is_held_out = held_out
        parts = np.array(shards.parts, np.int64)
        documents = int(parts.sum())
        self._block = block_size(documents)
        # Blocks do not cross from one part to the next, so that one slice of an index is a block.
        self._firsts = np.cumsum(parts) - parts
        counts = -(-parts // self._block)
        self._part_blocks = np.cumsum(counts)
        self.left_out = 0
        """Documents of this split that are too short for a window."""
        ends = np.empty(int(counts.sum()), np.int64)
        at = total = 0
        for part, size in enumerate(parts.tolist()):
            stride = self._block * max(1, _SCANNED // self._block)
            for start in range(0, size, stride):
                stop = min(start + stride, size)
                windows, is_ours = self._counts(part, start, stop)
                self.left_out += int(np.count_nonzero(is_ours & (windows == 0)))
                sums = np.add.reduceat(windows * is_ours, np.arange(0, stop - start, self._block))
                ends[at : at + len(sums)] = total + np.cumsum(sums)
                at += len(sums)
                total = int(ends[at - 1])
        self._ends = ends
        if not len(self):
            raise DataError(
                f"The {split_name(held_out)} split has no document of {self.least} tokens or more"
                f" ({documents} documents, held_out {config.held_out}). Add text, or change"
                " held_out, prefix or least_target."
            )

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def read(self, indices: IntArray) -> list[npt.NDArray[np.int32]]:
        """Return the tokens of the windows at some indices."""
        blocks = np.searchsorted(self._ends, indices, side="right")
        in_block = indices - np.where(blocks > 0, self._ends[blocks - 1], 0)
        parts = np.searchsorted(self._part_blocks, blocks, side="right")
        first_blocks = np.where(parts > 0, self._part_blocks[parts - 1], 0)
        first = (blocks - first_blocks) * self._block  # document of the part
        lengths_NK = np.zeros((len(indices), self._block), np.int64)
        for n, (part, start) in enumerate(zip(parts.tolist(), first.tolist(), strict=True)):
            lengths = self.shards.lengths_in(part, start, start + self._block)
            lengths_NK[n, : len(lengths)] = lengths
        document_NK = (self._firsts[parts] + first)[:, None] + np.arange(self._block)
        ends_NK = np.cumsum(self._windows_of(lengths_NK) * self._is_chosen(document_NK), axis=1)
        # The window lies in the first document with more windows up to its end.
        column = np.count_nonzero(ends_NK <= in_block[:, None], axis=1)
        at = np.arange(len(indices)), column
        before = np.where(column > 0, ends_NK[at[0], column - 1], 0)
        starts = (in_block - before) * self.size
        stops = np.minimum(starts + self.size, lengths_NK[at])
        return self.shards.read_many(document_NK[at], starts, stops)

    def _counts(self, part: int, start: int, stop: int) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Return the windows of some documents of a part, and whether they are in this split."""
        documents = int(self._firsts[part]) + np.arange(start, stop)
        windows = self._windows_of(self.shards.lengths_in(part, start, stop))
        return windows, self._is_chosen(documents)

    def _windows_of(self, lengths: IntArray) -> IntArray:
        # A last piece that is too short to learn from does not count as a window.
        return lengths // self.size + (lengths % self.size >= self.least)

    def _is_chosen(self, documents: IntArray) -> npt.NDArray[np.bool_]:
        chosen: npt.NDArray[np.bool_]
        chosen = is_held_out(documents, self.config) == self._is_held_out
        return chosen


def block_size(documents: int) -> int:
    """Return the documents of a block: few, so that a window is found fast, unless there are many.

    >>> block_size(10**7), block_size(15 * 10**9)
    (64, 4096)
    """
    return max(MIN_BLOCK, 1 << max(0, (documents - 1) // MAX_BLOCKS).bit_length())


def held_out_documents(shards: TokenShards, config: WindowConfig) -> npt.NDArray[np.bool_]:
    """Return for each document whether it is kept for evaluation."""
    return is_held_out(np.arange(len(shards)), config)


def is_held_out(documents: IntArray, config: WindowConfig) -> npt.NDArray[np.bool_]:
    """Return for some documents whether they are kept for evaluation."""
    share = hashed(0, HELD_OUT, documents) >> np.uint64(11)
    chosen: npt.NDArray[np.bool_] = share < config.held_out * (1 << 53)
    return chosen


def split_name(held_out: bool) -> str:
    """Return the name of a split, for messages."""
    return "held-out" if held_out else "training"
