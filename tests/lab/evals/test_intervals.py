"""An interval of 95 % holds the truth 92 to 98 % of the time, on data made with a known truth.

Every draw has a fixed seed, so a figure here is the same each time. The tables of what covers at
which size are the parametrizations.
"""

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from reviser.errors import DataError
from reviser.lab.evals.intervals import (
    FEW,
    Estimate,
    bootstrap,
    mean,
    perplexity,
    proportion,
    ratio_of_means,
    share,
    student,
)

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator


def covered(
    truth: float, estimate: Callable[[Rng], Estimate], *, repetitions: int = 600, seed: int = 1
) -> float:
    """How often the interval holds the truth."""
    hits = 0
    for repetition in range(repetitions):
        found = estimate(np.random.default_rng([seed, repetition]))
        assert found.low <= found.high
        hits += found.low <= truth <= found.high
    return hits / repetitions


def holds(coverage: float) -> bool:
    return 0.92 <= coverage <= 0.98


def normal(rng: Rng, n: int) -> Floats:
    return rng.normal(3, 1, n)


def exponential(rng: Rng, n: int) -> Floats:
    return rng.exponential(1, n)


def lognormal(rng: Rng, n: int, sigma: float = 1.0) -> Floats:
    return rng.lognormal(0, sigma, n)


mildly = partial(lognormal, sigma=0.5)
TRUTH: dict[Any, float] = {
    normal: 3.0,
    exponential: 1.0,
    mildly: math.exp(0.125),
    lognormal: math.exp(0.5),
}


def prompts(rng: Rng, count: int, *, equal: bool = True) -> tuple[Floats, npt.NDArray[np.intp]]:
    """Three values of each prompt, or one to five; most of the spread is between prompts."""
    sizes = np.full(count, 3) if equal else rng.integers(1, 6, count)
    clusters = np.repeat(np.arange(count), sizes)
    return rng.lognormal(0, 0.7, count)[clusters] + rng.normal(0, 0.3, len(clusters)), clusters


PROMPTS_MEAN = math.exp(0.7**2 / 2)


# -- coverage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "n"),
    [
        (normal, 5), (exponential, 30), (mildly, 10), (lognormal, 100),
        *(
            pytest.param(draw, n, marks=pytest.mark.full)
            for draw, sizes in ((normal, (10, 30, 100)), (exponential, (10, 100)),
                                (mildly, (30, 100)), (lognormal, (30, 300)))
            for n in sizes
        ),
    ],
)  # fmt: skip
def test_a_mean_is_covered(draw: Any, n: int) -> None:
    repetitions = 1000 if n <= 30 else 300
    assert holds(covered(TRUTH[draw], lambda rng: mean(draw(rng, n)), repetitions=repetitions))


@pytest.mark.full
@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("count", [30, 100])
def test_a_mean_of_clusters_is_covered(count: int, equal: bool) -> None:
    assert holds(covered(PROMPTS_MEAN, lambda rng: mean(*prompts(rng, count, equal=equal)), seed=2))


def two_systems(rng: Rng, n: int) -> tuple[Floats, Floats]:
    """What two systems need for the same prompts: the first 1.5 times as much on average."""
    prompt = rng.lognormal(0, 0.6, n)
    return 1.5 * prompt * rng.lognormal(-0.045, 0.3, n), prompt * rng.lognormal(-0.045, 0.3, n)


@pytest.mark.full
@pytest.mark.parametrize("n", [50, 100])
def test_two_systems_are_compared_on_the_same_prompts(n: int) -> None:
    gap = 0.5 * math.exp(0.6**2 / 2)
    assert holds(covered(1.5, lambda rng: ratio_of_means(*two_systems(rng, n)), seed=3))
    assert holds(covered(gap, lambda rng: mean(np.subtract(*two_systems(rng, n))), seed=3))


@pytest.mark.full
@pytest.mark.parametrize("n", [30, 100])
def test_a_perplexity_is_covered(n: int) -> None:
    def estimate(rng: Rng) -> Estimate:
        tokens = rng.integers(40, 146, n)
        return perplexity(rng.lognormal(1.1, 0.25, n) * tokens, tokens)

    assert holds(covered(math.exp(math.exp(1.1 + 0.25**2 / 2)), estimate))


