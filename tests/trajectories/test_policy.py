"""Policies: what they refuse, what they compile to, and that samples occur as often as they say."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import OPERATORS, Action, ActionVocab, Kind
from reviser.errors import ConfigError
from reviser.trajectories import _kernels as k
from reviser.trajectories.policy import (
    PRESETS,
    Append,
    Edits,
    Mixture,
    Noise,
    Obfuscation,
    Policy,
    Spans,
    compile_ids,
    compile_rows,
    operators_needed,
)
from reviser.trajectories.sampler import Sampler
from support import naive_policy
from support.strategies import policies

HALF = Mixture(policies=(Append(), Spans()), weights=(1, 1))

SIGMAS = 5
VOCAB = ActionVocab.build(60, operators=OPERATORS, max_move=16)


# -- refusals -------------------------------------------------------------------------------------

SHARES = " must be probabilities that leave some for moves: delete 0.001 or more, together below 1."
NO_NOISE = "Noise(insert=0.0, replace=0.0, swap=0.0, span_insert=0.0, span_move=0.0)"


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Obfuscation(delete=0), f"delete=0 and {NO_NOISE}{SHARES}"),
        (lambda: Obfuscation(delete=1), f"delete=1 and {NO_NOISE}{SHARES}"),
        (lambda: Obfuscation(delete=-0.1), f"delete=-0.1 and {NO_NOISE}{SHARES}"),
        (lambda: Obfuscation(delete=1e-12), f"delete=1e-12 and {NO_NOISE}{SHARES}"),
        (
            lambda: Obfuscation(noise=Noise(swap=float("nan"))),
            f"delete=0.8 and {NO_NOISE.replace('swap=0.0', 'swap=nan')}{SHARES}",
        ),
        (
            lambda: Obfuscation(noise=Noise(swap=-0.1)),
            f"delete=0.8 and {NO_NOISE.replace('swap=0.0', 'swap=-0.1')}{SHARES}",
        ),
        (
            lambda: Obfuscation(noise=Noise(span_move=0.2)),
            f"delete=0.8 and {NO_NOISE.replace('span_move=0.0', 'span_move=0.2')}{SHARES}",
        ),
        (
            lambda: Obfuscation(delete=0.3, noise=Noise(insert=0.3)),
            f"{NO_NOISE.replace('insert=0.0', 'insert=0.3', 1)} puts in as many tokens as"
            " delete=0.3 takes out.",
        ),
        (
            lambda: Obfuscation(delete=0.5, noise=Noise(span_insert=0.1)),
            f"{NO_NOISE.replace('span_insert=0.0', 'span_insert=0.1')} puts in as many tokens as"
            " delete=0.5 takes out.",
        ),
        (
            lambda: Obfuscation(start="right"),  # type: ignore[arg-type]
            "start is 'right'; use 'uniform' or 'left'.",
        ),
        (
            lambda: Spans(mean=0.5),
            "Spans of mean 0.5 aligned to 'word': the mean must be 1 or more tokens, the unit one"
            " of token, word, sentence.",
        ),
        (
            lambda: Spans(mean=float("nan")),
            "Spans of mean nan aligned to 'word': the mean must be 1 or more tokens, the unit one"
            " of token, word, sentence.",
        ),
        (
            lambda: Spans(unit="line"),  # type: ignore[arg-type]
            "Spans of mean 8.0 aligned to 'line': the mean must be 1 or more tokens, the unit one"
            " of token, word, sentence.",
        ),
        (lambda: Spans(late=-1), "late is -1; use 0 to 1048576, or None."),
        (
            lambda: Obfuscation(max_obfuscation_steps=0),
            "max_obfuscation_steps is 0; use 1 or more, or None.",
        ),
        (
            lambda: Mixture(policies=(HALF,), weights=(1,)),  # type: ignore[arg-type]
            "A mixture holds policies that are not mixtures themselves.",
        ),
        (
            lambda: Mixture(policies=(), weights=()),
            "A mixture holds policies that are not mixtures themselves.",
        ),
        (lambda: HALF.weights_at(1.5), "progress is 1.5; it goes from 0 to 1."),
        (
            lambda: replace(HALF, change_from=0.5),
            "The weights do not change: give final_weights too.",
        ),
        (
            lambda: replace(HALF, final_weights=(0, 1), change_from=0.5, change_until=0.5),
            "Weights that change from 0.5 to 0.5 of training: the first must be 0 or more and"
            " below the second, which is at most 1.",
        ),
        (
            lambda: Mixture(policies=(Append(), Spans()), weights=(1,)),
            "Weights (1,) do not fit 2 policies: one each, none negative, not all zero.",
        ),
        (
            lambda: Mixture(policies=(Append(), Spans()), weights=(2, -1)),
            "Weights (2, -1) do not fit 2 policies: one each, none negative, not all zero.",
        ),
        (
            lambda: Mixture(policies=(Append(), Spans()), weights=(1, 1), final_weights=(0, 0)),
            "Weights (0, 0) do not fit 2 policies: one each, none negative, not all zero.",
        ),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(
    build: Callable[[], Policy], sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        build()
    assert str(caught.value) == sentence


# -- what they compile to -------------------------------------------------------------------------


def test_the_defaults_are_the_papers() -> None:
    assert Obfuscation() == Obfuscation(
        delete=0.8,
        start="uniform",
        merge_moves=False,
        max_obfuscation_steps=None,
        noise=Noise(insert=0, replace=0, swap=0, span_insert=0, span_move=0),
    )
    assert PRESETS["paper"] == Obfuscation()
    assert PRESETS["append"] == Append()


def test_weights_go_from_first_to_last_in_a_straight_line() -> None:
    policy = Mixture(policies=(Append(), Spans()), weights=(3, 1), final_weights=(0, 7))
    assert [policy.weights_at(x) for x in (0, 0.5, 1)] == [[0.75, 0.25], [0.375, 0.625], [0, 1]]
    still = replace(policy, final_weights=None)
    assert [still.weights_at(x) for x in (0, 0.5, 1)] == [[0.75, 0.25]] * 3
    late = replace(policy, change_from=0.5)
    assert [late.weights_at(x) for x in (0, 0.5, 0.75, 1)] == [
        [0.75, 0.25], [0.75, 0.25], [0.375, 0.625], [0, 1],
    ]  # fmt: skip
    early = replace(policy, change_until=0.5)
    assert [early.weights_at(x) for x in (0, 0.25, 0.5, 1)] == [
        [0.75, 0.25], [0.375, 0.625], [0, 1], [0, 1],
    ]  # fmt: skip


@given(policies(), st.floats(0, 1))
def test_thresholds_rise_to_all_there_is(policy: Policy, progress: float) -> None:
    rows = compile_rows(policy, progress)
    weights = [0, *rows[:, k.WEIGHT].tolist()]
    assert weights[-1] == 2**32
    assert all(np.diff(weights) >= -len(rows))  # each is rounded on its own
    for row in rows[rows[:, k.KIND] == k.OBFUSCATE]:
        shares = row[k.DELETE : k.SPAN_MOVE + 1].tolist()
        assert [0, *shares, 2**32] == sorted([0, *shares, 2**32])


@pytest.mark.parametrize(
    ("noise", "operator"),
    [
        (Noise(insert=0.01), "delete"),
        (Noise(replace=0.01), "replace"),
        (Noise(swap=0.01), "swap"),
        (Noise(span_insert=0.01), "span_delete"),
        (Noise(span_move=0.01), "span_move"),
    ],
)
def test_noise_needs_the_operator_that_repairs_it(noise: Noise, operator: str) -> None:
    policy = Obfuscation(noise=noise)
    assert operators_needed(policy) == [operator]
    mixed = Mixture(policies=(Append(), policy, Spans(), Obfuscation()), weights=(1, 1, 1, 1))
    assert operators_needed(mixed) == [operator]
    ids = compile_ids(policy, ActionVocab.build(10, operators=[operator]))
    column = {"delete": k.ID_DELETE, "replace": k.ID_REPLACE, "swap": k.ID_SWAP}
    column |= {"span_delete": k.ID_SPAN_DELETE, "span_move": k.ID_SPAN_MOVE}
    assert [n for n in column.values() if ids[n] >= 0] == [column[operator]]
    assert (ids[k.ID_END] >= 0) == operator.startswith("span")


def test_a_policy_without_noise_needs_no_operator() -> None:
    for policy in (Append(), Obfuscation(), Spans()):
        assert operators_needed(policy) == []
        assert compile_ids(policy, ActionVocab.paper())[k.ID_STOP] == ActionVocab.paper().stop


# -- how often ------------------------------------------------------------------------------------


class Tally:
    """Counts against what was to be expected of each event, over any number of trials.

    The trials may depend on the past, as the steps of a walk do: the differences add up to a
    martingale, and their variances add up too.
    """

    def __init__(self) -> None:
        self.seen: Counter[Any] = Counter()
        self.expected: Counter[Any] = Counter()
        self.variance: Counter[Any] = Counter()

    def add(self, event: Any, chances: dict[Any, float]) -> None:
        assert chances[event] > 0
        self.seen[event] += 1
        for name, chance in chances.items():
            self.expected[name] += chance
            self.variance[name] += chance * (1 - chance)

    def check(self, events: Iterable[Any]) -> None:
        """As often as expected, within five standard deviations of enough trials to tell."""
        for event in events:
            assert self.variance[event] > 20, event
            difference = self.seen[event] - self.expected[event]
            assert abs(difference) < SIGMAS * sqrt(self.variance[event]), event


def uniform(events: Iterable[Any]) -> dict[Any, float]:
    listed = list(events)
    return dict.fromkeys(listed, 1 / len(listed))


def obfuscation_steps(
    vocab: ActionVocab, restoration: list[int]
) -> list[tuple[str, Action, int, int]]:
    """The steps that a restoration undoes, in its own order, with length and cursor before each.

    That is where the restoration is after undoing it. A span's way back takes two actions.
    """
    undone = {Kind.INSERT: "delete", Kind.DELETE: "insert", Kind.SPAN_DELETE: "span_insert"}
    actions = vocab.read(restoration)[:-1]
    steps = []
    length = cursor = n = 0
    while n < len(actions):
        taken = actions[n : n + 1]
        if actions[n].kind is Kind.SPAN_MOVE or (
            actions[n].kind is Kind.MOVE
            and n + 1 < len(actions)
            and actions[n + 1].kind is Kind.SPAN_MOVE
            and actions[n + 1].offset > 0
        ):
            taken = actions[n : n + 2]
        for action in taken:
            name, arguments = action.kind.name.lower(), (action.argument, action.offset)
            grows, moves = naive_policy.effect((name, *arguments))
            length, cursor = length + grows, cursor + moves
        (main,) = [action for action in taken if len(taken) == 1 or action.kind is Kind.SPAN_MOVE]
        steps.append((undone.get(main.kind, main.kind.name.lower()), main, length, cursor))
        n += len(taken)
    return steps


def restorations(policy: Policy, target: list[int], count: int, **options: Any) -> list[list[int]]:
    batch = Sampler(VOCAB, policy).batch([target] * count, range(count), seed=11, **options)
    return [part.tolist() for part in np.split(batch.ids, batch.offsets[1:-1])]


@pytest.mark.parametrize(
    "policy",
    [
        Obfuscation(),
        Obfuscation(delete=0.4, start="left"),
        Obfuscation(
            delete=0.5,
            noise=Noise(insert=0.1, replace=0.05, swap=0.05, span_insert=0.03, span_move=0.08),
        ),
    ],
)
def test_operations_occur_as_often_as_the_policy_says(policy: Obfuscation) -> None:
    n, noise = 30, policy.noise
    operations, moves, sizes = Tally(), Tally(), Tally()
    for restoration in restorations(policy, list(range(n)), 300):
        for name, action, length, cursor in obfuscation_steps(VOCAB, restoration):
            allowed = naive_policy.possible(cursor, length, 2 * n + 16)
            operations.add(name, naive_policy.chances(policy, allowed))
            if name == "move":
                valid = naive_policy.valid_jumps(cursor, length - cursor, VOCAB.max_move)
                moves.add(-action.argument, uniform(valid))
            elif name == "span_move":
                sizes.add(action.argument, uniform(range(1, min(cursor, length - 1, 8) + 1)))
            elif name == "span_insert":
                sizes.add(("noise", action.argument), uniform(("noise", s) for s in range(2, 9)))
    shares = {"delete": policy.delete, "move": 0.2, "insert": noise.insert}
    shares |= {"replace": noise.replace, "swap": noise.swap}
    shares |= {"span_insert": noise.span_insert, "span_move": noise.span_move}
    operations.check(name for name, share in shares.items() if share)
    moves.check(sign * 2**e for e in range(5) for sign in (1, -1))
    if noise.span_move:
        sizes.check([*range(1, 9), *(("noise", size) for size in range(2, 9))])


def test_the_cursor_starts_anywhere_or_at_the_left() -> None:
    n, trials = 9, 600
    starts = Tally()
    for restoration in restorations(Obfuscation(), list(range(n)), trials):
        starts.add(obfuscation_steps(VOCAB, restoration)[-1][3], uniform(range(n + 1)))
    starts.check(range(n + 1))
    for restoration in restorations(Obfuscation(start="left"), list(range(n)), 20):
        assert obfuscation_steps(VOCAB, restoration)[-1][3] == 0


def test_noise_is_drawn_from_the_target() -> None:
    policy = Obfuscation(delete=0.6, noise=Noise(insert=0.2))
    target = [5, 5, 5, 6, 7, 8]
    noise = Tally()
    sampler = Sampler(VOCAB, policy)
    for index in range(200):
        trajectory = sampler.sample(target, seed=12, index=index)
        for place in trajectory.no_loss:
            noise.add(trajectory.restoration[place], {5: 1 / 2, 6: 1 / 6, 7: 1 / 6, 8: 1 / 6})
    noise.check([5, 6, 7, 8])


@pytest.mark.parametrize("progress", [0.0, 0.25, 1.0])
def test_a_mixture_takes_each_policy_as_often_as_its_weight_then(progress: float) -> None:
    swaps = Obfuscation(delete=0.5, noise=Noise(swap=0.4))
    policy = Mixture(
        policies=(swaps, Append(), Spans(mean=1, unit="token")),
        weights=(1, 4, 0),
        final_weights=(2, 1, 1),
    )
    chances = dict(zip(["swaps", "append", "spans"], policy.weights_at(progress), strict=True))
    taken = Tally()
    for restoration in restorations(policy, list(range(40)), 600, progress=progress):
        kinds = {VOCAB.kind(i) for i in restoration}  # each policy gives itself away
        if Kind.SWAP in kinds:
            taken.add("swaps", chances)
        else:
            taken.add("spans" if Kind.MOVE in kinds else "append", chances)
    taken.check([name for name, chance in chances.items() if chance])


@pytest.mark.parametrize("mean", [1.0, 2.5, 7.0, 100.0])
@pytest.mark.parametrize("unit", ["token", "word"])
def test_spans_have_their_mean_length_if_the_units_allow_it(mean: float, unit: str) -> None:
    n, trials = 60, 400
    marks = np.array([3, 1, 1] * 20, np.uint8)  # a word is three tokens
    (row,) = compile_rows(Spans(mean=mean, unit=unit))  # type: ignore[arg-type]
    rng = np.zeros(k.RNG_SIZE, np.uint64)
    counts = []
    for index in range(trials):
        k.start_rng(rng, np.uint64(13), np.uint64(0), np.uint64(index))
        cuts = k.cut_spans(marks, row, rng)
        assert (cuts[0], cuts[-1]) == (0, n)
        assert all(np.diff(cuts) > 0)
        assert unit == "token" or not any(cuts % 3)
        counts.append(len(cuts) - 1)
    most = n if unit == "token" else n // 3
    wanted = min(max(n / mean, 1), most)
    chance = (wanted - 1) / (most - 1)
    spread = SIGMAS * sqrt((most - 1) * chance * (1 - chance) / trials)
    assert np.mean(counts) == pytest.approx(wanted, abs=spread + 1e-6)


def test_every_order_of_spans_is_as_likely() -> None:
    orders = Tally()
    rng = np.zeros(k.RNG_SIZE, np.uint64)
    for index in range(2400):
        k.start_rng(rng, np.uint64(14), np.uint64(0), np.uint64(index))
        orders.add(tuple(k.draw_order(3, -1, rng).tolist()), uniform(_permutations))
    orders.check(_permutations)


def test_spans_put_off_are_drawn_alike_and_never_the_first_or_last() -> None:
    orders = Tally()
    rng = np.zeros(k.RNG_SIZE, np.uint64)
    for index in range(2400):
        k.start_rng(rng, np.uint64(15), np.uint64(0), np.uint64(index))
        orders.add(tuple(k.draw_order(5, 2, rng).tolist()), uniform(_put_off))
    orders.check(_put_off)


_put_off = [
    (0, *left, 4, *late) for late in combinations((1, 2, 3), 2) for left in [{1, 2, 3} - {*late}]
]
_permutations = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]


def test_the_tally_notices_what_is_off() -> None:
    fair, loaded = Tally(), Tally()
    for n in range(1000):
        fair.add(n % 2, uniform([0, 1]))
        loaded.add(int(n % 5 < 3), uniform([0, 1]))
    fair.check([0, 1])
    with pytest.raises(AssertionError):
        loaded.check([0, 1])


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_of_pairs_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="it is a share, from 0 to 1"):
        Edits(rewritten=share)
    assert Edits(rewritten=1.0).address == "both"
