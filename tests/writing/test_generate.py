"""Writing: every edit an editor can follow, locked text untouched, the same however it is asked."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import OPERATORS, ActionVocab
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec
from reviser.engines.base import DecodeConfig, ScriptedEngine, Step
from reviser.errors import ConfigError, EngineError, TrajectoryError, VocabError
from reviser.writing.model import Reviser, Rollout, load
from reviser.writing.tasks import Plan
from support import small_tokenizers
from support.random_engine import RandomEngine


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
    writing = model.stream_infill("{}".join(parts), seed=seed, max_actions=most)
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


@either
@given(prompt=texts, seed=seeds, most=st.integers(1, 60))
def test_a_rollout_replays_to_its_text(model: Reviser, prompt: str, seed: int, most: int) -> None:
    rollout = model.generate(prompt, seed=seed, max_actions=most)
    vocab, trajectory = model.engine.vocab, rollout.trajectory
    canvas = Canvas.replay(vocab, [*trajectory.prefix, *trajectory.restoration])
    assert model.codec.decode(canvas.tokens()) == rollout.text
    assert rollout.text.startswith(prompt)
    assert len(rollout.logprobs) == len(trajectory.restoration) == rollout.statistics.actions
    assert rollout.statistics.tokens_before == len(trajectory.prefix)
    assert rollout.statistics.tokens_after == len(canvas)
    assert (rollout.stop_reason == "stop") == canvas.is_finished
    assert Rollout.from_json(rollout.to_json()) == rollout
    assert "\n" not in rollout.to_json()


@given(prompt=texts, seed=seeds, stop=st.integers(0, 30))
def test_who_cancels_has_a_text_in_hand(prompt: str, seed: int, stop: int) -> None:
    whole = BYTES.generate(prompt, seed=seed, max_actions=40)
    writing = BYTES.stream(prompt, seed=seed, max_actions=40)
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
    assert not BYTES.engine.running  # type: ignore[attr-defined]


def test_a_writing_that_nobody_holds_leaves_the_engine() -> None:
    writing = BYTES.stream("The", max_actions=500)
    next(iter(writing))
    assert BYTES.engine.running  # type: ignore[attr-defined]
    del writing
    gc.collect()
    assert not BYTES.engine.running  # type: ignore[attr-defined]


@given(prompts=st.lists(texts, max_size=9), seed=seeds)
def test_many_are_each_as_if_alone_and_in_order(prompts: list[str], seed: int) -> None:
    many = list(BYTES.generate_many(prompts, seed=seed, max_actions=20))
    expected = [
        BYTES.generate(prompt, seed=seed + n, max_actions=20) for n, prompt in enumerate(prompts)
    ]
    assert many == expected
    gaps = [prompt + "{}." for prompt in prompts]
    filled = list(BYTES.infill_many(gaps, seed=seed, max_actions=20))
    assert filled == [
        BYTES.infill(text, seed=seed + n, max_actions=20) for n, text in enumerate(gaps)
    ]


def test_asyncio_gives_the_same() -> None:
    async def ask() -> list[Rollout]:
        tasks = [BYTES.agenerate("The", seed=n, max_actions=30) for n in range(12)]
        tasks += [BYTES.ainfill("The{}.", seed=n, max_actions=30) for n in range(12)]
        return await asyncio.gather(*tasks)

    expected = [BYTES.generate("The", seed=n, max_actions=30) for n in range(12)]
    expected += [BYTES.infill("The{}.", seed=n, max_actions=30) for n in range(12)]
    assert asyncio.run(ask()) == expected


def test_edits_come_as_they_happen_in_asyncio_too() -> None:
    async def watch() -> str:
        writing = BYTES.stream("The", seed=3, max_actions=30)
        text = writing.text
        async for edit in writing:
            text = edit.apply(text)
            assert text == writing.text
        return text

    assert asyncio.run(watch()) == BYTES.generate("The", seed=3, max_actions=30).text


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


def test_text_behind_a_gap_is_written_first_and_bears_no_loss() -> None:
    vocab, codec = BYTES.engine.vocab, BYTES.codec
    plan = BYTES.plan_infill("The cat{} on the{}.")
    first, second, third = codec.encode_parts(["The cat", " on the", "."])
    assert plan.prefix == tuple(first)
    assert plan.given[: len(second) + 1] == (*second, *third)
    start = len(first)
    assert plan.request.gaps == ((start, start), (start + len(second),) * 2)
    canvas = Canvas.replay(vocab, plan.request.history)
    assert (canvas.cursor, len(canvas)) == (start, plan.request.length)
    rollout = BYTES.write(plan).rollout()
    assert rollout.trajectory.unlearned == tuple(range(len(plan.given)))


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
    ("text", "spans", "sentence"),
    [
        ("The cat", None, r"has no gap: mark one or more with \{\}"),
        ("The cat", [], "give one or more"),
        ("The cat", [(2, 9)], "within the text's 7 characters"),
        ("The cat", [(3, 5), (4, 6)], "in order, apart"),
        ("The cat", [(-1, 2)], "in order"),
        ("The cat", (0, 3), "pairs of places"),
        ("The cat", [(0, 3, 4)], "pairs of places"),
        ("The cat", [(0.5, 3)], "pairs of places"),
        (None, None, "Give a text; got NoneType"),
    ],
)
def test_a_text_without_usable_gaps_is_refused(text: str, spans: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        BYTES.infill(text, spans)


def test_a_setting_that_does_not_exist_is_refused_with_the_nearest_that_does() -> None:
    with pytest.raises(ConfigError, match=r"'temprature' is no setting of decoding.*'temperature'"):
        BYTES.generate("The", temprature=1.0)
    with pytest.raises(ConfigError, match="Known: temperature, top_k"):
        BYTES.generate("The", xyz=1.0)
    with pytest.raises(ConfigError, match="seed is 'a'"):
        BYTES.generate_many(["The"], seed="a")
    with pytest.raises(ConfigError, match="as a list; got one"):
        BYTES.generate_many("The")
    with pytest.raises(ConfigError, match="Give a text; got list"):
        BYTES.generate(["The"])  # type: ignore[arg-type]
    assert BYTES.engine.running == {}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"engine": "tgi"}, "use 'hf' or 'vllm'"), ({"url": "http://x"}, "A url is for")],
)
def test_an_engine_that_does_not_exist_is_refused(options: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load("folder", **options)


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(VocabError, match="surrogate"):
        BYTES.generate("\ud800")
    with pytest.raises(VocabError, match="surrogate"):
        BYTES.infill("\ud800{}")


@pytest.mark.parametrize(
    "damage", ["{", "[]", "{}", None, "trajectory", "config", "locked", "stop_reason"]
)
def test_what_is_no_rollout_is_refused(damage: Any) -> None:
    fields = BYTES.infill("The{}.", max_actions=5).to_dict()
    text = json.dumps(fields | {damage: {"x": 3}}) if damage in fields else damage
    with pytest.raises(TrajectoryError, match=r"This is no rollout|A trajectory has"):
        Rollout.from_json(text)


def test_settings_reach_the_engine() -> None:
    given = {"temperature": 0.5, "max_edits": 3, "max_moves": 2, "stop_bias": 1.5, "move_bias": -1}
    assert BYTES.plan("The", **given).request.config == DecodeConfig(**given)
    rng = Random(0)
    for _ in range(20):
        rollout = BYTES.infill("The{} cat{}.", seed=rng.getrandbits(32), max_edits=3)
        assert rollout.statistics.edits <= 3
        rollout = BYTES.generate("The", seed=rng.getrandbits(32), max_length=6)
        assert rollout.statistics.tokens_after <= 6
        rollout = BYTES.generate("The", seed=rng.getrandbits(32), max_moves=0)
        assert rollout.statistics.moves == 0


def test_what_the_engine_cannot_run_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="too long"):
        BYTES.stream("a b" * 1000)


class Failing(RandomEngine):
    """Gives up on every request whose seed is odd, after some actions."""

    def step(self) -> list[Step]:
        steps = super().step()
        for number, walk in list(self.running.items()):
            if walk.request.config.seed % 2 and walk.actions >= 3:
                del self.running[number]
                steps = [step for step in steps if step.request != number]
                steps.append(Step(number, -1, 0.0, error=EngineError("no room")))
        return steps


def test_what_fails_for_one_is_told_to_it_alone() -> None:
    model = Reviser(Failing(BYTES.engine.vocab), BYTES.codec, provenance=BYTES.provenance)
    plans = [model.plan("The", seed=n, max_actions=20, stop_bias=-9) for n in range(8)]
    written = list(model.attempt_many(plans))
    for n, (plan, result) in enumerate(zip(plans, written, strict=True)):
        if n % 2 and isinstance(result, EngineError):
            assert str(result) == "no room"
        else:
            assert result == BYTES.write(plan).rollout()
    assert sum(isinstance(result, EngineError) for result in written) > 1
    with pytest.raises(EngineError, match="no room"):
        list(model.write_many(plans))
    with pytest.raises(EngineError, match="no room"):
        model.write(plans[1]).rollout()


def test_an_engine_that_writes_outside_the_gaps_is_stopped() -> None:
    vocab = BYTES.engine.vocab
    token, back = BYTES.codec.encode("a")[0], vocab.move_id(-1)
    careless = Reviser(ScriptedEngine(vocab, [token, back, back, token, vocab.stop]), BYTES.codec)
    writing = careless.stream("The cat")
    with pytest.raises(EngineError, match="changed locked text"):
        list(writing)
    assert writing.text == "The cata"
    (failed,) = careless.attempt_many([careless.plan("The cat")])
    assert isinstance(failed, EngineError)


@pytest.mark.parametrize("logprob", [float("nan"), float("-inf"), float("inf")])
def test_a_chance_that_is_no_number_is_the_engines_failure(logprob: float) -> None:
    writing = BYTES.stream("a")
    with pytest.raises(EngineError, match="log-probability"):
        writing.take(Step(1, 5, logprob))
    assert writing.text == "a"


def test_a_writing_can_be_cancelled_from_elsewhere() -> None:
    async def watch() -> str:
        writing = BYTES.stream("The", seed=3, max_actions=10**6, stop_bias=-9)

        async def give_up() -> None:
            await asyncio.sleep(0.05)
            writing.cancel()

        task = asyncio.create_task(give_up())
        async for _ in writing:
            await asyncio.sleep(0)
        await task
        return (await writing.arollout()).stop_reason

    assert asyncio.run(watch()) in ("cancelled", "stop")


def test_a_reviser_closes_its_engine() -> None:
    with reviser(small_tokenizers.byte_level) as model:
        writing = model.stream("The")
        next(iter(writing))
        assert model.engine.running  # type: ignore[attr-defined]
    assert not model.engine.running  # type: ignore[attr-defined]


def test_finished_rollouts_behind_a_slow_one_are_bounded() -> None:
    asked = 0

    def plans() -> Iterator[Plan]:
        nonlocal asked
        for n in range(2000):
            asked += 1
            yield BYTES.plan("The", max_actions=1 if n else 100, seed=4)

    written = BYTES.write_many(plans())
    assert next(written).statistics.actions > 20
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
            writer.plan_infill(text)
        return
    plan = writer.plan_infill(text)
    plan.request.check(vocab, 100)
    canvas = Canvas.replay(vocab, plan.request.history)
    gaps = [low for low, _ in plan.request.gaps]
    assert [canvas.cursor, *canvas.marks] == gaps
    assert len(gaps) == text.count("{}")
    assert Codec(tokenizer).decode(canvas.tokens()) == text.replace("{}", "")
