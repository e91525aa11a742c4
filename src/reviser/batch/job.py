"""A batch job: what to do with which documents, split into numbered chunks.

A chunk is a range of documents of one input file. Its results are one file, named by the chunk's
number, which appears whole or not at all. A chunk is done if and only if that file exists. So it
does not matter who runs a chunk, how often it is begun, or when a worker is killed. If the output
is one file, the chunks are in a folder beside it until all are done, and are then joined.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from reviser.batch.settings import FILE_CHUNK, FOLDER_CHUNK
from reviser.batch.sources import Format, Source, find_sources, scan
from reviser.batch.storage import Folder, absolute, is_url
from reviser.errors import ConfigError, DataError
from reviser.files import refuse_other_job
from reviser.models import hub

JOB, DONE = "_job.json", "_done.json"
"""Readers of Parquet folders ignore names that begin with an underscore."""
FORMAT = 2
"""Version of a folder of chunks. A change that old code cannot read increases it."""
MACHINE_OPTIONS = ("api_key", "rows", "timeout", "url")
"""Options that do not change what is written, or not by their names: the weights are compared."""
_SCANS = 16
"""Input files that are opened at a time to count their documents; most of it is waiting."""


@dataclass(frozen=True)
class Chunk:
    """Documents `start` to `stop` of one input file."""

    source: Source
    start: int
    stop: int
    first_row: int
    """The number of the first document in the whole job."""

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, kw_only=True)
class Job:
    """A batch job; `begin` makes it and `load` reads it in every worker."""

    output: str
    """The file or folder of the results: a path from the root, or a URL of a folder."""
    sources: list[Source] = field(default_factory=list)
    model: str = ""
    """The model as the user named it; results have it in their provenance."""
    location: str = ""
    """The model as workers open it: a folder from the root, or a name on the hub."""
    weights: str = ""
    """The hash of the model. A worker that finds another one refuses to work."""
    engine: str = "hf"
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the engine."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Decoding settings. Document n adds n to the seed, so the split changes nothing."""
    is_revision: bool = False
    """True if the documents are drafts; then settings may hold the options of `Revise` too."""
    text_key: str | None = None
    """The field or column that holds the text; None for the usual names."""
    chunk_rows: int = FOLDER_CHUNK

    @property
    def is_one_file(self) -> bool:
        """True if the results are joined into one file of JSON lines."""
        return self.output.endswith(".jsonl")

    @property
    def format(self) -> Format:
        """The format of the results: JSON lines for one file, and that of the input for many."""
        return "jsonl" if self.is_one_file else self.sources[0].format

    @cached_property
    def folder(self) -> Folder:
        """The folder of the chunks."""
        return Folder(self.output + ".parts" * self.is_one_file)

    @cached_property
    def chunks(self) -> list[Chunk]:
        """The chunks by their numbers; none spans two files."""
        firsts, rows = accumulate((s.rows for s in self.sources), initial=0), self.chunk_rows
        return [
            Chunk(source, start, min(start + rows, source.rows), first + start)
            for source, first in zip(self.sources, firsts, strict=False)
            for start in range(0, source.rows, rows)
        ]

    def file_name(self, number: int) -> str:
        """Return the name of the results of a chunk."""
        return f"{number:08d}.{self.format}"

    def missing(self) -> list[int]:
        """Return the numbers of the chunks that are not done."""
        names = self.folder.names()
        return [n for n in range(len(self.chunks)) if self.file_name(n) not in names]

    def check_output(self) -> None:
        """Refuse to replace a file."""
        if self.is_one_file and Path(self.output).exists():
            raise ConfigError(f"{self.output!r} exists already: delete it, or name another output.")

    @classmethod
    def load(cls, output: str) -> Job:
        """Read the job that was begun for an output."""
        folder = cls(output=absolute(output)).folder
        saved = folder.read_json(JOB)
        try:
            if (version := saved.pop("format")) != FORMAT:
                raise ValueError(f"format {version}")
            sources = [Source(**source) for source in saved.pop("sources")]
            return cls(output=absolute(output), sources=sources, **saved)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"Cannot read {JOB!r} in {folder.name!r} ({error!r}). Was it written by another"
                " version?"
            ) from error

    def save(self) -> None:
        """Write the job into its folder."""
        content = {"format": FORMAT} | asdict(self)
        del content["output"]  # a folder can be moved
        self.folder.write_json(JOB, content)

    def check_same(self, begun: Job) -> None:
        """Refuse to continue another job; where files lie may differ."""

        def identity(job: Job) -> dict[str, Any]:
            options = {k: v for k, v in job.options.items() if k not in MACHINE_OPTIONS}
            files = [[s.label, s.size, s.rows, s.sha256] for s in job.sources]
            whole = asdict(replace(job, output="", location="", sources=[], options=options))
            return whole | {"input": files}

        refuse_other_job(self.folder.name, identity(begun), identity(self))


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
    chunk_rows: int | None = None,
) -> Job:
    """List the input and claim the output, or continue the job that was begun there.

    `input_name` is a file, a folder or a pattern, local or a URL. `output` is a file that ends in
    `.jsonl`, or a folder, which may be a URL.
    """
    options = dict(options or {})
    if "api_key" in options:
        raise ConfigError(
            "The job is saved beside its output, and a key must not be. Set VLLM_API_KEY instead,"
            " where the workers run."
        )
    default_rows = FILE_CHUNK if output.endswith(".jsonl") else FOLDER_CHUNK
    job = Job(
        output=absolute(output),
        model=model,
        location=absolute(model) if Path(model).is_dir() else model,
        engine=engine,
        options=options,
        settings=dict(settings or {}),
        is_revision=is_revision,
        text_key=text_key,
        chunk_rows=chunk_rows or default_rows,
    )
    begun = _find_begun(job, input_name)
    sources = find_sources(input_name)
    if len({source.format for source in sources}) > 1:
        raise DataError(
            f"{input_name!r} has both Parquet and JSON lines. Choose one with a pattern, such as"
            " 'folder/*.parquet'."
        )
    weights = hub.fingerprint_of(model, is_remote="url" in options)
    job = replace(job, sources=_scan_all(sources, begun, job.chunk_rows), weights=weights)
    if not job.chunks:
        raise DataError(f"{input_name!r} has no documents.")
    if begun is not None:
        job.check_same(begun)
    if job != begun:  # it is new, or a path or URL is another one now
        job.save()
    return job


