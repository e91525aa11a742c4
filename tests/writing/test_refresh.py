"""See the text again: parts of a history add up to one text, whatever is dropped between them.

The engine checks each request that it is asked: its history must lead to its length and cursor.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed, so nothing can write.")

from reviser import Continue, DecodeConfig, Infill, Refresh, Rollout, Trajectory
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec
from reviser.engines.base import Act, Request, Step, StopReason, actions_of
from reviser.engines.hf import HFEngine
from reviser.errors import ConfigError
from reviser.trajectories.alignment import present_canvas
from reviser.trajectories.refresh import action_starts, parts
from reviser.writing.driver import Flow, Inline, run_many
from reviser.writing.flows import write
from reviser.writing.prompts import Model
from reviser.writing.tasks import Task
from support import fuzz
from support.strategies import small_vocabs

ENDLESS = {"stop_bias": -1e30, "temperature": 1.0}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> tuple[HFEngine, Model]:
    """A model with every action, and room for 64 ids."""
    folder = tmp_path_factory.mktemp("model")
    fuzz.folder_of_a_fresh_model(folder, context=64)
    opened, _ = HFEngine.load(folder)
    return opened, Model(vocab=actions_of(opened.vocab), codec=Codec.load(folder), context=64)


def written(
    engine: tuple[HFEngine, Model], task: Task, refresh: Refresh | None, **settings: float
) -> tuple[Rollout, list[Request]]:
    """Return a rollout, and the requests that wrote it."""
    opened, model = engine
    config = DecodeConfig(**{**ENDLESS, **settings})  # type: ignore[arg-type]
    requests: list[Request] = []

    def heard(flow: Flow[Rollout]) -> Flow[Rollout]:
        answers: Any = None
        while True:
            try:
                asked = flow.send(answers)
            except StopIteration as end:
                return end.value
            requests.extend(each.request for each in asked if isinstance(each, Act))
            answers = yield asked

    flow = heard(write(task, replace(model, refresh=refresh), config))  # type: ignore[arg-type]
    (run,) = run_many([flow], Inline(opened))
    return run.wait(), requests


@given(vocab=small_vocabs, seed=st.integers(0, 2**32 - 1))
def test_a_canvas_that_is_shown_has_its_text_cursor_and_marks(vocab, seed) -> None:
    rng = Random(seed)
    tokens = [rng.choice([i for i in range(vocab.tokens) if vocab.kind(i) == 0]) for _ in range(6)]
    marks = sorted(rng.sample(range(2, 7), 2)) if vocab.mark is not None else []
    canvas = Canvas(vocab, tokens, rng.randint(2, 6), marks)
    again = Canvas.replay(vocab, [*tokens[:2], *present_canvas(canvas, 2)])
    assert again.tokens() == canvas.tokens()
    assert (again.cursor, again.marks) == (canvas.cursor, canvas.marks)


REFRESHES = [
    Refresh(),
    Refresh(after=5, keep=3),
    Refresh(context=48),
    Refresh(action="insert", keep=0),
    Refresh(action="delete", after=9, keep=2),
]


@pytest.mark.parametrize("refresh", REFRESHES)
@pytest.mark.parametrize("task", [Continue("abc"), Infill("ab{}cd{}e")])
def test_many_parts_are_one_rollout(engine, task: Task, refresh: Refresh) -> None:
    for seed in range(2):
        rollout, requests = written(
            engine, task, refresh, seed=seed, max_actions=150, max_length=12
        )
        vocab, trajectory = engine[1].vocab, rollout.trajectory
        assert len(requests) >= 3
        assert rollout.stop_reason == "max_actions"
        assert rollout.statistics.actions == 150
        canvas = Canvas.replay(vocab, [*trajectory.prefix, *trajectory.restoration])
        assert engine[1].codec.decode(canvas.tokens()) == rollout.text
        assert all(part.before == part.after for part in rollout.locked)
        shown = sum(len(request.history) for request in requests)
        assert rollout.statistics.ids_read == shown + 150


@pytest.fixture(scope="module")
def recorded(engine) -> list[Trajectory]:
    """Histories that are much longer than the context."""
    found = []
    for seed in range(3):
        rollout, _ = written(engine, Continue("abc"), Refresh(), seed=seed, max_length=12)
        trajectory = rollout.trajectory
        ids = trajectory.restoration[: action_starts(engine[1].vocab, trajectory.restoration)[-1]]
        found.append(replace(trajectory, restoration=(*ids, engine[1].vocab.stop)))
    return found


@pytest.mark.parametrize("refresh", REFRESHES)
def test_training_cuts_histories_where_decoding_does(engine, recorded, refresh: Refresh) -> None:
    """A model that writes what was recorded is asked for the parts that are learned."""
    model = replace(engine[1], refresh=refresh)
    vocab = model.vocab
    for trajectory in recorded:
        asked = []
        flow, ids, done = write(Continue("abc"), model), trajectory.restoration, 0
        (question,) = next(flow)
        while True:
            assert isinstance(question, Act)
            request, part = question.request, list[int]()
            ended: StopReason | None = None
            for number, action_id in enumerate(ids[done:], start=1):
                part.append(action_id)
                is_full = number == request.config.max_actions
                ended = "stop" if action_id == vocab.stop else "max_actions" if is_full else None
                question.take(Step(action_id, 0.0, ended))
                if ended or question.is_enough():
                    break
            starts = action_starts(vocab, ids)
            whole = max(n for n in (*starts, len(ids)) if n <= done + len(part))
            if whole > done:
                asked.append((request.history, tuple(ids[done:whole])))
            done = whole
            try:
                (question,) = flow.send([None])
            except StopIteration as end:
                rollout = end.value
                break
        assert rollout.trajectory.restoration == ids
        learned = [
            ((*vocab.prefix_actions(part.prefix), *part.shown), part.restoration[len(part.shown) :])
            for part in parts(vocab, refresh, 64, trajectory)
        ]
        assert learned == asked


def test_without_a_refresh_there_is_one_request(engine) -> None:
    rollout, requests = written(engine, Continue("abc"), None, seed=4, max_actions=30)
    again, _ = written(engine, Continue("abc"), Refresh(), seed=4, max_actions=30)
    assert len(requests) == 1
    assert rollout.trajectory == again.trajectory


def test_a_text_that_fills_the_context_ends(engine) -> None:
    rollout, _ = written(engine, Continue("a" * 50), Refresh(keep=0), max_actions=400)
    assert rollout.stop_reason in ("context", "max_actions")


@pytest.mark.parametrize("wrong", [{"after": 0}, {"keep": -1}, {"context": 0}, {"action": "stop"}])
def test_bad_settings_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"it must be|use one of"):
        Refresh(**wrong)  # type: ignore[arg-type]
