"""An engine in a process of its own, for a caller that has other work to do.

Python runs one thread at a time, so what a server does for its clients would delay the engine. The
process runs ahead: it steps while requests are running, and its caller takes the steps as they
come. This module knows neither models nor torch: a function opens the engine in the process.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any

from reviser.engines.base import Engine, EngineEnded, Request, Step, failed_step
from reviser.errors import EngineError, ReviserError

END_SECONDS = 5.0
"""Time that the process has to end by itself."""


class ProcessEngine:
    """The engine that `open_engine(*arguments)` returns, in a process of its own.

    Function and arguments must be picklable. The engine needs a `context` and `versions` besides
    what every engine has. If its process ends, every later step raises EngineError.
    """

    def __init__(self, open_engine: Callable[..., Any], *arguments: Any) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._channel, other = spawn.Pipe()
        self._process = spawn.Process(
            target=_serve, args=(other, open_engine, arguments), name="engine", daemon=True
        )
        with _safe_path():
            self._process.start()
        other.close()  # the process holds the only other end now, so its death ends the channel
        self._close = partial(_close, self._channel, self._process)
        atexit.register(self._close)  # before multiprocessing's own hook, which would wait for it
        self._running: set[int] = set()
        self._added = 0
        self.vocab, self._context, self.versions = self._receive()

    def check(self, request: Request) -> None:
        """Raise ConfigError for a request that this engine cannot run."""
        request.check(self.vocab, self._context)

    def add(self, request: Request) -> int:
        """Check a request and queue it; return its number."""
        self.check(request)
        self._added += 1
        # What the driver calls stays here, with what it refers to.
        self._send((self._added, replace(request, then=None, review=None)))
        self._running.add(self._added)
        return self._added

    def cancel(self, number: int) -> None:
        """Drop a request, finished or not; no further step of it is returned."""
        if number in self._running:
            self._running.remove(number)
            with suppress(EngineError):  # a process that has ended runs nothing
                self._send((number, None))

    def step(self) -> list[Step]:
        """Wait for the next actions; none if nothing is left."""
        while self._running:
            steps = [Step(*values) for values in self._receive() if values[0] in self._running]
            self._running -= {step.request for step in steps if step.is_last}
            if steps:
                return steps
        return []

    def close(self) -> None:
        """End the process."""
        atexit.unregister(self._close)
        self._close()

    def _send(self, command: tuple[int, Request | None]) -> None:
        try:
            self._channel.send(command)
        except OSError as error:
            raise self._ended() from error

    def _receive(self) -> Any:
        """Return what the process sends next, or raise the error that it sends."""
        try:
            lost, answer = self._channel.recv()
        except (EOFError, OSError) as error:
            raise self._ended() from error
        self._running -= lost
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _ended(self) -> EngineEnded:
        self._process.join(END_SECONDS)
        status = self._process.exitcode
        return EngineEnded(f"The engine's process has ended, with exit code {status}.")


@contextmanager
def _safe_path() -> Iterator[None]:
    """Start Python without the working folder on its path, which may hold anybody's modules."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def _close(channel: Connection, process: BaseProcess) -> None:
    channel.close()  # the process ends by itself then
    process.join(END_SECONDS)
    process.kill()
    process.join()


def _serve(channel: Connection, open_engine: Callable[..., Any], arguments: Any) -> None:
    """Open an engine and run it until the channel closes; what the process does."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the caller decides when to end
        signal.signal(number, signal.SIG_IGN)
    commands: SimpleQueue[tuple[int, Request | None]] = SimpleQueue()

    def receive() -> None:
        # A thread always reads, so the caller never waits for a step to add a request; and the two
        # never wait for each other when both have much to send.
        while True:
            try:
                commands.put(channel.recv())
            except (EOFError, OSError):  # the caller has closed the channel, or is dead
                os._exit(0)

    def send(answer: Any, lost: frozenset[int] = frozenset()) -> None:
        channel.send((lost, answer))

    threading.Thread(target=receive, daemon=True).start()
    try:
        engine = open_engine(*arguments)
    except Exception as error:  # noqa: BLE001 - the caller gets it
        send(_portable(error))
        return
    send((engine.vocab, engine.context, engine.versions))
    _run(engine, commands, send)


def _run(engine: Engine, commands: SimpleQueue[Any], send: Callable[..., None]) -> None:
    """Step the engine while requests are running, and send their steps."""
    ours: dict[int, int] = {}  # the engine's numbers by the caller's
    while True:
        while not ours or not commands.empty():
            number, request = commands.get()
            if request is None and number in ours:
                engine.cancel(ours.pop(number))
            elif request is not None:
                try:
                    ours[number] = engine.add(request)
                except Exception as error:  # noqa: BLE001 - a failure of this request alone
                    send([_values(failed_step(number, error), number)])
        theirs = {own: number for number, own in ours.items()}
        try:
            steps = engine.step()
            if not steps:
                raise EngineError("The engine has nothing left to run, yet a request waits.")
        except Exception as error:  # noqa: BLE001 - all running requests are lost
            for own in ours.values():
                engine.cancel(own)  # some may still wait
            send(_portable(error), frozenset(ours))
            ours.clear()
            continue
        for step in steps:
            if step.is_last:
                del ours[theirs[step.request]]
        send([_values(step, theirs[step.request]) for step in steps])


def _values(step: Step, number: int) -> tuple[Any, ...]:
    """Return the fields of a step with the caller's number, which are faster to send than it is."""
    return number, step.action, step.logprob, step.ended, step.error, step.reading


def _portable(error: Exception) -> ReviserError:
    """Return an error that can be sent."""
    if isinstance(error, ReviserError):
        return error
    return EngineError(f"{type(error).__name__}: {error}"[:1000])
