"""Measure what sampling trajectories on the fly costs a training run (`just bench-train`).

The same trunk takes steps on fresh micro-batches, on the same ones made beforehand, and on one
constant batch, in turns; a ratio is the median over the rounds with its quartiles. The text is
random, because its content does not matter here.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
import torch

from experiments.speed.core import ratio, take_turns
from reviser import PRESETS, ActionVocab, Sampler
from reviser.data.dataset import GROUP, MicroBatches, WindowStream
from reviser.data.window_config import WindowConfig
from reviser.data.windows import Windows
from reviser.models.trunks import TrunkConfig, build

TOKENS = 4096
ACCELERATOR = 400e12
"""Training FLOP/s of a modern accelerator: 40 % of a thousand teraflops."""


class RandomShards:
    """Random documents with lengths like those of web pages, in memory."""

    def __init__(self, documents: int) -> None:
        rng = np.random.default_rng(0)
        self.lengths = np.exp(rng.normal(6.0, 0.9, documents)).astype(np.int64) + 1
        self._ends = np.cumsum(self.lengths)
        self._tokens = rng.integers(0, TOKENS, self._ends[-1]).astype(np.int32)

    @property
    def parts(self):  # noqa: D102  # as TokenShards
        return [len(self.lengths)]

    def lengths_in(self, part, start, stop):  # noqa: ARG002, D102  # as TokenShards
        return self.lengths[start:stop]

    def read_many(self, documents, starts, stops):  # noqa: D102  # as TokenShards
        firsts = (self._ends - self.lengths)[documents]
        spans = zip(firsts + starts, firsts + stops, strict=True)
        return [self._tokens[a:b] for a, b in spans]


def batches(policy: str, size: int) -> MicroBatches:
    """Return an endless supply of micro-batches with the paper's lengths."""
    vocab = ActionVocab.build(TOKENS)
    windows = Windows(RandomShards(20_000), WindowConfig(size=180, prefix=(35, 35)))

    def units(tokens: np.ndarray) -> np.ndarray:
        return np.full(len(tokens), 3, np.uint8)

    stream = WindowStream(windows, Sampler(vocab, PRESETS[policy]), context=256, unit_starts=units)
    return MicroBatches(stream, size=size, count=10_000_000)


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: dict) -> int:
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(input_ids=batch["input_ids"], labels=batch["labels"]).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return batch["input_ids"].numel()


def throughput(name: str, trunk: TrunkConfig, policy: str, rounds: int) -> None:
    source = batches(policy, 16)
    model = build(trunk, source.stream.sampler.vocab)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    numbers = itertools.count()
    ready: list[dict] = []
    widths = [source[n]["input_ids"].shape[1] for n in range(GROUP)]
    constant = source[int(np.argsort(widths)[GROUP // 2])]

    def fresh() -> int:
        ready.clear()
        for _ in range(GROUP):
            ready.append(source[next(numbers)])
            step(model, optimizer, ready[-1])
        return sum(batch["input_ids"].numel() for batch in ready)

    def made_before() -> int:
        return sum(step(model, optimizer, batch) for batch in ready)

    def one_constant() -> int:
        return sum(step(model, optimizer, constant) for _ in range(GROUP))

    turns = take_turns(
        {"fresh": fresh, "made before": made_before, "constant": one_constant}, rounds
    )
    parameters = sum(p.numel() for p in model.parameters()) / 1e6
    for other in ("made before", "constant"):
        middle, low, high = ratio(turns[other], turns["fresh"])
        print(
            f"{name} ({parameters:.1f}M), {policy}: throughput on the fly / {other}"
            f" {middle:.3f} [{low:.3f}, {high:.3f}]"
        )


def supply(policy: str, seconds: float) -> None:
    source = batches(policy, 64)
    source[0]
    ids = cells = 0
    start = time.perf_counter()
    for number in itertools.count(GROUP):
        batch = source[number]
        ids, cells = ids + batch["counts"]["ids"], cells + batch["input_ids"].numel()
        if time.perf_counter() - start > seconds:
            break
    rate = ids / (time.perf_counter() - start)
    wanted = ACCELERATOR / (6 * 300e6)
    print(
        f"{policy}: one core makes {rate / wanted:.1f} times what a 300M trunk reads at"
        f" {ACCELERATOR / 1e12:.0f} TFLOPs; with {GROUP} processes or more, each of which samples"
        f" whole groups, {rate / wanted / GROUP:.1f} times; padding {1 - ids / cells:.1%}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    arguments = parser.parse_args()
    small = TrunkConfig(layers=3, width=128, heads=4, mlp_width=512, dropout=0.0)
    story = TrunkConfig(layers=6, width=256, heads=8, mlp_width=1024, dropout=0.0)
    for policy in ("append", "paper", "spans-16"):
        supply(policy, 3.0)
    throughput("smoke", small, "paper", arguments.rounds)
    throughput("story", story, "paper", arguments.rounds)
