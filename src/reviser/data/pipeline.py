"""Documents to token shards as a datatrove pipeline: planned once, run here, on Slurm or on Ray.

Knows tasks, restarts and the format on disk; nothing of what is trained on it. datatrove brings
the executors, the log files and the format; `shards.tokenize` is the way in on one machine.

A task reads some files, in order, and writes one shard; a file is never shared by tasks, so one
big file is one task. How files are grouped depends on their sizes only: the number of workers
changes nothing in the output.
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
from reviser.data.readers import Reader, Source, Tally, find_sources
from reviser.errors import DataError
from reviser.files import write_json

if TYPE_CHECKING:
    from datatrove.data import Document

FORMAT = 1
"""Of the shards folder. A change that old code cannot read raises it."""
MOST_TASKS = 256
"""About: more files than this are grouped. A reader keeps two maps per shard open."""
LEAST_TASK_BYTES = 2**20
"""Small files are grouped until they have this size, so that a thousand make no thousand shards."""
BATCH_CHARACTERS = 2**21
"""Text that is tokenized at once, on all cores; a worker needs some 100 bytes for each."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one run reads, how, and where it writes; the same for every task of it."""

    output: Path
    tokenizer: Path
    """The folder of the tokenizer."""
    fingerprint: str
    """Of the tokenizer: each task checks that it still finds this one."""
    vocabulary: int
    reader: Reader
    given: tuple[tuple[str, int, int], ...]
    """Sources as they were given, each with its number of files and their bytes."""
    tasks: tuple[tuple[Source, ...], ...]

    @property
    def dtype(self) -> str:
        """How a token is stored: little-endian, in two bytes if all ids fit."""
        return "<u2" if self.vocabulary <= 2**16 else "<u4"

    @property
    def logs(self) -> Path:
        """Where datatrove keeps its logs and which tasks are complete."""
        return self.output / "logs"

    def pipeline(self) -> list[Callable[..., Any]]:
        """The steps, for any datatrove executor with `tasks=len(plan.tasks)`.

        A filter of datatrove's may go between the two.
        """
        return [ReadDocuments(self), WriteShard(self)]

    def record(self, rank: int, part: str) -> Path:
        """Where a task notes what it did."""
        return self.output / "tasks" / f"{rank:05d}.{part}.json"

    def settings(self) -> dict[str, Any]:
        """All that decides what the shards hold."""
        tasks = [[[source.name, source.size] for source in task] for task in self.tasks]
        own = {"format": FORMAT, "tokenizer": self.fingerprint, "dtype": self.dtype}
        return {**own, **asdict(self.reader), "tasks": tasks}

    def save(self) -> None:
        """Write plan.json, which a restart is compared with and the manifest made from."""
        rest = {"folder": str(self.tokenizer), "vocabulary": self.vocabulary, "given": self.given}
        write_json(self.output / "plan.json", {**self.settings(), **rest})

    @classmethod
    def load(cls, output: str | Path) -> Plan:
        """The plan of a run that was begun in this folder."""
        path = Path(output) / "plan.json"
        try:
            plan = json.loads(path.read_text(encoding="utf-8"))
            tasks = [[Source(name=name, size=size) for name, size in t] for t in plan["tasks"]]
            return cls(
                output=Path(output),
                tokenizer=Path(plan["folder"]),
                fingerprint=plan["tokenizer"],
                vocabulary=plan["vocabulary"],
                reader=Reader(**{field.name: plan[field.name] for field in fields(Reader)}),
                given=tuple((name, files, size) for name, files, size in plan["given"]),
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
) -> Plan:
    """Look at the sources and claim the output folder, or take up a run that stopped in it."""
    codec = Codec.load(tokenizer_folder)
    found = [(str(given), find_sources(given)) for given in sources]
    if not found:
        raise DataError("No sources were given. Name files, folders, patterns or hf:NAME.")
    plan = Plan(
        output=Path(output),
        tokenizer=Path(tokenizer_folder),
        fingerprint=codec.fingerprint,
        vocabulary=len(codec.token_bytes),
        reader=reader or Reader(),
        given=tuple((name, len(files), sum(f.size for f in files)) for name, files in found),
        tasks=_grouped([file for _, files in found for file in files]),
    )
    _claim(plan)
    return plan


@dataclass(frozen=True)
class ReadDocuments:
    """Pipeline step: the documents of one task's files, in order."""

    plan: Plan

    def __call__(
        self, data: object = None, rank: int = 0, world_size: int = 1
    ) -> Iterator[Document]:
        """Yield the documents; note what was left out once they are through."""
        from datatrove.data import Document

        del data  # a reader comes first
        tasks = self.plan.tasks
        if world_size != len(tasks):
            raise DataError(f"The executor has tasks={world_size}; give it tasks={len(tasks)}.")
        tally, finished, show = Tally(), 0, progress_slot(self.plan, rank)
        for source in tasks[rank]:
            for n, text in enumerate(self.plan.reader.documents(source, tally)):
                show[0] = finished + tally.position
                yield Document(text=text, id=f"{source.name}/{n}")
            finished += source.size
            show[0] = finished
        note = {"skipped": tally.skipped, "damaged": tally.damaged}
        write_json(self.plan.record(rank, "read"), note)


@dataclass(frozen=True)
class WriteShard:
    """Pipeline step: documents to one shard, in datatrove's format and the codec's tokens.

    The shard has its name only once it is whole, and its record is written after that.
    """

    plan: Plan

    def __call__(self, data: Iterable[Document], rank: int = 0, world_size: int = 1) -> None:
        """Tokenize and write all documents, then note what was written."""
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
                if not ids:  # such as a text of nothing but what a normalizer drops
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


def progress_slot(plan: Plan, rank: int | None = None) -> npt.NDArray[np.int64]:
    """Bytes that tasks have read, in a file that all processes of a local run map.

    Without that file, as on a cluster, a number that nobody looks at.
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
    """Neighbouring files together, until each group is a fair share of all bytes."""
    share = max(LEAST_TASK_BYTES, sum(file.size for file in files) // MOST_TASKS)
    groups: list[list[Source]] = []
    size = share
    for file in files:
        if size >= share or file.kind == "hf":  # a dataset's size is not known, so it is alone
            groups.append([])
            size = 0
        groups[-1].append(file)
        size = share if file.kind == "hf" else size + file.size
    return tuple(tuple(group) for group in groups)


def _claim(plan: Plan) -> None:
    """Note the plan in a new folder, or see that it is the one of the folder's first run."""
    if not (plan.output / "plan.json").exists():
        if plan.output.is_dir() and any(plan.output.iterdir()):
            raise DataError(f"{str(plan.output)!r} holds other files. Give a new or empty folder.")
        plan.save()
        return
    old, new = Plan.load(plan.output).settings(), plan.settings()
    changed = [_difference(key, old[key], new[key]) for key in new if old[key] != new[key]]
    if changed:
        raise DataError(
            f"{str(plan.output)!r} was begun with other settings ({', '.join(changed)}). Give"
            " another folder, or delete this one."
        )


def _difference(key: str, old: Any, new: Any) -> str:
    if key == "tasks":
        return "the files to read or their sizes"
    return f"{key} {_brief(old)}, now {_brief(new)}"


def _brief(value: Any) -> str:
    return f"{value[:12]}..." if isinstance(value, str) and len(value) > 24 else repr(value)
