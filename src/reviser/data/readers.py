"""Documents from files of text, one at a time, in memory that a bad file cannot exhaust.

This module knows formats, compression and what may be wrong with them, but not tokens. Documents
that cannot be used are left out and counted by reason. A bad line does not affect the rest of its
file.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import IO, Any, Literal, cast, get_args
from urllib.parse import parse_qsl

from reviser.errors import ConfigError, DataError, MissingExtra, nearest_path
from reviser.files import bounded_lines

SplitBy = Literal["blank", "line", "file"]
"""The separator of documents in a text file: blank lines, every line end, or nothing."""
SourceKind = Literal["jsonl", "parquet", "text", "hf"]

_KINDS: dict[str, SourceKind] = {
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".md": "text",
    ".txt": "text",
}
"""The files that are read from a folder. A file that is named by itself is text by default."""
COMPRESSED = (".gz", ".xz", ".zst")
_HF = "hf:"
_HF_OPTIONS = ("name", "split", "revision", "data_dir")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_DOCUMENT_BYTES = 4 * 2**20
"""Maximum size of a document, or of a JSON line. Longer ones are left out."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file, or one dataset of the Hugging Face hub."""

    name: str
    """The path or URL of the file, or `hf:...`."""
    size: int
    """Bytes of the file; 0 for a dataset, whose size is unknown before it is read."""

    @property
    def kind(self) -> SourceKind:
        """The format, judged by the name."""
        if self.name.startswith(_HF):
            return "hf"
        return _KINDS.get(_inner_suffix(Path(self.name)), "text")


@dataclass(kw_only=True)
class Tally:
    """Counts of what was left out while reading."""

    skipped: Counter[str] = field(default_factory=Counter)
    """Number of documents left out, by reason."""
    damaged: list[str] = field(default_factory=list)
    """Files that ended in an error. The documents before it were used."""


def find_sources(path_or_name: str | Path) -> list[Source]:
    """Return the files of a path, a folder, a pattern or `hf:NAME`, in a fixed order."""
    name = str(path_or_name)
    if name.startswith(_HF):
        _imported("datasets", name, "datasets")
        _dataset_options(name)
        return [Source(name=name, size=0)]
    if "://" in name:
        return _remote_sources(name)
    path = Path(name)
    if path.is_file():
        files = [path]
    elif path.is_dir():
        files = sorted(file for file in path.rglob("*") if _is_known(file))
    else:
        pattern = path.relative_to(path.anchor)
        matches = Path(path.anchor or ".").glob(str(pattern)) if "*" in name else ()
        files = sorted(file for file in matches if file.is_file())
    if not files:
        raise DataError(
            f"There is nothing to read at {name!r}.{nearest_path(name) if '*' not in name else ''}"
            " Give a file, a pattern like 'text/*.py',"
            f" hf:NAME, or a folder with files of these kinds: {' '.join(sorted(_KINDS))}, also"
            f" compressed ({' '.join(COMPRESSED)})."
        )
    _check_formats(files)
    return [Source(name=str(file), size=file.stat().st_size) for file in files]


def _remote_sources(url: str) -> list[Source]:
    """Return the files of a URL, a folder's URL or a pattern, through fsspec."""
    fsspec = _imported("fsspec", url, "fsspec")
    try:
        system, path = fsspec.core.url_to_fs(url)
        if "*" in path:
            found = system.glob(path, detail=True)
        elif system.isdir(path):
            found = system.find(path, detail=True)
            found = {name: each for name, each in found.items() if _has_known_name(Path(name))}
        else:
            found = {path: system.info(path)}
    except (OSError, ValueError, ImportError) as error:
        raise DataError(f"Cannot read {url!r}: {error}.") from error
    files = sorted((name, each["size"]) for name, each in found.items() if each["type"] == "file")
    if not files:
        raise DataError(f"There is nothing to read at {url!r}.")
    _check_formats([Path(name) for name, _ in files])
    return [Source(name=system.unstrip_protocol(name), size=size or 0) for name, size in files]


def _check_formats(files: Iterable[Path]) -> None:
    for file in files:
        if file.suffix == ".zst" or _inner_suffix(file) == ".parquet":
            _imported("pyarrow", str(file), "'reviser-lm[train]'")


