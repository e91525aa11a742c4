"""The work that the routes share: turn a request into a run and its result into a response.

It is given a `Reviser`, so it knows neither which engine runs nor where the model came from. Tasks
check texts and settings; this module adds the limits of the server.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from copy import copy
from functools import partial
from typing import Any

from fastapi import Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.background import BackgroundTask
from starlette.responses import Response

from reviser.core.codec import OffsetUnit, TextEdit
from reviser.engines.settings import DecodeConfig
from reviser.errors import ConfigError
from reviser.model import Reviser, Stream
from reviser.player.playground import PageText
from reviser.serve.failures import error_body, json_response
from reviser.serve.limits import Limits
from reviser.serve.metrics import Metrics
from reviser.serve.runs import Job, Runs, rollouts_of
from reviser.serve.schema import Failure, Settings, StreamableBody
from reviser.serve.units import revision_body
from reviser.writing.driver import Run
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import Task

Responses = dict[int | str, dict[str, Any]]
CLIENT_CLOSED = 499
"""nginx's status code for a client that disconnected; no client ever receives it."""
CHARACTERS_PER_TOKEN = 8
"""A text with more characters than this for each token of the limit is not even encoded."""
MAX_WINDOWS = 320
"""Windows that a draft may have."""
PING_SECONDS = 15.0
"""Time between pings on a silent stream."""
SEND_SECONDS = 60.0
"""A client that takes nothing of a stream for so long is disconnected."""

FAILURES: Responses = {
    400: {"model": Failure, "description": "The request is not valid; the message says why."},
    401: {"model": Failure, "description": "No valid key."},
    413: {"model": Failure, "description": "The body is too large."},
    429: {"model": Failure, "description": "Too many requests; Retry-After says how long to wait."},
    502: {"model": Failure, "description": "The engine failed while it ran this request."},
    503: {"model": Failure, "description": "The server is shutting down or its engine is down."},
}
_TEXT = {"type": "string"}
_EVENT = {
    "type": "object",
    "properties": {"id": _TEXT, "event": _TEXT, "data": _TEXT},
    "required": ["data"],
}
EVENTS = {"text/event-stream": {"schema": _EVENT}}

_encode = json.JSONEncoder(ensure_ascii=False).encode  # built once: it runs for every action


