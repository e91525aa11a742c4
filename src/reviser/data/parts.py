"""Large files cut between documents, so that several tasks can read one file."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import IO

from reviser.data.readers import COMPRESSED, Source, SplitBy, damage, opened

_PIECE = 1 << 20
"""Bytes of a line that are read at a time to find its end."""


def split_source(source: Source, most_bytes: int, split: SplitBy) -> list[Source]:
    """Cut a large file between documents, into parts of about `most_bytes`.

    What cannot be cut stays whole: compressed files, datasets, and text of one document per file.
    """
    is_whole = source.kind == "hf" or Path(source.name).suffix in COMPRESSED
    if source.size <= most_bytes or is_whole or (source.kind == "text" and split == "file"):
        return [source]
    with opened(source.name) as file:
        if source.kind == "parquet":
            return _row_groups(source, file, most_bytes)
        by_blank = source.kind == "text" and split == "blank"
        cuts = [0]
        for goal in range(most_bytes, source.size, most_bytes):
            cut = _cut_after(file, max(goal, cuts[-1]), by_blank=by_blank)
            if cuts[-1] < cut < source.size:
                cuts.append(cut)
    parts = pairwise([*cuts, source.size])
    return [Source(name=source.name, size=b - a, part=(a, b)) for a, b in parts]


def _cut_after(file: IO[bytes], position: int, *, by_blank: bool) -> int:
    """Return where the next document begins, or the end of the file."""
    # From one byte before, so that a line that begins at `position` counts as a whole line.
    file.seek(position - 1)
    is_line_start = False  # the first piece is the rest of a line
    while piece := file.readline(_PIECE):
        is_line = is_line_start and piece.endswith(b"\n")
        is_line_start = piece.endswith(b"\n")
        if is_line_start and (not by_blank or (is_line and not piece.strip())):
            break
    return file.tell()


def _row_groups(source: Source, file: IO[bytes], most_bytes: int) -> list[Source]:
    import pyarrow.parquet as pq

    try:
        metadata = pq.ParquetFile(file).metadata
        sizes = [metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups)]
    except damage():  # reading it will say so
        return [source]
    share = source.size / max(1, sum(sizes))  # sizes are of unpacked text
    parts, first = [], 0
    for n in range(len(sizes)):
        size = int(share * sum(sizes[first : n + 1]))
        if size >= most_bytes or n + 1 == len(sizes):
            parts.append(Source(name=source.name, size=size, part=(first, n + 1)))
            first = n + 1
    return parts or [source]
