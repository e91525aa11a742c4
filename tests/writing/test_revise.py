"""Revising a draft: what is locked stays, changes tell all that was done, long drafts in parts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import ActionVocab, Kind
from reviser.core.codec import Codec
from reviser.engines.base import ScriptedEngine, Step
from reviser.errors import ConfigError, EngineError
from reviser.trajectories.alignment import revision as oracle
from reviser.writing.model import CALIBRATION, Reviser, Revision, _calibration
from reviser.writing.tasks import windows
from support import noting, small_tokenizers
from support.random_engine import RandomEngine

OPERATORS = ("delete", "replace", "span_delete", "swap")


def reviser(make: Callable[[], Any], **options: bool) -> Reviser:
    tokenizer = make()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=OPERATORS, max_move=8, **options)
    return Reviser(RandomEngine(vocab), Codec(tokenizer))


MODELS = {
    "byte level": reviser(small_tokenizers.byte_level),
    "byte level, marks and searches": reviser(small_tokenizers.byte_level, marks=True, search=True),
    "llama, searches": reviser(small_tokenizers.byte_fallback, search=True),
    "llama, no delimiter": reviser(small_tokenizers.byte_fallback, delimiter=False),
}
each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
BYTES = MODELS["byte level, marks and searches"]
words = st.sampled_from(["The", " cat", " sat", ".", " ", "\n", "é", "😀", "你"])
texts = st.lists(words, max_size=12).map("".join)
seeds = st.integers(0, 2**32)


def random_spans(rng: Random, size: int) -> list[tuple[int, int]]:
    return [tuple(sorted(rng.choices(range(size + 1), k=2))) for _ in range(rng.randint(0, 2))]


@each_model
@given(draft=texts, seed=seeds, window=st.sampled_from([4, 9, 256]), context=st.integers(0, 5))
def test_locked_text_stays_and_changes_tell_all_that_was_done(
    model: Reviser, draft: str, seed: int, window: int, context: int
) -> None:
    rng = Random(seed)
    locked = random_spans(rng, len(draft))
    options: dict[str, Any] = {"seed": seed, "window": window, "context": context}
    if model.engine.vocab.delimiter is not None and rng.random() < 0.5:
        options["instruction"] = "The cat"
    if rng.random() < 0.5:
        options["notes"] = 0.5
    plans = list(model.plan_revise(draft, locked=locked, max_actions=30, **options))
    rollouts = list(model.write_many(plans))
    result = model.revision(draft, plans, rollouts)
    assert result.changes.draft == draft
    assert result.text == result.changes.text
    assert result.actions == sum(len(rollout.logprobs) for rollout in rollouts)
    spent = sum(change.logprob for change in result.changes.changes) + result.changes.stop_logprob
    assert spent == pytest.approx(-result.actions)  # one each, with this engine
    for change in result.changes.changes:
        for start, end in locked:
            assert start == end or change.end <= start or end <= change.start
    for rollout in rollouts:
        assert all(part.before == part.after for part in rollout.locked)
    if [plan.prompt for plan in plans] == [draft]:
        assert rollouts[0].text == result.text
    again = model.revise(draft, locked=locked, max_actions=30, **options)
    assert again.changes == result.changes
    if seed % 4 == 0:
        assert asyncio.run(model.arevise(draft, locked=locked, max_actions=30, **options)) == again
    assert json.loads(again.to_json())["text"] == again.text


@each_model
@given(draft=texts, seed=seeds, window=st.sampled_from([5, 256]), data=st.data())
def test_with_notes_nothing_changes_but_the_words_that_end_where_one_is(
    model: Reviser, draft: str, seed: int, window: int, data: st.DataObject
) -> None:
    locked = random_spans(Random(seed), len(draft)) if seed % 2 else []
    options: dict[str, Any] = {"window": window, "context": 2, "seed": seed, "max_actions": 25}
    least = data.draw(st.sampled_from([0.0, 0.05, 0.5, 1.0]))
    plain = list(model.plan_revise(draft, locked=locked, **options))
    made = model.revise(draft, locked=locked, notes=least, **options)
    free: list[tuple[int, int]] = []
    for plan in plain:
        vocab, history = model.engine.vocab, plan.request.history
        stays = noting.notes(history)
        shown = [n for n, i in enumerate(history) if vocab.kind(i) in (Kind.INSERT, Kind.BARRED)]
        tokens = [history[n] for n in shown]
        places = model.codec.places(tokens) + plan.place
        free.append((int(places[plan.request.cursor]),) * 2)
        for at, n in enumerate(shown):
            if 1 - stays[n] >= least:
                end = next(int(place) for place in places[at:] if place >= plan.place)
                begins = [
                    int(places[k])
                    for k in range(at)
                    if model.codec.token_bytes[tokens[k]][:1].isspace() and places[k] >= plan.place
                ]
                free.append(([plan.place, *begins][-1], end))
    for change in made.changes.changes:
        covered = {p for start, end in free for p in range(start, end)}
        if not model.codec.hides_first_space:  # or what shows it or hides it is a change, too
            assert {*range(change.start, change.end)} <= covered
        for start, end in locked:
            assert start == end or change.end <= start or end <= change.start
    assert len(made.rollouts) == len(plain)
    if least == 1.0:  # this engine is never so sure
        assert made.text == draft
        assert made.actions == len(plain)  # each stopped where it was read
        assert all(rollout.stop_reason == "stop" for rollout in made.rollouts)
        locked_texts = [[part.text for part in rollout.locked] for rollout in made.rollouts]
        proofs = [part for rollout in made.rollouts for part in rollout.locked]
        assert all(part.before == part.after for part in proofs)
        assert locked_texts == [[plan.prompt] if plan.prompt else [] for plan in plain]


@pytest.mark.parametrize("notes", [0.0, 0.5, 1.0])
def test_a_draft_of_one_part_can_be_streamed_whatever_its_notes(notes: float) -> None:
    with pytest.raises(ConfigError, match="revised in 3 parts"):
        BYTES.stream_revise("one two three four", window=8, context=0, notes=notes)
    writing = BYTES.stream_revise("one two", notes=notes, max_actions=9)
    assert writing.text == "one two"
    assert writing.rollout().prompt == "one two"


def test_what_is_no_share_is_refused_whatever_the_precision() -> None:
    model = Reviser(BYTES.engine, BYTES.codec, calibration=[(0.3, 0.5)], calibrated_by="notes")
    assert model.revising(precision=0.5).notes == 0.3
    assert model.revising(precision=0.5, notes=0.6).notes == 0.6
    for options in ({"notes": "x"}, {"notes": 2}, {"notes": "x", "precision": 0.5}):
        with pytest.raises(ConfigError, match="must be a number from 0 to 1"):
            model.revising(**options)


def test_a_lock_within_a_noted_word_stays_however_often_it_is_noted() -> None:
    class Sure(RandomEngine):
        def notes(self, history: tuple[int, ...]) -> tuple[float, ...]:
            return (0.0,) * (len(history) - 1)

    model = Reviser(Sure(BYTES.engine.vocab), BYTES.codec)
    for seed in range(30):
        made = model.revise("abcLOCKdef", locked=["LOCK"], notes=0.5, seed=seed, max_actions=40)
        assert "LOCK" in made.text
        assert all(part.before == part.after for part in made.rollouts[0].locked)


@each_model
@given(draft=texts, seed=seeds)
def test_edits_stream_with_places_in_the_draft_whatever_the_instruction(
    model: Reviser, draft: str, seed: int
) -> None:
    has_delimiter = model.engine.vocab.delimiter is not None
    instruction = "Make it short." if has_delimiter else ""
    writing = model.stream_revise(draft, instruction=instruction, seed=seed, max_actions=25)
    text = writing.text
    assert text == draft
    for edit in writing:
        assert text[edit.offset : edit.offset + len(edit.removed)] == edit.removed
        text = text[: edit.offset] + edit.inserted + text[edit.offset + len(edit.removed) :]
        assert text == writing.text
    assert writing.rollout().text == text


@given(drafts=st.lists(texts, max_size=4), seed=seeds)
def test_many_drafts_are_each_what_one_alone_would_be(drafts: list[str], seed: int) -> None:
    options: dict[str, Any] = {"max_actions": 20, "window": 12, "context": 2}
    many = list(BYTES.revise_many(drafts, seed=seed, **options))
    alone = [BYTES.revise(draft, seed=seed + n, **options) for n, draft in enumerate(drafts)]
    assert many == alone


def test_a_draft_that_cannot_be_revised_is_an_error_in_its_place() -> None:
    drafts: list[Any] = ["The", "cat and", 5, "The cat " * 400, "cat", "The"]
    options: dict[str, Any] = {"locked": ["cat"], "max_actions": 9, "window": 9999}
    told = list(BYTES.attempt_revise_many(drafts, seed=3, **options))
    expected = ["not hold 'cat'", None, "got int", "too long", None, "not hold 'cat'"]
    for n, (found, sentence) in enumerate(zip(told, expected, strict=True)):
        if sentence is None:
            assert found == BYTES.revise(drafts[n], seed=3 + n, **options)
        else:
            assert isinstance(found, ConfigError)
            assert sentence in str(found)
    many = BYTES.revise_many(drafts[1:3], seed=4, **options)
    assert next(many) == told[1]
    with pytest.raises(ConfigError, match="got int"):
        next(many)


class Failing(RandomEngine):
    """Fails for what has an odd seed."""

    def step(self) -> list[Step]:
        seeds = {number: walk.request.config.seed for number, walk in self.running.items()}
        error = EngineError("no room")
        steps = super().step()
        return [replace(each, error=error) if seeds[each.request] % 2 else each for each in steps]


def test_one_part_that_fails_is_a_failure_of_its_draft_alone() -> None:
    draft, options = "The cat sat. " * 3, {"window": 9, "context": 2, "stop_bias": -9.0}
    model = Reviser(Failing(BYTES.engine.vocab), BYTES.codec)
    told = list(model.attempt_revise_many(["cat", draft, "The"], seed=0, max_actions=9, **options))
    assert [type(found) for found in told] == [Revision, EngineError, Revision]
    assert len(told[2].rollouts) == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "told"),
    [({"window": 0}, "window is 0"), ({"heat": 1}, "no setting"), ({"precision": 1}, "has no cal")],
)
def test_what_makes_no_sense_for_any_draft_is_told_before_the_first(
    options: dict[str, Any], told: str
) -> None:
    for ask in (BYTES.revise_many, BYTES.attempt_revise_many):
        with pytest.raises(ConfigError, match=told):
            ask(iter(["The"]), **options)
        with pytest.raises(ConfigError, match="got one"):
            ask("The")


@each_model
@given(draft=texts, seed=seeds, window=st.sampled_from([4, 9, 256]), context=st.integers(0, 5))
def test_lengths_are_those_of_the_draft_and_of_nothing_shown_beside_it(
    model: Reviser, draft: str, seed: int, window: int, context: int
) -> None:
    rng, codec = Random(seed), model.codec
    options: dict[str, Any] = {
        "window": window,
        "context": context,
        "max_actions": 15,
        "seed": seed,
    }
    options["locked"] = random_spans(rng, len(draft))
    has_delimiter = model.engine.vocab.delimiter is not None
    options["instruction"] = "The cat" if has_delimiter else ""
    plans = list(model.plan_revise(draft, **options))
    most = max(plan.length for plan in plans) + rng.randint(0, 3)
    parts = list(windows(codec, draft, window, context))
    for plan, (low, start, end, high) in zip(plans, parts, strict=True):
        around = sum(map(len, codec.encode_parts(["", draft[low:start], draft[end:high]])[1:]))
        unseen = len(codec.encode("The cat")) if has_delimiter else 0
        assert plan.request.length - plan.length == unseen + around
    for rollout in model.revise(draft, max_length=most, **options).rollouts:
        assert rollout.config.max_length == most
        assert rollout.statistics.tokens_after <= most
    short = min(plan.length for plan in plans) - 1
    if short >= 0:
        with pytest.raises(ConfigError, match=f"max_length is {short}, and the text has"):
            model.revise(draft, max_length=short, **options)


@given(
    curve=st.lists(st.tuples(st.floats(-3, 5), st.floats(0, 1)), min_size=1, max_size=8),
    asked=st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
)
def test_who_asks_for_more_precision_never_gets_more_changes(
    curve: list[tuple[float, float]], asked: list[float]
) -> None:
    model = Reviser(BYTES.engine, BYTES.codec, calibration=curve)
    biases = []
    for precision in asked:
        try:
            biases.append(model.revising(precision=precision).config.move_bias)
        except ConfigError:
            biases.append(-inf)  # none at all
    assert biases[1] <= biases[0]


@given(
    text=st.lists(words, max_size=60).map("".join),
    window=st.integers(4, 20),
    context=st.integers(0, 8),
)
def test_windows_part_a_text_and_are_as_small_as_they_should(
    text: str, window: int, context: int
) -> None:
    codec = BYTES.codec
    parts = list(windows(codec, text, window, context))
    assert "".join(text[start:end] for _, start, end, _ in parts) == text
    if len(parts) > 1:
        for low, start, end, high in parts:
            assert low <= start < end <= high
            assert len(codec.encode(text[start:end])) <= window + 8  # parted, it may take more
            assert len(codec.encode(text[start:end])) >= min(window // 2, 4) or end == len(text)
            assert (low == 0) or len(text[low:start].encode()) >= context
            assert (high == len(text)) or len(text[end:high].encode()) >= context


def test_cost_grows_as_the_draft_does() -> None:
    draft = "The cat sat. " * 400
    plans = list(BYTES.plan_revise(draft, window=100, context=20))
    tokens = len(BYTES.codec.encode(draft))
    assert tokens / 100 <= len(plans) <= tokens / 50
    assert sum(plan.request.length for plan in plans) <= 1.9 * tokens
    for plan in plans:
        assert draft[plan.place :].startswith(plan.prompt)


def scripted(pairs: list[tuple[str, str]], **options: Any) -> Revision:
    """What a model that follows the oracle makes of the first of these texts."""
    draft, after = pairs[0]
    vocab, codec = BYTES.engine.vocab, BYTES.codec
    before, wanted = codec.encode(draft), codec.encode(after)
    trajectory = oracle(vocab, before, wanted, address="both")
    script = trajectory.restoration[len(trajectory.unlearned) :]
    return Reviser(ScriptedEngine(vocab, script), codec).revise(draft, **options)


def test_the_oracle_s_actions_are_told_as_one_change() -> None:
    result = scripted([("The cat sat.", "The dog sat.")])
    (change,) = result.changes.changes
    assert (change.before, change.after) == ("cat", "dog")
    assert result.changes.critic() == "The {~~cat~>dog~~} sat."
    assert result.changes.reject(0).text == "The cat sat."
    assert "-The cat sat." in result.changes.unified()


def test_what_is_to_be_locked_may_be_named() -> None:
    (plan,) = BYTES.plan_revise("one two one", locked=["one"])
    assert plan.locked == ("one", "one")
    assert len(plan.request.gaps) == 1
    (plan,) = BYTES.plan_revise("one two one", locked=["one two one"])
    assert plan.request.gaps == ()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"locked": ["three"]}, "does not hold 'three'"),
        ({"locked": [(2, 99)]}, "not within the draft's 7"),
        ({"locked": [(2, "x")]}, "pairs of places"),
        ({"window": 0}, "window is 0"),
        ({"precision": 0.9}, "has no calibration.json"),
        ({"heat": 1}, "'heat' is no setting"),
    ],
)
def test_what_makes_no_sense_is_told(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        BYTES.revise("one two", **options)
    with pytest.raises(ConfigError, match=r"in \d parts"):
        BYTES.stream_revise("one two three four", window=8)
    with pytest.raises(ConfigError, match="no delimiter"):
        MODELS["llama, no delimiter"].revise("one", instruction="two")


def test_precision_takes_the_least_bias_that_reached_it(tmp_path: Path) -> None:
    file = tmp_path / CALIBRATION
    assert _calibration(tmp_path) == {}
    file.write_text(json.dumps({"precision": [[0, 0.5], [1, 0.7], [2, 0.8]]}))
    model = Reviser(BYTES.engine, BYTES.codec, **_calibration(tmp_path))
    (plan,) = model.plan_revise("one", precision=0.6)
    assert plan.request.config.move_bias == -1
    (plan,) = model.plan_revise("one", precision=0.8, move_bias=0.5)
    assert plan.request.config.move_bias == -1.5
    with pytest.raises(ConfigError, match=r"at most 0\.8"):
        model.revise("one", precision=0.9)
    file.write_text("{}")
    with pytest.raises(ConfigError, match="is no calibration"):
        _calibration(tmp_path)


def test_places_of_tokens_are_none_within_a_character() -> None:
    codec = BYTES.codec
    tokens = codec.encode("a🦕b")
    places = codec.places(tokens)
    assert places[0] == 0
    assert places[-1] == 3
    assert {*places.tolist()} == {0, 1, 2, 3, -1}
    assert codec.places([]).tolist() == [0]
    llama = MODELS["llama, searches"].codec
    assert llama.places(llama.encode("ab"))[[0, -1]].tolist() == [0, 2]
