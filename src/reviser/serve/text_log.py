"""The server's log for a person who watches it in a terminal; `logs` has the one for programs."""

from __future__ import annotations

import logging
from datetime import datetime

from reviser.errors import plural


class TextLogFormatter(logging.Formatter):
    """One short line per record, without any user's text."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        facts = dict(getattr(record, "facts", {}))
        event = record.getMessage()
        if event == "listening":
            return f"Open {facts['url']} (press Ctrl-C to stop)"
        if event == "request":
            event = f"{facts.pop('status')} {facts.pop('route')} in {facts.pop('seconds'):.2f} s"
            del facts["id"]
        elif event == "engine":
            event = f"The engine is {facts.pop('state')}"
        elif event == "draining":
            event = f"Stopping; {plural(facts.pop('jobs'), 'request')} still to finish"
        if record.exc_info and record.exc_info[0] is not None:
            facts["exception"] = record.exc_info[0].__name__  # its message may quote a user's text
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        rest = "".join(f", {name} {value}" for name, value in facts.items() if value != "")
        return f"{datetime.fromtimestamp(record.created):%H:%M:%S} {level}{event}{rest}"


def write_for_people() -> None:
    """Change the log that `write_json_lines` has set up from JSON to text."""
    for name in ("reviser.serve", "uvicorn"):
        for handler in logging.getLogger(name).handlers:
            handler.setFormatter(TextLogFormatter())
    logging.getLogger("uvicorn").setLevel("WARNING")  # not each stage of its start and end
