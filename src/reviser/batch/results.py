"""Results of a batch: one file per chunk, as Parquet or JSON lines, with ids and hashes.

A record has `row`, the number of the document in the whole job from 0, its `id`, the fields of a
rollout or revision or an `error`, and the SHA-256 of the text before (`input_sha256`) and after
(`text_sha256`). In Parquet, `result` holds the fields that have no column of their own, as JSON.
If the output is one file, a record has `line`, counted from 1, and no hashes.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reviser.batch.job import DONE, Job
from reviser.batch.storage import explain, require
from reviser.errors import DataError, reason_of
from reviser.files import sync, sync_folder

_COLUMNS = ("id", "text", "error", "input_sha256", "text_sha256", "provenance", "result")
"""The columns of text, after `row`; the last two are JSON."""
_KEY = b"reviser"
Record = dict[str, Any]


@dataclass(frozen=True)
class Counts:
    """How many documents some results have, how many failed, and a hash of all texts."""

    documents: int
    failed: int
    sha256: str
    """The hash of the rows, texts and errors in order. Equal hashes mean equal results."""

    @classmethod
    def of(cls, records: Sequence[Record]) -> Counts:
        """Count records."""
        total = hashlib.sha256()
        for record in records:
            row = record["row"] if "row" in record else record["line"] - 1
            text = record["error"] if "error" in record else record["text"]
            total.update(f"{row} {sha256(text)}\n".encode())
        failed = sum("error" in record for record in records)
        return cls(len(records), failed, total.hexdigest())


def sha256(text: str) -> str:
    """Return the SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def encode(records: Sequence[Record], form: str) -> bytes:
    """Return the content of a chunk's file."""
    if form == "jsonl":
        return "".join(_dump(record) + "\n" for record in records).encode()
    arrow, parquet = require("pyarrow", "Parquet"), require("pyarrow.parquet", "Parquet")
    rows = []
    for record in records:
        rest = {name: value for name, value in record.items() if name not in ("row", *_COLUMNS)}
        row = record | ({"result": _dump(rest)} if rest else {})
        if not isinstance(record["id"], str):  # a number or a list
            row["id"] = _dump(record["id"])
        if "provenance" in record:
            row["provenance"] = _dump(record["provenance"])
        rows.append(row)
    schema = arrow.schema(
        [("row", arrow.int64()), *((name, arrow.large_string()) for name in _COLUMNS)],
        metadata={_KEY: _dump(vars(Counts.of(records)))},
    )
    file = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(rows, schema), file, compression="zstd")
    return file.getvalue()


def decode(content: bytes, form: str) -> list[Record]:
    """Return the records of a chunk's file."""
    if form == "jsonl":
        return [json.loads(line) for line in content.split(b"\n")[:-1]]
    records = []
    for row in require("pyarrow.parquet", "Parquet").read_table(io.BytesIO(content)).to_pylist():
        record = {name: value for name, value in row.items() if value is not None}
        record |= json.loads(record.pop("result", "{}"))
        if "provenance" in record:
            record["provenance"] = json.loads(record["provenance"])
        records.append(record)
    return records


def read(output: str) -> Iterator[Record]:
    """Yield all records of a finished or unfinished folder in order, from either format."""
    job = Job.load(output)
    missing = set(job.missing())
    for number in range(len(job.chunks)):
        if number not in missing:
            yield from decode(job.folder.read(job.file_name(number)), job.format)


def finish(job: Job) -> Counts:
    """Count the results of a job whose chunks are all done: join them, or write `_done.json`."""
    if DONE in job.folder.names():
        return Counts(**job.folder.read_json(DONE))
    numbers = range(len(job.chunks))
    counts = count(job, numbers)
    if job.is_one_file:
        _join(job, numbers)
        return counts
    if job.folder.is_local:
        for name in job.folder.names():
            if name.endswith(".partial"):  # of a process that was killed
                job.folder.remove(name)
    job.folder.write_json(DONE, vars(counts))
    return counts


def _join(job: Job, numbers: Iterable[int]) -> None:
    """Write chunks into one file, which appears whole, on the disk before they are deleted."""
    joined, output = Path(job.folder.path("joined")), Path(job.output)
    with explain(f"write {job.output!r}"):
        with joined.open("wb") as file:
            for number in numbers:
                file.write(job.folder.read(job.file_name(number)))
            sync(file)
        joined.replace(output)
        sync_folder(output.parent)


def count(job: Job, numbers: Iterable[int]) -> Counts:
    """Count the results of chunks that are done."""
    total, documents, failed = hashlib.sha256(), 0, 0
    for number in numbers:
        counts = _count_chunk(job, number)
        total.update(counts.sha256.encode())
        documents, failed = documents + counts.documents, failed + counts.failed
    return Counts(documents, failed, total.hexdigest())


def _count_chunk(job: Job, number: int) -> Counts:
    """Return the counts of a chunk: Parquet has them at its end, JSON lines are read."""
    name = job.file_name(number)
    try:
        if job.format == "jsonl":
            counts = Counts.of(decode(job.folder.read(name), "jsonl"))
        else:
            with job.folder.open(name) as file:
                schema = require("pyarrow.parquet", "Parquet").read_schema(file)
            counts = Counts(**json.loads(schema.metadata[_KEY]))
        if counts.documents != (wanted := len(job.chunks[number])):
            raise ValueError(f"it has {counts.documents:,} of {wanted:,} documents")
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise DataError(
            f"{name!r} in {job.folder.name!r} is damaged: {reason_of(error)}. Delete it and run the"
            " same command again."
        ) from error
    return counts
