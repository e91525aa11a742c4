"""An engine in a process of its own, for a caller that has other work to do.

Python runs one thread at a time, so what a server does for its clients would delay the engine. The
process runs ahead: it steps while questions are open, and its caller takes the answers as they
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
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any

from reviser.engines.base import Act, Answer, Engine, EngineEnded, Question, Step, failure
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
        self.vocab, self.context, self.versions = self._receive()

    def add(self, question: Question) -> int:
        """Check a question and queue it; return its number."""
        question.check(self.vocab, self.context)
        if isinstance(question, Act):
            question = Act(question.request)  # what takes its steps stays here
        self._added += 1
        self._send((self._added, question))
        self._running.add(self._added)
        return self._added

    def cancel(self, number: int) -> None:
        """Drop a question, answered or not; nothing more is said about it."""
        if number in self._running:
            self._running.remove(number)
            with suppress(EngineError):  # a process that has ended runs nothing
                self._send((number, None))

    def step(self, wait: float) -> list[Answer]:
        """Return what has come, after waiting for it so many seconds at most."""
        try:
            if not self._channel.poll(wait):
                return []
        except OSError as error:
            raise self._ended() from error
        answers = [_answer(values) for values in self._receive()]
        answers = [answer for answer in answers if answer.number in self._running]
        self._running -= {answer.number for answer in answers if answer.is_last}
        return answers

    def close(self) -> None:
        """End the process."""
        atexit.unregister(self._close)
        self._close()

    def _send(self, command: tuple[int, Question | None]) -> None:
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
    commands: SimpleQueue[tuple[int, Question | None]] = SimpleQueue()

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
    """Step the engine while questions are open, and send what it says."""
    engine_numbers: dict[int, int] = {}  # the engine's numbers by the caller's
    while True:
        while not engine_numbers or not commands.empty():
            number, question = commands.get()
            if question is None and number in engine_numbers:
                engine.cancel(engine_numbers.pop(number))
            elif question is not None:
                try:
                    engine_numbers[number] = engine.add(question)
                except Exception as error:  # noqa: BLE001 - a failure of this question alone
                    send([(number, failure(error))])
        numbers = {own: number for number, own in engine_numbers.items()}
        try:
            answers = engine.step(0.0)
        except Exception as error:  # noqa: BLE001 - all open questions are lost
            for own in engine_numbers.values():
                engine.cancel(own)  # some may still wait
            send(_portable(error), frozenset(engine_numbers))
            engine_numbers.clear()
            continue
        for answer in answers:
            if answer.is_last:
                del engine_numbers[numbers[answer.number]]
        if answers:
            send([_values(numbers[number], value) for number, value in answers])


def _values(number: int, value: Any) -> tuple[Any, ...]:
    """Return an answer for sending; the fields of a step are faster to send than it is."""
    if isinstance(value, Step):
        return number, value.action, value.logprob, value.ended
    return number, value


def _answer(values: tuple[Any, ...]) -> Answer:
    number, *rest = values
    return Answer(number, rest[0] if len(rest) == 1 else Step(*rest))


def _portable(error: Exception) -> ReviserError:
    """Return an error that can be sent."""
    if isinstance(error, ReviserError):
        return error
    return EngineError(f"{type(error).__name__}: {error}"[:1000])
