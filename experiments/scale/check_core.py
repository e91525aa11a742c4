"""Check the predictions for sampler, loader memory and mask."""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

from experiments.scale.inputs import Corpus
from experiments.scale.model import oversampling
from experiments.scale.record import Record, seconds_of
from experiments.speed.train import batches
from reviser import ActionVocab, Boundary, Canvas
from reviser.data.shards import Manifest, Shard, TokenShards
from reviser.data.window_config import WindowConfig
from reviser.data.windows import Windows


def check_core(rounds: int) -> None:
    """Check sampler, loader and mask."""
    record = Record("core")
    check_sampler(record, rounds)
    check_loader(record)
    check_mask(record, rounds)
    record.save()


def check_sampler(record: Record, rounds: int) -> None:
    """Check the ids per second of a process that needs every n-th micro-batch."""

    def used(stride: int, first: int, count: int) -> float:
        source = batches("paper", 32)
        source[0]
        ids = 0

        def work() -> None:
            nonlocal ids
            for n in range(count):
                ids += source[(first + n) * stride]["counts"]["ids"]

        return ids / took if (took := seconds_of(work)) else 0.0

    alone = [used(1, 160 * (n + 1), 160) for n in range(rounds)]
    rate = record.rate("sampler", alone)
    for stride in (4, 16):
        found = [used(stride, 160 * (n + 1), 24) for n in range(rounds)]
        predicted = rate / oversampling(stride, Corpus().group)
        record.compare(
            "sampler", f"each {stride}th micro-batch", "ids/s", [predicted] * rounds, found
        )


def check_loader(record: Record) -> None:
    """Check the memory that opening shards takes, by number of documents."""

    def opened(documents: int) -> float:
        with tempfile.TemporaryDirectory() as name:
            write_shards(Path(name), documents)
            tracemalloc.start()
            shards = TokenShards.open(name)
            windows = Windows(shards, WindowConfig(size=16, prefix=(0, 4)))
            kept, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert len(windows) >= documents * 0.9
        return kept

    opened(1000)  # imports and caches are not counted
    few, many = 100_000, 1_600_000
    small, large = opened(few), opened(many)
    rate = record.rate("document_bytes", [(large - small) / (many - few)])
    for documents in (400_000, 6_400_000):
        predicted = small + rate * (documents - few)
        size = f"{documents:,} documents"
        record.compare("loader memory", size, "bytes", [predicted], [opened(documents)])


def write_shards(folder: Path, documents: int) -> None:
    """Write a shard of short documents in the format of `reviser tokenize`."""
    length = 20
    np.zeros(documents * length, "<u2").tofile(folder / "one.ds")
    np.arange(length, (documents + 1) * length, length, "<u8").tofile(folder / "one.ds.index")
    shard = Shard(name="one.ds", tokens=documents * length, documents=documents, sha256="")
    manifest = Manifest(
        tokenizer="", vocabulary=9, dtype="<u2", shards=(shard,), skipped={}, damaged=(),
        sources=(), reader={}, versions={},
    )  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest.to_dict()), "utf-8")


def check_mask(record: Record, rounds: int) -> None:
    """Check the seconds that the mask of a step takes, by rows, and measure the bytes of a row."""

    def step(vocab: Any, rows: int) -> float:
        boundary = Boundary(vocab, rows)
        for row in range(rows):
            held = {} if vocab.find is None else {"canvas": Canvas(vocab, [5] * 512)}
            boundary.reset(row, length=512, gaps=[(256, 512)], **held)
        out, ids = boundary.fill_mask(), np.full(rows, 7)

        def work() -> None:
            for _ in range(10):
                boundary.fill_mask(out)
                boundary.advance(ids)

        return min(
            seconds_of(work) / 10 for _ in range(12)
        )  # slower tries are other processes' work

    options = {"mask": {}, "marks": {"marks": True}, "search": {"marks": True, "search": True}}
    for name, option in options.items():
        vocab = ActionVocab.build(50_257, **option)
        step(vocab, 4)
        few, many = ([step(vocab, n) for _ in range(rounds)] for n in (8, 512))
        rows = [(b - a) / 504 for a, b in zip(few, many, strict=True)]
        row = record.rate(f"{name}_row", rows)
        fixed = record.rate(f"{name}_step", [a - 8 * row for a in few])
        for count in (64, 256):
            found = [step(vocab, count) for _ in range(rounds)]
            predicted = fixed + row * count
            label = f"mask, {'plain' if name == 'mask' else name}"
            record.compare(label, f"{count} rows", "s", [predicted] * rounds, found)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    boundary = Boundary(ActionVocab.build(50_257, marks=True), 4096)
    after = tracemalloc.get_traced_memory()[0]
    record.rate("boundary_bytes", [(after - before) / len(boundary)])
    canvases = [Canvas(vocab, [5] * 4096) for _ in range(50)]
    last = tracemalloc.get_traced_memory()[0]
    record.rate("canvas_bytes", [(last - after) / (len(canvases) * 4096)])
    tracemalloc.stop()
