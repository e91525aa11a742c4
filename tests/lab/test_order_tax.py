"""The order tax: compared with every walk and every order there is, on short targets."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import combinations, permutations
from math import factorial, log2
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import ActionVocab, Kind
from reviser.errors import ConfigError
from reviser.lab import order_tax
from reviser.lab._order_bits import surprise
from reviser.lab.order_tax import CostEstimate, PolicyCost, policy_cost, synthetic_targets
from reviser.trajectories.policy import PRESETS, Append, Mixture, Obfuscation, Policy, Spans
from reviser.trajectories.sampler import Sampler
from support import naive_policy
from support.strategies import obfuscations, seeds

Order = tuple[int, ...]  # indices of the text in the order they are written
Chances = dict[Order, float]

SIGMAS = 5
SAMPLES = 250

OBFUSCATIONS = [
    Obfuscation(delete=0.9),
    Obfuscation(delete=0.85, start="left"),
    Obfuscation(delete=0.8),
]


def cost(
    policy: Policy, n: int, max_move: int = 512, samples: int = SAMPLES, seed: int = 0
) -> PolicyCost:
    vocab = ActionVocab.build(max(n, 2), max_move=max_move)
    return policy_cost(policy, synthetic_targets(n, samples), vocab=vocab, seed=seed)


def tax(policy: Policy, n: int, max_move: int = 512, samples: int = 2) -> CostEstimate:
    """Return the bits of the whole target."""
    bits = cost(policy, n, max_move, samples).order_tax
    return CostEstimate(value=bits.value * n, low=bits.low * n, high=bits.high * n)


def entropy(chances: Iterable[float]) -> float:
    return -sum(chance * log2(chance) for chance in chances if chance > 0)


def assert_within(interval: CostEstimate, truth: float) -> None:
    """Check by five standard deviations, where the interval has 1.96."""
    spread = (interval.high - interval.low) / 2 * SIGMAS / 1.96
    assert interval.value == pytest.approx(truth, abs=spread + 1e-9)


# -- every order -----------------------------------------------------------------------------------


def next_steps(
    policy: Obfuscation, length: int, u: int, max_move: int
) -> list[tuple[float, naive_policy.Action]]:
    """Return what Algorithm 2 may do, each with its probability."""
    delete = naive_policy.delete_chance(policy, u)
    valid = naive_policy.valid_jumps(u, length - u, max_move)
    moves = [((1 - delete) / len(valid), ("move", delta)) for delta in valid]
    return moves if u == 0 else [*moves, (delete, ("delete",))]


def starts(policy: Obfuscation, n: int) -> list[tuple[float, int]]:
    return [(1.0, 0)] if policy.start == "left" else [(1 / (n + 1), u) for u in range(n + 1)]


@pytest.mark.parametrize("chance", [0.8, 0.5])
def test_the_tax_of_one_token_is_the_closed_form(chance: float) -> None:
    """Each visit right of the token deletes it or not; left of it there is only a move back."""
    coin = entropy([chance, 1 - chance])
    assert tax(Obfuscation(delete=chance, start="left"), 1, 1).value == pytest.approx(coin / chance)
    assert tax(Obfuscation(delete=chance), 1, 1).value == pytest.approx(1 + coin / chance)


@cache
def merged_orders(policy: Obfuscation, n: int, max_move: int) -> Chances:
    """Return the probability of each order, by taking every step of every walk at once.

    With moves merged, the order in which tokens were deleted is all that is left of a walk.
    """
    written: Counter[Order] = Counter()
    walks: Counter[tuple[Order, Order, int]] = Counter()
    for p, u in starts(policy, n):
        walks[(), tuple(range(n)), u] += p
    while sum(walks.values()) > 1e-14:
        further: Counter[tuple[Order, Order, int]] = Counter()
        for (deleted, y, u), chance in walks.items():
            for p, (name, *delta) in next_steps(policy, len(y), u, max_move):
                if name == "move":
                    further[deleted, y, u + delta[0]] += chance * p
                elif len(y) == 1:
                    written[(*deleted, y[0])[::-1]] += chance * p
                else:
                    further[(*deleted, y[u - 1]), y[: u - 1] + y[u:], u - 1] += chance * p
        walks = further
    return dict(written)


@pytest.mark.parametrize("max_move", [1, 2, 512])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("policy", OBFUSCATIONS)
def test_the_merged_tax_is_the_entropy_of_all_orders_of_writing(
    policy: Obfuscation, n: int, max_move: int
) -> None:
    merged = replace(policy, merge_moves=True)
    truth = merged_orders(merged, n, max_move)
    assert len(truth) == factorial(n)  # each order can come about
    assert tax(merged, n, max_move).value == pytest.approx(entropy(truth.values()), abs=1e-9)


# -- every order of spans -------------------------------------------------------------------------


@cache
def span_orders(policy: Spans, marks: tuple[int, ...]) -> Chances:
    """Return the probability of each order, by all cuts and all orders of the spans."""
    n = len(marks)
    candidates = [i for i in range(1, n) if marks[i] & naive_policy.UNIT_BITS[policy.unit]]
    chance = float(naive_policy.cut_chance(policy, n, len(candidates)))
    orders: Counter[Order] = Counter()
    for count in range(len(candidates) + 1):
        p = chance**count * (1 - chance) ** (len(candidates) - count)
        for cuts in combinations(candidates, count):
            spans = [range(a, b) for a, b in zip((0, *cuts), (*cuts, n), strict=True)]
            possible = list(permutations(spans)) if policy.late is None else put_last(spans, policy)
            for order in possible:
                orders[tuple(i for span in order for i in span)] += p / len(possible)
    return {order: p for order, p in orders.items() if p > 0}


def put_last(spans: list[range], policy: Spans) -> list[tuple[range, ...]]:
    """Return every order with some inner spans after the rest."""
    inner = spans[1:-1]
    return [
        (*(span for span in spans if span not in drawn), *drawn)
        for drawn in combinations(inner, min(policy.late or 0, len(inner)))
    ]


SPANS = [
    (Spans(mean=2, unit="token", late=0), (1, 1, 1)),
    (Spans(mean=1.5, unit="token", late=2), (1, 1, 1, 1, 1, 1)),
    (Spans(mean=2, unit="word", late=3), (3, 1, 3, 3, 1, 7)),
    (Spans(mean=1, unit="token", late=9), (1, 1, 1, 1)),
    (Spans(mean=1, unit="token"), (1, 1, 1, 1)),
    (Spans(mean=2, unit="token"), (7, 1, 3)),
    (Spans(mean=1.2, unit="word"), (3, 3, 1, 3, 1, 7)),
    (Spans(mean=4, unit="sentence"), (7, 1, 7, 1, 3)),
    (Spans(mean=50, unit="token"), (1, 1, 1)),
]


def span_cost(
    policy: Policy, marks: tuple[int, ...], samples: int
) -> tuple[CostEstimate, list[Order]]:
    """Return the tax in bits per target, and the orders that were sampled for it."""
    n = len(marks)
    vocab = ActionVocab.build(max(n, 2))
    targets, units = synthetic_targets(n, samples), [np.array(marks, np.uint8)] * samples
    bits = policy_cost(policy, targets, vocab=vocab, units=units, seed=7).order_tax
    batch = Sampler(vocab, policy).batch(targets, range(samples), seed=7, units=units)
    orders = [
        tuple(i for i in part.tolist() if vocab.kind(i) is Kind.INSERT)
        for part in np.split(batch.ids, batch.offsets[1:-1])
    ]
    return CostEstimate(value=bits.value * n, low=bits.low * n, high=bits.high * n), orders


@pytest.mark.parametrize(("policy", "marks"), SPANS)
def test_the_surprise_of_each_sampled_order_is_exact(policy: Spans, marks: tuple[int, ...]) -> None:
    chances = span_orders(policy, marks)
    assert sum(chances.values()) == pytest.approx(1)
    bits, orders = span_cost(policy, marks, SAMPLES)
    assert_within(bits, entropy(chances.values()))
    truth = [-log2(chances[order]) for order in orders]
    assert bits.value == pytest.approx(np.mean(truth), rel=1e-6, abs=1e-9)
    spread = 1.96 * np.std(truth, ddof=1) / SAMPLES**0.5
    assert bits.high - bits.low == pytest.approx(2 * spread, rel=1e-6, abs=1e-9)


def test_without_text_spans_are_aligned_to_tokens() -> None:
    words, tokens = (Spans(mean=4, unit=unit) for unit in ("word", "token"))
    assert cost(words, 12) == cost(tokens, 12)
    mixtures = [Mixture(policies=(Append(), part), weights=(1, 1)) for part in (words, tokens)]
    assert cost(mixtures[0], 12) == cost(mixtures[1], 12)


# -- mixtures -------------------------------------------------------------------------------------


def mixed(parts: list[Chances], weights: list[float]) -> Chances:
    orders: Counter[Order] = Counter()
    for chances, weight in zip(parts, weights, strict=True):
        for order, chance in chances.items():
            orders[order] += weight * chance
    return dict(orders)


@pytest.mark.parametrize("weights", [(1, 1, 1), (5, 1, 0), (1, 0, 9), (0, 1, 0)])
def test_the_tax_of_a_mixture_lies_within_its_bounds(weights: tuple[int, int, int]) -> None:
    n = 4
    walk = Obfuscation(delete=0.8, merge_moves=True)
    other = Obfuscation(delete=0.4, merge_moves=True, start="left")
    policy = Mixture(policies=(Append(), walk, other), weights=weights)
    parts = [{tuple(range(n)): 1.0}, merged_orders(walk, n, 4), merged_orders(other, n, 4)]
    shares = policy.weights_at(0)
    bits = tax(policy, n, 4)
    low = sum(w * entropy(p.values()) for w, p in zip(shares, parts, strict=True))
    assert bits.low == pytest.approx(low)
    assert bits.high == pytest.approx(low + entropy(shares))
    truth = entropy(mixed(parts, shares).values())
    assert bits.low - 1e-9 <= truth <= bits.high + 1e-9
    assert bits.value == pytest.approx((bits.low + bits.high) / 2)


def test_a_mixture_that_changes_is_measured_at_its_progress() -> None:
    walk = Obfuscation()
    policy = Mixture(policies=(Append(), walk), weights=(1, 0), final_weights=(0, 1))
    vocab, targets = ActionVocab.build(12), synthetic_targets(12, 50)
    first, last = (policy_cost(policy, targets, vocab=vocab, progress=p) for p in (0.0, 1.0))
    assert (first.order_tax.high, first.actions_per_token.high) == (0.0, 1.0)
    assert last.order_tax.value == pytest.approx(cost(walk, 12).order_tax.value)
    assert last.actions_per_token.low > 1


# -- estimates ------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [Obfuscation(), Obfuscation(delete=0.5, start="left")])
def test_the_estimate_agrees_with_the_exact_tax(
    policy: Obfuscation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_tax, "LONGEST_EXACT", 60)
    exact = cost(policy, 60, samples=2).order_tax
    assert exact == CostEstimate.exact(exact.value)
    monkeypatch.setattr(order_tax, "LONGEST_EXACT", 59)
    estimate = cost(policy, 60).order_tax
    assert 0 < estimate.high - estimate.low < 0.2
    assert_within(estimate, exact.value)


@given(obfuscations, st.integers(0, 9), st.integers(1, 14), seeds)
def test_the_surprise_of_a_walk_is_that_of_all_its_choices(
    policy: Obfuscation, exponent: int, length: int, seed: int
) -> None:
    policy = replace(policy, merge_moves=False)
    vocab = ActionVocab.build(20, max_move=2**exponent)
    target = Random(seed).sample(range(20), length)
    trajectory = Sampler(vocab, policy).sample(target, seed=seed)
    walk = naive_policy.sample(policy, target, 2**exponent, naive_policy.Draws(seed, 0, 0))
    assert walk is not None
    bits = surprise(policy, vocab, list(trajectory.restoration), length)
    # The sampler rounds probabilities to 32 bits, which this does not.
    assert bits == pytest.approx(walk.bits, rel=1e-6, abs=1e-6)


def test_where_merging_hides_too_much_the_tax_has_an_upper_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy, length = Obfuscation(merge_moves=True), 40
    monkeypatch.setattr(order_tax, "LONGEST_EXACT", length - 1)
    bound = cost(policy, length, samples=100).order_tax
    assert bound == CostEstimate.up_to(bound.high)
    walks = cost(replace(policy, merge_moves=False), length, samples=100).order_tax
    assert bound.high == walks.high


def test_the_tax_under_a_step_budget_is_refused() -> None:
    with pytest.raises(ConfigError, match="order tax under max_obfuscation_steps is not known"):
        cost(Obfuscation(max_obfuscation_steps=9), 4, samples=2)


# -- actions and moves ----------------------------------------------------------------------------


NOTES = [  # what the notes beside the paper say of n = 145: actions per token, percent of moves
    (Obfuscation(), 1.30, 23),
    (Obfuscation(merge_moves=True), 1.26, 21),
    (Obfuscation(delete=0.9, merge_moves=True), 1.15, 13),
    (Obfuscation(delete=0.95, merge_moves=True), 1.10, 9),
]


@pytest.mark.parametrize(("policy", "actions_per_token", "percent"), NOTES)
def test_the_figures_of_the_notes_hold(
    policy: Obfuscation, actions_per_token: float, percent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_tax, "_order_tax", lambda *_: None)  # not asked for here, and slow
    found = cost(policy, 145, samples=1000)
    assert round(found.actions_per_token.value, 2) == actions_per_token
    assert round(100 * found.move_fraction.value) == percent


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_a_cost(name: str) -> None:
    found = cost(PRESETS[name], 30, samples=20)
    for interval in (found.actions_per_token, found.move_fraction, found.order_tax):
        assert interval.low <= interval.value <= interval.high
    assert found.actions_per_token.low >= 1


@pytest.mark.parametrize("lengths", [[], [3], [3, 4], [0, 0]])
def test_a_cost_needs_several_targets_of_one_length(lengths: list[int]) -> None:
    targets = [np.arange(n) for n in lengths]
    with pytest.raises(ConfigError, match="Give two or more targets, all of one length"):
        policy_cost(Append(), targets, vocab=ActionVocab.build(10))
