"""Files written whole or not at all, so that nobody finds half of one; and JSON lines read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reviser.errors import ConfigError, DataError


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a text, or bytes, under another name, and give it its own once it is there."""
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
    """Write an object, a field a line."""
    write_whole(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


@contextmanager
def lock(path: Path, refusal: str = "") -> Iterator[None]:
    """Hold a file alone, which a kill frees; wait for it, or refuse to with a sentence."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        yield
        return
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if refusal else 0))
        except BlockingIOError as error:
            raise ConfigError(refusal) from error
        yield


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file of JSON lines, each with the words that name its line."""
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
