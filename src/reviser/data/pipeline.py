"""Token shards from documents: planned once, then run on this machine, on Slurm or on Ray.

This module knows tasks, restarts and the format on disk. `shards.tokenize` is the entry point on
one machine, where the processes are our own: the pool of datatrove's local executor waits forever
for a worker that was killed. On a cluster, any datatrove executor runs `ShardPlan.pipeline`.

A task reads some files in order and writes one shard. Files are grouped by size only, so the number
of workers does not change the output.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reviser.core.codec import Codec
from reviser.data.readers import Reader, Source, Tally, find_sources
from reviser.errors import ConfigError, DataError, MissingExtra
from reviser.files import claim, write_json

if TYPE_CHECKING:
    from datatrove.data import Document

FORMAT = 1
"""Version of the shards folder. A change that old code cannot read increases it."""
USUAL_TASKS = 256
"""Approximate number of tasks of a corpus that makes neither small nor large ones."""
MIN_TASK_BYTES = 2**20
"""Minimum size of a group of small files, so that many files do not make as many shards."""
MAX_TASK_BYTES = 2**30
"""Size at which a task takes no further file, so that a large corpus makes more tasks, not longer
ones."""
BATCH_CHARACTERS = 2**21
"""Characters that are tokenized at once, on all cores; a worker needs about 100 bytes for each."""


@dataclass(frozen=True, kw_only=True)
class ShardPlan:
    """The inputs, settings and output of one tokenizing run, shared by all of its tasks."""

    output: Path
    tokenizer: Path
    """The folder of the tokenizer."""
    fingerprint: str
    """Fingerprint of the tokenizer. Each task checks that the tokenizer has not changed."""
    vocabulary: int
    reader: Reader
    sources: tuple[tuple[str, int, int], ...]
    """The sources as the user named them, each with its number of files and bytes."""
    tasks: tuple[tuple[Source, ...], ...]

    @property
    def dtype(self) -> str:
        """The storage type of a token: little-endian, two bytes if all ids fit."""
        return "<u2" if self.vocabulary <= 2**16 else "<u4"

    def pipeline(self) -> list[Callable[..., Any]]:
        """Return the steps, for any datatrove executor with `tasks=len(plan.tasks)`.

        A datatrove filter can be inserted between the two.
        """
        return [ReadDocuments(self), WriteShard(self)]

    def record(self, rank: int, part: str) -> Path:
        """Return the path of a task's record, which a step writes when it is done."""
        return self.output / "tasks" / f"{rank:05d}.{part}.json"

    def is_done(self, rank: int) -> bool:
        """Return whether a task is complete."""
        return all(self.record(rank, part).is_file() for part in ("read", "shard"))

    def claim(self) -> None:
        """Write plan.json into a new output, or check that an earlier run had the same plan."""
        path = self.output / "plan.json"
        if not path.exists() and self.output.is_dir() and any(self.output.iterdir()):
            raise DataError(
                f"{str(self.output)!r} contains other files. Give a new or empty folder."
            )
        if path.exists() and ShardPlan.load(self.output).tasks != self.tasks:
            raise ConfigError(
                f"{str(self.output)!r} was begun with other files, or files of other sizes. Give"
                " another folder, or delete this one."
            )
        tasks = [[[source.name, source.size] for source in task] for task in self.tasks]
        own = {"format": FORMAT, "tokenizer": self.fingerprint, "dtype": self.dtype}
        rest = {"folder": str(self.tokenizer), "vocabulary": self.vocabulary, "given": self.sources}
        # Where the tokenizer lies and how sources are named may differ: contents are compared.
        claim(path, {**own, **asdict(self.reader), "tasks": tasks, **rest}, ignored=rest)

    @classmethod
    def load(cls, output: str | Path) -> ShardPlan:
        """Read the plan of a run that was started in this folder."""
        path = Path(output) / "plan.json"
        try:
            plan = json.loads(path.read_text(encoding="utf-8"))
            tasks = [[Source(name=name, size=n) for name, n in task] for task in plan["tasks"]]
            return cls(
                output=Path(output),
                tokenizer=Path(plan["folder"]),
                fingerprint=plan["tokenizer"],
                vocabulary=plan["vocabulary"],
                reader=Reader(**{field.name: plan[field.name] for field in fields(Reader)}),
                sources=tuple((name, files, size) for name, files, size in plan["given"]),
                tasks=tuple(map(tuple, tasks)),
            )
        except FileNotFoundError as error:
            raise DataError(f"There is no plan.json in {str(output)!r}.") from error
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"Cannot read {str(path)!r} ({error!r}). Delete its folder.") from error


def make_plan(
    sources: Sequence[str | Path],
    output: str | Path,
    tokenizer_folder: str | Path,
    *,
    reader: Reader | None = None,
) -> ShardPlan:
    """List the sources and claim the output folder, or continue a run that stopped in it."""
    codec = Codec.load(tokenizer_folder)
    found = [(str(source), find_sources(source)) for source in sources]
    if not found:
        raise DataError("There are no sources. Name files, folders, patterns or hf:NAME.")
    plan = ShardPlan(
        output=Path(output),
        tokenizer=Path(tokenizer_folder),
        fingerprint=codec.fingerprint,
        vocabulary=len(codec.token_bytes),
        reader=reader or Reader(),
        sources=tuple((name, len(files), sum(f.size for f in files)) for name, files in found),
        tasks=_grouped([file for _, files in found for file in files]),
    )
    plan.claim()
    return plan


