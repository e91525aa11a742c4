"""Measure the memory that recorded trajectories take: while they are written, opened and read.

python -m experiments.solve.memory 10000 10000000
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from reviser import write_trajectories
from reviser.data.recorded_dataset import RecordedSplit
from reviser.data.trajectory_files import TrajectoryFiles
from reviser.provenance import made_with

RESULTS = Path(__file__).parent / "results"
READ = 10_000


def own_memory() -> float:
    """Return the MB of this process that no file backs."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


def examples(count: int) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Yield short recordings, each with a prompt of its own."""
    for number in range(count):
        yield " ".join(f"{number:08d}"), [("insert", "1"), ("delete",), ("insert", "2")]


def measure(folder: Path, count: int) -> dict[str, float]:
    """Return what is added by each step, in MB."""
    words, path = folder / "words.json", folder / f"{count}.jsonl"
    words.write_text(json.dumps([*"0123456789"]))
    before = own_memory()
    write_trajectories(path, examples(count), tokenizer=words, operators=["delete"])
    written = own_memory()
    files = TrajectoryFiles([str(path)])
    split = RecordedSplit(files, 0.02, 64)
    opened = own_memory()
    rng = random.Random(0)
    for _ in range(READ):
        split.read(rng.randrange(len(split)))
    return {
        "trajectories": count,
        "file": path.stat().st_size / 2**20,
        "written": written - before,
        "opened": opened - written,
        "read": own_memory() - opened,
    }


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", type=int, nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(Path(folder), count) for count in options.counts]
    print(json.dumps(rows, indent=1))
    found = {"rows": rows, **made_with("numpy")}
    (RESULTS / "memory.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
