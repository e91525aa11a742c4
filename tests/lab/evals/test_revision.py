"""Each measure against its definition, by hand and the slow way; JFLEG's published figures."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.revise import gec_sets
from reviser.errors import DataError
from reviser.lab.evals import revision, word_edits
from reviser.lab.evals.revision import EditCounts, Kept
from reviser.lab.evals.word_edits import WordEdit

texts = st.lists(st.sampled_from("abcd"), max_size=9).map(" ".join)
pairs = st.lists(texts, min_size=2, max_size=2)


@st.composite
def nearly_right(draw: st.DrawFn) -> tuple[str, str, list[str]]:
    """A text that lacks the first words of its reference, so that GLEU is not 0 but penalised."""
    words = draw(st.lists(st.sampled_from("abcd"), min_size=6, max_size=9))
    return draw(texts), " ".join(words[draw(st.integers(0, 2)) :]), [" ".join(words)] * 2


corpora = st.lists(st.tuples(texts, texts, pairs) | nearly_right(), min_size=1, max_size=4)


def grams(text: str, n: int) -> list[tuple[str, ...]]:
    words = text.split()
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


# -- GLEU -----------------------------------------------------------------------------------------


def slow_gleu(corpus: Sequence[tuple[str, str, str]]) -> float:
    """One reference for each text, as the authors' program defines it, n-gram by n-gram."""
    logs = 0.0
    for n in (1, 2, 3, 4):
        points = size = 0
        for source, hypothesis, reference in corpus:
            mine, theirs, before = grams(hypothesis, n), grams(reference, n), grams(source, n)
            earned = 0
            for gram in set(mine):
                earned += min(mine.count(gram), theirs.count(gram))
                if gram not in theirs:
                    earned -= min(mine.count(gram), before.count(gram))
            points += max(0, earned)
            size += len(mine)
        if points == 0:
            return 0.0
        logs += math.log(points / size) / 4
    ours = sum(len(hypothesis.split()) for _, hypothesis, _ in corpus)
    theirs_too = sum(len(reference.split()) for *_, reference in corpus)
    return math.exp(logs + (1 - theirs_too / ours if ours < theirs_too else 0))


@given(corpora)
def test_gleu_of_one_reference_is_the_slow_one(
    corpus: list[tuple[str, str, list[str]]],
) -> None:
    sources, hypotheses, references = zip(*corpus, strict=True)
    found = revision.gleu(sources, hypotheses, [ours[:1] for ours in references])
    one = [(s, h, r[0]) for s, h, r in corpus]
    assert found == pytest.approx(slow_gleu(one))


@given(texts.filter(lambda text: len(text.split()) >= 4), texts)
def test_a_hypothesis_that_is_the_reference_is_perfect(reference: str, source: str) -> None:
    assert revision.gleu([source], [reference], [[reference]]) == pytest.approx(1)
    counts = revision.edit_counts(source, reference, [reference])
    assert counts.right == counts.made == counts.wanted
    assert revision.locality(source, reference, [reference]).share == 1
    assert revision.exact_match(reference, [reference])


# -- alignment and edits --------------------------------------------------------------------------


@cache
def distance(old: str, new: str) -> int:
    """WordEdit distance by its recursion; exchanging costs a tenth more."""
    if not old or not new:
        return 10 * (len(old) + len(new))
    return min(
        distance(old[:-1], new) + 10,
        distance(old, new[:-1]) + 10,
        distance(old[:-1], new[:-1]) + (0 if old[-1] == new[-1] else 11),
    )


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_an_alignment_changes_as_little_as_can_be(old: str, new: str) -> None:
    pairs = word_edits.aligned(old, new)
    assert all(old[i] == new[j] for i, j in pairs)
    cost = 0
    for (a, b), (c, d) in pairwise([(-1, -1), *pairs, (len(old), len(new))]):
        assert a < c
        assert b < d
        out, put = c - a - 1, d - b - 1
        cost += 11 * min(out, put) + 10 * abs(out - put)
    assert cost == distance(old, new)


def test_an_exchange_is_one_edit_and_a_shift_keeps_what_it_can() -> None:
    assert revision.edits_between("go IN in is", "go in in is") == [WordEdit(1, 2, ("in",))]
    assert word_edits.aligned("ab", "bc") == [(1, 0)]


