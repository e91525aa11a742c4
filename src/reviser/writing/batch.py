"""Files of prompts or drafts in, files of rollouts or revisions out: of any length, restartable.

Each worker, a process of its own, takes every n-th line and appends to a part of its own, in order
and line by line, so the number of lines in a part says where to go on. Once all are there the parts
become the output, line for line that of the input.
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
from typing import Any

from reviser.engines.settings import SETTINGS, DecodeConfig
from reviser.errors import ConfigError, DataError, EngineError, ReviserError
from reviser.files import lock, write_json
from reviser.writing.model import Reviser, load
from reviser.writing.plan import Plan
from reviser.writing.tasks import task_from_dict

MERGED = "merged"


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to write, from where, to where and with what."""

    input: Path
    """JSON lines: a `prompt` or a text to `infill`; an `id` and own `settings` if wanted. To be
    revised, a `draft` or the `before` of a pair; an `instruction` and what is `locked` if wanted.
    """
    output: Path
    """JSON lines: the rollout or revision of each, or the error it met."""
    model: str
    engine: str = "hf"
    options: dict[str, Any] = field(default_factory=dict)
    """Of the engine."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Of decoding; line n adds n to the seed, so the number of workers changes nothing."""
    is_revision: bool = False
    """Whether the lines are drafts; then settings hold the options of `revise` too."""
    workers: int = 1

    @property
    def folder(self) -> Path:
        """Where the parts are while it runs."""
        return self.output.with_name(self.output.name + ".parts")

    def part(self, worker: int) -> Path:
        """What a worker has written."""
        return self.folder / f"{worker}.jsonl"


def run(job: Job, progress: Callable[[int, int], None] = lambda *_: None) -> tuple[int, int]:
    """Write the rollouts, from where an earlier run stopped; lines written, and met by an error.

    `progress` is told how many lines are done, and of how many.
    """
    total = count_lines(job.input)
    if job.input.resolve() == job.output.resolve():
        raise ConfigError(f"{str(job.input)!r} is both input and output: name another output.")
    _check_output(job)  # before anything is made, and again when we are alone
    if job.workers > 1 and job.engine != "hf":
        raise ConfigError(f"workers is {job.workers}, but {job.engine} fills the machine with 1.")
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"Cannot write {str(job.output)!r}: {error.strerror}.") from error
    with lock(job.folder / "lock", f"Another process is writing {str(job.output)!r}."):
        _check_output(job)
        _check_claim(job)
        if job.workers == 1:
            for done in work(job, 0):
                progress(done, total)
        else:
            _work_together(job, lambda done: progress(done, total))
        counts = _merge(job)
        if counts[0] != total:
            raise DataError(f"{str(job.folder)!r} lacks lines: another process wrote there.")
        (job.folder / MERGED).replace(job.output)
        shutil.rmtree(job.folder)
    return counts


def count_lines(path: Path) -> int:
    """How many lines a file of prompts has."""
    if not path.is_file():
        raise DataError(f"There is no file {str(path)!r}.")
    with path.open("rb") as file:
        return sum(1 for _ in file)


def work(job: Job, worker: int) -> Iterator[int]:
    """Write one worker's part to its end; how many of its lines are done, again and again."""
    part = job.part(worker)
    # A worker may outlive a parent that was killed, for a line or so: wait for its end.
    with (
        lock(part.with_suffix(".lock")),
        job.input.open("rb") as file,
        part.open("ab") as out,
    ):
        done = _cut_to_whole_lines(part)
        yield done
        lines = islice(enumerate(file), worker + done * job.workers, None, job.workers)
        first = next(lines, None)
        if first is None:
            return
        model = load(job.model, engine=job.engine, **job.options)
        for record in _records(model, job, chain([first], lines)):
            out.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
            out.flush()
            done += 1
            yield done


