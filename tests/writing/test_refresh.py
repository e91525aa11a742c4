"""See the text again: parts of a history add up to one text, whatever is dropped between them.

The engine checks each request that it is asked: its history must lead to its length and cursor.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed, so nothing can write.")

from reviser import Continue, DecodeConfig, Infill
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec
from reviser.engines.hf import HFEngine
from reviser.errors import ConfigError
from reviser.trajectories.alignment import present_canvas
from reviser.writing.driver import Inline, run_many
from reviser.writing.flows import write
from reviser.writing.prompts import Model
from reviser.writing.refresh import Refresh, Refreshed, write_refreshed
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
    return opened, Model(vocab=opened.vocab, codec=Codec.load(folder), context=64)


def written(
    engine: tuple[HFEngine, Model], task: Task, refresh: Refresh, **settings: float
) -> Refreshed:
    opened, model = engine
    config = DecodeConfig(**{**ENDLESS, **settings})  # type: ignore[arg-type]
    flow = write_refreshed(task, model, config, refresh)  # type: ignore[arg-type]
    (run,) = run_many([flow], Inline(opened))
    return run.wait()


@given(vocab=small_vocabs, seed=st.integers(0, 2**32 - 1))
def test_a_canvas_that_is_shown_has_its_text_cursor_and_marks(vocab, seed) -> None:
    rng = Random(seed)
    tokens = [rng.choice([i for i in range(vocab.tokens) if vocab.kind(i) == 0]) for _ in range(6)]
    marks = sorted(rng.sample(range(2, 7), 2)) if vocab.mark is not None else []
    canvas = Canvas(vocab, tokens, rng.randint(2, 6), marks)
    again = Canvas.replay(vocab, [*tokens[:2], *present_canvas(canvas, 2)])
    assert again.tokens() == canvas.tokens()
    assert (again.cursor, again.marks) == (canvas.cursor, canvas.marks)


@pytest.mark.parametrize("refresh", [Refresh(), Refresh(after=5, keep=3), Refresh(context=48)])
@pytest.mark.parametrize("task", [Continue("abc"), Infill("ab{}cd{}e")])
def test_many_parts_are_one_rollout(engine, task: Task, refresh: Refresh) -> None:
    for seed in range(3):
        found = written(engine, task, refresh, seed=seed, max_actions=150, max_length=12)
        rollout, vocab = found.rollout, engine[1].vocab
        assert found.times >= 2
        assert rollout.stop_reason == "max_actions"
        assert rollout.statistics.actions == 150
        trajectory = rollout.trajectory
        canvas = Canvas.replay(vocab, [*trajectory.prefix, *trajectory.restoration])
        assert engine[1].codec.decode(canvas.tokens()) == rollout.text
        assert all(part.before == part.after for part in rollout.locked)
        parts = found.times + 1
        assert found.ids_read > 150 + parts * len(vocab.prefix_actions(trajectory.prefix))


def test_without_a_refresh_nothing_differs(engine) -> None:
    opened, model = engine
    settings = {"seed": 4, "max_actions": 30}
    found = written(engine, Continue("abc"), Refresh(), **settings)
    config = DecodeConfig(**{**ENDLESS, **settings})
    (run,) = run_many([write(Continue("abc"), model, config)], Inline(opened))
    assert found.times == 0
    assert found.rollout.trajectory == run.wait().trajectory


def test_a_text_that_fills_the_context_ends(engine) -> None:
    found = written(engine, Continue("a" * 50), Refresh(keep=0), max_actions=400)
    assert found.rollout.stop_reason in ("context", "max_actions")
    with pytest.raises(ConfigError, match="The prompt takes"):
        written(engine, Continue("a" * 30), Refresh(context=10))


@pytest.mark.parametrize("wrong", [{"after": 0}, {"keep": -1}, {"context": 0}])
def test_bad_settings_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="it must be"):
        Refresh(**wrong)
