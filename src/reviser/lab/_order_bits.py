"""Bits of an order: the entropy of all walks, and the surprise of a single walk or span order.

The surprise of an outcome is -log2 of its probability; its mean over samples estimates the
entropy. `order_tax` decides which of these to use.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.trajectories.policy import Obfuscation

Floats = npt.NDArray[np.floating]

# -- the walk of Algorithm 2 as a Markov chain


def _moves_matrix(policy: Obfuscation, length: int, max_move: int) -> tuple[Floats, Floats]:
    """Return the probability of a move between any two cursors, and how many moves are valid."""
    cursor = np.arange(length + 1)
    chance = np.zeros((length + 1, length + 1))
    for k in range(max_move.bit_length()):
        for delta in (1 << k, -(1 << k)):
            start = cursor[(cursor + delta >= 0) & (cursor + delta <= length)]
            chance[start, start + delta] = 1.0
    valid = chance.sum(axis=1)
    moving = np.where(cursor > 0, 1 - policy.delete, 1.0)  # no Delete at the left edge
    return chance * (moving / valid)[:, None], valid


def _start(policy: Obfuscation, n: int) -> Floats:
    return np.full(n + 1, 1 / (n + 1)) if policy.start == "uniform" else np.eye(n + 1)[0]


def walk_entropy(policy: Obfuscation, n: int, max_move: int) -> float:
    """Return the entropy of a whole walk: expected visits to each state times its entropy."""
    # The state is (length, cursor). Deletes only lower the length, so solve length by length:
    # visits = arrivals + moves' visits, and those deleted arrive at the next length.
    arrivals = _start(policy, n)
    total = float(entropy(arrivals))
    coin = float(entropy(np.array([policy.delete, 1 - policy.delete])))
    for length in range(n, 0, -1):
        moves, valid = _moves_matrix(policy, length, max_move)
        visits = np.linalg.solve(np.eye(length + 1) - moves.T, arrivals)
        inside = np.arange(length + 1) > 0
        moving = moves.sum(axis=1)
        total += float(visits @ (coin * inside + moving * np.log2(valid)))
        arrivals = visits[1:] * policy.delete
    return total


def merged_entropy(policy: Obfuscation, n: int, max_move: int) -> float:
    """Return the entropy of the positions of deletes, all that merging chains of moves leaves."""
    arrivals, total = _start(policy, n), 0.0
    for length in range(n, 0, -1):
        moves, _ = _moves_matrix(policy, length, max_move)
        deletes = policy.delete * (np.arange(length + 1) > 0)
        # Row: where the last delete left the cursor. Column: where the next delete happens.
        next_delete = np.linalg.solve(np.eye(length + 1) - moves, np.diag(deletes))
        if length == n:  # the moves before the first delete are dropped, and the start with them
            total += float(entropy(arrivals @ next_delete))
        else:
            total += float(arrivals @ entropy(next_delete))
        arrivals = (arrivals @ next_delete)[1:]
    return total


def entropy(chances: Floats) -> Floats:
    """Return the entropy in bits along the last axis."""
    logs = np.log2(chances, out=np.zeros_like(chances), where=chances > 0)
    result: Floats = -(chances * logs).sum(axis=-1)
    return result


# -- the surprise of a single walk


def surprise(policy: Obfuscation, vocab: ActionVocab, restoration: list[int], n: int) -> float:
    """Return the surprise of the walk that an unmerged restoration undoes.

    Each action undoes a step that was taken in the state that the action leads to.
    """
    total = math.log2(n + 1) if policy.start == "uniform" else 0.0
    canvas = Canvas(vocab)
    for action in vocab.read(restoration)[:-1]:
        canvas.act(action)
        left, right = canvas.cursor, len(canvas) - canvas.cursor
        if action.kind is Kind.INSERT:  # a token was deleted
            total -= math.log2(policy.delete)
        else:  # a move was chosen, or at the left edge a delete, which becomes a move there
            chance = 1 - policy.delete if left else 1.0
            limits = (min(limit, vocab.max_move) for limit in (left, right))
            total += math.log2(sum(limit.bit_length() for limit in limits) / chance)
    return total


# -- the surprise of an order of spans


@lru_cache
def span_surprise(candidates: int, runs: int, cut: float) -> float:
    """Return the surprise of a random order of spans that shows as `runs` visible runs.

    Spans that happen to be written in sequence look like one, so an order with K visible runs may
    come from any finer cut: P = sum over j of C(h, j) p^(K-1+j) (1-p)^(h-j) / (K+j)!, where h
    candidates for a cut are hidden inside the runs and p is the probability of a cut.
    """
    hidden = np.arange(candidates - (runs - 1) + 1)
    logs = _log_binomial(hidden[-1], hidden) - _log_factorial(runs + hidden)
    logs += _times_log(runs - 1 + hidden, cut) + _times_log(hidden[-1] - hidden, 1 - cut)
    return -float(np.logaddexp.reduce(logs)) / math.log(2)


@lru_cache
def late_surprise(
    late: int, candidates: int, early: int, runs: int, inside: int, inside_late: int, cut: float
) -> float:
    """Return the surprise of an order of `early` runs left to right and then `runs` late ones.

    With k late spans, where k - runs cuts are hidden among the `inside_late` candidates of their
    runs, and j cuts hidden `inside` the early runs, there are I = early + j - 2 + k inner spans.
    Any k of these are equally likely to be late: a probability of k! (I-k)! / I!. Fewer than
    `late` are drawn only if just the first and the last span are left.
    """
    logs = []
    for k in range(runs, min(late, runs + inside_late) + 1):
        most = inside if k == late else min(inside, 2 - early)
        more = np.arange(most + 1)
        left = np.maximum(early + more - 2, 0)  # inner spans that are not late
        cuts = candidates - inside - inside_late + more + k - runs
        log = _log_binomial(inside, more) + _log_binomial(inside_late, np.array([k - runs]))
        log += _log_factorial(left) + math.lgamma(k + 1) - _log_factorial(left + k)
        logs += [*(log + _times_log(cuts, cut) + _times_log(candidates - cuts, 1 - cut))]
    return -float(np.logaddexp.reduce(logs)) / math.log(2)


def _log_factorial(values: npt.NDArray[np.integer]) -> Floats:
    return np.array([math.lgamma(value + 1) for value in values])


def _log_binomial(total: int, chosen: npt.NDArray[np.integer]) -> Floats:
    return math.lgamma(total + 1) - _log_factorial(chosen) - _log_factorial(total - chosen)


def _times_log(count: npt.NDArray[np.integer], chance: float) -> Floats:
    """Return the log of chance ** count, where 0 ** 0 is 1."""
    if chance == 0:
        return np.where(count == 0, 0.0, -np.inf)
    return count * math.log(chance)
