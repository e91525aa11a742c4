"""Clients of `reviser serve`, with and without asyncio.

They build the same tasks as `Reviser` and return the same results. They need httpx2, but neither
torch nor a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack, overload

from reviser.engines.settings import DecodeConfig, DecodeSettings
from reviser.markup.spans import Span
from reviser.serve.client_streams import AsyncEditStream, EditStream
from reviser.serve.client_wire import (
    PATHS,
    StreamedEdit,
    changed_settings,
    http_options,
    httpx2,
    read_model_names,
    read_revision,
    read_rollout,
    read_text,
    request_body,
    request_failed,
)
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import (
    CONTEXT,
    WINDOW,
    Continue,
    Infill,
    Revise,
    Task,
)

__all__ = ["AsyncClient", "AsyncEditStream", "Client", "EditStream", "StreamedEdit"]

_Result = TypeVar("_Result", Rollout, Revision)


class Client:
    """A client of one server; settings are the fields of `DecodeConfig`.

    Args:
        url: The address of the server, such as http://localhost:8000.
        api_key: The key to send, if the server asks for one.
        timeout: Seconds that the server may be silent.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 600.0) -> None:
        self.url = url
        self._http = httpx2.Client(**http_options(url, api_key, timeout))

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
        changed = changed_settings(task, config)
        if isinstance(task, Revise):
            return self._run(task, changed, read_revision)
        return self._run(task, changed, read_rollout)

    def stream(
        self,
        task: Task,
        config: DecodeConfig | None = None,
        **settings: Unpack[DecodeSettings],
    ) -> EditStream:
        """Run a task and get its edits as they happen."""
        changed = changed_settings(task, config) | settings
        return EditStream(self._http, self.url, task, changed)

    def generate(self, prompt: str = "", **settings: Unpack[DecodeSettings]) -> Rollout:
        """Continue a prompt, which is never changed."""
        return self._run(Continue(prompt), settings, read_rollout)

    def infill(
        self, text: str, spans: Sequence[Span] | None = None, **settings: Unpack[DecodeSettings]
    ) -> Rollout:
        """Fill the gaps of a text, marked with {} or given as spans of characters to rewrite."""
        return self._run(Infill(text, spans), settings, read_rollout)

    def revise(
        self,
        draft: str,
        *,
        instruction: str = "",
        locked: Sequence[str | Span] = (),
        min_edit_probability: float | None = None,
        precision: float | None = None,
        window: int = WINDOW,
        context: int = CONTEXT,
        **settings: Unpack[DecodeSettings],
    ) -> Revision:
        """Edit a draft where it needs it; `Revise` describes the options."""
        task = Revise(
            draft,
            instruction=instruction,
            locked=locked,
            min_edit_probability=min_edit_probability,
            precision=precision,
            window=window,
            context=context,
        )
        return self._run(task, settings, read_revision)

    def models(self) -> list[str]:
        """Return the names of the server's models."""
        return read_model_names(self._send("GET", "/v1/models"))

    def is_ready(self) -> bool:
        """Return whether the server accepts requests."""
        try:
            return bool(self._http.get("/ready").status_code == 200)
        except httpx2.RequestError:
            return False

    def _run(
        self, task: Task, settings: Mapping[str, object], read: Callable[[str], _Result]
    ) -> _Result:
        body = request_body(task, settings)
        return read(self._send("POST", PATHS[type(task)], body))

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> str:
        try:
            return read_text(self._http.request(method, path, json=body))
        except httpx2.RequestError as error:
            raise request_failed(self.url, error) from error


class AsyncClient:
    """A `Client` for asyncio: the same methods and parameters, to be awaited."""

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 600.0) -> None:
        self.url = url
        self._http = httpx2.AsyncClient(**http_options(url, api_key, timeout))

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
        changed = changed_settings(task, config)
        if isinstance(task, Revise):
            return await self._run(task, changed, read_revision)
        return await self._run(task, changed, read_rollout)

    def stream(
        self,
        task: Task,
        config: DecodeConfig | None = None,
        **settings: Unpack[DecodeSettings],
    ) -> AsyncEditStream:
        """Run a task and get its edits as they happen."""
        changed = changed_settings(task, config) | settings
        return AsyncEditStream(self._http, self.url, task, changed)

    async def generate(self, prompt: str = "", **settings: Unpack[DecodeSettings]) -> Rollout:
        """Continue a prompt, which is never changed."""
        return await self._run(Continue(prompt), settings, read_rollout)

    async def infill(
        self, text: str, spans: Sequence[Span] | None = None, **settings: Unpack[DecodeSettings]
    ) -> Rollout:
        """Fill the gaps of a text, marked with {} or given as spans of characters to rewrite."""
        return await self._run(Infill(text, spans), settings, read_rollout)

    async def revise(
        self,
        draft: str,
        *,
        instruction: str = "",
        locked: Sequence[str | Span] = (),
        min_edit_probability: float | None = None,
        precision: float | None = None,
        window: int = WINDOW,
        context: int = CONTEXT,
        **settings: Unpack[DecodeSettings],
    ) -> Revision:
        """Edit a draft where it needs it; `Revise` describes the options."""
        task = Revise(
            draft,
            instruction=instruction,
            locked=locked,
            min_edit_probability=min_edit_probability,
            precision=precision,
            window=window,
            context=context,
        )
        return await self._run(task, settings, read_revision)

    async def models(self) -> list[str]:
        """Return the names of the server's models."""
        return read_model_names(await self._send("GET", "/v1/models"))

    async def is_ready(self) -> bool:
        """Return whether the server accepts requests."""
        try:
            return bool((await self._http.get("/ready")).status_code == 200)
        except httpx2.RequestError:
            return False

    async def _run(
        self, task: Task, settings: Mapping[str, object], read: Callable[[str], _Result]
    ) -> _Result:
        body = request_body(task, settings)
        return read(await self._send("POST", PATHS[type(task)], body))

    async def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> str:
        try:
            return read_text(await self._http.request(method, path, json=body))
        except httpx2.RequestError as error:
            raise request_failed(self.url, error) from error
