"""Clients of `reviser serve`, with and without asyncio.

They build the same tasks as `Reviser` and return the same results. They need httpx2, but neither
torch nor a model. What needs no network is written once: a `Call` is a request and how its answer
is read, and `_Stream` follows events. A server may send anything; what is not valid becomes an
`EngineError`, so that callers get only our own errors.
"""

from __future__ import annotations

import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Sequence,
)
from dataclasses import asdict, dataclass
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, overload

from reviser.core.codec import TextEdit
from reviser.engines.settings import DecodeConfig, DecodeSettings
from reviser.errors import ConfigError, EngineError, MissingExtra, RequestRefused, ReviserError
from reviser.markup.spans import Span
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import CONTEXT, WINDOW, Continue, Infill, Revise, Task

try:
    import httpx2
except ModuleNotFoundError as missing:
    raise MissingExtra(
        "The client needs httpx2. Install it with: pip install 'reviser-lm[serve]'."
    ) from missing

__all__ = ["AsyncClient", "AsyncEditStream", "Client", "EditStream", "StreamedEdit"]

R = TypeVar("R")
P = ParamSpec("P")
PATHS = {Continue: "/v1/generate", Infill: "/v1/infill", Revise: "/v1/revise"}
MAX_EVENT_BYTES = 64 << 20
"""Largest event that a client accepts; the last event of a stream holds a whole rollout."""
_INVALID = (
    ReviserError, AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError,
)  # fmt: skip


# -- without a network ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Call(Generic[R]):
    """A request, and how the text of its answer is read."""

    path: str
    read: Callable[[str], R]
    body: dict[str, Any] | None = None

    @property
    def request(self) -> dict[str, Any]:
        """The arguments of httpx2's `request`."""
        method = "GET" if self.body is None else "POST"
        return {"method": method, "url": self.path, "json": self.body}

    def result(self, response: httpx2.Response) -> R:
        """Return what a response holds, or raise the error that it reports."""
        if response.status_code != 200:
            raise _refusal(response)
        return _parsed("response", lambda data: self.read(data.decode()), response.content)


def _task_call(task: Task, config: DecodeConfig | None, settings: DecodeSettings) -> Call[Any]:
    """Return the call of a task, with the settings that differ from its defaults."""
    default = asdict(task.default_config)
    given = asdict(config) if config else default
    changed = {name: value for name, value in given.items() if value != default[name]} | settings
    checked = DecodeConfig.of(changed, task.default_config)
    body = task.to_dict() | {name: getattr(checked, name) for name in changed}
    read = Revision.from_json if isinstance(task, Revise) else Rollout.from_json
    return Call(PATHS[type(task)], read, body)


# The methods of both clients; each client sends the calls in its own way.


def _generate(_: Any, prompt: str = "", **settings: Unpack[DecodeSettings]) -> Call[Rollout]:
    """Continue a prompt, which is never changed."""
    return _task_call(Continue(prompt), None, settings)


def _infill(
    _: Any, text: str, spans: Sequence[Span] | None = None, **settings: Unpack[DecodeSettings]
) -> Call[Rollout]:
    """Fill the gaps of a text, marked with {} or given as spans of characters to rewrite."""
    return _task_call(Infill(text, spans), None, settings)


def _revise(
    _: Any, draft: str, *, instruction: str = "", locked: Sequence[str | Span] = (),
    min_edit_probability: float | None = None, precision: float | None = None,
    window: int = WINDOW, context: int = CONTEXT, **settings: Unpack[DecodeSettings],
) -> Call[Revision]:  # fmt: skip
    """Edit a draft where it needs it; `Revise` describes the options."""
    task = Revise(
        draft, instruction=instruction, locked=locked, min_edit_probability=min_edit_probability,
        precision=precision, window=window, context=context,
    )  # fmt: skip
    return _task_call(task, None, settings)


def _models(_: Any) -> Call[list[str]]:
    """Return the names of the server's models."""
    return Call("/v1/models", lambda text: [str(each["id"]) for each in json.loads(text)["data"]])


