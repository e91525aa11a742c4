"""Files of recorded edits: written once, checked line by line, and read where they lie.

A file has one trajectory per line, in ids, after a first line that says which tokenizer and actions
the ids belong to. It is never held in memory: an index next to it has the offset, the length and a
hash of the prompt of each line.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from reviser.core.actions import FILE_NAME, ActionVocab
from reviser.core.codec import Codec, read_tokenizer
from reviser.core.trajectory import Trajectory
from reviser.data.recorded import Recorder, Recording, check, prompt_hash
from reviser.data.tokenizer import read_words
from reviser.errors import ConfigError, DataError, ReviserError, TrajectoryError
from reviser.files import write_json

_ROW = np.dtype([("offset", "<i8"), ("prompt", "<u4"), ("shown", "<u4"), ("ids", "<u4")])
"""A row of an index: byte offset of the line, hash of the prompt, ids of the history before the
first learned one, and all ids of it."""
_BLOCK = 4096
"""Rows of an index that are written together."""
_MAX_BYTES = 32 * 2**20


def write_trajectories(
    path: str | Path,
    examples: Iterable[Recording | tuple[Any, ...]],
    *,
    tokenizer: str | Path,
    **actions: Any,
) -> int:
    """Write recorded edits to a new file to train on; return the number of examples.

    Args:
        path: The file, which appears once it is complete, with an index next to it.
        examples: A prompt and its edits each, as a tuple or a `Recording`. The edits are versions
            of the text or actions, and are checked.
        tokenizer: A folder with tokenizer.json, such as a model, or a file with a JSON list of
            words, each of which becomes a token.
        actions: The actions of the vocabulary, as in `ActionVocab.build`. A model has its own.
    """
    path = Path(path)
    if path.exists():
        raise ConfigError(f"{str(path)!r} exists already. Delete it or choose another name.")
    recorder = _recorder(tokenizer, actions)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        header = {"format": 1, "tokenizer": recorder.codec.fingerprint}
        header |= {"vocab": json.loads(recorder.vocab.to_json())}
        with partial.open("wb") as file, _Index(path) as index:
            first = json.dumps(header).encode() + b"\n"
            file.write(first)
            index.begin(first)
            for number, example in enumerate(examples, start=1):
                try:
                    trajectory, line = recorder.line(example)
                except ReviserError as error:
                    raise TrajectoryError(f"Example {number}: {error}") from error
                file.write(line.encode() + b"\n")
                index.add(trajectory, line.encode() + b"\n")
            file.flush()
            index.end(partial)
        partial.replace(path)
    except OSError as error:
        raise DataError(f"Cannot write {str(path)!r}: {error.strerror or error}.") from error
    finally:
        partial.unlink(missing_ok=True)
    return index.count


def _recorder(tokenizer: str | Path, actions: dict[str, Any]) -> Recorder:
    """Return what records for a model, or for a tokenizer with these actions."""
    folder = Path(tokenizer)
    if (folder / FILE_NAME).is_file():
        if actions:
            raise ConfigError(f"{str(folder)!r} is a model with its own actions: give no others.")
        return Recorder(Codec.load(folder), ActionVocab.load(folder))
    backend: Tokenizer = read_tokenizer(folder) if folder.is_dir() else read_words(folder)
    return Recorder(Codec(backend), ActionVocab.from_tokenizer(backend, **actions))


class _Header(NamedTuple):
    """What the ids of a file belong to."""

    tokenizer: str
    """The fingerprint of the tokenizer."""
    vocab: ActionVocab


def _read_header(line: bytes, name: str) -> _Header:
    try:
        fields = json.loads(line)
        if fields["format"] == 1:
            return _Header(fields["tokenizer"], ActionVocab.from_json(json.dumps(fields["vocab"])))
    except (ValueError, KeyError, TypeError):
        pass
    raise DataError(
        f"{name!r} does not begin with the line that reviser.write_trajectories writes. Write files"
        " of recorded edits with that function."
    )


class _Index:
    """The index of a file while it is written, next to the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._partial = path.with_name(f"{path.name}.index.{os.getpid()}.partial")
        self._rows: list[tuple[int, ...]] = []
        self._digest = hashlib.sha256()
        self._offset = 0
        self._file: IO[bytes]
        self.header: _Header

    def __enter__(self) -> _Index:
        self._file = self._partial.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._partial.unlink(missing_ok=True)

    def begin(self, line: bytes) -> None:
        """Take the first line."""
        self.header = _read_header(line, self.path.name)
        self._take(line)

    def add(self, trajectory: Trajectory, line: bytes) -> None:
        """Add the row of a line, which holds this trajectory."""
        before = len(self.header.vocab.prefix_actions(trajectory.prefix))
        row = (self._offset, prompt_hash(trajectory), before + len(trajectory.shown))
        self._rows.append((*row, before + len(trajectory.restoration)))
        self.count += 1
        self._take(line)
        if len(self._rows) == _BLOCK:
            self._write()

    def _take(self, line: bytes) -> None:
        self._digest.update(line)
        self._offset += len(line)

    def _write(self) -> None:
        self._file.write(np.array(self._rows, _ROW).tobytes())
        self._rows.clear()

    def end(self, file: Path) -> None:
        """Put the index in its place; `file` is where the lines are now."""
        self._write()
        self._file.close()
        self._partial.replace(_index_of(self.path))
        about = {**_state(file), "count": self.count, "fingerprint": self._digest.hexdigest()}
        write_json(_about(self.path), about)


