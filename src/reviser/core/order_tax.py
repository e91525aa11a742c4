"""What a policy costs before any model is trained: actions, moves, and bits of order.

The order tax is H(order | text) / n: the entropy of the order a text was written in, which no
model can learn away. Exact where the policy is a Markov chain small enough to solve; otherwise
an estimate or bounds, always as an interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab, Kind
from reviser.core.codec import UNITS
from reviser.core.mask import is_argument
from reviser.core.policy import (
    Append,
    Mixture,
    Obfuscation,
    Policy,
    Spans,
    compile_ids,
    compile_rows,
    operators_needed,
)
from reviser.core.trajectory import Sampler
from reviser.errors import ConfigError

Floats = npt.NDArray[np.floating]

LONGEST_EXACT = 512
"""Chains on longer targets are not solved: their matrices grow with the square."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A value with bounds: 95 % for an estimate, certain for bounds, equal if exact."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Interval:
        """A value that is known."""
        return cls(value=value, low=value, high=value)

    @classmethod
    def of_mean(cls, samples: Floats) -> Interval:
        """The mean of independent samples, with a normal 95 % interval."""
        mean = float(samples.mean())
        spread = float(1.96 * samples.std(ddof=1) / math.sqrt(len(samples)))
        return cls(value=mean, low=mean - spread, high=mean + spread)


@dataclass(frozen=True, kw_only=True)
class PolicyCost:
    """What a policy costs on some targets."""

    actions_per_token: Interval
    """Ids per target token, STOP not counted."""
    move_fraction: Interval
    """Share of moves among actions (digits of numbers are not moves)."""
    order_tax: Interval
    """Bits per target token."""


def policy_cost(
    policy: Policy,
    targets: Sequence[npt.NDArray[np.integer]],
    *,
    vocab: ActionVocab,
    units: Sequence[npt.NDArray[np.uint8]] | None = None,
    seed: int = 0,
) -> PolicyCost:
    """Measure a policy on targets of one length (repeat one to sample it many times)."""
    lengths = {len(target) for target in targets}
    if len(targets) < 2 or len(lengths) != 1 or 0 in lengths:
        raise ConfigError("Give two or more targets, all of one length, none empty.")
    marks = [np.ones(len(t), np.uint8) for t in targets] if units is None else list(units)
    if units is None:
        policy = _aligned_to_tokens(policy)
    batch = Sampler(vocab, policy).batch(targets, range(len(targets)), seed=seed, units=marks)
    is_move = (vocab.kinds[batch.ids] == Kind.MOVE) & ~is_argument(vocab, batch.ids[None])[0]
    actions = np.diff(batch.offsets) - 1
    moves = np.add.reduceat(is_move, batch.offsets[:-1])
    return PolicyCost(
        actions_per_token=Interval.of_mean(actions / lengths.pop()),
        move_fraction=Interval.of_mean(moves / actions),
        order_tax=_order_tax(policy, targets, marks, vocab, seed),
    )


def synthetic_targets(length: int, samples: int) -> list[npt.NDArray[np.int32]]:
    """Targets for policies that do not look at the text: every token its own."""
    return [np.arange(length, dtype=np.int32)] * samples


def rich_enough(policy: Policy, tokens: int, max_move: int = 512) -> ActionVocab:
    """A vocabulary over `tokens` with the operators a policy needs."""
    return ActionVocab.build(tokens, operators=operators_needed(policy), max_move=max_move)


