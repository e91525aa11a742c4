"""The mazes of experiments/solve: every arm ends with the only path, by steps that are possible."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the records of edits are training examples")

from experiments.solve import arithmetic, mazes, watch
from experiments.solve.write import ACTIONS
from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.core.trajectory import Trajectory
from reviser.data.recorded import Recorder
from reviser.data.tokenizer import read_words

ROOT = Path(__file__).parents[2]
WORDS = ROOT / "experiments" / "solve" / "mazes.json"
TOKENIZER = read_words(WORDS)
VOCAB = ActionVocab.from_tokenizer(TOKENIZER, **ACTIONS["mazes"])
RECORDER = Recorder(Codec(TOKENIZER), VOCAB)


def text_of(trajectory: Trajectory) -> str:
    return RECORDER.codec.decode(trajectory.target(VOCAB))


def test_the_words_are_those_of_the_mazes() -> None:
    assert json.loads(WORDS.read_text("utf-8")) == mazes.words(6)


@pytest.mark.parametrize("index", range(20))
def test_every_arm_ends_with_the_only_path(index: int) -> None:
    passages, start, goal = mazes.maze(mazes.TEST_SEED, 0, index)
    assert sum(map(len, passages.values())) == 2 * (len(passages) - 1)  # a tree
    path = mazes.path_of(mazes.walk(passages, start, goal))
    assert (path[0], path[-1]) == (start, goal)
    assert len({*path}) == len(path)
    assert all(b in passages[a] for a, b in pairwise(path))
    words = " ".join(map(mazes.name, path))
    prompt = mazes.task(index).prompt
    for arm in ("touch", "revise", "ltr", "cot", "back"):
        trajectory = RECORDER.trajectory(getattr(mazes, arm)(mazes.TEST_SEED, 0, index))
        assert RECORDER.codec.decode(trajectory.prefix) == prompt
        assert mazes.is_solved(index, text_of(trajectory), arm), arm
        assert text_of(trajectory).endswith(words)
    assert not mazes.is_solved(index, words + " a1", "touch")
    kinds = [kind for kind, *_ in mazes.revise(mazes.TEST_SEED, 0, index)[1]]
    assert ("delete" in kinds) == (mazes.group(index) == mazes.BACK)


@pytest.mark.parametrize("index", [*range(12), 10_000, 20_000])
def test_every_arm_of_arithmetic_ends_with_the_value(index: int) -> None:
    tokenizer = read_words(WORDS.with_name("arithmetic.json"))
    vocab = ActionVocab.from_tokenizer(tokenizer, **ACTIONS["arithmetic"])
    recorder = Recorder(Codec(tokenizer), vocab)
    parts = arithmetic.test_problem(index)
    value = str(eval(" ".join(parts)))  # noqa: S307  # Python itself is the judge
    assert len(value) == 1
    for arm in ("edit", "cot", "steps"):
        trajectory = recorder.trajectory(arithmetic.solution(arm, parts))
        text = recorder.codec.decode(trajectory.target(vocab))
        assert arithmetic.is_solved(index, text, arm), arm
        assert text.endswith(value)
        assert not arithmetic.is_solved(index, "=", arm)
    low, high = next(
        (most for first, most in arithmetic.LONGER.values() if first == index),
        arithmetic.OPERATIONS,
    )
    assert low <= int(arithmetic.group(index)) <= high


def test_a_walk_is_shown_cell_by_cell_and_a_wall_is_named() -> None:
    passages, start, goal = mazes.maze(mazes.TEST_SEED, 0, 0)
    steps = mazes.walk(passages, start, goal)
    open_ = frozenset(
        frozenset((mazes.name(a), mazes.name(b))) for a, others in passages.items() for b in others
    )

    def show(*words: str) -> watch.Show:
        frame = watch.Frame(path=words, left=(), action="insert")
        return watch.Show(
            model="m",
            index=0,
            passages=open_,
            start=mazes.name(start),
            goal=mazes.name(goal),
            frames=(frame,),
        )

    path = [mazes.name(cell) for cell in mazes.path_of(steps)]
    assert show(*path).verdict == "found the goal"
    assert show(*path[:-1]).verdict == "did not arrive"
    assert show(*path[:1], *path[2:]).verdict == "went through a wall"
    drawn = watch.drawn(show(*path), show(*path).frames[0])
    assert drawn.count("●") == len(path) - 1
    assert len(drawn.splitlines()) == 2 * mazes.SIZE + 1
    page = watch.page([[show(*path), show(*path[:1])]])
    assert '"verdict":"found the goal"' in page
    assert page.count("{{") == 0
