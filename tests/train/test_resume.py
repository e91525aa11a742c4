"""A run that is killed, however often, ends where an undisturbed one does."""

from __future__ import annotations

import json
import random
import shutil
import time
from pathlib import Path

import pytest

from support import processes, trained

from .conftest import TEXT, TINY, assert_same_weights, make_workshop, run, words

STEPS = 60
CHANGES = [f"training.steps={STEPS}", "training.save_every=4", "training.evaluate_every=20"]


def log(folder: Path) -> list[dict]:
    """The lines so far; one that is being written is left out."""
    path = folder / "log.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def steps(folder: Path) -> dict[int, dict]:
    """Of each step: its loss and what had been seen by then; speed and memory left out."""
    kept = ("loss", "grad_norm", "learning_rate", "ids_seen", "examples_seen", "digest_seen")
    records = [record for record in log(folder) if "loss" in record]
    assert len({r["step"] for r in records}) == len(records), "a step was logged twice"
    return {record["step"]: {k: record[k] for k in kept} for record in records}


def steps_so_far(folder: Path) -> list[int]:
    return [record["step"] for record in log(folder) if "loss" in record]


@pytest.fixture(scope="module")
def undisturbed() -> Path:
    def make(folder: Path) -> None:
        make_workshop(folder)
        run(folder / "recipe.yaml", folder / "run", *CHANGES)

    return trained.folder("undisturbed", [TEXT, TINY, CHANGES], make) / "run"


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.full)])
def test_kills_change_neither_the_examples_nor_one_bit_of_the_weights(
    workshop, undisturbed, tmp_path, kills
):
    rng = random.Random(11)
    for number in range(kills):
        process = processes.Command(*words(workshop / "recipe.yaml", tmp_path, *CHANGES))
        done = max(steps_so_far(tmp_path), default=0)
        goal = min(done + rng.randint(1, 7), STEPS - 1)
        while process.returncode is None and max(steps_so_far(tmp_path), default=0) < goal:
            time.sleep(0.002)
        if process.returncode is not None:
            pytest.fail(f"it ended by itself after {number} kills: {process.stderr[-2000:]}")
        time.sleep(rng.random() * 0.02)  # anywhere in a step, or in a checkpoint
        process.kill()
    run(workshop / "recipe.yaml", tmp_path, *CHANGES)
    assert steps(tmp_path) == steps(undisturbed)
    assert_same_weights(tmp_path, undisturbed)
    samples, other = ((f / "samples.jsonl").read_text() for f in (tmp_path, undisturbed))
    assert samples == other


def test_a_checkpoint_that_was_cut_short_is_not_used(undisturbed, tmp_path):
    shutil.copytree(undisturbed, tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints" / f"checkpoint-{STEPS}"
    (folder / "complete").unlink()
    (folder / "model.safetensors").write_bytes(b"cut short")
    run(undisturbed.parent / "recipe.yaml", tmp_path / "run", *CHANGES)
    assert steps(tmp_path / "run") == steps(undisturbed)
    assert_same_weights(tmp_path / "run", undisturbed)


@pytest.mark.full
def test_with_another_number_of_processes_the_same_examples_are_seen(
    workshop, undisturbed, tmp_path
):
    recipe = workshop / "recipe.yaml"
    ranks = processes.start_ranks(2, *words(recipe, tmp_path, *CHANGES))
    while ranks[0].returncode is None and max(steps_so_far(tmp_path), default=0) < 22:
        time.sleep(0.005)
    for rank in ranks:
        rank.kill_group()
    assert 20 <= max(steps_so_far(tmp_path)) < STEPS
    run(recipe, tmp_path, *CHANGES)
    seen, expected = steps(tmp_path), steps(undisturbed)
    assert seen.keys() == expected.keys()
    for step, record in seen.items():
        for key in ("ids_seen", "examples_seen", "digest_seen"):
            assert record[key] == expected[step][key]
