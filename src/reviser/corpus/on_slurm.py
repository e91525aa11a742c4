"""Chunks as a Slurm array: `sbatch` submits the tasks, and each runs its share of the chunks.

`python -m reviser.corpus.on_slurm OUTPUT` is one task of the array. Slurm says which.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reviser.corpus.job import Job
from reviser.corpus.storage import Folder
from reviser.corpus.worker import work
from reviser.errors import ConfigError, EngineError

_TODO = "_todo.json"
"""The chunks of an array. All of its tasks must share out the same list."""


def run(job: Job, missing: list[int], workers: int, options: Mapping[str, Any]) -> Iterator[int]:
    """Submit arrays until all chunks are done; yield the documents that each of them did.

    A task that was killed leaves chunks, which the next array shares out among all its tasks.
    """
    if shutil.which("sbatch") is None:
        raise ConfigError(
            "There is no sbatch here. Run this command where you submit Slurm jobs, or choose"
            " --on local."
        )
    while missing:
        job.folder.write_json(_TODO, missing)
        log = submit(job, min(workers, len(missing)), options)
        left = job.missing()
        if left == missing:
            raise EngineError(
                f"No task of the Slurm array finished a chunk. The reason is in {log}. Run the same"
                " command again to continue."
            )
        finished = set(missing) - set(left)
        yield sum(chunk.stop - chunk.start for chunk in map(job.chunk, sorted(finished)))
        missing = left
    job.folder.remove(_TODO)


def submit(job: Job, tasks: int, options: Mapping[str, Any]) -> str:
    """Submit an array and wait for its end; return where its logs are."""
    logs = Path(job.output, "_logs") if job.folder.is_local else Path.cwd()
    logs.mkdir(parents=True, exist_ok=True)  # Slurm does not make it
    given = {"job-name": "reviser", "output": f"{logs}/%A_%a.log", **options}
    task = shlex.join([sys.executable, "-m", "reviser.corpus.on_slurm", job.output])
    words = ["sbatch", "--wait", "--parsable", f"--array=0-{tasks - 1}"]
    words += [
        f"--{name}" if value is True else f"--{name}={value}" for name, value in given.items()
    ]
    # Its exit status is that of the tasks; the files say what is done.
    asked = subprocess.run([*words, "--wrap", f"exec {task}"], capture_output=True, text=True)
    if not asked.stdout.strip():  # no number: it was refused
        raise ConfigError(f"sbatch refused the array: {asked.stderr.strip()[:300]}")
    return str(logs)


def main() -> None:
    """Run the share of one task of an array."""
    (output,) = sys.argv[1:]
    task, tasks = (int(os.environ[f"SLURM_ARRAY_TASK_{name}"]) for name in ("ID", "COUNT"))
    for _ in work(output, task, tasks, Folder(output).read_json(_TODO)):
        pass


if __name__ == "__main__":
    main()
