"""Training of trunks that read the canvas, with restarts and several processes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

pytest.importorskip("torch")

from tests.train.conftest import assert_same_weights

from reviser.core.actions import ActionVocab
from reviser.errors import ConfigError
from reviser.lab.recipe import load_recipe
from reviser.lab.train import train
from reviser.models import trunks

KINDS = ["{kind: pooled}", "{kind: cross_attention, layers: 1, rows: 2}"]
each_kind = pytest.mark.parametrize("kind", KINDS)


def changes(kind: str) -> list[str]:
    return ["trunk.architecture=llama", f"trunk.canvas={kind}"]


@each_kind
def test_a_run_resumes_exactly_and_learns(workshop: Path, tmp_path: Path, kind: str) -> None:
    recipe = load_recipe(workshop / "recipe.yaml", changes(kind))
    whole, again = train(recipe, tmp_path / "whole"), tmp_path / "again"
    train(recipe, again)
    shutil.rmtree(again / "checkpoints" / "checkpoint-12")
    (again / "run.json").unlink()
    (again / "model.safetensors").unlink()
    train(recipe, again)
    assert_same_weights(again, whole)
    lines = (whole / "log.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines if '"loss"' in line]
    assert losses[-1] < losses[0]


def test_shards_are_refused(workshop: Path, tmp_path: Path) -> None:
    recipe = load_recipe(workshop / "recipe.yaml", [*changes(KINDS[0]), "training.parallel=fsdp"])
    with pytest.raises(ConfigError, match="parallel: ddp"):
        train(recipe, tmp_path)


def test_a_base_with_other_actions_reads_the_canvas_of_these(
    workshop: Path, tmp_path: Path
) -> None:
    base = train(load_recipe(workshop / "recipe.yaml", changes(KINDS[0])), tmp_path / "base")
    others = ["vocab={max_move: 8, operators: [delete]}", f"base={base}"]
    plain = yaml.safe_load((workshop / "recipe.yaml").read_text())
    del plain["trunk"], plain["data"]["tokenizer"]
    (workshop / "based.yaml").write_text(yaml.safe_dump(plain))
    folder = train(load_recipe(workshop / "based.yaml", others), tmp_path / "other")
    vocab = ActionVocab.load(folder)
    assert ActionVocab.load(base) != vocab
    assert ActionVocab.from_json(trunks.load(folder)[0].config.action_vocab) == vocab
