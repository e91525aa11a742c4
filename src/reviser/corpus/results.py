"""Results of a corpus: one file per chunk, as Parquet or JSON lines, with ids and hashes.

A record has `row`, the number of the document in the corpus from 0, its `id`, the fields of a
rollout or revision or an `error`, and the SHA-256 of the text before (`input_sha256`) and after
(`text_sha256`). In Parquet, `result` holds the fields that have no column of their own, as JSON.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reviser.corpus.job import DONE, Job
from reviser.corpus.storage import needed
from reviser.errors import DataError

_COLUMNS = ("row", "id", "text", "error", "input_sha256", "text_sha256")
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
            found = record.get("text_sha256") or sha256(record["error"])
            total.update(f"{record['row']} {found}\n".encode())
        failed = sum("error" in record for record in records)
        return cls(len(records), failed, total.hexdigest())


def sha256(text: str) -> str:
    """Return the SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def encode(records: Sequence[Record], form: str) -> bytes:
    """Return the content of a chunk's file."""
    if form == "jsonl":
        return b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in records)
    arrow, parquet = needed("pyarrow", "Parquet"), needed("pyarrow.parquet", "Parquet")
    text = arrow.large_string()
    types = dict.fromkeys(_COLUMNS, text) | {"row": arrow.int64(), "id": text}
    schema = arrow.schema([*types.items(), ("provenance", text), ("result", text)])
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for record in records:
        rest = {name: value for name, value in record.items() if name not in _COLUMNS}
        for name in _COLUMNS:
            columns[name].append(record.get(name))
        if not isinstance(record["id"], str):  # a number or a list, as JSON
            columns["id"][-1] = json.dumps(record["id"], ensure_ascii=False)
        origin = rest.pop("provenance", None)
        columns["provenance"].append(origin and json.dumps(origin, ensure_ascii=False))
        columns["result"].append(json.dumps(rest, ensure_ascii=False) if rest else None)
    counts = json.dumps(vars(Counts.of(records))).encode()
    table = arrow.table(columns, schema=schema.with_metadata({_KEY: counts}))
    file = io.BytesIO()
    parquet.write_table(table, file, compression="zstd")
    return file.getvalue()


def decode(content: bytes, form: str) -> list[Record]:
    """Return the records of a chunk's file."""
    if form == "jsonl":
        return [json.loads(line) for line in content.split(b"\n")[:-1]]
    parquet = needed("pyarrow.parquet", "Parquet")
    records = []
    for row in parquet.read_table(io.BytesIO(content)).to_pylist():
        rest, origin = row.pop("result"), row.pop("provenance")
        record = {name: value for name, value in row.items() if value is not None}
        record |= json.loads(rest) if rest else {}
        records.append(record | ({"provenance": json.loads(origin)} if origin else {}))
    return records


def read(output: str) -> Iterator[Record]:
    """Yield all records of a finished or unfinished job in order, from either format."""
    job = Job.load(output)
    missing = set(job.missing())
    for number in range(job.chunks):
        if number not in missing:
            yield from decode(job.folder.read(job.file_name(number)), job.format)


def finish(job: Job) -> Counts:
    """Count the results of a job whose chunks are all done, and write `_done.json`."""
    if DONE in job.folder.names():
        return Counts(**job.folder.read_json(DONE))
    counts = count(job, range(job.chunks))
    if job.folder.is_local:
        for name in job.folder.names():
            if name.endswith(".partial"):  # of a process that was killed
                job.folder.remove(name)
    job.folder.write_json(DONE, vars(counts))
    return counts


def count(job: Job, numbers: Iterable[int]) -> Counts:
    """Count the results of chunks that are done."""
    total, documents, failed = hashlib.sha256(), 0, 0
    for number in numbers:
        counts, chunk = _counts(job, number), job.chunk(number)
        if counts.documents != chunk.stop - chunk.start:
            raise DataError(
                f"{job.file_name(number)!r} in {job.output!r} has {counts.documents:,} documents,"
                f" not {chunk.stop - chunk.start:,}. Delete it and run the same command again."
            )
        total.update(counts.sha256.encode())
        documents, failed = documents + counts.documents, failed + counts.failed
    return Counts(documents, failed, total.hexdigest())


def _counts(job: Job, number: int) -> Counts:
    """Return the counts of a chunk: Parquet has them at its end, JSON lines are read."""
    name = job.file_name(number)
    if job.format == "jsonl":
        return Counts.of(decode(job.folder.read(name), "jsonl"))
    parquet, arrow = needed("pyarrow.parquet", "Parquet"), needed("pyarrow", "Parquet")
    try:
        with job.folder.open(name) as file:
            metadata = parquet.read_schema(file).metadata
        return Counts(**json.loads(metadata[_KEY]))
    except (arrow.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{name!r} in {job.output!r} is damaged. Delete it and run the same command again."
        ) from error
