"""A client of `reviser serve`, with and without asyncio.

Knows HTTP and text edits; needs httpx2, and neither torch nor a model.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reviser.core.codec import TextEdit
from reviser.errors import ConfigError, EngineError, MissingExtra, RequestRefused, ReviserError
from reviser.writing.model import Revision, Rollout

try:
    import httpx2
except ModuleNotFoundError as error:
    raise MissingExtra(
        "The client needs httpx2. Install it with: pip install 'reviser-lm[serve]'."
    ) from error

__all__ = ["AsyncClient", "AsyncStream", "Client", "Stream", "StreamedEdit"]

Spans = Sequence[tuple[int, int]]
Locked = Sequence[str | tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedEdit(TextEdit):
    """An edit of a text elsewhere, with the action that it was."""

    step: int
    """From 1 on."""
    kind: str
    """insert, move, stop ..., or argument."""
    logprob: float
    """The model's own."""


class _Reading:
    """What a stream has told so far: no network, so both clients share it."""

    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self.rollout: Rollout | None = None
        self.error: ReviserError | None = None
        self.last: str | None = None
        """The id of the last whole event."""
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[StreamedEdit]:
        """Take bytes as they come."""
        *whole, self._rest = (self._rest + data).split(b"\n\n")
        for block in whole:
            fields = {}
            for line in block.split(b"\n"):  # a text may hold other characters that end lines
                name, _, value = line.partition(b":")
                fields[name.decode()] = value.removeprefix(b" ").decode()
            if "data" in fields:
                yield from self._take(fields["event"], fields["data"])
                self.last = fields["id"]

    def _take(self, kind: str, data: str) -> Iterator[StreamedEdit]:
        told = json.loads(data)
        if kind == "start":
            self.text, self.cursor = told["text"], told["cursor"]
        elif kind == "edit":
            edit = StreamedEdit(**told)
            self.text, self.cursor = edit.apply(self.text), edit.cursor
            yield edit
        elif kind == "done":
            self.rollout = Rollout.from_json(data)
        elif kind == "failure":
            problem = told["error"]
            raise _problem(problem["code"], problem["message"])

    def result(self) -> Rollout:
        """What was written, or why there is nothing."""
        if self.rollout is None:
            raise self.error or EngineError("This stream was closed before its end.")
        return self.rollout

    def lose(self) -> None:
        """Forget half an event: it comes again."""
        self._rest = b""

    @property
    def headers(self) -> dict[str, str]:
        """Of a request to go on."""
        return {} if self.last is None else {"Last-Event-ID": self.last}


class Stream:
    """A text being written elsewhere: iterate for its edits, in order, each once.

    A connection that breaks is taken up again where it was. `text` and `cursor` follow along, and
    `rollout` waits for the end.
    """

    def __init__(self, client: Client, path: str, asked: dict[str, Any]) -> None:
        self._client = client
        self._path, self._asked = path, asked
        self._reading = _Reading()
        self._edits = self._follow()
        self._stream_id = ""
        next(self._edits)  # until the server has accepted it

    @property
    def id(self) -> str:
        """What the server calls it."""
        return self._stream_id

    @property
    def text(self) -> str:
        """The text after the edits so far."""
        return self._reading.text

    @property
    def cursor(self) -> int:
        """Where the cursor is."""
        return self._reading.cursor

    def __iter__(self) -> Iterator[StreamedEdit]:
        try:
            for edit in self._edits:
                if edit is not None:
                    yield edit
        except ReviserError as error:
            self._reading.error = error
            raise

    def rollout(self) -> Rollout:
        """What was written, when it is done."""
        for _ in self:
            pass
        return self._reading.result()

    def cancel(self) -> None:
        """Leave the text where it is; what is left of the edits, and the rollout, still come."""
        self._client._ask("POST", f"/v1/streams/{self.id}/cancel")

    def close(self) -> None:
        """Stop reading; the server soon stops writing."""
        self._edits.close()

    def _follow(self) -> Generator[StreamedEdit | None, None, None]:
        reading, client, failures = self._reading, self._client, 0
        while reading.rollout is None:
            try:
                with client._http.stream(**self._request()) as response:
                    if response.status_code != 200:
                        raise _refusal(response.status_code, response.headers, response.read())
                    self._stream_id = response.headers["x-stream-id"]
                    if reading.last is None:
                        yield None
                    for data in response.iter_bytes():
                        for edit in reading.feed(data):
                            failures = 0
                            yield edit
            except httpx2.ConnectError as error:
                if not self._stream_id:
                    raise _unreachable(client.url, error) from error
            except httpx2.TransportError:
                pass  # before an answer, too: a text that nobody reads is given up soon
            if reading.rollout is None:
                failures += 1
                if failures > _most(client.retries, self._stream_id):
                    raise _unreachable(client.url, "the connection breaks again and again")
                reading.lose()
                time.sleep(_pause(failures))

    def _request(self) -> dict[str, Any]:
        return _stream_request(self._path, self._asked, self._stream_id, self._reading)


