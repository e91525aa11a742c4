"""A run that is killed, however often, ends where an undisturbed one does."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .conftest import assert_same_weights, command, run

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


@pytest.fixture(scope="module")
def undisturbed(workshop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("undisturbed")
    run(workshop / "recipe.yaml", output, *CHANGES)
    return output


def test_ten_kills_change_neither_the_examples_nor_one_bit_of_the_weights(
    workshop, undisturbed, tmp_path
):
    rng = random.Random(11)
    kills = 0
    while kills < 10:
        process = subprocess.Popen(
            command(workshop / "recipe.yaml", tmp_path, *CHANGES),
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        done = max(steps_so_far(tmp_path), default=0)
        goal = min(done + rng.randint(1, 7), STEPS - 1)
        while process.poll() is None and max(steps_so_far(tmp_path), default=0) < goal:
            time.sleep(0.002)
        if process.poll() is not None:
            said = process.stderr.read().decode()
            pytest.fail(f"it ended by itself after {kills} kills: {said[-2000:]}")
        time.sleep(rng.random() * 0.02)  # anywhere in a step, or in a checkpoint
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
        kills += 1
    run(workshop / "recipe.yaml", tmp_path, *CHANGES)
    assert steps(tmp_path) == steps(undisturbed)
    assert_same_weights(tmp_path, undisturbed)
    samples, other = ((f / "samples.jsonl").read_text() for f in (tmp_path, undisturbed))
    assert samples == other


def steps_so_far(folder: Path) -> list[int]:
    return [record["step"] for record in log(folder) if "loss" in record]


def test_a_checkpoint_that_was_cut_short_is_not_used(workshop, undisturbed, tmp_path):
    run(workshop / "recipe.yaml", tmp_path, *CHANGES, "training.steps=60")
    folder = tmp_path / "checkpoints" / f"checkpoint-{STEPS}"
    (folder / "complete").unlink()
    (folder / "model.safetensors").write_bytes(b"cut short")
    run(workshop / "recipe.yaml", tmp_path, *CHANGES)
    assert steps(tmp_path) == steps(undisturbed)


def test_with_another_number_of_processes_the_same_examples_are_seen(
    workshop, undisturbed, tmp_path
):
    recipe = workshop / "recipe.yaml"
    process = subprocess.Popen(
        command(recipe, tmp_path, *CHANGES, processes=2),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while process.poll() is None and max(steps_so_far(tmp_path), default=0) < 22:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert 20 <= max(steps_so_far(tmp_path)) < STEPS
    run(recipe, tmp_path, *CHANGES)
    seen, expected = steps(tmp_path), steps(undisturbed)
    assert seen.keys() == expected.keys()
    for step, record in seen.items():
        for key in ("ids_seen", "examples_seen", "digest_seen"):
            assert record[key] == expected[step][key]
