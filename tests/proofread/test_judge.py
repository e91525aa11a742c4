"""How sure the judge is, and what other mistakes in a passage count for."""

from hypothesis import given
from hypothesis import strategies as st

from reviser.proofread.judge import Judge, Logistic, Measured, log_odds, other_mistakes, rate
from reviser.proofread.pool import Candidate
from reviser.proofread.suggestion import Suggestion


def edit(start: int, end: int, gain: float = 0.0) -> Measured:
    """Return a measured edit of some characters."""
    reason = Suggestion(start, end, ("x",), "rule", "category", "Why.")
    return Measured(Candidate(start, end, "a" * (end - start), "x", (reason,)), 1.0, -1.0, gain)


spans = st.tuples(st.integers(0, 60), st.integers(0, 5)).map(lambda pair: (pair[0], sum(pair)))


@given(st.lists(st.tuples(spans, st.floats(0.01, 0.99)), max_size=8))
def test_other_mistakes_are_apart_from_an_edit_and_from_each_other(
    drawn: list[tuple[tuple[int, int], float]],
) -> None:
    pool, alone = [edit(*span) for span, _ in drawn], [confidence for _, confidence in drawn]
    ranked = sorted(range(len(pool)), key=lambda n: -alone[n])
    for n, found in enumerate(other_mistakes(pool, alone)):
        (start, end), _ = drawn[n]
        apart = [m for m in ranked if drawn[m][0][1] < start or end < drawn[m][0][0]]
        assert found <= sum(alone[m] for m in apart) + 1e-9
        # The most confident edit of all counts for each edit that it does not meet.
        if ranked[0] in apart and alone[ranked[0]] >= 0.1:
            assert found >= alone[ranked[0]] - 1e-9


def test_edits_that_meet_are_one_mistake() -> None:
    pool = [edit(0, 3), edit(1, 4), edit(20, 22)]
    assert other_mistakes(pool, [0.6, 0.7, 0.5]) == [0.5, 0.5, 0.7]
    assert other_mistakes(pool, [0.6, 0.7, 0.05]) == [0.0, 0.0, 0.7]


def test_an_edit_is_surer_among_other_mistakes() -> None:
    judge = Judge(
        verdict=Logistic(constant=0.0, weights={"gain": 0.2}),
        together=Logistic(constant=0.0, weights={"alone": 1.0, "rate": 0.5}),
        min_confidence=0.5,
    )
    pool = [edit(0, 3, 1.0), edit(20, 22, 8.0)]
    clean, *_ = judge.confidences(pool[:1], sure=0, words=100)
    among, *_ = judge.confidences(pool, sure=0, words=100)
    hasty, *_ = judge.confidences(pool, sure=5, words=100)
    assert clean < among < hasty
    longer, *_ = judge.confidences(pool, sure=5, words=400)
    assert longer < hasty


def test_a_short_passage_says_little() -> None:
    assert abs(rate(0, 5)) < abs(rate(0, 200))
    assert rate(1, 100) > rate(0, 100) > rate(0, 300)


def test_log_odds_undo_a_logistic() -> None:
    plain = Logistic(constant=0.0, weights={"x": 1.0})
    assert abs(log_odds(plain.probability({"x": -3.5})) + 3.5) < 1e-9


def test_the_default_judge_uses_only_features_that_exist() -> None:
    judge = Judge.load()
    assert set(judge.together.weights) == {"alone", "rate"}
    assert judge.together.weights["alone"] > 0 < judge.together.weights["rate"]
    assert judge.calibration == tuple(sorted(judge.calibration))
