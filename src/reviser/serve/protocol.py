"""HTTP connections: uvicorn's protocol, with limits on headers, pipelining and silence.

uvicorn on httptools limits none of these. On h11 it limits the size of headers only, and is slower.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from reviser.serve.limits import Limits

MOST_PIPELINED = 8
"""Requests that a connection may send before the response to the first is complete."""


MOST_CHUNKS = 4096
"""Chunks of a body; each costs some microseconds, however small it is."""


def limited_protocol(limits: Limits) -> type[HttpToolsProtocol]:
    """Return a class of connections that are closed when a client exceeds these limits.

    An exception in a callback of the parser ends the connection with status 400.
    """

    class LimitedProtocol(HttpToolsProtocol):
        silent: asyncio.TimerHandle | None = None
        stalled: asyncio.TimerHandle | None = None
        active: Any = None  # the request that runs
        chunks = 0
        allowed = limits.head_bytes  # bytes that may come before the next callback below

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._leave()
            _cancel(self.silent, self.stalled)

        def send_400_response(self, msg: str) -> None:
            self._leave()
            super().send_400_response(msg)

        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            self.active = cycle
            super()._start_asgi_task(cycle, app)

        def _leave(self) -> None:
            """Tell the requests that run or wait that their client is gone.

            uvicorn tells the newest only, so one that runs before it would never be cancelled.
            """
            for cycle in (self.active, *(cycle for cycle, _ in self.pipeline)):
                if cycle is not None:
                    cycle.disconnected = True
                    cycle.message_event.set()

        # uvicorn would wait for ever for headers, and for a client that stops reading. A graceful
        # close waits for the client, too.

        def _expect_head(self) -> None:
            self.allowed = limits.head_bytes
            _cancel(self.silent)
            self.silent = self.loop.call_later(limits.body_seconds, self.transport.abort)

        def pause_writing(self) -> None:
            super().pause_writing()
            _cancel(self.stalled)
            self.stalled = self.loop.call_later(limits.write_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            _cancel(self.stalled)

        def data_received(self, data: bytes) -> None:
            # The parser collects a long header or trailer by itself, and shows it when complete.
            self.allowed -= len(data)
            super().data_received(data)
            if self.allowed < 0:
                self.transport.abort()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._expect_head()

        def on_header(self, name: bytes, value: bytes) -> None:
            super().on_header(name, value)
            if len(self.headers) > limits.headers:
                raise ValueError("Too many headers.")

        def on_headers_complete(self) -> None:
            _cancel(self.silent)
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > limits.head_bytes or len(self.pipeline) >= MOST_PIPELINED:
                raise ValueError("Too large headers, or too many requests at once.")
            self.allowed = limits.head_bytes + 2 * limits.body_bytes  # chunks have sizes and ends
            self.chunks = 0
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self.chunks += 1
            if self.chunks > MOST_CHUNKS:
                raise ValueError("Too many chunks.")
            super().on_body(body)

    return LimitedProtocol


def _cancel(*timers: asyncio.TimerHandle | None) -> None:
    for timer in timers:
        if timer is not None:
            timer.cancel()
