"""A small story world, made of the text of the smoke recipe."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("datatrove")

from tests.train.conftest import workshop  # noqa: F401  # a fixture

from experiments.stories import world


@pytest.fixture(scope="session")
def small_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    text = (world.ROOT / "recipes" / "smoke.txt").read_text("utf-8").split("\n\n")
    lines = [{"text": story, "tokens": 9, "ended": True, "seed": 0} for story in text]
    with (folder / "stories-0.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "RESULTS", folder / "results")
        world.prepare(folder)
    return folder
