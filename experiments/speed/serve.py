"""Measure what serving costs: the same requests over HTTP and by the engine alone.

A server (`reviser serve`) and an engine, each in a process of its own with one compute thread, take
turns, and the client has the other core. Every response is checked: its events and its replayed
actions give its text, and it belongs to the prompt that was sent. A ratio is the median over the
rounds with its quartiles. The bare engine runs at both ends of a round, which shows the noise.

    python -m experiments.speed.serve MODEL                    # Transformers
    python -m experiments.speed.serve MODEL --engine vllm      # in vLLM's environment
    python -m experiments.speed.serve MODEL --against own_process=false    # next to another server
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from experiments.speed.core import ratio
from reviser.core.actions import ActionVocab
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec, TextEdit
from reviser.engines.settings import DecodeConfig
from reviser.model import load
from reviser.writing.driver import run_many
from reviser.writing.rollout import Rollout
from reviser.writing.tasks import Continue

NAMES = ("Ben", "Ada", "The dog", "Mia", "A small bird", "Tom", "Her mother", "The old man")
WAYS = ("stream", "JSON")


def bodies(count: int, actions: int, first: int) -> list[dict[str, Any]]:
    """Return different requests of half to one and a half times `actions` actions.

    With equal lengths the bare engine would start and end them together, which a server cannot.
    """
    rng = Random(first)
    return [
        {
            "prompt": f"{NAMES[n % len(NAMES)]} had {n} cups",
            "seed": n,
            "max_actions": rng.randint(actions // 2, actions + actions // 2),
        }
        for n in range(first, first + count)
    ]


# -- the bare engine ------------------------------------------------------------------------------


def bare(args: argparse.Namespace) -> None:
    """Run the bare engine: read lines of requests, print seconds and actions."""
    model = load(args.model, engine=args.engine, **options(args))
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        flows = [model.flow(Continue(body.pop("prompt")), DecodeConfig.of(body)) for body in asked]
        start = time.perf_counter()
        runs = run_many(flows, model.driver, ahead=args.concurrency)
        actions = sum(run.wait().statistics.actions for run in runs)
        print(json.dumps([time.perf_counter() - start, actions]), flush=True)


def options(args: argparse.Namespace) -> dict[str, Any]:
    named = (option.partition("=") for option in args.engine_option)
    return {name: json.loads(value) for name, _, value in named}


class Bare:
    """The process of the bare engine."""

    def __init__(self, argv: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "experiments.speed.serve", *argv, "--bare"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._read() == "ready"

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def run(self, asked: list[dict[str, Any]]) -> tuple[float, int]:
        """Return the seconds and actions of some requests."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        seconds, actions = json.loads(self._read())
        return seconds, actions

    def close(self) -> None:
        """End the process."""
        self._process.communicate()  # it ends when its input ends


# -- the server -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Served:
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.url.rpartition(":")[2])


