"""A corpus and a recipe so small that a run takes a second or two."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("datatrove")

import numpy as np
import torch
import yaml
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, LlamaConfig

from reviser.data.shards import tokenize
from reviser.data.tokenizer import train_bpe
from support import small_tokenizers
from support.processes import run as run_command
from support.processes import run_ranks

RECIPES = Path(__file__).parents[2] / "recipes"
TEXT = "\n\n".join((RECIPES / "smoke.txt").read_text().split("\n\n")[:120])

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
    """A folder with a tokenizer, shards and recipe.yaml, for one pytest process."""
    folder = tmp_path_factory.mktemp("workshop")
    make_workshop(folder)
    return folder


@pytest.fixture(scope="session")
def bases(workshop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small Llamas with random weights, tied and not, and shards of their tokenizer."""
    folder = tmp_path_factory.mktemp("bases")
    for name, tied in {"tied": True, "untied": False}.items():
        tokenizer = small_tokenizers.byte_level()
        config = LlamaConfig(
            vocab_size=tokenizer.get_vocab_size(), hidden_size=16, num_hidden_layers=1,
            num_attention_heads=2, intermediate_size=24, max_position_embeddings=128,
            tie_word_embeddings=tied, bos_token_id=0, eos_token_id=0,
        )  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            AutoModelForCausalLM.from_config(config).save_pretrained(folder / name)
        tokenizer.save(str(folder / name / "tokenizer.json"))
    tokenize([workshop / "text.txt"], folder / "shards", folder / "tied", workers=1)
    content: dict[str, Any] = {k: v for k, v in TINY.items() if k not in ("trunk", "data")}
    windows = {"size": 48, "prefix": [0, 8], "held_out": 0.1}
    content["data"] = {"shards": "shards", "windows": windows}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(content))
    return folder


def make_workshop(folder: Path) -> None:
    """Write a text, its tokenizer and shards, and recipe.yaml."""
    (folder / "text.txt").write_text(TEXT)
    (folder / "tokenizer").mkdir()
    train_bpe([folder / "text.txt"], 300).save(str(folder / "tokenizer" / "tokenizer.json"))
    tokenize([folder / "text.txt"], folder / "shards", folder / "tokenizer", workers=1)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(TINY))


def words(recipe: Path, output: Path, *changes: str, command: str = "train") -> list[str]:
    """Return the arguments of `reviser` that train a recipe."""
    settings = [word for change in changes for word in ("--set", change)]
    return [*command.split(), str(recipe), "-o", str(output), *settings]


def run(
    recipe: Path,
    output: Path,
    *changes: str,
    processes: int = 1,
    machines: int = 1,
    command: str = "train",
) -> None:
    """Train to the end in forked processes; on failure show what they reported."""
    arguments = words(recipe, output, *changes, command=command)
    if processes > 1:
        ranks = run_ranks(processes, *arguments, machines=machines)
    else:
        ranks = [run_command(*arguments)]
    assert [rank.returncode for rank in ranks] == [0] * processes, ranks[0].stderr[-3000:]


def launch(launcher: str, recipe: Path, output: Path, *changes: str) -> None:
    """Train to the end in two processes, as a user starts them."""
    several = "--nproc-per-node=2 --rdzv-backend=c10d --rdzv-endpoint=localhost:0"
    plain = "--num_machines=1 --mixed_precision=no --dynamo_backend=no --main_process_port=0"
    launchers = {
        "torchrun": f"torch.distributed.run {several}",
        # Its own launcher for CPUs needs MPI; this one takes them as well.
        "accelerate": f"accelerate.commands.launch --multi_gpu --num_processes=2 {plain}",
    }
    python = [sys.executable, "-m", *launchers[launcher].split(), "-m", "reviser"]
    done = subprocess.run(
        [*python, *words(recipe, output, *changes)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


def weights(folder: Path) -> dict[str, Any]:
    """The tensors of a model folder or checkpoint."""
    return load_file(folder / "model.safetensors")


def assert_same_weights(one: Path, other: Path) -> None:
    """Bit for bit."""
    a, b = weights(one), weights(other)
    assert a.keys() == b.keys()
    assert all(np.array_equal(a[name], b[name]) for name in a)
