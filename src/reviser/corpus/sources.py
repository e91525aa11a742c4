"""Input files of a corpus: how many documents each has, and reading some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from reviser.corpus.storage import needed, opened
from reviser.errors import DataError, reason_of
from reviser.files import bounded_lines
from reviser.writing.lines import MAX_LINE_BYTES

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
    rows: int
    offsets: tuple[int, ...] = ()
    """Of JSON lines: the byte at which each chunk begins."""

    @property
    def format(self) -> Format:
        """The format, judged by the name."""
        return format_of(self.name)


def format_of(name: str) -> Format:
    """Return the format of an input file, judged by its name."""
    for suffix, found in _SUFFIXES.items():
        if name.endswith(suffix):
            return found
    raise DataError(
        f"Cannot read {name!r}: a corpus has files of {', '.join(_SUFFIXES)}. Compressed JSON lines"
        " cannot be read from the middle; unpack them, or convert them to Parquet."
    )


def scan(name: str, size: int, label: str, chunk_rows: int) -> Source:
    """Count the documents of a file: Parquet says it at its end, JSON lines are read once."""
    source = Source(name=name, label=label, size=size, rows=0)
    offsets: list[int] = []
    try:
        with _opened(source) as file:
            if source.format == "parquet":
                rows = _parquet(file, name).metadata.num_rows
            else:
                rows, offsets = _count_lines(file, chunk_rows)
    except OSError as error:
        raise DataError(f"Cannot read {name!r}: {reason_of(error)}.") from error
    return Source(name=name, label=label, size=size, rows=rows, offsets=tuple(offsets))


def read(
    source: Source, start: int, stop: int, *, chunk_rows: int, fields: Sequence[str]
) -> Iterator[Any]:
    """Yield documents `start` to `stop` of a file: lines as bytes, or rows as dicts without nulls.

    None stands for a line that is too long. Of Parquet, only the columns in `fields` are read.
    """
    try:
        with _opened(source) as file:
            if file.size != source.size:
                raise DataError(
                    f"{source.name!r} has {file.size:,} bytes; it had {source.size:,} when the job"
                    " began. Put the old file back, or start again in another output folder."
                )
            if source.format == "parquet":
                yield from _rows(_parquet(file, source.name), start, stop, fields)
            else:
                file.seek(source.offsets[start // chunk_rows])
                yield from islice(bounded_lines(file, MAX_LINE_BYTES), stop - start)
    except OSError as error:
        raise DataError(f"Cannot read {source.name!r}: {reason_of(error)}.") from error


def _opened(source: Source) -> Any:
    system, path = opened(source.name)
    file = system.open(path, "rb")
    if not hasattr(file, "size"):
        file.size = system.size(path)
    return file


def _parquet(file: Any, name: str) -> Any:
    parquet = needed("pyarrow.parquet", "Parquet")
    arrow = needed("pyarrow", "Parquet")
    try:
        return parquet.ParquetFile(file)
    except arrow.ArrowException as error:
        raise DataError(f"{name!r} is not a Parquet file: {reason_of(error)}.") from error


def _rows(table: Any, start: int, stop: int, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield rows from the row groups that hold them; rows before them in a group are skipped."""
    columns = [name for name in table.schema_arrow.names if name in fields]
    groups: list[int] = []
    first = skipped = 0
    for group in range(table.metadata.num_row_groups):
        rows = table.metadata.row_group(group).num_rows
        if first < stop and first + rows > start:
            if not groups:
                skipped = start - first
            groups.append(group)
        first += rows
    if not columns:
        yield from ({} for _ in range(stop - start))
        return
    batches = table.iter_batches(batch_size=256, row_groups=groups, columns=columns)
    rows = (row for batch in batches for row in batch.to_pylist())
    for row in islice(rows, skipped, skipped + stop - start):
        yield without_nulls(row)


def without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without its nulls, which stand for missing fields, also inside structs."""
    kept = {name: value for name, value in row.items() if value is not None}
    return {
        name: without_nulls(value) if isinstance(value, dict) else value
        for name, value in kept.items()
    }


def _count_lines(file: Any, chunk_rows: int) -> tuple[int, list[int]]:
    """Return the number of lines, and the byte at which every `chunk_rows`-th begins."""
    rows, offsets, position, last = 0, [0], 0, b"\n"
    while block := file.read(1 << 20):
        found = block.count(b"\n")
        if (rows + found) // chunk_rows > rows // chunk_rows:
            at = -1
            for _ in range(found):
                at = block.index(b"\n", at + 1)
                rows += 1
                if rows % chunk_rows == 0:
                    offsets.append(position + at + 1)
        else:
            rows += found
        position, last = position + len(block), block[-1:]
    return rows + (last != b"\n"), offsets
