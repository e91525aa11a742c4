"""A real server over an engine without a model, in a thread or in a process of its own.

A file says what the engine does wrong, so that a test can break it while it runs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from math import log1p
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from reviser.core.actions import OPERATORS, ActionVocab
from reviser.core.codec import Codec
from reviser.core.mask import ActionMask
from reviser.engines.base import Answer, EngineEnded, Question, Score, Scores, Step
from reviser.errors import EngineError
from reviser.model import Reviser
from reviser.models.editing import Editing
from support import judging, naive, random_engine, small_tokenizers
from support.processes import free_port

NAME = "random"


class FaultyEngine:
    """An engine whose steps take `seconds`; the word in a file makes it hold or fail.

    It takes any action that the mask allows, by the request's own seed. How likely texts are
    depends on nothing but them.
    """

    def __init__(self, vocab: ActionVocab, *, rows: int, seconds: float, fault: Path) -> None:
        self.vocab = vocab
        self.context = 5000
        self.added = 0
        self.cancelled = 0
        self.running: dict[int, Walk] = {}
        self._scores: dict[int, Score] = {}
        self._rows = rows
        self._seconds = seconds
        self._fault = fault

    def add(self, question: Question) -> int:
        self.added += 1
        if isinstance(question, Score):
            question.check(self.vocab, self.context)
            self._scores[self.added] = question
            return self.added
        rows = ActionMask(self.vocab, 1)
        question.request.enter(rows, 0)
        self.running[self.added] = Walk(
            question.request, rows, Random(question.request.config.seed)
        )
        return self.added

    def cancel(self, number: int) -> None:
        self._scores.pop(number, None)
        self.cancelled += self.running.pop(number, None) is not None

    def close(self) -> None:
        self.running.clear()

    def step(self, wait: float) -> list[Answer]:  # noqa: ARG002 - it never waits
        if self._seconds:
            time.sleep(self._seconds)
        while (word := self._fault.read_text() if self._fault.exists() else "") == "hold":
            time.sleep(0.01)
        if word in ("raise once", "step error"):
            self._fault.unlink()
        if word == "end":
            raise EngineEnded("the engine has ended")
        if word.startswith("raise"):
            raise RuntimeError("/secret/path: the engine broke")
        if word.startswith("step error"):  # like a remote engine that is gone
            every = [*self.running, *self._scores]
            failed = every if word == "step errors" else every[:1]
            for number in failed:
                self.running.pop(number, None)
                self._scores.pop(number, None)
            error = EngineError("http://internal:1 refused")
            return [Answer(number, error) for number in failed]
        answers = [Answer(n, _scores(question)) for n, question in self._scores.items()]
        self._scores.clear()
        for number, walk in list(self.running.items())[: self._rows]:
            answers.append(Answer(number, walk.step(self.vocab)))
            if answers[-1].is_last:
                del self.running[number]
        return answers


class Walk(random_engine.Walk):
    """A request and what was done for it."""

    def step(self, vocab: ActionVocab) -> Step:
        """Take any action; with a bias against STOP only if nothing else is left."""
        config = self.request.config
        allowed = {*np.flatnonzero(self.rows.allowed()[0]).tolist()}
        if config.stop_bias < 0 and len(allowed) > 1:
            allowed.discard(vocab.stop)
        action = naive.pick(self.rng, vocab, allowed)
        self.rows.advance([action])
        self.actions += 1
        if self.rows.is_finished[0]:
            return Step(action, -1.0, "stop")
        return Step(action, -1.0, "max_actions" if self.actions == config.max_actions else None)


def _scores(question: Score) -> Scores:
    """Return the same numbers for the same history, with edits mostly unlikely."""
    rng = Random(repr(question.history))
    count = len(question.history) - question.start + 1
    stops = [log1p(-rng.choice([0.1, 0.9, 0.99])) for _ in range(count)]
    return Scores((-1.0,) * (count - 1), tuple(stops))


def reviser(
    *, rows: int = 64, seconds: float = 0.0, fault: str = "/nonexistent",
    is_editor: bool = True, is_proofreader: bool = False, has_judge: bool = True,
) -> Reviser:  # fmt: skip
    """Return the model that the server has, and that the tests compare with."""
    if is_proofreader:
        return judging.reviser_of(has_judge=has_judge)
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=OPERATORS, max_move=8)
    engine = FaultyEngine(vocab, rows=rows, seconds=seconds, fault=Path(fault))
    editing = Editing(edit_probabilities=True) if is_editor else None
    provenance = {"model": "/secret/path"}
    return Reviser(engine, Codec(tokenizer), provenance=provenance, editing=editing)


class Served:
    """A running server."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.log = folder / "log"
        self.fault = folder / "fault"

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def metrics(self) -> dict[str, float]:
        """Return every sample of /metrics by its name and labels."""
        lines = self.get("/metrics").text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def engine(self) -> dict[str, int]:
        """Return what the engine has been asked to do."""
        counts: dict[str, int] = self.get("/test/engine").json()
        return counts

    @cached_property
    def http(self) -> Any:
        """One client for all requests: each new one would read all certificates again."""
        import httpx2

        return httpx2.Client(base_url=self.url, timeout=60)

    def get(self, path: str, **options: Any) -> Any:
        return self.http.get(path, **options)

    def post(self, path: str, body: Any, **options: Any) -> Any:
        return self.http.post(path, json=body, **options)


