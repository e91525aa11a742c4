"""The server's log: one JSON object per line on standard error, without any user's text."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any


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


def write_json_lines(level: str = "info") -> None:
    """Send our log and uvicorn's to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLogFormatter())
    for name in ("reviser.serve", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