def _index_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.index")


def _about(path: Path) -> Path:
    return path.with_name(f"{path.name}.index.json")


def _state(path: Path) -> dict[str, int]:
    """Return what changes if a file is written again."""
    found = path.stat()
    return {"size": found.st_size, "modified": found.st_mtime_ns}


def make_indexes(sources: Sequence[str]) -> None:
    """Check every line of the files that have no index, or have changed, and index them.

    Only one process may call this.
    """
    for source in map(Path, sources):
        about = _about(source)
        known = json.loads(about.read_text("utf-8")) if about.is_file() else {}
        if known.items() >= _state(source).items() and _index_of(source).is_file():
            continue
        try:
            with _Index(source) as index:
                _check_file(source, index)
                index.end(source)
        except OSError as error:
            raise DataError(
                f"Cannot index {str(source)!r}: {error.strerror or error}. The index is written"
                " next to the file, once: copy the file to a folder that you may write to."
            ) from error


def _check_file(path: Path, index: _Index) -> None:
    """Add every line of a file to its index, or refuse the first bad one."""
    with path.open("rb") as file:
        index.begin(file.readline(_MAX_BYTES))
        for number, line in enumerate(iter(lambda: file.readline(_MAX_BYTES), b""), start=2):
            where = f"Line {number} of {path.name!r}"
            if not line.endswith(b"\n"):
                raise DataError(f"{where} is not complete: it has no line end.")
            trajectory = _parsed(line, where)
            try:
                check(index.header.vocab, trajectory)
            except ReviserError as error:
                raise DataError(f"{where}: {error}") from error
            index.add(trajectory, line)


def _parsed(line: bytes, where: str) -> Trajectory:
    """Return the trajectory of a line; times are checked and left out."""
    try:
        fields = json.loads(line)
        seconds = fields.pop("seconds", None) if isinstance(fields, dict) else None
        own = line.decode() if seconds is None else json.dumps(fields)
        trajectory = Trajectory.from_json(own)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: {error}") from error
    if seconds is not None:
        is_list = isinstance(seconds, list) and all(type(s) in (int, float) for s in seconds)
        written = len(trajectory.restoration) - 1 - len(trajectory.shown)
        if not is_list or len(seconds) != written:
            raise DataError(f"{where}: 'seconds' must be a list of {written} numbers, one per id.")
    return trajectory


class TrajectoryFiles:
    """Files of recorded edits after `make_indexes`, numbered as one list."""

    def __init__(self, sources: Sequence[str]) -> None:
        self._sources = [Path(source) for source in sources]
        abouts = [json.loads(_about(path).read_text("utf-8")) for path in self._sources]
        self._ends = np.cumsum([0, *(about["count"] for about in abouts)])
        digests = "".join(about["fingerprint"] for about in abouts)
        self.fingerprint = hashlib.sha256(digests.encode()).hexdigest()
        """SHA-256 of the files."""
        headers = [self._header(path) for path in self._sources]
        if any(header != headers[0] for header in headers):
            raise DataError(
                "The files of data.trajectories have different tokenizers or actions: write all of"
                " them for the same ones."
            )
        self.tokenizer, self.vocab = headers[0]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the open files: another process opens its own."""
        kept = self.__dict__.items()
        return {name: value for name, value in kept if name not in ("_files", "_indexes")}

    def __len__(self) -> int:
        return int(self._ends[-1])

    @staticmethod
    def _header(path: Path) -> _Header:
        with path.open("rb") as file:
            return _read_header(file.readline(_MAX_BYTES), path.name)

    def check(self, codec: Codec, vocab: ActionVocab) -> None:
        """Refuse to be read with another tokenizer or other actions."""
        if self.tokenizer != codec.fingerprint:
            raise DataError(
                "data.trajectories were recorded with another tokenizer. Write them again with the"
                " recipe's tokenizer, or give the recipe theirs."
            )
        ours, theirs = (json.loads(each.to_json()) for each in (vocab, self.vocab))
        names = sorted(n for n in ours.keys() | theirs if ours.get(n) != theirs.get(n))
        if names:
            raise DataError(
                "data.trajectories were recorded with other actions than the recipe's vocab has:"
                f" {', '.join(names)} differ. Set vocab as it was for write_trajectories."
            )

    @cached_property
    def _indexes(self) -> list[npt.NDArray[Any]]:
        """The rows of each file, which the system reads from the disk as they are needed."""
        sizes = np.diff(self._ends).tolist()
        return [
            np.memmap(_index_of(path), _ROW, mode="r", shape=(size,)) if size else np.empty(0, _ROW)
            for path, size in zip(self._sources, sizes, strict=True)
        ]

    @cached_property
    def _files(self) -> list[npt.NDArray[np.uint8]]:
        return [np.memmap(path, np.uint8, mode="r") for path in self._sources]

    def rows(self, size: int = 1 << 20) -> Iterator[npt.NDArray[Any]]:
        """Yield the rows of the indexes in order, in parts, which keeps memory small."""
        for index in self._indexes:
            for first in range(0, len(index), size):
                yield index[first : first + size]

    def read(self, number: int) -> Trajectory:
        """Return a trajectory by its number."""
        at = int(np.searchsorted(self._ends, number, "right")) - 1
        index, file = self._indexes[at], self._files[at]
        row = number - int(self._ends[at])
        start, end = [*index["offset"][row : row + 2].tolist(), len(file)][:2]
        return _parsed(file[start:end].tobytes(), f"A line of {self._sources[at].name!r}")
