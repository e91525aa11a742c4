"""What a policy costs before any model is trained: actions, moves, and bits of order.

The order tax is H(order | text) / n: the entropy of the order a text was written in, which no
model can learn away. Exact where the policy is a Markov chain small enough to solve; otherwise
an estimate or bounds, always as an interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from reviser.core.actions import Action, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.codec import UNITS
from reviser.core.mask import is_argument
from reviser.errors import ConfigError
from reviser.trajectories.policy import (
    MEAN_SCALE,
    NOISE_SPAN,
    WHOLE,
    Append,
    Mixture,
    Obfuscation,
    Policy,
    Spans,
    operators_needed,
)
from reviser.trajectories.sampler import Sampler

Floats = npt.NDArray[np.floating]

LONGEST_EXACT = 256
"""Chains on longer targets are not solved: their matrices grow with the square."""
MOST_WALKS = 200
"""As many walks are enough to estimate a surprise, which is read in plain Python."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A value with its 95 % interval; the bounds are equal if it is exact.

    An "at most" is the upper end of an estimated bound.
    """

    value: float
    low: float
    high: float
    kind: Literal["exact", "estimate", "at most"] = "estimate"

    @classmethod
    def exact(cls, value: float) -> Interval:
        """A value that is known."""
        return cls(value=value, low=value, high=value, kind="exact")

    @classmethod
    def up_to(cls, bound: float) -> Interval:
        """A value of which only an upper bound is known."""
        return cls(value=bound, low=0.0, high=bound, kind="at most")

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
    progress: float = 0.0,
) -> PolicyCost:
    """Measure a policy on targets of one length (repeat one to sample it many times).

    `progress` is how much of training is done, for mixtures that change.
    """
    lengths = {len(target) for target in targets}
    if len(targets) < 2 or len(lengths) != 1 or 0 in lengths:
        raise ConfigError("Give two or more targets, all of one length, none empty.")
    marks = [np.ones(len(t), np.uint8) for t in targets] if units is None else list(units)
    if units is None:
        policy = _aligned_to_tokens(policy)
    if isinstance(policy, Mixture):
        policy = Mixture(policies=policy.policies, weights=tuple(policy.weights_at(progress)))
    batch = Sampler(vocab, policy).batch(targets, range(len(targets)), seed=seed, units=marks)
    is_move = vocab.is_move[batch.ids] & ~is_argument(vocab, batch.ids[None])[0]
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


def rich_enough(
    policy: Policy, tokens: int, max_move: int = 512, *, marks: bool = False
) -> ActionVocab:
    """A vocabulary over `tokens` with the operators a policy needs, and marks if wanted."""
    operators = operators_needed(policy)
    return ActionVocab.build(tokens, operators=operators, max_move=max_move, marks=marks)


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
        return _span_tax(policy, n, marks, vocab.max_move, seed)
    if policy.max_obfuscation_steps is not None:
        raise ConfigError(
            "The order tax under max_obfuscation_steps is not known: discarding long walks changes"
            " their distribution. Measure the policy without it."
        )
    if operators_needed(policy) or n > LONGEST_EXACT:
        return _sampled_tax(policy, targets, vocab, seed)
    chain = _merged_entropy if policy.merge_moves else _walk_entropy
    return Interval.exact(chain(policy, n, vocab.max_move) / n)


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


def _sampled_tax(
    policy: Obfuscation, targets: Sequence[npt.NDArray[np.integer]], vocab: ActionVocab, seed: int
) -> Interval:
    """Mean surprise of sampled walks.

    Of noise, which place and operation it takes counts; which tokens it puts in does not, for
    they bear no loss. Merging hides which moves a walk took, so there it is an upper bound.
    """
    n, walks = len(targets[0]), Sampler(vocab, replace(policy, merge_moves=False))
    batch = walks.batch(targets[:MOST_WALKS], range(len(targets[:MOST_WALKS])), seed=seed)
    parts = np.split(batch.ids, batch.offsets[1:-1])
    bits = [_surprise(policy, vocab, part.tolist(), n) for part in parts]
    interval = Interval.of_mean(np.array(bits) / n)
    return Interval.up_to(interval.high) if policy.merge_moves else interval


def _surprise(policy: Obfuscation, vocab: ActionVocab, restoration: list[int], n: int) -> float:
    """How unlikely the walk behind an unmerged restoration was, in bits.

    Each action undoes a step that was taken in the state the action leads to.
    """
    noise = policy.noise
    share = {
        Kind.INSERT: policy.delete,
        Kind.DELETE: noise.insert,
        Kind.REPLACE: noise.replace,
        Kind.SWAP: noise.swap,
        Kind.SPAN_DELETE: noise.span_insert,
        Kind.SPAN_MOVE: noise.span_move,
    }
    total = math.log2(n + 1) if policy.start == "uniform" else 0.0
    canvas = Canvas(vocab)
    actions = vocab.read(restoration)[:-1]
    for place, action in enumerate(actions):
        canvas.act(action)
        u, length, kind = canvas.cursor, len(canvas), action.kind
        if kind is not Kind.MOVE:
            total -= math.log2(share[kind])
            if kind is Kind.SPAN_DELETE:
                total += math.log2(NOISE_SPAN[1] - NOISE_SPAN[0] + 1)
            elif kind is Kind.SPAN_MOVE:
                before = u if action.offset > 0 else u + action.offset
                total += math.log2(min(before, length - 1, NOISE_SPAN[1]))
                total += math.log2(_jumps(before - action.argument, length - before, vocab))
        elif not _completes_span_move(actions, place):
            possible = {
                Kind.INSERT: u >= 1,
                Kind.DELETE: length < 2 * n + 2 * NOISE_SPAN[1],
                Kind.REPLACE: u >= 1,
                Kind.SWAP: u >= 2,
                Kind.SPAN_DELETE: length + NOISE_SPAN[1] <= 2 * n + 2 * NOISE_SPAN[1],
                Kind.SPAN_MOVE: u >= 1 and length >= 2,
            }
            total -= math.log2(1 - sum(share[k] for k in share if possible[k]))
            total += math.log2(_jumps(u, length - u, vocab))
    return total


def _jumps(left: int, right: int, vocab: ActionVocab) -> int:
    """How many moves stay within `left` back and `right` forward."""
    return sum(min(room, vocab.max_move).bit_length() for room in (left, right))


def _completes_span_move(actions: list[Action], place: int) -> bool:
    """Whether a move only brings the cursor to or from a span that jumps back."""
    after, before = actions[place + 1 : place + 2], actions[max(place - 1, 0) : place]
    to = any(a.kind is Kind.SPAN_MOVE and a.offset > 0 for a in after)
    return to or any(a.kind is Kind.SPAN_MOVE and a.offset < 0 for a in before)


def _span_tax(
    policy: Spans, n: int, marks: Sequence[npt.NDArray[np.uint8]], max_move: int, seed: int
) -> Interval:
    """Mean surprise of sampled orders, each with its exact probability.

    Spans that happen to be written in sequence look like one, so an order with K visible runs
    may have come from any finer cut: P = sum over j of C(h, j) p^(K-1+j) (1-p)^(h-j) / (K+j)!
    where h places to cut are hidden inside the runs and p is the chance of a cut.
    """
    from reviser.trajectories import _kernels

    mean = round(policy.mean * MEAN_SCALE)
    bits = []
    sampled = _sampled_orders(policy, n, marks, max_move, seed)
    for order, mark in zip(sampled, marks, strict=True):
        can_cut = (mark & UNITS[policy.unit]) > 0
        can_cut[0] = False
        places = int(np.count_nonzero(can_cut))
        cut = _kernels.cut_threshold(n, places, mean) / WHOLE
        starts = np.flatnonzero(np.diff(order, prepend=-2) != 1)  # of the visible runs
        if policy.late is None:
            bits.append(_span_surprise(places, len(starts), cut))
            continue
        runs = np.split(order, starts[1:])
        early = int(np.flatnonzero(starts <= order.argmax())[-1]) + 1  # up to the end of the text
        inside = [int(np.count_nonzero(can_cut[run[1:]])) for run in runs]
        hidden = sum(inside[:early]), sum(inside[early:])
        bits.append(_late_surprise(policy.late, places, early, len(runs) - early, *hidden, cut))
    return Interval.of_mean(np.array(bits) / n)


@lru_cache
def _span_surprise(places: int, runs: int, cut: float) -> float:
    hidden = np.arange(places - (runs - 1) + 1)
    logs = _log_binomial(hidden[-1], hidden) - _log_factorial(runs + hidden)
    logs += _times_log(runs - 1 + hidden, cut) + _times_log(hidden[-1] - hidden, 1 - cut)
    return -float(np.logaddexp.reduce(logs)) / math.log(2)


@lru_cache
def _late_surprise(
    late: int, places: int, early: int, runs: int, inside: int, inside_late: int, cut: float
) -> float:
    """Of an order with `early` runs left to right and then some late `runs`.

    With k late spans, of which cuts among the `inside_late` places of their runs make k - runs
    more, and j cuts hidden `inside` the early runs, there are I = early + j - 2 + k inner spans,
    and any k of these are as likely to be late: a chance of k! (I-k)! / I!. Fewer than `late` are
    drawn only if the first and the last span are all that is left.
    """
    logs = []
    for k in range(runs, min(late, runs + inside_late) + 1):
        most = inside if k == late else min(inside, 2 - early)
        more = np.arange(most + 1)
        left = np.maximum(early + more - 2, 0)  # inner spans that are not late
        cuts = places - inside - inside_late + more + k - runs
        log = _log_binomial(inside, more) + _log_binomial(inside_late, np.array([k - runs]))
        log += _log_factorial(left) + math.lgamma(k + 1) - _log_factorial(left + k)
        logs += [*(log + _times_log(cuts, cut) + _times_log(places - cuts, 1 - cut))]
    return -float(np.logaddexp.reduce(logs)) / math.log(2)


def _sampled_orders(
    policy: Spans, n: int, marks: Sequence[npt.NDArray[np.uint8]], max_move: int, seed: int
) -> Iterator[npt.NDArray[np.int32]]:
    """Places of the text in the order in which they are written, one sample for each target.

    Sampling does not look at tokens, so each place of the text can be a token of its own.
    """
    vocab = ActionVocab.build(n, max_move=max_move)
    places = synthetic_targets(n, len(marks))
    batch = Sampler(vocab, policy).batch(places, range(len(marks)), seed=seed, units=marks)
    for ids in np.split(batch.ids, batch.offsets[1:-1]):
        yield ids[vocab.kinds[ids] == Kind.INSERT]


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
