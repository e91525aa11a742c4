"""Files written whole or not at all: a reader, or a restart, never finds half of one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reviser.errors import ConfigError, DataError


def write_whole(path: Path, text: str) -> None:
    """Write a text under another name, and give it its own once it is there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        partial.write_text(text, encoding="utf-8")
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
