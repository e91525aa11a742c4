"""One engine shared between callers: whichever caller needs a step runs it for all of them.

There is no thread: a caller that waits steps the engine, and the steps of other requests wait in
their inboxes until a caller asks for them. Callers may be interleaved, in several threads or in
asyncio tasks. A request may run in stages, as one request for its caller. With `then`, the engine
reads it and gives edit probabilities, and the request that `then` makes of them runs. With
`review`, the engine reads some more texts after the last step, which waits for them.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from reviser.core.actions import Kind
from reviser.engines.base import DecodeConfig, Engine, Reading, Request, Step, failed_step
from reviser.errors import EngineError, ReviserError

READINGS = 1000
"""Number of readings that are kept: samples of one draft often make the same changes."""


@dataclass
class _Inbox:
    """Steps that have come for a request, and what runs for it in the engine."""

    request: Request
    runs: list[int]
    """The engine's numbers of what runs: the request, its second stage, or what is reviewed."""
    is_read: bool
    """False while the engine reads a request with `then`."""
    read: Step | None = None
    """The step that ended the reading; the first step of the second stage carries what it brought.
    """
    reading: Reading | None = None
    narrowed: Request | None = None
    last: Step | None = None
    """The last step, while it waits for the review."""
    texts: list[tuple[int, ...]] = field(default_factory=list)
    """The texts of the review, in order."""
    unread: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Those that the engine has not read yet, by its numbers."""
    found: dict[tuple[int, ...], Reading] = field(default_factory=dict)
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
        self._numbers: dict[int, int] = {}  # requests by the engine's numbers of later stages
        self._dropped: deque[int] = deque()  # the engine's numbers of dropped requests
        self._known: dict[tuple[int, ...], Reading] = {}  # texts of reviews that were read lately

    def add(self, request: Request) -> int:
        """Add a request to the engine; return its number."""
        with self._lock:
            self._forget()
            is_read = request.then is None
            number = self.engine.add(request if is_read else _reading(request))
            self._inboxes[number] = _Inbox(request, [number], is_read)
            return number

    def drop(self, number: int) -> None:
        """Drop a request, ended or not.

        This never waits: the garbage collector may call it in the middle of a step.
        """
        inbox = self._inboxes.pop(number, None)
        if inbox is not None:
            self._dropped.extend(inbox.runs)
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

    def probe(self) -> Exception | None:
        """Ask the engine for one action on an empty text; return its error, None if it works."""
        vocab = self.engine.vocab
        token = int((vocab.kinds == Kind.INSERT).argmax())
        prefix = [] if vocab.prefix_actions([]) else [token]
        config = DecodeConfig(max_actions=1, temperature=0.0)
        number = None
        try:
            number = self.add(Request.continuation(vocab, prefix, config))
            errors = (step.error for step in self.take([number]))
            return next((error for error in errors if error is not None), None)
        except Exception as error:  # noqa: BLE001 - whatever it raises, it does not work
            return error
        finally:
            if number is not None:
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
        """Put a step into its request's inbox, or start the next stage with it."""
        number = self._numbers.get(step.request, step.request)
        inbox = self._inboxes.get(number)
        if inbox is None or step.request not in inbox.runs:  # it was dropped, or has failed
            return
        try:
            found = self._next_stage(number, inbox, step)
        except Exception as error:  # noqa: BLE001 - a failure of this request alone
            self._dropped.extend(inbox.runs)  # the rest of a review
            inbox.runs = []
            found = failed_step(number, error)
        if found is not None:
            inbox.steps.append(replace(found, request=number))

    def _next_stage(self, number: int, inbox: _Inbox, step: Step) -> Step | None:
        """Return the step for the caller; None if it starts a stage or is part of a review."""
        if step.error is not None:
            raise step.error
        if inbox.last is not None:
            return self._reviewed(inbox, inbox.last, step)
        if not inbox.is_read:
            inbox.is_read = True
            inbox.reading = _checked_reading(step, len(inbox.request.history))
            assert inbox.request.then is not None
            inbox.narrowed = inbox.request.then(inbox.reading)
            if inbox.narrowed is not None:
                inbox.read = step
                self._start(number, inbox, [inbox.narrowed])
                return None
        if inbox.read is not None:
            step = replace(step, reading=inbox.read.reading, narrowed=inbox.narrowed)
            inbox.read = inbox.narrowed = None
        if inbox.request.review is not None and inbox.reading is not None and step.ended:
            return self._review(number, inbox, step, inbox.request.review(inbox.reading))
        return step

    def _start(self, number: int, inbox: _Inbox, requests: list[Request]) -> None:
        """Add the next stage of a request to the engine."""
        for run in inbox.runs:
            self._numbers.pop(run, None)
        inbox.runs = [self.engine.add(request) for request in requests]
        self._numbers |= dict.fromkeys(inbox.runs, number)
        if number not in self._inboxes:  # dropped just now, under the old numbers
            self._dropped.extend(inbox.runs)

    def _review(
        self, number: int, inbox: _Inbox, last: Step, texts: Sequence[Request]
    ) -> Step | None:
        """Return the last step of a request, or None if it waits for texts to be read."""
        inbox.texts = [text.history for text in texts]
        inbox.found = {text: self._known[text] for text in inbox.texts if text in self._known}
        missing = {text.history: text for text in texts if text.history not in inbox.found}
        if not missing:
            return _with_readings(last, inbox)
        inbox.last = last
        self._start(number, inbox, list(map(_reading, missing.values())))
        inbox.unread = dict(zip(inbox.runs, missing, strict=True))
        return None

    def _reviewed(self, inbox: _Inbox, last: Step, step: Step) -> Step | None:
        """Return the last step of a request once all texts of its review have been read."""
        text = inbox.unread.pop(step.request)
        inbox.found[text] = self._known[text] = _checked_reading(step, len(text))
        while len(self._known) > READINGS:
            del self._known[next(iter(self._known))]
        return None if inbox.unread else _with_readings(last, inbox)

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


def _with_readings(last: Step, inbox: _Inbox) -> Step:
    return replace(last, readings=tuple(inbox.found[text] for text in inbox.texts))


def _checked_reading(step: Step, ids: int) -> Reading:
    if step.reading is None:
        raise EngineError("This engine gives no log-probabilities of what it reads.")
    count = len(step.reading.stop)
    if count != ids - 1:
        raise EngineError(f"The engine gave {count} log-probabilities for {ids} ids.")
    return step.reading


def _reading(request: Request) -> Request:
    """Return a request that only reads: it brings a reading, and can do nothing but stop."""
    config = replace(request.config, max_edits=0, max_actions=1)
    return replace(request, with_reading=True, config=config, then=None)
