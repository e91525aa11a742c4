"""Check the predictions for request latencies under Poisson arrivals."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from experiments.scale.record import Record, middle
from experiments.scale.serving import Engine, Floats, poisson, simulate
from experiments.speed.serve import ask, load_up, served

MODEL = Path(__file__).parents[2] / "models" / "stories-revise"
SLOTS, ACTIONS, REQUESTS = 8, 12, 24


def body(number: int, actions: int) -> dict[str, Any]:
    """Return a request that takes exactly this number of actions."""
    return {
        "prompt": f"Ben had {number} cups", "seed": number, "max_actions": actions,
        "stop_bias": -1e9,
    }  # fmt: skip


async def closed(port: int, count: int, actions: int, at_a_time: int, way: str) -> float:
    """Return the mean seconds of a request when `at_a_time` are always running."""
    asked = [body(n, actions) for n in range(count)]
    took, answers = await load_up([port], asked, way, at_a_time)
    assert all(answer.status == 200 for answer in answers)
    return took * at_a_time / count


async def opened(port: int, arrivals: Floats, lengths: list[int]) -> list[float]:
    """Return the seconds of each request, sent at its arrival time."""
    start = time.perf_counter()

    async def one(number: int) -> float:
        await asyncio.sleep(max(0.0, start + arrivals[number] - time.perf_counter()))
        due = start + arrivals[number]
        answer = await ask(port, body(number, lengths[number]), "JSON")
        assert answer.status == 200
        return time.perf_counter() - due

    return list(await asyncio.gather(*(one(n) for n in range(len(lengths)))))


@contextmanager
def server() -> Iterator[Any]:
    """Run a warm server with SLOTS slots."""
    os.environ["OMP_NUM_THREADS"] = "1"
    option = f"rows={SLOTS}"
    with served(str(MODEL), f"--running={SLOTS}", "--engine-option", option) as found:
        asyncio.run(closed(found.port, 2 * SLOTS, 8, SLOTS, "stream"))
        yield found


def check_serving(rounds: int) -> None:
    """Check latencies at 40 and 80 % of the capacity."""
    record = Record("serving")
    predicted: dict[tuple[float, str], list[float]] = {}
    found: dict[tuple[float, str], list[float]] = {}
    with server() as at:
        fits = []
        for number in range(rounds):
            for load in (0.4, 0.8):
                fit = calibrate(at.port)
                fits.append(fit)
                rate = load * SLOTS / (ACTIONS * fit["step"](SLOTS) + SLOTS * fit["enter"])
                rng = np.random.default_rng(number)
                lengths = rng.integers(ACTIONS // 2, ACTIONS * 3 // 2 + 1, REQUESTS).tolist()
                arrivals = poisson(rate, len(lengths), rng)
                guess = simulate(arrivals, lengths, fit["step"], SLOTS, fit["enter"])
                took = asyncio.run(opened(at.port, arrivals, lengths))
                for name, cut in (("mean", None), ("p50", 50), ("p90", 90)):
                    for kept, values in ((predicted, guess), (found, took)):
                        value = np.mean(values) if cut is None else np.percentile(values, cut)
                        kept.setdefault((load, name), []).append(float(value))
                line = f"predicted {np.mean(guess):.3f} s, took {np.mean(took):.3f} s"
                print(f"load {load}, {rate:.2f} requests/s: {line}", flush=True)
            record.rows.clear()  # each round saves all so far, so the check may be stopped
            for (load, name), values in found.items():
                size = f"load {load:.0%}, {SLOTS} at a time"
                record.compare(f"latency, {name}", size, "s", predicted[load, name], values)
            record.calibration |= {
                "step_1": middle([fit["step"](1) for fit in fits]),
                f"step_{SLOTS}": middle([fit["step"](SLOTS) for fit in fits]),
                "enter": middle([fit["enter"] for fit in fits]),
                "requests": REQUESTS,
            }
            record.save()


def calibrate(port: int) -> dict[str, Any]:
    """Measure the seconds of a step by rows, and of entering, alone and with full slots."""
    short, long = (asyncio.run(closed(port, 3, n, 1, "JSON")) for n in (2, 22))
    alone = max(1e-6, (long - short) / 20)
    enter = max(0.0, short - 2 * alone)
    full = asyncio.run(closed(port, 2 * SLOTS, ACTIONS, SLOTS, "JSON"))
    step = max(alone, (full - enter) / ACTIONS)  # they enter together
    row = (step - alone) / (SLOTS - 1)
    return {"step": Engine(fixed=alone - row, row=row), "enter": enter}
