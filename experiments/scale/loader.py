"""Measure memory and speed of one loader process by number of documents, before and after.

    python -m experiments.scale.loader --before REVISION

Shards of short documents are written once. The version of the code at a revision and the one of
this tree open them in processes of their own, which take turns. Memory is what Python and numpy
allocate to open the shards (kept, and at its peak) and the private memory of the process. Speed is
windows read per second of processor time, in random order, and the ids per second of the whole
loader with longer documents: windows, trajectories and padding. The results are written to
`experiments/scale/results/loader.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import tracemalloc
from io import BytesIO
from pathlib import Path
from typing import Any

DOCUMENTS = (10**5, 10**6, 10**7)
SHARDS = 20
LENGTH = 20
RESULT = Path(__file__).parent / "results" / "loader.json"
ROOT = Path(__file__).parents[2]


def write_shards(folder: Path, documents: int, length: int = LENGTH) -> None:
    """Write shards of documents in the format of `reviser tokenize`."""
    import numpy as np

    from reviser.data.shards import Manifest, Shard

    shards = []
    each = documents // SHARDS
    for n in range(SHARDS):
        name = f"{n:05d}.ds"
        np.zeros(each * length, "<u2").tofile(folder / name)
        ends = np.arange(length, (each + 1) * length, length, "<u8")
        ends.tofile(folder / f"{name}.index")
        shards.append(Shard(name=name, tokens=each * length, documents=each, sha256=""))
    manifest = Manifest(
        tokenizer="", vocabulary=9, dtype="<u2", shards=tuple(shards), skipped={}, damaged=(),
        sources=(), reader={}, versions={},
    )  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest.to_dict()), "utf-8")


def private_bytes() -> int:
    """Return the memory of this process that no file backs."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def measure(folder: str, reads: int) -> dict[str, float]:
    """Open shards, read windows in random order, and return what it took."""
    import numpy as np

    try:
        from reviser.data.order import permute
        from reviser.data.windows import Windows
    except ImportError:  # the version before
        from reviser.data.dataset import Windows, permute
    from reviser.data.shards import TokenShards
    from reviser.data.window_config import WindowConfig

    before = private_bytes()
    tracemalloc.start()
    start = time.process_time()
    windows = Windows(TokenShards.open(folder), WindowConfig(size=16, prefix=(0, 4)))
    opened = time.process_time() - start
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    private = private_bytes() - before
    size = len(windows)
    windows.read(permute(np.arange(512), size, seed=0, epoch=0))
    start = time.process_time()
    for first in range(0, reads, 512):
        windows.read(permute(np.arange(first, first + 512) % size, size, seed=0, epoch=1))
    took = time.process_time() - start
    return {
        "kept": kept, "peak": peak, "private": private, "open_seconds": opened,
        "windows_per_second": reads / took,
    }  # fmt: skip


def ids_per_second(folder: str) -> dict[str, float]:
    """Make micro-batches as training does, and return ids per second of processor time."""
    from reviser import ActionVocab, Obfuscation
    from reviser.data.dataset import MicroBatches, WindowConfig, Windows, WindowStream
    from reviser.data.shards import TokenShards
    from reviser.trajectories.sampler import Sampler

    windows = Windows(TokenShards.open(folder), WindowConfig(size=180, prefix=(35, 35)))
    stream = WindowStream(windows, Sampler(ActionVocab.build(9), Obfuscation()), context=512)
    batches = MicroBatches(stream, size=32, count=10**6)
    batches[0]  # compiles
    start, ids = time.process_time(), 0
    for n in range(16, 16 * 9):
        ids += batches[n]["counts"]["ids"]
    return {"ids_per_second": ids / (time.process_time() - start)}


def run(source: Path, *options: str) -> dict[str, float]:
    """Measure one version of the code in a process of its own."""
    words = [sys.executable, __file__, *options]
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    made = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(made.stdout)
    return found


def compare(before: str, rounds: int, reads: int) -> None:
    """Measure both versions at every size and write the result."""

    def git(*words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout

    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        with tarfile.open(fileobj=BytesIO(git("archive", before, "src"))) as archive:
            archive.extractall(name, filter="data")
        sources = {"before": Path(name) / "src", "after": ROOT / "src"}
        for documents in DOCUMENTS:
            folder = Path(name) / str(documents)
            folder.mkdir()
            write_shards(folder, documents)
            found: dict[str, list[dict[str, float]]] = {which: [] for which in sources}
            for _ in range(rounds):
                for which, source in sources.items():
                    options = "--measure", str(folder), "--reads", str(reads)
                    found[which].append(run(source, *options))
            row: dict[str, Any] = {"documents": documents, "rounds": rounds}
            for which, runs in found.items():
                row[which] = {key: summary([each[key] for each in runs]) for key in runs[0]}
            pairs = zip(found["before"], found["after"], strict=True)
            speeds = [b["windows_per_second"] / a["windows_per_second"] for a, b in pairs]
            row["speed_ratio"] = summary(speeds)
            rows.append(row)
            print(json.dumps(row), flush=True)
        folder = Path(name) / "long"
        folder.mkdir()
        write_shards(folder, 20_000, length=600)
        rates: dict[str, list[float]] = {which: [] for which in sources}
        for _ in range(rounds):
            for which, source in sources.items():
                rates[which].append(run(source, "--stream", str(folder))["ids_per_second"])
        ratios = [b / a for a, b in zip(rates["before"], rates["after"], strict=True)]
        whole = {which: summary(each) for which, each in rates.items()} | {"ratio": summary(ratios)}
        print(json.dumps({"ids per second": whole}), flush=True)
    content = {
        "before": git("rev-parse", "--short", before).decode().strip(),
        "load": os.getloadavg()[0],
        "rows": rows,
        "ids_per_second": whole,
    }
    RESULT.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def summary(values: list[float]) -> dict[str, float]:
    """Return the median and the range."""
    parts = {"value": statistics.median(values), "low": min(values), "high": max(values)}
    return {name: round(value, 3) for name, value in parts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", default="main", help="A revision of this repository.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reads", type=int, default=512 * 8)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--stream", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.reads)))
    elif given.stream:
        print(json.dumps(ids_per_second(given.stream)))
    else:
        compare(given.before, given.rounds, given.reads)


if __name__ == "__main__":
    main()
