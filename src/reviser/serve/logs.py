"""The server's log: one JSON object per line on standard error, without any user's text."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import traceback
from datetime import UTC, datetime
from logging.handlers import QueueHandler
from queue import Full, Queue
from typing import Any

STANDARD_ERROR = 2
MOST_LINES = 10_000
"""Lines that may wait to be written; further ones are dropped, and counted."""


class JsonLogFormatter(logging.Formatter):
    """One JSON object per record.

    Of an exception it keeps the type and the code lines but not the message, which may quote a
    user's text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, trace = record.exc_info
            line["exception"] = kind.__name__
            line["at"] = [f"{f.filename}:{f.lineno}" for f in traceback.extract_tb(trace)[-8:]]
        return json.dumps(line)


class BackgroundHandler(QueueHandler):
    """A handler that never waits for what it writes to: a thread of its own does.

    If nothing reads the other end of a pipe, lines are dropped once `MOST_LINES` wait. The thread
    uses the file descriptor directly, because a Python lock that it held while it waits would also
    delay the end of the process.
    """

    def __init__(self, descriptor: int) -> None:
        self._lines: Queue[logging.LogRecord] = Queue(MOST_LINES)
        super().__init__(self._lines)
        self._descriptor = descriptor
        self._dropped = 0
        self.setFormatter(JsonLogFormatter())
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a record, or drop it if too many wait."""
        try:
            self._lines.put_nowait(record)
        except Full:
            self._dropped += 1

    def _write(self) -> None:
        while True:
            line = self._lines.get().getMessage()
            if self._dropped:
                line += "\n" + json.dumps({"event": "log lines dropped", "count": self._dropped})
                self._dropped = 0
            data = memoryview(f"{line}\n".encode())
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError:  # nothing can be written there any more
                return
            self._lines.task_done()

    def drain(self, seconds: float) -> None:
        """Wait until all lines are written, but not longer than this."""
        until = time.monotonic() + seconds
        while self._lines.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.01)


def write_json_lines() -> BackgroundHandler:
    """Send our log and uvicorn's to standard error; drain the handler before the process ends."""
    handler = BackgroundHandler(STANDARD_ERROR)
    for name in ("reviser.serve", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
    return handler
