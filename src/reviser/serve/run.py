"""The server process: its socket, signals and exit status."""

from __future__ import annotations

import gc
import logging
import math
import signal
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI
from sse_starlette.sse import AppStatus

from reviser.errors import ConfigError
from reviser.serve.runs import Runs

log = logging.getLogger("reviser.serve")


class DrainingServer(uvicorn.Server):
    """A uvicorn server whose end lets accepted requests finish."""

    def __init__(self, app: FastAPI) -> None:
        self.runs: Runs = app.state.runs
        self.runs.on_end = self.stop
        AppStatus.enable_automatic_graceful_drain = False  # it would cut streams that `Runs` drains
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                ws="none",  # no route uses WebSockets
                # Five seconds for responses with the texts so far.
                timeout_graceful_shutdown=math.ceil(self.runs.limits.drain_seconds) + 5,
                timeout_keep_alive=75,  # longer than a proxy in front keeps idle connections
            )
        )

    async def shutdown(self, sockets: Any = None) -> None:
        """Accept no more connections, and end when those that are open have their responses."""
        self.runs.drain()
        await super().shutdown(sockets)

    def stop(self) -> None:
        """Do what a signal does."""
        self.should_exit = True

    def serve_until_stopped(self, listener: socket.socket) -> int:
        """Serve until a signal or a broken engine ends it; return the exit status."""
        host, port = listener.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        log.info("listening", extra={"log_fields": {"url": url}})
        self.run(sockets=[listener])
        return int(self.runs.is_broken or self.runs.has_lost_requests or self.force_exit)


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
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # uvicorn raises them again once it has ended
    return DrainingServer(app).serve_until_stopped(listener)
