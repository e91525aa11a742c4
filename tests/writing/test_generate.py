"""Writing: every edit an editor can follow, locked text untouched, the same however it is asked."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reviser.core.actions import OPERATORS, ActionVocab
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec
from reviser.engines.base import Act, Answer, DecodeConfig, Question, Step
from reviser.errors import ConfigError, EngineError, TrajectoryError, VocabError
from reviser.model import Reviser, load
from reviser.writing.prompts import Prompt, prompts_of
from reviser.writing.rollout import Rollout
from reviser.writing.tasks import Continue, Infill, Task
from support import small_tokenizers
from support.random_engine import RandomEngine
from support.scripted import ScriptedEngine


def reviser(make: Callable[[], Any], *, rows: int = 3) -> Reviser:
    tokenizer = make()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=OPERATORS, max_move=8)
    return Reviser(RandomEngine(vocab, rows=rows), Codec(tokenizer), provenance={"model": "none"})


BYTES = reviser(small_tokenizers.byte_level)
LLAMA = reviser(small_tokenizers.byte_fallback)

either = pytest.mark.parametrize("model", [BYTES, LLAMA], ids=["byte level", "llama"])
texts = st.lists(st.sampled_from(["The", " cat", " sat", ".", " ", "\n", "é", "😀", "你"])).map(
    "".join
)
parts = st.lists(texts, min_size=2, max_size=5)
seeds = st.integers(0, 2**32)


def prompt_of(model: Reviser, task: Task, config: DecodeConfig | None = None) -> Prompt:
    (prompt,) = prompts_of(task, model.model(revises=False), config)
    return prompt


def contains_in_order(text: str, locked: list[str]) -> bool:
    """Whether the parts stand in the text one after another, the first and last at its ends."""
    place = 0
    for part in locked:
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return text.startswith(locked[0]) and text.endswith(locked[-1])


@either
@given(parts=parts, seed=seeds, most=st.integers(1, 60))
def test_what_is_locked_stays_and_every_edit_can_be_followed(
    model: Reviser, parts: list[str], seed: int, most: int
) -> None:
    writing = model.stream(Infill("{}".join(parts)), seed=seed, max_actions=most)
    assert writing.text == "".join(parts)
    assert writing.cursor == len(parts[0])
    text = writing.text
    for edit in writing:
        text = edit.apply(text)
        assert text == writing.text
        assert edit.cursor == writing.cursor
        assert contains_in_order(text, parts)
    rollout = writing.rollout()
    first, *between, last = parts
    assert [part.text for part in rollout.locked] == [p for p in (first, *between, last) if p]
    for part in rollout.locked:
        assert part.before == part.after == hashlib.sha256(part.text.encode()).hexdigest()
    assert rollout.text == text


tasks = texts.map(Continue) | parts.map(lambda each: Infill("{}".join(each)))


@either
@given(task=tasks, seed=seeds, most=st.integers(1, 60), stop=st.integers(0, 60))
def test_a_rollout_replays_to_its_text(
    model: Reviser, task: Continue | Infill, seed: int, most: int, stop: int
) -> None:
    longest = len(model.stream(task).text.encode()) + 10
    writing = model.stream(task, seed=seed, max_actions=most, max_length=longest)
    for _ in zip(range(stop), writing, strict=False):
        assert all(0 <= mark <= len(writing.text) for mark in writing.marks)
    writing.cancel()
    rollout = writing.rollout()
    vocab, trajectory, statistics = model.engine.vocab, rollout.trajectory, rollout.statistics
    canvas = Canvas.replay(vocab, [*trajectory.prefix, *trajectory.restoration])
    assert model.codec.decode(canvas.tokens()) == rollout.text
    chosen = len(trajectory.restoration) - len(trajectory.no_loss)
    assert len(rollout.logprobs) == statistics.actions == chosen
    assert statistics.tokens_after == len(canvas) <= longest
    assert rollout.config.max_length == longest
    assert (rollout.stop_reason == "stop") == canvas.is_finished
    if isinstance(task, Continue):
        assert rollout.text.startswith(task.prompt)
        assert statistics.tokens_before == len(trajectory.prefix)
    assert Rollout.from_json(rollout.to_json()) == rollout
    assert "\n" not in rollout.to_json()


SPACES = [  # what the model inserts in "Tom went {} home", and the text
    ([" to", " the", " park"], "Tom went to the park home"),
    ([",", " then", " ran"], "Tom went , then ran home"),
    (["to"], "Tom went to home"),
    ([], "Tom went  home"),
    ([" ", " x"], "Tom went  x home"),
    ([" to", "-1", ","], "Tom went , to home"),  # it goes back, and writes before its own space
    ([" to", "delete"], "Tom went  home"),
    ([" to", "-1", "a", "delete"], "Tom went to home"),
]


@pytest.mark.parametrize("unit", ["char", "utf16"])
@pytest.mark.parametrize(("script", "text"), SPACES)
def test_a_word_in_a_gap_brings_no_second_space(script: list[str], text: str, unit: Any) -> None:
    words = [" to", " the", " park", " then", " ran", " x", " went", " home"]
    tokenizer = small_tokenizers.byte_level()
    tokenizer.add_tokens(words)
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=["delete"])
    codec = Codec(tokenizer)
    ids = {"-1": vocab.move_id(-1), "delete": vocab.delete}
    actions = [i for word in script for i in ([ids[word]] if word in ids else codec.encode(word))]
    writer = Reviser(ScriptedEngine(vocab, [*actions, vocab.stop]), codec)
    for task in (Infill("Tom went {} home"), Infill("Tom went away home", [(9, 13)])):
        writing = writer.stream(task, unit=unit)
        seen = writing.text
        assert (seen, writing.cursor) == ("Tom went  home", 9)
        for edit in writing:
            assert edit.offset >= 9 or not edit.removed + edit.inserted
            seen = edit.apply(seen)
            assert seen == writing.text
            assert 9 <= edit.cursor <= len(seen) - 5
        rollout = writing.rollout()
        assert rollout.text == seen == text
        assert [part.text for part in rollout.locked] == ["Tom went ", " home"]
        assert all(part.before == part.after for part in rollout.locked)
        replayed = Canvas.replay(vocab, [*rollout.trajectory.prefix,
                                         *rollout.trajectory.restoration])  # fmt: skip
        assert codec.decode(replayed.tokens()) == text
        assert replayed.is_finished


@settings(max_examples=40)
@given(prompt=texts, seed=seeds, stop=st.integers(0, 30))
def test_who_cancels_has_a_text_in_hand(prompt: str, seed: int, stop: int) -> None:
    whole = BYTES.generate(prompt, seed=seed, max_actions=40)
    writing = BYTES.stream(Continue(prompt), seed=seed, max_actions=40)
    text = writing.text
    for _, edit in zip(range(stop), writing, strict=False):
        text = edit.apply(text)
    writing.cancel()
    rollout = writing.rollout()
    assert rollout.text == text
    kept = rollout.trajectory.restoration
    assert kept == whole.trajectory.restoration[: len(kept)]
    ended_itself = len(kept) == len(whole.trajectory.restoration)
    assert rollout.stop_reason == (whole.stop_reason if ended_itself else "cancelled")
    assert list(writing) == []
    until_idle(BYTES)


def until_idle(model: Reviser) -> None:
    """Wait until the engine's thread has dropped what was withdrawn."""
    end = time.monotonic() + 10
    while model.engine.running:  # type: ignore[attr-defined]
        assert time.monotonic() < end
        time.sleep(0.001)


