"""Several processes train as one does: the same examples, the same losses, the same weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from support import processes, trained

from .conftest import TEXT, TINY, launch, make_workshop, run, weights, words

CHANGES = ["training.steps=20", "trunk.dropout=0", "training.evaluate_every=10"]


def figures(folder: Path) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Loss and gradient norm of each step, every held-out score, and the digests."""
    records = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    steps = [r for r in records if "loss" in r]
    scores = [r for r in records if "eval_held_out_nll" in r]
    return (
        np.array([[r["loss"], r["grad_norm"]] for r in steps]),
        np.array([[v for k, v in sorted(r.items()) if k != "step"] for r in scores]),
        [r["digest_seen"] for r in steps],
    )


def assert_follows(folder: Path, expected: Path) -> None:
    """Check that a run read the same examples, with nearly the same losses and weights.

    Sums over processes are rounded in another order, so the figures are not equal bit for bit.
    """
    losses, scores, digests = figures(folder)
    expected_losses, expected_scores, expected_digests = figures(expected)
    assert len(losses) == len(expected_losses) > 0
    assert digests == expected_digests
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-4)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-4)
    found, whole = weights(folder), weights(expected)
    assert found.keys() == whole.keys()
    for name, values in found.items():
        np.testing.assert_allclose(values, whole[name], atol=2e-4, err_msg=name)


def run_alone(name: str, changes: list[str]) -> Path:
    """What one process makes of the recipe; trained once and kept."""

    def make(folder: Path) -> None:
        make_workshop(folder)
        run(folder / "recipe.yaml", folder / "run", *changes)

    return trained.folder(name, [TEXT, TINY, changes], make) / "run"


@pytest.fixture(scope="module")
def alone() -> Path:
    return run_alone("alone", CHANGES)


# The gate has one real launcher, and the harder of the two ways to share the weights.
@pytest.mark.parametrize(
    ("parallel", "launcher"),
    [
        ("fsdp", "torchrun"),
        pytest.param("ddp", "torchrun", marks=pytest.mark.full),
        pytest.param("ddp", "accelerate", marks=pytest.mark.full),
    ],
)
def test_two_processes_follow_one(workshop, alone, tmp_path, parallel, launcher):
    changes = [*CHANGES, f"training.parallel={parallel}"]
    launch(launcher, workshop / "recipe.yaml", tmp_path, *changes)
    record = json.loads((tmp_path / "run.json").read_text())
    assert (record["processes"], record["parallel"]) == (2, parallel)  # as the weights show
    assert_follows(tmp_path, alone)


@pytest.mark.full
def test_sharded_bf16_adds_up_in_float32(workshop, tmp_path):
    recipe = workshop / "recipe.yaml"
    changes = [*CHANGES, "training.precision=bf16", "training.steps=8"]
    run(recipe, tmp_path / "one", *changes)
    run(recipe, tmp_path / "two", *changes, "training.parallel=fsdp", processes=2)
    one, two = (figures(tmp_path / name)[0] for name in ("one", "two"))
    np.testing.assert_allclose(two, one, rtol=5e-3)
    # Rounded to bf16, a loss near 6 has a resolution of 1 / 32.
    assert len(set((two[:, 0] * 32 % 1).round(6))) > 4


@pytest.mark.full
def test_many_processes_begin_a_run_from_text_together(workshop, tmp_path):
    changes = [f"data.text=[{workshop / 'text.txt'}]", "data.tokenizer=null", "data.bpe=300"]
    changes += ["data.shards=null"]
    changes += ["training.steps=2", "training.micro_batch=2", "trunk.dropout=0"]
    run(workshop / "recipe.yaml", tmp_path / "four", *changes, processes=4)
    run(workshop / "recipe.yaml", tmp_path / "one", *changes)
    four, one = (figures(tmp_path / name) for name in ("four", "one"))
    assert four[2] == one[2]
    np.testing.assert_allclose(four[0], one[0], rtol=1e-4)


def test_a_refusal_is_printed_once(workshop, tmp_path):
    arguments = words(workshop / "recipe.yaml", tmp_path, f"data.shards={workshop}")
    ranks = processes.start_ranks(2, *arguments)
    for rank in ranks:  # each ends by itself; nothing kills the one that is slower
        rank.wait()
    assert [rank.returncode for rank in ranks] == [1, 1]
    reported = "".join(rank.stderr for rank in ranks)
    assert reported.count("error: There is no manifest.json in") == 1
