"""A job over a corpus: what to do with which files, split into numbered chunks.

A chunk is a range of documents of one input file. Its results are one output file, named by the
chunk's number, which appears whole or not at all. A chunk is done if and only if that file exists.
So it does not matter who runs a chunk, how often it is begun, or when a worker is killed.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

from reviser.corpus.sources import Format, Source, format_of, scan
from reviser.corpus.storage import Folder, absolute, find_files
from reviser.errors import ConfigError, DataError
from reviser.files import refuse_other_job
from reviser.models import adapters
from reviser.writing.batch import MACHINE_OPTIONS

Scheduler = Literal["local", "ray"]
"""Where workers run: on this machine, or on a Ray cluster."""
JOB, DONE = "_job.json", "_done.json"
"""Readers of Parquet folders ignore names that begin with an underscore."""
FORMAT = 1
"""Version of an output folder. A change that old code cannot read increases it."""
CHUNK_ROWS = 1000
_SCANS = 16
"""Input files that are opened at a time to count their documents; most of it is waiting."""


@dataclass(frozen=True)
class Chunk:
    """Documents `start` to `stop` of one input file."""

    source: Source
    start: int
    stop: int
    first_row: int
    """The number of the first document in the whole corpus."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job over a corpus; `begin` makes it and `load` reads it in every worker."""

    output: str
    """The folder of the results: a URL, or a path from the root."""
    sources: tuple[Source, ...]
    model: str
    """The model as the user named it; results have it in their provenance."""
    location: str
    """The model as workers open it: a folder from the root, or a name on the hub."""
    weights: str
    """The hash of the model. A worker that finds another one refuses to work."""
    engine: str = "hf"
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the engine."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Decoding settings. Document n adds n to the seed, so the split changes nothing."""
    is_revision: bool = False
    """True if the documents are drafts; then settings may hold the options of `Revise` too."""
    text_key: str | None = None
    """The field or column that holds the text; None for the names of a batch file."""
    chunk_rows: int = CHUNK_ROWS

    @property
    def format(self) -> Format:
        """The format of the results, which is that of the input."""
        return self.sources[0].format

    @cached_property
    def folder(self) -> Folder:
        """The output folder."""
        return Folder(self.output)

    @property
    def documents(self) -> int:
        """Number of documents."""
        return sum(source.rows for source in self.sources)

    @cached_property
    def _ends(self) -> tuple[list[int], list[int]]:
        """The numbers of chunks and of documents in each file and those before it."""
        chunks = [-(-source.rows // self.chunk_rows) for source in self.sources]
        rows = [source.rows for source in self.sources]
        return list(accumulate(chunks)), list(accumulate(rows))

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return self._ends[0][-1]

    def chunk(self, number: int) -> Chunk:
        """Return a chunk by its number."""
        chunk_ends, row_ends = self._ends
        n = bisect_right(chunk_ends, number)
        source = self.sources[n]
        inside = number - (chunk_ends[n - 1] if n else 0)
        start = inside * self.chunk_rows
        stop = min(start + self.chunk_rows, source.rows)
        return Chunk(source, start, stop, row_ends[n] - source.rows + start)

    def size(self, numbers: Iterable[int]) -> int:
        """Return the number of documents in some chunks."""
        return sum(chunk.stop - chunk.start for chunk in map(self.chunk, numbers))

    def file_name(self, number: int) -> str:
        """Return the name of the results of a chunk."""
        return f"{number:08d}.{self.format}"

    def missing(self) -> list[int]:
        """Return the numbers of the chunks that are not done."""
        names = self.folder.names()
        return [n for n in range(self.chunks) if self.file_name(n) not in names]

    def _manifest(self) -> dict[str, Any]:
        return {"format": FORMAT} | {k: v for k, v in asdict(self).items() if k != "output"}

    @classmethod
    def load(cls, output: str) -> Job:
        """Read the job that was begun in a folder."""
        saved = Folder(output).read_json(JOB)
        try:
            if saved["format"] != FORMAT:
                raise ValueError(f"format {saved['format']}")
            sources = tuple(
                Source(**{**each, "offsets": tuple(each["offsets"])}) for each in saved["sources"]
            )
            known = {each.name: saved[each.name] for each in fields(cls) if each.name != "output"}
            return cls(output=absolute(output), **{**known, "sources": sources})
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(
                f"Cannot read {JOB!r} in {output!r} ({error!r}). Was it written by another version?"
            ) from error


def begin(
    input_name: str,
    output: str,
    model: str,
    *,
    engine: str = "hf",
    options: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    is_revision: bool = False,
    text_key: str | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> Job:
    """List the input and claim the output folder, or continue the job that was begun there.

    `input_name` is a file, a folder or a pattern, local or a URL.
    """
    options = dict(options or {})
    if "api_key" in options:
        raise ConfigError(
            "The job is saved in the output folder, and a key must not be. Set VLLM_API_KEY"
            " instead, where the workers run."
        )
    if chunk_rows < 1:
        raise ConfigError(f"The number of documents per chunk is {chunk_rows}; use 1 or more.")
    folder = Folder(output)
    names = folder.names()
    saved = folder.read_json(JOB) if JOB in names else {}
    # A file that ends so is being written, maybe by another part that begins the same job.
    if not saved and any(not name.endswith(".partial") for name in names):
        raise ConfigError(f"{output!r} contains other files. Give a new or empty folder.")
    files = find_files(input_name)
    formats = {format_of(name) for name, _, _ in files}
    if len(formats) > 1:
        raise DataError(
            f"{input_name!r} has both Parquet and JSON lines. Choose one with a pattern, such as"
            " 'folder/*.parquet'."
        )
    if (base := options.get("base")) is not None and Path(base).exists():
        options["base"] = absolute(str(base))
    job = Job(
        output=folder.name,
        sources=_scanned(files, saved, chunk_rows),
        model=model,
        location=absolute(model) if Path(model).is_dir() else model,
        weights=adapters.fingerprint(model, base=options.get("base"), is_remote="url" in options),
        engine=engine,
        options=options,
        settings=dict(settings or {}),
        is_revision=is_revision,
        text_key=text_key,
        chunk_rows=chunk_rows,
    )
    if job.documents == 0:
        raise DataError(f"{input_name!r} has no documents.")
    wanted = json.loads(json.dumps(job._manifest()))
    if saved:
        refuse_other_job(output, _comparable(saved), _comparable(wanted))
    if saved != wanted:  # it is new, or a path or URL is another one now
        folder.write_json(JOB, wanted)
    return job


def _comparable(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what must be the same when a job is continued; where files lie may differ."""
    sources = [[each["label"], each["size"], each["rows"]] for each in manifest["sources"]]
    options = {k: v for k, v in manifest["options"].items() if k not in MACHINE_OPTIONS}
    kept = {k: v for k, v in manifest.items() if k not in ("location", "sources", "options")}
    return {**kept, "input": sources, "options": options}


def _scanned(
    files: Sequence[tuple[str, int, str]], saved: dict[str, Any], chunk_rows: int
) -> tuple[Source, ...]:
    """Count the documents of files, unless an earlier run did."""
    is_same = saved.get("chunk_rows") == chunk_rows
    known = {(each["name"], each["size"]): each for each in saved.get("sources", []) if is_same}

    def one(file: tuple[str, int, str]) -> Source:
        name, size, label = file
        if (name, size) in known:
            each = known[name, size]
            return Source(**{**each, "label": label, "offsets": tuple(each["offsets"])})
        return scan(name, size, label, chunk_rows)

    with ThreadPoolExecutor(_SCANS) as pool:
        return tuple(pool.map(one, files))
