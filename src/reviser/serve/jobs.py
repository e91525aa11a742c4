"""One text that the engine writes for a client.

This module runs in the event loop. It knows neither HTTP nor how the engine runs.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

from reviser.core.codec import OffsetUnit
from reviser.errors import ReviserError
from reviser.serve.events import PING, event
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
        self.writing = writing
        self.owner = owner
        """The id of the API key that sent the request."""
        self.is_stream = is_stream
        self.accepted = time.monotonic()
        self.deadline = (self.accepted if began is None else began) + limits.seconds
        self.steps = 0
        self.has_begun = False
        self.is_done = False
        self.rollout: Rollout | None = None
        self.error: ReviserError | None = None
        self.cancelled_by = ""
        self.updated = asyncio.Event()
        self._count = 0
        self._unsent: list[bytes] = []
        """Events that the client has not taken. The action limit bounds them."""
        if is_stream:
            start = {"text": writing.text, "cursor": writing.cursor, "unit": unit}
            self.add([event(0, "start", json.dumps(start, ensure_ascii=False))])

    def add(self, events: list[bytes]) -> None:
        """Append events of a stream."""
        self._unsent += events
        self._count += len(events)

    def finish(self, rollout: Rollout | None, error: ReviserError | None) -> None:
        """Store the result, and append it to the events of a stream."""
        self.is_done = True
        if not self.is_stream:
            self.rollout, self.error = rollout, error
        elif rollout is not None:
            self.add([event(self._count, "done", rollout.to_json())])
        else:
            assert error is not None
            self.add([event(self._count, "failure", json.dumps(error_body(error)))])

    def notify(self) -> None:
        """Wake everything that waits for news of this job."""
        self.updated.set()
        self.updated = asyncio.Event()

    async def result(self) -> Rollout:
        """Wait for the rollout; raise the error of a job that failed."""
        while not self.is_done:
            await self.updated.wait()
        if self.error is not None:
            raise self.error
        assert self.rollout is not None
        return self.rollout

    async def events(self, ping_seconds: float) -> AsyncIterator[bytes]:
        """Yield the events of a stream, each once, and pings while there are none."""
        while True:
            # Take the flag before the events: an event that comes in between sets it.
            updated, events, self._unsent = self.updated, self._unsent, []
            if events:
                yield b"".join(events)
            elif self.is_done:
                return
            else:
                try:
                    async with asyncio.timeout(ping_seconds):
                        await updated.wait()
                except TimeoutError:
                    yield PING