READY = Call("/ready", lambda text: bool(json.loads(text)["status"] == "ready"))


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


def _failed(url: str, error: httpx2.RequestError | None = None) -> EngineError:
    """Return the error of a request without a whole response."""
    if isinstance(error, httpx2.SSEError) or not isinstance(error, httpx2.TransportError | None):
        return EngineError(f"The server at {url} sent an invalid response: {error!r:.200}.")
    reason = error or "the connection was lost"
    return EngineError(f"The server at {url} cannot be reached: {reason}. Is it running?")


def _options(url: str, api_key: str | None, timeout: float) -> dict[str, Any]:
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


class _Stream:
    """The text of a stream as far as its events have arrived."""

    def __init__(self, url: str, call: Call[Any]) -> None:
        self.text = ""
        """The text after the edits so far."""
        self.cursor = 0
        """The position of the cursor in the text."""
        self._url = url
        self._request = call.request | {"max_event_size": MAX_EVENT_BYTES}
        self._request["json"] = (call.body or {}) | {"stream": True}
        self._rollout: Rollout | None = None
        self._error: ReviserError | None = None

    def _take(self, event: httpx2.ServerSentEvent) -> StreamedEdit | None:
        """Apply one event; return the edit if it is one, raise the error if it is a failure."""
        edit = _parsed("event", self._apply, event)
        if self._error is not None:
            raise self._error
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
            self._rollout = Rollout.from_json(event.data)
        elif event.event == "failure":
            self._error = _error(int(data["error"]["code"]), str(data["error"]["message"]))
        return edit

    def _ended(self, error: Exception | None = None) -> None:
        """Raise what went wrong by the end of a connection, if anything did."""
        if isinstance(error, httpx2.RequestError):
            self._error = _failed(self._url, error)
        elif error is None and self._rollout is None:
            self._error = _failed(self._url)
        elif isinstance(error, ReviserError):
            self._error = error
        if self._error is not None:
            raise self._error from error

    def _result(self) -> Rollout:
        if self._rollout is None:
            raise self._error or EngineError("This stream was closed before its end.")
        return self._rollout


# -- without asyncio ------------------------------------------------------------------------------


class EditStream(_Stream):
    """A text being written on a server: iterate to get its edits, in order, each once.

    `text` and `cursor` follow the edits; `rollout` waits for the end.
    """

    def __init__(self, http: httpx2.Client, url: str, call: Call[Any]) -> None:
        super().__init__(url, call)
        self._edits = self._follow(http)
        next(self._edits)  # returns once the server has accepted the request

    def __iter__(self) -> Iterator[StreamedEdit]:
        return (edit for edit in self._edits if edit is not None)

    def rollout(self) -> Rollout:
        """Wait for the end and return the rollout."""
        for _ in self:
            pass
        return self._result()

    def close(self) -> None:
        """Close the connection; the server stops writing. `text` has what arrived until now."""
        self._edits.close()

    def _follow(self, http: httpx2.Client) -> Generator[StreamedEdit | None]:
        """Yield None once the server has accepted the request, then for each event."""
        try:
            with http.sse(**self._request) as events:
                if events.response.status_code != 200:
                    events.response.read()
                    raise _refusal(events.response)
                events.response.encoding = "utf-8"  # whatever the header says
                yield None
                for event in events:
                    yield self._take(event)
        except (httpx2.RequestError, ReviserError) as error:
            self._ended(error)
        self._ended()


def _sent(call: Callable[Concatenate[Any, P], Call[R]]) -> Callable[Concatenate[Client, P], R]:
    def method(self: Client, /, *args: P.args, **options: P.kwargs) -> R:
        return self._send(call(self, *args, **options))

    return update_wrapper(method, call)