def _order_tax(
    policy: Policy,
    targets: Sequence[npt.NDArray[np.integer]],
    marks: Sequence[npt.NDArray[np.uint8]],
    vocab: ActionVocab,
    seed: int,
) -> Interval:
    n = len(targets[0])
    if isinstance(policy, Append):
        return Interval.exact(0.0)
    if isinstance(policy, Mixture):
        return _mixture_tax(policy, targets, marks, vocab, seed)
    if isinstance(policy, Spans):
        return _span_tax(policy, targets, marks, vocab, seed)
    if not operators_needed(policy) and n <= LONGEST_EXACT:
        chain = _merged_entropy if policy.merge_moves else _walk_entropy
        return Interval.exact(chain(policy, n, vocab.max_move) / n)
    if policy.merge_moves and not operators_needed(policy):
        raise ConfigError(
            f"The order tax of merged moves is known for up to {LONGEST_EXACT} tokens; got {n}."
            " Ask for a shorter length: per token it hardly changes."
        )
    return _sampled_walk_tax(policy, targets, vocab, seed)


def _aligned_to_tokens(policy: Policy) -> Policy:
    """The policy with every token taken for a word, for targets without text."""
    if isinstance(policy, Spans):
        return replace(policy, unit="token")
    if isinstance(policy, Mixture):
        parts = (_aligned_to_tokens(part) for part in policy.policies)
        return replace(policy, policies=tuple(parts))  # type: ignore[arg-type]
    return policy


# -- exact: the walk of Algorithm 2 as a Markov chain ----------------------------------------------


def _moves_matrix(policy: Obfuscation, length: int, max_move: int) -> tuple[Floats, Floats]:
    """From each cursor, the chance to move to each other one; and how many moves are valid."""
    cursor = np.arange(length + 1)
    chance = np.zeros((length + 1, length + 1))
    for k in range(max_move.bit_length()):
        for delta in (1 << k, -(1 << k)):
            start = cursor[(cursor + delta >= 0) & (cursor + delta <= length)]
            chance[start, start + delta] = 1.0
    valid = chance.sum(axis=1)
    moving = np.where(cursor > 0, 1 - policy.delete, 1.0)  # nothing to delete at the left edge
    return chance * (moving / valid)[:, None], valid


def _start(policy: Obfuscation, n: int) -> Floats:
    return np.full(n + 1, 1 / (n + 1)) if policy.start == "uniform" else np.eye(n + 1)[0]


def _walk_entropy(policy: Obfuscation, n: int, max_move: int) -> float:
    """Entropy in bits of a whole walk: expected visits to each state times the entropy there."""
    arrivals = _start(policy, n)
    total = float(_entropy(arrivals))
    coin = float(_entropy(np.array([policy.delete, 1 - policy.delete])))
    for length in range(n, 0, -1):
        moves, valid = _moves_matrix(policy, length, max_move)
        visits = np.linalg.solve(np.eye(length + 1) - moves.T, arrivals)
        inside = np.arange(length + 1) > 0
        moving = moves.sum(axis=1)
        total += float(visits @ (coin * inside + moving * np.log2(valid)))
        arrivals = visits[1:] * policy.delete
    return total


def _merged_entropy(policy: Obfuscation, n: int, max_move: int) -> float:
    """The same when only the places of the deletes are left to see, chains of moves merged."""
    arrivals, total = _start(policy, n), 0.0
    for length in range(n, 0, -1):
        moves, _ = _moves_matrix(policy, length, max_move)
        deletes = policy.delete * (np.arange(length + 1) > 0)
        place = np.linalg.solve(np.eye(length + 1) - moves, np.diag(deletes))
        if length == n:  # the moves before the first delete are dropped, and the start with them
            total += float(_entropy(arrivals @ place))
        else:
            total += float(arrivals @ _entropy(place))
        arrivals = (arrivals @ place)[1:]
    return total


def _entropy(chances: Floats) -> Floats:
    """Entropy in bits along the last axis."""
    logs = np.log2(chances, out=np.zeros_like(chances), where=chances > 0)
    result: Floats = -(chances * logs).sum(axis=-1)
    return result


# -- estimated and bounded -------------------------------------------------------------------------


