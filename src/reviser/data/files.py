"""Files written whole or not at all: a reader, or a restart, never finds half of one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_whole(path: Path, text: str) -> None:
    """Write a text under another name, and give it its own once it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an object, a field a line."""
    write_whole(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