@given(texts, texts)
def test_edits_lead_from_the_one_to_the_other(old: str, new: str) -> None:
    edits = revision.edits_between(old, new)
    made = old.split()
    for start, end, words in edits[::-1]:  # from the last, so that offsets stay valid
        made[start:end] = words
    assert " ".join(made) == new
    assert all(a.end <= b.start for a, b in pairwise(edits))
    assert bool(edits) == (old != new)


def test_edits_are_counted_against_the_reference_that_fits_best() -> None:
    source, references = "a b c d", ["A b c D e", "a b x d"]
    assert revision.edit_counts(source, "a b x D", references) == EditCounts(1, 2, 1)
    assert revision.edit_counts(source, source, references) == EditCounts(0, 0, 1)
    assert revision.edit_counts(source, source, [*references, source]) == EditCounts(0, 0, 0)
    rows = np.array([[1, 2, 1], [0, 0, 3]])
    assert revision.edit_precision(rows) == 0.5
    assert revision.edit_recall(rows) == 0.25
    assert revision.edit_f(rows) == pytest.approx(1.25 * 0.5 * 0.25 / (0.25 * 0.5 + 0.25))


# -- locality -------------------------------------------------------------------------------------


def test_locality_is_what_a_hand_counts() -> None:
    source, reference = "He go home.", ["He goes home."]
    assert revision.locality(source, source, reference) == Kept(9, 9)
    assert revision.locality(source, "He went home.", reference) == Kept(9, 9)
    assert revision.locality(source, "He goes  home.", reference) == Kept(8, 9)
    assert revision.locality(source, "", reference) == Kept(0, 9)
    assert revision.locality("Ça va", "va", ["Ça ira"]) == Kept(0, 4)  # bytes, not characters


# -- all of them, and intervals -------------------------------------------------------------------


def test_every_measure_comes_with_an_interval() -> None:
    sources = [f"he go to the {n} school ." for n in range(12)]
    hypotheses = [s.replace("go", "goes") if n % 3 else s for n, s in enumerate(sources)]
    references = [[s.replace("go", "goes"), s.replace("go", "went")] for s in sources]
    report = revision.revision(sources, hypotheses, references)
    assert [*report] == [
        *("gleu", "edit_precision", "edit_recall", "edit_f", "locality", "exact_match")
    ]
    assert report["exact_match"].value == pytest.approx(8 / 12)
    assert report["edit_recall"].value == pytest.approx(8 / 12)
    assert report["locality"].value == report["edit_precision"].value == 1
    assert report["gleu"].value == pytest.approx(revision.gleu(sources, hypotheses, references))
    for estimate in report.values():
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
        assert estimate.n == 12


def test_texts_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(DataError, match="2 sources, 1 hypotheses"):
        revision.gleu(["a", "b"], ["a"], [["a"]])
    with pytest.raises(DataError, match="Text 0 needs a list"):
        revision.locality("a", "a", [])
    with pytest.raises(DataError, match="Text 0 needs a list"):
        revision.locality("a", "a", "a")


# -- JFLEG ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "size", "unchanged", "people"),
    [("dev", 754, 38.21, 55.26), ("test", 747, 40.54, 62.37)],
)
def test_gleu_on_jfleg_is_the_published_one(
    part: str, size: int, unchanged: float, people: float
) -> None:
    """Napoles et al. 2017: of the source, and of each annotator against the three others."""
    if "REVISER_GEC" not in os.environ:
        pytest.skip("JFLEG is not at hand; REVISER_GEC can say where gec_sets.py fetched it to")
    found = gec_sets.jfleg(Path(os.environ["REVISER_GEC"]), part)
    assert len(found.sources) == size
    score = revision.gleu(found.sources, found.sources, found.references)
    assert 100 * score == pytest.approx(unchanged, abs=0.15)
    scores = []
    for k in range(4):
        others = [ours[:k] + ours[k + 1 :] for ours in found.references]
        mine = [ours[k] for ours in found.references]
        scores.append(revision.gleu(found.sources, mine, others))
    assert 100 * sum(scores) / 4 == pytest.approx(people, abs=0.15)
