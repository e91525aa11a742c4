"""Proofreading, each step alone and all of them: what is suggested, compared, judged and kept."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import reviser
from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.engines.base import Score
from reviser.errors import CheckpointError, ConfigError
from reviser.model import Reviser
from reviser.proofread.compare import COMPARED, FOLLOWING, compare
from reviser.proofread.flow import SURE, Proofreading, sure_edits
from reviser.proofread.judge import Judge, Logistic, Measured, features_of
from reviser.proofread.keep import composed, longest_apart, most_confident
from reviser.proofread.lists import Lists
from reviser.proofread.passage import Passage, passages
from reviser.proofread.pool import Candidate, hidden, pool
from reviser.proofread.shown import without
from reviser.proofread.suggestion import LOCKED, Proposer, Suggestion
from reviser.writing.changes import Change, Changes
from reviser.writing.driver import Run
from reviser.writing.rollout import Revision
from reviser.writing.tasks import Continue, Revise
from support import small_tokenizers
from support.random_engine import RandomEngine

TOKENIZER = small_tokenizers.byte_level()
VOCAB = ActionVocab.from_tokenizer(TOKENIZER, operators=("delete",))
CODEC = Codec(TOKENIZER)
WEIGHTS = {"gain": 2.0, "deletes": 0.5}
words = st.sampled_from(["The", " cat", " sat", ".", " ", "\n", "é", "😀", " the mat", ","])
texts = st.lists(words, max_size=12).map("".join)


def suggestion(start: int, end: int, *after: str, **fields: Any) -> Suggestion:
    fields = {"rule": "r", "category": "c", "message": "m"} | fields
    return Suggestion(start, end, after, **fields)


def anywhere(_start: int, _end: int) -> bool:
    return True


def model(*proposers: Proposer, min_confidence: float = 0.5) -> Reviser:
    """A proofreader whose judge reads with the made-up model of `noting`."""
    judge = Judge(verdict=Logistic(constant=0.0, weights=WEIGHTS), min_confidence=min_confidence,
                  calibration=((0.4, 0.7), (0.8, 0.9)))  # fmt: skip
    tools = Proofreading(
        proposers=proposers, judge=judge, codec=CODEC, begin=VOCAB.stop, context=9999
    )
    return Reviser(RandomEngine(VOCAB), CODEC, proofreading=tools)


# -- pool -----------------------------------------------------------------------------------------


def test_equal_edits_are_one_candidate_with_all_their_sources() -> None:
    text = "It is a old car of of mine."
    proposers: list[Proposer] = [
        lambda _: [suggestion(6, 7, "an"), suggestion(16, 18, "or", "of")],
        lambda _: [suggestion(7, 7, "n", source="lists"), suggestion(16, 19, "", source="lists")],
        lambda _: [suggestion(18, 21, "", source="own", sure=True)],
    ]
    found = pool(text, proposers, anywhere)
    shown = [
        (each.before, each.after, [s.source for s in each.suggestions], each.is_sure)
        for each in found
    ]
    assert shown == [
        ("a", "an", ["rules", "lists"], False),
        ("of", "or", ["rules"], False),
        ("of ", "", ["lists", "own"], True),
    ]


def test_the_reason_names_the_replacement() -> None:
    found = pool("teh", [lambda _: [suggestion(0, 3, "the", "ten", message="'{new}'.")]], anywhere)
    assert {each.after: each.change().message for each in found} == {
        "the": "'the'.",
        "ten": "'ten'.",
    }


def test_a_proposer_that_is_never_sure_is_not_asked_for_what_is_sure() -> None:
    lists = Lists()
    assert not lists.may_be_sure
    assert not without(lists, ["Word"], []).may_be_sure  # type: ignore[attr-defined]
    assert not sure_edits("We went their.", [], [lists])


def test_a_proposer_cannot_read_what_is_locked_and_suggests_nothing_there() -> None:
    text, asked = "Use `teh`\nteh", list[str]()

    def proposer(shown: str) -> Iterator[Suggestion]:
        asked.append(shown)
        yield suggestion(4, 9, "the")
        yield suggestion(10, 13, "the")

    found = pool(text, [proposer], anywhere, shown=hidden(text, [(4, 9)]))
    assert asked == [f"Use {LOCKED * 5}\nteh"]
    assert [each.start for each in found] == [10]


# -- compare --------------------------------------------------------------------------------------


def passage_of(text: str) -> Passage:
    (found,) = passages(CODEC, text, VOCAB.stop)
    return found


def common(one: Sequence[int], other: Sequence[int]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
                min(len(one), len(other)))  # fmt: skip


@given(text=texts, after=texts, data=st.data())
def test_what_is_compared_is_what_differs_if_both_texts_are_encoded_whole(
    text: str, after: str, data: st.DataObject
) -> None:
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    edited = text[:start] + after + text[end:]
    assume("  " not in text and "  " not in edited)  # a run of spaces may be cut in two
    without, having = (CODEC.encode_parts([each + "\n"])[0] for each in (text, edited))
    cut = common(without, having)
    found = compare(passage_of(text), Candidate(start, end, text[start:end], after, ()), 9999)
    assert found is None or text != edited
    assume(found is not None)  # as where so much text is doubled that no difference is read
    assert found is not None
    assert found.without.cut == found.having.cut == 1 + cut
    assert found.without.ids == tuple(without[cut : cut + len(found.without.ids)])
    assert found.having.ids == tuple(having[cut : cut + len(found.having.ids)])
    first, second = found.branches(is_first=True)
    assert first.ids != second.ids
    differing = len(having) - cut - common(without[cut:][::-1], having[cut:][::-1])
    assert min(differing, COMPARED) <= len(found.having.ids) <= differing + FOLLOWING


def test_the_end_of_a_text_is_judged_by_a_line_break() -> None:
    found = compare(passage_of("The"), Candidate(3, 3, "", ".", ()), 9999)
    assert found is not None
    (line_break,) = CODEC.encode("\n")
    assert [branch.ids[-1] for branch in (found.without, found.having)] == [line_break] * 2


# -- judge ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("teh", "the", {"letters": 1, "inserts": 0, "deletes": 0, "comma": 0, "is best": 1}),
        ("", "the ", {"inserts": 1, "letters": 4, "letters share": 4 / 3}),
        ("of ", "", {"deletes": 1, "inserts": 0}),
        (" and", ", and", {"comma": 0, "letters": 1}),
        ("so", "so,", {"comma": 1}),
        (",", "", {"comma": 1, "deletes": 1}),
        ("Monday", "monday", {"capital": 1, "no change of words": 1}),
    ],
)
def test_the_features_of_an_edit(before: str, after: str, expected: dict[str, float]) -> None:
    reasons = (suggestion(0, 0), suggestion(0, 0, source="lists", rule="x"))
    candidate = Candidate(5, 5 + len(before), before, after, reasons)
    (found,) = features_of([Measured(candidate, 40.0, -2.0, gain=6.0, tokens=3)])
    expected |= {"gain": 6, "gain per token": 2, "margin": 30, "first": -2, "sources": 1}
    expected |= {"rule r": 1, "rule x": 1, "category c": 1, "source lists": 1, "over rival": 6}
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_edits_that_meet_are_rivals() -> None:
    pairs = [((0, 3, "teh", "the"), 5.0), ((0, 3, "teh", "tehe"), 2.0), ((9, 12, "a", "b"), 1.0)]
    pool = [Measured(Candidate(*edit, ()), 1.0, -1.0, gain=gain) for edit, gain in pairs]
    found = features_of(pool)
    assert [each["over rival"] for each in found] == [3, -3, 1]
    assert [each["is best"] for each in found] == [1, 0, 1]


def test_a_precision_chooses_the_least_confidence_that_reached_it(tmp_path: Path) -> None:
    judge = model().proofreading.judge  # type: ignore[union-attr]
    assert judge is not None
    found = [judge.least(), judge.least(0.1), judge.least(precision=0.8), judge.least(0.2, 0.8)]
    assert found == [0.5, 0.1, 0.8, 0.2]
    with pytest.raises(ConfigError, match=r"the highest that was measured .* is 0\.9"):
        judge.least(precision=0.95)
    assert 0 < Judge.load().min_confidence < 1
    (tmp_path / "judge.json").write_text('{"constant": 1}')
    with pytest.raises(CheckpointError, match="is damaged"):
        Judge.load(tmp_path / "judge.json")


# -- keep -----------------------------------------------------------------------------------------


def change(start: int, end: int, after: str, draft: str = "", **fields: Any) -> Change:
    return Change(start=start, end=end, before=draft[start:end], after=after, **fields)


def test_of_changes_that_meet_the_surest_is_kept_and_then_the_one_with_the_highest_gain() -> None:
    rated = [(0, 3, "go", 13, 0.9), (0, 3, "dog", 14, 0.9), (3, 4, "x", 1, 0.95), (5, 6, "y", 1, 0.4)]  # noqa: E501  # fmt: skip
    changes = [change(*each[:3], gain=each[3], confidence=each[4]) for each in rated]
    assert [each.after for each in most_confident(changes, 0.5)] == ["x"]
    assert [each.after for each in most_confident(changes[:2], 0.5)] == ["dog"]
    assert [each.after for each in longest_apart(changes)] == ["go", "y"]


def test_many_changes_are_kept_in_little_time() -> None:
    changes = [change(n, n + 1, "x", confidence=0.9) for n in range(0, 100_000, 2)]
    start = time.perf_counter()
    assert most_confident(changes, 0.5) == longest_apart(changes) == changes
    assert time.perf_counter() - start < 5


@st.composite
def some_changes(draw: st.DrawFn, draft: str) -> tuple[Change, ...]:
    """Changes of a draft that do not meet."""
    bounds = sorted(draw(st.lists(st.integers(0, len(draft)), max_size=8)))
    spans = zip(bounds[::2], bounds[1::2], strict=False)
    made = [change(a, b, draw(st.sampled_from(["", "x", "yz"])), draft) for a, b in spans]
    return tuple(longest_apart([each for each in made if each.before != each.after]))


@settings(max_examples=300)
@given(data=st.data(), draft=st.text("abc ", max_size=12))
def test_changes_of_a_changed_text_are_changes_of_the_draft(
    data: st.DataObject, draft: str
) -> None:
    first = Changes(draft=draft, changes=data.draw(some_changes(draft)))
    then = data.draw(some_changes(first.text))
    found = composed(first, then)
    assert found.text == Changes(draft=first.text, changes=then).text
    assert all(a.end < b.start for a, b in pairwise(found))


# -- all of it ------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(draft=texts, data=st.data())
def test_random_suggestions_never_touch_a_lock(draft: str, data: st.DataObject) -> None:
    bounds = sorted(data.draw(st.lists(st.integers(0, len(draft)), max_size=6)))
    locked = [(a, b) for a, b in zip(bounds[::2], bounds[1::2], strict=False) if a < b]
    rng = data.draw(st.randoms(use_true_random=False))

    def proposer(shown: str) -> Iterator[Suggestion]:
        for _ in range(rng.randint(0, 12)):
            start = rng.randint(0, len(shown))
            end = min(len(shown), start + rng.randint(0, 4))
            after = rng.choice(["", "x", " the", shown[start:end].upper()])
            yield suggestion(start, end, after, sure=rng.random() < 0.3)

    revision = model(proposer).revise(draft, locked=locked)
    for kept in revision.changes:
        assert not any(a < kept.end and kept.start < b for a, b in locked)
        assert (kept.confidence or 0) >= 0.5
    assert not revision.rollouts
    assert Revision.from_json(revision.to_json()) == revision


def the(shown: str) -> Iterator[Suggestion]:
    """Suggest "the" for "qzx", which is sure, and then "cat" for "cta", which is not."""
    for wrong, right, sure in (("qzx", "the", True), ("cta", "cat", False)):
        start = shown.find(wrong)
        while start >= 0:
            yield suggestion(start, start + 3, right, sure=sure, rule=wrong, message="Typo.")
            start = shown.find(wrong, start + 3)


def test_what_is_sure_is_changed_without_a_question() -> None:
    with reviser.proofreader(judge=None, also=[the]) as opened:
        (only,) = opened.revise("qzx cta").changes
    assert (only.before, only.after, only.confidence) == ("qzx", "the", SURE)
    assert (only.rule, only.category, only.message) == ("qzx", "c", "Typo.")
    judged = model(the)
    assert judged.revise("qzx").text == "the"
    assert judged.engine.added == 0  # type: ignore[attr-defined]


def test_the_judge_reads_the_text_after_the_sure_edits_and_only_scores() -> None:
    opened = model(the, min_confidence=0.0)
    flow = opened.flow(Revise("qzx cta sat"))
    asked = next(flow)
    assert [CODEC.decode(each.history[1:]) for each in asked] == ["the cta sat\n"]  # type: ignore[union-attr]
    assert all(isinstance(each, Score) for each in asked)
    assert opened.revise("qzx cta sat").text == "the cat sat"
    with pytest.raises(ConfigError, match="writes no edits"):
        opened.stream(Revise("a"))
    with pytest.raises(ConfigError, match="only revises"):
        opened.run(Continue("a"))


def test_what_was_judged_before_a_cancellation_is_kept() -> None:
    opened = model(the, min_confidence=0.0)
    task = Revise("The cta sat. " * 900)
    done: list[int] = []
    flow = opened.flow(task, progress=lambda n, _: done.append(n) or run.cancel("time"))
    run = Run(flow, opened.driver)
    cut, whole = run.wait(), opened.run(task)
    assert (cut.stop_reason, whole.stop_reason) == ("time", "stop")
    assert done == [1]
    assert cut.suggestions == whole.suggestions[: len(cut.suggestions)]
    assert 0 < len(cut.suggestions) < len(whole.suggestions)


def test_a_gain_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="gain nan"):
        Changes(draft="", changes=(change(0, 0, "x", gain=float("nan")),))
