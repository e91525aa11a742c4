"""Token shards: files of token ids that training maps into memory, and their manifest.

This module knows documents as rows of token ids, but not trajectories or models. Reading needs
numpy only. datatrove is imported when text is tokenized.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reviser.data.pipeline import FORMAT, ShardPlan, make_plan, run_plan
from reviser.data.readers import Reader, SplitBy
from reviser.errors import DataError
from reviser.files import write_json

Tokens = npt.NDArray[np.int32]
Integers = Sequence[int] | npt.NDArray[np.integer]

_DTYPES = ("<u2", "<u4")
MAX_MAPPED = 4096
"""Shards that are mapped at once. The one that was used least recently is unmapped for another."""
_SCANNED = 1 << 18
"""Documents whose ends are in memory at once while a whole index is read."""


def tokenize(
    sources: Sequence[str | Path],
    output: str | Path,
    tokenizer_folder: str | Path,
    *,
    split: SplitBy = "blank",
    text_key: str = "text",
    workers: int | None = None,
    progress: bool = False,
) -> Manifest:
    """Tokenize text on this machine. The same call again continues a run that stopped.

    A source is a file of JSON lines, parquet or plain text, compressed or not; a folder of these;
    a pattern; a URL that fsspec can open, such as `s3://bucket/folder`; or `hf:NAME`. `split` says
    how text files are split into documents. Files are the unit of parallel work, by default one
    process per core. A script that calls this needs the usual `if __name__ == "__main__":`.
    """
    plan = make_plan(
        sources, output, tokenizer_folder, reader=Reader(split=split, text_key=text_key)
    )
    run_plan(plan, workers=workers, progress=progress)
    manifest = finish(output)
    TokenShards.open(output)  # refuses a folder that was damaged in the meantime
    return manifest


def finish(output: str | Path) -> Manifest:
    """Write the manifest once every task is done. This is the last step of every tokenizing run."""
    plan = ShardPlan.load(output)
    records = [_task_record(plan, rank) for rank in range(len(plan.tasks))]
    left = [rank for rank, record in enumerate(records) if record is None]
    if left:
        raise DataError(
            f"{len(left)} of {len(records)} tasks in {str(plan.output)!r} are not done (the first"
            f" is {left[0]}). Run them, then finish again."
        )
    done = [record for record in records if record is not None]
    skipped = sum((Counter(record["skipped"]) for record in done), Counter[str]())
    manifest = Manifest(
        tokenizer=plan.fingerprint,
        vocabulary=plan.vocabulary,
        dtype=plan.dtype,
        shards=tuple(Shard(**record["shard"]) for record in done if record["shard"]["documents"]),
        skipped=dict(sorted(skipped.items())),
        damaged=tuple(name for record in done for name in record["damaged"]),
        sources=tuple({"source": s, "files": n, "bytes": size} for s, n, size in plan.sources),
        reader=asdict(plan.reader),
        versions={name: _version(name) for name in ("reviser-lm", "datatrove", "tokenizers")},
    )
    if not manifest.shards:
        counts = ", ".join(f"{reason}: {count}" for reason, count in manifest.skipped.items())
        raise DataError(
            f"No document could be used (left out: {counts or 'none, the files are blank'})."
            " Check the files and text_key, then use a new output folder."
        )
    write_json(plan.output / "manifest.json", manifest.to_dict())
    return manifest


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # a source tree on the path
        return "not installed"


def _task_record(plan: ShardPlan, rank: int) -> dict[str, Any] | None:
    """Return the merged records of a task's two steps; None if it is not complete."""
    if not plan.is_done(rank):
        return None
    paths = [plan.record(rank, part) for part in ("read", "shard")]
    read, written = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    return {**written, **read, "skipped": Counter(read["skipped"]) + Counter(written["skipped"])}


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One file of tokens and its index file."""

    name: str
    tokens: int
    documents: int
    sha256: str
    """SHA-256 of the tokens followed by the index."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The contents of a folder of shards, and how it was made."""

    tokenizer: str
    """`Codec.fingerprint` of the tokenizer."""
    vocabulary: int
    dtype: str
    shards: tuple[Shard, ...]
    skipped: dict[str, int]
    """Number of documents left out, by reason."""
    damaged: tuple[str, ...]
    """Files that ended in an error. The documents before it were used."""
    sources: tuple[dict[str, Any], ...]
    """The sources as the user named them, with their numbers of files and bytes."""
    reader: dict[str, Any]
    """The settings by which text was split into documents."""
    versions: dict[str, str]

    @property
    def tokens(self) -> int:
        """Number of tokens in all shards."""
        return sum(shard.tokens for shard in self.shards)

    @property
    def documents(self) -> int:
        """Number of documents in all shards."""
        return sum(shard.documents for shard in self.shards)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the shards' content, independent of sources and paths."""
        shards = [[s.tokens, s.documents, s.sha256] for s in self.shards]
        content = [FORMAT, self.tokenizer, self.dtype, shards]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the content of manifest.json."""
        return {
            "format": FORMAT,
            "documents": self.documents,
            "tokens": self.tokens,
            **asdict(self),
        }

    @classmethod
    def load(cls, folder: str | Path) -> Manifest:
        """Read and check a folder's manifest.json."""
        path = Path(folder) / "manifest.json"
        if not path.is_file():
            begun = (Path(folder) / "plan.json").is_file()
            hint = "`reviser tokenize` has not finished there" if begun else "it has no shards"
            raise DataError(f"There is no manifest.json in {str(folder)!r}: {hint}.")
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            number = content["format"]
            if number == FORMAT:
                values = {field.name: content[field.name] for field in fields(cls)}
                values["shards"] = tuple(_shard(**shard) for shard in values["shards"])
                values |= {name: tuple(values[name]) for name in ("damaged", "sources")}
                if values["dtype"] not in _DTYPES:
                    raise ValueError(f"dtype is {values['dtype']!r}")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"Cannot read {str(path)!r} ({error!r}). Tokenize again into a new folder."
            ) from error
        if number != FORMAT:
            raise DataError(
                f"{str(path)!r} has format {number!r}; this version reads {FORMAT}."
                " Tokenize again, or use the version that wrote it."
            )
        return cls(**values)


