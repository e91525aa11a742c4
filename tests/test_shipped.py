"""The models that come with a checkout: they are what their cards say, and they write."""

import json
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import reviser
from reviser import ActionVocab, Canvas, Codec, Kind, info
from reviser.core.codec import UNITS
from reviser.evals.trajectories import Walk
from reviser.generate import Reviser

ROOT = Path(__file__).parent.parent
FOLDERS = {name: ROOT / "models" / name for name in ("stories-revise", "stories-append")}
BEGINNINGS = [
    "Once upon a time, there was a little dog",
    "Tom and his mom went to the",
    "One day, Lily found a big box.",
    "Ben had a red ball. He",
]
pytestmark = pytest.mark.parametrize("name", FOLDERS)


@pytest.fixture(scope="module")
def opened() -> Iterator[dict[str, Reviser]]:
    models = {name: reviser.load(folder) for name, folder in FOLDERS.items()}
    yield models
    for model in models.values():
        model.close()


def test_a_folder_is_small_and_says_nothing_of_where_it_was_made(name: str) -> None:
    files = [path for path in FOLDERS[name].iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 15_000_000
    facts = info.describe(FOLDERS[name])
    assert facts["dtypes"] == ["BF16"]
    assert 5_000_000 < facts["parameters"] < 8_000_000
    data = facts["training"]["recipe"]["data"]
    assert not any(Path(str(value)).is_absolute() for value in data.values())


def test_the_card_is_what_the_results_say(name: str) -> None:
    cards = runpy.run_path(str(ROOT / "docs" / "results.py"))["cards"]()
    written = (FOLDERS[name] / "README.md").read_text("utf-8")
    assert written == cards[f"models/{name}/README.md"], "python docs/results.py"


def test_both_read_the_same_tokens(name: str) -> None:
    prints = {Codec.load(folder).fingerprint for folder in FOLDERS.values()}
    assert info.describe(FOLDERS[name])["tokenizer"] == Codec.load(FOLDERS[name]).fingerprint
    texts = [Codec.load(folder).encode("Ben had a ball.") for folder in FOLDERS.values()]
    assert texts[0] == texts[1]
    assert 1 <= len(prints) <= 2  # their control tokens may differ


def test_it_writes_from_the_command_line(name: str) -> None:
    words = [sys.executable, "-m", "reviser", "generate", BEGINNINGS[0], "-m", f"models/{name}"]
    done = subprocess.run(
        [*words, "--json", "--seed", "5"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    rollout = json.loads(done.stdout)
    assert rollout["text"].startswith(BEGINNINGS[0])
    assert len(rollout["text"]) > 200
    assert rollout["stop_reason"] == "stop"


def test_one_revises_and_its_twin_appends(name: str, opened: dict[str, Reviser]) -> None:
    vocab = ActionVocab.load(FOLDERS[name])
    rollouts = list(opened[name].generate_many(BEGINNINGS * 10, seed=1))
    walks = [Walk.of(rollout.trajectory, vocab) for rollout in rollouts]
    assert sum(walk.actions for walk in walks) < 1.05 * sum(walk.tokens for walk in walks)
    assert sum(rollout.stop_reason == "stop" for rollout in rollouts) > 36
    revised = sum(walk.revisions > 0 for walk in walks)
    if name == "stories-append":
        assert revised == 0
        return
    assert revised > 32
    codec = Codec.load(FOLDERS[name])
    for rollout in rollouts:
        canvas, before = Canvas(vocab), None
        for action in rollout.trajectory.history(vocab):
            kind = vocab.kind(action)
            if before is Kind.BACK and kind is Kind.INSERT:  # where a sentence starts, or the end
                starts = codec.unit_starts(np.array([*canvas.tokens(), *codec.encode(" Then")]))
                assert starts[canvas.cursor] & UNITS["sentence"]
            canvas.apply(action)
            before = kind


def test_it_fills_a_gap_and_touches_nothing_else(name: str, opened: dict[str, Reviser]) -> None:
    left = "Once upon a time, there was a boy named Tom. One day, he took his ball to the park."
    right = " Tom was very sad. His mom gave him a big hug. She got him a new ball. Tom was happy."
    rollouts = list(opened[name].infill_many([f"{left}{{}}{right}"] * 40, max_actions=100))
    for rollout in rollouts:
        assert rollout.text.startswith(left)
        assert rollout.text.endswith(right)
        assert all(part.before == part.after for part in rollout.locked)
    if name == "stories-revise":
        fills = [rollout.text[len(left) : -len(right)] for rollout in rollouts]
        assert sum(fill.endswith((".", "!", '"', "?")) for fill in fills) >= 30
        assert len({*fills}) >= 30
