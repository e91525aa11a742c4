"""How much a server takes on: sizes, numbers and times, all in one place."""

from __future__ import annotations

from dataclasses import dataclass, fields

from reviser.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is refused, cut or forgotten, and when."""

    running: int = 64
    """Requests that the engine works on at a time."""
    waiting: int = 256
    """Requests that wait for it; one more is answered 429."""
    body_bytes: int = 1 << 20
    """Of a request."""
    body_seconds: float = 30.0
    """In which a body must have come."""
    prompt_characters: int = 100_000
    """Of a prompt or a text with gaps."""
    prompt_tokens: int = 16_384
    """Of its history."""
    max_actions: int = 4096
    """Highest `max_actions` of a request."""
    max_length: int = 16_384
    """Most tokens of a text, whatever a request says."""
    seconds: float = 600.0
    """From acceptance on; then the text is handed over as it is."""
    stream_bytes: int = 4 << 20
    """Events kept for each stream; the oldest go first."""
    streams: int = 1024
    """Ended streams that are kept for readers who lost their connection."""
    resume_seconds: float = 15.0
    """How long a stream goes on, or is kept, without a reader; 0 ends it at once."""
    ping_seconds: float = 15.0
    """Between signs of life on a silent stream."""
    write_seconds: float = 60.0
    """How long a reader may take nothing before its connection is cut."""
    drain_seconds: float = 60.0
    """From SIGTERM to the end, at most."""
    stall_seconds: float = 120.0
    """For one step of the engine; then it counts as dead."""
    probe_seconds: float = 10.0
    """Between signs of life that an engine without work is asked for."""
    recovery_seconds: float = 30.0
    """For an engine that failed to answer again; then the process ends."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, low = getattr(self, field.name), _LOWEST.get(field.name, 1)
            whole = isinstance(field.default, int)
            kinds = (int,) if whole else (int, float)
            if isinstance(value, bool) or not isinstance(value, kinds) or not value >= low:
                number = "a whole number" if whole else "a number"
                raise ConfigError(f"{field.name} is {value!r}; it must be {number}, {low} or more.")


_LOWEST: dict[str, float] = {"waiting": 0, "streams": 0, "resume_seconds": 0}
_LOWEST |= dict.fromkeys(
    ["body_seconds", "seconds", "ping_seconds", "write_seconds", "drain_seconds"], 0.001
)
_LOWEST |= dict.fromkeys(["stall_seconds", "probe_seconds", "recovery_seconds"], 0.001)