@dataclass(frozen=True)
class ReadDocuments:
    """Pipeline step that reads the documents of one task's files, in order."""

    plan: ShardPlan

    def __call__(
        self, data: object = None, rank: int = 0, world_size: int = 1
    ) -> Iterator[Document]:
        """Yield the documents; record what was left out after the last one."""
        from datatrove.data import Document

        del data  # this step is the first of the pipeline
        tasks = self.plan.tasks
        if world_size != len(tasks):
            raise DataError(f"The executor has tasks={world_size}; give it tasks={len(tasks)}.")
        tally = Tally()
        for source in tasks[rank]:
            for n, text in enumerate(self.plan.reader.documents(source, tally)):
                yield Document(text=text, id=f"{source.name}/{n}")
        record = {"skipped": tally.skipped, "damaged": tally.damaged}
        write_json(self.plan.record(rank, "read"), record)


@dataclass(frozen=True)
class WriteShard:
    """Pipeline step that writes documents to one shard, in datatrove's format.

    The shard gets its name only once it is complete, and its record is written after that.
    """

    plan: ShardPlan

    def __call__(self, data: Iterable[Document], rank: int = 0, world_size: int = 1) -> None:
        """Tokenize and write all documents, then record what was written."""
        from datatrove.pipeline.tokens.tokenizer import TokenizedFile

        del world_size
        plan, dtype = self.plan, np.dtype(self.plan.dtype)
        codec = Codec.load(plan.tokenizer)
        if codec.fingerprint != plan.fingerprint:
            raise DataError(f"The tokenizer in {str(plan.tokenizer)!r} changed during the run.")
        name, partial = f"{rank:05d}.ds", f"{rank:05d}.ds.partial"
        file = TokenizedFile(str(plan.output), partial, token_size=dtype.itemsize)
        digest, skipped = hashlib.sha256(), Counter[str]()
        for texts in _batches(data):
            for ids in codec.encode_batch(texts):
                if not ids:  # for example a text of which a normalizer drops everything
                    skipped["empty"] += 1
                    continue
                tokens = np.array(ids, dtype).tobytes()
                digest.update(tokens)
                file.write_bytes(tokens)
        file.close()
        digest.update(np.array(file.doc_ends, "<u8").tobytes())
        shard = {"name": name, "tokens": len(file), "documents": len(file.doc_ends)}
        if not file.doc_ends:
            file.cleanup()
        else:
            for end in ("", ".index"):
                (plan.output / f"{partial}{end}").replace(plan.output / f"{name}{end}")
        shard["sha256"] = digest.hexdigest()
        write_json(plan.record(rank, "shard"), {"shard": shard, "skipped": skipped})


def run_plan(plan: ShardPlan, *, workers: int | None = None, progress: bool = False) -> None:
    """Run the tasks that are not complete; with `progress`, show a bar in a terminal."""
    from rich.console import Console
    from rich.progress import track

    if workers is not None and workers < 1:
        raise ConfigError(f"workers is {workers}; it must be 1 or more.")
    todo = [rank for rank in range(len(plan.tasks)) if not plan.is_done(rank)]
    console = Console(file=sys.stderr)
    is_hidden = not (progress and console.is_terminal)
    try:
        done = _run_tasks(plan, todo, workers)
        for _ in track(done, "tokenizing", len(todo), console=console, disable=is_hidden):
            pass
    except OSError as error:
        raise DataError(f"Cannot write to {str(plan.output)!r}: {error}.") from error
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"Tokenizing needs the train extra: {error.name} is not installed. Install it with:"
            " pip install 'reviser-lm[train]'."
        ) from error


def _run_tasks(plan: ShardPlan, todo: Sequence[int], workers: int | None) -> Iterator[None]:
    """Run tasks, in processes of their own if there is more than one worker."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    processes = min(workers or cores or 1, len(todo))
    if processes <= 1:
        for rank in todo:
            _run_task(plan, rank)
            yield
        return
    pool = ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context("spawn"),  # a fork would copy held locks
        initializer=_begin_worker,
        initargs=(max(1, (cores or 1) // processes),),
    )
    with pool:
        try:
            for task in as_completed([pool.submit(_run_task, plan, rank) for rank in todo]):
                yield task.result()
        except BrokenProcessPool as error:
            raise DataError(
                "A worker process died. There may not be enough memory for so many workers, or a"
                " script lacks `if __name__ == '__main__':`. Run the same command with fewer"
                " workers to continue."
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _run_task(plan: ShardPlan, rank: int) -> None:
    data = None
    for step in plan.pipeline():
        data = step(data, rank, len(plan.tasks))


def _begin_worker(threads: int) -> None:
    os.environ["RAYON_NUM_THREADS"] = str(threads)  # the tokenizer reads it at its first use
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # exit at once, without a traceback
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """Exit when the parent does, even if it was killed: a restart would write the same files."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _batches(documents: Iterable[Document]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for document in documents:
        batch.append(document.text)
        size += len(document.text)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _grouped(files: Sequence[Source]) -> tuple[tuple[Source, ...], ...]:
    """Group neighbouring files until each group is a fair share of all bytes."""
    usual = sum(file.size for file in files) // USUAL_TASKS
    share = max(MIN_TASK_BYTES, min(usual, MAX_TASK_BYTES))
    groups: list[list[Source]] = []
    size = share
    for file in files:
        if size >= share or file.kind == "hf":  # a dataset is its own group: its size is unknown
            groups.append([])
            size = 0
        groups[-1].append(file)
        size = share if file.kind == "hf" else size + file.size
    return tuple(tuple(group) for group in groups)
