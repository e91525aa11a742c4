"""Training above one device: shards, copies of shards, adapters, and launchers that restart it."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from reviser.errors import ConfigError
from reviser.train.arguments import _copies_of_shards
from reviser.train.recipe import TrainingConfig
from support import processes
from support.processes import free_port

from .conftest import RECIPES, assert_same_weights, run, weights, words
from .test_distributed import assert_follows, figures, run_alone
from .test_resume import steps_so_far

STEPS = 20
CHANGES = [f"training.steps={STEPS}", "trunk.dropout=0", "training.evaluate_every=10"]
CHANGES += ["training.micro_batch=2", "training.save_every=3"]
HYBRID = [*CHANGES, "training.parallel=hybrid", "training.recompute=true"]


@pytest.fixture(scope="module")
def alone() -> Path:
    return run_alone("alone-2", CHANGES)


def start_machines(recipe: Path, output: Path, *changes: str) -> list[subprocess.Popen[str]]:
    """Start two launchers of two processes each, as one does on each of two machines."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # of torchrun
    settings = {"HEAD": f"localhost:{free_port()}", "MACHINES": "2", "PROCESSES": "2"}
    command = ["sh", str(RECIPES / "train_elastic.sh"), *words(recipe, output, *changes)[1:]]
    return [
        subprocess.Popen(
            command,
            env=os.environ | settings | {"PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]


def children(parent: int) -> list[int]:
    """The ids of the processes that a process started, and which still run."""
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(child) for child in listed.split()]


def end(launchers: list[subprocess.Popen[str]]) -> None:
    for launcher in launchers:
        if launcher.poll() is None:
            for child in children(launcher.pid):
                os.kill(child, 9)
            launcher.kill()


@pytest.fixture(scope="module")
def two_by_two(workshop, tmp_path_factory) -> Path:
    """A run of two launchers with two processes each, which nothing disturbs."""
    folder = tmp_path_factory.mktemp("two_by_two")
    launchers = start_machines(workshop / "recipe.yaml", folder, *HYBRID)
    try:
        reported = [launcher.communicate(timeout=3600)[0] for launcher in launchers]
    finally:
        end(launchers)
    assert [launcher.returncode for launcher in launchers] == [0, 0], reported[0][-3000:]
    return folder


@pytest.mark.full
def test_two_machines_with_two_processes_follow_one_process(alone, two_by_two):
    record = json.loads((two_by_two / "run.json").read_text())
    assert (record["processes"], record["parallel"]) == (4, "hybrid")
    assert_follows(two_by_two, alone)


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds processes in /proc")
def test_a_killed_process_is_restarted_and_the_run_ends_with_the_same_weights(
    workshop, two_by_two, tmp_path
):
    rng = random.Random(5)
    launchers = start_machines(workshop / "recipe.yaml", tmp_path, *HYBRID)
    try:
        for launcher in launchers:  # one process of each machine, one after the other
            goal = max(steps_so_far(tmp_path), default=0) + 5
            while max(steps_so_far(tmp_path), default=0) < goal:
                assert all(each.poll() is None for each in launchers)
                time.sleep(0.01)
            os.kill(rng.choice(children(launcher.pid)), 9)
        reported = [launcher.communicate(timeout=3600)[0] for launcher in launchers]
    finally:
        end(launchers)
    assert [launcher.returncode for launcher in launchers] == [0, 0], reported[0][-3000:]
    assert "".join(reported).count("from step") >= 2  # it was started again
    assert_same_weights(tmp_path, two_by_two)
    assert figures(tmp_path)[2] == figures(two_by_two)[2]


@pytest.mark.full
def test_shards_are_read_by_another_number_of_processes_but_not_by_one(workshop, alone, tmp_path):
    recipe = workshop / "recipe.yaml"
    run(recipe, tmp_path, *CHANGES, "training.parallel=fsdp", processes=2)
    last, before = (tmp_path / "checkpoints" / f"checkpoint-{step}" for step in (20, 18))
    for part in ("pytorch_model_fsdp_0", "optimizer_0"):
        assert {path.name for path in (before / part).iterdir()} == {
            ".metadata",
            "__0_0.distcp",
            "__1_0.distcp",
        }
    assert not (before / "model.safetensors").exists()  # no process ever held all weights for it
    (last / "complete").unlink()
    one = processes.run(*words(recipe, tmp_path, *CHANGES))
    assert one.returncode == 1
    assert "can only be resumed with training.parallel fsdp or hybrid, and two" in one.stderr
    run(recipe, tmp_path, *HYBRID, processes=4, machines=2)
    assert_follows(tmp_path, alone)


@pytest.mark.full
@pytest.mark.parametrize("base", ["tied", "untied"])
@pytest.mark.parametrize("rank", [2, 0])
def test_sharded_adapters_follow_one_process_and_are_resumed(bases, tmp_path, base, rank):
    recipe = bases / "recipe.yaml"
    changes = [f"base={base}", f"training.lora={{rank: {rank}}}", "training.save_every=3"]
    run(recipe, tmp_path / "one", *changes)
    changes.append("training.parallel=fsdp")
    run(recipe, tmp_path / "two", *changes, processes=2)
    record = json.loads((tmp_path / "two" / "run.json").read_text())
    assert (record["processes"], record["parallel"]) == (2, "fsdp")
    found, expected = weights(tmp_path / "two"), weights(tmp_path / "one")
    assert found.keys() == expected.keys()
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name], atol=2e-4, err_msg=name)
    shutil.copytree(tmp_path / "two", tmp_path / "again")
    (tmp_path / "again" / "checkpoints" / "checkpoint-12" / "complete").unlink()
    run(recipe, tmp_path / "again", *changes, processes=2)
    assert_same_weights(tmp_path / "again", tmp_path / "two")


