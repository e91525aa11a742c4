"""Sample restorations of targets under a policy.

Sampling is a function of (seed, epoch, index) and the policy. Every process that asks for an
example gets the same one, so nothing about an example needs saving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab, Kind
from reviser.core.trajectory import Trajectory
from reviser.errors import TrajectoryError
from reviser.trajectories.policy import Mixture, Policy, Spans, compile_ids, compile_rows


@dataclass(frozen=True, kw_only=True)
class Restorations:
    """A batch of restorations, end to end: the i-th is ids[offsets[i]:offsets[i + 1]]."""

    ids: npt.NDArray[np.int32]
    learned: npt.NDArray[np.bool_]
    """Which ids bear loss."""
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """Ids of the i-th restoration, and which of them bear loss."""
        part = slice(self.offsets[:-1][i], self.offsets[1:][i])
        return self.ids[part], self.learned[part]


class Sampler:
    """Samples restorations of targets under a policy, one or a batch at a time."""

    def __init__(self, vocab: ActionVocab, policy: Policy) -> None:
        self.vocab = vocab
        self.policy = policy
        compile_rows(policy)  # so that what is no policy is refused here
        self._ids = compile_ids(policy, vocab)
        self._insertable = vocab.kinds == Kind.INSERT
        parts = policy.policies if isinstance(policy, Mixture) else (policy,)
        self._units_needed = {part.unit for part in parts if isinstance(part, Spans)} - {"token"}

    def sample(
        self,
        target: Sequence[int] | npt.NDArray[np.integer],
        *,
        prefix: Sequence[int] = (),
        seed: int = 0,
        epoch: int = 0,
        index: int = 0,
        units: npt.NDArray[np.uint8] | None = None,
        progress: float = 0.0,
    ) -> Trajectory:
        """The trajectory of one target."""
        batch = self.batch(
            [target],
            [index],
            seed=seed,
            epoch=epoch,
            units=None if units is None else [units],
            progress=progress,
        )
        return Trajectory(
            prefix=tuple(prefix),
            restoration=tuple(batch.ids.tolist()),
            unlearned=tuple(np.flatnonzero(~batch.learned).tolist()),
        )

    def batch(
        self,
        targets: Sequence[Sequence[int] | npt.NDArray[np.integer]],
        indices: Sequence[int],
        *,
        seed: int = 0,
        epoch: int = 0,
        units: Sequence[npt.NDArray[np.uint8]] | None = None,
        progress: float = 0.0,
    ) -> Restorations:
        """Restorations of many targets; each depends on its own index alone.

        `units` marks where words and sentences start, as `Codec.unit_starts` does; policies that
        align to those need it. `progress` is how much of training is done, for schedules.
        """
        from reviser.trajectories import _kernels

        lengths = [len(target) for target in targets]
        if not 0 <= seed < 1 << 64 or not 0 <= epoch < 1 << 32:
            raise TrajectoryError(f"seed {seed} or epoch {epoch} is negative or too large.")
        if len(indices) != len(targets):
            raise TrajectoryError(f"{len(targets)} targets need as many indices: {len(indices)}.")
        tokens = self._tokens(targets)
        ids, learned, ends = _kernels.restorations(
            tokens,
            np.cumsum([0, *lengths], dtype=np.int64),
            self._marks(units, lengths),
            compile_rows(self.policy, progress),
            self._ids,
            np.uint64(seed),
            np.uint64(epoch),
            np.array(indices, np.uint64),
        )
        if ends.min() < 0:
            length = lengths[int(np.argmin(ends)) - 1]
            raise TrajectoryError(
                f"No obfuscation of {length} tokens within max_obfuscation_steps was found in"
                f" {_kernels.MAX_ATTEMPTS} tries. Raise it, or leave it out."
            )
        return Restorations(ids=ids, learned=learned, offsets=ends)

    def _tokens(
        self, targets: Sequence[Sequence[int] | npt.NDArray[np.integer]]
    ) -> npt.NDArray[np.int32]:
        tokens = np.concatenate([np.empty(0, np.int32), *targets])
        whole = tokens if tokens.dtype.kind in "iu" else tokens.astype(np.int64)
        inside = (whole >= 0) & (whole < self.vocab.size) & (whole == tokens)
        known = inside & self._insertable[np.where(inside, whole, 0)]
        if not known.all():
            wrong = tokens[~known][0]
            raise TrajectoryError(f"A target holds {wrong}, which this vocabulary cannot insert.")
        return whole.astype(np.int32, copy=False)

    def _marks(
        self, units: Sequence[npt.NDArray[np.uint8]] | None, lengths: list[int]
    ) -> npt.NDArray[np.uint8]:
        if units is None:
            if self._units_needed:
                raise TrajectoryError(
                    f"This policy aligns to units ({', '.join(sorted(self._units_needed))}): pass"
                    " units, the marks that codec.unit_starts(target) gives."
                )
            return np.ones(sum(lengths), np.uint8)
        if [len(marks) for marks in units] != lengths:
            raise TrajectoryError("Units and targets differ in length: give one mark per token.")
        return np.concatenate([np.empty(0, np.uint8), *units])