class AsyncStream:
    """The same for asyncio: `async for`, and `await stream.rollout()`."""

    def __init__(self, client: AsyncClient, path: str, asked: dict[str, Any]) -> None:
        self._client = client
        self._path, self._asked = path, asked
        self._reading = _Reading()
        self._edits = self._follow()
        self.id = ""
        """What the server calls it."""

    @property
    def text(self) -> str:
        """The text after the edits so far."""
        return self._reading.text

    @property
    def cursor(self) -> int:
        """Where the cursor is."""
        return self._reading.cursor

    async def __aiter__(self) -> AsyncIterator[StreamedEdit]:
        try:
            async for edit in self._edits:
                yield edit
        except ReviserError as error:
            self._reading.error = error
            raise

    async def rollout(self) -> Rollout:
        """What was written, when it is done."""
        async for _ in self:
            pass
        return self._reading.result()

    async def cancel(self) -> None:
        """Leave the text where it is; what is left of the edits, and the rollout, still come.

        Before the first edit was asked for there is nothing to leave, and it is closed.
        """
        if not self.id:
            await self.aclose()
            return
        await self._client._ask("POST", f"/v1/streams/{self.id}/cancel")

    async def aclose(self) -> None:
        """Stop reading; the server soon stops writing."""
        await self._edits.aclose()

    async def _follow(self) -> AsyncGenerator[StreamedEdit, None]:
        reading, client, failures = self._reading, self._client, 0
        while reading.rollout is None:
            try:
                asked = _stream_request(self._path, self._asked, self.id, reading)
                async with client._http.stream(**asked) as response:
                    if response.status_code != 200:
                        body = await response.aread()
                        raise _refusal(response.status_code, response.headers, body)
                    self.id = response.headers["x-stream-id"]
                    async for data in response.aiter_bytes():
                        for edit in reading.feed(data):
                            failures = 0
                            yield edit
            except httpx2.ConnectError as error:
                if not self.id:
                    raise _unreachable(client.url, error) from error
            except httpx2.TransportError:
                pass
            if reading.rollout is None:
                failures += 1
                if failures > _most(client.retries, self.id):
                    raise _unreachable(client.url, "the connection breaks again and again")
                reading.lose()
                await asyncio.sleep(_pause(failures))


class Client:
    """Asks a server; settings are those of `DecodeConfig`, by name.

    `timeout` is how many seconds the server may say nothing, `retries` how often in a row a
    stream may break.
    """

    def __init__(
        self, url: str, *, api_key: str | None = None, timeout: float = 600.0, retries: int = 5
    ) -> None:
        self.url = _address(url)
        self.retries = retries
        self._http = httpx2.Client(**_options(self.url, api_key, timeout))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def generate(self, prompt: str = "", **settings: Any) -> Rollout:
        """Write on behind a prompt, which stays as it is."""
        return self._rollout("/v1/generate", _asked(settings, prompt=prompt))

    def infill(self, text: str, spans: Spans | None = None, **settings: Any) -> Rollout:
        """Fill the gaps of a text, marked with {} or given as spans of characters to rewrite."""
        return self._rollout("/v1/infill", _asked(settings, **_gaps(text, spans)))

    def revise(self, draft: str, *, locked: Locked = (), **options: Any) -> Revision:
        """Edit a text; options are those of `Reviser.revise`."""
        return Revision.from_json(self._ask("POST", "/v1/revise", _draft(draft, locked, options)))

    def stream(self, prompt: str = "", **settings: Any) -> Stream:
        """Write on behind a prompt, edit by edit."""
        return Stream(self, "/v1/generate", _asked(settings, prompt=prompt))

    def stream_infill(self, text: str, spans: Spans | None = None, **settings: Any) -> Stream:
        """Fill gaps, edit by edit."""
        return Stream(self, "/v1/infill", _asked(settings, **_gaps(text, spans)))

    def stream_revise(self, draft: str, *, locked: Locked = (), **options: Any) -> Stream:
        """Edit a text of one part, edit by edit."""
        return Stream(self, "/v1/revise", _draft(draft, locked, options))

    def models(self) -> list[str]:
        """What the server has."""
        return _names(self._ask("GET", "/v1/models"))

    def is_ready(self) -> bool:
        """Whether it takes requests."""
        try:
            return bool(self._http.get("/ready").status_code == 200)
        except httpx2.TransportError:
            return False

    def _rollout(self, path: str, asked: dict[str, Any]) -> Rollout:
        return Rollout.from_json(self._ask("POST", path, asked))

    def _ask(self, method: str, path: str, asked: dict[str, Any] | None = None) -> str:
        try:
            response = self._http.request(method, path, json=asked)
        except httpx2.TransportError as error:
            raise _unreachable(self.url, error) from error
        return _text(response)


