"""The cost of a policy before any model is trained: actions, moves, and bits of order.

The order tax is H(order | text) / n: the entropy of the order in which a text is written, which no
model can learn away. It is exact if the policy is a Markov chain small enough to solve, and
otherwise an estimate or a bound, always with an interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab, Kind
from reviser.core.codec import UNITS
from reviser.core.history import is_argument
from reviser.errors import ConfigError
from reviser.lab._order_bits import (
    Floats,
    entropy,
    late_surprise,
    merged_entropy,
    span_surprise,
    surprise,
    walk_entropy,
)
from reviser.trajectories._kernels.layout import MEAN_SCALE, WHOLE
from reviser.trajectories.policy import Append, Mixture, Obfuscation, Spans, TextPolicy
from reviser.trajectories.sampler import Sampler

LONGEST_EXACT = 256
"""The longest target whose chain is solved: its matrices grow with the square."""
MAX_WALKS = 200
"""The number of walks to estimate a mean surprise from, which takes plain Python."""


@dataclass(frozen=True, kw_only=True)
class CostEstimate:
    """A value with its 95 % interval; the ends are equal if it is exact.

    Of a value that is "at most", only an upper bound is known.
    """

    value: float
    low: float
    high: float
    kind: Literal["exact", "estimate", "at most"] = "estimate"

    @classmethod
    def exact(cls, value: float) -> CostEstimate:
        """Return an exact value."""
        return cls(value=value, low=value, high=value, kind="exact")

    @classmethod
    def up_to(cls, bound: float) -> CostEstimate:
        """Return a value of which only an upper bound is known."""
        return cls(value=bound, low=0.0, high=bound, kind="at most")

    @classmethod
    def of_mean(cls, samples: Floats) -> CostEstimate:
        """Return the mean of independent samples, with a normal 95 % interval."""
        mean = float(samples.mean())
        spread = float(1.96 * samples.std(ddof=1) / math.sqrt(len(samples)))
        return cls(value=mean, low=mean - spread, high=mean + spread)


@dataclass(frozen=True, kw_only=True)
class PolicyCost:
    """The cost of a policy on some targets."""

    actions_per_token: CostEstimate
    """Ids per target token, STOP not counted."""
    move_fraction: CostEstimate
    """Share of moves among actions (digits of numbers are not moves)."""
    order_tax: CostEstimate
    """Bits per target token."""


def policy_cost(
    policy: TextPolicy,
    targets: Sequence[npt.NDArray[np.integer]],
    *,
    vocab: ActionVocab,
    units: Sequence[npt.NDArray[np.uint8]] | None = None,
    seed: int = 0,
    progress: float = 0.0,
) -> PolicyCost:
    """Measure a policy on targets of one length; repeat one to sample it many times.

    `progress` is the share of training that is done, for mixtures that change.
    """
    lengths = {len(target) for target in targets}
    if len(targets) < 2 or len(lengths) != 1 or 0 in lengths:
        raise ConfigError("Give two or more targets, all of one length, none empty.")
    if units is None:
        policy = _aligned_to_tokens(policy)
        units = [np.ones(len(target), np.uint8) for target in targets]
    if isinstance(policy, Mixture):
        policy = Mixture(policies=policy.policies, weights=tuple(policy.weights_at(progress)))
    batch = Sampler(vocab, policy).batch(targets, range(len(targets)), seed=seed, units=units)
    is_move = vocab.is_move[batch.ids] & ~is_argument(vocab, batch.ids[None])[0]
    actions = np.diff(batch.offsets) - 1
    moves = np.add.reduceat(is_move, batch.offsets[:-1])
    return PolicyCost(
        actions_per_token=CostEstimate.of_mean(actions / lengths.pop()),
        move_fraction=CostEstimate.of_mean(moves / actions),
        order_tax=_order_tax(policy, targets, units, vocab, seed),
    )


def synthetic_targets(length: int, samples: int) -> list[npt.NDArray[np.int32]]:
    """Return targets of distinct tokens, for policies that do not look at the text."""
    return [np.arange(length, dtype=np.int32)] * samples


def _order_tax(
    policy: TextPolicy,
    targets: Sequence[npt.NDArray[np.integer]],
    units: Sequence[npt.NDArray[np.uint8]],
    vocab: ActionVocab,
    seed: int,
) -> CostEstimate:
    n = len(targets[0])
    if isinstance(policy, Append):
        return CostEstimate.exact(0.0)
    if isinstance(policy, Mixture):
        return _mixture_tax(policy, targets, units, vocab, seed)
    if isinstance(policy, Spans):
        return _span_tax(policy, n, units, vocab.max_move, seed)
    if policy.max_obfuscation_steps is not None:
        raise ConfigError(
            "The order tax under max_obfuscation_steps is not known: discarding long walks changes"
            " their distribution. Measure the policy without it."
        )
    if n > LONGEST_EXACT:
        return _sampled_tax(policy, targets, vocab, seed)
    chain = merged_entropy if policy.merge_moves else walk_entropy
    return CostEstimate.exact(chain(policy, n, vocab.max_move) / n)


def _aligned_to_tokens(policy: TextPolicy) -> TextPolicy:
    """Return the policy with spans of tokens instead of words, for targets without text."""
    if isinstance(policy, Spans):
        return replace(policy, unit="token")
    if isinstance(policy, Mixture):
        parts = (_aligned_to_tokens(part) for part in policy.policies)
        return replace(policy, policies=tuple(parts))  # type: ignore[arg-type]
    return policy


def _sampled_tax(
    policy: Obfuscation, targets: Sequence[npt.NDArray[np.integer]], vocab: ActionVocab, seed: int
) -> CostEstimate:
    """Estimate the tax by the mean surprise of sampled walks.

    Merging hides which moves a walk took, so for merged moves the estimate is an upper bound.
    """
    n, walks = len(targets[0]), Sampler(vocab, replace(policy, merge_moves=False))
    batch = walks.batch(targets[:MAX_WALKS], range(len(targets[:MAX_WALKS])), seed=seed)
    parts = np.split(batch.ids, batch.offsets[1:-1])
    bits = [surprise(policy, vocab, part.tolist(), n) for part in parts]
    estimate = CostEstimate.of_mean(np.array(bits) / n)
    return CostEstimate.up_to(estimate.high) if policy.merge_moves else estimate


def _span_tax(
    policy: Spans, n: int, units: Sequence[npt.NDArray[np.uint8]], max_move: int, seed: int
) -> CostEstimate:
    """Estimate the tax by the mean surprise of sampled orders, each of which is exact."""
    from reviser.trajectories._kernels.spans import cut_threshold

    mean = round(policy.mean * MEAN_SCALE)
    bits = []
    sampled = _sampled_orders(policy, n, units, max_move, seed)
    for order, unit_starts in zip(sampled, units, strict=True):
        can_cut = (unit_starts & UNITS[policy.unit]) > 0
        can_cut[0] = False
        candidates = int(np.count_nonzero(can_cut))
        cut = cut_threshold(n, candidates, mean) / WHOLE
        starts = np.flatnonzero(np.diff(order, prepend=-2) != 1)  # of the visible runs
        if policy.late is None:
            bits.append(span_surprise(candidates, len(starts), cut))
            continue
        runs = np.split(order, starts[1:])
        # The late runs are those after the one that holds the end of the text.
        early = int(np.flatnonzero(starts <= order.argmax())[-1]) + 1
        inside = [int(np.count_nonzero(can_cut[run[1:]])) for run in runs]
        hidden = sum(inside[:early]), sum(inside[early:])
        bits.append(late_surprise(policy.late, candidates, early, len(runs) - early, *hidden, cut))
    return CostEstimate.of_mean(np.array(bits) / n)


def _sampled_orders(
    policy: Spans, n: int, units: Sequence[npt.NDArray[np.uint8]], max_move: int, seed: int
) -> Iterator[npt.NDArray[np.int32]]:
    """Yield indices of the text in the order in which they are written, once for each target.

    Sampling does not look at tokens, so a target can consist of its own indices.
    """
    vocab = ActionVocab.build(n, max_move=max_move)
    targets = synthetic_targets(n, len(units))
    batch = Sampler(vocab, policy).batch(targets, range(len(units)), seed=seed, units=units)
    for ids in np.split(batch.ids, batch.offsets[1:-1]):
        yield ids[vocab.kinds[ids] == Kind.INSERT]


def _mixture_tax(
    policy: Mixture,
    targets: Sequence[npt.NDArray[np.integer]],
    units: Sequence[npt.NDArray[np.uint8]],
    vocab: ActionVocab,
    seed: int,
) -> CostEstimate:
    """Bound the tax: at least the mean of the parts, at most that plus the choice's entropy."""
    weights = np.array(policy.weights_at(0.0))
    parts = [_order_tax(part, targets, units, vocab, seed) for part in policy.policies]
    low = float(weights @ [part.low for part in parts])
    choice = float(entropy(weights)) / len(targets[0])
    high = float(weights @ [part.high for part in parts]) + choice
    return CostEstimate(value=(low + high) / 2, low=low, high=high)
