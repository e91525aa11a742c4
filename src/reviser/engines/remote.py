"""The part of an engine that is about a server: each question is a coroutine in a thread.

The coroutines share one event loop, which is not the caller's, and put answers into a queue.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from reviser.engines.base import Answer

T = TypeVar("T")


class Remote:
    """The questions that a server has been asked; one thread calls it."""

    def __init__(self) -> None:
        self.answers: SimpleQueue[Answer] = SimpleQueue()
        """A coroutine puts the answers to its question here."""
        self._running: dict[int, Future[None]] = {}
        self._added = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="remote", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def ask(self, answer: Callable[[int], Coroutine[Any, Any, None]]) -> int:
        """Run the coroutine that answers a question, and return the number that it was given."""
        self._added += 1
        self._running[self._added] = self.run(answer(self._added))
        return self._added

    def cancel(self, number: int) -> None:
        """Drop a question, answered or not: its connection is closed, so the server drops it."""
        future = self._running.pop(number, None)
        if future is not None:
            future.cancel()

    def step(self, wait: float) -> list[Answer]:
        """Return what has come, after waiting for it so many seconds at most."""
        answers: list[Answer] = []
        try:
            while True:
                answer = self.answers.get(timeout=0 if answers else wait)
                if answer.number in self._running:  # else it was cancelled
                    answers.append(answer)
                    if answer.is_last:
                        del self._running[answer.number]
        except Empty:
            return answers

    def end(self, last: Coroutine[Any, Any, None]) -> None:
        """Drop all questions, run a last coroutine, and end the thread."""
        for number in list(self._running):
            self.cancel(number)
        self.run(last).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
