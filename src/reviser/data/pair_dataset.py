"""Pairs of texts to examples: a draft that is shown, and the actions that revise or rewrite it.

The counterpart of windows and their stream, as stateless as those. Pairs are tokenized when they
are opened and stay in memory, four bytes a token.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab, Kind
from reviser.core.codec import UNITS, Codec
from reviser.core.trajectory import Trajectory
from reviser.data import blocks
from reviser.data.dataset import HELD_OUT, PREFIX, Example, IntArray, Passes, hashed, labelled
from reviser.data.pairs import read_pairs
from reviser.errors import DataError, VocabError
from reviser.trajectories.alignment import Starts, diff, notes, revision
from reviser.trajectories.policy import Blocks, Edits, PairPolicy

Tokens = npt.NDArray[np.int32]
AT_ONCE = 1000
"""Pairs that are tokenized together."""


class TokenPair(NamedTuple):
    """A pair in tokens."""

    instruction: Tokens
    before: Tokens
    after: Tokens


class TokenPairs:
    """All pairs of some files, in order."""

    def __init__(self, texts: Iterable[list[int]], fingerprint: str) -> None:
        parts = [np.array(tokens, np.int32) for tokens in texts]
        self._ends = np.cumsum([0, *map(len, parts)])
        self._tokens = np.concatenate([*parts, np.empty(0, np.int32)])
        self.fingerprint = fingerprint
        """SHA-256 of the pairs, as they were read."""

    @classmethod
    def open(cls, given: str | Path | Iterable[str | Path], codec: Codec) -> TokenPairs:
        """Read and tokenize files of pairs, as `read_pairs` takes them."""
        digest, texts, pairs = hashlib.sha256(), [], read_pairs(given)
        while some := list(islice(pairs, AT_ONCE)):
            parts = [(pair.instruction, pair.before, pair.after) for pair in some]
            digest.update(repr(parts).encode())
            texts += codec.encode_batch([part for pair in parts for part in pair])
        return cls(texts, digest.hexdigest())

    def __len__(self) -> int:
        return (len(self._ends) - 1) // 3

    def __getitem__(self, number: int) -> TokenPair:
        ends = self._ends[3 * number : 3 * number + 4]
        return TokenPair(*(self._tokens[a:b] for a, b in pairwise(ends)))

    def lengths(self) -> IntArray:
        """Of instruction, before and after of each."""
        return np.diff(self._ends).reshape(-1, 3)


class PairSide:
    """The pairs that are trained on, or those held out.

    Pairs that become the same text are on the same side. Those that do not fit the context, even
    without an action, are left out; to be rewritten, both texts must fit.
    """

    def __init__(
        self,
        pairs: TokenPairs,
        held_out: float,
        context: int,
        *,
        is_held_out: bool = False,
        is_rewritten: bool = False,
    ) -> None:
        self.pairs = pairs
        texts = (zlib.crc32(pairs[n].after.tobytes()) for n in range(len(pairs)))
        share = hashed(0, HELD_OUT, np.fromiter(texts, np.uint64)) >> np.uint64(11)
        chosen = (share < held_out * (1 << 53)) == is_held_out
        shown = 3 if is_rewritten else 2
        fits = pairs.lengths()[:, :shown].sum(axis=1) < context - _SPARE
        self.left_out = int(np.count_nonzero(chosen & ~fits))
        """Pairs of this side that are too long."""
        self._numbers = np.flatnonzero(chosen & fits)
        if not len(self):
            side = "held-out" if is_held_out else "training"
            raise DataError(
                f"The {side} side of the split has no pair that a context of {context} ids holds"
                f" ({len(pairs)} pairs, held_out {held_out}). Add pairs, or change held_out or the"
                " context."
            )

    def __len__(self) -> int:
        return len(self._numbers)

    def lengths(self) -> IntArray:
        """Of instruction, before and after of each."""
        return self.pairs.lengths()[self._numbers]

    def read(self, index: int) -> TokenPair:
        """One pair."""
        return self.pairs[int(self._numbers[index])]


class PairStream(Passes):
    """Pairs, each as the trajectory that its policy gives."""

    windows: PairSide

    def __init__(
        self,
        side: PairSide,
        vocab: ActionVocab,
        policy: PairPolicy,
        codec: Codec,
        *,
        context: int,
        seed: int = 0,
    ) -> None:
        super().__init__(side, vocab, context=context, seed=seed)
        self.policy = policy
        self._codec = codec
        if isinstance(policy, Edits):
            if vocab.delete is None and vocab.span_delete is None:
                raise VocabError("To revise a text needs the operator delete or span_delete.")
            if policy.address != "moves" and vocab.find is None:
                raise VocabError("This policy searches: set vocab.search, or address: moves.")
        if vocab.delimiter is None and (not isinstance(policy, Edits) or policy.rewritten):
            raise VocabError("To rewrite a text needs a delimiter between the two.")
        instructions, drafts, _ = np.count_nonzero(side.lengths(), axis=0).tolist()
        if vocab.delimiter is None and instructions:
            raise VocabError(
                f"{instructions:,} of {len(side):,} pairs have an instruction, and this vocabulary"
                " no delimiter to end one with: set vocab.delimiter, or take them out."
            )
        if vocab.needs_prefix and drafts < len(side):
            raise VocabError(
                f"{len(side) - drafts:,} of {len(side):,} pairs have an empty draft, which gives"
                " the model no input without a begin token or delimiter: leave them out."
            )

    def trajectory(self, pair: TokenPair, draw: float = 1.0) -> Trajectory:
        """What is shown of a pair, and what is learned from it; `draw`, in 0..1, if it varies."""
        if not isinstance(self.policy, Edits) or draw < self.policy.rewritten:
            shown = (*pair.instruction.tolist(), *pair.before.tolist())
            written = pair.after.tolist()
            if isinstance(self.policy, Blocks):
                texts = (self._codec.decode(text.tolist()) for text in (pair.before, pair.after))
                _, written = self._codec.encode_parts(["", blocks.write(*texts)])
            return Trajectory(prefix=shown, restoration=(*written, self.vocab.stop))
        return revision(
            self.vocab,
            pair.before.tolist(),
            pair.after.tolist(),
            instruction=pair.instruction.tolist(),
            starts=self._starts(pair),
            address=self.policy.address,
        )

    def _starts(self, pair: TokenPair) -> Starts:
        units = (self._codec.unit_starts(text) for text in (pair.before, pair.after))
        before, after = ((unit & UNITS["word"]) > 0 for unit in units)
        return before, after

    def _note(self, labels: Tokens, pair: TokenPair, trajectory: Trajectory) -> None:
        """Label the ids behind those that show the draft with what is to be noted there."""
        given = self.vocab.kinds[list(trajectory.restoration[: len(trajectory.unlearned)])]
        is_token = np.isin(given, [Kind.INSERT, Kind.BARRED])
        shown = np.flatnonzero(is_token)  # none where the draft is the prefix
        end = len(labels) - len(trajectory.restoration) + (int(shown[-1]) + 1 if shown.size else 0)
        hunks = diff(pair.before.tolist(), pair.after.tolist(), starts=self._starts(pair))
        first = end - len(pair.before) + 1
        labels[first : end + 1] = notes(self.vocab, pair.before.tolist(), hunks)

    def _sample(self, indices: IntArray, epoch: int, _: float) -> list[Example]:
        examples = []
        draws = hashed(self.seed, PREFIX, indices, epoch) / 2.0**64
        digests = self._digests(indices, epoch)
        for index, draw, digest in zip(indices.tolist(), draws.tolist(), digests, strict=True):
            pair = self.windows.read(index)
            trajectory = self.trajectory(pair, draw)
            ids = np.array(trajectory.history(self.vocab), np.int32)
            labels = labelled(ids, np.array(trajectory.loss_mask(self.vocab)))
            if isinstance(self.policy, Edits) and self.policy.noted and trajectory.unlearned:
                self._note(labels, pair, trajectory)
            ids, labels = ids[: self.context], labels[: self.context]
            is_cut = ids[-1] != self.vocab.stop
            examples.append(Example(ids, labels, len(pair.after), bool(is_cut), digest))
        return examples


_SPARE = 16
"""Ids that are left for begin, delimiter, the way back and a first action."""
