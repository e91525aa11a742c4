"""The server's log on standard error, without any user's text.

Programs get one JSON object per line; a person who watches a terminal gets short lines.
"""

from __future__ import annotations

import json
import logging
import os
import select
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

STANDARD_ERROR = 2
MAX_LINE_BYTES = 4096
"""Bytes of a line. A pipe that can take more takes so many at once, or it is full."""


class JsonLogFormatter(logging.Formatter):
    """One JSON object per record.

    Of an exception it keeps the type and the code lines but not the message, which may quote a
    user's text; so may the message of another library.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return json.dumps(_line(record))


class TextLogFormatter(logging.Formatter):
    """One short line per record, for a person: what happened, and with which values."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line = _line(record)
        if line["event"] == "listening":
            return f"Open {line['url']} (press Ctrl-C to stop)"
        hidden = ("time", "event", "id", "at", "level" if line["level"] == "info" else "")
        values = [f"{name}={value}" for name, value in line.items() if name not in hidden]
        return " ".join([line["time"][11:19], line["event"], *values])


def _line(record: logging.LogRecord) -> dict[str, Any]:
    is_known = record.name.startswith(("reviser.serve", "uvicorn"))
    line: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "event": record.getMessage() if is_known else f"a message of {record.name}",
        **getattr(record, "log_fields", {}),
    }
    if record.exc_info and record.exc_info[0] is not None:
        kind, _, trace = record.exc_info
        line["exception"] = kind.__name__
        line["at"] = [f"{f.filename}:{f.lineno}" for f in traceback.extract_tb(trace)[-8:]]
    return line


class DroppingHandler(logging.Handler):
    """A handler that never waits: a line that cannot be written at once is dropped, and counted.

    That is so if nothing reads the other end of a pipe, or a disk has no space.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._dropped = 0
        self.setFormatter(JsonLogFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line of a record, or drop it."""
        line = self.format(record)
        if self._dropped:  # half a line may have been written
            lost = json.dumps({"event": "log lines dropped", "count": self._dropped})
            line = f"\n{lost}\n{line}"
        data, written = line.encode()[: MAX_LINE_BYTES - 1] + b"\n", 0
        with suppress(OSError):
            if os.name != "posix" or select.select([], [self._descriptor], [], 0)[1]:
                written = os.write(self._descriptor, data)
        self._dropped = 0 if written == len(data) else self._dropped + 1


def write_log(*, for_people: bool = False) -> None:
    """Send all logs to standard error."""
    handler = DroppingHandler(STANDARD_ERROR)
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
