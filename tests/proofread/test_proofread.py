"""Proofreading, each step alone and all of them: what is suggested, compared, judged and kept."""

from __future__ import annotations

from math import exp, log
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.engines.base import Act, Score, Scores
from reviser.errors import ConfigError
from reviser.model import Reviser
from reviser.models.editing import Editing
from reviser.models.wordlists import WordLists
from reviser.proofread import compare as comparing
from reviser.proofread.compare import COMPARED, FOLLOWING, compare
from reviser.proofread.draft import Draft
from reviser.proofread.keep import most_confident
from reviser.proofread.suggest import EXTRA_LETTER, suggest
from reviser.writing.changes import Change, Changes
from reviser.writing.driver import Run
from reviser.writing.prompts import prompts_of
from reviser.writing.revise import edit_probabilities
from reviser.writing.rollout import Revision
from reviser.writing.tasks import Continue, Revise
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
    """A model that judges what its lists suggest where an edit is likely."""
    editing = Editing(
        True,
        threshold=0.3,
        writes_edits=False,
        min_confidence=least,
        suggestions=WEIGHTS,
        lists=LISTS,
    )
    return Reviser(RandomEngine(VOCAB), CODEC, editing=editing)


KNOWN = model(0.5).model(revises=True)


def draft_of(text: str, **options: Any) -> Draft:
    task = Revise(text, **options)
    return Draft.of(prompts_of(task, KNOWN)[0], task, KNOWN)


def change(start: int, end: int, after: str, draft: str = "", **fields: Any) -> Change:
    fields = {"logprob": 0.0, "actions": 0} | fields
    return Change(start=start, end=end, before=draft[start:end], after=after, **fields)


@given(draft=texts, data=st.data())
def test_what_is_compared_is_the_text_without_and_with_a_suggestion(
    draft: str, data: st.DataObject
) -> None:
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(draft))] * 2)))
    shown = draft_of(draft)
    found = compare(shown, change(start, end, data.draw(texts), draft), KNOWN)
    if found is None:
        return
    history, suggestion = shown.prompt.request.history, found.suggestion
    cut = found.without.cut
    assert cut == found.having.cut
    longest = max(len(found.without.ids), len(found.having.ids))
    assert longest <= COMPARED
    begun = CODEC.decode(history[shown.positions[0] : cut])
    for branch, middle in ((found.without, suggestion.before), (found.having, suggestion.after)):
        whole = draft[:start] + middle + draft[end:] + "\n"
        read = begun + CODEC.decode(branch.ids)
        assert whole.startswith(read.rstrip("\ufffd"))  # it may end within a character
    same = len(set(found.without.ids[:1]) & set(found.having.ids[:1]))
    tokens = tuple(shown.tokens[shown.positions.index(cut) :]) if cut in shown.positions else ()
    # They part at once, unless the history has other tokens there.
    assert not same or found.without.ids[:1] != tokens[:1]


def test_a_suggestion_is_compared_with_some_tokens_after_it() -> None:
    shown = draft_of("The cat sat. " * 9)
    found = compare(shown, change(4, 7, "sat", shown.prompt.text), KNOWN)
    assert found is not None
    differing = len(CODEC.encode("sat"))
    assert len(found.having.ids) <= differing + FOLLOWING
    assert found.having.ids[-FOLLOWING:] == found.without.ids[-FOLLOWING:]


def test_the_end_of_a_text_is_judged_by_a_line_break() -> None:
    found = compare(draft_of("The"), change(3, 3, "."), KNOWN)
    assert found is not None
    (line_break,) = CODEC.encode("\n")
    assert [branch.ids[-1] for branch in (found.without, found.having)] == [line_break] * 2


def test_control_ids_are_no_text() -> None:
    assert Scores((-2.0,)).text_logprobs() == [-2.0]
    (found,) = Scores((-2.0,), (), (log(0.5),)).text_logprobs()
    assert found == pytest.approx(-2.0 + log(2))
    assert Scores((-2.0,), (), (0.0,)).text_logprobs()[0] < 20  # nothing but control ids


def test_a_spelling_with_more_wrong_letters_than_the_nearest_is_less_likely() -> None:
    shown, lists = draft_of("it occured"), WordLists(["it", "occurs", "occurred"])
    found = suggest(shown, [0.5] * (len(shown.tokens) + 1), 0.3, lists)
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

    shown = draft_of("to zoo", locked=[lock])
    found = suggest(shown, [0.9] * (len(shown.tokens) + 1), 0.3, Inserting())  # type: ignore[arg-type]
    assert [(each.start, each.after) for each in found] == [(3, "the ")] * is_suggested


def suggested_by_hand(shown: Draft, threshold: float) -> list[Change]:
    """What is suggested for a draft of one window where an edit is likely, found slowly."""
    history, offsets = shown.prompt.request.history, CODEC.char_offsets(shown.tokens).tolist()
    likely = edit_probabilities(shown.prompt, noting.scores(Score(history)), KNOWN)
    found = []
    for start, end, new, source, extra in LISTS.suggestions(shown.prompt.text):
        ends = [n for n, offset in enumerate(offsets) if offset >= end]
        begins = [n for n, offset in enumerate(offsets) if 0 <= offset <= start]
        judged = ends[:1] if start < end else begins[-1:]
        judged += [n + 1 for n in judged if start < end and new]
        likeliest = max((likely[n] for n in judged if n < len(likely)), default=0.0)
        # Text may be inserted right before and right after locked text, not within it.
        is_free = not any(a < end and start < b for a, b in shown.task.locked_spans)
        is_unknown = source == "spelling" and new.islower()
        if is_free and (is_unknown or likeliest >= threshold):
            logprob = log(max(likeliest, 1e-4)) - EXTRA_LETTER * extra
            found.append(change(start, end, new, shown.prompt.text, logprob=logprob, source=source))
    return found


