"""Requests that run: admits them, runs each in a thread of a bounded pool, cancels and drains them.

The pool is the queue. This module runs in the event loop and knows flows and the engine's driver,
but not HTTP. It is crash-only: an engine that is broken ends the process, and a supervisor starts
another one.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from reviser.core.actions import Kind
from reviser.engines.base import Answer, EngineEnded, Score, StopReason
from reviser.errors import EngineError, RequestRefused, ReviserError
from reviser.model import Reviser
from reviser.serve.limits import Limits
from reviser.serve.metrics import Metrics
from reviser.writing.driver import Run
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import Infill, Revise

FAILED = "The engine failed while it ran this request. Try again."
SHUTTING_DOWN = "This server is shutting down. Send the request to another server."
PROBE_SECONDS = 10.0
"""Time between two questions that only ask whether the engine responds."""
HANG_SECONDS = 120.0
"""An engine that says nothing for so long counts as broken."""

log = logging.getLogger("reviser.serve")


class Job:
    """An accepted request. Its run belongs to a thread of the pool, the rest to the event loop."""

    def __init__(
        self,
        start: Callable[[], Run[Any]],
        notice: Callable[[Job, Any, Any], object] | None = None,
    ) -> None:
        self._start = start
        self._notice = notice
        """Called in the thread when the run has started (with None), and with each of its edits."""
        self.accepted = time.monotonic()
        self.future: Future[None]
        self.news: asyncio.Queue[tuple[str, str] | None] = asyncio.Queue()
        """Kinds and data of events, for a stream. The action limit bounds it; None is the end."""
        self.begun = asyncio.Event()
        """Set once there is an event, or the end."""
        self.ended = asyncio.Event()
        self.deadline: asyncio.TimerHandle
        self.steps = 0
        """Number of edits that were sent on a stream."""
        self.has_edits = False
        self.is_left = False
        """True once its client is gone."""
        self.result: Any = None
        self.error: ReviserError | None = None
        self._run: Run[Any] | None = None
        self._cancelled: StopReason | None = None

    def tell(self, event: tuple[str, str] | None) -> None:
        """Append an event."""
        self.news.put_nowait(event)
        self.begun.set()

    def cancel(self, reason: StopReason) -> None:
        """End the run, now or as soon as it starts; its result is what there is by then."""
        self._cancelled = self._cancelled or reason
        if (run := self._run) is not None:
            run.cancel(self._cancelled)

    def work(self, on_edit: Callable[[Job], object]) -> Any:
        """Run to the end; what the thread does."""
        run = self._run = self._start()
        if self._cancelled is not None:  # before `cancel` could see the run
            run.cancel(self._cancelled)
        if self._notice is not None:
            self._notice(self, run, None)
        for edit in run:
            on_edit(self)
            if self._notice is not None:
                self._notice(self, run, edit)
        self._run = None  # a slow client reads for a while; the canvas is not needed for that
        return run.result


class Runs:
    """All requests of a server that were accepted and have no result yet."""

    def __init__(self, reviser: Reviser, limits: Limits, metrics: Metrics) -> None:
        self._reviser = reviser
        self._limits = limits
        self._metrics = metrics
        self._pool = ThreadPoolExecutor(limits.running, thread_name_prefix="run")
        self._jobs: set[Job] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._mean_seconds = 1.0  # per request, a running mean
        self._is_up = False
        self.is_draining = False
        self.is_broken = False
        """True once the engine has failed for good."""
        self.has_lost_requests = False
        """True if the engine failed accepted requests while the server was draining."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when the process should exit."""
        metrics.running.set_function(lambda: len(self._jobs) - self._waiting())
        metrics.waiting.set_function(self._waiting)
        metrics.ready.set_function(lambda: self.is_ready)

    @property
    def is_ready(self) -> bool:
        """True if a request would be accepted, given capacity."""
        return self._is_up and not self.is_draining and not self.is_broken

    def _waiting(self) -> int:
        return sum(not job.future.running() for job in self._jobs)

    # -- start and end ------------------------------------------------------------------------

    async def open(self) -> None:
        """Begin to watch the engine; requests are accepted once it has responded."""
        self._loop = asyncio.get_running_loop()
        self._spawn(self._watch())

    async def close(self) -> None:
        """Stop everything; requests that still run are lost."""
        for task in self._tasks:
            task.cancel()
        for job in self._jobs:
            job.cancel("cancelled")  # so that no thread waits for the engine
        self._pool.shutdown(wait=False, cancel_futures=True)

    def drain(self) -> None:
        """Accept nothing more; end when all accepted requests have a result."""
        if not self.is_draining:
            self.is_draining = True
            log.info("draining", extra={"log_fields": {"jobs": len(self._jobs)}})
            self._spawn(self._end_when_drained())

    async def _end_when_drained(self) -> None:
        until = time.monotonic() + self._limits.drain_seconds
        while self._jobs and time.monotonic() < until:
            await asyncio.sleep(0.02)
        self.cancel_all()
        until = time.monotonic() + 5.0
        while self._jobs and time.monotonic() < until:
            await asyncio.sleep(0.02)
        self.on_end()

    def cancel_all(self) -> None:
        """Cancel every request; clients receive their texts so far."""
        for job in self._jobs:
            self._metrics.cancelled.labels("end").inc()
            job.cancel("cancelled")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- the engine ---------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Ask the engine regularly whether it responds."""
        try:
            await asyncio.to_thread(self._warm_up)
            while True:
                await self._probe()
                if not self._is_up and not self.is_broken:
                    self._is_up = True
                    log.info("engine", extra={"log_fields": {"state": "ready"}})
                await asyncio.sleep(PROBE_SECONDS)
        except Exception as error:  # noqa: BLE001 - a server that is not watched must not go on
            self._break(_reason(error))

    def _warm_up(self) -> None:
        """Do once what is slow the first time: the tokenizer's tables, compiled functions."""
        editing = self._reviser.editing
        task = Infill("a{}b") if editing is None or editing.writes_edits else Revise("a b")
        with suppress(ReviserError, StopIteration):
            next(self._reviser.flow(task))

    async def _probe(self) -> None:
        """Have the engine score two ids; if it cannot, or says nothing, it is broken."""
        vocab = self._reviser.vocab
        token = int((vocab.kinds == Kind.INSERT).argmax())
        answered: asyncio.Future[Answer] = self._loop.create_future()

        def reply(answer: Answer) -> None:
            if answer.is_last:
                self.in_loop(answered.set_result, answer)

        question = Score(tuple(vocab.prefix_actions([token, token])))
        ticket = self._reviser.driver.post(question, reply)
        asked = time.monotonic()
        while not answered.done():
            await asyncio.wait([answered], timeout=HANG_SECONDS / 8)
            if time.monotonic() - max(asked, self._reviser.driver.heard) > HANG_SECONDS:
                self._reviser.driver.cancel(ticket)
                self._break("it hangs")
                return
        value = answered.result().value
        if isinstance(value, Exception):
            self._break(_reason(value))

    def _break(self, reason: str) -> None:
        """Fail every request and end, because the engine cannot continue."""
        if self.is_broken:
            return
        self.is_broken = True
        log.error("engine", extra={"log_fields": {"state": "broken", "reason": reason}})
        for job in list(self._jobs):
            if job.future.cancel():
                self._finish(job, None, self._refusal("engine", SHUTTING_DOWN, 503))
            else:
                self._finish(job, None, EngineError(FAILED))
                job.cancel("cancelled")  # its thread waits for the engine
        self.on_end()

    # -- requests -----------------------------------------------------------------------------

    def admit(
        self,
        start: Callable[[], Run[Any]],
        notice: Callable[[Job, Any, Any], object] | None = None,
    ) -> Job:
        """Queue a request, or refuse it; `start` plans it in its thread and may refuse it, too."""
        if self.is_draining:
            raise self._refusal("draining", SHUTTING_DOWN, 503)
        if not self.is_ready:
            raise self._refusal("engine", "The engine does not respond. Try again later.", 503)
        if len(self._jobs) >= self._limits.running + self._limits.waiting:
            raise self._refusal("full", "Too many requests are waiting. Try again later.", 429)
        job = Job(start, notice)
        try:
            job.future = self._pool.submit(self._work, job)
        except RuntimeError as error:  # no thread can be started
            raise self._refusal("full", "Too many requests run. Try again later.", 503) from error
        # What the thread says comes through the loop, so not before this has returned.
        job.deadline = self._loop.call_later(self._limits.seconds, self._end_late, job)
        self._jobs.add(job)
        return job

    def leave(self, job: Job) -> None:
        """Cancel a request whose client is gone; nothing happens if it has ended."""
        if not job.ended.is_set() and not job.is_left:
            job.is_left = True
            self._metrics.cancelled.labels("client").inc()
            if job.future.cancel():
                self._finish(job, None, EngineError("The client is gone."))
            job.cancel("cancelled")

    def _end_late(self, job: Job) -> None:
        if job.future.cancel():
            late = "The server was too busy to start this request in time. Try again later."
            self._finish(job, None, self._refusal("late", late, 503))
        job.cancel("time")

    def in_loop(self, call: Callable[..., object], *args: object) -> None:
        """Have the event loop call something, from any thread."""
        with suppress(RuntimeError):  # the loop has ended, so nothing waits for the call
            self._loop.call_soon_threadsafe(call, *args)

    def _work(self, job: Job) -> None:
        """Run a job; what a thread of the pool does."""
        result, error = None, None
        try:
            result = job.work(self._count_edit)
        except Exception as failure:  # noqa: BLE001 - the client of this request gets it
            error = failure
        self.in_loop(self._finish, job, result, error)

    def _count_edit(self, job: Job) -> None:
        if not job.has_edits:
            job.has_edits = True
            self._metrics.first_edit.observe(time.monotonic() - job.accepted)

    def _finish(self, job: Job, result: Any, error: Exception | None) -> None:
        """Store the result or the error of a job, and wake the caller that waits for it."""
        if job.ended.is_set():  # its engine was found broken
            return
        self._jobs.discard(job)
        job.deadline.cancel()
        job.result, job.error = result, self._public(error)
        if job.error is None or isinstance(job.error, EngineError):
            seconds = time.monotonic() - job.accepted
            self._mean_seconds += 0.1 * (seconds - self._mean_seconds)
            self._metrics.completion.observe(seconds)
            self._metrics.ended.labels(result.stop_reason if result else "error").inc()
        for rollout in rollouts_of(result):
            cost = rollout.statistics
            self._metrics.actions.inc(cost.actions)
            self._metrics.tokens.inc(max(0, cost.tokens_after - cost.tokens_before))
        job.ended.set()
        job.tell(None)

    def _public(self, error: Exception | None) -> ReviserError | None:
        """Return the error that a client gets; look after the engine if it was at fault."""
        if error is None or (
            isinstance(error, ReviserError) and not isinstance(error, EngineError)
        ):
            return error
        if not isinstance(error, EngineError):
            log.error("request failed", exc_info=error)
            return RequestRefused("The server has a bug; its log says where.", 500)
        if not self.is_broken:
            self._metrics.failures.inc()
            self.has_lost_requests = self.has_lost_requests or self.is_draining
            log.error("request failed", extra={"log_fields": {"reason": _reason(error)}})
            if isinstance(error, EngineEnded):
                self._break(_reason(error))
            else:
                self._spawn(self._probe())
        return EngineError(FAILED)

    def _refusal(self, reason: str, message: str, status: int) -> RequestRefused:
        self._metrics.refused.labels(reason).inc()
        share = (1 + self._waiting()) / self._limits.running
        seconds = max(1, min(60, math.ceil(self._mean_seconds * share)))
        return RequestRefused(message, status, seconds)


def rollouts_of(result: Rollout | Revision | None) -> Sequence[Rollout]:
    """Return the rollouts of a result."""
    if isinstance(result, Revision):
        return result.rollouts
    return () if result is None else (result,)


def _reason(error: Exception) -> str:
    """Describe an error for the log; an engine sees action ids, so it cannot quote a text."""
    return f"{type(error).__name__}: {error}"[:500]
