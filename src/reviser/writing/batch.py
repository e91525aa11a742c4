"""Batch files: JSON lines with tasks in, JSON lines with results out, of any length, restartable.

Each worker is a process. It takes every n-th line and appends to a file of its own, in order, so
the number of lines in that file says where to continue. When all lines are done, the files are
merged into the output, line by line in the order of the input.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import chain, cycle, islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, cast

from reviser.errors import ConfigError, DataError, EngineError, ReviserError, nearest_path
from reviser.files import bounded_lines, claim, lock, read_object, sync, sync_folder
from reviser.models import adapters
from reviser.writing.lines import MAX_LINE_BYTES, parse_line, plan_line
from reviser.writing.model import Reviser, load
from reviser.writing.plan import Plan
from reviser.writing.running import run_plans

MERGED = "merged"
CLAIM = "job.json"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A batch job: its input and output files, the model and the settings."""

    input: Path
    """JSON lines with a `prompt`, or a text to `infill` and maybe its `spans`. Lines to revise have
    a `draft`, or the `before` of a pair, and maybe an `instruction` and `locked` text. Every line
    may have an `id` and its own `settings`."""
    output: Path
    """JSON lines: the rollout or revision of each line, or its error."""
    model: str
    engine: str = "hf"
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the engine."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Decoding settings. Line n adds n to the seed, so the number of workers changes nothing."""
    is_revision: bool = False
    """True if the lines are drafts; then settings may hold the options of `Revise` too."""
    workers: int = 1

    @property
    def folder(self) -> Path:
        """Folder of the workers' files while the job runs."""
        return self.output.with_name(self.output.name + ".parts")

    def part(self, worker: int) -> Path:
        """Return the file of a worker."""
        return self.folder / f"{worker}.jsonl"


def run(job: Job, progress: Callable[[int, int], None] = lambda *_: None) -> tuple[int, int]:
    """Run a job, from where an earlier run stopped; return the number of lines and of errors.

    `progress` is called with the number of finished lines and the number of all lines.
    """
    total = count_lines(job.input)
    if job.input.resolve() == job.output.resolve():
        raise ConfigError(f"{str(job.input)!r} is both input and output: name another output.")
    _check_output(job)  # before anything is made, and again when we are alone
    if job.workers > 1 and job.engine != "hf":
        raise ConfigError(
            f"workers is {job.workers}, but engine {job.engine!r} uses the whole machine: use 1."
        )
    with _writing(job):
        job.folder.mkdir(parents=True, exist_ok=True)
    with lock(job.folder / "lock", f"Another process is writing {str(job.output)!r}."):
        _check_output(job)
        _claim(job)
        if job.workers == 1:
            for done in work(job, 0):
                progress(done, total)
        else:
            _work_together(job, lambda done: progress(done, total))
        with _writing(job):
            counts = _merge(job)
        if counts[0] != total:
            raise DataError(f"{str(job.folder)!r} lacks lines: another process wrote there.")
        with _writing(job):
            (job.folder / MERGED).replace(job.output)
            sync_folder(job.output.parent)  # before the parts are gone
    shutil.rmtree(job.folder)  # after the lock: Windows deletes no file that is open
    return counts


@contextmanager
def _writing(job: Job) -> Iterator[None]:
    """Turn what the system says about a file of the job, such as a full disk, into an error."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"Cannot write {str(job.output)!r}: {error.strerror}. Finished lines are kept in"
            f" {str(job.folder)!r}; run the same command again to continue."
        ) from error


def count_lines(path: Path) -> int:
    """Return the number of lines of a file."""
    if not path.is_file():
        raise DataError(f"There is no file {str(path)!r}.{nearest_path(path)}")
    count, last = 0, b"\n"
    with path.open("rb") as file:  # in blocks: one line may be larger than the memory
        while block := file.read(1 << 20):
            count, last = count + block.count(b"\n"), block[-1:]
    return count + (last != b"\n")


def work(job: Job, worker: int) -> Iterator[int]:
    """Write one worker's file to its end; yield the number of its finished lines as it grows."""
    part = job.part(worker)
    # A worker may outlive a parent that was killed by about a line: wait for its end.
    with lock(part.with_suffix(".lock")), job.input.open("rb") as file:
        with _writing(job):
            done = _cut_to_whole_lines(job, worker)
        yield done
        every = enumerate(bounded_lines(file, MAX_LINE_BYTES))
        lines = islice(every, worker + done * job.workers, None, job.workers)
        first = next(lines, None)
        if first is None:
            return
        with load(job.model, engine=job.engine, **job.options) as model:
            model.provenance |= {"weights": read_object(job.folder / CLAIM)["weights"]}
            for record in _records(model, job, chain([first], lines)):
                with _writing(job), part.open("ab") as out:
                    out.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
                done += 1
                yield done


def _records(
    model: Reviser, job: Job, lines: Iterator[tuple[int, bytes | None]]
) -> Iterator[dict[str, Any]]:
    """Yield the record of each line, in order: its number and id, and the result or the error."""
    records: deque[dict[str, Any]] = deque()

    def plans() -> Iterator[Plan | ReviserError]:
        for n, line in lines:
            record: dict[str, Any] = {"line": n + 1}
            records.append(record)
            try:
                yield _plan(model, job, n, line, record)
            except ReviserError as error:
                yield error

    for result in run_plans(plans(), model.driver, model.provenance, on_error="return"):
        is_error = isinstance(result, ReviserError)
        yield records.popleft() | ({"error": str(result)} if is_error else result.to_dict())