def test_asyncio_gives_the_same() -> None:
    async def ask() -> list[Rollout]:
        tasks = [BYTES.arun(Continue("The"), seed=n, max_actions=30) for n in range(12)]
        tasks += [BYTES.arun(Infill("The{}."), seed=n, max_actions=30) for n in range(12)]
        return await asyncio.gather(*tasks)

    expected = [BYTES.generate("The", seed=n, max_actions=30) for n in range(12)]
    expected += [BYTES.infill("The{}.", seed=n, max_actions=30) for n in range(12)]
    assert asyncio.run(ask()) == expected


@given(data=st.data(), text=texts)
def test_spans_are_gaps_whose_text_is_gone(data: st.DataObject, text: str) -> None:
    count = data.draw(st.integers(1, 3))
    ends = st.lists(st.integers(0, len(text)), min_size=2 * count, max_size=2 * count)
    bounds = sorted(data.draw(ends))
    spans = list(zip(bounds[::2], bounds[1::2], strict=True))
    kept = [text[a:b] for a, b in pairwise([0, *bounds, len(text)])][::2]
    by_spans = BYTES.infill(text, spans, max_actions=20)
    by_marks = BYTES.infill("{}".join(kept), max_actions=20)
    assert by_spans.trajectory == by_marks.trajectory
    assert by_spans.text == by_marks.text
    assert by_spans.prompt == text


