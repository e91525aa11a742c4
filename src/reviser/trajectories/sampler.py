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
from reviser.trajectories._kernels.layout import MAX_ATTEMPTS
from reviser.trajectories.policy import Mixture, Policy, Spans, compile_ids, compile_rows


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


class Sampler:
    """Sampler of restorations under a policy, one or a batch at a time."""

    def __init__(self, vocab: ActionVocab, policy: Policy) -> None:
        self.vocab = vocab
        self.policy = policy
        compile_rows(policy)  # to refuse here what is not a policy
        self._ids = compile_ids(vocab)
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
        """Return the trajectory of one target."""
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
            no_loss=tuple(np.flatnonzero(~batch.learned).tolist()),
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
        """Return restorations of many targets; each depends only on its own index.

        `units` is what `Codec.unit_starts` gives for each target; policies that align to words or
        sentences need it. `progress` is the share of training that is done, for schedules.
        """
        from reviser.trajectories._kernels import sampling  # numba takes a second to import

        lengths = [len(target) for target in targets]
        if not 0 <= seed < 1 << 64 or not 0 <= epoch < 1 << 32:
            raise TrajectoryError(
                f"seed is {seed}, epoch {epoch}; use 0 to 2**64 - 1 and 0 to 2**32 - 1."
            )
        if len(indices) != len(targets):
            raise TrajectoryError(
                f"{len(targets)} targets and {len(indices)} indices: give one index per target."
            )
        tokens = self._tokens(targets)
        ids, ends = sampling.restorations(
            tokens,
            np.cumsum([0, *lengths], dtype=np.int64),
            self._unit_starts(units, lengths),
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
                f" {MAX_ATTEMPTS} tries. Raise it, or leave it out."
            )
        return Restorations(ids=ids, learned=np.ones(len(ids), np.bool_), offsets=ends)

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

    def _unit_starts(
        self, units: Sequence[npt.NDArray[np.uint8]] | None, lengths: list[int]
    ) -> npt.NDArray[np.uint8]:
        if units is None:
            if self._units_needed:
                raise TrajectoryError(
                    f"This policy aligns to units ({', '.join(sorted(self._units_needed))}): pass"
                    " what codec.unit_starts(target) gives as units."
                )
            return np.ones(sum(lengths), np.uint8)
        if [len(starts) for starts in units] != lengths:
            raise TrajectoryError("Units and targets differ in length: give one value per token.")
        return np.concatenate([np.empty(0, np.uint8), *units])
