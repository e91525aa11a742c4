"""Streams of edits from a server, with and without asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Any

from reviser.errors import ReviserError
from reviser.serve.client_wire import (
    MAX_EVENT_BYTES,
    Retries,
    StreamedEdit,
    StreamState,
    httpx2,
    read_text,
    refusal,
    request_failed,
    unreachable,
)
from reviser.writing.rollout import Rollout
from reviser.writing.tasks import Task


class _Stream:
    """The properties that both kinds of stream share."""

    def __init__(self) -> None:
        self._state = StreamState()

    @property
    def id(self) -> str:
        """The server's id of this stream."""
        return self._state.id

    @property
    def text(self) -> str:
        """The text after the edits so far."""
        return self._state.text

    @property
    def cursor(self) -> int:
        """The position of the cursor in the text."""
        return self._state.cursor


class EditStream(_Stream):
    """A text being written on a server: iterate to get its edits, in order, each once.

    A broken connection is resumed where it broke. `text` and `cursor` follow the edits; `rollout`
    waits for the end.
    """

    def __init__(
        self, http: httpx2.Client, url: str, retries: int, task: Task, settings: dict[str, Any]
    ) -> None:
        super().__init__()
        self._http = http
        self._url = url
        self._edits = self._follow(Retries(retries, url), task, settings)
        next(self._edits)  # returns once the server has accepted the request

    def __iter__(self) -> Iterator[StreamedEdit]:
        try:
            for edit in self._edits:
                if edit is not None:
                    yield edit
        except ReviserError as error:
            self._state.error = error
            raise

    def rollout(self) -> Rollout:
        """Wait for the end and return the rollout."""
        for _ in self:
            pass
        return self._state.result()

    def cancel(self) -> None:
        """Stop writing; the remaining edits and the rollout still arrive."""
        try:
            read_text(self._http.post(f"/v1/streams/{self.id}/cancel"))
        except httpx2.RequestError as error:
            raise request_failed(self._url, error) from error

    def close(self) -> None:
        """Stop reading; the server stops writing a few seconds later."""
        self._edits.close()

    def _follow(
        self, retries: Retries, task: Task, settings: dict[str, Any]
    ) -> Generator[StreamedEdit | None, None, None]:
        """Yield None once the server has accepted the request, then the edits."""
        state = self._state
        while state.rollout is None:
            is_new = not state.id
            request = state.request(task, settings)
            try:
                with self._http.sse(**request, max_event_size=MAX_EVENT_BYTES) as events:
                    if events.response.status_code != 200:
                        events.response.read()
                        raise refusal(events.response)
                    state.accept(events.response)
                    if is_new:
                        yield None
                    for event in events:
                        edit = state.take(event)
                        retries.failures = 0
                        if edit is not None:
                            yield edit
            except httpx2.RequestError as error:
                _raise_unless_resumable(error, state, self._url)
            if state.rollout is None:
                time.sleep(retries.pause(state))


class AsyncEditStream(_Stream):
    """An `EditStream` for asyncio: use `async for`, and `await stream.rollout()`."""

    def __init__(
        self, http: httpx2.AsyncClient, url: str, retries: int, task: Task, settings: dict[str, Any]
    ) -> None:
        super().__init__()
        self._http = http
        self._url = url
        self._edits = self._follow(Retries(retries, url), task, settings)

    async def __aiter__(self) -> AsyncIterator[StreamedEdit]:
        try:
            async for edit in self._edits:
                yield edit
        except ReviserError as error:
            self._state.error = error
            raise

    async def rollout(self) -> Rollout:
        """Wait for the end and return the rollout."""
        async for _ in self:
            pass
        return self._state.result()

    async def cancel(self) -> None:
        """Stop writing; the remaining edits and the rollout still arrive.

        Before the first edit was asked for, nothing is being written, so the stream is closed.
        """
        if not self.id:
            await self.aclose()
            return
        try:
            read_text(await self._http.post(f"/v1/streams/{self.id}/cancel"))
        except httpx2.RequestError as error:
            raise request_failed(self._url, error) from error

    async def aclose(self) -> None:
        """Stop reading; the server stops writing a few seconds later."""
        await self._edits.aclose()

    async def _follow(
        self, retries: Retries, task: Task, settings: dict[str, Any]
    ) -> AsyncGenerator[StreamedEdit, None]:
        state = self._state
        while state.rollout is None:
            request = state.request(task, settings)
            try:
                async with self._http.sse(**request, max_event_size=MAX_EVENT_BYTES) as events:
                    if events.response.status_code != 200:
                        await events.response.aread()
                        raise refusal(events.response)
                    state.accept(events.response)
                    async for event in events:
                        edit = state.take(event)
                        retries.failures = 0
                        if edit is not None:
                            yield edit
            except httpx2.RequestError as error:
                _raise_unless_resumable(error, state, self._url)
            if state.rollout is None:
                await asyncio.sleep(retries.pause(state))


def _raise_unless_resumable(error: httpx2.RequestError, state: StreamState, url: str) -> None:
    """Raise our error, unless it is a broken connection, which can be resumed."""
    if isinstance(error, httpx2.ConnectError) and not state.id:
        raise unreachable(url, error) from error
    if isinstance(error, httpx2.SSEError) or not isinstance(error, httpx2.TransportError):
        raise request_failed(url, error) from error
