"""Token shards from documents, as a datatrove pipeline: planned once, run locally, on Slurm or Ray.

This module knows tasks, restarts and the format on disk. datatrove provides the executors, the log
files and the format. `shards.tokenize` is the entry point on one machine.

A task reads some files in order and writes one shard. Files are grouped by size only, and a file
that is larger than any task is cut between documents, so the number of workers does not change the
output.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reviser.core.codec import Codec
from reviser.data.parts import split_source
from reviser.data.readers import Reader, Source, Tally, find_sources
from reviser.errors import ConfigError, DataError
from reviser.files import claim, write_json

if TYPE_CHECKING:
    from datatrove.data import Document

FORMAT = 1
"""Version of the shards folder. A change that old code cannot read increases it."""
USUAL_TASKS = 256
"""Approximate number of tasks of a corpus that makes neither small nor large ones."""
LEAST_TASK_BYTES = 2**20
"""Minimum size of a group of small files, so that many files do not make as many shards."""
MOST_TASK_BYTES = 2**30
"""Approximate maximum size of a task, so that a large corpus makes more tasks, not longer ones."""
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

    @property
    def logs(self) -> Path:
        """The folder of datatrove's logs and its list of complete tasks."""
        return self.output / "logs"

    def pipeline(self) -> list[Callable[..., Any]]:
        """Return the steps, for any datatrove executor with `tasks=len(plan.tasks)`.

        A datatrove filter can be inserted between the two.
        """
        return [ReadDocuments(self), WriteShard(self)]

    def record(self, rank: int, part: str) -> Path:
        """Return the path of a task's record, which a step writes when it is done."""
        return self.output / "tasks" / f"{rank:05d}.{part}.json"

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
        tasks = [[_as_list(source) for source in task] for task in self.tasks]
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
            tasks = [[_as_source(*source) for source in task] for task in plan["tasks"]]
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


def _as_list(source: Source) -> list[Any]:
    """Return a source as plan.json has it; only a part of a file has a third value."""
    return [source.name, source.size, *([list(source.part)] if source.part else [])]


def _as_source(name: str, size: int, part: Sequence[int] | None = None) -> Source:
    return Source(name=name, size=size, part=(part[0], part[1]) if part else None)


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
        tasks=_grouped(
            [
                part
                for _, files in found
                for file in files
                for part in split_source(file, MOST_TASK_BYTES, (reader or Reader()).split)
            ]
        ),
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
        tally, finished, progress = Tally(), 0, progress_slot(self.plan, rank)
        for source in tasks[rank]:
            for n, text in enumerate(self.plan.reader.documents(source, tally)):
                progress[0] = finished + tally.position
                yield Document(text=text, id=f"{source.label}/{n}")
            finished += source.size
            progress[0] = finished
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


def progress_slot(plan: ShardPlan, rank: int | None = None) -> npt.NDArray[np.int64]:
    """Return the bytes that tasks have read, mapped from a file that all local processes share.

    On a cluster there is no such file, and the result is a number that nothing reads.
    """
    path = plan.logs / "progress"
    if not path.is_file():
        return np.zeros(1, np.int64)
    slots = np.memmap(path, np.int64, "r+")
    return slots if rank is None else slots[rank : rank + 1]


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
    share = max(LEAST_TASK_BYTES, min(usual, MOST_TASK_BYTES))
    groups: list[list[Source]] = []
    size = share
    for file in files:
        if size >= share or file.kind == "hf":  # a dataset is its own group: its size is unknown
            groups.append([])
            size = 0
        groups[-1].append(file)
        size = share if file.kind == "hf" else size + file.size
    return tuple(tuple(group) for group in groups)