@dataclass(frozen=True, kw_only=True)
class Reader:
    """The settings by which files become documents."""

    split: SplitBy = "blank"
    """Separator of the documents in a text file: blank lines, every line end, or nothing."""
    text_key: str = "text"
    """The field of a JSON line or the column of a table that holds the text."""

    def __post_init__(self) -> None:
        if self.split not in get_args(SplitBy):
            raise ConfigError(f"split is {self.split!r}; use one of {get_args(SplitBy)}.")

    def read(self, sources: Iterable[str | Path], tally: Tally) -> Iterator[str]:
        """Yield the texts of all sources, one after the other."""
        for source in [source for name in sources for source in find_sources(name)]:
            yield from self.documents(source, tally)

    def documents(self, source: Source, tally: Tally) -> Iterator[str]:
        """Yield the texts of one source; count everything that is left out in `tally`."""
        values = self._rows(source) if source.kind == "hf" else self._values(source, tally)
        for value in values:
            text = self._checked(value, tally)
            if text is not None:
                yield text

    def _checked(self, value: Any, tally: Tally) -> str | None:
        """Return the text if it can be used; otherwise count the reason."""
        reason = None
        try:
            if isinstance(value, str):
                value = value.encode()  # raises for half a surrogate pair
            if not isinstance(value, bytes):
                reason = "no text"
            elif len(value) > MAX_DOCUMENT_BYTES:
                reason = "too long"
            elif (text := value.decode()).strip():
                return text
            else:
                reason = "empty"
        except UnicodeError:
            reason = "not UTF-8"
        tally.skipped[reason] += 1
        return None

    def _values(self, source: Source, tally: Tally) -> Iterator[Any]:
        with open_file(source.name) as file:
            try:
                if source.kind == "parquet":
                    yield from self._column(file, tally)
                else:
                    yield from self._records(source, file, tally)
            except damage():
                tally.skipped["damaged file"] += 1
                tally.damaged.append(source.name)

    def _records(self, source: Source, file: IO[bytes], tally: Tally) -> Iterator[Any]:
        is_text, limit = source.kind == "text", MAX_DOCUMENT_BYTES
        unpacked = _unpack(file, Path(source.name).suffix)
        if is_text and self.split == "file":
            yield unpacked.read(limit + 1 + len(_BYTE_ORDER_MARK)).removeprefix(_BYTE_ORDER_MARK)
            return
        lines = bounded_lines(unpacked, limit)
        if is_text and self.split == "blank":
            lines = _join_lines(lines, limit)
        for n, line in enumerate(lines):
            if line is None:
                tally.skipped["too long"] += 1
                continue
            record = line if n else line.removeprefix(_BYTE_ORDER_MARK)
            if not record.strip():
                continue  # white space between documents is not a document
            if is_text:
                yield record
            else:
                yield from self._parsed(record, tally)

    def _parsed(self, line: bytes, tally: Tally) -> Iterator[Any]:
        try:
            record = json.loads(line.decode())
        except UnicodeDecodeError:
            tally.skipped["not UTF-8"] += 1
        except (ValueError, RecursionError):
            tally.skipped["not JSON"] += 1
        else:
            yield record.get(self.text_key) if isinstance(record, dict) else None

    def _column(self, file: IO[bytes], tally: Tally) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pq.ParquetFile(file)
        if self.text_key not in table.schema_arrow.names:
            tally.skipped["no text"] += table.metadata.num_rows
            return
        for batch in table.iter_batches(256, columns=[self.text_key]):
            column = batch.column(0)
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                column = column.cast(pa.large_binary())  # so that bad UTF-8 affects one row only
            yield from column.to_pylist()

    def _rows(self, source: Source) -> Iterator[Any]:
        import datasets

        path, options = _dataset_options(source.name)
        try:
            for row in datasets.load_dataset(path, streaming=True, **options):
                yield row.get(self.text_key)
        except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
            reason = str(error).split("\n", 1)[0]
            raise DataError(f"Cannot read the dataset {source.name!r}: {reason}") from error


def whole_lines(source: Source, limit: int) -> Iterator[bytes | None]:
    """Yield every line of a file; None for a line of more than `limit` bytes.

    A damaged file is an error.
    """
    with open_file(source.name) as file:
        try:
            yield from bounded_lines(_unpack(file, Path(source.name).suffix), limit)
        except damage() as error:
            raise DataError(
                f"{source.name!r} is damaged: {error}. Create or copy it again."
            ) from error


def open_file(name: str) -> IO[bytes]:
    """Open a file by its path or URL."""
    try:
        if "://" in name:
            file: IO[bytes] = import_module("fsspec").open(name, "rb").open()
            return file
        return Path(name).open("rb")
    except OSError as error:
        raise DataError(f"Cannot open {name!r}: {error.strerror or error}.") from error


def _join_lines(lines: Iterator[bytes | None], limit: int) -> Iterator[bytes | None]:
    """Yield the runs of lines between blank lines; None for a run longer than `limit` bytes."""
    run: list[bytes] = []
    size = -1  # bytes of the run, including the line ends inside it
    for line in chain(lines, [b""]):
        if line is None or line.strip():
            size += limit + 2 if line is None else len(line) + 1
            if line is not None and size <= limit:
                run.append(line)
            else:
                run.clear()  # already too long: from here on only its size matters
        elif size >= 0:
            yield b"\n".join(run) if size <= limit else None
            run, size = [], -1


def _unpack(file: IO[bytes], suffix: str) -> IO[bytes]:
    if suffix == ".gz":
        return cast(IO[bytes], gzip.open(file))
    if suffix == ".xz":
        return lzma.open(file)
    if suffix == ".zst":
        import pyarrow as pa

        # Unlike the zstandard package's reader, this one detects a truncated file.
        return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file), "zstd"))
    return file


def damage() -> tuple[type[BaseException], ...]:
    """Return the errors that a broken file raises; pyarrow's only if it is installed."""
    own = (EOFError, OSError, lzma.LZMAError, zlib.error)
    try:
        return (*own, import_module("pyarrow").ArrowException)
    except ImportError:
        return own


def _inner_suffix(path: Path) -> str:
    """Return the suffix without that of a compression."""
    return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def _is_known(path: Path) -> bool:
    return path.is_file() and _has_known_name(path)


def _has_known_name(path: Path) -> bool:
    return not path.name.startswith(".") and _inner_suffix(path) in _KINDS


def _dataset_options(name: str) -> tuple[str, dict[str, str]]:
    """Return path and options of `hf:NAME?split=train&name=CONFIG`; the default split is train."""
    path, _, query = name.removeprefix(_HF).partition("?")
    options = {"split": "train", **dict(parse_qsl(query))}
    unknown = sorted(options.keys() - set(_HF_OPTIONS))
    if not path or unknown:
        raise DataError(
            f"Cannot read {name!r} (unknown: {unknown}). Write hf:NAME or"
            f" hf:NAME?split=train with any of these options: {', '.join(_HF_OPTIONS)}."
        )
    return path, options


def _imported(module: str, what: str, install: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"Reading {what!r} needs {module}. Install it with: pip install {install}."
        ) from error
