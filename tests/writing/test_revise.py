"""Revising: locked text is kept, changes say all that was done, long drafts in windows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reviser.core.actions import ActionVocab, Kind
from reviser.core.codec import Codec
from reviser.engines.base import Answer, DecodeConfig, Score
from reviser.errors import ConfigError, EngineError
from reviser.model import Reviser
from reviser.models.editing import Editing
from reviser.writing.prompts import Prompt, prompts_of
from reviser.writing.rollout import Revision
from reviser.writing.tasks import Continue, Infill, Revise, Task
from reviser.writing.windows import windows
from support import noting, small_tokenizers
from support.random_engine import RandomEngine

OPERATORS = ("delete", "replace", "span_delete", "swap")


def reviser(make: Callable[[], Any], **options: bool) -> Reviser:
    tokenizer = make()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=OPERATORS, max_move=8, **options)
    return Reviser(RandomEngine(vocab), Codec(tokenizer), editing=Editing(edit_probabilities=True))


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


def prompts(model: Reviser, task: Revise, **limits: int) -> list[Prompt]:
    return prompts_of(task, model.model(revises=True), **limits)


def random_spans(rng: Random, size: int) -> list[tuple[int, int]]:
    return [tuple(sorted(rng.choices(range(size + 1), k=2))) for _ in range(rng.randint(0, 2))]


@each_model
@settings(max_examples=50)
@given(draft=texts, seed=seeds, window=st.sampled_from([4, 9, 256]), context=st.integers(0, 5))
def test_locked_text_stays_and_changes_tell_all_that_was_done(
    model: Reviser, draft: str, seed: int, window: int, context: int
) -> None:
    rng = Random(seed)
    locked = random_spans(rng, len(draft))
    options: dict[str, Any] = {"seed": seed, "window": window, "context": context}
    if model.engine.vocab.delimiter is not None and rng.random() < 0.5:
        options["instruction"] = "The cat"
    options["min_edit_probability"] = rng.choice([0, 0.5, None])
    result = model.revise(draft, locked=locked, max_actions=30, **options)
    rollouts = result.rollouts
    assert result.changes.draft == draft
    assert result.text == result.changes.text
    assert result.actions == sum(len(rollout.logprobs) for rollout in rollouts)
    others = [each.stop_reason for each in rollouts if each.stop_reason != "stop"]
    assert result.stop_reason == [*others, "stop"][0]
    spent = sum(change.logprob for change in result.changes) + result.changes.stop_logprob
    assert spent == pytest.approx(sum(sum(rollout.logprobs) for rollout in rollouts))
    for change in result.changes:
        for start, end in locked:
            assert start == end or change.end <= start or end <= change.start
    for rollout in rollouts:
        assert all(part.before == part.after for part in rollout.locked)
    if [rollout.prompt for rollout in rollouts] == [draft]:
        assert rollouts[0].text == result.text
    if seed % 4 == 0:
        seed = options.pop("seed")
        asked = model.arun(Revise(draft, locked=locked, **options), max_actions=30, seed=seed)
        assert asyncio.run(asked) == result
    assert Revision.from_json(result.to_json()) == result


@each_model
@settings(max_examples=50)
@given(draft=texts, seed=seeds, window=st.sampled_from([5, 256]), data=st.data())
def test_read_first_nothing_changes_but_the_words_that_likely_need_it(
    model: Reviser, draft: str, seed: int, window: int, data: st.DataObject
) -> None:
    locked = random_spans(Random(seed), len(draft)) if seed % 2 else []
    options: dict[str, Any] = {"window": window, "context": 2}
    settings: dict[str, Any] = {"seed": seed, "max_actions": 25}
    least = data.draw(st.sampled_from([0.05, 0.5, 1.0]))
    plain = prompts(model, Revise(draft, locked=locked, **options))
    made = model.revise(draft, locked=locked, min_edit_probability=least, **options, **settings)
    free: list[tuple[int, int]] = []
    for part in plain:
        vocab, history = model.engine.vocab, part.request.history
        probabilities = noting.edit_probabilities(history)
        shown = [
            n for n, i in enumerate(history) if vocab.kind(i) in (Kind.INSERT, Kind.PREFIX_ONLY)
        ]
        tokens = [history[n] for n in shown]
        places = model.codec.char_offsets(tokens) + part.offset
        free.append((int(places[part.request.cursor]),) * 2)
        for at, n in enumerate(shown):
            if probabilities[n] >= least:
                end = next(int(place) for place in places[at:] if place >= part.offset)
                begins = [
                    int(places[k])
                    for k in range(at)
                    if model.codec.token_bytes[tokens[k]][:1].isspace() and places[k] >= part.offset
                ]
                free.append(([part.offset, *begins][-1], end))
    for change in made.changes:
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
        locked_texts = [[each.text for each in rollout.locked] for rollout in made.rollouts]
        proofs = [part for rollout in made.rollouts for part in rollout.locked]
        assert all(part.before == part.after for part in proofs)
        assert locked_texts == [[part.text] if part.text else [] for part in plain]


@pytest.mark.parametrize("least", [None, 0, 0.5, 1.0])
def test_a_draft_of_one_part_can_be_streamed(least: float | None) -> None:
    with pytest.raises(ConfigError, match="revised in 3 windows"):
        BYTES.stream(Revise("one two three four", window=8, context=0, min_edit_probability=least))
    writing = BYTES.stream(Revise("one two", min_edit_probability=least), max_actions=9)
    assert writing.text == "one two"
    assert writing.rollout().prompt == "one two"


@pytest.mark.parametrize("draft", ["", "\n", "a"])
def test_a_draft_with_nothing_to_judge_has_no_changes(draft: str) -> None:
    model = reviser(small_tokenizers.byte_level)
    model.editing = Editing(edit_probabilities=True, threshold=1.0)
    assert not model.revise(draft).changes


@pytest.mark.parametrize(
    ("editing", "asked", "read_first"),
    [
        (Editing(False), {}, None),
        (Editing(True), {}, 0.5),
        (Editing(True, threshold=0.7), {}, 0.7),
        (Editing(True), {"min_edit_probability": 0}, None),
        (Editing(True), {"min_edit_probability": 0.2}, 0.2),
        (Editing(True, ((0.3, 0.5),)), {"precision": 0.5}, 0.3),
        (Editing(True, ((0.3, 0.5),)), {"precision": 0.5, "min_edit_probability": 0.6}, 0.6),
    ],
)
def test_an_editor_reads_first_as_it_was_trained_to(
    editing: Editing, asked: dict[str, Any], read_first: float | None
) -> None:
    model = Reviser(BYTES.engine, BYTES.codec, editing=editing)
    asks = next(model.flow(Revise("one two", **asked)))
    assert isinstance(asks[0], Score) == (read_first is not None)
    least = editing.minimum(asked.get("min_edit_probability"), asked.get("precision"))
    assert least == (read_first or 0)


@pytest.mark.parametrize(
    ("editing", "asked", "sentence"),
    [
        (None, {}, "stories was not trained to edit, so it cannot revise a draft. Use generate"),
        (Editing(False), {"min_edit_probability": 0.5}, "not trained to give edit probabilities"),
        (Editing(False), {"precision": 0.5}, "not trained to give edit probabilities"),
        (Editing(True), {"precision": 0.9}, "has no calibration.*Pass min_edit_probability"),
        (Editing(True, ((0.3, 0.5),)), {"precision": 0.9}, r"the highest .* is 0\.5"),
    ],
)
def test_what_a_model_was_not_trained_for_is_refused(
    editing: Editing | None, asked: dict[str, Any], sentence: str
) -> None:
    model = Reviser(BYTES.engine, BYTES.codec, editing=editing, provenance={"model": "stories"})
    for ask in (
        lambda: model.revise("one", **asked),
        lambda: list(model.run_many([Revise("one", **asked)])),
        lambda: model.stream(Revise("one", **asked)),
        lambda: asyncio.run(model.arun(Revise("one", **asked))),
    ):
        with pytest.raises(ConfigError, match=sentence):
            ask()


def test_a_lock_within_a_word_that_needs_an_edit_is_kept() -> None:
    class Sure(RandomEngine):
        def edit_probabilities(self, history: tuple[int, ...]) -> tuple[float, ...]:
            return (1.0,) * (len(history) - 1)

    model = Reviser(Sure(BYTES.engine.vocab), BYTES.codec, editing=Editing(True))
    for seed in range(30):
        made = model.revise("abcLOCKdef", locked=["LOCK"], seed=seed, max_actions=40)
        assert "LOCK" in made.text
        assert all(part.before == part.after for part in made.rollouts[0].locked)


@each_model
@settings(max_examples=30)
@given(draft=texts, seed=seeds)
def test_edits_stream_with_places_in_the_draft_whatever_the_instruction(
    model: Reviser, draft: str, seed: int
) -> None:
    has_delimiter = model.engine.vocab.delimiter is not None
    instruction = "Make it short." if has_delimiter else ""
    writing = model.stream(Revise(draft, instruction=instruction), seed=seed, max_actions=25)
    text = writing.text
    assert text == draft
    for edit in writing:
        assert text[edit.offset : edit.offset + len(edit.removed)] == edit.removed
        text = text[: edit.offset] + edit.inserted + text[edit.offset + len(edit.removed) :]
        assert text == writing.text
    assert writing.rollout().text == text


tasks_of_any_kind = st.one_of(
    texts.map(Continue),
    texts.map(lambda text: Infill(text + "{}.")),
    texts.map(lambda text: Revise(text, window=12, context=2)),
)


@settings(max_examples=30)  # each runs up to eight tasks
@given(tasks=st.lists(tasks_of_any_kind, max_size=4), seed=seeds)
def test_many_tasks_are_each_what_one_alone_would_be(tasks: list[Task], seed: int) -> None:
    many = list(BYTES.run_many(tasks, seed=seed, max_actions=20))
    alone = [BYTES.run(task, seed=seed + n, max_actions=20) for n, task in enumerate(tasks)]
    assert many == alone


def test_a_task_that_cannot_run_is_an_error_in_its_place() -> None:
    too_long = Revise("The cat " * 400, locked=["cat"], window=9999)
    tasks: list[Task] = [Revise("cat and", locked=["cat"]), too_long, Continue("cat")]
    found = list(BYTES.run_many(tasks, on_error="return", seed=3, max_actions=9))
    assert isinstance(found[1], ConfigError)
    assert "too long" in str(found[1])
    for n in (0, 2):
        assert found[n] == BYTES.run(tasks[n], seed=3 + n, max_actions=9)
    many = BYTES.run_many(tasks, seed=3, max_actions=9)
    assert next(many) == found[0]
    with pytest.raises(ConfigError, match="too long"):
        next(many)


class Failing(RandomEngine):
    """Fails for what has an odd seed."""

    def step(self, wait: float = 0.0) -> list[Answer]:
        odd = [number for number, walk in self.walks.items() if walk.request.config.seed % 2]
        for number in odd:
            del self.running[number]
        return [*super().step(wait), *(Answer(number, EngineError("no room")) for number in odd)]


def test_one_part_that_fails_is_a_failure_of_its_draft_alone() -> None:
    draft = "The cat sat. " * 3
    tasks = [Revise(text, window=9, context=2) for text in ("cat", draft, "The")]
    model = Reviser(Failing(BYTES.engine.vocab), BYTES.codec, editing=Editing(False))
    told = list(model.run_many(tasks, seed=0, max_actions=9, stop_bias=-9.0, on_error="return"))
    assert [type(found) for found in told] == [Revision, EngineError, Revision]
    assert len(told[2].rollouts) == 1  # type: ignore[union-attr]


def test_an_instruction_needs_a_model_that_was_trained_with_them() -> None:
    with pytest.raises(ConfigError, match="not trained with instructions"):
        MODELS["llama, no delimiter"].revise("one", instruction="two")


@each_model
@settings(max_examples=40)
@given(draft=texts, seed=seeds, window=st.sampled_from([4, 9, 256]), context=st.integers(0, 5))
def test_lengths_are_those_of_the_draft_without_context(
    model: Reviser, draft: str, seed: int, window: int, context: int
) -> None:
    rng, codec = Random(seed), model.codec
    options: dict[str, Any] = {"window": window, "context": context}
    settings: dict[str, Any] = {"max_actions": 15, "seed": seed}
    options["locked"] = random_spans(rng, len(draft))
    has_delimiter = model.engine.vocab.delimiter is not None
    options["instruction"] = "The cat" if has_delimiter else ""
    parts = prompts(model, Revise(draft, **options))
    most = max(part.length for part in parts) + rng.randint(0, 3)
    bounds = windows(codec, draft, window, context)
    for part, (low, start, end, high) in zip(parts, bounds, strict=True):
        around = sum(map(len, codec.encode_parts(["", draft[low:start], draft[end:high]])[1:]))
        instruction = len(codec.encode("The cat")) if has_delimiter else 0
        assert (part.context_length, part.instruction_length) == (around, instruction)
        assert part.request.length - part.length == instruction + around
    for rollout in model.revise(draft, max_length=most, **options, **settings).rollouts:
        assert rollout.config.max_length == most
        assert rollout.statistics.tokens_after <= most
    short = min(part.length for part in parts) - 1
    if short >= 0:
        with pytest.raises(ConfigError, match=f"max_length is {short}, but the text is already"):
            model.revise(draft, max_length=short, **options)


@given(
    curve=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=8),
    asked=st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
)
def test_more_precision_never_allows_more_changes(
    curve: list[tuple[float, float]], asked: list[float]
) -> None:
    editing, least = Editing(True, tuple(curve)), []
    for precision in asked:
        try:
            least.append(editing.minimum(precision=precision))
        except ConfigError:
            least.append(inf)  # none at all
    assert least[0] <= least[1]


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
    task = Revise(draft, window=100, context=20)
    parts = prompts(BYTES, task)
    tokens = len(BYTES.codec.encode(draft))
    assert tokens / 100 <= len(parts) <= tokens / 50
    assert sum(part.request.length for part in parts) <= 1.9 * tokens
    for part in parts:
        assert draft[part.offset :].startswith(part.text)
    done: list[tuple[int, int]] = []
    BYTES.run(task, DecodeConfig(max_actions=1), progress=lambda *counts: done.append(counts))
    assert done == [(n + 1, len(parts)) for n in range(len(parts))]
    assert len(prompts(BYTES, task, max_prompts=len(parts), max_tokens=2 * tokens)) == len(parts)
    with pytest.raises(ConfigError, match="more than 3 windows, which is the limit"):
        prompts(BYTES, task, max_prompts=3)
    with pytest.raises(ConfigError, match="the limit is 100"):
        prompts(BYTES, task, max_tokens=100)
