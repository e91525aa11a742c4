"""Running a job: on this machine, on a Ray cluster, or as a Slurm array.

Each of them runs the chunks whose files are missing. `run` may be called again at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reviser.corpus import local, on_ray, on_slurm
from reviser.corpus.job import DONE, Job, Scheduler
from reviser.corpus.results import Counts, finish
from reviser.errors import ConfigError, EngineError

Run = Callable[[Job, list[int], int, Mapping[str, Any]], Iterator[int]]
_RUNS: dict[Scheduler, Run] = {"local": local.run, "ray": on_ray.run, "slurm": on_slurm.run}


def run(
    job: Job,
    *,
    on: Scheduler = "local",
    workers: int = 1,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Counts:
    """Run the chunks of a job that are not done; return the counts of the whole job.

    Args:
        job: The job, from `begin`.
        on: Where to run it.
        workers: Number of processes that each open the model.
        options: Options of the scheduler: those of Ray's `map_batches`, such as `num_gpus`, or
            those of `sbatch`, such as `partition`.
        progress: Called with the number of finished documents and of all documents.
    """
    if workers < 1:
        raise ConfigError(f"workers is {workers}; it must be 1 or more.")
    if options and on == "local":
        raise ConfigError(f"A local run has no options; got {', '.join(options)}.")
    missing = job.missing()
    left = sum(chunk.stop - chunk.start for chunk in map(job.chunk, missing))
    done = job.documents - left
    progress(done, job.documents)
    if missing:
        job.folder.remove(DONE)  # somebody deleted results to have them made again
        for documents in _RUNS[on](job, missing, min(workers, len(missing)), options or {}):
            done += documents
            progress(done, job.documents)
        if missing := job.missing():
            raise EngineError(
                f"{len(missing):,} of {job.chunks:,} chunks are not done. Run the same command"
                " again to do them."
            )
    return finish(job)
