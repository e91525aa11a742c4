"""The process: sockets, signals, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import socket
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from reviser.errors import ConfigError
from reviser.serve.queue import Desk

log = logging.getLogger("reviser.serve")


class _Server(uvicorn.Server):
    """On the first signal it drains, on the second it ends."""

    def __init__(self, config: uvicorn.Config, desk: Desk) -> None:
        super().__init__(config)
        self._desk = desk
        self._loop: asyncio.AbstractEventLoop | None = None
        self._was_told = False
        desk.ended = self._end

    async def startup(self, sockets: Any = None) -> None:
        """Remember the loop that signals must reach."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Of SIGTERM and SIGINT."""
        is_second, self._was_told = self._was_told, True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._desk.abandon if is_second else self._desk.drain)
        if self._loop is None or is_second:
            super().handle_exit(sig, frame)

    def _end(self) -> None:
        self.should_exit = True


def _cutting(seconds: float) -> Any:
    """The protocol of connections that are cut when their reader takes nothing for too long.

    uvicorn would wait for ever, and closing waits for the reader too.
    """

    class Cutting(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        stuck: asyncio.TimerHandle | None = None

        def pause_writing(self) -> None:
            super().pause_writing()
            self.stuck = self.loop.call_later(seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._go_on()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._go_on()

        def _go_on(self) -> None:
            if self.stuck is not None:
                self.stuck.cancel()

    return Cutting


def listen(host: str, port: int) -> socket.socket:
    """Take a port, before a model is opened for nothing."""
    taken = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
    except OSError as error:
        taken.close()
        raise ConfigError(
            f"Cannot listen on port {port} of {host}: {error.strerror}. Give another with --port"
            " or --host."
        ) from error
    return taken


def run(app: FastAPI, taken: socket.socket) -> int:
    """Serve until a signal or a dead engine ends it; the exit status of the process."""
    desk: Desk = app.state.desk
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        http=_cutting(desk.limits.write_seconds),
        ws="none",  # there are none, and what is not there cannot fail
        timeout_graceful_shutdown=5,
        timeout_keep_alive=75,  # longer than a proxy in front keeps idle connections
    )
    host, port = taken.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    log.info("listening", extra={"facts": {"url": url}})
    _Server(config, desk).run(sockets=[taken])
    return 1 if desk.died or desk.lost or not desk.draining else 0
