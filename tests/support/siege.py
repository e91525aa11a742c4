"""Good clients on a server while an attacker with another key replays the list of attacks.

Runs `reviser serve` in a process of its own. Each round measures the good clients alone, then with
the attacker. Prints the good requests that failed, their 99th percentile with and without the
attacker, and how long /health took.

    python -m support.siege models/stories-revise --seconds 60
    python -m support.siege MODEL --engine vllm            # in vLLM's environment
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import httpx2

from experiments.speed.serve import bodies, served
from support import attacks, vllm_runs

GOOD, BAD = "good-key", "bad-key"


@dataclass
class Measured:
    """What the good clients met."""

    seconds: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    health: list[float] = field(default_factory=list)

    def line(self, name: str) -> str:
        done = sorted(self.seconds)
        median, late = (quantile(done, share) for share in (0.5, 0.99))
        slowest = max(self.health, default=0.0)
        return (
            f"{name}: {len(done)} requests, {self.failures.total()} failed {dict(self.failures)},"
            f" median {median:.2f} s, p99 {late:.2f} s; /health p99"
            f" {quantile(sorted(self.health), 0.99) * 1000:.0f} ms, slowest {slowest * 1000:.0f} ms"
        )


def quantile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


async def good_clients(url: str, count: int, actions: int, seconds: float) -> Measured:
    """Let clients write one text after another for some time."""
    measured, until = Measured(), time.monotonic() + seconds
    headers = {"Authorization": f"Bearer {GOOD}"}
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(
        base_url=url, headers=headers, timeout=120, limits=limits
    ) as http:

        async def write(number: int) -> None:
            for body in bodies(10_000, actions, number * 10_000):
                if time.monotonic() > until:
                    return
                began = time.monotonic()
                try:
                    answer = await http.post("/v1/generate", json=body)
                    if answer.status_code != 200:
                        measured.failures[str(answer.status_code)] += 1
                except httpx2.HTTPError as error:
                    measured.failures[type(error).__name__] += 1
                measured.seconds.append(time.monotonic() - began)

        async def look() -> None:
            while time.monotonic() < until:
                began = time.monotonic()
                await http.get("/health")
                measured.health.append(time.monotonic() - began)
                await asyncio.sleep(0.05)

        await asyncio.gather(look(), *(write(number) for number in range(count)))
    return measured


class Attacker:
    """Threads that replay the list of attacks until they are told to end."""

    def __init__(self, port: int, threads: int) -> None:
        self.statuses: Counter[int] = Counter()
        self.rounds = 0
        self._target = attacks.Target(port, BAD)
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._attack, daemon=True) for _ in range(threads)]

    def __enter__(self) -> Attacker:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _attack(self) -> None:
        while not self._end.is_set():
            for _, status in attacks.replay(self._target):
                self.statuses[status] += 1
                if self._end.is_set():
                    return
            self.rounds += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--engine", default="hf")
    parser.add_argument("--engine-option", action="append", default=[])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--actions", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="of the attacker")
    asked = parser.parse_args()
    ratios = []
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, vllm_runs.ENVIRONMENT),
    ):
        keys = Path(folder, "keys")
        keys.write_text(f"{GOOD}\n{BAD}\n")
        options = ["--engine", asked.engine, "--api-key-file", str(keys)]
        options += [f"--engine-option={option}" for option in asked.engine_option]
        with served(asked.model, *options) as server:
            share = asked.clients, asked.actions, asked.seconds
            asyncio.run(good_clients(server.url, asked.clients, 8, 5.0))  # so that it is warm
            for _ in range(asked.rounds):
                alone = asyncio.run(good_clients(server.url, *share))
                print(alone.line("alone"), flush=True)
                with Attacker(server.port, asked.threads) as attacker:
                    attacked = asyncio.run(good_clients(server.url, *share))
                print(attacked.line("attacked"), flush=True)
                print(f"the attacker got {dict(attacker.statuses)}", flush=True)
                late = [quantile(sorted(each.seconds), 0.99) for each in (attacked, alone)]
                ratios.append(late[0] / late[1])
    print(f"p99 ratios: {[round(ratio, 2) for ratio in ratios]},"
          f" median {statistics.median(ratios):.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
