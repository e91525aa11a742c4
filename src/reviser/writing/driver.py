"""One engine, many who wait: whoever needs a step drives the engine for all.

No thread of its own: a caller that waits steps the engine, and what that gives others lies in
their inboxes until they ask. Callers may be interleaved, in several threads or in asyncio tasks.
A request that is to be read first runs twice, as one for whoever waits.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from reviser.engines.base import Engine, Reading, Request, Step
from reviser.errors import EngineError, ReviserError


@dataclass
class _Inbox:
    """What has come for a request, and what is needed to ask for more."""

    run: int
    """The engine's number of what runs for it."""
    reading: Reading | None
    """If it is being read."""
    notes: tuple[float, ...] | None = None
    """Of what was read, for the next step to bring."""
    steps: deque[Step] = field(default_factory=deque)


class Driver:
    """Shares an engine; every request gets its own steps, in order, none twice."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._lock = threading.Lock()
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )
        self._inboxes: dict[int, _Inbox] = {}
        self._numbers: dict[int, int] = {}  # of requests, by what runs in their place
        self._dropped: deque[int] = deque()  # what runs for nobody, if the engine still runs it

    def add(self, request: Request) -> int:
        """Hand a request to the engine; its number."""
        with self._lock:
            self._forget()
            reading = request if isinstance(request, Reading) else None
            number = self.engine.add(reading.only() if reading else request)
            self._inboxes[number] = _Inbox(number, reading)
            return number

    def drop(self, number: int) -> None:
        """Want no more of a request, ended or not.

        Never waits: the garbage collector may call it in the middle of a step.
        """
        inbox = self._inboxes.pop(number, None)
        if inbox is not None:
            self._dropped.append(inbox.run)
            self._tidy()

    def take(self, numbers: Collection[int]) -> list[Step]:
        """Wait for steps of any of these requests; none if all of them were dropped."""
        while self._waits(numbers):
            self._drive(numbers)
        return self._collect(numbers)

    def turn(self, numbers: Collection[int]) -> list[Step]:
        """`take`, but after one step of the engine at most: there may be none."""
        if self._waits(numbers):
            self._drive(numbers)
        return self._collect(numbers)

    async def atake(self, numbers: Collection[int]) -> list[Step]:
        """`take`, without blocking the event loop."""
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
        return bool(boxes) and not any(box.steps for box in boxes)

    def _drive(self, numbers: Collection[int]) -> None:
        """Step the engine, unless another caller has just done what was needed."""
        with self._lock:
            if self._waits(numbers):
                self._forget()
                steps = self.engine.step()
                if not steps and self._waits(numbers):
                    raise EngineError("The engine has nothing left to run, yet a request waits.")
                for step in steps:
                    self._deliver(step)
        self._tidy()

    def _deliver(self, step: Step) -> None:
        """Put a step where it is waited for; what was only read runs first, if it is to."""
        number = self._numbers.get(step.request, step.request)
        inbox = self._inboxes.get(number)
        if inbox is None:  # it may have been dropped meanwhile
            return
        reading, inbox.reading = inbox.reading, None
        if reading and step.error is None:
            try:
                left = reading.left(step.notes)
                run = None if left is None else self.engine.add(left)
            except ReviserError as error:  # of this request: others have their steps to get
                run, step = None, replace(step, error=EngineError(str(error)))
            if run is not None:
                inbox.notes, inbox.run = step.notes, run
                self._numbers[run] = number
                if number not in self._inboxes:  # dropped just now, by the old number
                    self._dropped.append(run)
                return
        if step.request != number:
            step = replace(step, request=number, notes=inbox.notes)
            inbox.notes = None
        inbox.steps.append(step)

    def _forget(self) -> None:
        while self._dropped:
            run = self._dropped.popleft()
            self._numbers.pop(run, None)
            self.engine.cancel(run)

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
            while inbox and inbox.steps:  # another thread may be putting more in
                steps.append(inbox.steps.popleft())
        return steps
