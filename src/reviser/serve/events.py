"""Server-sent events of a stream.

Event 0 holds the initial text, event n the n-th action, and the last event the result. This module
knows the format of an event, but neither HTTP nor engines.
"""

from __future__ import annotations

import json

from reviser.core.codec import TextEdit

_encode = json.JSONEncoder(ensure_ascii=False).encode  # built once: it runs for every action

PING = b":\n\n"
"""A comment, which clients skip; it keeps a silent connection alive."""


def event(number: int, kind: str, data: str) -> bytes:
    """Return one event; `data` is JSON on one line."""
    return f"id: {number}\nevent: {kind}\ndata: {data}\n\n".encode("utf-8", "replace")


def edit_data(step: int, kind: str, edit: TextEdit, logprob: float) -> str:
    """Return the data of an edit event."""
    return _encode(
        {
            "step": step,
            "kind": kind,
            "offset": edit.offset,
            "removed": edit.removed,
            "inserted": edit.inserted,
            "cursor": edit.cursor,
            "logprob": logprob,
        }
    )
