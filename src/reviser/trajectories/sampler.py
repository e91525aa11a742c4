"""Sample restorations of targets under a policy.

Sampling is a function of (seed, epoch, index) and the policy. Every process that asks for an
example gets the same one, so nothing about an example needs saving.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab, Kind
from reviser.core.trajectory import Trajectory
from reviser.errors import ConfigError, TrajectoryError
from reviser.trajectories.compiled import Restorations, Targets
from reviser.trajectories.policy import Policy


class Sampler:
    """Sampler of restorations under a policy, one or a batch at a time."""

    def __init__(self, vocab: ActionVocab, policy: Policy) -> None:
        self.vocab = vocab
        self.policy = policy
        if not callable(getattr(policy, "compile", None)):
            raise ConfigError(
                f"The policy is {policy!r}; give a value such as Obfuscation() or PRESETS['paper']."
            )
        self._restore = policy.compile(vocab)
        self._insertable = vocab.kinds == Kind.INSERT

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
        lengths = [len(target) for target in targets]
        if not 0 <= seed < 1 << 64 or not 0 <= epoch < 1 << 32:
            raise TrajectoryError(
                f"seed is {seed}, epoch {epoch}; use 0 to 2**64 - 1 and 0 to 2**32 - 1."
            )
        if len(indices) != len(targets):
            raise TrajectoryError(
                f"{len(targets)} targets and {len(indices)} indices: give one index per target."
            )
        return self._restore(
            Targets(
                tokens=self._tokens(targets),
                offsets=np.cumsum([0, *lengths], dtype=np.int64),
                units=_joined(units, lengths),
                indices=np.array(indices, np.uint64),
                seed=seed,
                epoch=epoch,
                progress=progress,
            )
        )

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


def _joined(
    units: Sequence[npt.NDArray[np.uint8]] | None, lengths: list[int]
) -> npt.NDArray[np.uint8] | None:
    if units is None:
        return None
    if [len(starts) for starts in units] != lengths:
        raise TrajectoryError("Units and targets differ in length: give one value per token.")
    return np.concatenate([np.empty(0, np.uint8), *units])
