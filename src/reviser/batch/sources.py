"""Input files of a batch: which there are, how many documents each has, and reading some."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from io import BufferedReader
from itertools import islice
from typing import Any, Literal

import numpy as np

from reviser.batch.lines import MAX_LINE_BYTES
from reviser.batch.storage import absolute, explain, find_system, is_url, require
from reviser.errors import DataError, nearest_path, reason_of
from reviser.files import bounded_lines

Format = Literal["parquet", "jsonl"]
_SUFFIXES: dict[str, Format] = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}


@dataclass(frozen=True, kw_only=True)
class Source:
    """One input file, and where its chunks begin."""

    name: str
    """Its URL, or its path from the root."""
    label: str
    """Its path below the input folder; part of the ids of documents that have none."""
    size: int
    stamp: str = ""
    """A time or a hash of an object. While it stays the same, the file is not scanned again."""
    rows: int = 0
    offsets: list[int] = field(default_factory=list)
    """For JSON lines: the byte at which each chunk begins."""
    sha256: str = ""
    """The hash of JSON lines, which are read once anyway. Parquet is compared by size and rows."""

    @property
    def format(self) -> Format:
        """The format, judged by the name."""
        for suffix, found in _SUFFIXES.items():
            if self.name.endswith(suffix):
                return found
        raise DataError(
            f"Cannot read {self.name!r}: the input must be {', '.join(_SUFFIXES)}. Compressed JSON"
            " lines cannot be read from the middle; unpack them, or convert them to Parquet."
        )


def find_sources(name: str) -> list[Source]:
    """Return the files of a path, a folder or a pattern, in order, before they are scanned."""
    system, path = find_system(absolute(name))
    root, found = path.rpartition("/")[0], {}
    with explain(f"read {name!r}"), suppress(FileNotFoundError):
        if "*" in path or "?" in path:
            root = re.split(r"[*?]", path)[0].rpartition("/")[0]
            found = system.glob(path, detail=True)
        elif system.isdir(path):
            root, found = path, system.find(path, detail=True)
        else:
            found = {path: system.info(path)}
    sources = []
    for full, info in sorted(found.items()):
        label = full.removeprefix(root.rstrip("/")).lstrip("/")
        is_hidden = any(part.startswith((".", "_")) for part in label.split("/"))
        if info.get("type") == "file" and not is_hidden:
            url = system.unstrip_protocol(full) if is_url(name) else full
            stamp = next((info[key] for key in ("ETag", "mtime", "created") if key in info), "")
            sources.append(Source(name=url, label=label, size=info["size"], stamp=str(stamp)))
    if not sources:
        hint = "" if is_url(name) or "*" in name else nearest_path(name)
        raise DataError(f"There is no file to read at {name!r}.{hint}")
    return sources


def scan(source: Source, chunk_rows: int) -> Source:
    """Count the documents of a file: Parquet says it at its end, JSON lines are read once."""
    with _open(source) as file:
        if source.format == "parquet":
            return replace(source, rows=_parquet(file, source.name).metadata.num_rows)
        rows, offsets, total, position, last = 0, [0], hashlib.sha256(), 0, b"\n"
        while block := file.read(1 << 20):
            total.update(block)
            begins = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + position + 1
            # Line `rows + 1 + n` begins at `begins[n]`; of those, every `chunk_rows`-th is kept.
            offsets += begins[-(rows + 1) % chunk_rows :: chunk_rows].tolist()
            rows, position, last = rows + len(begins), position + len(block), block[-1:]
    rows += last != b"\n"
    return replace(source, rows=rows, offsets=offsets, sha256=total.hexdigest())


def read(
    source: Source, start: int, stop: int, chunk_rows: int, fields: Collection[str]
) -> Iterator[Any]:
    """Yield documents `start` to `stop` of a file: lines as bytes, or rows as dicts without nulls.

    None stands for a line that is too long. Of Parquet, only the columns in `fields` are read.
    """
    with _open(source) as file:
        if source.format == "parquet":
            yield from _rows(_parquet(file, source.name), start, stop, fields)
        else:
            file.seek(source.offsets[start // chunk_rows])
            # The `readline` of files in object stores has no limit, which a huge line needs.
            with BufferedReader(file) as lines:
                yield from islice(bounded_lines(lines, MAX_LINE_BYTES), stop - start)


@contextmanager
def _open(source: Source) -> Iterator[Any]:
    """Open a file that still has the size with which it was found."""
    system, path = find_system(source.name)
    with explain(f"read {source.name!r}"):
        size = system.size(path)
        if size != source.size:
            raise DataError(
                f"{source.name!r} has {size:,} bytes; it had {source.size:,} when the job began."
                " Put the old file back, or start again with another output."
            )
        with system.open(path, "rb") as file:
            yield file


def _parquet(file: Any, name: str) -> Any:
    parquet = require("pyarrow.parquet", "Parquet")
    try:
        return parquet.ParquetFile(file)
    except require("pyarrow", "Parquet").ArrowException as error:
        raise DataError(f"{name!r} is not a Parquet file: {reason_of(error)}.") from error


def _rows(table: Any, start: int, stop: int, fields: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield rows from the row groups that hold them; rows before them in a group are skipped."""
    groups: list[int] = []
    first = skipped = 0
    for group in range(table.metadata.num_row_groups):
        rows = table.metadata.row_group(group).num_rows
        if first < stop and first + rows > start:
            skipped = skipped if groups else start - first
            groups.append(group)
        first += rows
    columns = [name for name in table.schema_arrow.names if name in fields]
    batches = table.iter_batches(batch_size=256, row_groups=groups, columns=columns)
    found = (row for batch in batches for row in batch.to_pylist())
    yield from map(without_nulls, islice(found, skipped, skipped + stop - start))


def without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without its nulls, which stand for missing fields, also inside structs."""
    return {
        name: without_nulls(value) if isinstance(value, dict) else value
        for name, value in row.items()
        if value is not None
    }
