"""One engine, many who wait: whoever needs a step drives the engine for all.

No thread of its own: a caller that waits steps the engine, and what that gives others lies in
their inboxes until they ask. Callers may be interleaved, in several threads or in asyncio tasks.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
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
        self._dropped: deque[int] = deque()  # of which the engine may not know yet

    def add(self, request: Request) -> int:
        """Hand a request to the engine; its number."""
        with self._lock:
            self._forget()
            number = self.engine.add(request)
            self._inboxes[number] = deque()
            return number

    def drop(self, number: int) -> None:
        """Want no more of a request, ended or not.

        Never waits: the garbage collector may call it in the middle of a step.
        """
        if self._inboxes.pop(number, None) is not None:
            self._dropped.append(number)
            self._tidy()

    def take(self, numbers: Collection[int]) -> list[Step]:
        """Wait for steps of any of these requests; none if all of them were dropped."""
        while self._waits(numbers):
            self._drive(numbers)
        return self._collect(numbers)

    async def atake(self, numbers: Collection[int]) -> list[Step]:
        """The same without blocking the event loop."""
        turn = self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        while self._waits(numbers):
            async with turn:  # one task at a time takes a thread to drive
                if self._waits(numbers):
                    await asyncio.to_thread(self._drive, numbers)
        return self._collect(numbers)

    def run(
        self,
        requests: Iterable[Request],
        *,
        ahead: int = 256,
        held: Callable[[], int] = lambda: 0,
    ) -> Iterator[Step]:
        """The steps of many requests as they come, numbered as given.

        Requests are taken in while fewer than `ahead` run or are `held` back by the caller.
        """
        source = enumerate(requests)
        order: dict[int, int] = {}
        try:
            while True:
                while not order or len(order) + held() < ahead:
                    following = next(source, None)
                    if following is None:
                        break
                    order[self.add(following[1])] = following[0]
                if not order:
                    return
                for step in self.take(order):
                    n = order[step.request]
                    if step.is_last:
                        del order[step.request]
                        self.drop(step.request)
                    yield replace(step, request=n)
        finally:  # whoever stops listening wants no more
            for number in order:
                self.drop(number)

    def _waits(self, numbers: Collection[int]) -> bool:
        """Whether there is something to wait for, and nothing has come."""
        boxes = [box for n in numbers if (box := self._inboxes.get(n)) is not None]
        return bool(boxes) and not any(boxes)

    def _drive(self, numbers: Collection[int]) -> None:
        """Step the engine, unless another caller has just done what was needed."""
        with self._lock:
            if self._waits(numbers):
                self._forget()
                steps = self.engine.step()
                if not steps and self._waits(numbers):
                    raise EngineError("The engine has nothing left to run, yet a request waits.")
                for step in steps:
                    inbox = self._inboxes.get(step.request)
                    if inbox is not None:  # it may have been dropped meanwhile
                        inbox.append(step)
        self._tidy()

    def _forget(self) -> None:
        while self._dropped:
            self.engine.cancel(self._dropped.popleft())

    def _tidy(self) -> None:
        """Tell the engine who was dropped, if nobody is using it just now."""
        if self._dropped and self._lock.acquire(blocking=False):
            try:
                self._forget()
            finally:
                self._lock.release()

    def _collect(self, numbers: Collection[int]) -> list[Step]:
        steps: list[Step] = []
        for number in numbers:
            inbox = self._inboxes.get(number)
            while inbox:  # another thread may be putting more in
                steps.append(inbox.popleft())
        return steps
