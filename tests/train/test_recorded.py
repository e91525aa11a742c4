"""Training on recorded edits: files and generators, resumed exactly, scored by what is solved."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

import reviser
from reviser import write_trajectories
from reviser.errors import ConfigError, ReviserError
from reviser.train.recipe import check_inputs, load_recipe
from reviser.train.run import train
from support import processes

from .conftest import TINY, assert_same_weights, words
from .test_resume import log, steps, steps_so_far

WORDS = ["a", "b", "c", "d", "to"]
GENERATOR = """
import random
def example(seed, epoch, index):
    rng = random.Random(f"{seed} {epoch} {index}")
    words = rng.choices("abcd", k=5)
    # Always the same answer; sometimes another one first, which is taken back.
    edits = [("insert", "b"), ("delete",)] if rng.random() < 0.3 else []
    return " ".join([*words, "to"]), [*edits, ("insert", "c")]
"""
ACTIONS: dict[str, Any] = {"operators": ["delete"], "max_move": 4}
RECIPE = {
    **TINY,
    "trunk": {**TINY["trunk"], "context": 24},  # type: ignore[dict-item]
    "vocab": ACTIONS,
    "policy": {"kind": "recorded"},
    "data": {"words": "words.json", "windows": {"held_out": 0.2}},
    "training": {**TINY["training"], "steps": 24, "save_every": 3},  # type: ignore[dict-item]
    "evaluation": {"examples": 8, "solve": 16, "prompts": ["a b a to"], "max_actions": 8},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "words.json").write_text(json.dumps(WORDS))
    (folder / "make.py").write_text(GENERATOR)
    namespace: dict[str, Any] = {}
    exec(GENERATOR, namespace)
    examples = (namespace["example"](0, 0, index) for index in range(300))
    tokenizer = folder / "words.json"
    write_trajectories(folder / "edits.jsonl", examples, tokenizer=tokenizer, **ACTIONS)
    for name, data in {
        "files": {"trajectories": ["edits.jsonl"]},
        "generator": {"generator": "make.py:example"},
    }.items():
        recipe = RECIPE | {"data": {**RECIPE["data"], **data}}  # type: ignore[dict-item]
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(recipe))
    return folder


@pytest.mark.parametrize("name", ["files", "generator"])
def test_a_killed_run_ends_with_the_same_examples_and_weights(
    folder: Path, tmp_path: Path, name: str
) -> None:
    recipe = folder / f"{name}.yaml"
    train(load_recipe(recipe), tmp_path / "whole")
    process = processes.Command(*words(recipe, tmp_path / "killed"))
    while process.returncode is None and max(steps_so_far(tmp_path / "killed"), default=0) < 10:
        time.sleep(0.002)
    assert process.returncode is None, process.stderr[-2000:]
    time.sleep(random.Random(3).random() * 0.02)
    process.kill()
    train(load_recipe(recipe), tmp_path / "killed")
    assert steps(tmp_path / "killed") == steps(tmp_path / "whole")
    assert_same_weights(tmp_path / "killed", tmp_path / "whole")
    last = log(tmp_path / "whole")[-1]
    assert last["eval_solved_low"] <= last["eval_solved"] <= last["eval_solved_high"]


def test_the_baseline_learns_the_last_version_from_the_same_file(
    folder: Path, tmp_path: Path
) -> None:
    changes = ["policy={kind: recorded, versions: final}", "training.steps=40"]
    changes += ["trunk.dropout=0.0", "training.save_every=40"]
    train(load_recipe(folder / "files.yaml", changes), tmp_path / "run")
    assert log(tmp_path / "run")[-1]["eval_solved"] == 1.0
    (sample,) = map(json.loads, (tmp_path / "run" / "samples.jsonl").read_text().splitlines())
    assert sample["prompt"] == "a b a to"
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["windows"][0] > 200
    assert "edits.jsonl" in (tmp_path / "run" / "README.md").read_text()


def test_a_model_that_learned_with_a_refresh_is_shown_the_text_again(
    folder: Path, tmp_path: Path
) -> None:
    policy = "policy={kind: recorded, refresh: {action: insert, keep: 0}}"
    train(load_recipe(folder / "files.yaml", [policy]), tmp_path / "run")
    with reviser.load(tmp_path / "run") as model:
        assert model.refresh == reviser.Refresh(action="insert", keep=0)
        rollout = model.generate("a b a to", max_actions=12, temperature=1.0, stop_bias=-100.0)
        assert rollout.statistics.ids_read > 2 * rollout.statistics.actions
        model.refresh = None
        rollout = model.generate("a b a to", max_actions=12, temperature=1.0, stop_bias=-100.0)
        assert rollout.statistics.ids_read == 6 + 12
    with pytest.raises(ConfigError, match="refresh is for all versions"):
        load_recipe(folder / "files.yaml", [policy.replace("refresh", "versions: final, refresh")])


def test_histories_beyond_the_context_are_reported(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train(load_recipe(folder / "files.yaml", ["trunk.context=10", "training.steps=1"]), tmp_path)
    assert "recorded histories" in (shown := " ".join(capfd.readouterr().err.split()))
    assert "are longer than the context of 10 ids" in shown


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("policy=append", "data.trajectories and data.generator need a policy of kind recorded"),
        ("data.pairs=[x.jsonl]", "With data.pairs, leave out data.trajectories"),
        ("data.generator=make.py:example", "With data.trajectories, leave out data.generator"),
        ("data.text=[x.txt]", "With data.trajectories, leave out data.text"),
        ("data.bpe=300", "leave out data.bpe"),
        ("data.tokenizer=tokenizer", "With data.words, leave out data.tokenizer and bpe"),
        ("evaluation.solve=-1", "solve is -1"),
        ("policy.versions=first", "policy.versions is 'first'"),
        ("data.trajectories=[none.jsonl]", "data.trajectories: there is no file"),
        ("data.words=none.json", "data.words: there is no file"),
        ("vocab.max_move=8", "other actions than the recipe's vocab has"),
    ],
)
def test_bad_recipes_are_refused(folder: Path, tmp_path: Path, change: str, message: str) -> None:
    def start() -> None:
        recipe = load_recipe(folder / "files.yaml", [change])
        check_inputs(recipe)
        train(recipe, tmp_path)

    with pytest.raises(ReviserError, match=message):
        start()


def test_solve_needs_recorded_edits(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"evaluation\.solve needs a policy of kind recorded"):
        load_recipe(folder / "files.yaml", ["policy=append", "data={shards: s, tokenizer: t}"])
