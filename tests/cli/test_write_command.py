"""Commands that write one text: `reviser generate` and `reviser infill`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from reviser.cli import main
from reviser.writing.rollout import Rollout
from support import small_models

pytest.importorskip("torch", reason="torch is not installed, so there are no models to write with.")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_models.writer(tmp_path_factory.mktemp("model"), layers=2, context=96)


def command(*args: Any, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args], input=stdin)


def test_text_goes_to_standard_output(model: Path) -> None:
    whole = [sys.executable, "-m", "reviser", "generate", "The cat", "-m", model, "--seed", "3"]
    plain = subprocess.run(whole, capture_output=True, text=True, check=True)
    # No bar of Transformers, either.
    assert plain.stderr == "Reached the end of the model's context.\n"
    (line,) = command("generate", "The cat", "-m", model, "--seed", 3, "--json").stdout.splitlines()
    rollout = Rollout.from_json(line)
    assert plain.stdout == rollout.text + "\n"
    assert rollout.prompt == "The cat"
    assert rollout.provenance["model"] == str(model)
    again = command("generate", "-m", model, "--seed", 3, "--json", stdin="The cat\n")
    assert again.stdout == line + "\n"


def test_gaps_are_filled_from_the_command_line_or_standard_input(model: Path) -> None:
    result = command("infill", "The{} sat.", "-m", model, "--json")
    rollout = Rollout.from_json(result.stdout)
    assert [part.text for part in rollout.locked] == ["The", " sat."]
    assert rollout.text.startswith("The")
    assert rollout.text.endswith(" sat.")
    assert command("infill", "-m", model, "--json", stdin="The{} sat.\n").stdout == result.stdout


def test_every_setting_has_its_option(model: Path) -> None:
    result = command(
        "generate", "a", "-m", model, "--json", "--seed", 7, "--temperature", 0.5, "--top-k", 9,
        "--top-p", 0.8, "--min-p", 0.01, "--max-actions", 11, "--max-length", 40, "--max-edits", 8,
        "--stop-bias", -0.5, "--max-moves", 4, "--move-bias", 1.5,
    )  # fmt: skip
    config = json.loads(result.stdout)["config"]
    assert config == {
        "seed": 7, "temperature": 0.5, "top_k": 9, "top_p": 0.8, "min_p": 0.01, "max_actions": 11,
        "max_length": 40, "max_edits": 8, "stop_bias": -0.5, "max_moves": 4, "move_bias": 1.5,
    }  # fmt: skip


def test_options_reach_the_engine(model: Path) -> None:
    args = ("generate", "a", "-m", model, "--engine-option", "dtype=float64", "--json")
    result = command(*args, "--engine-option", "rows=2")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["stop_reason"]
    for wrong, sentence in [("rows=none", "rows is 'none'"), ("rwos=3", "does not accept these")]:
        assert sentence in command(*args, "--engine-option", wrong).stderr