def judged_by_hand(shown: Draft, suggestion: Change, least: float) -> tuple[float, float] | None:
    """The gain and the confidence of a suggestion; None if it is not compared to the end."""
    found = compare(shown, suggestion, KNOWN)
    constant, by_logprob, by_gain = WEIGHTS[suggestion.source]
    odds = constant + by_logprob * suggestion.logprob
    if found is None or 1 / (1 + exp(-(odds + by_gain * 12))) < least:
        return None
    history = shown.prompt.request.history
    totals = [
        noting.actual((*history[: branch.cut], *branch.ids))[branch.cut - 1 :]
        for branch in (found.without, found.having)
    ]
    until = found.alike + 1  # where the two part
    margin = sum(totals[1][:until]) - sum(totals[0][:until])
    needed = comparing.REPLACED if suggestion.before else comparing.INSERTED
    if suggestion.source != "spelling" and suggestion.after and margin < needed:
        return None
    gain = sum(totals[1]) - sum(totals[0])
    return gain, 1 / (1 + exp(-(odds + by_gain * max(-12.0, min(gain, 12.0)))))


@settings(max_examples=60)
@given(
    draft=misspelled,
    data=st.data(),
    window=st.sampled_from([4, 256]),
    inserted=st.sampled_from([-1.0, 0.1]),
    least=st.sampled_from([0.0, 0.5, 0.6]),
)
def test_suggestions_are_judged_and_the_surest_that_do_not_meet_are_kept(
    draft: str, data: st.DataObject, window: int, inserted: float, least: float
) -> None:
    bounds = sorted(data.draw(st.lists(st.integers(0, len(draft)), max_size=6)))
    locked = [(a, b) for a, b in zip(bounds[::2], bounds[1::2], strict=False) if a < b]
    opened = model(least)
    task = Revise(draft, window=window, context=2, locked=locked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "INSERTED", inserted)
        patch.setattr(comparing, "REPLACED", -inserted)
        revision = opened.run(task)
        prompts = prompts_of(task, KNOWN)
        if len(prompts) == 1:
            shown = Draft.of(prompts[0], task, KNOWN)
            found = suggested_by_hand(shown, KNOWN.editing.threshold)
            judged = [(each, judged_by_hand(shown, each, least)) for each in found]
            expected = [(each, *rated) for each, rated in judged if rated is not None]
            assert [each.start for each in revision.suggestions] == [e.start for e, *_ in expected]
            for suggestion, (each, gain, confidence) in zip(
                revision.suggestions, expected, strict=True
            ):
                assert (suggestion.end, suggestion.after) == (each.end, each.after)
                assert suggestion.gain == pytest.approx(gain, abs=1e-9)
                assert suggestion.confidence == pytest.approx(confidence)
            assert list(revision.changes) == most_confident(revision.suggestions, least)
    for kept in revision.changes:
        assert (kept.confidence or 0) >= least
        assert not any(a < kept.end and kept.start < b for a, b in locked)
    for start, end in locked:
        assert draft[start:end] in revision.text
    assert not revision.rollouts
    assert Revision.from_json(revision.to_json()) == revision


def test_of_changes_with_the_highest_confidence_the_one_with_the_highest_gain_is_made() -> None:
    changes = [
        change(0, 3, after, source="spelling", gain=gain, confidence=0.9)
        for after, gain in (("go", 13.0), ("dog", 14.0), ("ago", 12.5))
    ]
    assert [each.after for each in most_confident(changes, 0.5)] == ["dog"]


def test_what_was_judged_before_a_cancellation_is_kept() -> None:
    opened = model(0.0)
    task = Revise("The cta sat. " * 300, window=16, context=0)
    done: list[int] = []
    run = Run(
        opened.flow(task, progress=lambda n, _: done.append(n) or run.cancel("time")), opened.driver
    )
    cut, whole = run.wait(), opened.run(task)
    assert (cut.stop_reason, whole.stop_reason) == ("time", "stop")
    assert done == [12]
    assert cut.suggestions == whole.suggestions[: len(cut.suggestions)]
    assert 0 < len(cut.suggestions) < len(whole.suggestions)


def test_a_proofreader_asks_for_scores_only_and_its_edits_cannot_be_streamed() -> None:
    opened = model(0.5)
    flow = opened.flow(Revise("The cta sat."))
    asked = next(flow)
    for _ in range(2):
        assert asked
        assert not any(isinstance(each, Act) for each in asked)
        asked = flow.send([noting.scores(each) for each in asked if isinstance(each, Score)])
    for task, sentence in ((Revise("a"), "writes no edits"), (Continue("a"), "only revises")):
        with pytest.raises(ConfigError, match=sentence):
            opened.stream(task)


def test_a_gain_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="gain nan"):
        Changes(draft="", changes=(change(0, 0, "x", gain=float("nan")),))
