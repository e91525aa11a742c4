"""The limits of a server: sizes, counts and times, each declared once."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TypeVar

from reviser.errors import ConfigError

_Number = TypeVar("_Number", int, float)


def limit(default: _Number, low: float, help: str) -> _Number:  # noqa: A002
    """Declare a limit: its default, its lowest value and one sentence of help."""
    return field(default=default, metadata={"low": low, "help": help})


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Sizes, counts and times that a server allows; `--help` of `reviser serve` explains them."""

    running: int = limit(64, 1, "Requests that the engine works on at a time.")
    waiting: int = limit(256, 0, "Requests that may wait for the engine; one more gets status 429.")
    key_requests: int = limit(
        128, 1, "Requests of one API key that may run or wait; one more gets status 429."
    )
    key_rate: float = limit(
        100.0, 0.001, "Requests per second of one API key; each 32 kB of body count as one more."
    )
    connections: int = limit(4096, 1, "Open connections; with more, requests get status 503.")
    head_bytes: int = limit(32_768, 1, "Largest head of a request: its address and headers.")
    headers: int = limit(100, 1, "Headers of a request.")
    body_bytes: int = limit(1 << 20, 1, "Largest body of a request, in bytes.")
    body_seconds: float = limit(
        30.0, 0.001, "Seconds allowed to receive the headers of a request, and then its body."
    )
    prompt_characters: int = limit(100_000, 1, "Longest text of a request, in characters.")
    prompt_tokens: int = limit(16_384, 1, "Longest text of a request, in tokens.")
    max_actions: int = limit(4096, 1, "Highest `max_actions` that a request may ask for.")
    max_length: int = limit(16_384, 1, "Maximum number of tokens of a text, for all requests.")
    seconds: float = limit(600.0, 0.001, "Seconds per request; then the text so far is returned.")
    ping_seconds: float = limit(15.0, 0.001, "Seconds between pings on a silent stream.")
    write_seconds: float = limit(
        60.0, 0.001, "Seconds after which a connection that stops reading is closed."
    )
    drain_seconds: float = limit(60.0, 0.001, "Maximum number of seconds from SIGTERM to exit.")
    stall_seconds: float = limit(
        120.0, 0.001, "Seconds per engine step; an engine that takes longer counts as dead."
    )
    probe_seconds: float = limit(10.0, 0.001, "Seconds between checks of an idle engine.")
    recovery_seconds: float = limit(
        30.0, 0.001, "Seconds for a failed engine to recover; then the server exits."
    )

    def __post_init__(self) -> None:
        for each in fields(self):
            value, low = getattr(self, each.name), each.metadata["low"]
            is_whole = isinstance(each.default, int)
            kinds = (int,) if is_whole else (int, float)
            if isinstance(value, bool) or not isinstance(value, kinds) or not value >= low:
                number = "a whole number" if is_whole else "a number"
                raise ConfigError(f"{each.name} is {value!r}; it must be {number}, {low} or more.")