class ServerThread(Served):
    """A server in a thread of this process; its log has only its own lines."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        from reviser.serve.logs import JsonLogFormatter
        from reviser.serve.run import DrainingServer, listen

        listener = listen("127.0.0.1", 0)
        super().__init__(f"http://127.0.0.1:{listener.getsockname()[1]}", folder)
        self._server = DrainingServer(make_server_app(settings))
        self._statuses: list[int] = []
        self._thread = threading.Thread(
            target=lambda: self._statuses.append(self._server.serve_until_stopped(listener)),
            daemon=True,
        )
        self._handler = logging.FileHandler(self.log)
        self._handler.setFormatter(JsonLogFormatter())
        self._handler.addFilter(lambda record: record.thread == self._thread.ident)
        for name in ("reviser.serve", "uvicorn"):
            logging.getLogger(name).addHandler(self._handler)
            logging.getLogger(name).setLevel("INFO")
        self._thread.start()
        eventually(lambda: self._server.started and self._server.runs.is_ready)

    def terminate(self) -> None:
        """Do what SIGTERM does."""
        self._server.handle_exit(signal.SIGTERM, None)

    def wait(self, seconds: float = 30) -> int:
        """Wait for the end; return the exit status."""
        self._thread.join(seconds)
        return self._statuses[0]

    def close(self) -> None:
        self.http.close()
        self.fault.write_text("")
        with suppress(RuntimeError):  # its event loop has ended already
            for _ in range(2):  # the second signal ends it without waiting for clients
                self.terminate()
        self._thread.join(20)
        for name in ("reviser.serve", "uvicorn"):
            logging.getLogger(name).removeHandler(self._handler)
        self._handler.close()
        assert self._statuses, "The server did not end."


class ServerProcess(Served):
    """A server in a process of its own; `stderr` may be something that cannot be written."""

    def __init__(self, folder: Path, settings: dict[str, Any], stderr: str = "") -> None:
        super().__init__("", folder)
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        command = [sys.executable, "-m", "support.serving", json.dumps(settings), str(port)]
        self.log.touch()
        with (Path("/dev/full") if stderr == "a full disk" else self.log).open("wb") as file:
            errors = subprocess.PIPE if stderr == "a pipe that nobody reads" else file
            tests = Path(__file__).parents[1]
            self.process = subprocess.Popen(command, stderr=errors, cwd=tests)
        eventually(self._is_ready, 120)

    def _is_ready(self) -> bool:
        import httpx2

        assert self.process.poll() is None, self.log.read_text()
        try:
            return bool(self.get("/ready").status_code == 200)
        except httpx2.TransportError:
            return False

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float = 30) -> int:
        return self.process.wait(seconds)

    def close(self) -> None:
        self.http.close()
        self.process.kill()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()


@contextmanager
def serving(
    *, limits: Mapping[str, Any] | None = None, keys: tuple[str, ...] = (),
    origins: tuple[str, ...] = (), playground: bool = True, process: bool = False,
    examples: tuple[str, ...] = (), stderr: str = "", **engine: Any,
) -> Iterator[Any]:  # fmt: skip
    """Start a server, wait until it is ready, and end it."""
    with tempfile.TemporaryDirectory() as name:
        settings = {
            "limits": dict(limits or {}),
            "options": {"keys": keys, "origins": origins, "playground": playground},
            "examples": examples,
            "engine": engine | {"fault": str(Path(name, "fault"))},
        }
        if process:
            server: Any = ServerProcess(Path(name), settings, stderr)
        else:
            server = ServerThread(Path(name), settings)
        try:
            yield server
        finally:
            server.close()


def eventually(check: Any, seconds: float = 30.0) -> None:
    """Wait until a check holds."""
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until, "It did not come about in time."
        time.sleep(0.02)


def error_message(response: Any) -> str:
    """Return the message of an error; it must be a sentence, and contain no secrets."""
    error = response.json()["error"]
    assert set(error) == {"message", "type", "code"}
    assert error["code"] == response.status_code
    assert error["message"].endswith((".", "?"))
    for secret in ("secret", "-key", "Traceback", "/tmp", "/home", "internal"):
        assert secret not in response.text
    return str(error["message"])


def make_server_app(settings: dict[str, Any]) -> Any:
    from reviser.player.playground import PageText
    from reviser.serve.app import make_app
    from reviser.serve.limits import Limits

    model = reviser(**settings["engine"])
    engine = model.engine
    text = PageText(about="It writes at random.", examples=tuple(settings.get("examples", ())))
    limits, options = Limits(**settings["limits"]), settings["options"]
    app = make_app(model, limits, name=NAME, page_text=text, **options)

    async def counts() -> dict[str, int]:
        assert isinstance(engine, FaultyEngine)
        running = len(engine.running)
        return {"added": engine.added, "running": running, "cancelled": engine.cancelled}

    app.add_api_route("/test/engine", counts, include_in_schema=False)
    app.add_api_route("/test/lag", LoopLag().worst, include_in_schema=False)
    return app


class LoopLag:
    """The longest time for which the event loop could not run anything else."""

    def __init__(self) -> None:
        self._watching: asyncio.Task[None] | None = None
        self._worst = 0.0

    async def worst(self) -> float:
        """Return the longest since the last call; the first call starts the watch."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        worst, self._worst = self._worst, 0.0
        return worst

    async def _watch(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.005)
            self._worst = max(self._worst, time.monotonic() - began - 0.005)


def main() -> int:
    from reviser.serve.logs import write_log
    from reviser.serve.run import listen, run

    write_log()
    return run(make_server_app(json.loads(sys.argv[1])), listen("127.0.0.1", int(sys.argv[2])))


if __name__ == "__main__":
    sys.exit(main())