def _plan(model: Reviser, job: Job, n: int, line: bytes | None, record: dict[str, Any]) -> Plan:
    """Return the plan of a line, and put its id into its record."""
    values = parse_line(line)
    if isinstance(values, dict) and "id" in values:
        record["id"] = values["id"]
    return plan_line(model, values, n, settings=job.settings, is_revision=job.is_revision)


def _work_together(job: Job, progress: Callable[[int], None]) -> None:
    """Run each worker in a process; the first failure ends all of them."""
    context = multiprocessing.get_context("spawn")
    workers: dict[Any, int] = {}  # by the receiving end of their pipe
    processes: list[Any] = []
    done = [0] * job.workers
    try:
        for worker in range(job.workers):
            pipe, sender = context.Pipe(duplex=False)
            workers[pipe] = worker
            process = context.Process(target=_work_alone, args=(job, worker, sender), daemon=True)
            with share_of_cores(job.workers):
                process.start()
            processes.append(process)
            sender.close()  # our copy: the receiver then notices the end of the process
        while workers:
            for ready in wait(list(workers)):
                receiver = cast("Connection", ready)
                worker = workers[receiver]
                try:
                    message = receiver.recv()
                except EOFError:
                    message = "its process was killed."
                if isinstance(message, str):
                    raise EngineError(f"Worker {worker + 1} of {job.workers} failed: {message}")
                if message is None:
                    del workers[receiver]
                else:
                    done[worker] = message
                    progress(sum(done))
    finally:
        for process in processes:
            process.terminate()
            process.join()


@contextmanager
def share_of_cores(workers: int) -> Iterator[None]:
    """Give processes that start meanwhile their share of the cores, unless the user did."""
    name = "OMP_NUM_THREADS"
    is_set = name in os.environ
    os.environ.setdefault(name, str(max(1, (os.cpu_count() or 1) // workers)))
    try:
        yield
    finally:
        if not is_set:
            del os.environ[name]


def _work_alone(job: Job, worker: int, sender: Connection) -> None:
    """Run a worker; send the number of finished lines, None at the end, a sentence on failure."""
    os.environ["LOCAL_RANK"] = str(worker)  # which accelerator to use, if there are several
    try:
        for done in work(job, worker):
            sender.send(done)
        sender.send(None)
    except ReviserError as error:
        sender.send(str(error))
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the parent reports it
        sender.send(f"{type(error).__name__}: {error}")


def _cut_to_whole_lines(job: Job, worker: int) -> int:
    """Cut a part where its lines end, or are damaged; return the number of lines that are left.

    A kill may cut the last line off, and a power cut may leave zeros in place of the last ones.
    """
    count = size = 0
    with job.part(worker).open("a+b") as file:
        file.seek(0)
        for line in file:
            begin = b'{"line": %d' % (worker + 1 + count * job.workers)
            if not line.startswith((begin + b",", begin + b"}")) or not line.endswith(b"}\n"):
                break
            if b"\0" in line:
                break
            count, size = count + 1, size + len(line)
        file.truncate(size)
    return count


def _merge(job: Job) -> tuple[int, int]:
    """Merge the workers' files in the order of the input; count lines and errors."""
    lines = failed = 0
    with ExitStack() as stack, (job.folder / MERGED).open("wb") as out:
        parts = [stack.enter_context(job.part(n).open("rb")) for n in range(job.workers)]
        for part in cycle(parts):
            line = part.readline()
            if not line:
                break
            lines += 1
            try:
                record = json.loads(line)
                is_damaged = record["line"] != lines
            except (ValueError, TypeError, KeyError, RecursionError):
                is_damaged = True
            if is_damaged:
                number = (lines - 1) // job.workers + 1
                raise DataError(
                    f"Line {number} of {part.name!r} is damaged. Delete it and all lines after it,"
                    " and run the same command again."
                )
            out.write(line)
            failed += "error" in record
        sync(out)
    return lines, failed


def _check_output(job: Job) -> None:
    if job.output.exists():
        raise ConfigError(f"{str(job.output)!r} exists already: delete it, or name another output.")


MACHINE_OPTIONS = ("api_key", "base", "rows", "timeout", "url")
"""Options that do not change what is written, or not by their names: the weights are compared."""


def _claim(job: Job) -> None:
    """Refuse to continue a job with another input, model or settings than it was begun with."""
    manifest = {k: v for k, v in asdict(job).items() if k not in ("input", "output")}
    manifest["options"] = {k: v for k, v in job.options.items() if k not in MACHINE_OPTIONS}
    with job.input.open("rb") as file:
        manifest["input"] = hashlib.file_digest(file, "sha256").hexdigest()
    path = job.folder / CLAIM
    if not any(part.stat().st_size for part in job.folder.glob("*.jsonl")):
        path.unlink(missing_ok=True)  # nothing was written yet
    if path.is_file():  # before gigabytes of weights are read
        claim(path, manifest, ignored=["weights"])
    weights = adapters.fingerprint(
        job.model, base=job.options.get("base"), is_remote="url" in job.options
    )
    claim(path, manifest | {"weights": weights})
