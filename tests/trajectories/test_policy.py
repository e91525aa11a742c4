"""Policies: what they refuse, what they compile to, and that samples have their frequencies."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import permutations
from math import sqrt
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import ActionVocab, Kind
from reviser.core.codec import Codec
from reviser.errors import ConfigError, VocabError
from reviser.trajectories._kernels import layout
from reviser.trajectories._kernels.philox import RNG_SIZE, start_rng
from reviser.trajectories._kernels.spans import cut_spans, draw_order
from reviser.trajectories.compiled import Compiled, one_by_one
from reviser.trajectories.policy import (
    PRESETS,
    AnyPolicy,
    Append,
    ByKind,
    Edits,
    Mixture,
    Obfuscation,
    Policy,
    Rewrite,
    Spans,
    TokenPair,
    compile_rows,
)
from reviser.trajectories.sampler import Sampler
from support import small_tokenizers
from support.strategies import policies

HALF = Mixture(policies=(Append(), Spans()), weights=(1, 1))

SIGMAS = 5
VOCAB = ActionVocab.build(60, max_move=16, marks=True)


# -- refusals -------------------------------------------------------------------------------------

NAN = float("nan")
TWO = (Append(), Spans())
NESTED = "A mixture needs at least one policy, and none that is itself a mixture"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Obfuscation(delete=0), "delete is 0; use 0.001 or more and less than 1, since"),
        (lambda: Obfuscation(delete=1), "delete is 1; use 0.001 or more and less than 1"),
        (lambda: Obfuscation(delete=-0.1), "delete is -0.1"),
        (lambda: Obfuscation(delete=1e-12), "delete is 1e-12"),
        (lambda: Obfuscation(delete=NAN), "delete is nan"),
        (lambda: Obfuscation(start="right"), "start is 'right'; use 'uniform' or 'left'"),
        (lambda: Obfuscation(max_obfuscation_steps=0), "max_obfuscation_steps is 0; use 1 or more"),
        (lambda: Spans(mean=0.5), "Spans of mean 0.5 aligned to 'word': the mean must be 1"),
        (lambda: Spans(mean=NAN), "Spans of mean nan"),
        (lambda: Spans(unit="line"), "the unit one of token, word, sentence"),
        (lambda: Spans(late=-1), "late is -1; use 0 to 1048576, or None"),
        (lambda: Mixture(policies=(HALF,), weights=(1,)), NESTED),
        (lambda: Mixture(policies=(), weights=()), NESTED),
        (lambda: HALF.weights_at(1.5), "progress is 1.5; it goes from 0 to 1"),
        (lambda: replace(HALF, change_from=0.5), "do not change: give final_weights too"),
        (
            lambda: replace(HALF, final_weights=(0, 1), change_from=0.5, change_until=0.5),
            "Weights that change from 0.5 to 0.5 of training: the first must be",
        ),
        (lambda: Mixture(policies=TWO, weights=(1,)), r"Weights \(1,\) do not fit 2 policies"),
        (lambda: Mixture(policies=TWO, weights=(2, -1)), r"Weights \(2, -1\) .* none negative"),
        (
            lambda: Mixture(policies=TWO, weights=(1, 1), final_weights=(0, 0)),
            r"Weights \(0, 0\) .* not all zero",
        ),
    ],
)
def test_a_senseless_policy_is_refused(build: Callable[[], Policy], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build()


# -- what they compile to -------------------------------------------------------------------------


def test_the_defaults_are_the_papers() -> None:
    assert Obfuscation() == Obfuscation(
        delete=0.8,
        start="uniform",
        merge_moves=False,
        max_obfuscation_steps=None,
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
    weights = [0, *rows[:, layout.WEIGHT].tolist()]
    assert weights[-1] == 2**32
    assert all(np.diff(weights) >= -len(rows))  # each is rounded on its own
    deletes = rows[rows[:, layout.KIND] == layout.OBFUSCATE, layout.DELETE]
    assert ((deletes > 0) & (deletes < 2**32)).all()


# -- how often ------------------------------------------------------------------------------------


# The kernels equal `naive_policy` draw by draw (`test_kernels.py`), so they have its
# probabilities. What follows is about distributions as a whole.


def assert_frequencies(seen: Counter[Any], chances: dict[Any, float]) -> None:
    """Check counts of independent events by five standard deviations."""
    trials = sum(seen.values())
    assert seen.keys() <= {event for event, chance in chances.items() if chance}
    for event, chance in chances.items():
        spread = sqrt(trials * chance * (1 - chance))
        assert abs(seen[event] - trials * chance) <= SIGMAS * spread, event


def uniform(events: Iterable[Any]) -> dict[Any, float]:
    listed = list(events)
    return dict.fromkeys(listed, 1 / len(listed))


@pytest.mark.parametrize("progress", [0.0, 0.25, 1.0])
def test_a_mixture_takes_each_policy_as_often_as_its_weight_then(progress: float) -> None:
    policy = Mixture(
        policies=(
            Obfuscation(delete=0.5),
            Append(),
            Spans(mean=1, unit="token", late=1),
        ),
        weights=(1, 4, 0),
        final_weights=(2, 1, 1),
    )
    names = ["walk", "append", "spans"]
    sampler, taken = Sampler(VOCAB, policy), Counter[str]()
    for ids, _ in sampler.batch([range(40)] * 600, range(600), seed=11, progress=progress):
        kinds = {VOCAB.kind(i) for i in ids.tolist()}  # each policy gives itself away
        taken[names[2 if Kind.MARK in kinds else 0 if Kind.MOVE in kinds else 1]] += 1
    assert_frequencies(taken, dict(zip(names, policy.weights_at(progress), strict=True)))


@pytest.mark.parametrize("mean", [1.0, 2.5, 7.0, 100.0])
@pytest.mark.parametrize("unit", ["token", "word"])
def test_spans_have_their_mean_length_if_the_units_allow_it(mean: float, unit: str) -> None:
    n, trials = 60, 400
    units = np.array([3, 1, 1] * 20, np.uint8)  # a word is three tokens
    (row,) = compile_rows(Spans(mean=mean, unit=unit))  # type: ignore[arg-type]
    rng = np.zeros(RNG_SIZE, np.uint64)
    counts = []
    for index in range(trials):
        start_rng(rng, np.uint64(13), np.uint64(0), np.uint64(index))
        cuts = cut_spans(units, row, rng)
        assert (cuts[0], cuts[-1]) == (0, n)
        assert all(np.diff(cuts) > 0)
        assert unit == "token" or not any(cuts % 3)
        counts.append(len(cuts) - 1)
    most = n if unit == "token" else n // 3
    wanted = min(max(n / mean, 1), most)
    chance = (wanted - 1) / (most - 1)
    spread = SIGMAS * sqrt((most - 1) * chance * (1 - chance) / trials)
    assert np.mean(counts) == pytest.approx(wanted, abs=spread + 1e-6)


@pytest.mark.parametrize(
    ("count", "late", "orders"),
    [
        (3, -1, list(permutations(range(3)))),
        (5, 2, [(0, 3, 4, 1, 2), (0, 2, 4, 1, 3), (0, 1, 4, 2, 3)]),  # the ends are never late
    ],
)
def test_every_possible_order_of_spans_is_equally_likely(
    count: int, late: int, orders: list[tuple[int, ...]]
) -> None:
    rng = np.zeros(RNG_SIZE, np.uint64)
    seen: Counter[tuple[int, ...]] = Counter()
    for index in range(2400):
        start_rng(rng, np.uint64(14), np.uint64(0), np.uint64(index))
        seen[tuple(draw_order(count, late, rng).tolist())] += 1
    assert_frequencies(seen, uniform(orders))


# -- policies of a user's own, and those for pairs of texts --------------------------------------


class BackToFront:
    """A policy that writes the last token first."""

    def compile(self, vocab: ActionVocab) -> Compiled:
        def write(target: list[int], rng: np.random.Generator) -> list[int]:
            ids = [i for token in reversed(target) for i in (vocab.move_id(-1), token)]
            return [int(rng.integers(9)), vocab.move_id(-1), *ids[1:], vocab.stop]

        return one_by_one(write)


def test_any_object_with_a_method_compile_is_a_policy() -> None:
    sampler = Sampler(VOCAB, BackToFront())
    targets, indices = [[11, 12, 13], [14], [15, 16]], [4, 5, 6]
    batch = sampler.batch(targets, indices, seed=3, epoch=1)
    assert batch.learned.all()
    first = set()
    for n, (target, index) in enumerate(zip(targets, indices, strict=True)):
        example = sampler.sample(target, seed=3, epoch=1, index=index)
        assert tuple(batch[n][0].tolist()) == example.restoration
        first.add(example.restoration[0])
        assert example.target(VOCAB) == [*target, example.restoration[0]]
    assert len(first) > 1  # each example has random numbers of its own
    with pytest.raises(ConfigError, match="give a value such as"):
        Sampler(VOCAB, object())  # type: ignore[arg-type]


def test_pydantic_reads_a_policy_by_its_name_or_its_kind() -> None:
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed.")
    read = pydantic.TypeAdapter(Annotated[AnyPolicy, ByKind()]).validate_python
    assert read("append") == read({"kind": "append"}) == Append()
    mixed = {"kind": "mixture", "policies": ["append", {"kind": "spans"}], "weights": [1, 1]}
    assert read(mixed) == HALF
    for wrong in ("preset", {"kind": "preset"}, {"mean": 8}, [], None):
        with pytest.raises(pydantic.ValidationError):
            read(wrong)


def test_policies_for_pairs_edit_or_rewrite_and_refuse_a_vocabulary_that_cannot() -> None:
    codec = Codec(small_tokenizers.byte_level())
    vocab = ActionVocab.build(len(codec.token_bytes), operators=["delete"])
    texts = (np.array(codec.encode(text), np.int32) for text in ("Fix:", "a cat", "a fat cat"))
    pair = TokenPair(*texts)
    for policy in (Edits(address="moves"), Rewrite()):
        trajectory = policy.compile(vocab, codec)(pair)
        assert codec.decode(trajectory.target(vocab)).endswith("a fat cat")
        prefix = "Fix:" if isinstance(policy, Edits) else "Fix:a cat"
        assert codec.decode(trajectory.prefix) == prefix
    for refused, options, message in (
        (Edits(), {}, "delete or span_delete"),
        (Edits(), {"operators": ["delete"]}, "set vocab.search"),
        (Rewrite(), {"delimiter": False}, "needs a delimiter"),
    ):
        with pytest.raises(VocabError, match=message):
            refused.compile(ActionVocab.build(300, **options), codec)