class Client:
    """A client of one server; settings are the fields of `DecodeConfig`.

    Args:
        url: The address of the server, such as http://localhost:8000.
        api_key: The key to send, if the server asks for one.
        timeout: Seconds that the server may be silent.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 600.0) -> None:
        self.url = url
        self._http = httpx2.Client(**_options(url, api_key, timeout))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    @overload
    def run(self, task: Continue | Infill, config: DecodeConfig | None = None) -> Rollout: ...
    @overload
    def run(self, task: Revise, config: DecodeConfig | None = None) -> Revision: ...
    def run(self, task: Task, config: DecodeConfig | None = None) -> Rollout | Revision:
        """Run a task and return its result."""
        result: Rollout | Revision = self._send(_task_call(task, config, {}))
        return result

    def stream(
        self, task: Task, config: DecodeConfig | None = None, **settings: Unpack[DecodeSettings]
    ) -> EditStream:
        """Run a task and get its edits as they happen."""
        return EditStream(self._http, self.url, _task_call(task, config, settings))

    generate, infill, revise = _sent(_generate), _sent(_infill), _sent(_revise)
    models = _sent(_models)

    def is_ready(self) -> bool:
        """Return whether the server accepts requests."""
        try:
            return self._send(READY)
        except ReviserError:
            return False

    def _send(self, call: Call[R]) -> R:
        try:
            return call.result(self._http.request(**call.request))
        except httpx2.RequestError as error:
            raise _failed(self.url, error) from error


# -- with asyncio ---------------------------------------------------------------------------------


class AsyncEditStream(_Stream):
    """An `EditStream` for asyncio: use `async for`, and `await stream.rollout()`."""

    def __init__(self, http: httpx2.AsyncClient, url: str, call: Call[Any]) -> None:
        super().__init__(url, call)
        self._edits = self._follow(http)

    def __aiter__(self) -> AsyncIterator[StreamedEdit]:
        return self._edits

    async def rollout(self) -> Rollout:
        """Wait for the end and return the rollout."""
        async for _ in self:
            pass
        return self._result()

    async def aclose(self) -> None:
        """Close the connection; the server stops writing. `text` has what arrived until now."""
        await self._edits.aclose()

    async def _follow(self, http: httpx2.AsyncClient) -> AsyncGenerator[StreamedEdit]:
        try:
            async with http.sse(**self._request) as events:
                if events.response.status_code != 200:
                    await events.response.aread()
                    raise _refusal(events.response)
                events.response.encoding = "utf-8"  # whatever the header says
                async for event in events:
                    if (edit := self._take(event)) is not None:
                        yield edit
        except (httpx2.RequestError, ReviserError) as error:
            self._ended(error)
        self._ended()


def _awaited(
    call: Callable[Concatenate[Any, P], Call[R]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, R]]:
    async def method(self: AsyncClient, /, *args: P.args, **options: P.kwargs) -> R:
        return await self._send(call(self, *args, **options))

    return update_wrapper(method, call)


class AsyncClient:
    """A `Client` for asyncio: the same methods and parameters, to be awaited."""

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 600.0) -> None:
        self.url = url
        self._http = httpx2.AsyncClient(**_options(url, api_key, timeout))

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    @overload
    async def run(self, task: Continue | Infill, config: DecodeConfig | None = None) -> Rollout: ...
    @overload
    async def run(self, task: Revise, config: DecodeConfig | None = None) -> Revision: ...
    async def run(self, task: Task, config: DecodeConfig | None = None) -> Rollout | Revision:
        """Run a task and return its result."""
        return await self._send(_task_call(task, config, {}))

    def stream(
        self, task: Task, config: DecodeConfig | None = None, **settings: Unpack[DecodeSettings]
    ) -> AsyncEditStream:
        """Run a task and get its edits as they happen."""
        return AsyncEditStream(self._http, self.url, _task_call(task, config, settings))

    generate, infill, revise = _awaited(_generate), _awaited(_infill), _awaited(_revise)
    models = _awaited(_models)

    async def is_ready(self) -> bool:
        """Return whether the server accepts requests."""
        try:
            return await self._send(READY)
        except ReviserError:
            return False

    async def _send(self, call: Call[R]) -> R:
        try:
            return call.result(await self._http.request(**call.request))
        except httpx2.RequestError as error:
            raise _failed(self.url, error) from error