def _shard(*, name: str, tokens: int, documents: int, sha256: str) -> Shard:
    if Path(name).name != name or min(int(tokens), int(documents)) < 1:
        raise ValueError(f"shard {name!r} has {tokens} tokens in {documents} documents")
    return Shard(name=name, tokens=int(tokens), documents=int(documents), sha256=sha256)


class TokenShards:
    """All documents of a folder of shards, numbered from 0, read from memory-mapped files.

    Nothing that grows with documents or tokens is kept in memory: ends of documents are read from
    the mapped index. A copy in another process, forked or pickled, has its own maps.
    """

    def __init__(self, folder: str | Path, manifest: Manifest) -> None:
        self.folder = Path(folder).resolve()
        self.manifest = manifest
        self._firsts = np.cumsum([0, *(shard.documents for shard in manifest.shards)])
        self._maps: OrderedDict[int, tuple[npt.NDArray[Any], npt.NDArray[np.uint64]]]
        self._maps = OrderedDict()

    @classmethod
    def open(cls, folder: str | Path, fingerprint: str | None = None) -> TokenShards:
        """Open a folder and check its files; with `fingerprint`, check the tokenizer too."""
        manifest = Manifest.load(folder)
        if fingerprint is not None and manifest.tokenizer != fingerprint:
            raise DataError(
                f"The shards in {str(folder)!r} were made with another tokenizer: its fingerprint"
                f" is {manifest.tokenizer[:12]}, but the model's is {fingerprint[:12]}. Tokenize"
                " the text with the model's tokenizer."
            )
        shards = cls(folder, manifest)
        for number in range(len(manifest.shards)):
            shards._check(number)
        return shards

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the data."""
        return self.manifest.fingerprint

    def __len__(self) -> int:
        return int(self._firsts[-1])

    @property
    def parts(self) -> list[int]:
        """Number of documents of each shard."""
        return [shard.documents for shard in self.manifest.shards]

    def lengths_in(self, part: int, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Return the number of tokens of documents `start` to `stop` of one shard."""
        # Called for every window that is read, so without the overhead of np.diff.
        ends = self._mapped(part)[1][max(start - 1, 0) : stop].astype(np.int64)
        if start:
            return ends[1:] - ends[:-1]
        ends[1:] -= ends[:-1].copy()
        return ends

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of tokens of every document, read from the index each time: not for training."""
        return np.concatenate([self.lengths_in(n, 0, count) for n, count in enumerate(self.parts)])

    def read(self, document: int, start: int = 0, stop: int | None = None) -> Tokens:
        """Return tokens `start` to `stop` of one document; all of them by default."""
        if stop is None and 0 <= document < len(self):
            part = int(np.searchsorted(self._firsts, document, side="right")) - 1
            row = document - int(self._firsts[part])
            stop = int(self.lengths_in(part, row, row + 1)[0])
        return self.read_many([document], [start], [stop or 0])[0]

    def read_many(self, documents: Integers, starts: Integers, stops: Integers) -> list[Tokens]:
        """Return tokens `start` to `stop` of each of several documents."""
        rows, begins, ends = (np.asarray(part, np.int64) for part in (documents, starts, stops))
        if rows.size and not 0 <= rows.min() <= rows.max() < len(self):
            wrong = int(rows.min() if rows.min() < 0 else rows.max())
            raise DataError(f"There is no document {wrong}; these shards have {len(self)}.")
        numbers = np.searchsorted(self._firsts, rows, side="right") - 1
        texts = []
        in_shard = (rows - self._firsts[numbers]).tolist()
        pieces = zip(numbers.tolist(), in_shard, begins.tolist(), ends.tolist(), strict=True)
        for number, row, begin, end in pieces:
            tokens, index = self._mapped(number)
            first = int(index[row - 1]) if row else 0
            length = int(index[row]) - first
            if not 0 <= begin <= end <= length:
                document = int(self._firsts[number]) + row
                raise DataError(
                    f"Cannot read tokens {begin} to {end} of document {document}, which has"
                    f" {length}."
                )
            texts.append(tokens[first + begin : first + end].astype(np.int32))
        return texts

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "manifest": self.manifest}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _mapped(self, number: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint64]]:
        """Map tokens and document ends of a shard at first use, and return them."""
        if number in self._maps:
            self._maps.move_to_end(number)
        else:
            if len(self._maps) >= MAX_MAPPED:
                self._maps.popitem(last=False)
            path = self.folder / self.manifest.shards[number].name
            files = ((path, self.manifest.dtype), (Path(f"{path}.index"), "<u8"))
            # Plain arrays, because a slice of a memmap costs several times as much.
            tokens, index = (np.memmap(p, d, "r").view(np.ndarray) for p, d in files)
            self._maps[number] = tokens, index
        return self._maps[number]

    def _check(self, number: int) -> None:
        """Check sizes and document ends of a shard against the manifest, but not its tokens."""
        shard = self.manifest.shards[number]
        path = self.folder / shard.name
        width = np.dtype(self.manifest.dtype).itemsize
        sizes = {path: shard.tokens * width, Path(f"{path}.index"): shard.documents * 8}
        for file, size in sizes.items():
            found = file.stat().st_size if file.is_file() else None
            if found != size:
                has = "is missing" if found is None else f"has {found} bytes"
                raise DataError(
                    f"{str(file)!r} {has}; the manifest says {size}. Tokenize again into a new"
                    " folder, or copy the whole folder again."
                )
        index = self._mapped(number)[1]
        scans = range(0, shard.documents, _SCANNED)
        if index[-1] != shard.tokens or any(
            self.lengths_in(number, first, first + _SCANNED).min() < 1 for first in scans
        ):
            raise DataError(
                f"The document ends in '{path}.index' do not increase to {shard.tokens}, the number"
                " of tokens: the file is damaged. Tokenize again into a new folder."
            )
