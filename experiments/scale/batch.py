"""Run one batch job on each backend while its workers are killed, and compare results.

    python -m experiments.scale.batch --documents 10000 --backend local ray --kills 10

A single process runs the job first. Then each backend runs it: processes of this machine, or a
Ray cluster of three node processes. At random moments a random worker gets SIGKILL. Every document
must be there exactly once, and every file must equal that of the single process, byte for byte. The
model is a random one of one layer.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, get_args

import psutil

from reviser.batch import results
from reviser.batch.job import Job, begin
from reviser.batch.run import run
from reviser.batch.settings import Backend
from reviser.core.actions import ActionVocab
from reviser.data.tokenizer import train_bpe
from reviser.errors import EngineError
from reviser.models import trunks
from reviser.provenance import made_with

RESULTS = Path(__file__).parent / "results"
SETTINGS = {"max_actions": 8, "seed": 7}
WORKERS = 3


def make_model(folder: Path) -> Path:
    """Write a random model of one layer."""
    text = folder / "words.txt"
    text.write_text("The cat sat on a mat and saw a bird.\n" * 50, "utf-8")
    tokenizer = train_bpe([text], 300)
    vocab = ActionVocab.from_tokenizer(tokenizer, max_move=8)
    sizes = {"layers": 1, "width": 16, "heads": 2, "mlp_width": 24, "context": 64}
    trunk = trunks.build(trunks.TrunkConfig(architecture="llama", **sizes), vocab, seed=3)
    trunks.save(trunk, tokenizer, vocab, folder / "model")
    return folder / "model"


def make_corpus(folder: Path, documents: int, files: int = 3) -> Path:
    """Write Parquet files of unequal sizes: prompts, and every seventh a text with a gap."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    corpus = folder / "corpus"
    corpus.mkdir()
    rng, bounds = Random(1), [0]
    bounds += [*sorted(Random(2).sample(range(1, documents), files - 1)), documents]
    for number in range(files):
        rows = range(bounds[number], bounds[number + 1])
        table = {
            "id": [f"document-{n}" for n in rows],
            "prompt": [None if n % 7 == 0 else f"The cat {n}" for n in rows],
            "infill": [f"A {n} {{}} sat." if n % 7 == 0 else None for n in rows],
        }
        size = rng.randint(50, 500)
        pq.write_table(pa.table(table), corpus / f"{number}.parquet", row_group_size=size)
    return corpus


def workers_of(backend: Backend) -> list[psutil.Process]:
    """Return the processes that hold a model now."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if backend == "local":
                is_worker = process.ppid() == os.getpid() and "spawn_main" in " ".join(words)
            else:
                is_worker = bool(words) and words[0].startswith("ray::") and "Chunk" in words[0]
            if is_worker:
                found.append(process)
        except psutil.Error:  # it has just ended
            continue
    return found


@contextmanager
def killing(backend: Backend, job: Job, kills: int, rng: Random) -> Iterator[list[int]]:
    """Kill a random worker whenever one more of some random numbers of chunks is done."""
    goals = sorted(rng.sample(range(1, len(job.chunks)), kills))
    killed: list[int] = []
    is_over = threading.Event()

    def kill() -> None:
        while goals and not is_over.wait(0.02):
            if len(job.chunks) - len(job.missing()) < goals[0]:
                continue
            time.sleep(rng.random() * 0.2)  # in the middle of whatever it does
            if victims := workers_of(backend):
                victim = rng.choice(victims)
                os.kill(victim.pid, signal.SIGKILL)
                killed.append(victim.pid)
                goals.pop(0)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        is_over.set()
        thread.join()


@contextmanager
def cluster_of(backend: Backend, nodes: int = 3) -> Iterator[None]:
    """Start a Ray cluster with a process per node."""
    if backend != "ray":
        yield
        return
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()


def run_until_done(job: Job, backend: Backend) -> tuple[results.Counts, int]:
    """Run a job, and again if it fails, as a user would; return its counts and the tries."""
    for tries in range(1, 100):
        try:
            return run(job, backend=backend, workers=WORKERS), tries
        except EngineError as error:
            print(f"  {error}", flush=True)
    raise AssertionError("It never ended.")


def compare(reference: Job, job: Job) -> None:
    """Check that every document is there exactly once, and equal to the single process's."""
    records = list(results.read(job.output))
    numbers = range(sum(source.rows for source in job.sources))
    assert [record["row"] for record in records] == [*numbers]
    assert [record["id"] for record in records] == [f"document-{n}" for n in numbers]
    names = {name for name in job.folder.names() if not name.startswith("_")}
    assert names == {job.file_name(n) for n in range(len(job.chunks))}
    for name in names:
        assert job.folder.read(name) == reference.folder.read(name), name


def measure(
    folder: Path, documents: int, backends: Sequence[Backend], kills: int, chunk_rows: int,
    log: Callable[..., None] = print,
) -> list[dict[str, Any]]:  # fmt: skip
    """Run a job in one process and on each backend; return a row of figures for each."""
    model, corpus = make_model(folder), make_corpus(folder, documents)

    def started(name: str) -> Job:
        output = str(folder / name)
        return begin(str(corpus), output, str(model), settings=SETTINGS, chunk_rows=chunk_rows)

    reference = started("single")
    start = time.monotonic()
    counts = run(reference)
    rows = [
        {"on": "one process", "documents": counts.documents, "failed": counts.failed, "kills": 0,
         "tries": 1, "seconds": round(time.monotonic() - start, 1), "sha256": counts.sha256}
    ]  # fmt: skip
    log(json.dumps(rows[-1]), flush=True)
    for backend in backends:
        job = started(backend)
        with cluster_of(backend):
            start = time.monotonic()
            with killing(backend, job, kills, Random(backend)) as killed:
                counts, tries = run_until_done(job, backend)
            seconds = time.monotonic() - start
        compare(reference, job)
        assert counts.sha256 == rows[0]["sha256"]
        rows.append(
            {"on": backend, "documents": counts.documents, "failed": counts.failed,
             "kills": len(killed), "tries": tries, "seconds": round(seconds, 1),
             "sha256": counts.sha256}
        )  # fmt: skip
        log(json.dumps(rows[-1]), flush=True)
    return rows


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--backend", nargs="+", choices=get_args(Backend), default=["local"])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--chunk-size", type=int, default=100)
    parser.add_argument("--save", action="store_true", help="Write results/batch.json.")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        rows = measure(Path(folder), given.documents, given.backend, given.kills, given.chunk_size)
    if given.save:
        made = made_with("numpy", "torch", "transformers", "pyarrow", "fsspec", "ray")
        content = {"rows": rows, "made": made | {"load": os.getloadavg()[0]}}
        (RESULTS / "batch.json").write_text(json.dumps(content, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
