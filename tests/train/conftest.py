"""A corpus and a recipe so small that a run takes seconds, most of them to start Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("datatrove")

import numpy as np
import yaml
from safetensors.numpy import load_file

from reviser.data.shards import tokenize
from reviser.data.tokenizer import train_bpe

RECIPES = Path(__file__).parents[2] / "recipes"

TINY = {
    "trunk": {"layers": 1, "width": 16, "heads": 2, "mlp_width": 32, "context": 96, "dropout": 0.1},
    "vocab": {"max_move": 32},
    "policy": "paper",
    "data": {
        "shards": "shards",
        "tokenizer": "tokenizer",
        "windows": {"size": 48, "prefix": [0, 8], "held_out": 0.1},
    },
    "training": {
        "steps": 12,
        "batch": 8,
        "micro_batch": 4,
        "learning_rate": 0.01,
        "warmup": 4,
        "precision": "fp32",
        "log_every": 1,
        "evaluate_every": 1000,
        "save_every": 6,
        "reporters": [],
    },
    "evaluation": {"examples": 8, "prompts": ["One"], "max_actions": 8},
}


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer, shards and recipe.yaml."""
    folder = tmp_path_factory.mktemp("workshop")
    text = (RECIPES / "smoke.txt").read_text().split("\n\n")[:120]
    (folder / "text.txt").write_text("\n\n".join(text))
    (folder / "tokenizer").mkdir()
    train_bpe([folder / "text.txt"], 300).save(str(folder / "tokenizer" / "tokenizer.json"))
    tokenize([folder / "text.txt"], folder / "shards", folder / "tokenizer", workers=1)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(TINY))
    return folder


def command(
    recipe: Path, output: Path, *changes: str, processes: int = 1, launcher: str = "torchrun"
) -> list[str]:
    """The command line of a training run, alone or with several processes."""
    several = f"--nproc-per-node={processes} --rdzv-backend=c10d --rdzv-endpoint=localhost:0"
    plain = "--num_machines=1 --mixed_precision=no --dynamo_backend=no --main_process_port=0"
    launchers = {
        "torchrun": f"torch.distributed.run {several}",
        # Its own launcher for CPUs needs MPI; this one takes them as well.
        "accelerate": f"accelerate.commands.launch --multi_gpu --num_processes={processes} {plain}",
    }
    python = [sys.executable] + ["-m", *launchers[launcher].split()] * (processes > 1)
    settings = [word for change in changes for word in ("--set", change)]
    return [*python, "-m", "reviser", "train", str(recipe), "-o", str(output), *settings]


def run(*args: str | Path, **options: object) -> None:
    """Run it to its end; on failure show what it said."""
    done = subprocess.run(command(*args, **options), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def weights(folder: Path) -> dict[str, Any]:
    """The tensors of a model folder or checkpoint."""
    return load_file(folder / "model.safetensors")


def assert_same_weights(one: Path, other: Path) -> None:
    """Bit for bit."""
    a, b = weights(one), weights(other)
    assert a.keys() == b.keys()
    assert all(np.array_equal(a[name], b[name]) for name in a)