STUBS = {
    "scontrol": 'echo "scontrol $*" >> calls; [ "$1" = show ] && printf "node7\\nnode8\\n"',
    "srun": 'shift; "$@"',
    "torchrun": 'echo "torchrun $*" >> calls; exit "$STATUS"',
}


@pytest.mark.parametrize("status", [0, 3])
def test_the_slurm_job_starts_a_launcher_per_node_and_goes_back_if_it_fails(tmp_path, status):
    (tmp_path / "recipes").symlink_to(RECIPES)
    for name, body in STUBS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    job = {"SLURM_JOB_ID": "42", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "node[7-8]"}
    job |= {"STATUS": str(status), "SLURM_GPUS_ON_NODE": "8"}
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    script = ["bash", "recipes/train_slurm.sh", "my.yaml", "-o", "out"]
    done = subprocess.run(script, cwd=tmp_path, env=os.environ | job | {"PATH": path}, check=False)
    assert done.returncode == status
    listed, launched, *after = (tmp_path / "calls").read_text().splitlines()
    assert listed == "scontrol show hostnames node[7-8]"
    assert launched == (
        "torchrun --nnodes 2 --nproc-per-node 8 --max-restarts 10 --rdzv-backend c10d --rdzv-id 42"
        " --rdzv-endpoint node7:29500 -m reviser train my.yaml -o out"
    )
    assert after == (["scontrol requeue 42"] if status else [])


@pytest.mark.parametrize(
    ("parallel", "world", "local", "expected"),
    [
        ("hybrid", 8, 4, (2, 4)),
        ("hybrid", 4, 4, None),
        ("fsdp", 8, 4, None),
        ("hybrid", 2, 1, "2 processes have 1 on this one"),
        ("hybrid", 5, 2, "5 processes have 2 on this one"),
    ],
)
def test_copies_lie_on_machines_and_shards_within_them(
    monkeypatch, parallel, world, local, expected
):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(local))
    config = TrainingConfig(steps=1, parallel=parallel)
    if isinstance(expected, str):
        with pytest.raises(ConfigError, match=expected):
            _copies_of_shards(config, world)
        return
    found = _copies_of_shards(config, world)
    assert (found and (found.dp_replicate_size, found.dp_shard_size)) == expected
