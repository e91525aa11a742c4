"""Every error a caller can meet.

A message says what was given, what is allowed and what to do; the same sentence reaches a Python
caller, the command line and an HTTP client. Broken invariants of our own are asserts, not these.
"""

import difflib
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

_MAX_ENTRIES = 1000
"""Entries of a folder that are compared with a misspelled name."""


class ReviserError(Exception):
    """The root of the tree: catch this to catch all of ours."""


class VocabError(ReviserError, ValueError):
    """An action vocabulary or tokenizer that cannot be used as asked."""


class InvalidAction(ReviserError, ValueError):
    """An action the executor cannot apply; the canvas is unchanged."""


class TrajectoryError(ReviserError, ValueError):
    """A trajectory that cannot be sampled, built or read."""


class ConfigError(ReviserError, ValueError):
    """A setting outside its range or with an unknown name."""


class DataError(ReviserError, ValueError):
    """Text, shards or a manifest that cannot be used."""


class CheckpointError(ReviserError):
    """A model folder or checkpoint file that cannot be opened."""


class EngineError(ReviserError, RuntimeError):
    """An engine that failed, or cannot be reached, while it ran a request."""


class MissingExtra(ReviserError, ImportError):
    """An optional dependency that is not installed."""


class RequestRefused(ReviserError, RuntimeError):
    """A request that a server refuses now, or from this caller."""

    def __init__(self, message: str, status: int, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status."""
        self.retry_after = retry_after
        """Seconds to wait before another try, if the server named them."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return advice for a name that does not exist: the nearest one, or all of them.

    >>> did_you_mean("temprature", ["temperature", "seed"])
    'Did you mean `temperature`?'
    >>> did_you_mean("x", ["temperature", "seed"])
    'Choose from: temperature, seed.'
    """
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    return f"Did you mean `{near[0]}`?" if near else f"Choose from: {', '.join(names)}."


def plural(count: int, noun: str) -> str:
    """Return a count with its noun in singular or plural.

    >>> plural(1, "change"), plural(2000, "change")
    ('1 change', '2,000 changes')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def nearest_path(path: str | Path) -> str:
    """Return advice for a path that does not exist: the nearest one that does, if there is one.

    The advice starts with a space, so that it can follow any message.
    """
    found, *missing = _existing_part(Path(path))
    if len(missing) == 1 and (below := _in_a_subfolder(found, missing[0])):
        return f" Did you mean {str(below)!r}?"
    for name in missing:
        names = [each.name for each in _entries(found)]
        near = [name] if name in names else difflib.get_close_matches(name, names, n=1)
        if not near:
            return ""
        found /= near[0]
    return f" Did you mean {str(found)!r}?"


def _existing_part(path: Path) -> tuple[Path, *tuple[str, ...]]:
    """Return the longest part of a path that exists, and the names that follow it."""
    missing: list[str] = []
    while path.name and not exists(path):
        missing.insert(0, path.name)
        path = path.parent
    return path, *missing


def _in_a_subfolder(folder: Path, name: str) -> Path | None:
    """Return the path of this name one level below a folder, if there is one."""
    return next((sub / name for sub in _entries(folder) if exists(sub / name)), None)


def exists(path: Path) -> bool:
    """Return whether there is a file or folder at a path, which may be too long to be one."""
    try:
        return path.exists()
    except (OSError, ValueError):  # too long for a name, or not one at all
        return False


def _entries(folder: Path) -> list[Path]:
    try:
        found = (each for each in folder.iterdir() if not each.name.startswith("."))
        return sorted(islice(found, _MAX_ENTRIES))
    except OSError:
        return []


def reason_of(error: BaseException, most: int = 300) -> str:
    r"""Return the first line of a library's message, shortened, or the name of its class.

    >>> reason_of(ValueError("no\nyes")), reason_of(KeyError()), reason_of(ValueError("aaaa"), 3)
    ('no', 'KeyError', 'aaa ...')
    """
    line = next(iter(str(error).splitlines()), "") or type(error).__name__
    return line if len(line) <= most else f"{line[:most]} ..."
