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
from reviser.player.film import Replayer
from support import browsers

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


def test_a_dead_end_turns_red_and_shrinks() -> None:
    rollout = watch.rollouts_of(watch.SAVED[0], [2])[0]
    show = watch.show_of(rollout, Replayer.load(watch.MODEL))
    assert show.verdict == watch.FOUND
    ends = [n for n, frame in enumerate(show.frames) if frame.says.startswith("dead end")]
    assert ends
    for n in ends:
        red = show.frames[n].path[show.frames[n].keep :]
        assert red
        shorter = show.frames[n + len(red)]
        assert shorter.path == show.frames[n].path[: -len(red)]
        assert {*red} <= {*shorter.left}
        assert shorter.says == f"goes back to {shorter.path[-1]}"
    drawn = watch.drawn(show, show.frames[-1])
    assert drawn.count("●") == len(show.frames[-1].path) - 1
    assert len(drawn.splitlines()) == 2 * mazes.SIZE + 1


def test_how_a_text_ends_is_said_in_words() -> None:
    passages, start, goal = mazes.maze(mazes.TEST_SEED, 0, 1)
    maze = watch.Maze(mazes.prompt_of(passages, start, goal))
    path = [mazes.name(cell) for cell in mazes.path_of(mazes.walk(passages, start, goal))]
    assert maze.verdict(path, "stop") == watch.FOUND
    assert maze.verdict(path, "max_actions") == f"stops at {path[-1]}"
    assert maze.verdict(path[:-1], "stop") == f"stops at {path[-2]}"
    assert maze.verdict(["e5", "e4", *path], "stop") == "walks through a wall from e5 to e4"
    assert maze.verdict([path[0], path[2]], "stop").endswith(f" from {path[0]} to {path[2]}")
    assert maze.verdict([path[0], "to"], "stop") == "writes 'to', which is not a cell"
    assert maze.verdict([path[0], path[1], *path], "stop") == "takes a detour"
    assert maze.verdict([], "stop") == f"does not begin at {path[0]}"


def test_the_page_counts_what_is_solved_and_the_count_is_that_of_the_test() -> None:
    columns = [watch.rollouts_of(path, watch.SHOWN) for path in watch.SAVED]
    rows = watch.rows_of(columns)
    solved = []
    for n, rollouts in enumerate(columns):
        texts = [each.text.removeprefix(each.prompt).strip() for each in rollouts]
        exact = [mazes.is_solved(index, text, "ltr") for index, text in enumerate(texts)]
        assert exact == [row[n].verdict == watch.FOUND for row in rows]
        solved.append(sum(exact))
    page = watch.page(rows, watch.CAPTIONS, watch.SHOWN)
    assert "first 8 test problems, none of them picked" in page
    assert f"Editing: {solved[0]} of 8; Left to right: {solved[1]} of 8." in page
    assert "test problems 2, 3. Solved" in watch.page(rows[1:3], watch.CAPTIONS, [2, 3])
    assert page.count("{{") == 0


def test_the_gif_shows_the_first_two_mazes_that_need_a_step_back() -> None:
    groups = [mazes.group(index) for index in range(3)]
    assert groups == [mazes.DIRECT, mazes.BACK, mazes.BACK]
    assert (ROOT / "docs" / "img" / "maze.gif").stat().st_size < 1_000_000


@pytest.mark.full
def test_the_page_plays_steps_and_goes_on(tmp_path: Path) -> None:
    columns = [watch.rollouts_of(path, watch.SHOWN) for path in watch.SAVED]
    (tmp_path / "maze.html").write_text(
        watch.page(watch.rows_of(columns), watch.CAPTIONS, watch.SHOWN), "utf-8"
    )
    with browsers.chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
        troubles: list[str] = []
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto((tmp_path / "maze.html").as_uri())
        page.click("#on")
        assert page.locator("#count").inner_text().startswith("1 /")
        page.keyboard.press("End")
        page.click("#next")
        page.click("#next")
        page.locator("#scrub").fill(page.locator("#scrub").get_attribute("max"))
        left, right = page.locator(".state").all_inner_texts()
        assert left.startswith(watch.FOUND)
        assert right.startswith("walks through a wall from d4 to d3")
        assert page.locator(".step.bad").count() == 1
        page.click("#play")
        page.wait_for_function("document.getElementById('maze').value === '3'")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert troubles == []
