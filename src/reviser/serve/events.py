"""A stream of edits as server-sent events, and the buffer that lets a reader come back.

Knows how an event is written, nothing of HTTP or engines. Event 0 is the text to begin with, n is
the n-th action, and the last is what came of it.
"""

from __future__ import annotations

import json
from typing import Any

from reviser.core.codec import TextEdit

_encode = json.JSONEncoder(ensure_ascii=False).encode  # made once: it is asked for every action

PING = b":\n\n"
"""A comment, which readers skip."""


def event(number: int, kind: str, data: str) -> bytes:
    """One event; `data` is JSON on one line."""
    return f"id: {number}\nevent: {kind}\ndata: {data}\n\n".encode("utf-8", "replace")


def edit_data(step: int, kind: str, edit: TextEdit, logprob: float) -> str:
    """What an edit event holds."""
    told: dict[str, Any] = {
        "step": step,
        "kind": kind,
        "offset": edit.offset,
        "removed": edit.removed,
        "inserted": edit.inserted,
        "cursor": edit.cursor,
        "logprob": logprob,
    }
    return _encode(told)


class Buffer:
    """The newest events of a stream, as many as fit; the newest one always does."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._events: list[bytes] = []
        self._first = 0
        self._size = 0

    @property
    def end(self) -> int:
        """The number that the next event gets."""
        return self._first + len(self._events)

    def add(self, event: bytes) -> None:
        """Keep an event, and forget the oldest if there are too many bytes."""
        self._events.append(event)
        self._size += len(event)
        spare, count = self._size - self._most, 0
        while spare > 0 and count + 1 < len(self._events):
            spare -= len(self._events[count])
            self._size -= len(self._events[count])
            count += 1
        if count:
            del self._events[:count]
            self._first += count

    def since(self, number: int, most: int = 64) -> list[bytes] | None:
        """The events from this number on, some of them at a time; None if it is forgotten."""
        place = number - self._first
        return None if place < 0 else self._events[place : place + most]