def _sampled_walk_tax(
    policy: Obfuscation, targets: Sequence[npt.NDArray[np.integer]], vocab: ActionVocab, seed: int
) -> Interval:
    """Mean surprise of sampled walks. With merged moves and noise this is an upper bound."""
    from reviser.core import _kernels

    tokens = np.concatenate(targets).astype(np.int32)
    offsets = np.arange(len(targets) + 1) * len(targets[0])
    indices = np.arange(len(targets), dtype=np.uint64)
    ids, rows = compile_ids(policy, vocab), compile_rows(policy)
    marks = np.ones(len(tokens), np.uint8)
    *_, bits = _kernels.restorations(
        tokens, offsets, marks, rows, ids, np.uint64(seed), np.uint64(0), indices, True
    )
    return Interval.of_mean(bits / len(targets[0]))


def _span_tax(
    policy: Spans,
    targets: Sequence[npt.NDArray[np.integer]],
    marks: Sequence[npt.NDArray[np.uint8]],
    vocab: ActionVocab,
    seed: int,
) -> Interval:
    """Mean surprise of sampled orders, each with its exact probability.

    Spans that happen to be written in sequence look like one, so an order with K visible runs
    may have come from any finer cut: P = sum over j of C(h, j) p^(K-1+j) (1-p)^(h-j) / (K+j)!
    where h places to cut are hidden inside the runs and p is the chance of a cut.
    """
    from reviser.core import _kernels

    n = len(targets[0])
    mean = round(policy.mean * 65536)
    bits = []
    for runs, mark in zip(_visible_runs(policy, targets, marks, vocab, seed), marks, strict=True):
        places = int(np.count_nonzero(mark[1:] & UNITS[policy.unit]))
        cut = _kernels.cut_threshold(n, places, mean) / 2**32
        hidden = np.arange(places - (runs - 1) + 1)
        logs = _log_binomial(hidden[-1], hidden) - _log_factorial(runs + hidden)
        logs += _times_log(runs - 1 + hidden, cut) + _times_log(hidden[-1] - hidden, 1 - cut)
        bits.append(-float(np.logaddexp.reduce(logs)) / math.log(2))
    return Interval.of_mean(np.array(bits) / n)


def _visible_runs(
    policy: Spans,
    targets: Sequence[npt.NDArray[np.integer]],
    marks: Sequence[npt.NDArray[np.uint8]],
    vocab: ActionVocab,
    seed: int,
) -> Iterator[int]:
    batch = Sampler(vocab, policy).batch(targets, range(len(targets)), seed=seed, units=marks)
    moves = vocab.kinds[batch.ids] == Kind.MOVE
    for first, last in zip(batch.offsets[:-1], batch.offsets[1:], strict=True):
        part = moves[first:last]
        yield 1 + int(np.count_nonzero(part[:-1] & ~part[1:]))


def _mixture_tax(
    policy: Mixture,
    targets: Sequence[npt.NDArray[np.integer]],
    marks: Sequence[npt.NDArray[np.uint8]],
    vocab: ActionVocab,
    seed: int,
) -> Interval:
    """Bounds: at least the mean of the parts, at most that and the entropy of the choice."""
    weights = np.array(policy.weights_at(0.0))
    parts = [_order_tax(part, targets, marks, vocab, seed) for part in policy.policies]
    low = float(weights @ [part.low for part in parts])
    high = float(weights @ [part.high for part in parts]) + float(_entropy(weights)) / len(
        targets[0]
    )
    return Interval(value=(low + high) / 2, low=low, high=high)


def _log_factorial(values: npt.NDArray[np.integer]) -> Floats:
    return np.array([math.lgamma(value + 1) for value in values])


def _log_binomial(total: int, chosen: npt.NDArray[np.integer]) -> Floats:
    return math.lgamma(total + 1) - _log_factorial(chosen) - _log_factorial(total - chosen)


def _times_log(count: npt.NDArray[np.integer], chance: float) -> Floats:
    """The log of chance ** count, where 0 ** 0 is 1."""
    if chance == 0:
        return np.where(count == 0, 0.0, -np.inf)
    return count * math.log(chance)
