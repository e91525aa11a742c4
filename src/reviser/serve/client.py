"""A client of `reviser serve`.

It builds the same tasks as `Reviser` and returns the same results. It needs httpx2 and pydantic,
but neither torch nor a model. A server may send anything; what is not valid becomes an
`EngineError`, so that callers get only our own errors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeVar, Unpack, overload

from reviser.core.codec import TextEdit
from reviser.engines.settings import DecodeConfig, DecodeSettings
from reviser.errors import ConfigError, EngineError, MissingExtra, RequestRefused, ReviserError
from reviser.markup.spans import Span
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import CONTEXT, WINDOW, Continue, Infill, Revise, Task

try:
    import httpx2
    from pydantic import TypeAdapter
except ModuleNotFoundError as missing:
    raise MissingExtra(
        "The client needs httpx2. Install it with: pip install 'reviser-lm[serve]'."
    ) from missing

__all__ = ["Client", "EditStream", "StreamedEdit"]

R = TypeVar("R")
PATHS = {Continue: "/v1/generate", Infill: "/v1/infill", Revise: "/v1/revise"}
MAX_EVENT_BYTES = 64 << 20
"""Largest event that a client accepts; the last event of a stream holds a whole rollout."""
_INVALID = (
    ReviserError, AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedEdit(TextEdit):
    """An edit of a text on a server, with the action that made it."""

    step: int
    """The number of the action, from 1 on."""
    kind: str
    """The kind of the action: insert, move, stop ..., or argument."""
    logprob: float
    """The log-probability that the model gave the action."""


_EDIT = TypeAdapter(StreamedEdit)


def _parsed(what: str, read: Callable[[Any], R], value: object) -> R:
    try:
        return read(value)
    except _INVALID as error:
        raise EngineError(f"The server sent an invalid {what}: {error!r:.200}.") from error


def _refusal(response: httpx2.Response) -> ReviserError:
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
    return EngineError(message) if status == 502 else RequestRefused(message, status, retry_after)


class EditStream:
    """A text being written on a server: iterate to get its edits, in order, each once.

    `text` and `cursor` follow the edits; `rollout` waits for the end.
    """

    def __init__(self, connection: Any, url: str) -> None:
        self.text = ""
        """The text after the edits so far."""
        self.cursor = 0
        """The position of the cursor in the text."""
        self._url = url
        self._rollout: Rollout | None = None
        self._error: ReviserError | None = None
        self._edits = self._follow(connection)
        next(self._edits)  # returns once the server has accepted the request

    def __iter__(self) -> Iterator[StreamedEdit]:
        return (edit for edit in self._edits if edit is not None)

    def rollout(self) -> Rollout:
        """Wait for the end and return the rollout."""
        for _ in self:
            pass
        if self._rollout is None:
            raise self._error or EngineError("This stream was closed before its end.")
        return self._rollout

    def close(self) -> None:
        """Close the connection; the server stops writing. `text` has what arrived until now."""
        self._edits.close()

    def _follow(self, connection: Any) -> Generator[StreamedEdit | None]:
        """Yield None once the server has accepted the request, then for each event."""
        try:
            with _our_errors(self._url), connection as events:
                if events.response.status_code != 200:
                    events.response.read()
                    raise _refusal(events.response)
                events.response.encoding = "utf-8"  # whatever the header says
                yield None
                for event in events:
                    yield _parsed("event", self._take, event)
                    if self._error is not None:
                        raise self._error
                if self._rollout is None:
                    raise httpx2.ReadError("the connection was lost")
        except ReviserError as error:
            self._error = error
            raise

    def _take(self, event: httpx2.ServerSentEvent) -> StreamedEdit | None:
        """Apply one event; return the edit if it is one."""
        if event.event == "edit":
            edit = _EDIT.validate_json(event.data, strict=True)
            end = edit.offset + len(edit.removed)
            if edit.offset < 0 or self.text[edit.offset : end] != edit.removed:
                raise ValueError("an edit does not fit the text")
            self.text, self.cursor = edit.apply(self.text), edit.cursor
            return edit
        data = json.loads(event.data)
        if event.event == "start":
            self.text, self.cursor = str(data["text"]), int(data["cursor"])
        elif event.event == "done":
            self._rollout = Rollout.from_json(event.data)
        elif event.event == "failure":
            self._error = _error(int(data["error"]["code"]), str(data["error"]["message"]))
        return None


@contextmanager
def _our_errors(url: str) -> Iterator[None]:
    """Turn errors of httpx2 into ours."""
    try:
        yield
    except httpx2.RequestError as error:
        is_lost = isinstance(error, httpx2.TransportError) and not isinstance(
            error, httpx2.SSEError
        )
        raise EngineError(
            f"The server at {url} cannot be reached: {error}. Is it running?" if is_lost
            else f"The server at {url} sent an invalid response: {error!r:.200}."
        ) from error  # fmt: skip


class Client:
    """A client of one server; settings are the fields of `DecodeConfig`.

    Several threads may use it at the same time.

    Args:
        url: The address of the server, such as http://localhost:8000.
        api_key: The key to send, if the server asks for one.
        timeout: Seconds that the server may be silent.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 600.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"The address {url!r} must begin with http:// or https://.")
        try:
            base_url = httpx2.URL(url.rstrip("/").removesuffix("/v1"))  # which other clients need
        except httpx2.InvalidURL as error:
            raise ConfigError(f"The address {url!r} is not valid: {error}.") from error
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise ConfigError("The API key contains a character that HTTP cannot send.")
        self.url = url
        self._http = httpx2.Client(
            base_url=base_url,
            timeout=httpx2.Timeout(timeout, connect=min(timeout, 10.0)),
            limits=httpx2.Limits(max_connections=None),
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    @overload
    def run(
        self, task: Continue | Infill, config: DecodeConfig | None = None,
        **settings: Unpack[DecodeSettings],
    ) -> Rollout: ...  # fmt: skip
    @overload
    def run(
        self, task: Revise, config: DecodeConfig | None = None, **settings: Unpack[DecodeSettings]
    ) -> Revision: ...
    def run(
        self, task: Task, config: DecodeConfig | None = None, **settings: Unpack[DecodeSettings]
    ) -> Rollout | Revision:
        """Run a task and return its result."""
        read: Any = Revision.from_json if isinstance(task, Revise) else Rollout.from_json
        result: Rollout | Revision = self._answer(
            lambda data: read(data.decode()), "POST", PATHS[type(task)],
            json=_body(task, config, settings),
        )  # fmt: skip
        return result

    def stream(
        self, task: Task, config: DecodeConfig | None = None, **settings: Unpack[DecodeSettings]
    ) -> EditStream:
        """Run a task and get its edits as they happen."""
        body = _body(task, config, settings) | {"stream": True}
        connection = self._http.sse(
            PATHS[type(task)], method="POST", json=body, max_event_size=MAX_EVENT_BYTES
        )
        return EditStream(connection, self.url)

    def generate(self, prompt: str = "", **settings: Unpack[DecodeSettings]) -> Rollout:
        """Continue a prompt, which is never changed."""
        return self.run(Continue(prompt), **settings)

    def infill(
        self, text: str, spans: Sequence[Span] | None = None, **settings: Unpack[DecodeSettings]
    ) -> Rollout:
        """Fill the gaps of a text, marked with {} or given as spans of characters to rewrite."""
        return self.run(Infill(text, spans), **settings)

    def revise(
        self, draft: str, *, instruction: str = "", locked: Sequence[str | Span] = (),
        min_edit_probability: float | None = None, precision: float | None = None,
        min_confidence: float | None = None, window: int = WINDOW, context: int = CONTEXT,
        **settings: Unpack[DecodeSettings],
    ) -> Revision:  # fmt: skip
        """Edit a draft where it needs it; `Revise` describes the options."""
        task = Revise(
            draft, instruction=instruction, locked=locked, precision=precision,
            min_edit_probability=min_edit_probability, min_confidence=min_confidence,
            window=window, context=context,
        )  # fmt: skip
        return self.run(task, **settings)

    def models(self) -> list[str]:
        """Return the names of the server's models."""
        return self._answer(
            lambda data: [str(each["id"]) for each in json.loads(data)["data"]],
            "GET", "/v1/models",
        )  # fmt: skip

    def is_ready(self) -> bool:
        """Return whether the server accepts requests."""
        try:
            return self._answer(lambda data: "ready" in json.loads(data)["status"], "GET", "/ready")
        except ReviserError:
            return False

    def _answer(self, read: Callable[[bytes], R], method: str, path: str, **options: Any) -> R:
        """Send a request and return what its response holds, or raise the error it reports."""
        with _our_errors(self.url):
            response = self._http.request(method, path, **options)
        if response.status_code != 200:
            raise _refusal(response)
        return _parsed("response", read, response.content)


def _body(task: Task, config: DecodeConfig | None, settings: DecodeSettings) -> dict[str, Any]:
    """Return the body of a task's request, with the settings that differ from its defaults."""
    default = asdict(task.default_config)
    given = asdict(config) if config else default
    changed = {name: value for name, value in given.items() if value != default[name]} | settings
    checked = DecodeConfig.of(changed, task.default_config)
    return task.to_dict() | {name: getattr(checked, name) for name in changed}
