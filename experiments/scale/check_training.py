"""Check the predictions for training: speed, memory and checkpoints of small trunks."""

from __future__ import annotations

import json
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import yaml

from experiments.scale.inputs import Trunk
from experiments.scale.model import ADAM, SAVED
from experiments.scale.record import Record
from reviser.core.actions import ActionVocab
from reviser.data.shards import tokenize
from reviser.data.tokenizer import train_bpe
from reviser.models.trunks import rows_for
from reviser.train import trainer
from reviser.train.recipe import load_recipe
from reviser.train.run import train

TEXT = Path(__file__).parents[2] / "recipes" / "smoke.txt"
CONTEXT, MICRO = 224, 8


def trunk_of(layers: int, width: int, rows: int) -> Trunk:
    return Trunk(
        name=f"{layers} x {width}", layers=layers, width=width, mlp_width=4 * width, rows=rows,
        kv_width=width,
    )  # fmt: skip


def train_once(folder: Path, layers: int, width: int, out: Any) -> None:
    """Train for a few steps in this process, timed in processor seconds."""
    torch.set_num_threads(1)
    trainer.time = SimpleNamespace(perf_counter=time.process_time)  # type: ignore[assignment]
    output = folder / f"run-{layers}-{width}"
    changes = [f"trunk.layers={layers}", f"trunk.width={width}", f"trunk.mlp_width={4 * width}"]
    train(load_recipe(folder / "recipe.yaml", [*changes, f"trunk.heads={width // 32}"]), output)
    lines = [json.loads(line) for line in (output / "log.jsonl").read_text("utf-8").splitlines()]
    logs = [line for line in lines if "ids_per_second" in line]
    [saved] = (output / "checkpoints").glob("checkpoint-*")
    out.put(
        {
            "parameters": json.loads((output / "run.json").read_text("utf-8"))["parameters"],
            "speeds": [line["ids_per_second"] for line in logs[1:]],
            "padding": statistics.median(line["padding"] for line in logs),
            "memory": logs[-1]["peak_memory_gb"] * 2**30,
            "checkpoint": sum(f.stat().st_size for f in saved.iterdir()),
        }
    )


SMALL = ((2, 64), (6, 96), (2, 192), (4, 128))
"""Layers and widths of the trunks for calibration."""
CHECKED = ((3, 160), (4, 256))


def check_training() -> None:
    """Train small trunks, and compare those in CHECKED with the fit to those in SMALL."""
    context = multiprocessing.get_context("fork")  # the child shares what is imported here
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tokenizer").mkdir()
        bpe = train_bpe([str(TEXT)], 512, split="blank", text_key="text")
        bpe.save(str(folder / "tokenizer" / "tokenizer.json"))
        tokenize([TEXT], folder / "shards", folder / "tokenizer", workers=1)
        rows = rows_for(ActionVocab.from_tokenizer(bpe, max_move=64).size)
        (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE), "utf-8")

        def run(layers: int, width: int) -> dict[str, Any]:
            out: Any = context.Queue()
            process = context.Process(target=train_once, args=(folder, layers, width, out))
            process.start()
            found: dict[str, Any] = out.get(timeout=1200)
            process.join()
            return found

        compare_training({size: run(*size) for size in (*SMALL, *CHECKED)}, rows)


RECIPE = {
    "trunk": {"context": CONTEXT, "dropout": 0.0},
    "vocab": {"max_move": 64},
    "policy": "paper",
    "data": {
        "shards": "shards", "tokenizer": "tokenizer",
        "windows": {"size": 136, "prefix": [0, 24], "held_out": 0.05},
    },
    "training": {
        "steps": 14, "batch": MICRO, "micro_batch": MICRO, "precision": "fp32", "warmup": 2,
        "log_every": 2, "evaluate_every": 14, "save_every": 14, "reporters": [],
    },
    "evaluation": {"examples": 8, "prompts": [""], "max_actions": 1},
}  # fmt: skip


def compare_training(runs: dict[tuple[int, int], dict[str, Any]], rows: int) -> None:
    """Predict the larger trunks from the small ones and record both."""
    record = Record("training")
    fit = TrainingFit([(trunk_of(*size, rows), runs[size]) for size in SMALL])
    for size in CHECKED:
        trunk, found = trunk_of(*size, rows), runs[size]
        label, speeds = f"{trunk.name}, {found['parameters'] / 1e6:.2f}M", found["speeds"]
        record.compare("parameters", label, "", [trunk.parameters], [found["parameters"]])
        record.compare("training", label, "ids/s", [fit.speed(trunk)] * len(speeds), speeds)
        record.compare("training memory", label, "bytes", [fit.memory(trunk)], [found["memory"]])
        record.compare("checkpoint", label, "bytes", [fit.checkpoint(trunk)], [found["checkpoint"]])
    kept = {trunk_of(*size, rows).name: found for size, found in runs.items()}
    record.calibration = {"fit": fit.to_dict(), "runs": kept}
    record.save()


class TrainingFit:
    """Time, memory and checkpoint size as sums of a few terms, fitted to small trunks."""

    def __init__(self, known: list[tuple[Trunk, dict[str, Any]]]) -> None:
        self._padding = statistics.median(found["padding"] for _, found in known)
        times = [1 / statistics.median(found["speeds"]) for _, found in known]
        self._times = least_squares([self._work(trunk) for trunk, _ in known], times)
        rest = [found["memory"] - self._held(trunk) for trunk, found in known]
        sizes = [[1.0, float(trunk.layers * trunk.width)] for trunk, _ in known]
        self._sizes = least_squares(sizes, rest)
        self._besides = statistics.median(
            found["checkpoint"] - SAVED * trunk.parameters for trunk, found in known
        )

    def _work(self, trunk: Trunk) -> list[float]:
        """Return the work per id: products, passes over activations and over the weights."""
        per_step = MICRO * 170.0
        return [trunk.flops_per_id, float(trunk.layers * trunk.width), trunk.parameters / per_step]

    def _held(self, trunk: Trunk) -> float:
        return ADAM * trunk.parameters

    def speed(self, trunk: Trunk) -> float:
        """Return ids per second."""
        return 1 / float(np.dot(self._work(trunk), self._times))

    def memory(self, trunk: Trunk) -> float:
        """Return the peak resident bytes."""
        base, slope = self._sizes
        return self._held(trunk) + base + slope * trunk.layers * trunk.width

    def checkpoint(self, trunk: Trunk) -> float:
        """Return the bytes of a checkpoint."""
        return SAVED * trunk.parameters + self._besides

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted factors."""
        return {
            "seconds": dict(zip(("flop", "activation", "weight"), self._times, strict=True)),
            "memory": dict(zip(("base", "layer_width"), self._sizes, strict=True)),
            "checkpoint_besides": self._besides,
        }


def least_squares(rows: list[list[float]], goals: list[float]) -> list[float]:
    """Return the non-negative factors with the least squared relative error."""
    weights = 1 / np.array(goals)
    a, b = np.array(rows) * weights[:, None], np.ones(len(goals))
    columns = a.shape[1]
    best: tuple[float, list[float]] = (np.inf, [0.0] * columns)
    for chosen in range(1, 1 << columns):
        names = [n for n in range(columns) if chosen >> n & 1]
        found = np.linalg.lstsq(a[:, names], b, rcond=None)[0]
        error = float(np.square(a[:, names] @ found - b).sum())
        if found.min() >= 0 and error < best[0]:
            whole = [0.0] * columns
            for n, value in zip(names, found.tolist(), strict=True):
                whole[n] = value
            best = error, whole
    return best[1]
