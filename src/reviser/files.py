"""Files: written whole or not at all, locked, claimed for a job, or read as JSON lines."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from reviser.errors import ConfigError, DataError


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name, and rename it once it is complete."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        if path.exists():
            shutil.copymode(path, partial)
        partial.replace(path)
    except OSError as error:
        raise DataError(f"Cannot write {str(path)!r}: {error.strerror}.") from error


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an object as JSON, one field per line."""
    write_whole(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


@contextmanager
def lock(path: Path, refusal: str = "") -> Iterator[None]:
    """Hold a lock file, which is freed if the process dies.

    If another process holds it, wait, or raise ConfigError with the refusal if there is one.
    """
    try:
        with FileLock(path, timeout=0 if refusal else -1, thread_local=False):
            yield
    except Timeout as error:
        raise ConfigError(refusal) from error


def claim(
    path: Path,
    manifest: Mapping[str, Any],
    *,
    ignored: Collection[str] = (),
    update: Callable[[dict[str, Any]], Mapping[str, Any]] = dict,
) -> None:
    """Write the manifest of a job into its output, or refuse an output that another job began.

    The manifest of the first run, which `update` may bring up to date, must be equal in all fields
    but the ignored ones. The fields of an object inside are compared one by one: `training.steps`.
    """
    wanted = json.loads(json.dumps(manifest))
    if not path.is_file():
        write_json(path, wanted)
        return
    try:
        begun = json.loads(json.dumps(update(json.loads(path.read_text("utf-8")))))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"Cannot read {str(path)!r}: {error}.") from error
    differing = [name for name in _differing(begun, wanted) if name not in ignored]
    if differing:
        raise ConfigError(
            f"{str(path.parent)!r} was begun with another {', '.join(sorted(differing))}. Continue"
            " with the same, choose another output, or delete that folder to start again."
        )


def _differing(one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    for name in one.keys() | other.keys():
        a, b = one.get(name), other.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            yield from (f"{name}.{key}" for key in a.keys() | b.keys() if a.get(key) != b.get(key))
        elif a != b:
            yield name


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a file of JSON lines, each with a name for its line."""
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeError) as error:
        raise DataError(
            f"Cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}."
        ) from error
    for n, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"Line {n} of {str(path)!r}"
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place} is not JSON: {error}.") from error
        if not isinstance(fields, dict):
            raise DataError(f"{place} must be a JSON object.")
        yield place, fields | {"line": fields.get("line", n)}
