"""The thread that drives the engine: requests go in by a queue, news come out in batches.

Only this thread touches the engine and the texts being written, so nobody else ever waits for a
step. It knows nothing of HTTP or asyncio.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Literal, Protocol

from reviser.core.actions import Kind
from reviser.engines.base import DecodeConfig, Request, StopReason
from reviser.errors import EngineError, ReviserError
from reviser.serve.events import edit_data, event
from reviser.writing.model import Reviser, Rollout, Writing

State = Literal["starting", "ready", "failing", "dead", "closed"]

FAILED = "The engine failed while it ran this request; ask again."


class Work(Protocol):
    """A text to write, as far as the pump needs to know it."""

    writing: Writing
    is_stream: bool
    deadline: float
    steps: int


@dataclass(frozen=True)
class News:
    """What became of a piece of work in one step of the engine; that it began, if nothing else."""

    work: Work
    events: list[bytes] = field(default_factory=list)
    rollout: Rollout | None = None
    """Of a text that is done."""
    error: ReviserError | None = None
    """Of one that failed."""
    reason: str = ""
    """Why the engine failed it: for the log, not for who asked."""

    @property
    def is_last(self) -> bool:
        """Whether nothing follows."""
        return self.rollout is not None or self.error is not None


class Pump:
    """Runs what it is given; `tell` is called in its thread, with all news of a step at once."""

    def __init__(
        self,
        reviser: Reviser,
        tell: Callable[[list[News]], None],
        acted: Callable[[int], None],
        changed: Callable[[State], None],
        probe_seconds: float,
        recovery_seconds: float,
    ) -> None:
        self._reviser = reviser
        self._driver = reviser.driver
        self._tell = tell
        self._acted = acted
        self._changed = changed
        self._probe_seconds = probe_seconds
        self._recovery_seconds = recovery_seconds
        self._orders: SimpleQueue[tuple[Work, StopReason | None] | None] = SimpleQueue()
        self._running: dict[int, Work] = {}
        self._closing = threading.Event()
        self.state: State = "starting"
        self.reason = ""
        """Why the engine failed, if it did."""
        self.stepping_since: float | None = None
        """When the engine was asked for the step that has not come yet."""
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Begin; the state is ready once the engine has answered."""
        self._thread.start()

    def add(self, work: Work) -> None:
        """Begin to write."""
        self._orders.put((work, None))

    def cancel(self, work: Work, reason: StopReason) -> None:
        """Leave it where it is; its news say how it ended."""
        self._orders.put((work, reason))

    def close(self, seconds: float) -> None:
        """End the thread, unless it hangs in a step for longer than this."""
        self._closing.set()
        self._orders.put(None)
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._warm_up()
            self._recover()
            while self.state == "ready":
                self._listen()
                if self._running and self.state == "ready":
                    self._step()
        finally:  # a mistake of our own must not leave a server that only seems to live
            if self.state not in ("closed", "dead"):
                self._become("dead")

    def _warm_up(self) -> None:
        """Do once what is slow the first time: tables of the tokenizer, a compiled function."""
        with suppress(ReviserError):
            Writing(self._reviser.plan_infill("a{}b"), self._reviser.codec, self._driver, {})

    def _become(self, state: State) -> None:
        self.state = state
        self._changed(state)

    def _listen(self) -> None:
        """Take all orders there are; without any work wait for one, and see that all is well."""
        try:
            while self.state == "ready":
                is_idle = not self._running
                order = self._orders.get(is_idle, self._probe_seconds if is_idle else None)
                if order is None:
                    self.state = "closed"
                    return
                self._obey(*order)
        except Empty:
            if is_idle and (trouble := self._trouble()) is not None:
                self._fail_all(trouble)
                self._recover()

    def _obey(self, work: Work, reason: StopReason | None) -> None:
        if reason is not None:
            self._stop(work, reason)
            return
        try:
            self._running[self._driver.add(work.writing.plan.request)] = work
        except ReviserError as error:
            is_ours = not isinstance(error, EngineError)
            self._tell([News(work, error=error) if is_ours else _failed(work, error)])
        except Exception as error:  # noqa: BLE001 - an engine that breaks here is broken
            self._tell([_failed(work, error)])
            self._fail_all(error)
            self._recover()

    def _stop(self, work: Work, reason: StopReason) -> None:
        number = next((n for n, other in self._running.items() if other is work), None)
        if number is not None:
            self._tell([self._ended(number, reason)])

    def _step(self) -> None:
        self.stepping_since = time.monotonic()
        try:
            steps = self._driver.turn(self._running)
        except Exception as error:  # noqa: BLE001 - whatever an engine raises ends all that it ran
            self._fail_all(error)
            self._recover()
            return
        finally:
            self.stepping_since = None
        self._acted(len(steps))
        news: dict[int, News] = {}
        doubt: ReviserError | None = None
        for step in steps:
            work = self._running.get(step.request)
            if work is None:  # it failed a moment ago
                continue
            told = news.get(step.request) or News(work)
            try:
                edit = work.writing.take(step)
            except ReviserError as error:
                doubt = error
                self._drop(step.request)
                told = replace(_failed(work, error), events=told.events)
            else:
                work.steps += 1
                if work.is_stream:
                    data = edit_data(work.steps, work.writing.kind, edit, step.logprob)
                    told.events.append(event(work.steps, "edit", data))
                if step.ended is not None:
                    self._drop(step.request)
                    told = replace(told, rollout=work.writing.rollout())
            if told.events or told.is_last or work.steps == 1:
                news[step.request] = told
        if news:
            self._tell(list(news.values()))
        now = time.monotonic()
        late = [n for n, work in self._running.items() if work.deadline < now]
        if late:
            self._tell([self._ended(number, "time") for number in late])
        if doubt is not None and self._trouble() is not None:
            self._fail_all(doubt)
            self._recover()

    def _ended(self, number: int, reason: StopReason) -> News:
        work = self._drop(number)
        work.writing.cancel(reason)
        return News(work, rollout=work.writing.rollout())

    def _drop(self, number: int) -> Work:
        self._driver.drop(number)
        return self._running.pop(number)

    def _fail_all(self, error: Exception) -> None:
        self.reason = _reason(error)
        self._become("failing")
        lost = [self._drop(number) for number in list(self._running)]
        self._tell([_failed(work, error) for work in lost])

    def _recover(self) -> None:
        """Ask the engine until it answers, or for too long."""
        until, pause = time.monotonic() + self._recovery_seconds, 0.05
        while (trouble := self._trouble()) is not None:
            self.reason = _reason(trouble)
            if time.monotonic() + pause > until or self._closing.wait(pause):
                self._become("dead")
                return
            pause = min(2 * pause, 2.0)
        self._become("ready")

    def _trouble(self) -> Exception | None:
        """What comes of asking for one action on an empty text, if it is not the action."""
        vocab = self._driver.engine.vocab
        token = int((vocab.kinds == Kind.INSERT).argmax())
        prefix = [] if vocab.prefix_actions([]) else [token]
        config = DecodeConfig(max_actions=1, temperature=0.0)
        request = Request.continuation(vocab, prefix, config)
        self.stepping_since = time.monotonic()
        number = None
        try:
            number = self._driver.add(request)
            errors = (step.error for step in self._driver.take([number]))
            return next((error for error in errors if error is not None), None)
        except Exception as error:  # noqa: BLE001 - any of them means that it does not answer
            return error
        finally:
            self.stepping_since = None
            if number is not None:
                self._driver.drop(number)


def _failed(work: Work, error: Exception) -> News:
    return News(work, error=EngineError(FAILED), reason=_reason(error))


def _reason(error: Exception) -> str:
    """For the log; an engine sees ids, never a text, so it cannot tell one."""
    return f"{type(error).__name__}: {error}"[:500]
