"""Measure how cost grows with tokens, with documents and with processes.

    python -m experiments.scale.growth TEXT TOKENIZER

Tokens: pieces of a text are tokenized, each twice as long as the one before. Documents: what the
loader of a training process keeps in memory when it opens shards. Processes: one batch job
is done by more and more processes. Processor seconds are counted, not the time on the
wall: two cores cannot show how fast eight processes would be, but they show what these cost.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import tempfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.scale.batch import RESULTS, SETTINGS, make_corpus, make_model
from reviser.batch.job import begin
from reviser.batch.run import run
from reviser.data.shards import Manifest, Shard, TokenShards, tokenize
from reviser.data.window_config import WindowConfig
from reviser.data.windows import Windows
from reviser.provenance import made_with

MEBIBYTES = (1, 2, 4, 8, 16)
PROCESSES = (1, 2, 4, 8)
DOCUMENTS = 4000
OPENED = (10**5, 10**6, 10**7)
"""The numbers of documents that are opened for training."""
LENGTH = 20


def middle(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the range."""
    return {"value": statistics.median(values), "low": min(values), "high": max(values)}


def spent() -> float:
    """Return the processor seconds of this process, and of those that it started and that ended."""
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    used = [resource.getrusage(kind) for kind in kinds]
    return sum(each.ru_utime + each.ru_stime for each in used)


def by_tokens(text: Path, tokenizer: Path, rounds: int) -> list[dict[str, Any]]:
    """Return the processor seconds of tokenizing, by tokens."""
    whole = text.read_bytes()
    rows = []
    for size in MEBIBYTES:
        took, tokens = [], 0
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as name:
                source = Path(name, "text.txt")
                source.write_bytes(whole[: size << 20].rpartition(b"\n\n")[0])
                shards = Path(name, "shards")
                before = spent()
                tokens = tokenize([source], shards, tokenizer, workers=1).tokens
                took.append(spent() - before)
        rows.append({"tokens": tokens, "seconds": middle(took)})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def write_shards(folder: Path, documents: int) -> None:
    """Write a shard of short documents in the format of `reviser tokenize`."""
    np.zeros(documents * LENGTH, "<u2").tofile(folder / "one.ds")
    np.arange(LENGTH, (documents + 1) * LENGTH, LENGTH, "<u8").tofile(folder / "one.ds.index")
    shard = Shard(name="one.ds", tokens=documents * LENGTH, documents=documents, sha256="")
    manifest = Manifest(
        tokenizer="", vocabulary=9, dtype="<u2", shards=(shard,), skipped={}, damaged=(),
        sources=(), reader={}, versions={},
    )  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest.to_dict()), "utf-8")


def kept(documents: int) -> int:
    """Return the bytes that an open loader keeps."""
    with tempfile.TemporaryDirectory() as name:
        write_shards(Path(name), documents)
        tracemalloc.start()
        windows = Windows(TokenShards.open(name), WindowConfig(size=16, prefix=(0, 4)))
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(windows) > 0.9 * documents
    return size


def by_documents() -> list[dict[str, Any]]:
    """Return the bytes that an open loader keeps, by documents."""
    kept(1000)  # imports and caches are not counted
    rows = [{"documents": documents, "bytes": kept(documents)} for documents in OPENED]
    print(json.dumps(rows), flush=True)
    return rows


def by_processes(rounds: int) -> list[dict[str, Any]]:
    """Return the processor seconds of a job, by processes."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, corpus = make_model(folder), make_corpus(folder, DOCUMENTS)
        for processes in PROCESSES:
            took = []
            for number in range(rounds):
                output = str(folder / f"{processes}-{number}")
                job = begin(str(corpus), output, str(model), settings=SETTINGS, chunk_rows=100)
                before = spent()
                run(job, workers=processes)
                for worker in multiprocessing.active_children():
                    worker.join()  # what has not been waited for is not counted
                took.append(spent() - before)
            rows.append({"processes": processes, "documents": DOCUMENTS, "seconds": middle(took)})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    content = {
        "tokens": by_tokens(given.text, given.tokenizer, given.rounds),
        "documents": by_documents(),
        "processes": by_processes(given.rounds),
        "made": made_with("numpy", "torch", "transformers") | {"load": os.getloadavg()[0]},
    }
    (RESULTS / "growth.json").write_text(json.dumps(content, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
