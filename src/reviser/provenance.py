"""The origin of a result: versions, the commit of this code, the machine, hashes."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any


def made_with(*packages: str) -> dict[str, Any]:
    """Return the versions of this package and of installed packages, Python, machine and commit."""
    return {
        "versions": dict(_versions("reviser-lm", *packages)),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "commit": commit(),
    }


def digest(content: Any) -> str:
    """Return the SHA-256 of a JSON value."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def commit() -> str | None:
    """Return the commit of this code: of its own checkout, or the one that pip installed.

    A package from an index has none; its version says what it is.
    """
    return _checked_out() or _installed()


def _installed() -> str | None:
    """Return the commit that pip noted, if it installed from a git URL."""
    try:
        package = distribution("reviser-lm")
    except PackageNotFoundError:
        return None
    try:
        noted = json.loads(package.read_text("direct_url.json") or "{}")
        return str(noted["vcs_info"]["commit_id"])
    except (KeyError, TypeError, ValueError):
        return None


def _checked_out() -> str | None:
    """Return the commit of the checkout that this code runs from, if it does."""
    package = Path(__file__).parent

    def git(*words: str) -> str:
        asked = subprocess.run(
            ["git", *words], cwd=package, capture_output=True, text=True, check=True
        )
        return asked.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) / "src" / "reviser" != package:
            return None
        return git("describe", "--always", "--dirty", "--abbrev=40")
    except (OSError, subprocess.CalledProcessError):
        return None


def _versions(*packages: str) -> list[tuple[str, str]]:
    found = []
    for name in packages:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return found