def resident(process: int) -> float:
    """Return the resident memory of a process in MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


@contextmanager
def served(model: str, *arguments: str) -> Iterator[Served]:
    """Run `reviser serve` inside the block."""
    command = [sys.executable, "-m", "reviser", "serve", model, "--port", "0", *arguments]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            while '"state": "ready"' not in (lines := log.read_text()):
                assert process.poll() is None, lines
                time.sleep(0.1)
            [url] = re.findall(r"http://127.0.0.1:\d+", lines)
            yield Served(url, process, log)
        finally:
            process.terminate()
            try:
                process.wait(60)
            finally:
                process.kill()


@dataclass
class Response:
    """A response and its times."""

    asked: dict[str, Any]
    status: int
    body: bytes
    first: float
    seconds: float


async def ask(port: int, body: dict[str, Any], way: str) -> Response:
    """Send a request by hand: a client library would use more of the shared processor."""
    start, first, parts = time.perf_counter(), 0.0, []
    data = json.dumps(body | {"stream": way == "stream"}).encode()
    head = "POST /v1/generate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += f"content-length: {len(data)}\r\nconnection: close\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + data)
    while part := await reader.read(1 << 16):
        parts.append(part)
        if not first and b"event: edit" in part:
            first = time.perf_counter() - start
    seconds = time.perf_counter() - start
    writer.close()
    headers, _, rest = b"".join(parts).partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in headers.lower():
        rest = b"".join(_chunks(rest))
    return Response(body, int(headers.split()[1]), rest, first, seconds)


def _chunks(body: bytes) -> Iterator[bytes]:
    start = 0
    while True:
        end = body.index(b"\r\n", start)
        size = int(body[start:end], 16)
        if size == 0:
            return
        yield body[end + 2 : end + 2 + size]
        start = end + 2 + size + 2


async def load_up(
    ports: Sequence[int], asked: list[dict[str, Any]], way: str, concurrency: int
) -> tuple[float, list[Response]]:
    """Keep `concurrency` requests open, spread over the servers, until all have a response."""
    answers: list[Response] = []
    left = iter(asked)

    async def worker(port: int) -> None:
        for body in left:
            answers.append(await ask(port, body, way))

    start = time.perf_counter()
    await asyncio.gather(*(worker(ports[n % len(ports)]) for n in range(concurrency)))
    return time.perf_counter() - start, answers


class Judge:
    """A checker of responses against their prompts, by replay."""

    def __init__(self, model: str) -> None:
        self._vocab, self._codec = ActionVocab.load(model), Codec.load(model)

    def actions(self, answers: list[Response], way: str) -> int:
        """Return the number of actions; a lost, cut or swapped response is an error."""
        assert all(answer.status == 200 for answer in answers), {a.status for a in answers}
        return sum(self._check(answer, way) for answer in answers)

    def _check(self, answer: Response, way: str) -> int:
        text = self._followed(answer.body) if way == "stream" else answer.body.decode()
        rollout = Rollout.from_json(text)
        trajectory = rollout.trajectory
        canvas = Canvas.replay(self._vocab, [*trajectory.prefix, *trajectory.restoration])
        assert self._codec.decode(canvas.tokens()) == rollout.text
        assert (rollout.prompt, rollout.config.seed) == (
            answer.asked["prompt"], answer.asked["seed"]
        )  # fmt: skip
        assert rollout.text.startswith(rollout.prompt)
        return rollout.statistics.actions

    @staticmethod
    def _followed(body: bytes) -> str:
        """Return the rollout of a stream, and check that its edits give its text."""
        text = ""
        parts = body.decode().replace("\r\n", "\n").split("\n\n")[:-1]
        blocks = (part for part in parts if not part.startswith(":"))  # without pings
        for number, block in enumerate(blocks):
            name, kind, data = (line.partition(": ")[2] for line in block.split("\n"))
            assert int(name) == number
            event = json.loads(data)
            if kind == "start":
                text = event["text"]
            elif kind == "edit":
                edit = {key: event[key] for key in ("offset", "removed", "inserted", "cursor")}
                text = TextEdit(**edit).apply(text)
        assert kind == "done", kind
        assert event["text"] == text
        return data


# -- the run --------------------------------------------------------------------------------------


def percentiles(values: list[float]) -> tuple[float, float]:
    """Return the 50th and the 99th percentile."""
    cut = statistics.quantiles(values, n=100)
    return cut[49], cut[98]


@dataclass
class Arm:
    """One or several servers of the same kind, and what was measured of them."""

    name: str
    ports: list[int]
    processes: list[int]
    rates: dict[str, list[float]]
    kept: dict[str, list[Response]]

    def measure(self, asked: list[dict[str, Any]], way: str, concurrency: int) -> float:
        """Send all requests, to each server in turn, and return the seconds."""
        seconds, answers = asyncio.run(load_up(self.ports, asked, way, concurrency))
        assert len(answers) == len(asked)
        self.kept[way] += answers
        return seconds


@contextmanager
def arms(args: argparse.Namespace) -> Iterator[list[Arm]]:
    """Run the servers of every arm inside the block."""
    chosen = [f"--engine-option={option}" for option in args.engine_option]
    common = "--engine", args.engine, f"--running={args.concurrency}", *chosen
    wanted = [("server", 1, common)]
    wanted += [(each, 1, (*common, f"--engine-option={each}")) for each in args.against]
    wanted += [(f"{args.replicas} servers", args.replicas, common)] * (args.replicas > 1)
    with ExitStack() as stack:
        found = []
        for name, count, options in wanted:
            servers = [stack.enter_context(served(args.model, *options)) for _ in range(count)]
            ports, processes = [s.port for s in servers], [s.process.pid for s in servers]
            found.append(Arm(name, ports, processes, {w: [] for w in WAYS}, {w: [] for w in WAYS}))
        yield found


def summary(args: argparse.Namespace, bare: list[float], found: list[Arm]) -> dict[str, Any]:
    """Return the ratios of every arm to the bare engine, with their quartiles, and latencies."""
    return {
        "requests": args.requests, "concurrency": args.concurrency, "rounds": args.rounds,
        "engine": args.engine, "bare": bare,
        "arms": {
            arm.name: {
                way: {
                    "of_bare": ratio(arm.rates[way], bare),
                    "whole_text": percentiles([answer.seconds for answer in arm.kept[way]]),
                    "first_edit": percentiles([answer.first for answer in arm.kept[way]]),
                    "rates": arm.rates[way],
                }
                for way in WAYS
            }
            for arm in found
        },
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="A model folder.")
    parser.add_argument("--engine", default="hf", choices=["hf", "vllm"])
    parser.add_argument("--engine-option", action="append", default=[], metavar="NAME=JSON")
    parser.add_argument("--against", action="append", default=[], metavar="NAME=JSON",
                        help="Another server, with this option of the engine.")  # fmt: skip
    parser.add_argument("--replicas", type=int, default=1, help="Servers that share the requests.")
    parser.add_argument("--requests", type=int, default=1000, help="Requests per way and round.")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--actions", type=int, default=64, help="Mean actions per request.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if args.bare:
        bare(args)
        return
    engine, judge, bare_rates, again = Bare(sys.argv[1:]), Judge(args.model), [], []
    with arms(args) as found:
        warm = bodies(args.concurrency, args.actions, 10**6)
        engine.run(warm)
        for arm in found:
            asyncio.run(load_up(arm.ports, warm, "stream", args.concurrency))
        for number in range(args.rounds):
            asked = bodies(args.requests, args.actions, number * args.requests)
            seconds, actions = engine.run(asked)
            bare_rates.append(actions / seconds)
            print(f"round {number + 1}: bare {bare_rates[-1]:.0f} actions/s", flush=True)
            for arm in found if number % 2 == 0 else found[::-1]:
                line = []
                for way in WAYS:
                    seconds = arm.measure(asked, way, args.concurrency)
                    actions = judge.actions(arm.kept[way][-len(asked) :], way)
                    arm.rates[way].append(actions / seconds)
                    line.append(f"{way} {arm.rates[way][-1]:.0f}")
                memory = sum(map(resident, arm.processes))
                print(f"  {arm.name}: {', '.join(line)}; {memory:.0f} MiB", flush=True)
            seconds, actions = engine.run(asked)
            again.append(actions / seconds)
    engine.close()
    result = summary(args, bare_rates, found)
    print(f"\n{args.requests} requests of {args.concurrency} at a time, {args.engine}")
    middle, low, high = ratio(again, bare_rates)
    print(f"noise, the bare engine against itself: {middle:.3f} [{low:.3f}, {high:.3f}]")
    for name, ways in result["arms"].items():
        for way, values in ways.items():
            middle, low, high = values["of_bare"]
            print(f"{name}, {way}: {middle:.3f} [{low:.3f}, {high:.3f}] of the bare engine's"
                  " actions per second")  # fmt: skip
            for what in ("first_edit", "whole_text")[way == "JSON" :]:
                p50, p99 = values[what]
                print(f"  {what.replace('_', ' ')}: p50 {p50:.3f} s, p99 {p99:.3f} s")
    if args.save:
        args.save.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
