"""Requests that run: each has a thread of a bounded pool, which is the queue.

This module runs in the event loop and knows flows and the engine's driver, but not HTTP. It is
crash-only: an engine that is broken ends the process, and a supervisor starts another one.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from reviser.core.actions import Kind
from reviser.engines.base import EngineEnded, Score, StopReason
from reviser.errors import EngineError, RequestRefused, ReviserError
from reviser.model import Reviser
from reviser.serve.limits import Limits
from reviser.serve.metrics import Metrics
from reviser.writing.driver import Run, scores
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import Infill, Revise

FAILED = "The engine failed while it ran this request. Try again."
LATE = "The server was too busy to start this request in time. Try again later."
SHUTTING_DOWN = "This server is shutting down. Send the request to another server."
PROBE_SECONDS = 10.0
"""Time between two questions that only ask whether the engine responds."""
HANG_SECONDS = 120.0
"""An engine that says nothing for so long counts as broken."""

log = logging.getLogger("reviser.serve")


class Job:
    """An accepted request. A thread of the pool does its work."""

    def __init__(self, start: Callable[[], Run[Any]], notice: Callable[[Any, Any], object]) -> None:
        self._start, self._notice = start, notice
        self.accepted = time.monotonic()
        self.began: float | None = None
        self.reason: StopReason | None = None
        """The reason for which it is to end early."""
        self._run: Run[Any] | None = None

    def cancel(self, reason: StopReason) -> None:
        """End the run; its result is what there is by then. A run that has not begun never does."""
        self.reason = self.reason or reason
        if (run := self._run) is not None:
            run.cancel(self.reason)

    def work(self, on_first_edit: Callable[[float], object]) -> Any:
        """Run to the end; return the result, or None if it was cancelled before."""
        self.began = time.monotonic()
        if self.reason is not None:
            return None
        run = self._run = self._start()
        if self.reason is not None:  # before `cancel` could see the run
            run.cancel(self.reason)
        self._notice(run, None)
        for number, edit in enumerate(run):
            if number == 0:
                on_first_edit(time.monotonic() - self.accepted)
            self._notice(run, edit)
        return run.result


class Runs:
    """All requests of a server that were accepted and have no result yet."""

    def __init__(self, reviser: Reviser, limits: Limits, metrics: Metrics) -> None:
        self._reviser = reviser
        self.limits = limits
        self._metrics = metrics
        self._pool = ThreadPoolExecutor(limits.running, thread_name_prefix="run")
        self._jobs: set[Job] = set()
        self._last_wait = 0.0
        """Seconds that the last request to start had waited: what a new one may expect."""
        self.is_ready = False
        """True if a request would be accepted, given capacity."""
        self.is_broken = False
        """True once the engine has failed for good."""
        self.is_draining = False
        self.has_lost_requests = False
        """True if the engine failed accepted requests while the server was draining."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when the process should exit."""
        metrics.running.set_function(lambda: len(self._jobs) - self._waiting())
        metrics.waiting.set_function(self._waiting)
        metrics.ready.set_function(lambda: self.is_ready)

    def _waiting(self) -> int:
        return sum(job.began is None for job in self._jobs)

    # -- start and end ------------------------------------------------------------------------

    def close(self) -> None:
        """Stop everything; requests that still run are lost."""
        self._cancel_all()  # so that no thread waits for the engine
        self._pool.shutdown(wait=False, cancel_futures=True)

    def drain(self) -> None:
        """Let what was accepted run on for a while; then clients get their texts so far."""
        self.is_draining = True
        log.info("draining", extra={"log_fields": {"jobs": len(self._jobs)}})
        asyncio.get_running_loop().call_later(self.limits.drain_seconds, self._cancel_all)

    def _cancel_all(self) -> None:
        for job in self._jobs:
            job.cancel("cancelled")

    # -- the engine ---------------------------------------------------------------------------

    async def watch(self) -> None:
        """Ask the engine regularly whether it responds; requests are accepted once it does."""
        try:
            await asyncio.to_thread(self._warm_up)
            while True:
                await self._probe()
                if not self.is_ready and not self.is_broken:
                    self.is_ready = True
                    log.info("engine", extra={"log_fields": {"state": "ready"}})
                await asyncio.sleep(PROBE_SECONDS)
        except Exception as error:  # noqa: BLE001 - a server that is not watched must not go on
            self._break(error)

    def _warm_up(self) -> None:
        """Do once what is slow the first time: the tokenizer's tables, compiled functions."""
        task = Infill("a{}b") if self._reviser.proofreading is None else Revise("a b")
        with suppress(ReviserError, StopIteration):
            next(self._reviser.flow(task))

    async def _probe(self) -> None:
        """Have the engine score two ids; raise an error if it cannot, or says nothing."""
        history = self._probe_history()
        if not history:
            return  # there is no engine
        driver = self._reviser.driver
        run = Run(scores([Score(history)]), driver)
        asked, answer = time.monotonic(), asyncio.create_task(asyncio.to_thread(run.wait))
        answer.add_done_callback(forget)
        try:
            while not answer.done():
                await asyncio.wait([answer], timeout=HANG_SECONDS / 8)
                if time.monotonic() - max(asked, driver.heard) > HANG_SECONDS:
                    raise EngineError("it hangs")
            answer.result()
        finally:
            run.cancel()  # its thread may still wait

    def _probe_history(self) -> tuple[int, ...]:
        """Return ids that every engine can score; none for a proofreader without a judge."""
        tools = self._reviser.proofreading
        if tools is not None:
            return (tools.begin, tools.begin) if tools.codec is not None else ()
        vocab = self._reviser.vocab
        token = int((vocab.kinds == Kind.INSERT).argmax())
        return tuple(vocab.prefix_actions([token, token]))

    def _break(self, error: Exception) -> None:
        """End every request and the process, because the engine cannot continue."""
        if not self.is_broken:
            self.is_broken, self.is_ready = True, False
            fields = {"state": "broken", "reason": _reason(error)}
            log.error("engine", extra={"log_fields": fields})
            for job in self._jobs:
                job.cancel("cancelled")
            self.on_end()

    # -- requests -----------------------------------------------------------------------------

    async def run(
        self,
        start: Callable[[], Run[Any]],
        notice: Callable[[Any, Any], object] = lambda _, __: None,
    ) -> Any:
        """Run a request to its result, or refuse it; it ends with the task that waits for it.

        `start` plans it in its thread, and may refuse it, too. `notice` is called there with the
        run and None when it has begun, then with each of its edits.
        """
        if not self.is_ready:
            raise self._refusal("The engine does not respond. Try again later.", 503)
        if len(self._jobs) >= self.limits.running + self.limits.waiting:
            raise self._refusal("Too many requests are waiting. Try again later.", 429)
        loop, job = asyncio.get_running_loop(), Job(start, notice)
        self._jobs.add(job)
        deadline = loop.call_later(self.limits.seconds, job.cancel, "time")
        try:
            result = await loop.run_in_executor(
                self._pool, job.work, self._metrics.first_edit.observe
            )
        except asyncio.CancelledError:
            job.cancel("cancelled")
            raise
        except EngineError as error:
            raise self._failure(error) from error
        finally:
            deadline.cancel()
            self._jobs.discard(job)
            self._last_wait = (job.began or time.monotonic()) - job.accepted
        if result is None and job.reason == "time":
            raise self._refusal(LATE, 503)
        if result is None:
            raise self._refusal(SHUTTING_DOWN, 503)
        if self.is_broken:
            raise EngineError(FAILED)
        self._metrics.completion.observe(time.monotonic() - job.accepted)
        self._metrics.actions.inc(actions_of(result))
        return result

    def _failure(self, error: EngineError) -> EngineError:
        """Return the error that a client gets; the log gets the engine's own words."""
        if not self.is_broken:
            self._metrics.failures.inc()
            self.has_lost_requests = self.has_lost_requests or self.is_draining
            log.error("request failed", extra={"log_fields": {"reason": _reason(error)}})
            if isinstance(error, EngineEnded):
                self._break(error)
        return EngineError(FAILED)

    def _refusal(self, message: str, status: int) -> RequestRefused:
        return RequestRefused(message, status, max(1, min(60, math.ceil(self._last_wait))))


def forget(work: asyncio.Task[Any]) -> None:
    """Keep asyncio from logging an error of a task that nobody waits for any more."""
    if not work.cancelled():
        work.exception()


def actions_of(result: Rollout | Revision) -> int:
    """Return the number of actions that the model chose."""
    return result.actions if isinstance(result, Revision) else result.statistics.actions


def _reason(error: Exception) -> str:
    """Describe an error for the log; an engine sees action ids, so it cannot quote a text."""
    return f"{type(error).__name__}: {error}"[:500]
