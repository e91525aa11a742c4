"""A second look at changes: gains are differences of likelihoods; too small ones are left out."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.engines.base import Reading, Request
from reviser.models.editing import Editing
from reviser.models.wordlists import WordLists
from reviser.writing import review
from reviser.writing.changes import Change, Changes
from reviser.writing.model import Reviser
from reviser.writing.narrowing import EXTRA_LETTER, edit_probabilities, suggest
from reviser.writing.plan import most_confident
from reviser.writing.review import AFTER, BEFORE, COMPARED, FOLLOWING, SHOWN, compare
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import Revise
from support import noting, small_tokenizers
from support.random_engine import RandomEngine

TOKENIZER = small_tokenizers.byte_level()
VOCAB = ActionVocab.from_tokenizer(TOKENIZER, operators=("delete", "replace"), search=True)
CODEC = Codec(TOKENIZER)
words = st.sampled_from(["The", " cat", " sat", ".", " ", "\n", "é", "😀", " hippopotamus" * 5])
texts = st.lists(words, max_size=12).map("".join)
pieces = st.sampled_from(["The", " cta", " cat", ",", ".", " ", " the"])
misspelled = st.lists(pieces, max_size=12).map("".join)


LISTS = WordLists(
    ["the", "cat", "sat"], {"cat": ["sat"]}, insert=["the", ",", "."], delete=["the", ","]
)
WEIGHTS = {"spelling": (0.0, 0.5, 2.0), "list": (0.5, 0.0, 1.0)}


def model(least: float) -> Reviser:
    """A model that weighs what its lists suggest where an edit is likely."""
    editing = Editing(
        True,
        threshold=0.3,
        writes_edits=False,
        min_confidence=least,
        suggestions=WEIGHTS,
        lists=LISTS,
    )
    return Reviser(RandomEngine(VOCAB), CODEC, editing=editing)


def gain_by_hand(draft: str, change: Change) -> float:
    """The difference of two likelihoods, of all that is shown."""
    low = draft.rfind(" ", 0, max(0, change.start - BEFORE)) + 1
    high = draft.find(" ", min(len(draft), change.end + AFTER))
    tail = draft[change.end :] + "\n" if high < 0 else draft[change.end : high]
    new, old = (
        CODEC.encode(draft[low : change.start] + middle + tail)
        for middle in (change.after, change.before)
    )
    same = 0
    while same < min(len(new), len(old)) and new[same] == old[same]:
        same += 1
    rest = 0
    while rest < min(len(new), len(old)) - same and new[-1 - rest] == old[-1 - rest]:
        rest += 1
    begin = () if VOCAB.begin is None else (VOCAB.begin,)
    totals = []
    for ids in (new, old):
        shown = ids[max(0, same - SHOWN) : len(ids) - max(0, rest - FOLLOWING)]
        shown = shown[: SHOWN + COMPARED]
        totals.append(sum(noting.actual((*begin, *shown))))
    return totals[0] - totals[1]  # what both begin with cancels out


@given(draft=texts, data=st.data())
def test_a_gain_is_a_difference_of_likelihoods(draft: str, data: st.DataObject) -> None:
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(draft))] * 2)))
    after = data.draw(texts)
    change = Change(
        start=start, end=end, before=draft[start:end], after=after, logprob=0.0, actions=1
    )
    found = compare(draft, change, vocab=VOCAB, codec=CODEC)
    for request in found.requests:
        request.check(VOCAB, 10_000)
    readings = [
        noting.reading(noting.edit_probabilities(each.history), each.history)
        for each in found.requests
    ]
    expected = gain_by_hand(draft, change)
    assert found.gain(readings) == pytest.approx(expected, abs=1e-9)


def test_the_end_of_a_text_is_judged_by_a_line_break() -> None:
    change = Change(start=3, end=3, before="", after=".", logprob=0.0, actions=1)
    found = compare("The", change, vocab=VOCAB, codec=CODEC)
    line_break = CODEC.encode("\n")
    assert [list(each.history[-1:]) for each in found.requests] == [line_break] * 2


def test_control_ids_are_no_text() -> None:
    assert Reading((-1.0,), (-2.0,)).text_logprobs() == [-2.0]
    (found,) = Reading((-1.0,), (-2.0,), (-0.6931471805599453,)).text_logprobs()
    assert found == pytest.approx(-2.0 + 0.6931471805599453)
    assert Reading((0.0,), (-2.0,), (0.0,)).text_logprobs()[0] < 20  # nothing but control ids


@settings(max_examples=25)  # each runs an engine several times
@given(draft=misspelled, window=st.sampled_from([20, 256]), least=st.sampled_from([0.5, 0.6]))
def test_suggestions_of_too_little_confidence_are_left_out(
    draft: str, window: int, least: float
) -> None:
    task = Revise(draft, window=window, context=3)
    every, kept = model(0.0).run(task), model(least).run(task)
    assert [each.suggested for each in kept.rollouts] == [each.suggested for each in every.rollouts]
    changes = every.changes.changes
    assert all(change.gain is not None for change in changes)
    if len(every.rollouts) == 1:  # no changes met where windows do
        wanted = [each for each in changes if (each.confidence or 0) >= least]
        assert list(kept.changes.changes) == wanted
    assert Revision.from_json(kept.to_json()) == kept


def test_of_changes_with_the_highest_confidence_the_one_with_the_highest_gain_is_made() -> None:
    changes = [
        Change(
            start=0,
            end=3,
            before="dgo",
            after=after,
            logprob=0.0,
            actions=0,
            source="spelling",
            gain=gain,
            confidence=0.9,
        )
        for after, gain in (("go", 13.0), ("dog", 14.0), ("ago", 12.5))
    ]
    assert [each.after for each in most_confident(changes, 0.5)] == ["dog"]


def test_what_is_cancelled_was_not_compared() -> None:
    opened, draft = model(0.0), "The cta sat."
    plan = opened.plan(Revise(draft))
    whole, cut = (opened.start(plan.parts[0]) for _ in range(2))
    cut.cancel()
    assert whole.rollout().suggested
    assert not cut.rollout().suggested
    assert plan.result([cut.rollout()]).text == draft


def is_plausible(request: Request, draft: str, start: int, end: int, new: str) -> bool:
    """Whether the first token that a suggestion puts is likely enough, found slowly."""
    old_ids, new_ids = (
        CODEC.encode(draft[:start] + middle + draft[end:]) for middle in (draft[start:end], new)
    )
    pairs = enumerate(zip(old_ids, new_ids, strict=False))
    same = next((n for n, (old, other) in pairs if old != other), None)
    if same is None or not new:
        return True
    history, before = request.history, len(CODEC.decode(old_ids[:same]))
    shown = [n for n, each in enumerate(history) if each < VOCAB.tokens]
    ids = [history[n] for n in shown]
    # Locked text is encoded apart, so the history may have other tokens than the draft.
    at = [shown[n] for n in range(len(ids)) if len(CODEC.decode(ids[:n])) == before]
    if len(at) != 1 or history[at[0]] != old_ids[same]:
        return True
    having, without = (
        noting.actual((*history[: at[0]], each))[-1] for each in (new_ids[same], old_ids[same])
    )
    return having - without >= (review.REPLACED if start < end else review.INSERTED)


def test_a_spelling_with_more_wrong_letters_than_the_nearest_is_less_likely() -> None:
    draft, lists = "it occured", WordLists(["it", "occurs", "occurred"])
    at = (0, 0, len(draft), len(draft))
    likely = [0.5] * (len(draft) + 1)
    found = suggest(Revise(draft), at, lists, np.arange(len(draft) + 1), likely, 0.3)
    expected = {"occurred": log(0.5), "occurs": log(0.5) - EXTRA_LETTER}
    assert {each.after: each.logprob for each in found} == expected


@pytest.mark.parametrize(
    ("lock", "is_suggested"),
    [((0, 3), True), ((2, 4), False), ((3, 4), True), ((4, 5), True), ((0, 5), False)],
)
def test_text_is_inserted_before_and_after_locked_text_but_not_within(
    lock: tuple[int, int], is_suggested: bool
) -> None:
    class Inserting:
        def suggestions(self, _: str) -> Any:
            yield 3, 3, "the ", "list", 0

    draft = "to zoo"
    likely = [0.9] * (len(draft) + 1)
    at, offsets = (0, 0, len(draft), len(draft)), np.arange(len(draft) + 1)
    task = Revise(draft, locked=[lock])
    found = [*suggest(task, at, Inserting(), offsets, likely, 0.3)]  # type: ignore[arg-type]
    assert [(each.start, each.after) for each in found] == [(3, "the ")] * is_suggested


def expected_suggestions(opened: Reviser, task: Revise) -> list[tuple[int, int, str]]:
    """What is compared for a draft of one window where an edit is likely, found slowly."""
    part = opened.plan(task).parts[0]
    history = part.request.history
    reading = noting.reading(noting.edit_probabilities(history), history)
    tokens, likely = edit_probabilities(part.request, reading, VOCAB, 0, opened.editing)
    offsets = CODEC.char_offsets(tokens).tolist()
    found = []
    for start, end, new, source, _ in LISTS.suggestions(task.draft):
        ends = [n for n, offset in enumerate(offsets) if offset >= end]
        begins = [n for n, offset in enumerate(offsets) if 0 <= offset <= start]
        judged = ends[:1] if start < end else begins[-1:]
        judged += [n + 1 for n in judged if start < end and new]
        likeliest = max((likely[n] for n in judged if n < len(likely)), default=0.0)
        # Text may be inserted right before and right after locked text, not within it.
        is_free = not any(a < end and start < b for a, b in task.locked_spans)
        is_unknown = source == "spelling" and new.islower()
        if (
            is_free
            and (is_unknown or likeliest >= opened.editing.threshold)
            and (source == "spelling" or is_plausible(part.request, task.draft, start, end, new))
        ):
            found.append((start, end, new))
    return found


@settings(max_examples=40)
@given(
    draft=misspelled,
    data=st.data(),
    window=st.sampled_from([4, 256]),
    inserted=st.sampled_from([-1.0, 0.1]),
)
def test_the_lists_suggest_where_an_edit_is_likely_and_nothing_is_locked(
    draft: str, data: st.DataObject, window: int, inserted: float
) -> None:
    bounds = sorted(data.draw(st.lists(st.integers(0, len(draft)), max_size=6)))
    locked = [(a, b) for a, b in zip(bounds[::2], bounds[1::2], strict=False) if a < b]
    opened = model(0.5)
    task = Revise(draft, window=window, context=2, locked=locked)
    plan = opened.plan(task, replace(Revise.default_config, max_actions=6))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(review, "INSERTED", inserted)
        patch.setattr(review, "REPLACED", -inserted)
        rollouts = [opened.start(part).rollout() for part in plan.parts]
        is_one = len(plan.parts) <= 1
        expected = expected_suggestions(opened, task) if is_one else None
    assert all(each.statistics.edits == 0 for each in rollouts)
    found = [change for changes, _ in plan.candidates(rollouts) for change in changes]
    if is_one:
        suggested = [(each.start, each.end, each.after) for each in found]
        assert suggested == expected
    for part, rollout in zip(plan.parts, rollouts, strict=True):
        for change in rollout.suggested:
            assert change.gain == pytest.approx(gain_by_hand(part.prompt, change), abs=1e-9)
            assert change.actions == 0
        assert Rollout.from_json(rollout.to_json()) == rollout
    for change in found:
        assert change.gain is not None
        constant, by_logprob, by_gain = WEIGHTS[change.source]
        odds = constant + by_logprob * change.logprob
        odds += by_gain * max(-12.0, min(change.gain, 12.0))
        assert change.confidence == pytest.approx(1 / (1 + exp(-odds)))
    revision = plan.result(rollouts)
    assert isinstance(revision, Revision)
    for change in revision.changes.changes:
        assert (change.confidence or 0) >= 0.5
        assert not any(a < change.end and change.start < b for a, b in locked)
    for start, end in locked:
        assert draft[start:end] in revision.text


def test_nothing_is_suggested_without_a_reading() -> None:
    assert model(0.0).revise("The cta sat.", min_edit_probability=0).text == "The cta sat."


def test_a_gain_that_is_no_number_is_refused() -> None:
    change = Change(start=0, end=0, before="", after="x", logprob=0.0, actions=1, gain=float("nan"))
    with pytest.raises(ValueError, match="gain nan"):
        Changes(draft="", changes=(change,))
