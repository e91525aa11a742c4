"""The parts of a client that need no network: request bodies, and checks of what a server sends.

A server may send anything. A response that is not valid becomes an `EngineError` here, so that
callers of a client get only our own errors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from reviser.core.codec import TextEdit
from reviser.engines.settings import DecodeConfig
from reviser.errors import ConfigError, EngineError, MissingExtra, RequestRefused, ReviserError
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import Continue, Infill, Revise, Task

try:
    import httpx2 as httpx2  # the other client modules import it from here
except ModuleNotFoundError as error:
    raise MissingExtra(
        "The client needs httpx2. Install it with: pip install 'reviser-lm[serve]'."
    ) from error

PATHS: dict[type[Task], str] = {
    Continue: "/v1/generate",
    Infill: "/v1/infill",
    Revise: "/v1/revise",
}
MAX_EVENT_BYTES = 64 << 20
"""Largest event that a client accepts; the last event of a stream holds a whole rollout."""
_INVALID = (
    ReviserError,
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedEdit(TextEdit):
    """An edit of a text on a server, with the action that made it."""

    step: int
    """The number of the action, from 1 on."""
    kind: str
    """The kind of the action: insert, move, stop ..., or argument."""
    logprob: float
    """The log-probability that the model gave the action."""

    def __post_init__(self) -> None:
        counts = (self.step, self.offset, self.cursor)
        is_valid = all(type(count) is int and count >= 0 for count in counts)
        texts = (self.removed, self.inserted, self.kind)
        if not (is_valid and all(isinstance(text, str) for text in texts)):
            raise TypeError("an edit has a field of the wrong type")


class StreamState:
    """The text of a stream as far as its events have arrived."""

    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self.rollout: Rollout | None = None
        self.error: ReviserError | None = None

    def take(self, event: httpx2.ServerSentEvent) -> StreamedEdit | None:
        """Apply one event; return the edit if it is one, raise the error if it is a failure."""
        edit = parse("event", self._apply, event)
        if self.error is not None:
            raise self.error
        return edit

    def _apply(self, event: httpx2.ServerSentEvent) -> StreamedEdit | None:
        data = json.loads(event.data)
        edit = None
        if event.event == "start":
            self.text, self.cursor = str(data["text"]), int(data["cursor"])
        elif event.event == "edit":
            edit = StreamedEdit(**data)
            end = edit.offset + len(edit.removed)
            if self.text[edit.offset : end] != edit.removed:
                raise ValueError("an edit does not fit the text")
            self.text, self.cursor = edit.apply(self.text), edit.cursor
        elif event.event == "done":
            self.rollout = Rollout.from_json(event.data)
        elif event.event == "failure":
            self.error = _error(int(data["error"]["code"]), str(data["error"]["message"]))
        return edit

    def result(self) -> Rollout:
        """Return the rollout of a stream that has ended."""
        if self.rollout is None:
            raise self.error or EngineError("This stream was closed before its end.")
        return self.rollout


def parse(what: str, read: Callable[..., _Read], value: object) -> _Read:
    """Read something that a server sent; if it is not valid, raise EngineError."""
    try:
        return read(value)
    except _INVALID as error:
        raise EngineError(f"The server sent an invalid {what}: {error!r:.200}.") from error


def request_body(task: Task, settings: Mapping[str, object]) -> dict[str, Any]:
    """Return the JSON body of a task with these settings, which are checked."""
    config = DecodeConfig.of(settings, task.default_config)
    return task.to_dict() | {name: getattr(config, name) for name in settings}


def stream_request(task: Task, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the HTTP request that starts a stream."""
    body = request_body(task, settings) | {"stream": True}
    return {
        "method": "POST", "url": PATHS[type(task)], "json": body,
        "max_event_size": MAX_EVENT_BYTES,
    }  # fmt: skip


def changed_settings(task: Task, config: DecodeConfig | None) -> dict[str, Any]:
    """Return the settings in which a config differs from the task's default."""
    if config is None:
        return {}
    default = asdict(task.default_config)
    return {name: value for name, value in asdict(config).items() if value != default[name]}


def read_rollout(text: str) -> Rollout:
    """Read a rollout from a response."""
    return parse("rollout", Rollout.from_json, text)


def read_revision(text: str) -> Revision:
    """Read a revision from a response."""
    return parse("revision", Revision.from_json, text)


def read_model_names(text: str) -> list[str]:
    """Read the names of models from the response of /v1/models."""
    return parse("list of models", lambda it: [str(m["id"]) for m in json.loads(it)["data"]], text)


def read_text(response: httpx2.Response) -> str:
    """Return the text of a successful response; raise the error of any other."""
    if response.status_code != 200:
        raise refusal(response)
    return parse("text", bytes.decode, response.content)


def refusal(response: httpx2.Response) -> ReviserError:
    """Return the error of a response whose status is not 200; its body has been read."""
    status = response.status_code
    try:
        message = str(json.loads(response.content)["error"]["message"])
    except _INVALID:
        message = f"The server responded with status {status}."
    wait = response.headers.get("retry-after", "")
    is_number = wait.isascii() and wait.isdigit() and len(wait) < 10
    return _error(status, message, int(wait) if is_number else None)


def _error(status: int, message: str, retry_after: int | None = None) -> ReviserError:
    if status == 400:
        return ConfigError(message)
    if status == 502:
        return EngineError(message)
    return RequestRefused(message, status, retry_after)


def unreachable(url: str, reason: object) -> EngineError:
    """Return the error of a server that does not respond."""
    return EngineError(f"The server at {url} cannot be reached: {reason}. Is it running?")


def request_failed(url: str, error: httpx2.RequestError) -> EngineError:
    """Convert an error of httpx2 to one of ours."""
    if isinstance(error, httpx2.TransportError) and not isinstance(error, httpx2.SSEError):
        return unreachable(url, error)
    return EngineError(f"The server at {url} sent an invalid response: {error!r:.200}.")


def http_options(url: str, api_key: str | None, timeout: float) -> dict[str, Any]:
    """Return the arguments of httpx2's clients."""
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"The address {url!r} must begin with http:// or https://.")
    try:
        base_url = httpx2.URL(url.rstrip("/").removesuffix("/v1"))  # which other clients need
    except httpx2.InvalidURL as error:
        raise ConfigError(f"The address {url!r} is not valid: {error}.") from error
    if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
        raise ConfigError("The API key contains a character that HTTP cannot send.")
    return {
        "base_url": base_url,
        "timeout": httpx2.Timeout(timeout, connect=min(timeout, 10.0)),
        "limits": httpx2.Limits(max_connections=None),
        "headers": {"Authorization": f"Bearer {api_key}"} if api_key else {},
    }
