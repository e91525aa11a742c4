"""Who is next: takes texts to write, lets them wait, gives the pump work and readers their news.

Runs in the event loop. Knows the pump, not HTTP; an error it raises says which status it is.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from reviser.core.codec import Unit
from reviser.engines.base import StopReason
from reviser.errors import EngineError, RequestRefused, ReviserError
from reviser.serve.events import PING, Buffer, event
from reviser.serve.limits import Limits
from reviser.serve.metrics import Metrics
from reviser.serve.worker import FAILED, News, Pump, State
from reviser.writing.model import Reviser, Rollout, Writing
from reviser.writing.tasks import Plan

ENDING = "This server is about to end; ask another."

log = logging.getLogger("reviser.serve")


class Job:
    """A text that was accepted; `writing` belongs to the pump's thread, the rest to the loop."""

    def __init__(
        self, writing: Writing, *, owner: str, is_stream: bool, unit: Unit, limits: Limits
    ) -> None:
        self.id = secrets.token_urlsafe(16)
        self.writing = writing
        self.owner = owner
        self.is_stream = is_stream
        self.accepted = time.monotonic()
        self.deadline = self.accepted + limits.seconds
        self.steps = 0
        self.buffer = Buffer(limits.stream_bytes)
        self.has_begun = False
        self.is_done = False
        """Whether nothing follows."""
        self.rollout: Rollout | None = None
        self.error: ReviserError | None = None
        self.cancelled_by = ""
        self.readers = 0
        self.was_read = not is_stream
        self.news = asyncio.Event()
        self.timer: asyncio.TimerHandle | None = None
        if is_stream:
            start = {"stream": self.id, "text": writing.text, "cursor": writing.cursor}
            data = json.dumps(start | {"unit": unit}, ensure_ascii=False)
            self.buffer.add(event(0, "start", data))

    def wake(self) -> None:
        """Tell all who wait that something has changed."""
        self.news.set()
        self.news = asyncio.Event()

    def stop_timer(self) -> None:
        """Let nothing happen to it by itself."""
        if self.timer is not None:
            self.timer.cancel()

    async def result(self) -> Rollout:
        """What was written, when it is."""
        while not self.is_done:
            await self.news.wait()
        if self.error is not None:
            raise self.error
        assert self.rollout is not None
        return self.rollout