def exact_coverage(n: int, p: float) -> float:
    """The probability of the counts whose interval holds p."""
    found = 0.0
    for k in range(n + 1):
        ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        interval = proportion(k, n)
        if interval.low <= p <= interval.high:
            found += math.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p))
    return found


@pytest.mark.full
@pytest.mark.parametrize("n", [30, 100, 1000])
@pytest.mark.parametrize("p", [0.05, 0.1, 0.3, 0.5, 0.613, 0.9])
def test_a_proportion_is_covered(n: int, p: float) -> None:
    assert holds(exact_coverage(n, p))


@pytest.mark.full
@pytest.mark.parametrize("count", [30, 100])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_a_share_of_clusters_is_covered(count: int, p: float) -> None:
    def estimate(rng: Rng) -> Estimate:
        clusters = np.repeat(np.arange(count), 3)
        return share(rng.random(3 * count) < rng.beta(2 * p, 2 - 2 * p, count)[clusters], clusters)

    assert holds(covered(p, estimate, repetitions=1000, seed=4))


@pytest.mark.full
@pytest.mark.parametrize(
    ("draw", "n"), [(normal, 30), (exponential, 30), (mildly, 30), (lognormal, 100)]
)
def test_a_bootstrapped_mean_is_covered(draw: Any, n: int) -> None:
    def estimate(rng: Rng) -> Estimate:
        return bootstrap(lambda x: x.mean(-1), draw(rng, n), repeats=1000, batched=True)

    assert holds(covered(TRUTH[draw], estimate))


@pytest.mark.full
def test_a_bootstrapped_ratio_of_perplexities_is_covered() -> None:
    def ratio(ours: Floats, theirs: Floats, tokens: Floats) -> Any:
        return np.exp((ours.sum(-1) - theirs.sum(-1)) / tokens.sum(-1))

    def estimate(rng: Rng) -> Estimate:
        tokens, hard = rng.integers(40, 146, 40), rng.normal(0, 0.4, 40)
        ours, theirs = (tokens * (m + hard + rng.normal(0, 0.2, 40)) for m in (3.4, 2.6))
        return bootstrap(ratio, ours, theirs, tokens, repeats=1000, batched=True)

    assert holds(covered(math.exp(0.8), estimate, repetitions=400))


@pytest.mark.full
@pytest.mark.parametrize(("count", "equal"), [(100, True), (60, False)])
def test_a_bootstrap_of_clusters_is_covered(count: int, equal: bool) -> None:
    def estimate(rng: Rng) -> Estimate:
        values, clusters = prompts(rng, count, equal=equal)
        return bootstrap(lambda x: x.mean(-1), values, clusters=clusters, repeats=400, batched=True)

    assert holds(covered(PROMPTS_MEAN, estimate, repetitions=200 + 200 * equal))


# -- what the numbers are -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.7062), (2, 4.3027), (9, 2.2622), (29, 2.0452), (999, 1.9623)]
)
def test_students_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert student(freedom) == pytest.approx(quantile, abs=1e-4)


def test_values_are_the_plain_formulas() -> None:
    rng = np.random.default_rng(0)
    a, b, clusters = rng.random(50), rng.random(50) + 1, rng.integers(0, 20, 50)
    assert mean(a, clusters).value == pytest.approx(a.mean())
    assert ratio_of_means(a, b, clusters).value == pytest.approx(a.mean() / b.mean())
    assert perplexity(a, b).value == pytest.approx(math.exp(a.sum() / b.sum()))
    assert share(a > 0.5, clusters).value == pytest.approx(np.mean(a > 0.5))
    assert bootstrap(np.median, a, clusters=clusters).value == np.median(a)
    for found in (
        mean(a, clusters),
        ratio_of_means(a, b, clusters),
        perplexity(a, b, clusters),
        share(a > 0.5, clusters),
    ):
        assert found.n == len(set(clusters.tolist()))


