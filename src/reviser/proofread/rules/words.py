"""The words of the rules, read from files beside this module."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


def lines(name: str) -> Iterator[str]:
    """Yield the lines of a data file, without comments and empty lines."""
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        if line and line[0] != "#":
            yield line


@cache
def _sets() -> dict[str, frozenset[str]]:
    found: dict[str, list[str]] = {}
    some: list[str] = []
    for line in lines("words.txt"):
        if line[0] == " ":
            some += line.split()
        else:
            some = found.setdefault(line, [])
    return {name: frozenset(some) for name, some in found.items()}


def words(name: str) -> frozenset[str]:
    """Return a set of `words.txt`."""
    return _sets()[name]