def _records(
    model: Reviser, job: Job, lines: Iterator[tuple[int, bytes]]
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

    for result in model.run_plans(plans(), on_error="return"):
        is_error = isinstance(result, ReviserError)
        yield records.popleft() | ({"error": str(result)} if is_error else result.to_dict())


_TEXTS = {False: ("prompt", "infill"), True: ("draft", "before")}
_OTHERS = {False: ("spans",), True: ("instruction", "locked")}
"""Fields of a line besides its text, by whether it is to be revised; others are ignored."""


def _plan(model: Reviser, job: Job, n: int, line: bytes, record: dict[str, Any]) -> Plan:
    """Return the plan of a line: the task that its fields describe, with its own settings."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"This line is not JSON: {error}.") from error
    names = _TEXTS[job.is_revision]
    if not isinstance(values, dict) or sum(name in values for name in names) != 1:
        raise DataError(f"A line must be an object with either a {names[0]!r} or a {names[1]!r}.")
    if "id" in values:
        record["id"] = values["id"]
    own = values.get("settings", {})
    if not isinstance(own, dict):
        raise DataError("The 'settings' of a line must be an object.")
    if misplaced := sorted(values.keys() & SETTINGS.keys()):
        raise DataError(f"Put {', '.join(misplaced)} of a line into its 'settings'.")
    settings = job.settings | own
    used = (*names, *_OTHERS[job.is_revision])
    fields = {name: values[name] for name in used if values.get(name) is not None}
    if job.is_revision:  # its options may stand among the settings
        fields |= {name: settings.pop(name) for name in settings.keys() - SETTINGS.keys()}
    task = task_from_dict(fields)
    config = DecodeConfig.of(settings, task.default_config)
    return model.plan(task, config if "seed" in own else config.with_seed_offset(n))


def _work_together(job: Job, progress: Callable[[int], None]) -> None:
    """Run the workers in processes of their own; the first that fails ends all."""
    context = multiprocessing.get_context("spawn")
    news: dict[Any, int] = {}
    processes: list[Any] = []
    done = [0] * job.workers
    try:
        for worker in range(job.workers):
            end, mouth = context.Pipe(duplex=False)
            news[end] = worker
            process = context.Process(target=_tell, args=(job, worker, mouth), daemon=True)
            with _environment(OMP_NUM_THREADS=str(max(1, (os.cpu_count() or 1) // job.workers))):
                process.start()
            processes.append(process)
            mouth.close()  # ours, so that the ear hears the end of the process
        while news:
            for heard in wait(list(news)):
                ear: Any = heard
                try:
                    told = ear.recv()
                except EOFError:
                    told = "its process was killed."
                if isinstance(told, str):
                    raise EngineError(f"Worker {news[ear] + 1} of {job.workers} failed: {told}")
                if told is None:
                    del news[ear]
                else:
                    done[news[ear]] = told
                    progress(sum(done))
    finally:
        for process in processes:
            process.terminate()
            process.join()


@contextmanager
def _environment(**defaults: str) -> Iterator[None]:
    """Variables for processes that start meanwhile, where they are not set."""
    before = dict(os.environ)
    os.environ.update(defaults | before)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _tell(job: Job, worker: int, mouth: Connection) -> None:
    """One worker's process: numbers while it goes on, None at the end, a sentence if it fails."""
    os.environ["LOCAL_RANK"] = str(worker)  # which accelerator to use, if there are several
    try:
        for done in work(job, worker):
            mouth.send(done)
        mouth.send(None)
    except ReviserError as error:
        mouth.send(str(error))
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # told by the parent
        mouth.send(f"{type(error).__name__}: {error}")


def _cut_to_whole_lines(part: Path) -> int:
    """Drop the line that a kill cut in two; how many are left."""
    count = size = 0
    with part.open("r+b") as file:
        for line in file:
            if line.endswith(b"\n"):
                count, size = count + 1, size + len(line)
        file.truncate(size)
    return count


def _merge(job: Job) -> tuple[int, int]:
    """The parts become the output, in the order of the input."""
    lines = failed = 0
    with ExitStack() as stack, (job.folder / MERGED).open("wb") as out:
        parts = [stack.enter_context(job.part(n).open("rb")) for n in range(job.workers)]
        for part in cycle(parts):
            line = part.readline()
            if not line:
                break
            record = json.loads(line)
            lines += 1
            if record["line"] != lines:
                raise DataError(f"{str(job.folder)!r} is damaged: delete it and begin anew.")
            out.write(line)
            failed += "error" in record
    return lines, failed


def _check_output(job: Job) -> None:
    if job.output.exists():
        raise ConfigError(f"{str(job.output)!r} is there already: delete it or name another.")


_OF_THE_MACHINE = ("api_key", "rows", "timeout", "url")
"""Options of an engine that change nothing in what is written."""


def _check_claim(job: Job) -> None:
    """A job goes on only as it was begun."""
    claim = {k: v for k, v in asdict(job).items() if k not in ("input", "output")}
    claim["options"] = {k: v for k, v in job.options.items() if k not in _OF_THE_MACHINE}
    with job.input.open("rb") as file:
        claim["input"] = hashlib.file_digest(file, "sha256").hexdigest()
    claim = json.loads(json.dumps(claim))
    path = job.folder / "job.json"
    has_begun = any(part.stat().st_size for part in job.folder.glob("*.jsonl"))
    if not (path.is_file() and has_begun):
        write_json(path, claim)
        return
    before = json.loads(path.read_text("utf-8"))
    changed = [name for name in claim if claim[name] != before.get(name)]
    if changed:
        raise ConfigError(
            f"{str(job.output)!r} was begun with a job that differs in {', '.join(changed)}. Go on"
            f" with the same, or delete {str(job.folder)!r} to begin anew."
        )
