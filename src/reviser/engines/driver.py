"""One engine, many who wait: whoever needs a step drives the engine for all.

No thread of its own: a caller that waits steps the engine, and what that gives others lies in
their inboxes until they ask. Callers may be interleaved, in several threads or in asyncio tasks.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from weakref import WeakKeyDictionary

from reviser.engines.base import Engine, Request, Step
from reviser.errors import EngineError


class Driver:
    """Shares an engine; every request gets its own steps, in order, none twice."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._lock = threading.Lock()
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )
        self._inboxes: dict[int, deque[Step]] = {}

    def add(self, request: Request) -> int:
        """Hand a request to the engine; its number."""
        with self._lock:
            number = self.engine.add(request)
            self._inboxes[number] = deque()
            return number

    def drop(self, number: int) -> None:
        """Want no more of a request, ended or not."""
        with self._lock:
            if self._inboxes.pop(number, None) is not None:
                self.engine.cancel(number)

    def take(self, numbers: Collection[int]) -> list[Step]:
        """Wait for steps of any of these requests."""
        while True:
            with self._lock:
                if steps := self._collect(numbers):
                    return steps
                self._pump()

    async def atake(self, numbers: Collection[int]) -> list[Step]:
        """The same without blocking the event loop."""
        turn = self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        while True:
            async with turn:  # one task at a time takes a thread to drive
                if steps := self._collect(numbers):
                    return steps
                await asyncio.to_thread(self._drive)

    def run(self, requests: Iterable[Request], *, ahead: int = 256) -> Iterator[Step]:
        """The steps of many requests as they come, numbered as given; taken in as needed."""
        source = enumerate(requests)
        order: dict[int, int] = {}
        try:
            while True:
                while len(order) < ahead and (following := next(source, None)):
                    n, request = following
                    order[self.add(request)] = n
                if not order:
                    return
                for step in self.take(order):
                    n = order[step.request]
                    if step.ended is not None:
                        del order[step.request]
                        self.drop(step.request)
                    yield replace(step, request=n)
        finally:  # whoever stops listening wants no more
            for number in order:
                self.drop(number)

    def _drive(self) -> None:
        with self._lock:
            self._pump()

    def _pump(self) -> None:
        steps = self.engine.step()
        if not steps:
            raise EngineError("The engine has nothing left to run, yet a request waits for it.")
        for step in steps:
            self._inboxes[step.request].append(step)

    def _collect(self, numbers: Collection[int]) -> list[Step]:
        steps: list[Step] = []
        for number in numbers:
            inbox = self._inboxes[number]
            while inbox:  # another thread may be putting more in
                steps.append(inbox.popleft())
        return steps
