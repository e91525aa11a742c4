"""The limits of a server: sizes, counts and times. Each is an option of `reviser serve`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

_Number = TypeVar("_Number", int, float)


def limit(default: _Number, low: float, help: str) -> _Number:  # noqa: A002
    """Declare a limit: its default, its lowest value and one sentence of help."""
    return field(default=default, metadata={"low": low, "help": help})


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Sizes, counts and times that a server allows; `--help` of `reviser serve` explains them."""

    running: int = limit(64, 1, "Requests that run at a time, each in a thread.")
    waiting: int = limit(256, 0, "Requests that may wait to run; one more gets status 429.")
    body_bytes: int = limit(1 << 20, 1, "Largest body of a request, in bytes.")
    prompt_tokens: int = limit(16_384, 1, "Longest text of a request, in tokens.")
    max_actions: int = limit(4096, 1, "Highest `max_actions` that a request may ask for.")
    max_length: int = limit(16_384, 1, "Maximum number of tokens of a text, for all requests.")
    seconds: float = limit(600.0, 0.001, "Seconds per request; then the text so far is returned.")
    drain_seconds: float = limit(60.0, 0.001, "Maximum number of seconds from SIGTERM to exit.")
