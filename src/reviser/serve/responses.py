"""How answers leave: JSON, and streams that notice when their reader goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

STREAM_HEADERS = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # for nginx, which would hold events back
}


class Json(Response):
    """JSON, whatever characters a text holds."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Text that is JSON already goes out as it is."""
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        return text.encode("utf-8", "replace")


class EventStream(Response):
    """Server-sent events, until they end or the reader goes."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], headers: dict[str, str]) -> None:
        super().__init__(headers=STREAM_HEADERS | headers)
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what comes."""
        del scope
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(gone(receive))
        try:
            await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not sending.done():
                sending.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await sending

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        try:
            await send(start)
            async for part in self._events:
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await self._events.aclose()  # type: ignore[attr-defined]


async def gone(receive: Receive) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_gone(request: Request, work: asyncio.Future[Any]) -> bool:
    """Wait for some work; whether it was done before the client left."""
    leaving = asyncio.ensure_future(gone(request.receive))
    try:
        await asyncio.wait([work, leaving], return_when=asyncio.FIRST_COMPLETED)
        return work.done()
    finally:
        leaving.cancel()
