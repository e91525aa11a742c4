"""The thread that drives the engine: jobs come in through a queue, updates go out in batches.

Only this thread uses the engine and the texts being written, so nothing else ever waits for a
step. It knows neither HTTP nor asyncio.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Literal

from reviser.engines.base import EngineEnded, Step, StopReason
from reviser.errors import EngineError, ReviserError
from reviser.serve.events import edit_data, event
from reviser.serve.jobs import EngineJob
from reviser.writing.model import Reviser
from reviser.writing.rollout import Rollout
from reviser.writing.tasks import Infill, Revise

EngineState = Literal["starting", "ready", "failing", "dead", "closed"]

FAILED = "The engine failed while it ran this request. Try again."


@dataclass(frozen=True)
class Update:
    """The progress of a job in one engine step; an empty one says that the job has begun."""

    job: EngineJob
    events: list[bytes] = field(default_factory=list)
    rollout: Rollout | None = None
    """The result of a job that is done."""
    error: ReviserError | None = None
    """The error of a job that failed."""
    reason: str = ""
    """The engine's own error message: for the log, not for clients."""

    @property
    def is_last(self) -> bool:
        """True if the job has ended."""
        return self.rollout is not None or self.error is not None


class EngineWorker:
    """Runs jobs in a thread of its own, and calls back from that thread.

    `on_updates` receives all updates of a step at once, `on_actions` the number of actions taken,
    and `on_state` every new state of the engine.
    """

    def __init__(
        self,
        reviser: Reviser,
        on_updates: Callable[[list[Update]], None],
        on_actions: Callable[[int], None],
        on_state: Callable[[EngineState], None],
        probe_seconds: float,
        recovery_seconds: float,
    ) -> None:
        self._reviser = reviser
        self._driver = reviser.driver
        self._on_updates = on_updates
        self._on_actions = on_actions
        self._on_state = on_state
        self._probe_seconds = probe_seconds
        self._recovery_seconds = recovery_seconds
        # A job to start, a job to stop and why, or None to close.
        self._commands: SimpleQueue[tuple[EngineJob, StopReason | None] | None] = SimpleQueue()
        self._running: dict[int, EngineJob] = {}
        self._closing = threading.Event()
        self.state: EngineState = "starting"
        self.reason = ""
        """The message of the engine's last failure."""
        self.stepping_since: float | None = None
        """The time at which the current engine step began."""
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Start the thread; the state is "ready" once the engine has responded."""
        self._thread.start()

    def add(self, job: EngineJob) -> None:
        """Start a job."""
        self._commands.put((job, None))

    def cancel(self, job: EngineJob) -> None:
        """Stop a job; its last update says how it ended."""
        self._commands.put((job, "cancelled"))

    def close(self, seconds: float) -> None:
        """End the thread, unless an engine step takes longer than `seconds`."""
        self._closing.set()
        self._commands.put(None)
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._warm_up()
            self._recover()
            while self.state == "ready":
                self._receive()
                if self._running and self.state == "ready":
                    self._step()
        finally:  # after a bug of ours, the server must not look alive
            if self.state not in ("closed", "dead"):
                self._set_state("dead")

    def _warm_up(self) -> None:
        """Do once what is slow the first time: the tokenizer's tables, compiled functions."""
        editing = self._reviser.editing
        task = Infill("a{}b") if editing is None or editing.writes_edits else Revise("a b")
        with suppress(ReviserError):
            self._reviser.start(self._reviser.plan(task).parts[0])

    def _set_state(self, state: EngineState) -> None:
        self.state = state
        self._on_state(state)

    def _receive(self) -> None:
        """Take all pending commands; without any job, wait for one and probe the engine."""
        try:
            while self.state == "ready":
                is_idle = not self._running
                command = self._commands.get(is_idle, self._probe_seconds if is_idle else None)
                if command is None:
                    self.state = "closed"
                    return
                self._execute(*command)
        except Empty:
            if is_idle and (failure := self._probe()) is not None:
                self._fail_all(failure)
                self._recover()

    def _execute(self, job: EngineJob, reason: StopReason | None) -> None:
        if reason is not None:
            self._stop(job, reason)
            return
        try:
            self._running[self._driver.add(job.writing.part.request)] = job
        except ReviserError as error:
            is_engine = isinstance(error, EngineError)
            self._on_updates([_failed(job, error) if is_engine else Update(job, error=error)])
        except Exception as error:  # noqa: BLE001 - an engine may raise anything
            self._on_updates([_failed(job, error)])
            self._fail_all_unless_alive(error)

    def _stop(self, job: EngineJob, reason: StopReason) -> None:
        number = next((n for n, other in self._running.items() if other is job), None)
        if number is not None:
            self._on_updates([self._end(number, reason)])

    def _step(self) -> None:
        """Run one engine step, and report what it did to every job."""
        self.stepping_since = time.monotonic()
        try:
            steps = self._driver.turn(self._running)
        except Exception as error:  # noqa: BLE001 - an engine may raise anything
            self._fail_all(error)
            self._recover()
            return
        finally:
            self.stepping_since = None
        self._on_actions(len(steps))
        updates: dict[int, Update] = {}
        failure: Exception | None = None
        for step in steps:
            job = self._running.get(step.request)
            if job is None:  # an earlier step of this batch failed it
                continue
            update = updates.get(step.request) or Update(job)
            try:
                update = self._take(job, step, update)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this job's alone
                failure = error
                self._drop(step.request)
                update = replace(_failed(job, error), events=update.events)
            if update.events or update.is_last or job.steps == 1:
                updates[step.request] = update
        if updates:
            self._on_updates(list(updates.values()))
        self._end_late_jobs()
        if failure is not None:
            self._fail_all_unless_alive(failure)

    def _take(self, job: EngineJob, step: Step, update: Update) -> Update:
        edit = job.writing.take(step)
        job.steps += 1
        if job.is_stream:
            data = edit_data(job.steps, job.writing.kind, edit, step.logprob)
            update.events.append(event(job.steps, "edit", data))
        if step.ended is None:
            return update
        self._drop(step.request)
        return replace(update, rollout=job.writing.rollout())

    def _end_late_jobs(self) -> None:
        now = time.monotonic()
        late = [number for number, job in self._running.items() if job.deadline < now]
        if late:
            self._on_updates([self._end(number, "time") for number in late])

    def _end(self, number: int, reason: StopReason) -> Update:
        job = self._drop(number)
        try:
            job.writing.cancel(reason)
            return Update(job, rollout=job.writing.rollout())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this job's alone
            return _failed(job, error)

    def _drop(self, number: int) -> EngineJob:
        self._driver.drop(number)
        return self._running.pop(number)

    def _fail_all_unless_alive(self, error: Exception) -> None:
        """Probe the engine: one failed job may be its own fault, or the sign of a broken engine."""
        if self._probe() is not None:
            self._fail_all(error)
            self._recover()

    def _fail_all(self, error: Exception) -> None:
        self.reason = _reason(error)
        self._set_state("failing")
        lost = [self._drop(number) for number in list(self._running)]
        self._on_updates([_failed(job, error) for job in lost])

    def _recover(self) -> None:
        """Probe the engine until it responds, has ended, or the recovery time is over."""
        until, pause = time.monotonic() + self._recovery_seconds, 0.05
        while (failure := self._probe()) is not None:
            self.reason = _reason(failure)
            is_over = isinstance(failure, EngineEnded) or time.monotonic() + pause > until
            if is_over or self._closing.wait(pause):
                self._set_state("dead")
                return
            pause = min(2 * pause, 2.0)
        self._set_state("ready")

    def _probe(self) -> Exception | None:
        """Ask the engine for one action; return its error, None if it works."""
        self.stepping_since = time.monotonic()
        try:
            return self._driver.probe()
        finally:
            self.stepping_since = None


def _failed(job: EngineJob, error: Exception) -> Update:
    return Update(job, error=EngineError(FAILED), reason=_reason(error))


def _reason(error: Exception) -> str:
    """Describe an error for the log; an engine sees action ids, so it cannot quote a text."""
    return f"{type(error).__name__}: {error}"[:500]