class Service:
    """The model, limits, metrics and runs of one server."""

    def __init__(self, reviser: Reviser, limits: Limits, name: str, page_text: PageText) -> None:
        # Rollouts and errors name the model as clients know it, not by its folder.
        self.reviser = copy(reviser)
        self.reviser.provenance = reviser.provenance | {"model": name}
        self.limits = limits
        self.name = name
        self.page_text = page_text
        self.created = int(time.time())
        self.metrics = Metrics()
        self.runs = Runs(self.reviser, limits, self.metrics)

    async def respond(self, request: Request, body: StreamableBody) -> Response:
        """Run the task of a request; respond with JSON or a stream, as the body asks."""
        if body.stream:
            return await self._stream(request, body)
        result = await self.run(request, body, body.texts(), body.task)
        if result is None:
            return Response(status_code=CLIENT_CLOSED)

        def write() -> Response:
            if isinstance(result, Revision):
                return json_response(revision_body(result, body.unit))
            return json_response(result.to_json())

        return await asyncio.to_thread(write)  # a long draft takes a while

    async def run(
        self,
        request: Request,
        settings: Settings,
        texts: Sequence[str],
        make_task: Callable[[], Task],
    ) -> Rollout | Revision | None:
        """Run a task and return its result; None if the client disconnects first."""
        self._check_size(texts)

        def start() -> Run[Any]:
            task = make_task()
            config = self._config(task, settings)
            flow = self.reviser.flow(
                task, config, max_prompts=MAX_WINDOWS, max_tokens=self.limits.prompt_tokens
            )
            return Run(flow, self.reviser.driver)

        job = self.runs.admit(start)
        try:
            if await _unless_disconnected(request, job.ended.wait()) is None:
                return None
        finally:
            self.runs.leave(job)
        if job.error is not None:
            raise job.error
        _record(request, job.result)
        result: Rollout | Revision = job.result
        return result

    async def _stream(self, request: Request, body: StreamableBody) -> Response:
        self._check_size(body.texts())

        def start() -> Stream:
            task = body.task()
            config, most = self._config(task, body), self.limits.prompt_tokens
            return self.reviser.stream(task, config, unit=body.unit, max_tokens=most)

        job = self.runs.admit(start, partial(_tell, self.runs, body.unit))
        has_begun = False
        try:
            if await _unless_disconnected(request, job.begun.wait()) is None:
                return Response(status_code=CLIENT_CLOSED)
            has_begun = True
        finally:
            if not has_begun:
                self.runs.leave(job)
        if job.error is not None and job.news.qsize() == 1:
            raise job.error  # it was refused, so there is nothing to stream
        return EventSourceResponse(
            self._events(request, job),
            sep="\n",
            ping=PING_SECONDS,
            send_timeout=SEND_SECONDS,
            # The client may be gone before the first event is asked for.
            background=BackgroundTask(self.runs.leave, job),
        )

    async def _events(self, request: Request, job: Job) -> AsyncIterator[ServerSentEvent]:
        """Yield the events of a stream; the last one has the result or the error."""
        number = 0
        try:
            while (event := await job.news.get()) is not None:
                yield _event(number, *event)
                number += 1
            if job.error is not None:
                yield _event(number, "failure", json.dumps(error_body(job.error)))
            else:
                _record(request, job.result)
                yield _event(number, "done", job.result.to_json())
        finally:
            self.runs.leave(job)

    def _check_size(self, texts: Sequence[str]) -> None:
        characters, limit = sum(map(len, texts)), CHARACTERS_PER_TOKEN * self.limits.prompt_tokens
        if characters > limit:
            raise ConfigError(
                f"Your text is {characters:,} characters long; this server's limit is {limit:,}."
            )

    def _config(self, task: Task, body: Settings) -> DecodeConfig:
        """Return the config of a request, within the limits of the server."""
        limits, settings = self.limits, body.settings()
        if settings.get("max_actions", 1) > limits.max_actions:
            raise ConfigError(
                f"max_actions is {settings['max_actions']}; this server's limit is"
                f" {limits.max_actions}."
            )
        settings.setdefault("max_actions", min(DecodeConfig.max_actions, limits.max_actions))
        length = settings.get("max_length")
        settings["max_length"] = min(
            limits.max_length if length is None else length, limits.max_length
        )
        return DecodeConfig.of(settings, task.default_config)


def _tell(runs: Runs, unit: OffsetUnit, job: Job, run: Stream, edit: TextEdit | None) -> None:
    """Pass on what happened to a text; its thread calls this."""
    writing = run.writing
    if edit is None:
        start = {"text": writing.text, "cursor": writing.cursor, "unit": unit}
        runs.in_loop(job.tell, ("start", _encode(start)))
        return
    job.steps += 1
    data = {
        "step": job.steps,
        "kind": writing.kind,
        "offset": edit.offset,
        "removed": edit.removed,
        "inserted": edit.inserted,
        "cursor": edit.cursor,
        "logprob": writing.logprob,
    }
    runs.in_loop(job.tell, ("edit", _encode(data)))


def _event(number: int, kind: str, data: str) -> ServerSentEvent:
    return ServerSentEvent(data, event=kind, id=str(number), sep="\n")


async def _unless_disconnected(request: Request, work: Coroutine[Any, Any, Any]) -> Any:
    """Return what comes of some work; None if the client disconnects first."""

    async def leave() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(leave())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else None
    finally:
        for task in tasks:
            task.cancel()


def _record(request: Request, result: Rollout | Revision) -> None:
    """Add to the request's log line what its result cost and how it ended."""
    actions = sum(rollout.statistics.actions for rollout in rollouts_of(result))
    request.state.log_fields.update(actions=actions, stop_reason=result.stop_reason)
