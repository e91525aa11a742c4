"""Tokenizing on this machine: worker processes and a progress bar.

This module knows nothing about text or tokens. Each task runs in datatrove's executor, which logs
to files and marks the task complete. The process pool is our own, because datatrove's pool waits
forever for a worker that was killed.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext, redirect_stderr

import numpy as np

from reviser.data.pipeline import ShardPlan, progress_slot
from reviser.errors import ConfigError, DataError, MissingExtra


def run_plan(plan: ShardPlan, *, workers: int | None = None, progress: bool = False) -> None:
    """Run the tasks that are not complete; with `progress`, show a bar in a terminal."""
    try:
        from datatrove.executor import LocalPipelineExecutor
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"Tokenizing needs the train extra: {error.name} is not installed. Install it with:"
            " pip install 'reviser-lm[train]'."
        ) from error
    if workers is not None and workers < 1:
        raise ConfigError(f"workers is {workers}; it must be 1 or more.")
    executor = LocalPipelineExecutor([], tasks=len(plan.tasks), logging_dir=str(plan.logs))
    todo = executor.get_incomplete_ranks()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    processes = min(workers or cores or 1, len(todo))
    _reset_progress(plan, todo)
    with _bar(plan) if progress else nullcontext():
        try:
            if processes <= 1:
                for rank in todo:
                    run_task(plan, rank)
            else:
                _run_in_processes(plan, todo, processes, max(1, (cores or 1) // processes))
        except OSError as error:
            raise DataError(f"Cannot write to {str(plan.output)!r}: {error}.") from error


def run_task(plan: ShardPlan, rank: int) -> None:
    """Run one task, if it is not complete, without output on the console."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.utils.logging import setup_default_logger

    executor = LocalPipelineExecutor(
        plan.pipeline(), tasks=len(plan.tasks), logging_dir=str(plan.logs)
    )
    try:
        # datatrove gives sys.stderr to its logger at the start of a task. `_run_for_rank` is the
        # method that each of its executors calls for one task.
        with redirect_stderr(_Discard()):
            executor._run_for_rank(rank)
    finally:
        setup_default_logger()


def _run_in_processes(plan: ShardPlan, todo: list[int], processes: int, threads: int) -> None:
    pool = ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context("spawn"),  # a fork would copy held locks
        initializer=_begin_worker,
        initargs=(threads,),
    )
    with pool:
        try:
            for task in as_completed([pool.submit(run_task, plan, rank) for rank in todo]):
                task.result()
        except BrokenProcessPool as error:
            raise DataError(
                "A worker process died. There may not be enough memory for so many workers, or a"
                " script lacks `if __name__ == '__main__':`. Run the same command with fewer"
                " workers to continue."
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin_worker(threads: int) -> None:
    os.environ["RAYON_NUM_THREADS"] = str(threads)  # the tokenizer reads it at its first use
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # exit at once, without a traceback
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_die_after, args=(parent.join,), daemon=True).start()


def _die_after(join: Callable[[], None]) -> None:
    """Exit when the parent does, even if it was killed: a restart would write the same files."""
    join()
    os._exit(1)


class _Discard(io.TextIOBase):
    def write(self, text: str) -> int:
        return len(text)


def _reset_progress(plan: ShardPlan, todo: list[int]) -> None:
    path = plan.logs / "progress"
    sizes = np.array([sum(file.size for file in task) for task in plan.tasks], np.int64)
    sizes[todo] = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(sizes.tobytes())


@contextmanager
def _bar(plan: ShardPlan) -> Iterator[None]:
    """Show a bar on standard error, by bytes of input, with the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield
        return
    columns = (TextColumn("tokenizing"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    done = progress_slot(plan)
    total = sum(size for _, _, size in plan.sources)
    stop = threading.Event()
    with Progress(*columns, console=console, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("", total=total or None, completed=int(done.sum()))

        def follow() -> None:
            while not stop.wait(0.5):
                bar.update(task, completed=int(done.sum()))

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            bar.update(task, completed=int(done.sum()))
