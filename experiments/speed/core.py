"""Measure the speed of sampler and mask, as ratios from one run (`just bench`).

Machines are noisy, so no figure is absolute: the variants of a comparison take turns for many
rounds, and a ratio is the median over the rounds with its quartiles.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable

import numpy as np

from reviser import ActionMask, ActionVocab, Obfuscation
from reviser.core.actions import OPERATORS
from reviser.trajectories.sampler import Sampler

Timing = list[float]  # seconds of one unit of work, one entry per round


def take_turns(
    variants: dict[str, Callable[[], int]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Run each variant once per round; a variant returns the units of work that it did."""
    timings: dict[str, Timing] = {name: [] for name in variants}
    for run in variants.values():
        run()  # warm caches and the compiler
    for _ in range(rounds):
        for name, run in variants.items():
            start = clock()
            units = run()
            timings[name].append((clock() - start) / units)
    return timings


def ratio(top: Timing, bottom: Timing) -> tuple[float, float, float]:
    """Return the median of top / bottom over the rounds, and its quartiles."""
    low, middle, high = statistics.quantiles(
        [a / b for a, b in zip(top, bottom, strict=True)], n=4, method="inclusive"
    )
    return middle, low, high


# -- the sampler ----------------------------------------------------------------------------------


def algorithm_2(
    target: list[int], deltas: tuple[int, ...], rng: random.Random, *, eager: bool
) -> list[tuple[str, int]]:
    """Return a trajectory by Algorithm 2 in plain Python.

    `eager` computes the valid moves at every step, as in the paper; otherwise only for a move.
    """
    canvas, cursor = list(target), rng.randint(0, len(target))
    obfuscation, deleted = [], []
    while canvas:
        valid = [d for d in deltas if 0 <= cursor + d <= len(canvas)] if eager else None
        if cursor > 0 and rng.random() < 0.8:
            deleted.append(canvas.pop(cursor - 1))
            cursor -= 1
            obfuscation.append(("delete", 0))
        else:
            valid = valid or [d for d in deltas if 0 <= cursor + d <= len(canvas)]
            delta = rng.choice(valid)
            cursor += delta
            obfuscation.append(("move", delta))
    restoration = []
    for name, delta in reversed(obfuscation):
        if name == "delete":
            restoration.append(("insert", deleted.pop()))
        else:
            restoration.append(("move", -delta))
    return [*restoration, ("stop", 0)]


def bench_sampler(rounds: int) -> dict[str, tuple[float, float, float]]:
    vocab, rng = ActionVocab.paper(), random.Random(0)
    sampler, target = Sampler(vocab, Obfuscation()), list(range(145))

    def slow(eager: bool) -> int:
        for _ in range(20):
            algorithm_2(target, vocab.deltas, rng, eager=eager)
        return 20

    flat = [np.array(target, np.int32)] * 2000

    def fast() -> int:
        sampler.batch(flat, range(2000))
        return 2000

    variants = {"eager": lambda: slow(True), "lazy": lambda: slow(False), "fast": fast}
    timings = take_turns(variants, rounds)
    results = {
        "Algorithm 2 in Python, valid moves at every step / sampler": ratio(
            timings["eager"], timings["fast"]
        ),
        "Algorithm 2 in Python, valid moves only to move / sampler": ratio(
            timings["lazy"], timings["fast"]
        ),
    }
    lengths = [64, 256, 1024, 4096, 16384, 65536]
    growth = take_turns(
        {str(n): lambda n=n: sample_tokens(sampler, n) for n in lengths}, max(5, rounds // 4)
    )
    for n in lengths[1:]:
        name = f"time per token, {n:,} tokens / 64 tokens"
        results[name] = ratio(growth[str(n)], growth["64"])
    return results


def sample_tokens(sampler: Sampler, n: int) -> int:
    count = max(1, 131072 // n)
    sampler.batch([np.zeros(n, np.int32)] * count, range(count))
    return n * count


# -- the mask -------------------------------------------------------------------------------------


def bench_mask(rounds: int) -> dict[str, tuple[float, float, float]]:
    small = ActionVocab.build(50291 - 30, operators=OPERATORS)
    large = ActionVocab.build(250_000, operators=OPERATORS)
    lone = ActionVocab.build(50291 - 30, operators=OPERATORS)
    variants = {
        "50k": mask_step(small, 1024, gaps=1),
        "50k again": mask_step(lone, 1024, gaps=1),
        "250k": mask_step(large, 1024, gaps=1),
        "8 gaps": mask_step(small, 1024, gaps=8),
        "1 row": mask_step(small, 1, gaps=1),
        "wide": wide_mask(small, 1024),
    }
    timings = take_turns(variants, rounds)
    return {
        "two masks at 50,291 ids, 1,024 rows (noise floor)": ratio(
            timings["50k again"], timings["50k"]
        ),
        "250,000 ids / 50,291 ids, 1,024 rows": ratio(timings["250k"], timings["50k"]),
        "8 gaps / 1 gap, 1,024 rows": ratio(timings["8 gaps"], timings["50k"]),
        "a mask as wide as the vocabulary / ours, 1,024 rows": ratio(
            timings["wide"], timings["50k"]
        ),
        "1,024 rows / 1 row": ratio(timings["50k"], timings["1 row"]),
    }


def mask_step(vocab: ActionVocab, rows: int, gaps: int) -> Callable[[], int]:
    """Return a function that runs decoding steps of the mask: fill it, then advance."""
    action_mask = ActionMask(vocab, rows)
    for row in range(rows):
        spans = [(100 * n, 100 * n + 50) for n in range(gaps)]
        action_mask.reset(row, length=100 * gaps, cursor=25, gaps=spans)
    turn = [np.full(rows, vocab.move_id(delta)) for delta in (8, -8)]

    def run() -> int:
        for n in range(20):
            action_mask.fill_mask()
            action_mask.advance(turn[n % 2])
        return 20

    return run


def wide_mask(vocab: ActionVocab, rows: int) -> Callable[[], int]:
    step = mask_step(vocab, rows, gaps=1)
    allowed = np.ones((rows, vocab.size), np.bool_)

    def run() -> int:
        step()
        for _ in range(20):
            allowed[:, : vocab.tokens] = True
        return 20

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = {}
    for bench in (bench_sampler, bench_mask):
        results |= bench(options.rounds)
    if options.json:
        print(json.dumps(results, indent=1))
        return
    for name, (middle, low, high) in results.items():
        print(f"{name:66s} {middle:8.2f}  [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    main()
