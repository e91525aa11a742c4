"""Folders on a local disk or anywhere that fsspec reaches, such as s3:// or memory://."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from reviser.errors import DataError, MissingExtra, reason_of
from reviser.files import write_whole

CONTINUE = "Finished chunks are kept; run the same command again to continue."


def require(module: str, reason: str, extra: str = "batch") -> Any:
    """Import a module of an extra."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{reason} needs {error.name or module}. Install it with: pip install"
            f" 'reviser-lm[{extra}]'."
        ) from error


@contextmanager
def explain(action: str) -> Iterator[None]:
    """Turn what a file system reports into a sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or reason_of(error)
        advice = f" {CONTINUE}" if action.startswith("write") else ""
        raise DataError(f"Cannot {action}: {reason}.{advice}") from error


def is_url(name: str) -> bool:
    """Return whether a name is a URL such as s3://bucket/folder, not a local path."""
    return re.match(r"[a-z][a-z0-9+.-]+(::|://)", name) is not None


def absolute(name: str) -> str:
    """Return a URL unchanged, and a local path from its root: workers run in other folders."""
    return name if is_url(name) else str(Path(name).absolute())


def find_system(name: str) -> tuple[Any, str]:
    """Return the file system of a name, and the path there."""
    fsspec = require("fsspec", "A batch")
    try:
        system, path = fsspec.core.url_to_fs(name)
    except ImportError as error:
        raise MissingExtra(f"Cannot open {name!r}: {reason_of(error)}") from error
    except ValueError as error:
        raise DataError(f"Cannot open {name!r}: {reason_of(error)}.") from error
    return system, path


class Folder:
    """A folder of chunks: files appear whole or not at all, under their own names."""

    def __init__(self, name: str) -> None:
        self.name = absolute(name)
        self._system, self._path = find_system(self.name)
        local = require("fsspec.implementations.local", "A batch")
        self.is_local = isinstance(self._system, local.LocalFileSystem)
        """True if the folder is on a disk of this machine."""

    def path(self, name: str) -> str:
        """Return the path of a file on the folder's file system."""
        return f"{self._path.rstrip('/')}/{name}"

    def names(self) -> set[str]:
        """Return the names of all files."""
        self._system.invalidate_cache()  # other processes write here
        entries: list[str] = []
        with explain(f"list {self.name!r}"), suppress(FileNotFoundError):
            entries = self._system.ls(self._path, detail=False)
        return {entry.rstrip("/").rpartition("/")[2] for entry in entries}

    def exists(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        self._system.invalidate_cache(self._path)
        return bool(self._system.exists(self.path(name)))

    def write(self, name: str, content: bytes) -> None:
        """Write a file so that it is never seen in part."""
        if self.is_local:
            try:
                write_whole(Path(self.path(name)), content)
            except DataError as error:
                raise DataError(f"{error} {CONTINUE}") from error
            return
        with explain(f"write {name!r} to {self.name!r}"):
            self._system.makedirs(self._path, exist_ok=True)
            self._system.pipe_file(self.path(name), content)  # an object appears once it is whole

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with explain(f"read {name!r} in {self.name!r}"):
            content: bytes = self._system.cat_file(self.path(name))
        return content

    def open(self, name: str) -> Any:
        """Open a file to read parts of it."""
        return self._system.open(self.path(name), "rb")

    def read_json(self, name: str) -> Any:
        """Return the JSON value in a file."""
        content = self.read(name)
        try:
            return json.loads(content)
        except ValueError as error:
            raise DataError(f"{name!r} in {self.name!r} is not JSON: {error}.") from error

    def write_json(self, name: str, content: Any) -> None:
        """Write a JSON value, one field per line."""
        self.write(name, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self.exists(name):
            self._system.rm_file(self.path(name))
