"""Pairs of texts, before and after an edit: what a model learns editing from.

A file of pairs has a JSON object a line: "before", "after", an "instruction" if there is one, and
whatever else its maker noted, which is kept and means nothing here. Unlike a corpus, where a bad
line is counted and left out, a bad pair is refused with its place: such files are made, not found.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from reviser.data.readers import Source, find_sources, whole_lines
from reviser.errors import ConfigError, DataError, MissingExtra

_MOST_BYTES = 32 * 2**20
"""Of a line: eight documents of the longest kind that `reviser tokenize` takes."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A text before and after an edit; the two are equal if it needs none."""

    before: str
    after: str
    instruction: str = ""
    """What was asked for, if anything."""
    more: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Where it comes from, its licence, and the like."""

    @property
    def is_unchanged(self) -> bool:
        """Whether there is nothing to do but to stop."""
        return self.before == self.after

    def to_dict(self) -> dict[str, Any]:
        """As it stands in a file."""
        asked = {"instruction": self.instruction} if self.instruction else {}
        return {"before": self.before, "after": self.after, **asked, **self.more}


def read_pairs(given: str | Path | Iterable[str | Path]) -> Iterator[Pair]:
    """The pairs of files, folders or patterns of JSON lines, also compressed, in order."""
    paths = [given] if isinstance(given, str | Path) else given
    for source in [source for path in paths for source in _sources(path)]:
        for n, line in enumerate(whole_lines(source, _MOST_BYTES), start=1):
            if line is None or line.strip():
                yield _parsed(line, f"Line {n} of {source.name!r}")


def write_pairs(path: Path, pairs: Iterable[Pair]) -> int:
    """Write a new file of pairs, compressed as its name says, and count them."""
    count = 0
    with _new(path) as file:
        for count, pair in enumerate(pairs, start=1):  # noqa: B007, its last value is the result
            file.write(json.dumps(pair.to_dict(), ensure_ascii=False).encode() + b"\n")
    return count


def with_unchanged(pairs: Iterable[Pair], share: float, seed: int) -> Iterator[Pair]:
    """The pairs, and behind some of them what they became as a pair that needs no change.

    Those are this share of all, or as many as there are texts that no pair changes further.
    """
    if not 0 <= share <= 0.5:
        raise ConfigError(f"The share of unchanged pairs is {share}; it must be 0 to 0.5.")
    given = list(pairs)
    changed = {pair.before for pair in given}
    last = {pair.after: n for n, pair in enumerate(given) if pair.after not in changed}
    wanted = min(len(last), round(len(given) * share / (1 - share)))
    drawn = np.random.default_rng(seed).permutation(sorted(last.values()))[:wanted]
    chosen = set(drawn.tolist())
    for n, pair in enumerate(given):
        yield pair
        if n in chosen:
            yield replace(pair, before=pair.after)


def similarity(before: str, after: str) -> float:
    """The share of words and marks that two texts have in common, in order."""
    old, new = (re.findall(r"\w+|[^\w\s]", text) for text in (before, after))
    return SequenceMatcher(None, old, new, autojunk=False).ratio()


def aligned(old: Sequence[str], new: Sequence[str], least: float) -> list[tuple[int, int]]:
    """Which texts are versions of each other: most similarity in all, none crossing another.

    None of them is below `least`.
    """
    worth = [[similarity(a, b) for b in new] for a in old]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]  # of what is left from here
    for m in reversed(range(len(old))):
        for n in reversed(range(len(new))):
            met = worth[m][n] + best[m + 1][n + 1] if worth[m][n] >= least else 0.0
            best[m][n] = max(met, best[m + 1][n], best[m][n + 1])
    found, m, n = [], 0, 0
    while m < len(old) and n < len(new):
        if best[m][n] == best[m + 1][n]:
            m += 1
        elif best[m][n] == best[m][n + 1]:
            n += 1
        else:
            found.append((m, n))
            m, n = m + 1, n + 1
    return found


def _sources(given: str | Path) -> list[Source]:
    sources = find_sources(given)
    if len(sources) > 1 or Path(given).is_dir():  # a folder may have a README beside its pairs
        sources = [source for source in sources if source.kind == "jsonl"]
    if not sources or any(source.kind in ("hf", "parquet") for source in sources):
        raise DataError(
            f"No pairs at {str(given)!r}. Give a file of JSON lines with 'before' and 'after'"
            f" (.jsonl, also .gz, .xz or .zst), or a folder of such files."
        )
    return sources


def _parsed(line: bytes | None, place: str) -> Pair:
    if line is None:
        raise DataError(f"{place} is longer than {_MOST_BYTES:,} bytes: cut its texts.")
    try:
        fields = json.loads(line.decode("utf-8-sig"))
        json.dumps(fields, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except UnicodeError as error:
        raise DataError(f"{place} is not UTF-8: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} is not JSON: {error}.") from error
    if not isinstance(fields, dict):
        raise DataError(f"{place} must be a JSON object, with 'before' and 'after'.")
    texts = {"before": fields.pop("before", None), "after": fields.pop("after", None)}
    asked = fields.pop("instruction", None)
    texts["instruction"] = "" if asked is None else asked
    for name, text in texts.items():
        if not isinstance(text, str):
            found = "missing" if text is None else f"a {type(text).__name__}"
            raise DataError(f"{place}: {name!r} is {found}; it must be a string.")
    return Pair(**texts, more=fields)


@contextmanager
def _new(path: Path) -> Iterator[IO[bytes]]:
    """A file that is there when all of it is, and never in the place of another."""
    if path.exists():
        raise ConfigError(f"{str(path)!r} exists already: delete it or name another.")
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as raw, _packed(raw, path.suffix) as file:
            yield file
        partial.replace(path)
    except OSError as error:
        raise DataError(f"Cannot write {str(path)!r}: {error.strerror or error}.") from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _packed(raw: IO[bytes], suffix: str) -> Iterator[IO[bytes]]:
    if suffix == ".gz":  # without name and time, so that the same pairs are the same bytes
        with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as file:
            yield cast(IO[bytes], file)
    elif suffix == ".xz":
        with lzma.open(raw, "wb") as file:
            yield cast(IO[bytes], file)
    elif suffix == ".zst":
        try:
            import pyarrow as pa
        except ImportError as error:
            raise MissingExtra(
                "Writing .zst needs pyarrow. Install it with: pip install 'reviser-lm[train]', or"
                " write .xz."
            ) from error
        with pa.CompressedOutputStream(pa.PythonFile(raw, mode="w"), "zstd") as file:
            yield file
    else:
        yield raw
