"""The server process: its socket, signals and exit status."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from sse_starlette.sse import AppStatus

from reviser.errors import ConfigError
from reviser.serve.runs import Runs

log = logging.getLogger("reviser.serve")


class DrainingServer(uvicorn.Server):
    """A uvicorn server that drains its requests on the first signal and exits on the second."""

    def __init__(self, app: FastAPI) -> None:
        self.runs: Runs = app.state.runs
        AppStatus.enable_automatic_graceful_drain = False  # it would cut streams that `Runs` drains
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                ws="none",  # no route uses WebSockets
                timeout_graceful_shutdown=5,
                timeout_keep_alive=75,  # longer than a proxy in front keeps idle connections
            )
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._was_signalled = False
        self.runs.on_end = self.stop

    async def startup(self, sockets: Any = None) -> None:
        """Remember the event loop that signals must reach."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle SIGTERM and SIGINT."""
        is_second, self._was_signalled = self._was_signalled, True
        if self._loop is not None:
            action = self.runs.cancel_all if is_second else self.runs.drain
            self._loop.call_soon_threadsafe(action)
        if self._loop is None or is_second:
            super().handle_exit(sig, frame)

    def stop(self) -> None:
        """Exit as soon as open connections are closed."""
        self.should_exit = True

    def serve_until_stopped(self, listener: socket.socket) -> int:
        """Serve until a signal or a broken engine ends it; return the exit status."""
        host, port = listener.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        log.info("listening", extra={"log_fields": {"url": url}})
        self.run(sockets=[listener])
        runs = self.runs
        return 1 if runs.is_broken or runs.has_lost_requests or not runs.is_draining else 0


def listen(host: str, port: int) -> socket.socket:
    """Bind a port; called before the model is opened, so that a port in use is reported at once."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"Cannot listen on port {port} of {host}: {error.strerror}. Choose another with --port"
            " or --host."
        ) from error
    return listener


def run(app: FastAPI, listener: socket.socket) -> int:
    """Serve an app until it ends; return the exit status of the process."""
    # The garbage collector stops all threads while it looks at every object. What is there now, a
    # million objects of libraries, stays: without it a full collection takes a tenth of the time.
    gc.collect()
    gc.freeze()
    return DrainingServer(app).serve_until_stopped(listener)
