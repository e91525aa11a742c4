"""Running a job, or a part of one: in processes of this machine, or on a Ray cluster.

Each of them runs the chunks whose files are missing. `run` may be called again at any time. Ray
Data keeps a pool of actors, each with the model open. What flows through it are chunk numbers: an
actor reads its documents and writes its file itself, so a file has the same name and content on
every cluster. Ray restarts an actor that dies and gives its chunks out again.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from reviser.batch.job import DONE, Job
from reviser.batch.results import Counts, count, finish
from reviser.batch.settings import Backend
from reviser.batch.storage import CONTINUE, require
from reviser.batch.worker import Worker
from reviser.errors import ConfigError, EngineError, ReviserError, reason_of
from reviser.files import lock

_BLOCKS = 10_000
"""Most blocks of chunk numbers. A block is what Ray gives to an actor, or gives out again."""


def run(
    job: Job,
    *,
    backend: Backend = "local",
    workers: int = 1,
    options: Mapping[str, Any] | None = None,
    part: tuple[int, int] = (1, 1),
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Counts:
    """Run the chunks of a job that are not done; return the counts of the whole job.

    A part that finds other parts unfinished returns its own counts.

    Args:
        job: The job, from `begin`.
        backend: Where to run it.
        workers: Number of processes that each open the model.
        options: Options of the backend: those of Ray's `map_batches`, such as `num_gpus`.
        part: K and N run every N-th chunk, from the K-th one on. Parts can run at the same time, on
            machines that know nothing of each other. They need an output folder.
        progress: Called with the number of finished documents and of all documents.
    """
    if backend == "local" and options:
        raise ConfigError(f"A local run has no options; got {', '.join(options)}.")
    if backend == "local" and workers > 1 and job.engine != "hf":
        raise ConfigError(
            f"workers is {workers}, but engine {job.engine!r} uses the whole machine: use 1."
        )
    if job.is_one_file and part != (1, 1):
        raise ConfigError(f"{job.output!r} is one file, which has no parts: name a folder.")

    def start(numbers: list[int]) -> Iterator[int]:
        most = min(workers, len(numbers))
        if backend == "ray":
            return _run_on_ray(job, numbers, most, options or {})
        return _run_here(job, numbers) if most == 1 else _run_in_processes(job, numbers, most)

    if not job.is_one_file:
        return _run_part(job, part, start, progress)
    folder = Path(job.folder.name)
    with lock(folder / "lock", f"Another process is writing {job.output!r}."):
        job.check_output()  # another process may have finished it
        counts = _run_part(job, part, start, progress)
    shutil.rmtree(folder)  # after the lock: Windows deletes no file that is open
    return counts


def _run_part(
    job: Job,
    part: tuple[int, int],
    start: Callable[[list[int]], Iterator[int]],
    progress: Callable[[int, int], None],
) -> Counts:
    """Run the missing chunks of a part; the last part to end also finishes the job."""
    own = range(part[0] - 1, len(job.chunks), part[1])
    missing = sorted({*job.missing()} & {*own})
    documents = sum(len(job.chunks[n]) for n in own)
    done = documents - sum(len(job.chunks[n]) for n in missing)
    progress(done, documents)
    if missing:
        job.folder.remove(DONE)  # somebody deleted results to have them made again
        for finished in start(missing):
            done += finished
            progress(done, documents)
    missing = job.missing()
    if left := {*missing} & {*own}:
        raise EngineError(f"{len(left):,} of {len(own):,} chunks are not done. {CONTINUE}")
    return count(job, own) if missing else finish(job)


def _run_here(job: Job, numbers: list[int]) -> Iterator[int]:
    """Run chunks in this process; yield numbers of finished documents."""
    with closing(Worker(job.output)) as worker:
        for number in numbers:
            yield from worker.run(number)


_worker = cache(Worker)
"""The worker of a process in a pool. The first chunk opens it, so its errors reach the caller."""


def _run_chunk(output: str, number: int) -> int:
    return sum(_worker(output).run(number))


def _run_in_processes(job: Job, numbers: list[int], workers: int) -> Iterator[int]:
    """Run chunks in processes of this machine; yield the documents of each chunk."""
    context = multiprocessing.get_context("spawn")  # a fork would copy held locks
    ranks = context.Queue()
    for rank in range(workers):
        ranks.put(rank)
    ending, own_end = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, _begin, (workers, ranks, ending))
    try:
        yield from pool.map(partial(_run_chunk, job.output), numbers)
    except BrokenProcessPool as error:
        raise EngineError(
            "A worker process was killed, maybe because there is not enough memory for so many"
            f" workers. {CONTINUE}"
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        own_end.close()  # or this process would wait for chunks that nobody needs now
        ending.close()


def _begin(workers: int, ranks: Any, ending: Connection) -> None:
    """Prepare a new process, which ends when the job is over or its parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # exit at once, without a traceback
    os.environ["LOCAL_RANK"] = str(ranks.get())  # which accelerator to use, if there are several
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))

    def die_with_parent() -> None:
        # An event would not do: `set` waits for ever for a process that was killed as it waited.
        ending.poll(None)
        os._exit(1)

    threading.Thread(target=die_with_parent, daemon=True).start()


class _ChunkActor:
    """An actor of Ray that runs the chunks whose numbers it gets."""

    def __init__(self, output: str) -> None:
        self._output = output  # the model is not opened here: Ray would not say why it failed

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"documents": [_run_chunk(self._output, int(number)) for number in batch["chunk"]]}


def _run_on_ray(
    job: Job, numbers: list[int], workers: int, options: Mapping[str, Any]
) -> Iterator[int]:
    """Run chunks in actors of Ray; yield the documents of each chunk."""
    ray, data = (require(name, "The backend ray", "ray") for name in ("ray", "ray.data"))
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    data.DataContext.get_current().raise_original_map_exception = True
    if not ray.is_initialized():
        ray.init(log_to_driver=False)  # the cluster of RAY_ADDRESS, or a new local one
    rows = [{"chunk": number} for number in numbers]
    done = data.from_items(rows, override_num_blocks=min(len(rows), _BLOCKS)).map_batches(
        _ChunkActor,
        fn_constructor_args=(job.output,),
        batch_size=1,
        **{"compute": data.ActorPoolStrategy(size=workers), **options},
    )
    try:
        for row in done.iter_rows():
            yield int(row["documents"])
    except ray.exceptions.RayError as error:
        cause = error.cause if isinstance(error, ray.exceptions.RayTaskError) else error
        if isinstance(cause, ReviserError):
            raise cause from error
        raise EngineError(f"Ray stopped: {reason_of(cause)}. {CONTINUE}") from error
