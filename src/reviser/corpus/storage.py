"""Files of a corpus on a local disk or anywhere that fsspec reaches, such as s3:// or memory://."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from reviser.errors import DataError, MissingExtra, nearest_path, reason_of
from reviser.files import write_whole


def needed(module: str, reason: str) -> Any:
    """Import a module of the corpus extra."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{reason} needs {error.name or module}. Install it with: pip install"
            " 'reviser-lm[corpus]'."
        ) from error


def is_url(name: str) -> bool:
    """Return whether a name is a URL such as s3://bucket/folder, not a local path."""
    return re.match(r"[a-z][a-z0-9+.-]+(::|://)", name) is not None


def absolute(name: str) -> str:
    """Return a URL unchanged, and a local path from its root: workers run in other folders."""
    return name if is_url(name) else str(Path(name).absolute())


def opened(name: str) -> tuple[Any, str]:
    """Return the file system of a name, and the path there."""
    fsspec = needed("fsspec", "A corpus")
    try:
        system, path = fsspec.core.url_to_fs(name)
    except ImportError as error:
        raise MissingExtra(f"Cannot open {name!r}: {reason_of(error)}") from error
    except ValueError as error:
        raise DataError(f"Cannot open {name!r}: {reason_of(error)}.") from error
    return system, path


_OBJECT_STORES = {"s3", "gs", "abfs", "az", "adl", "oci", "oss", "hf", "memory"}
"""Protocols of file systems on which nothing is ever seen in part."""


def _protocols(system: Any) -> set[str]:
    found = system.protocol
    return {found} if isinstance(found, str) else set(found)


class Folder:
    """An output folder: files appear whole or not at all, under their own names."""

    def __init__(self, name: str) -> None:
        self.name = absolute(name)
        self._system, self._path = opened(self.name)
        self.is_local = "file" in _protocols(self._system)
        """True if the folder is on a disk of this machine."""

    def path(self, name: str) -> str:
        """Return the path of a file on the folder's file system."""
        return f"{self._path.rstrip('/')}/{name}"

    def names(self) -> set[str]:
        """Return the names of all files."""
        self._system.invalidate_cache()  # other processes write here
        try:
            entries = self._system.ls(self._path, detail=False)
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise DataError(f"Cannot list {self.name!r}: {reason_of(error)}.") from error
        return {entry.rstrip("/").rpartition("/")[2] for entry in entries}

    def exists(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        self._system.invalidate_cache(self._path)
        return bool(self._system.exists(self.path(name)))

    def write(self, name: str, content: bytes) -> None:
        """Write a file so that it is never seen in part.

        Object stores show an object once it is whole. Elsewhere a file is renamed once it is
        complete.
        """
        if self.is_local:
            write_whole(Path(self.path(name)), content)
            return
        path = self.path(name)
        try:
            self._system.makedirs(self._path, exist_ok=True)
            if _OBJECT_STORES & _protocols(self._system):
                self._system.pipe_file(path, content)
            else:
                self._system.pipe_file(f"{path}.partial", content)
                self._system.mv(f"{path}.partial", path)
        except OSError as error:
            raise DataError(
                f"Cannot write {name!r} to {self.name!r}: {reason_of(error)}."
            ) from error

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        try:
            content: bytes = self._system.cat_file(self.path(name))
        except OSError as error:
            raise DataError(
                f"Cannot read {name!r} in {self.name!r}: {reason_of(error)}."
            ) from error
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


def find_files(name: str) -> list[tuple[str, int, str]]:
    """Return the files of a path, a folder or a pattern, in order.

    Each comes with its size, and with a short label: its path below the folder or the pattern.
    """
    system, path = opened(absolute(name))
    try:
        if "*" in path or "?" in path:
            found, root = system.glob(path, detail=True), re.split(r"[*?]", path)[0]
            root = root.rpartition("/")[0]
        elif system.isdir(path):
            found, root = system.find(path, detail=True), path
        else:
            found, root = {path: system.info(path)}, path.rpartition("/")[0]
    except FileNotFoundError:
        found = {}
    except OSError as error:
        raise DataError(f"Cannot read {name!r}: {reason_of(error)}.") from error
    files = []
    for full, info in sorted(found.items()):
        label = full.removeprefix(root.rstrip("/")).lstrip("/")
        is_hidden = any(part.startswith((".", "_")) for part in label.split("/"))
        if info.get("type") == "file" and not is_hidden:
            url = system.unstrip_protocol(full) if is_url(name) else full
            files.append((url, int(info["size"]), label))
    if not files:
        hint = "" if is_url(name) or "*" in name else nearest_path(name)
        raise DataError(f"There is no file to read at {name!r}.{hint}")
    return files
