"""HTTP responses: JSON, and event streams that notice when their client disconnects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

STREAM_HEADERS = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # or nginx would hold events back
}


class JsonResponse(Response):
    """A JSON response that can carry any text, lone surrogates included."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode a value; a string is taken to be JSON already."""
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        return text.encode("utf-8", "replace")


class EventStream(Response):
    """Server-sent events, until they end or the client disconnects."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], on_end: Callable[[], None]) -> None:
        super().__init__(headers=STREAM_HEADERS)
        del self.headers["content-length"]
        self._events = events
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events as they arrive."""
        del scope
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(disconnected(receive))
        try:
            await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not sending.done():
                sending.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await sending
            self._on_end()

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async for part in self._events:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def disconnected(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def finished_before_disconnect(request: Request, work: asyncio.Future[Any]) -> bool:
    """Wait for `work` or the client's disconnect; return whether the work was done first."""
    leaving = asyncio.ensure_future(disconnected(request.receive))
    try:
        await asyncio.wait([work, leaving], return_when=asyncio.FIRST_COMPLETED)
        return work.done()
    finally:
        leaving.cancel()
