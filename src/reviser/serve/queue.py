"""The request queue: accepts jobs, lets them wait, hands them to the engine, delivers results.

This module runs in the event loop. It knows the engine worker, but not HTTP. The errors that it
raises know their status code.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from reviser.core.codec import OffsetUnit
from reviser.errors import EngineError, RequestRefused, ReviserError
from reviser.serve.jobs import EngineJob
from reviser.serve.limits import Limits
from reviser.serve.metrics import Metrics
from reviser.serve.worker import FAILED, EngineState, EngineWorker, Update
from reviser.writing.model import Reviser
from reviser.writing.rollout import Rollout
from reviser.writing.session import Writing

SHUTTING_DOWN = "This server is shutting down. Send the request to another server."

log = logging.getLogger("reviser.serve")


class RequestQueue:
    """Accepts, queues, cancels and drains jobs."""

    def __init__(self, reviser: Reviser, limits: Limits, metrics: Metrics) -> None:
        self.reviser = reviser
        self.limits = limits
        self.metrics = metrics
        self.is_draining = False
        self.is_dead = False
        """True once the engine has failed for good."""
        self.has_lost_requests = False
        """True if the engine failed accepted requests while the server was draining."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when the process should exit."""
        self._is_closed = False
        self._worker: EngineWorker | None = None
        self._entering: Counter[str] = Counter()  # by owner
        self._waiting: deque[EngineJob] = deque()
        self._running: set[EngineJob] = set()
        self._mean_seconds = 1.0  # per job, a running mean
        self._background: set[asyncio.Task[None]] = set()

    # -- start and end ------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the engine worker."""
        loop = asyncio.get_running_loop()

        def in_loop(call: Callable[..., None], *args: object) -> None:
            with suppress(RuntimeError):  # the loop has ended, so nothing waits for the call
                loop.call_soon_threadsafe(call, *args)

        self._worker = EngineWorker(
            self.reviser,
            on_updates=partial(in_loop, self._apply),
            on_actions=self.metrics.actions.inc,
            on_state=partial(in_loop, self._set_engine_state),
            probe_seconds=self.limits.probe_seconds,
            recovery_seconds=self.limits.recovery_seconds,
        )
        self._worker.start()
        self._spawn(self._watch())

    async def close(self) -> None:
        """Stop everything; jobs that still run are lost."""
        for task in self._background:
            task.cancel()
        if self._worker is not None:
            await asyncio.to_thread(self._worker.close, 1.0 if self.is_dead else 10.0)

    @property
    def is_ready(self) -> bool:
        """True if a request would be accepted, given capacity."""
        is_up = self._worker is not None and self._worker.state == "ready"
        return is_up and not self.is_draining and not self.is_dead

    def drain(self) -> None:
        """Accept nothing more; end when all accepted jobs are written."""
        if not self.is_draining:
            self.is_draining = True
            self.metrics.ready.set(0)
            log.info("draining", extra={"facts": {"jobs": self._load()}})
            self._spawn(self._end_when_drained())

    async def _end_when_drained(self) -> None:
        until = time.monotonic() + self.limits.drain_seconds
        while time.monotonic() < until and not self.is_dead:
            if not self._load():
                break
            await asyncio.sleep(0.02)
        self.cancel_all()
        self.on_end()

    def cancel_all(self) -> None:
        """Cancel every job; clients receive their texts so far."""
        self._is_closed = True
        for job in [*self._waiting, *self._running]:
            self.cancel(job, by="end")

    def _die(self, reason: str) -> None:
        """Fail every job and end, because the engine cannot continue."""
        if not self.is_dead:
            self.is_dead = self._is_closed = True
            self.metrics.ready.set(0)
            log.error("engine", extra={"facts": {"state": "dead", "reason": reason}})
            for job in list(self._running):
                self._finish(job, error=EngineError(FAILED))
            while self._waiting:
                refusal = self._refusal("engine", SHUTTING_DOWN, 503)
                self._finish(self._waiting.popleft(), error=refusal)
            self.on_end()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _watch(self) -> None:
        """Look regularly for an engine that hangs and for jobs that have waited too long."""
        assert self._worker is not None
        pause = min(1.0, self.limits.stall_seconds / 4, self.limits.seconds / 4)
        while True:
            await asyncio.sleep(pause)
            now, since = time.monotonic(), self._worker.stepping_since
            if since is not None and now - since > self.limits.stall_seconds:
                self._die("it hangs")
            for job in [job for job in self._waiting if job.deadline < now]:
                self._waiting.remove(job)
                late = "The server was too busy to start this request in time. Try again later."
                self._finish(job, error=self._refusal("late", late, 503))

    def _set_engine_state(self, state: EngineState) -> None:
        self.metrics.ready.set(self.is_ready)
        reason = self._worker.reason if self._worker is not None and state != "ready" else ""
        if state != "dead":  # `_die` logs that
            level = logging.ERROR if state == "failing" else logging.INFO
            log.log(level, "engine", extra={"facts": {"state": state, "reason": reason}})
        if state == "failing":
            self.metrics.failures.inc()
            is_loss = self.is_draining and bool(self._running)
            self.has_lost_requests = self.has_lost_requests or is_loss
        elif state == "dead":
            self._die(reason)
        elif state == "ready":
            self._feed()

    # -- jobs ---------------------------------------------------------------------------------

    def _load(self) -> int:
        return self._entering.total() + len(self._waiting) + len(self._running)

    def _load_of(self, owner: str) -> int:
        jobs = sum(job.owner == owner for job in (*self._waiting, *self._running))
        return self._entering[owner] + jobs

    def capacity(self, owner: str) -> int:
        """Return the number of requests that this owner may have in the queue."""
        total = self.limits.running + self.limits.waiting
        return min(total, self.limits.key_requests) if owner else total

    def _refusal(self, reason: str, message: str, status: int) -> RequestRefused:
        self.metrics.refused.labels(reason).inc()
        share = (1 + self._entering.total() + len(self._waiting)) / self.limits.running
        seconds = max(1, min(60, math.ceil(self._mean_seconds * share)))
        return RequestRefused(message, status, seconds)

    def _check_capacity(self, owner: str, count: int = 1) -> None:
        if self.is_draining:
            raise self._refusal("draining", SHUTTING_DOWN, 503)
        if not self.is_ready:
            raise self._refusal("engine", "The engine does not respond. Try again later.", 503)
        if self._load() + count > self.limits.running + self.limits.waiting:
            raise self._refusal("full", "Too many requests are waiting. Try again later.", 429)
        if owner and self._load_of(owner) + count > self.capacity(owner):
            message = "Too many requests of this key are running or waiting. Try again later."
            raise self._refusal("key", message, 429)

    @contextmanager
    def entering(self, owner: str = "") -> Iterator[None]:
        """Count a request that is being planned, or refuse it if there is no capacity."""
        self._check_capacity(owner)
        self._entering[owner] += 1
        try:
            yield
        finally:
            self._entering[owner] -= 1

    def add(
        self,
        writings: Sequence[Writing],
        *,
        owner: str,
        is_stream: bool,
        unit: OffsetUnit,
        began: float | None = None,
    ) -> list[EngineJob]:
        """Queue the parts of a text, all or none; each counts as a request.

        `began` is the time at which the request arrived; its deadline counts from there.
        """
        if self._is_closed:  # since the request was let in
            raise self._refusal("draining", SHUTTING_DOWN, 503)
        if len(writings) > 1:
            self._check_capacity(owner, len(writings))
        jobs = [
            EngineJob(
                writing,
                owner=owner,
                is_stream=is_stream,
                unit=unit,
                limits=self.limits,
                began=began,
            )
            for writing in writings
        ]
        self._waiting.extend(jobs)
        self._feed()
        return jobs

    def cancel(self, job: EngineJob, *, by: str) -> None:
        """Stop a job and keep its text so far."""
        if job.is_done:
            return
        job.cancelled_by = job.cancelled_by or by
        if job in self._waiting:
            self._waiting.remove(job)
            job.writing.cancel("cancelled")
            self._finish(job, rollout=job.writing.rollout())
        elif self._worker is not None:
            self._worker.cancel(job)

    def _feed(self) -> None:
        """Hand waiting jobs to the engine, as many as may run; none while it fails."""
        assert self._worker is not None
        is_up = self._worker.state == "ready"
        while is_up and self._waiting and len(self._running) < self.limits.running:
            # The owner who has the fewest running is next, so nobody waits for another's burst.
            running = Counter(job.owner for job in self._running)
            job = min(self._waiting, key=lambda job: running[job.owner])
            self._waiting.remove(job)
            self._running.add(job)
            self._worker.add(job)
        self._set_gauges()

    def _set_gauges(self) -> None:
        self.metrics.waiting.set(len(self._waiting))
        self.metrics.running.set(len(self._running))

    def _apply(self, updates: list[Update]) -> None:
        """Deliver what the engine worker has done."""
        for update in updates:
            job = update.job
            if job.is_done:
                continue
            if job.steps and not job.has_begun:
                job.has_begun = True
                self.metrics.first_edit.observe(time.monotonic() - job.accepted)
            job.add(update.events)
            if update.reason:
                log.error("request failed", extra={"facts": {"reason": update.reason}})
            if update.is_last:
                self._finish(job, update.rollout, update.error)
            elif update.events:
                job.notify()
        self._feed()

    def _finish(
        self, job: EngineJob, rollout: Rollout | None = None, error: ReviserError | None = None
    ) -> None:
        self._running.discard(job)
        seconds = time.monotonic() - job.accepted
        self.metrics.completion.observe(seconds)
        self._mean_seconds += 0.1 * (seconds - self._mean_seconds)
        if rollout is not None:
            grown = rollout.statistics.tokens_after - rollout.statistics.tokens_before
            self.metrics.tokens.inc(max(0, grown))
        self.metrics.ended.labels(rollout.stop_reason if rollout else "error").inc()
        if job.cancelled_by:
            self.metrics.cancelled.labels(job.cancelled_by).inc()
        if not self.is_dead:  # a hanging engine's thread may still use it
            del job.writing  # a slow client reads for a while; the canvas is not needed for that
        job.finish(rollout, error)
        job.notify()
        self._set_gauges()
