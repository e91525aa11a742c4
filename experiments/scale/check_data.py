"""Check the predictions for tokenizing and for the size of shards."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from experiments.scale.model import stored_bytes
from experiments.scale.record import Record, seconds_of
from reviser.data.shards import tokenize


def check_data(text: Path, tokenizer: Path, rounds: int) -> None:
    """Check the time of tokenizing a text and the size of its shards."""
    record = Record("data")
    whole = text.read_bytes()

    def run(first: int, size: int) -> dict[str, float]:
        with tempfile.TemporaryDirectory() as name:
            source = Path(name, "text.txt")
            piece = whole[first : first + size]
            piece = piece[piece.index(b"\n\n") + 2 : piece.rindex(b"\n\n")]
            source.write_bytes(piece)
            made = []
            took = seconds_of(
                lambda: made.append(tokenize([source], Path(name, "shards"), tokenizer, workers=1))
            )
            files = [Path(name, "shards", shard.name) for shard in made[0].shards]
            stored = sum(f.stat().st_size + Path(f"{f}.index").stat().st_size for f in files)
            return {
                "bytes": len(piece), "seconds": took, "tokens": made[0].tokens,
                "documents": made[0].documents, "stored": stored,
            }  # fmt: skip

    half = 1 << 19
    run(0, half // 4)  # imports and caches are not counted
    small = [run(0, half) for _ in range(rounds)]
    large = [run(half, 3 * half) for _ in range(rounds)]
    fast = [
        (b["bytes"] - a["bytes"]) / (b["seconds"] - a["seconds"])
        for a, b in zip(small, large, strict=True)
    ]
    rate = record.rate("tokenize", fast)
    each = record.rate("bytes_per_token", [r["bytes"] / r["tokens"] for r in (small[0], large[0])])
    start = statistics.median(r["seconds"] - r["bytes"] / rate for r in small)
    per_document = large[0]["bytes"] / large[0]["documents"]
    record.calibration = {"start": start, "bytes_per_document": per_document, "text": text.name}
    for size in (4, 8):
        found = [run(4 * half, size * half) for _ in range(rounds)]
        name = f"{size // 2} MiB of text"
        predicted = start + found[0]["bytes"] / rate
        record.compare("tokenize", name, "s", [predicted] * rounds, [r["seconds"] for r in found])
        tokens, documents = found[0]["bytes"] / each, found[0]["bytes"] / per_document
        stored = stored_bytes(tokens, documents, 50_257)
        record.compare("shards", name, "bytes", [stored], [found[0]["stored"]])
        exact = stored_bytes(found[0]["tokens"], found[0]["documents"], 50_257)
        record.compare("shards, tokens known", name, "bytes", [exact], [found[0]["stored"]])
    record.save()