def test_few_values_have_the_textbook_interval() -> None:
    values = np.array([1.0, 4.0, 5.0, 9.0])
    half = 3.1824 * values.std(ddof=1) / 2
    found = mean(values)
    assert (found.low, found.high) == pytest.approx((4.75 - half, 4.75 + half), abs=1e-3)
    assert (found.method, found.n) == ("Student's t", 4)
    assert mean(np.arange(FEW)).method == "bootstrap-t"


def test_wilson_is_the_printed_example() -> None:
    # 61.3 % of 3,000, the paper's arena at 100M.
    found = proportion(1839, 3000)
    assert str(found) == "0.613 [0.595, 0.630]"


def test_a_cluster_of_copies_counts_once() -> None:
    values, thrice = np.random.default_rng(0).lognormal(size=40), np.repeat(np.arange(40), 3)
    once, copied = mean(values), mean(np.repeat(values, 3), thrice)
    assert (once.low, once.high) == pytest.approx((copied.low, copied.high))
    assert (once.n, copied.n) == (40, 40)
    flags = values > 1
    one, three = share(flags, range(40)), share(np.repeat(flags, 3), thrice)
    assert (one.low, one.high) == pytest.approx((three.low, three.high))


def test_a_batched_bootstrap_is_the_same_as_one_by_one() -> None:
    values, clusters = prompts(np.random.default_rng(0), 20)
    batched, each = (
        bootstrap(
            lambda x: x.mean(-1), values, clusters=clusters, repeats=300, batched=batched, seed=3
        )
        for batched in (True, False)
    )
    assert (batched.low, batched.high) == pytest.approx((each.low, each.high))


def test_a_bootstrap_of_many_clusters_leaves_parts_out() -> None:
    calls = []
    values = np.random.default_rng(0).normal(size=1000)
    bootstrap(lambda x: calls.append(x.shape) or x.mean(-1), values, repeats=50, batched=True)
    assert calls == [(1000,), (50, 1000), *[(995,)] * 200]


def test_equal_values_have_no_width_and_one_value_no_interval() -> None:
    same = mean([2.0] * 20)
    assert (same.low, same.value, same.high) == (2.0, 2.0, 2.0)
    lone = (mean([2.0]), bootstrap(np.mean, [2.0]), mean([1.0, 3.0], ["p", "p"]))
    assert all((e.value, e.low, e.high) == (2.0, -math.inf, math.inf) for e in lone)
    unsure = share([True, True], ["p", "p"])
    assert (unsure.value, unsure.low, unsure.high) == (1.0, 0.0, 1.0)


def test_no_perplexity_is_below_1() -> None:
    found = perplexity([0.1, 9.0, 0.2], [1, 1, 1])
    assert found.low == 1
    assert found.high > found.value > 1
    assert perplexity([2.0], [1]).low == 1


def test_a_share_of_all_or_none_still_has_a_width() -> None:
    for found in (proportion(0, 30), share([False] * 30), share([False] * 30, range(30))):
        assert found.low == found.value == 0
        assert 0.1 < found.high < 0.15
    assert share([True] * 90, np.repeat(np.arange(30), 3)).low < 0.9


def test_an_estimate_goes_into_json() -> None:
    found = mean([1.0])
    fields = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert fields == {"value": 1.0, "low": None, "high": None, "n": 1, "method": "one value"}
    assert Estimate(**mean([1.0, 2.0]).to_dict()) == mean([1.0, 2.0])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: mean([]), "no values"),
        (lambda: mean([1.0, 2.0], ["a"]), "differ"),
        (lambda: mean([1.0, math.nan]), "not finite"),
        (lambda: ratio_of_means([1.0], [1.0, 2.0]), "the same length"),
        (lambda: ratio_of_means([1.0], [0.0]), "add up to 0"),
        (lambda: bootstrap(np.mean, [1.0, 2.0], clusters=[1]), "differ"),
        (lambda: bootstrap(lambda _: math.nan, [1.0, 2.0]), "not finite"),
        (lambda: proportion(3, 2), "are not a share"),
        (lambda: proportion(0, 0), "are not a share"),
    ],
)
def test_what_cannot_be_estimated_is_refused(wrong: Callable[[], Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        wrong()
