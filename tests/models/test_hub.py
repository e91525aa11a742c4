"""Models on the Hugging Face hub are used by their name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.fake_hub import fake_hub

pytest.importorskip("torch")

import reviser

STORIES = Path(__file__).parents[2] / "models" / "stories-revise"
NAME = "me/stories"


def test_a_model_of_the_hub_is_opened_by_its_name(tmp_path: Path) -> None:
    words = ["generate", "Ben had a", "--temperature", "0", "--max-actions", "20", "-m", NAME]
    with fake_hub() as hub:
        hub.repositories[NAME] = {path.name: path.read_bytes() for path in STORIES.iterdir()}
        own = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1"}
        command = [sys.executable, "-m", "reviser", *words]
        env = os.environ | own | {"HF_HUB_OFFLINE": "0"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with reviser.load(STORIES) as model:
        text = model.generate("Ben had a", temperature=0, max_actions=20).text
    assert done.stdout == f"{text}\n"
