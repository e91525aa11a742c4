"""Chunks in processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any

from reviser.corpus.job import Job
from reviser.corpus.worker import Worker
from reviser.errors import ConfigError, EngineError
from reviser.writing.batch import share_of_cores

_worker: Worker | None = None
"""The worker of this process, in a process of the pool."""


def run(job: Job, missing: list[int], workers: int, options: Mapping[str, Any]) -> Iterator[int]:
    """Run chunks in as many processes as there are workers; yield the documents of each."""
    del options
    if workers > 1 and job.engine != "hf":
        raise ConfigError(
            f"workers is {workers}, but engine {job.engine!r} uses the whole machine: use 1."
        )
    if workers == 1:
        with closing(Worker(job.output)) as worker:
            yield from map(worker.run, missing)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy held locks
    places = context.Queue()
    for place in range(workers):
        places.put(place)
    ending, own_end = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(places, ending)
    )

    def submit(count: int) -> set[Future[int]]:
        return {pool.submit(_run, job.output, number) for number in islice(numbers, count)}

    numbers = iter(missing)
    try:
        with share_of_cores(workers):
            waiting = submit(2 * workers)
            while waiting:  # few at a time: a corpus may have a million chunks
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                waiting |= submit(len(done))
                for future in done:
                    yield future.result()
    except BrokenProcessPool as error:
        raise EngineError(
            "A worker process was killed, maybe because there is not enough memory for so many"
            " workers. Finished chunks are kept; run the same command again to continue."
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        own_end.close()  # or this process would wait for chunks that nobody needs now
        ending.close()


def _begin(places: Any, ending: Connection) -> None:
    """Prepare a new process, which ends when the job is over or its parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # exit at once, without a traceback
    threading.Thread(target=_die_with, args=(ending,), daemon=True).start()
    os.environ["LOCAL_RANK"] = str(places.get())  # which accelerator to use, if there are several


def _die_with(ending: Connection) -> None:
    """End this process when the other end is closed.

    An event would not do: `set` waits for ever for a process that was killed while it waited.
    """
    ending.poll(None)
    os._exit(1)


def _run(output: str, number: int) -> int:
    """Run a chunk; the first one opens the model, so that its errors reach the caller."""
    global _worker
    _worker = _worker or Worker(output)
    return _worker.run(number)
