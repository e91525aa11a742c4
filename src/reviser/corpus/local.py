"""Chunks in processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from typing import Any

from reviser.corpus.job import Job
from reviser.corpus.worker import Worker, work
from reviser.errors import ConfigError, EngineError

_worker: Worker
"""The worker of this process, in a process of the pool."""


def run(job: Job, missing: list[int], workers: int, options: Mapping[str, Any]) -> Iterator[int]:
    """Run chunks in as many processes as there are workers; yield the documents of each."""
    del options
    if workers > 1 and job.engine != "hf":
        raise ConfigError(
            f"workers is {workers}, but engine {job.engine!r} uses the whole machine: use 1."
        )
    if workers == 1:
        yield from work(job.output, 0, 1, missing)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy held locks
    places = context.Queue()
    for place in range(workers):
        places.put(place)
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(job.output, places)
    )
    numbers = iter(missing)
    try:
        with _threads(max(1, (os.cpu_count() or 1) // workers)):
            waiting: set[Future[int]] = {pool.submit(_run, n) for n in islice(numbers, 2 * workers)}
            while waiting:  # few at a time: a corpus may have a million chunks
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                waiting |= {pool.submit(_run, n) for n in islice(numbers, len(done))}
                for future in done:
                    yield future.result()
    except BrokenProcessPool as error:
        raise EngineError(
            "A worker process was killed, maybe because there is not enough memory for so many"
            " workers. Finished chunks are kept; run the same command again to continue."
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _begin(output: str, places: Any) -> None:
    """Open the model in a new process, which ends when its parent does."""
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # exit at once, without a traceback
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_die_after, args=(parent,), daemon=True).start()
    os.environ["LOCAL_RANK"] = str(places.get())  # which accelerator to use, if there are several
    _worker = Worker(output)


def _die_after(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _run(number: int) -> int:
    return _worker.run(number)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Give processes that start meanwhile their share of the cores, unless the user did."""
    name = "OMP_NUM_THREADS"
    is_set = name in os.environ
    os.environ.setdefault(name, str(count))
    try:
        yield
    finally:
        if not is_set:
            del os.environ[name]
