"""One engine shared between callers: whichever caller needs a step runs it for all of them.

There is no thread: a caller that waits steps the engine, and the steps of other requests wait in
their inboxes until a caller asks for them. Callers may be interleaved, in several threads or in
asyncio tasks. A request with `then` runs in two stages, as one request for its caller: the engine
reads it and gives edit probabilities, then the request that `then` makes of them runs.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from reviser.engines.base import Engine, Request, Step, failed_step
from reviser.errors import EngineError, ReviserError


@dataclass
class _Inbox:
    """Steps that have come for a request, and what runs for it in the engine."""

    run: int
    """The engine's number of the request or of its second stage."""
    reading: Request | None
    """The request while the engine reads it."""
    read: Step | None = None
    """The step that ended the reading; the first step of the second stage carries what it brought.
    """
    narrowed: Request | None = None
    steps: deque[Step] = field(default_factory=deque)


class Driver:
    """An engine that is shared; every request gets its own steps, in order, none twice."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._lock = threading.Lock()
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )
        self._inboxes: dict[int, _Inbox] = {}
        self._numbers: dict[int, int] = {}  # requests by the engine's number of their second stage
        self._dropped: deque[int] = deque()  # the engine's numbers of dropped requests

    def add(self, request: Request) -> int:
        """Add a request to the engine; return its number."""
        with self._lock:
            self._forget()
            reading = request if request.then is not None else None
            number = self.engine.add(_reading(request) if reading else request)
            self._inboxes[number] = _Inbox(number, reading)
            return number

    def drop(self, number: int) -> None:
        """Drop a request, ended or not.

        This never waits: the garbage collector may call it in the middle of a step.
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
        """Return the steps of these requests after at most one step of the engine; maybe none."""
        if self._waits(numbers):
            self._drive(numbers)
        return self._collect(numbers)

    async def atake(self, numbers: Collection[int]) -> list[Step]:
        """Do what `take` does without blocking the event loop."""
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
        """Yield the steps of many requests as they come, numbered in the order of the requests.

        Requests are added while fewer than `ahead` run or are `held` back by the caller. One that
        the engine refuses gets a step with its error; an engine that fails ends all of them.
        """
        source = enumerate(requests)
        order: dict[int, int] = {}
        try:
            while True:
                while not order or len(order) + held() < ahead:
                    following = next(source, None)
                    if following is None:
                        break
                    try:
                        order[self.add(following[1])] = following[0]
                    except EngineError:
                        raise
                    except ReviserError as error:  # the engine refuses this request alone
                        yield failed_step(following[0], EngineError(str(error)))
                if not order:
                    return
                for step in self.take(order):
                    n = order[step.request]
                    if step.is_last:
                        del order[step.request]
                        self.drop(step.request)
                    yield replace(step, request=n)
        finally:  # the caller may stop listening early
            for number in order:
                self.drop(number)

    def _waits(self, numbers: Collection[int]) -> bool:
        """Return whether there is something to wait for and nothing has come."""
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
        """Put a step into its request's inbox; the end of a reading starts the second stage."""
        number = self._numbers.get(step.request, step.request)
        inbox = self._inboxes.get(number)
        if inbox is None:  # it may have been dropped meanwhile
            return
        reading, inbox.reading = inbox.reading, None
        if reading and step.error is None:
            try:
                if self._start_second_stage(number, inbox, reading, step):
                    return
            except Exception as error:  # noqa: BLE001 - a failure of this request alone
                step = failed_step(step.request, error)
        if inbox.read is not None:
            step = replace(step, reading=inbox.read.reading, narrowed=inbox.narrowed)
            inbox.read = inbox.narrowed = None
        inbox.steps.append(replace(step, request=number) if step.request != number else step)

    def _start_second_stage(self, number: int, inbox: _Inbox, reading: Request, step: Step) -> bool:
        """Run what is left of a request that was read; return whether anything is left."""
        if step.reading is None:
            raise EngineError("This engine gives no edit probabilities: set their minimum to 0.")
        count = len(step.reading.stop)
        if count != len(reading.history) - 1:
            raise EngineError(
                f"The engine gave {count} edit probabilities for {len(reading.history)} ids."
            )
        assert reading.then is not None
        narrowed = reading.then(step.reading)
        if narrowed is None:
            return False
        inbox.run = self.engine.add(narrowed)
        inbox.read, inbox.narrowed = step, narrowed
        self._numbers[inbox.run] = number
        if number not in self._inboxes:  # dropped just now, under the old number
            self._dropped.append(inbox.run)
        return True

    def _forget(self) -> None:
        while self._dropped:
            run = self._dropped.popleft()
            self._numbers.pop(run, None)
            self.engine.cancel(run)

    def _tidy(self) -> None:
        """Cancel dropped requests in the engine, unless another caller is using it now."""
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


def _reading(request: Request) -> Request:
    """Return the first stage of a request: it gives edit probabilities and can only stop."""
    config = replace(request.config, max_edits=0, max_actions=1)
    return replace(request, with_reading=True, config=config, then=None)
