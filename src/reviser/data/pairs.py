"""Pairs of texts, before and after an edit: the data that a model learns editing from.

A file of pairs has one JSON object per line with "before", "after" and, optionally, "instruction".
Other fields are kept but not used. A bad line in a corpus is counted and skipped, but a bad pair is
an error that names its line, because files of pairs are made on purpose.
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

_MAX_BYTES = 32 * 2**20
"""Maximum size of a line: eight times the longest document that `reviser tokenize` accepts."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A text before and after an edit. The two are equal if no edit is needed."""

    before: str
    after: str
    instruction: str = ""
    """The instruction for the edit, if there was one."""
    more: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Other fields of the file, such as source and licence."""

    @property
    def is_unchanged(self) -> bool:
        """True if the two texts are equal."""
        return self.before == self.after

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of a file of pairs."""
        instruction = {"instruction": self.instruction} if self.instruction else {}
        return {"before": self.before, "after": self.after, **instruction, **self.more}


def read_pairs(paths: str | Path | Iterable[str | Path]) -> Iterator[Pair]:
    """Yield the pairs of files, folders or patterns of JSON lines, also compressed, in order."""
    several = [paths] if isinstance(paths, str | Path) else paths
    for source in [source for path in several for source in _sources(path)]:
        for n, line in enumerate(whole_lines(source, _MAX_BYTES), start=1):
            if line is None or line.strip():
                yield _parsed(line, f"Line {n} of {source.name!r}")


def write_pairs(path: Path, pairs: Iterable[Pair]) -> int:
    """Write a new file of pairs, compressed according to its suffix; return their number."""
    count = 0
    with _new(path) as file:
        for count, pair in enumerate(pairs, start=1):  # noqa: B007, its last value is the result
            file.write(json.dumps(pair.to_dict(), ensure_ascii=False).encode() + b"\n")
    return count


def with_unchanged(pairs: Iterable[Pair], share: float, seed: int) -> Iterator[Pair]:
    """Yield the pairs, and after some of them an unchanged pair made from their result.

    Unchanged pairs are this share of all pairs, or fewer if there are not enough results that no
    other pair changes further.
    """
    if not 0 <= share <= 0.5:
        raise ConfigError(f"The share of unchanged pairs is {share}; it must be 0 to 0.5.")
    pairs = list(pairs)
    changed = {pair.before for pair in pairs}
    last = {pair.after: n for n, pair in enumerate(pairs) if pair.after not in changed}
    wanted = min(len(last), round(len(pairs) * share / (1 - share)))
    drawn = np.random.default_rng(seed).permutation(sorted(last.values()))[:wanted]
    chosen = set(drawn.tolist())
    for n, pair in enumerate(pairs):
        yield pair
        if n in chosen:
            yield replace(pair, before=pair.after)


def similarity(before: str, after: str) -> float:
    """Return the share of words and punctuation that two texts have in common, in order."""
    old, new = (re.findall(r"\w+|[^\w\s]", text) for text in (before, after))
    return SequenceMatcher(None, old, new, autojunk=False).ratio()


def aligned(old: Sequence[str], new: Sequence[str], least: float) -> list[tuple[int, int]]:
    """Match old with new texts in order, with the largest total similarity.

    A match has at least the similarity `least`. Dynamic programming as in sequence alignment:
    `best[m][n]` is the largest total for old texts from m on and new texts from n on.
    """
    scores = [[similarity(a, b) for b in new] for a in old]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for m in reversed(range(len(old))):
        for n in reversed(range(len(new))):
            matched = scores[m][n] + best[m + 1][n + 1] if scores[m][n] >= least else 0.0
            best[m][n] = max(matched, best[m + 1][n], best[m][n + 1])
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


def _sources(path: str | Path) -> list[Source]:
    sources = find_sources(path)
    if len(sources) > 1 or Path(path).is_dir():  # a folder may also contain a README
        sources = [source for source in sources if source.kind == "jsonl"]
    if not sources or any(source.kind in ("hf", "parquet") for source in sources):
        raise DataError(
            f"No pairs at {str(path)!r}. Give a file of JSON lines with 'before' and 'after'"
            f" (.jsonl, also .gz, .xz or .zst), or a folder of such files."
        )
    return sources


def _parsed(line: bytes | None, where: str) -> Pair:
    if line is None:
        raise DataError(f"{where} is longer than {_MAX_BYTES:,} bytes. Shorten its texts.")
    try:
        fields = json.loads(line.decode("utf-8-sig"))
        json.dumps(fields, ensure_ascii=False).encode()  # raises for half a surrogate pair
    except UnicodeError as error:
        raise DataError(f"{where} is not UTF-8: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not JSON: {error}.") from error
    if not isinstance(fields, dict):
        raise DataError(f"{where} must be a JSON object, with 'before' and 'after'.")
    texts = {"before": fields.pop("before", None), "after": fields.pop("after", None)}
    instruction = fields.pop("instruction", None)
    texts["instruction"] = "" if instruction is None else instruction
    for name, text in texts.items():
        if not isinstance(text, str):
            found = "missing" if text is None else f"a {type(text).__name__}"
            raise DataError(f"{where}: {name!r} is {found}; it must be a string.")
    return Pair(**texts, more=fields)


@contextmanager
def _new(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file that appears under its name only once it is complete."""
    if path.exists():
        raise ConfigError(f"{str(path)!r} exists already. Delete it or choose another name.")
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
    if suffix == ".gz":  # no file name and time, so that equal pairs give equal bytes
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