def test_moves_are_counted_without_the_digits_of_numbers() -> None:
    vocab = BYTES.engine.vocab
    assert vocab.span_delete is not None
    assert vocab.end is not None
    token = BYTES.codec.encode("a")[0]
    back, on = vocab.move_id(-1), vocab.move_id(1)
    script = [token, token, back, on, vocab.span_delete, on, vocab.end, vocab.stop]
    scripted = Reviser(ScriptedEngine(vocab, script), BYTES.codec)
    statistics = scripted.generate("The").statistics
    assert (statistics.actions, statistics.edits, statistics.moves) == (8, 3, 2)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"temprature": 1.0}, r"`temprature` is not a setting\. Did you mean `temperature`"),
        ({"seed": "a"}, "seed is 'a'"),
        ({"max_length": 0}, "max_length is 0, but the text is already . tokens long"),
    ],
)
def test_one_and_many_are_refused_for_the_same_reasons(
    settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        BYTES.generate("The", **settings)
    with pytest.raises(ConfigError, match=sentence):
        list(BYTES.run_many([Continue("The")], **settings))
    with pytest.raises(ConfigError, match=sentence):
        asyncio.run(BYTES.arun(Continue("The"), **settings))
    assert BYTES.engine.running == {}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: BYTES.run_many(Continue("The")), "as a list; got one"),
        (lambda: BYTES.run_many([], on_error="ignore"), "on_error is 'ignore'"),
        (lambda: load("folder", engine="tgi"), "use 'hf' or 'vllm'"),
        (lambda: load("folder", url="http://x"), "A url is for"),
        (lambda: BYTES.stream(Continue("a b" * 1000)).rollout(), "too long"),
    ],
)
def test_wrong_calls_are_refused(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        call()


@pytest.mark.parametrize(
    "damage", ["{", "[]", "{}", None, "trajectory", "config", "locked", "stop_reason"]
)
def test_what_is_no_rollout_is_refused(damage: Any) -> None:
    fields = BYTES.infill("The{}.", max_actions=5).to_dict()
    text = json.dumps(fields | {damage: {"x": 3}}) if damage in fields else damage
    with pytest.raises(TrajectoryError, match=r"This is not a rollout|A trajectory has"):
        Rollout.from_json(text)


def test_settings_reach_the_engine() -> None:
    given = {"temperature": 0.5, "max_edits": 3, "max_moves": 2, "stop_bias": 1.5, "move_bias": -1}
    part = prompt_of(BYTES, Continue("The"), DecodeConfig(**given))
    assert part.request.config == DecodeConfig(**given)
    rng = Random(0)
    for _ in range(8):
        rollout = BYTES.infill("The{} cat{}.", seed=rng.getrandbits(32), max_edits=3)
        assert rollout.statistics.edits <= 3
        rollout = BYTES.generate("The", seed=rng.getrandbits(32), max_length=6)
        assert rollout.statistics.tokens_after <= 6
        rollout = BYTES.generate("The", seed=rng.getrandbits(32), max_moves=0)
        assert rollout.statistics.moves == 0


class Failing(RandomEngine):
    """Gives up on every request whose seed is odd, after some actions."""

    def step(self, wait: float = 0.0) -> list[Answer]:
        answers = super().step(wait)
        for number, walk in self.walks.items():
            if walk.request.config.seed % 2 and walk.actions >= 3:
                del self.running[number]
                answers = [answer for answer in answers if answer.number != number]
                answers.append(Answer(number, EngineError("no room")))
        return answers


def test_what_fails_for_one_fails_for_it_alone() -> None:
    model = Reviser(Failing(BYTES.engine.vocab), BYTES.codec, provenance=BYTES.provenance)
    settings: dict[str, Any] = {"max_actions": 20, "stop_bias": -9.0}
    written = list(model.run_many([Continue("The")] * 8, on_error="return", **settings))
    for seed, result in enumerate(written):
        if seed % 2 and isinstance(result, EngineError):
            assert str(result) == "no room"
        else:
            assert result == BYTES.generate("The", seed=seed, **settings)
    assert sum(isinstance(result, EngineError) for result in written) > 1
    with pytest.raises(EngineError, match="no room"):
        list(model.run_many([Continue("The")] * 8, **settings))
    with pytest.raises(EngineError, match="no room"):
        model.generate("The", seed=1, **settings)


def test_an_engine_that_writes_outside_the_gaps_is_stopped() -> None:
    vocab = BYTES.engine.vocab
    token, back = BYTES.codec.encode("a")[0], vocab.move_id(-1)
    careless = Reviser(ScriptedEngine(vocab, [token, back, back, token, vocab.stop]), BYTES.codec)
    writing = careless.stream(Continue("The cat"))
    with pytest.raises(EngineError, match="changed locked text"):
        list(writing)
    assert writing.text == "The cata"
    (failed,) = careless.run_many([Continue("The cat")], on_error="return")
    assert isinstance(failed, EngineError)


@pytest.mark.parametrize("logprob", [float("nan"), float("-inf"), float("inf")])
def test_a_chance_that_is_no_number_is_the_engines_failure(logprob: float) -> None:
    writing = BYTES.stream(Continue("a"))
    with pytest.raises(EngineError, match="log-probability"):
        writing.writing.take(Step(5, logprob))
    assert writing.text == "a"


def test_a_writing_can_be_cancelled_from_elsewhere() -> None:
    async def watch() -> str:
        writing = BYTES.stream(Continue("The"), seed=3, max_actions=10**6, stop_bias=-9)

        async def give_up() -> None:
            await asyncio.sleep(0.05)
            writing.cancel()

        task = asyncio.create_task(give_up())
        text = writing.text
        async for edit in writing:
            text = edit.apply(text)
            await asyncio.sleep(0)
        await task
        assert (await writing.arollout()).text == text
        return (await writing.arollout()).stop_reason

    assert asyncio.run(watch()) in ("cancelled", "stop")


def test_a_text_that_the_tokenizer_would_change_is_refused_and_others_are_kept() -> None:
    model = reviser(small_tokenizers.composing)
    for task in (Continue("Cafe\u0301 au lait"), Infill("Cafe\u0301{} au lait")):
        with pytest.raises(VocabError, match="cannot encode 'Cafe\u0301"):
            model.run(task)
    rollout = model.generate("Café au lait", max_actions=5)
    assert rollout.text.startswith("Café au lait")
    assert all(locked.before == locked.after for locked in rollout.locked)


def test_a_reviser_closes_its_engine() -> None:
    with reviser(small_tokenizers.byte_level) as model:
        next(iter(model.stream(Continue("The"), max_actions=10**6)))
    assert not model.engine.running  # type: ignore[attr-defined]


def test_finished_rollouts_after_a_slow_one_are_bounded() -> None:
    asked = 0

    class Quick(RandomEngine):
        def add(self, question: Question) -> int:
            nonlocal asked
            asked += 1
            assert isinstance(question, Act)
            config = question.request.config
            config = replace(config, max_actions=config.max_actions if asked == 1 else 1)
            return super().add(Act(replace(question.request, config=config)))

    def tasks() -> Iterator[Task]:
        for _ in range(2000):
            yield Continue("The")

    model = Reviser(Quick(BYTES.engine.vocab), BYTES.codec)
    written = model.run_many(tasks(), DecodeConfig(max_actions=100, seed=4))
    assert next(written).statistics.actions > 20  # type: ignore[union-attr]
    assert asked <= 257
    assert len(list(written)) == 1999


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("text", ["ab{}cd{}ef", "ab{}", "ab{}cd", "{}ab"])
def test_with_marks_each_gap_has_one_and_the_cursor_is_at_the_first(
    text: str, begins: bool
) -> None:
    tokenizer = small_tokenizers.byte_level()
    whole = ActionVocab.from_tokenizer(tokenizer, marks=True)
    vocab = whole if begins else replace(whole, begin=None, delimiter=None)
    writer = Reviser(ScriptedEngine(vocab, [vocab.stop]), Codec(tokenizer))
    if text.startswith("{}") and not begins:
        with pytest.raises(VocabError, match="An empty prefix"):
            prompt_of(writer, Infill(text))
        return
    part = prompt_of(writer, Infill(text))
    part.request.check(vocab, 100)
    canvas = Canvas.replay(vocab, part.request.history)
    gaps = [low for low, _ in part.request.editable]
    assert [canvas.cursor, *canvas.marks] == gaps
    assert len(gaps) == text.count("{}")
    assert Codec(tokenizer).decode(canvas.tokens()) == text.replace("{}", "")
