"""Running a job, or a part of one: on this machine, or on a Ray cluster.

Each of them runs the chunks whose files are missing. `run` may be called again at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reviser.corpus import local, on_ray
from reviser.corpus.job import DONE, Job, Scheduler
from reviser.corpus.results import Counts, count, finish
from reviser.errors import ConfigError, EngineError

Run = Callable[[Job, list[int], int, Mapping[str, Any]], Iterator[int]]
_RUNS: dict[Scheduler, Run] = {"local": local.run, "ray": on_ray.run}


def run(
    job: Job,
    *,
    on: Scheduler = "local",
    workers: int = 1,
    options: Mapping[str, Any] | None = None,
    part: tuple[int, int] = (1, 1),
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Counts:
    """Run the chunks of a job that are not done; return the counts of the whole job.

    A part that finds other parts unfinished returns its own counts.

    Args:
        job: The job, from `begin`.
        on: Where to run it.
        workers: Number of processes that each open the model.
        options: Options of the scheduler: those of Ray's `map_batches`, such as `num_gpus`.
        part: K and N run every N-th chunk, from the K-th one on. Parts can run at the same time, on
            machines that know nothing of each other.
        progress: Called with the number of finished documents and of all documents.
    """
    if workers < 1:
        raise ConfigError(f"workers is {workers}; it must be 1 or more.")
    if options and on == "local":
        raise ConfigError(f"A local run has no options; got {', '.join(options)}.")
    own = range(part[0] - 1, job.chunks, part[1])
    missing = sorted({*job.missing()} & {*own})
    documents = job.size(own)
    done = documents - job.size(missing)
    progress(done, documents)
    if missing:
        job.folder.remove(DONE)  # somebody deleted results to have them made again
        for finished in _RUNS[on](job, missing, min(workers, len(missing)), options or {}):
            done += finished
            progress(done, documents)
    missing = job.missing()
    if left := {*missing} & {*own}:
        raise EngineError(
            f"{len(left):,} of {len(own):,} chunks are not done. Run the same command again to do"
            " them."
        )
    return count(job, own) if missing else finish(job)