class Desk:
    """Accepts, queues, cancels, drains; `ended` is called when the process should end, and why."""

    def __init__(self, reviser: Reviser, limits: Limits, metrics: Metrics, model: str) -> None:
        self.reviser = reviser
        self.limits = limits
        self.metrics = metrics
        self.provenance = reviser.provenance | {"model": model}
        self.draining = False
        self.died = False
        self.lost = False
        """Whether the engine failed what had been accepted, while the server was ending."""
        self._is_over = False
        self.ended: Callable[[], None] = lambda: None
        self.pump: Pump | None = None
        self._entering = 0
        self._waiting: deque[Job] = deque()
        self._running: set[Job] = set()
        self._streams: dict[str, Job] = {}
        self._seconds = 1.0  # what a text takes, a running mean
        self._tasks: set[asyncio.Task[None]] = set()

    # -- life ---------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the pump."""
        loop = asyncio.get_running_loop()

        def soon(call: Callable[..., None], *args: object) -> None:
            with suppress(RuntimeError):  # the loop has ended, and nobody listens
                loop.call_soon_threadsafe(call, *args)

        self.pump = Pump(
            self.reviser,
            tell=lambda news: soon(self._hear, news),
            acted=self.metrics.actions.inc,
            changed=lambda state: soon(self._engine_is, state),
            probe_seconds=self.limits.probe_seconds,
            recovery_seconds=self.limits.recovery_seconds,
        )
        self.pump.start()
        self._spawn(self._watch())

    async def close(self) -> None:
        """Stop everything; what still runs is lost."""
        for task in self._tasks:
            task.cancel()
        if self.pump is not None:
            await asyncio.to_thread(self.pump.close, 1.0 if self.died else 10.0)

    @property
    def is_ready(self) -> bool:
        """Whether a request would be taken, if there is room."""
        is_up = self.pump is not None and self.pump.state == "ready"
        return is_up and not self.draining and not self.died

    def drain(self) -> None:
        """Take nothing more; end when all that was accepted has been written and read."""
        if not self.draining:
            self.draining = True
            self.metrics.ready.set(0)
            log.info("draining", extra={"facts": {"jobs": self._load()}})
            self._spawn(self._drained())

    async def _drained(self) -> None:
        until = time.monotonic() + self.limits.drain_seconds
        while time.monotonic() < until and not self.died:
            if not self._load() and all(job.was_read for job in self._streams.values()):
                break
            await asyncio.sleep(0.02)
        self.abandon()
        self.ended()

    def abandon(self) -> None:
        """Hand every text over as it is."""
        self._is_over = True
        for job in [*self._waiting, *self._running]:
            self.cancel(job, by="end")

    def _die(self, reason: str) -> None:
        """The engine cannot go on: tell all who wait, and end."""
        if not self.died:
            self.died = self._is_over = True
            self.metrics.ready.set(0)
            log.error("engine is dead", extra={"facts": {"reason": reason}})
            for job in list(self._running):
                self._finish(job, error=EngineError(FAILED))
            while self._waiting:
                self._finish(self._waiting.popleft(), error=self._refusal("engine", ENDING, 503))
            self.ended()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self) -> None:
        """Once in a while, look for what hangs and for who has waited too long."""
        assert self.pump is not None
        pause = min(1.0, self.limits.stall_seconds / 4, self.limits.seconds / 4)
        while True:
            await asyncio.sleep(pause)
            now, since = time.monotonic(), self.pump.stepping_since
            if since is not None and now - since > self.limits.stall_seconds:
                self._die("it hangs")
            for job in [job for job in self._waiting if job.deadline < now]:
                self._waiting.remove(job)
                late = "The server was too busy to begin this request in time; ask again later."
                self._finish(job, error=self._refusal("late", late, 503))

    def _engine_is(self, state: State) -> None:
        self.metrics.ready.set(self.is_ready)
        reason = self.pump.reason if self.pump is not None and state != "ready" else ""
        log.info("engine", extra={"facts": {"state": state, "reason": reason}})
        if state == "failing":
            self.metrics.failures.inc()
            self.lost = self.lost or (self.draining and bool(self._running))
        elif state == "dead":
            self._die(reason)
        elif state == "ready":
            self._feed()

    # -- requests -----------------------------------------------------------------------------

    def _load(self) -> int:
        return self._entering + len(self._waiting) + len(self._running)

    def _refusal(self, reason: str, message: str, status: int) -> RequestRefused:
        self.metrics.refused.labels(reason).inc()
        share = (1 + self._entering + len(self._waiting)) / self.limits.running
        return RequestRefused(message, status, max(1, min(60, math.ceil(self._seconds * share))))

    def check_room(self, count: int = 1) -> None:
        """Refuse what cannot be taken now."""
        if self.draining:
            raise self._refusal("draining", ENDING, 503)
        if not self.is_ready:
            raise self._refusal("engine", "The engine does not answer now; ask again later.", 503)
        if self._load() + count > self.limits.running + self.limits.waiting:
            raise self._refusal("full", "Too many requests wait already; ask again later.", 429)

    async def accept(
        self, plan: Callable[[], Plan], *, owner: str, is_stream: bool = False, unit: Unit = "char"
    ) -> Job:
        """Take a text to write, if there is room; `plan` runs in a thread, since it may be long."""
        (job,) = await self.accept_all(
            lambda: [plan()], owner=owner, is_stream=is_stream, unit=unit
        )
        return job

    async def accept_all(
        self, plans: Callable[[], Sequence[Plan]], *, owner: str, is_stream: bool = False,
        unit: Unit = "char",
    ) -> list[Job]:  # fmt: skip
        """Take the parts of a text, all or none; each counts as a request."""
        self.check_room()
        self._entering += 1
        try:
            writings = await asyncio.to_thread(
                lambda: [self.reviser.write(plan, unit=unit) for plan in plans()]
            )
        finally:
            self._entering -= 1
        if self._is_over:  # meanwhile
            raise self._refusal("draining", ENDING, 503)
        if len(writings) > 1:
            self.check_room(len(writings))
        jobs = [
            Job(writing, owner=owner, is_stream=is_stream, unit=unit, limits=self.limits)
            for writing in writings
        ]
        if is_stream:
            self._streams.update((job.id, job) for job in jobs)
        self._waiting.extend(jobs)
        self._feed()
        return jobs

    def cancel(self, job: Job, *, by: str, reason: StopReason = "cancelled") -> None:
        """Leave a text where it is."""
        if job.is_done:
            return
        job.cancelled_by = job.cancelled_by or by
        if job in self._waiting:
            self._waiting.remove(job)
            job.writing.cancel(reason)
            self._finish(job, rollout=job.writing.rollout())
        elif self.pump is not None:
            self.pump.cancel(job, reason)

    def _feed(self) -> None:
        """Give the pump as much as it may have; while the engine fails, nothing."""
        assert self.pump is not None
        is_up = self.pump.state == "ready"
        while is_up and self._waiting and len(self._running) < self.limits.running:
            job = self._waiting.popleft()
            self._running.add(job)
            self.pump.add(job)
        self._count()

    def _count(self) -> None:
        self.metrics.waiting.set(len(self._waiting))
        self.metrics.running.set(len(self._running))

    def _hear(self, batch: list[News]) -> None:
        """Pass on what the pump has done."""
        for news in batch:
            job = news.work
            assert isinstance(job, Job)
            if job.is_done:
                continue
            if job.steps and not job.has_begun:
                job.has_begun = True
                self.metrics.first_edit.observe(time.monotonic() - job.accepted)
            for each in news.events:
                job.buffer.add(each)
            if news.reason:
                log.error("request failed", extra={"facts": {"reason": news.reason}})
            if news.is_last:
                self._finish(job, news.rollout, news.error)
            elif news.events:
                job.wake()
        self._feed()

    def _finish(
        self, job: Job, rollout: Rollout | None = None, error: ReviserError | None = None
    ) -> None:
        self._running.discard(job)
        seconds = time.monotonic() - job.accepted
        self.metrics.completion.observe(seconds)
        self._seconds += 0.1 * (seconds - self._seconds)
        if rollout is not None:
            rollout = replace(rollout, provenance=self.provenance)
            grown = rollout.statistics.tokens_after - rollout.statistics.tokens_before
            self.metrics.tokens.inc(max(0, grown))
        self.metrics.ended.labels(rollout.stop_reason if rollout else "error").inc()
        if job.cancelled_by:
            self.metrics.cancelled.labels(job.cancelled_by).inc()
        job.is_done = True
        if not self.died:  # else the pump may be at it
            del job.writing  # a stream may be kept for a while, what wrote it need not
        if job.is_stream:
            self._end_stream(job, rollout, error)
        else:
            job.rollout, job.error = rollout, error
        job.wake()
        self._count()

    # -- streams ------------------------------------------------------------------------------

    def _end_stream(self, job: Job, rollout: Rollout | None, error: ReviserError | None) -> None:
        if rollout is not None:
            last = event(job.buffer.end, "done", rollout.to_json())
        else:
            assert error is not None
            last = event(job.buffer.end, "failure", json.dumps(told(error)))
        job.buffer.add(last)
        if not job.readers:
            self._later(job)
        ended = [other for other in self._streams.values() if other.is_done and not other.readers]
        for other in ended[: max(0, len(ended) - self.limits.streams)]:
            self._forget(other)

    def find(self, stream: str, owner: str) -> Job:
        """A stream by its id, for whoever began it."""
        job = self._streams.get(stream)
        if job is None or job.owner != owner:
            raise RequestRefused("There is no such stream, or no more: begin a new one.", 404)
        return job

    async def read(self, job: Job, place: int = 0) -> AsyncIterator[bytes]:
        """The events of a stream from one on, and pings in between; who stops reading is missed."""
        job.readers += 1
        job.stop_timer()
        try:
            while True:
                news, events = job.news, job.buffer.since(place)
                if events is None:
                    slow = "This reader fell behind by more than the server keeps: begin anew."
                    lost = RequestRefused(slow, 410)
                    yield event(place, "failure", json.dumps(told(lost)))
                    return
                if events:
                    place += len(events)
                    yield b"".join(events)
                elif job.is_done:
                    job.was_read = True
                    return
                else:
                    try:
                        async with asyncio.timeout(self.limits.ping_seconds):
                            await news.wait()
                    except TimeoutError:
                        yield PING
        finally:
            job.readers -= 1
            if not job.readers:
                self._later(job)

    def _later(self, job: Job) -> None:
        """Without a reader, a stream has some time left."""
        job.stop_timer()
        if self.limits.resume_seconds == 0:
            self._expire(job)
        else:
            loop = asyncio.get_running_loop()
            job.timer = loop.call_later(self.limits.resume_seconds, self._expire, job)

    def _expire(self, job: Job) -> None:
        if job.readers or self._streams.get(job.id) is not job:
            return
        if job.is_done:
            self._forget(job)
        else:
            self.cancel(job, by="absence")

    def _forget(self, job: Job) -> None:
        job.was_read = True
        job.stop_timer()  # it would hold on to the job
        self._streams.pop(job.id, None)


def told(error: ReviserError) -> dict[str, object]:
    """An error as clients read it."""
    status = status_of(error)
    return {"error": {"message": str(error), "type": type(error).__name__, "code": status}}


def status_of(error: ReviserError) -> int:
    """Of HTTP."""
    if isinstance(error, RequestRefused):
        return error.status
    return 502 if isinstance(error, EngineError) else 400
