"""The models that come with a checkout: they are what their cards say, and they write."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import reviser
from experiments.solve import mazes
from experiments.solve.score import score
from experiments.stories import frontier
from experiments.stories.model_cards import COMPARISON, PROMPTS, SYSTEM, record, usual
from reviser import ActionVocab, Canvas, Codec, Kind
from reviser.core.codec import UNITS
from reviser.lab.evals.texts import read_prompts
from reviser.lab.evals.trajectories import Walk
from reviser.model import Reviser
from reviser.models import info, trunks
from reviser.writing.tasks import Continue

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "models" / "stories-revise"
BEGINNINGS = [
    "Once upon a time, there was a little dog",
    "Tom and his mom went to the",
    "One day, Lily found a big box.",
    "Ben had a red ball. He",
]
STORY = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside with her dog."
    " One day, they went to the park. Lily saw a big red ball. She was very happy."
)


@pytest.fixture(scope="module")
def model() -> Iterator[Reviser]:
    with reviser.load(FOLDER) as opened:
        yield opened


def test_a_folder_is_small_and_says_nothing_of_where_it_was_made() -> None:
    files = [path for path in FOLDER.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 15_000_000
    facts = info.describe(FOLDER)
    assert facts["dtypes"] == ["BF16"]
    assert 5_000_000 < facts["parameters"] < 8_000_000
    told = json.loads((FOLDER / "run.json").read_text("utf-8"))
    assert not [text for text in strings(told) if text.startswith(("/", "~"))]


def test_the_model_of_mazes_is_small_and_solves_them() -> None:
    folder = ROOT / "models" / "maze"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1_000_000
    told = json.loads((folder / "run.json").read_text("utf-8"))
    assert not [text for text in strings(told) if text.startswith(("/", "~"))]
    scores = score(folder, mazes, "touch", count=30)
    assert scores["exact"]["solved"] >= 28
    assert scores["groups"][mazes.BACK]["of"] > 10


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


def test_weights_and_results_are_of_one_run() -> None:
    assert record()["seen"] == frontier.read(COMPARISON)["seen"][SYSTEM]


def test_the_beginnings_of_the_results_are_at_hand() -> None:
    prompts = read_prompts(ROOT / PROMPTS)
    assert len(prompts) == usual()["samples"]
    codec = Codec.load(FOLDER)
    assert {len(codec.encode(prompt.prompt)) for prompt in prompts} == {32}


def test_it_has_learnt_to_tell_stories() -> None:
    """What it makes of a story it has not seen, in nats per token: far below a model untrained."""
    trunk, vocab = trunks.load(FOLDER, dtype=torch.float32)
    codec = Codec.load(FOLDER)
    history = [*vocab.prefix_actions([]), *codec.encode(STORY), vocab.stop]
    ids = torch.tensor([history])
    with torch.inference_mode():
        loss = float(trunk(input_ids=ids, labels=ids).loss)
    assert loss < 1.7


def test_it_goes_back_to_where_a_sentence_starts(model: Reviser) -> None:
    vocab = ActionVocab.load(FOLDER)
    rollouts = list(model.run_many(map(Continue, BEGINNINGS * 10), seed=1))
    walks = [Walk.of(rollout.trajectory, vocab) for rollout in rollouts]
    assert sum(walk.actions for walk in walks) < 1.05 * sum(walk.tokens for walk in walks)
    assert sum(rollout.stop_reason == "stop" for rollout in rollouts) > 36
    revised = sum(walk.revisions > 0 for walk in walks)
    assert revised > 28  # of 40; of 200 held-out stories it revises 92 %
    codec = Codec.load(FOLDER)
    for rollout in rollouts:
        canvas, before = Canvas(vocab), None
        for action in rollout.trajectory.history(vocab):
            kind = vocab.kind(action)
            # Where a sentence starts, or the end.
            if before is Kind.TO_MARK and kind is Kind.INSERT:
                starts = codec.unit_starts(np.array([*canvas.tokens(), *codec.encode(" Then")]))
                assert starts[canvas.cursor] & UNITS["sentence"]
            canvas.apply(action)
            before = kind
