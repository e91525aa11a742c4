"""Training examples from pairs of texts: a draft, and the actions that revise or rewrite it.

This is the counterpart of `dataset.py` for pairs, and as stateless. Pairs are tokenized when they
are opened and stay in memory, at four bytes per token.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab, Kind
from reviser.core.codec import Codec
from reviser.core.trajectory import Trajectory
from reviser.data.dataset import Example, ExampleStream, IntArray, labelled
from reviser.data.order import HELD_OUT, hashed
from reviser.data.pairs import read_pairs
from reviser.data.windows import split_name
from reviser.errors import DataError, VocabError
from reviser.trajectories.alignment import diff, edit_labels, word_starts
from reviser.trajectories.policy import Edits, PairPolicy, TokenPair

Tokens = npt.NDArray[np.int32]
BATCH_PAIRS = 1000
"""Number of pairs that are tokenized together."""


class TokenPairs:
    """All pairs of some files, as tokens, in order."""

    def __init__(self, texts: Iterable[list[int]], fingerprint: str) -> None:
        parts = [np.array(tokens, np.int32) for tokens in texts]
        self._ends = np.cumsum([0, *map(len, parts)])
        self._tokens = np.concatenate([*parts, np.empty(0, np.int32)])
        self.fingerprint = fingerprint
        """SHA-256 of the pairs."""

    @classmethod
    def open(cls, sources: str | Path | Iterable[str | Path], codec: Codec) -> TokenPairs:
        """Read and tokenize files of pairs; see `read_pairs` for the sources."""
        digest, texts, pairs = hashlib.sha256(), [], read_pairs(sources)
        while batch := list(islice(pairs, BATCH_PAIRS)):
            parts = [(pair.instruction, pair.before, pair.after) for pair in batch]
            digest.update(repr(parts).encode())
            texts += codec.encode_batch([part for pair in parts for part in pair])
        return cls(texts, digest.hexdigest())

    def __len__(self) -> int:
        return (len(self._ends) - 1) // 3

    def __getitem__(self, number: int) -> TokenPair:
        ends = self._ends[3 * number : 3 * number + 4]
        return TokenPair(*(self._tokens[a:b] for a, b in pairwise(ends)))

    def lengths(self) -> IntArray:
        """Return the lengths of instruction, before and after of each pair."""
        return np.diff(self._ends).reshape(-1, 3)


class PairSplit:
    """The pairs that are trained on, or the pairs that are held out.

    Pairs with the same result are in the same split. A pair that does not fit the context, even
    without an action, is left out. For a policy that rewrites, both texts must fit.
    """

    def __init__(
        self,
        pairs: TokenPairs,
        held_out_share: float,
        context: int,
        *,
        held_out: bool = False,
        rewrites: bool = False,
    ) -> None:
        self.pairs = pairs
        texts = (zlib.crc32(pairs[n].after.tobytes()) for n in range(len(pairs)))
        share = hashed(0, HELD_OUT, np.fromiter(texts, np.uint64)) >> np.uint64(11)
        chosen = (share < held_out_share * (1 << 53)) == held_out
        texts_in_context = 3 if rewrites else 2  # instruction and draft, and the result
        size = pairs.lengths()[:, :texts_in_context].sum(axis=1)
        fits = size < context - _RESERVED
        self.left_out = int(np.count_nonzero(chosen & ~fits))
        """Number of pairs of this split that are too long."""
        self._numbers = np.flatnonzero(chosen & fits)
        if not len(self):
            raise DataError(
                f"The {split_name(held_out)} split has no pair that fits a context of {context} ids"
                f" ({len(pairs)} pairs, held_out {held_out_share}). Add pairs, or change held_out"
                " or the context."
            )

    def __len__(self) -> int:
        return len(self._numbers)

    def lengths(self) -> IntArray:
        """Return the lengths of instruction, before and after of each pair."""
        return self.pairs.lengths()[self._numbers]

    def read(self, index: int) -> TokenPair:
        """Return the pair at an index of this split."""
        return self.pairs[int(self._numbers[index])]


class PairStream(ExampleStream):
    """Pairs of texts, each with the trajectory of a policy."""

    split: PairSplit

    def __init__(
        self,
        split: PairSplit,
        vocab: ActionVocab,
        policy: PairPolicy,
        codec: Codec,
        *,
        context: int,
        seed: int = 0,
    ) -> None:
        super().__init__(split, vocab, context=context, seed=seed)
        self.policy = policy
        self._codec = codec
        self.trajectory = policy.compile(vocab, codec)
        """The function that makes the trajectory of a pair."""
        self._check_pairs()

    def _check_pairs(self) -> None:
        """Refuse pairs that this vocabulary has no history for."""
        vocab, total = self.vocab, len(self.split)
        instructions, drafts, _ = np.count_nonzero(self.split.lengths(), axis=0).tolist()
        if vocab.delimiter is None and instructions:
            raise VocabError(
                f"{instructions:,} of {total:,} pairs have an instruction, but this vocabulary has"
                " no delimiter to end one with: set vocab.delimiter, or remove the instructions."
            )
        if vocab.needs_prefix and drafts < total:
            raise VocabError(
                f"{total - drafts:,} of {total:,} pairs have an empty draft, which gives the model"
                " no input without a begin token or delimiter: leave them out."
            )

    def _label_draft(self, labels: Tokens, pair: TokenPair, trajectory: Trajectory) -> None:
        """Label the draft's positions with whether an edit is needed there.

        These labels train edit probabilities: after it has read a token, the model predicts the
        first action that is needed right before that token, or STOP if none is needed.
        """
        # The draft is the preamble of the restoration, or part of the prefix if there is none.
        preamble = self.vocab.kinds[list(trajectory.restoration[: len(trajectory.no_loss)])]
        tokens = np.flatnonzero(np.isin(preamble, [Kind.INSERT, Kind.PREFIX_ONLY]))
        in_preamble = int(tokens[-1]) + 1 if tokens.size else 0
        end = len(labels) - len(trajectory.restoration) + in_preamble
        starts = word_starts(self._codec, pair.before), word_starts(self._codec, pair.after)
        hunks = diff(pair.before.tolist(), pair.after.tolist(), starts=starts)
        first = end - len(pair.before) + 1
        labels[first : end + 1] = edit_labels(self.vocab, pair.before.tolist(), hunks)

    def _sample(self, indices: IntArray, epoch: int, _: float) -> list[Example]:
        digests = self._digests(indices, epoch)
        return [self._example(*each) for each in zip(indices.tolist(), digests, strict=True)]

    def _example(self, index: int, digest: int) -> Example:
        pair = self.split.read(index)
        ids, labels = self.learned(pair, self.trajectory(pair))
        ids, labels = ids[: self.context], labels[: self.context]
        return Example(ids, labels, len(pair.after), bool(ids[-1] != self.vocab.stop), digest)

    def learned(self, pair: TokenPair, trajectory: Trajectory) -> tuple[Tokens, Tokens]:
        """Return the history of a trajectory and its labels, neither cut to the context."""
        ids = np.array(trajectory.history(self.vocab), np.int32)
        labels = labelled(ids, np.array(trajectory.loss_mask(self.vocab)))
        if isinstance(self.policy, Edits) and self.policy.edit_probabilities and trajectory.no_loss:
            self._label_draft(labels, pair, trajectory)
        return ids, labels


_RESERVED = 16
"""Ids reserved for begin, delimiter, the move to the first edit and a first action."""
