"""Folders that take long to make, made once for all tests, pytest workers and runs.

A folder lives in `.cache/` of the checkout. Its name holds a hash of the package's sources, of the
libraries that decide what is written, and of whatever the caller names (a recipe, a text), so a
change to any of them makes a new folder and nothing is ever out of date.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "tests"
LIBRARIES = ("accelerate", "numpy", "tokenizers", "torch", "transformers")


@cache
def _hash_of_the_code() -> str:
    found = hashlib.sha256(json.dumps([sys.version, *map(version, LIBRARIES)]).encode())
    for path in sorted((ROOT / "src" / "reviser").rglob("*.py")):
        found.update(path.relative_to(ROOT).as_posix().encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def folder(name: str, ingredients: Any, make: Callable[[Path], None]) -> Path:
    """Return the folder that `make` fills, which is made now if no run has made it before.

    Args:
        name: What the folder holds; older folders of this name are removed.
        ingredients: What `make` depends on besides the package, as JSON can write it.
        make: Fills the folder, which is there and empty. It keeps its path afterwards.
    """
    content = json.dumps([_hash_of_the_code(), ingredients], sort_keys=True)
    path = CACHE / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    is_whole = path.with_suffix(".whole")
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / f"{name}.lock"):
        if not is_whole.exists():
            for old in CACHE.glob(f"{name}-*"):
                shutil.rmtree(old) if old.is_dir() else old.unlink()
            path.mkdir()
            make(path)
            is_whole.touch()
    return path
