"""The server's log on standard error, without any user's text.

Programs get one JSON object per line; a person who watches a terminal gets short lines.
"""

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

from reviser.errors import plural

STANDARD_ERROR = 2
MAX_LINES = 10_000
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
            "event": _event(record),
            **getattr(record, "log_fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, trace = record.exc_info
            line["exception"] = kind.__name__
            line["at"] = [f"{f.filename}:{f.lineno}" for f in traceback.extract_tb(trace)[-8:]]
        return json.dumps(line)


class TextLogFormatter(logging.Formatter):
    """One short line per record, for a person."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        fields = dict(getattr(record, "log_fields", {}))
        event = _event(record)
        if event == "listening":
            return f"Open {fields['url']} (press Ctrl-C to stop)"
        if event == "request":
            event = f"{fields.pop('status')} {fields.pop('route')} in {fields.pop('seconds'):.2f} s"
            del fields["id"]
        elif event == "engine":
            event = f"The engine is {fields.pop('state')}"
        elif event == "draining":
            event = f"Stopping; {plural(fields.pop('jobs'), 'request')} still to finish"
        if record.exc_info and record.exc_info[0] is not None:
            fields["exception"] = record.exc_info[0].__name__  # its message may quote a user's text
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        rest = "".join(f", {name} {value}" for name, value in fields.items() if value != "")
        return f"{datetime.fromtimestamp(record.created):%H:%M:%S} {level}{event}{rest}"


def _event(record: logging.LogRecord) -> str:
    """Return the message of a record; that of another library may quote a user's text."""
    is_known = record.name.startswith(("reviser.serve", "uvicorn"))
    return record.getMessage() if is_known else f"a message of {record.name}"


class BackgroundHandler(QueueHandler):
    """A handler that never waits for what it writes to: a thread of its own does.

    If nothing reads the other end of a pipe, lines are dropped once `MAX_LINES` wait; so are those
    for which a disk has no space, until it has some. The thread uses the file descriptor directly,
    because a Python lock that it held while it waits would also delay the end of the process.
    """

    def __init__(self, descriptor: int) -> None:
        self._lines: Queue[logging.LogRecord] = Queue(MAX_LINES)
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
                lost = json.dumps({"event": "log lines dropped", "count": self._dropped})
                line = f"\n{line}\n{lost}"  # half a line may have been written
            data = memoryview(f"{line}\n".encode())
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
                self._dropped = 0
            except OSError:  # the disk is full, or nothing reads this any more
                self._dropped += 1
            self._lines.task_done()

    def drain(self, seconds: float) -> None:
        """Wait until all lines are written, but not longer than this."""
        until = time.monotonic() + seconds
        while self._lines.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.01)


def write_log(*, for_people: bool = False) -> BackgroundHandler:
    """Send all logs to standard error; drain the handler before the process ends."""
    handler = BackgroundHandler(STANDARD_ERROR)
    if for_people:
        handler.setFormatter(TextLogFormatter())
    # Python would write what no handler takes to standard error, and wait for it.
    logging.getLogger().addHandler(handler)
    for name in ("reviser.serve", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
    if for_people:
        logging.getLogger("uvicorn").setLevel("WARNING")  # not each stage of its start and end
    return handler