def _find_begun(job: Job, input_name: str) -> Job | None:
    """Return the job that was begun for the same output; refuse an output that is in use."""
    if job.is_one_file and is_url(job.output):
        raise ConfigError(f"{job.output!r} is one file, which must be local: name a folder.")
    if job.is_one_file and job.output == absolute(input_name):
        raise ConfigError(f"{input_name!r} is both input and output: name another output.")
    job.check_output()
    names = job.folder.names()
    if JOB in names:
        return Job.load(job.output)
    # A file that ends so is being written, maybe by another part that begins the same job.
    if any(not name.endswith(".partial") for name in names):
        raise ConfigError(f"{job.folder.name!r} contains other files. Give a new or empty folder.")
    return None


def _scan_all(sources: list[Source], begun: Job | None, chunk_rows: int) -> list[Source]:
    """Count the documents of files, unless an earlier run did."""
    is_same = begun is not None and begun.chunk_rows == chunk_rows
    known = {(s.name, s.size, s.stamp): s for s in begun.sources} if begun and is_same else {}

    def scan_one(source: Source) -> Source:
        scanned = known.get((source.name, source.size, source.stamp))
        return replace(scanned, label=source.label) if scanned else scan(source, chunk_rows)

    with ThreadPoolExecutor(_SCANS) as pool:
        return list(pool.map(scan_one, sources))
