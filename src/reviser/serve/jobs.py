"""One text that the engine writes for a client, and the finished streams that are kept.

This module runs in the event loop. It knows neither HTTP nor how the engine runs.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable

from reviser.core.codec import OffsetUnit
from reviser.errors import RequestRefused, ReviserError
from reviser.serve.events import PING, EventBuffer, event
from reviser.serve.failures import error_body
from reviser.serve.limits import Limits
from reviser.writing.rollout import Rollout
from reviser.writing.session import Writing


class EngineJob:
    """An accepted text; `writing` belongs to the engine's thread, the rest to the event loop."""

    def __init__(
        self,
        writing: Writing,
        *,
        owner: str,
        is_stream: bool,
        unit: OffsetUnit,
        limits: Limits,
        began: float | None = None,
    ) -> None:
        self.id = secrets.token_urlsafe(16)
        self.writing = writing
        self.owner = owner
        """The id of the API key that sent the request."""
        self.is_stream = is_stream
        self.accepted = time.monotonic()
        self.deadline = (self.accepted if began is None else began) + limits.seconds
        self.steps = 0
        self.buffer = EventBuffer(limits.stream_bytes)
        self.has_begun = False
        self.is_done = False
        self.rollout: Rollout | None = None
        self.error: ReviserError | None = None
        self.cancelled_by = ""
        self.readers = 0
        self.was_read = not is_stream
        """True once a client has read the stream to its end, or it has expired."""
        self.updated = asyncio.Event()
        self.timer: asyncio.TimerHandle | None = None
        if is_stream:
            start = {"stream": self.id, "text": writing.text, "cursor": writing.cursor}
            data = json.dumps(start | {"unit": unit}, ensure_ascii=False)
            self.buffer.add(event(0, "start", data))

    def finish(self, rollout: Rollout | None, error: ReviserError | None) -> None:
        """Store the result, and append it to the events of a stream."""
        self.is_done = True
        if not self.is_stream:
            self.rollout, self.error = rollout, error
        elif rollout is not None:
            self.buffer.add(event(self.buffer.end, "done", rollout.to_json()))
        else:
            assert error is not None
            self.buffer.add(event(self.buffer.end, "failure", json.dumps(error_body(error))))

    def notify(self) -> None:
        """Wake everything that waits for news of this job."""
        self.updated.set()
        self.updated = asyncio.Event()

    def stop_timer(self) -> None:
        """Cancel the pending expiry."""
        if self.timer is not None:
            self.timer.cancel()

    async def result(self) -> Rollout:
        """Wait for the rollout; raise the error of a job that failed."""
        while not self.is_done:
            await self.updated.wait()
        if self.error is not None:
            raise self.error
        assert self.rollout is not None
        return self.rollout


class StreamStore:
    """The streams that can be read, by id: those being written, and finished ones for a while."""

    def __init__(self, limits: Limits, cancel: Callable[[EngineJob], None]) -> None:
        self._limits = limits
        self._cancel = cancel
        self._jobs: dict[str, EngineJob] = {}

    @property
    def are_all_read(self) -> bool:
        """True if no client can still want an event."""
        return all(job.was_read for job in self._jobs.values())

    def add(self, job: EngineJob) -> None:
        """Make a stream available under its id."""
        self._jobs[job.id] = job

    def find(self, stream: str, owner: str) -> EngineJob:
        """Return a stream by its id; only its owner finds it."""
        job = self._jobs.get(stream)
        if job is None or job.owner != owner:
            raise RequestRefused(
                "There is no stream with this id, or it has expired. Start a new one.", 404
            )
        return job

    async def read(self, job: EngineJob, number: int = 0) -> AsyncIterator[bytes]:
        """Yield the events of a stream from a number on, and pings while there are none."""
        job.readers += 1
        job.stop_timer()
        try:
            while True:
                # Take the flag before the events: an event that comes in between sets it.
                updated, events = job.updated, job.buffer.since(number)
                if events is None:
                    late = "This client read too slowly: events were dropped. Start a new stream."
                    body = error_body(RequestRefused(late, 410))
                    yield event(number, "failure", json.dumps(body))
                    return
                if events:
                    number += len(events)
                    yield b"".join(events)
                elif job.is_done:
                    job.was_read = True
                    return
                else:
                    try:
                        async with asyncio.timeout(self._limits.ping_seconds):
                            await updated.wait()
                    except TimeoutError:
                        yield PING
        finally:
            job.readers -= 1
            if not job.readers:
                self._expire_later(job)

    def finished(self, job: EngineJob) -> None:
        """Let a finished stream expire, and drop the oldest ones if there are too many."""
        if not job.readers:
            self._expire_later(job)
        ended = [other for other in self._jobs.values() if other.is_done and not other.readers]
        for other in ended[: max(0, len(ended) - self._limits.streams)]:
            self._forget(other)

    def _expire_later(self, job: EngineJob) -> None:
        """Give a stream without a reader some time for one to reconnect."""
        job.stop_timer()
        if self._limits.resume_seconds == 0:
            self._expire(job)
        else:
            loop = asyncio.get_running_loop()
            job.timer = loop.call_later(self._limits.resume_seconds, self._expire, job)

    def _expire(self, job: EngineJob) -> None:
        if job.readers or self._jobs.get(job.id) is not job:
            return
        if job.is_done:
            self._forget(job)
        else:
            self._cancel(job)

    def _forget(self, job: EngineJob) -> None:
        job.was_read = True
        job.stop_timer()  # the timer would keep the job alive
        self._jobs.pop(job.id, None)
