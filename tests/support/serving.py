"""A real server in a process of its own, over an engine without a model: `python serving.py JSON`.

What the engine does wrong is told by a file, so that a test can break it while it runs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from reviser.core.actions import OPERATORS, ActionVocab, Kind
from reviser.core.codec import Codec
from reviser.core.mask import Boundary
from reviser.engines.base import Request, Step, StopReason
from reviser.errors import EngineError
from reviser.writing.model import Reviser
from reviser.writing.tasks import Plan
from support import noting, small_tokenizers

NAME = "random"


class FaultyEngine:
    """Any action that the mask allows, by the request's own seed, all rows masked at once.

    Takes `seconds` for a step, and obeys the word in a file.
    """

    def __init__(self, vocab: ActionVocab, *, rows: int, seconds: float, fault: Path) -> None:
        self.vocab = vocab
        self.added = 0
        self.cancelled = 0
        self.waiting: dict[int, Request] = {}
        self.running: dict[int, Walk] = {}
        self._is_token = vocab.kinds == Kind.INSERT
        self._rows = Boundary(vocab, rows)
        self._free = list(range(rows))
        self._seconds = seconds
        self._fault = fault

    def check(self, request: Request) -> None:
        request.check(self.vocab, 5000)

    def add(self, request: Request) -> int:
        self.added += 1
        self.waiting[self.added] = request
        return self.added

    def cancel(self, number: int) -> None:
        was_there = number in self.running or number in self.waiting
        self.cancelled += was_there
        self.waiting.pop(number, None)
        self._leave(number)

    def close(self) -> None:
        self.waiting.clear()

    def _leave(self, number: int) -> None:
        walk = self.running.pop(number, None)
        if walk is not None:
            self._free.append(walk.slot)

    def _break(self) -> list[Step] | None:
        time.sleep(self._seconds)
        while (word := self._fault.read_text() if self._fault.exists() else "") == "hold":
            time.sleep(0.01)
        if word == "raise once":
            self._fault.unlink()
        if word.startswith("raise"):
            raise RuntimeError("/secret/path: the engine broke")
        if word == "hang":
            time.sleep(3600)
        if word == "step errors" and self.waiting:  # as an engine elsewhere that is gone
            gone = [Step(n, -1, 0.0, error=EngineError("refused")) for n in self.waiting]
            self.waiting.clear()
            return gone
        if word == "step error" and self.running:
            self._fault.unlink()
            number = next(iter(self.running))
            self._leave(number)
            return [Step(number, -1, 0.0, error=EngineError("http://internal:1 refused"))]
        return None

    def step(self) -> list[Step]:
        broken = self._break()
        if broken is not None:
            return broken
        while self._free and self.waiting:
            number = next(iter(self.waiting))
            request = self.waiting.pop(number)
            self.running[number] = Walk(request, self._free.pop(), Random(request.config.seed))
            request.enter(self._rows, self.running[number].slot)
        if not self.running:
            return []
        slots = [walk.slot for walk in self.running.values()]
        allowed = self._rows.fork(slots).allowed()
        walks = list(zip(self.running.values(), allowed, strict=True))
        actions = [self._pick(walk, row) for walk, row in walks]
        self._rows.advance(actions, slots)
        steps = []
        for (number, walk), action in zip(list(self.running.items()), actions, strict=True):
            walk.actions += 1
            ended: StopReason | None = None
            if action == self.vocab.stop:
                ended = "stop"
            elif walk.actions == walk.request.config.max_actions:
                ended = "max_actions"
            is_noted = walk.request.is_noted and walk.actions == 1
            notes = noting.notes(walk.request.history) if is_noted else None
            steps.append(Step(number, action, -walk.actions / 8, ended, notes=notes))
            if ended:
                self._leave(number)
        return steps

    def _pick(self, walk: Walk, allowed: npt.NDArray[np.bool_]) -> int:
        """A token or a control; STOP seldom, and with a bias against it only if it must be."""
        rng = walk.rng
        if walk.request.config.stop_bias < 0 and allowed.sum() > 1:
            allowed[self.vocab.stop] = False
        tokens = np.flatnonzero(allowed & self._is_token)
        controls = np.flatnonzero(allowed & ~self._is_token)
        some = tokens if len(tokens) and (rng.random() < 0.5 or not len(controls)) else controls
        action = int(some[int(rng.random() * len(some))])
        if action == self.vocab.stop and len(tokens) and rng.random() < 0.9:
            action = int(tokens[int(rng.random() * len(tokens))])
        return action


@dataclass
class Walk:
    """A request that runs."""

    request: Request
    slot: int
    rng: Random
    actions: int = 0


def reviser(
    *, rows: int = 64, seconds: float = 0.0, fault: str = "/nonexistent", plan_seconds: float = 0.0
) -> Reviser:
    """The model that the server has, and that the tests compare with."""
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=OPERATORS, max_move=8)
    engine = FaultyEngine(vocab, rows=rows, seconds=seconds, fault=Path(fault))
    model = Reviser(engine, Codec(tokenizer), provenance={"model": "/secret/path"})
    if plan_seconds:

        def slowly(*args: Any, **named: Any) -> Plan:
            time.sleep(plan_seconds)
            return Reviser.plan(model, *args, **named)

        model.plan = slowly  # type: ignore[method-assign]
    return model


@dataclass
class Served:
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path
    fault: Path

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def metrics(self) -> dict[str, float]:
        """Every sample of /metrics by its name and labels."""
        lines = self.get("/metrics").text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def engine(self) -> dict[str, int]:
        """What the engine has been asked."""
        told: dict[str, int] = self.get("/test/engine").json()
        return told

    def get(self, path: str, **options: Any) -> Any:
        import httpx2

        return httpx2.get(self.url + path, timeout=20, **options)

    def post(self, path: str, body: Any, **options: Any) -> Any:
        import httpx2

        return httpx2.post(self.url + path, json=body, timeout=60, **options)


@contextmanager
def serving(
    *, limits: Mapping[str, Any] | None = None, keys: tuple[str, ...] = (),
    origins: tuple[str, ...] = (), playground: bool = True, **engine: Any,
) -> Iterator[Served]:  # fmt: skip
    """Start a server, wait until it is ready, and end it."""
    with tempfile.TemporaryDirectory() as folder:
        log, fault = Path(folder, "log"), Path(folder, "fault")
        asked = {
            "limits": dict(limits or {}),
            "options": {"keys": keys, "origins": origins, "playground": playground},
            "engine": engine | {"fault": str(fault)},
        }
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, __file__, json.dumps(asked)], stderr=errors, stdout=errors
            )
        try:
            yield Served(_address(process, log), process, log, fault)
        finally:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(2400):
        text = log.read_text()
        found = re.search(r"http://127.0.0.1:\d+", text)
        if found and '"state": "ready"' in text:
            return found[0]
        assert process.poll() is None, text
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def eventually(check: Any, seconds: float = 30.0) -> None:
    """Wait until it holds."""
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until, "It did not come about in time."
        time.sleep(0.02)


def main() -> int:
    from reviser.serve.app import make_app
    from reviser.serve.limits import Limits
    from reviser.serve.logs import write_json_lines
    from reviser.serve.run import listen, run

    asked = json.loads(sys.argv[1])
    model = reviser(**asked["engine"])
    engine = model.engine
    app = make_app(model, Limits(**asked["limits"]), name=NAME, **asked["options"])

    async def told() -> dict[str, int]:
        assert isinstance(engine, FaultyEngine)
        counts = (engine.added, len(engine.running) + len(engine.waiting), engine.cancelled)
        return dict(zip(("added", "running", "cancelled"), counts, strict=True))

    app.add_api_route("/test/engine", told, include_in_schema=False)
    write_json_lines()
    return run(app, listen("127.0.0.1", 0))


if __name__ == "__main__":
    sys.exit(main())
