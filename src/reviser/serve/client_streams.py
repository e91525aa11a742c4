"""Streams of edits from a server, with and without asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Any

from reviser.errors import ReviserError
from reviser.serve.client_wire import (
    StreamedEdit,
    StreamState,
    httpx2,
    refusal,
    request_failed,
    stream_request,
    unreachable,
)
from reviser.writing.rollout import Rollout
from reviser.writing.tasks import Task


class _Stream:
    """The properties that both kinds of stream share."""

    def __init__(self) -> None:
        self._state = StreamState()

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

    `text` and `cursor` follow the edits; `rollout` waits for the end.
    """

    def __init__(self, http: httpx2.Client, url: str, task: Task, settings: dict[str, Any]) -> None:
        super().__init__()
        self._edits = self._follow(http, url, task, settings)
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

    def close(self) -> None:
        """Close the connection; the server stops writing. `text` has what arrived until now."""
        self._edits.close()

    def _follow(
        self, http: httpx2.Client, url: str, task: Task, settings: dict[str, Any]
    ) -> Generator[StreamedEdit | None, None, None]:
        """Yield None once the server has accepted the request, then the edits."""
        state = self._state
        try:
            with http.sse(**stream_request(task, settings)) as events:
                if events.response.status_code != 200:
                    events.response.read()
                    raise refusal(events.response)
                events.response.encoding = "utf-8"  # whatever the header says
                yield None
                for event in events:
                    if (edit := state.take(event)) is not None:
                        yield edit
        except httpx2.RequestError as error:
            raise request_failed(url, error) from error
        if state.rollout is None:
            raise unreachable(url, "the connection was lost")


class AsyncEditStream(_Stream):
    """An `EditStream` for asyncio: use `async for`, and `await stream.rollout()`."""

    def __init__(
        self, http: httpx2.AsyncClient, url: str, task: Task, settings: dict[str, Any]
    ) -> None:
        super().__init__()
        self._edits = self._follow(http, url, task, settings)

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

    async def aclose(self) -> None:
        """Close the connection; the server stops writing. `text` has what arrived until now."""
        await self._edits.aclose()

    async def _follow(
        self, http: httpx2.AsyncClient, url: str, task: Task, settings: dict[str, Any]
    ) -> AsyncGenerator[StreamedEdit, None]:
        state = self._state
        try:
            async with http.sse(**stream_request(task, settings)) as events:
                if events.response.status_code != 200:
                    await events.response.aread()
                    raise refusal(events.response)
                events.response.encoding = "utf-8"  # whatever the header says
                async for event in events:
                    if (edit := state.take(event)) is not None:
                        yield edit
        except httpx2.RequestError as error:
            raise request_failed(url, error) from error
        if state.rollout is None:
            raise unreachable(url, "the connection was lost")
