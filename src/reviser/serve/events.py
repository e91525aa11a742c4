"""Server-sent events of a stream, and the buffer that lets a client reconnect.

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


class EventBuffer:
    """The newest events of a stream, up to a number of bytes; the newest one is always kept."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._events: list[bytes] = []
        self._first = 0
        self._size = 0

    @property
    def end(self) -> int:
        """The number that the next event gets."""
        return self._first + len(self._events)

    def add(self, event: bytes) -> None:
        """Append an event, and drop the oldest ones that no longer fit."""
        self._events.append(event)
        self._size += len(event)
        count = 0
        while self._size > self._max_bytes and count + 1 < len(self._events):
            self._size -= len(self._events[count])
            count += 1
        if count:
            del self._events[:count]
            self._first += count

    def since(self, number: int, limit: int = 64) -> list[bytes] | None:
        """Return up to `limit` events, starting at a number; None if that one was dropped."""
        index = number - self._first
        return None if index < 0 else self._events[index : index + limit]
