"""The server's log on standard error, for programs or for people, without any user's text."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Literal


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


class TextLogFormatter(logging.Formatter):
    """One short line per record, for a person who watches the server in a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        facts = dict(getattr(record, "facts", {}))
        event = record.getMessage()
        if event == "listening":
            return f"Open {facts['url']} (press Ctrl-C to stop)"
        if event == "request":
            event = f"{facts.pop('status')} {facts.pop('route')} in {facts.pop('seconds'):.2f} s"
            del facts["id"]
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        if record.exc_info and record.exc_info[0] is not None:
            facts["exception"] = record.exc_info[0].__name__
        rest = "".join(f", {name} {value}" for name, value in facts.items() if value != "")
        return f"{datetime.fromtimestamp(record.created):%H:%M:%S} {level}{event}{rest}"


def write_logs(form: Literal["text", "json"] = "json", level: str = "info") -> None:
    """Send our log and uvicorn's to standard error, as JSON lines or as lines of text."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextLogFormatter() if form == "text" else JsonLogFormatter())
    for name in ("reviser.serve", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