class AsyncClient:
    """The same for asyncio."""

    def __init__(
        self, url: str, *, api_key: str | None = None, timeout: float = 600.0, retries: int = 5
    ) -> None:
        self.url = _address(url)
        self.retries = retries
        self._http = httpx2.AsyncClient(**_options(self.url, api_key, timeout))

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def generate(self, prompt: str = "", **settings: Any) -> Rollout:
        """Write on behind a prompt, which stays as it is."""
        return await self._rollout("/v1/generate", _asked(settings, prompt=prompt))

    async def infill(self, text: str, spans: Spans | None = None, **settings: Any) -> Rollout:
        """Fill the gaps of a text, marked with {} or given as spans of characters to rewrite."""
        return await self._rollout("/v1/infill", _asked(settings, **_gaps(text, spans)))

    async def revise(self, draft: str, *, locked: Locked = (), **options: Any) -> Revision:
        """Edit a text; options are those of `Reviser.revise`."""
        asked = _draft(draft, locked, options)
        return Revision.from_json(await self._ask("POST", "/v1/revise", asked))

    def stream(self, prompt: str = "", **settings: Any) -> AsyncStream:
        """Write on behind a prompt, edit by edit."""
        return AsyncStream(self, "/v1/generate", _asked(settings, prompt=prompt))

    def stream_infill(self, text: str, spans: Spans | None = None, **settings: Any) -> AsyncStream:
        """Fill gaps, edit by edit."""
        return AsyncStream(self, "/v1/infill", _asked(settings, **_gaps(text, spans)))

    def stream_revise(self, draft: str, *, locked: Locked = (), **options: Any) -> AsyncStream:
        """Edit a text of one part, edit by edit."""
        return AsyncStream(self, "/v1/revise", _draft(draft, locked, options))

    async def models(self) -> list[str]:
        """What the server has."""
        return _names(await self._ask("GET", "/v1/models"))

    async def is_ready(self) -> bool:
        """Whether it takes requests."""
        try:
            return bool((await self._http.get("/ready")).status_code == 200)
        except httpx2.TransportError:
            return False

    async def _rollout(self, path: str, asked: dict[str, Any]) -> Rollout:
        return Rollout.from_json(await self._ask("POST", path, asked))

    async def _ask(self, method: str, path: str, asked: dict[str, Any] | None = None) -> str:
        try:
            response = await self._http.request(method, path, json=asked)
        except httpx2.TransportError as error:
            raise _unreachable(self.url, error) from error
        return _text(response)


def _address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"The address {url!r} must begin with http:// or https://.")
    return url.rstrip("/").removesuffix("/v1")  # which other clients want


def _options(url: str, api_key: str | None, timeout: float) -> dict[str, Any]:
    return {
        "base_url": url,
        "timeout": httpx2.Timeout(timeout, connect=min(timeout, 10.0)),
        "limits": httpx2.Limits(max_connections=None),
        "headers": {"Authorization": f"Bearer {api_key}"} if api_key else {},
    }


def _asked(settings: dict[str, Any], **what: Any) -> dict[str, Any]:
    """A body; how it is counted and sent is the client's business."""
    for name in ("stream", "unit"):
        if name in settings:
            raise ConfigError(f"{name!r} is not for callers: offsets are of characters here, and"
                              " stream, stream_infill and stream_revise are"
                              " methods.")  # fmt: skip
    return what | settings


def _gaps(text: str, spans: Spans | None) -> dict[str, Any]:
    return {"text": text} | ({} if spans is None else {"spans": [list(span) for span in spans]})


def _draft(draft: str, locked: Locked, options: dict[str, Any]) -> dict[str, Any]:
    parts = [locked] if isinstance(locked, str) else locked
    asked = [part if isinstance(part, str) else list(part) for part in parts]
    return _asked(options, draft=draft, locked=asked)


def _stream_request(
    path: str, asked: dict[str, Any], stream: str, reading: _Reading
) -> dict[str, Any]:
    """To begin a stream, or to go on with it."""
    if not stream:
        return {"method": "POST", "url": path, "json": {**asked, "stream": True}}
    return {"method": "GET", "url": f"/v1/streams/{stream}", "headers": reading.headers}


def _most(retries: int, stream: str) -> int:
    """Before an answer one more try is enough: the server may be writing for each."""
    return retries if stream else min(retries, 1)


def _pause(failures: int) -> float:
    return float(min(0.1 * 2 ** (failures - 1), 5.0))


def _names(answer: str) -> list[str]:
    return [model["id"] for model in json.loads(answer)["data"]]


def _text(response: Any) -> str:
    if response.status_code != 200:
        raise _refusal(response.status_code, response.headers, response.content)
    return str(response.text)


def _refusal(status: int, headers: Any, body: bytes) -> ReviserError:
    try:
        message = str(json.loads(body)["error"]["message"])
    except (KeyError, TypeError, ValueError):
        message = f"The server answered with status {status}."
    wait = headers.get("retry-after", "")
    return _problem(status, message, int(wait) if wait.isdigit() else None)


def _problem(status: int, message: str, retry_after: int | None = None) -> ReviserError:
    if status == 400:
        return ConfigError(message)
    if status == 502:
        return EngineError(message)
    return RequestRefused(message, status, retry_after)


def _unreachable(url: str, reason: object) -> EngineError:
    return EngineError(f"The server at {url} cannot be reached: {reason}. Is it running?")
