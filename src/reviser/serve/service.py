"""The work that the routes share: turn a request into a run and its result into a response.

It is given a `Reviser`, so it knows neither which engine runs nor where the model came from. Tasks
check texts and settings; this module adds the limits of the server.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Coroutine
from copy import copy
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

from fastapi import Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.background import BackgroundTask
from starlette.responses import Response

from reviser.core.codec import TextEdit
from reviser.engines.settings import DecodeConfig
from reviser.errors import ConfigError, RequestRefused, ReviserError
from reviser.model import Reviser, Stream
from reviser.player.playground import PageText
from reviser.proofread.shown import without
from reviser.serve.failures import error_body, json_response
from reviser.serve.limits import Limits
from reviser.serve.metrics import Metrics
from reviser.serve.runs import Runs, actions_of, forget
from reviser.serve.schema import ReviseBody, StreamableBody, TaskBody
from reviser.serve.units import revision_body
from reviser.writing.driver import Run
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import Task

T = TypeVar("T")
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
        result = await self.run(request, body)

        def write() -> Response:
            if isinstance(result, Revision):
                return json_response(revision_body(result, body.unit))
            return json_response(result.to_json())

        return await asyncio.to_thread(write)  # a long draft takes a while

    async def run(self, request: Request, body: TaskBody) -> Rollout | Revision:
        """Run the task of a request and return its result."""
        self._check_size(body)

        def start() -> Run[Any]:
            task = body.task()
            config, most = self._config(task, body), self.limits.prompt_tokens
            model = self._model(body)
            return Run(
                model.flow(task, config, max_prompts=MAX_WINDOWS, max_tokens=most), model.driver
            )

        result: Rollout | Revision = await _unless_disconnected(request, self.runs.run(start))
        _record(request, result)
        return result

    async def _stream(self, request: Request, body: StreamableBody) -> Response:
        """Respond with the events of a text; an error before the first of them is a refusal."""
        self._check_size(body)
        loop, steps = asyncio.get_running_loop(), count(1)
        events: asyncio.Queue[tuple[str, str] | None] = asyncio.Queue()  # None is the end

        def start() -> Stream:
            task = body.task()
            config, most = self._config(task, body), self.limits.prompt_tokens
            return self._model(body).stream(task, config, unit=body.unit, max_tokens=most)

        def notice(run: Stream, edit: TextEdit | None) -> None:
            if edit is None:
                event = "start", {"text": run.text, "cursor": run.cursor, "unit": body.unit}
            else:
                event = "edit", _edit_data(next(steps), run, edit)
            loop.call_soon_threadsafe(events.put_nowait, (event[0], _encode(event[1])))

        work = asyncio.create_task(self.runs.run(start, notice))
        work.add_done_callback(forget)
        work.add_done_callback(lambda _: events.put_nowait(None))
        try:
            first = await _unless_disconnected(request, events.get())
        except BaseException:
            work.cancel()
            raise
        if first is None:
            work.result()  # raises the refusal

        async def leave() -> None:
            work.cancel()

        return EventSourceResponse(
            _follow(request, first, events, work),
            sep="\n",
            ping=PING_SECONDS,
            send_timeout=SEND_SECONDS,
            # The client may be gone before the first event is asked for.
            background=BackgroundTask(leave),
        )

    def _model(self, body: TaskBody) -> Reviser:
        """Return the model, as a request for a proofreader wants it."""
        if not isinstance(body, ReviseBody) or not (body.words or body.sure):
            return self.reviser
        tools = self.reviser.proofreading
        if tools is None:
            raise ConfigError(
                "`words` and `sure` are for a proofreader. This server has another"
                " model. Leave them out."
            )
        model = copy(self.reviser)
        model.proofreading = replace(
            tools,
            proposers=[without(each, body.words, ()) for each in tools.proposers],
            judge=None if body.sure else tools.judge,
        )
        return model

    def _check_size(self, body: TaskBody) -> None:
        characters = sum(map(len, body.texts()))
        limit = CHARACTERS_PER_TOKEN * self.limits.prompt_tokens
        if characters > limit:
            raise ConfigError(
                f"Your text is {characters:,} characters long; this server's limit is {limit:,}."
            )

    def _config(self, task: Task, body: TaskBody) -> DecodeConfig:
        """Return the config of a request, within the limits of the server."""
        limits, settings = self.limits, body.settings()
        most = limits.max_actions
        if settings.setdefault("max_actions", min(DecodeConfig.max_actions, most)) > most:
            raise ConfigError(
                f"The request asks for {settings['max_actions']} actions; this server's limit is"
                f" {most}."
            )
        if settings.get("max_length") is None or settings["max_length"] > limits.max_length:
            settings["max_length"] = limits.max_length
        return DecodeConfig.of(settings, task.default_config)


async def _follow(
    request: Request,
    event: tuple[str, str] | None,
    events: asyncio.Queue[tuple[str, str] | None],
    work: asyncio.Task[Any],
) -> AsyncIterator[ServerSentEvent]:
    """Yield the events of a stream; the last one has the result or the error."""
    number = 0
    try:
        while event is not None:
            yield _event(number, *event)
            event, number = await events.get(), number + 1
        try:
            result = work.result()
        except ReviserError as error:
            yield _event(number, "failure", json.dumps(error_body(error)))
        else:
            _record(request, result)
            yield _event(number, "done", result.to_json())
    finally:
        work.cancel()


def _event(number: int, kind: str, data: str) -> ServerSentEvent:
    return ServerSentEvent(data, event=kind, id=str(number), sep="\n")


def _edit_data(step: int, run: Stream, edit: TextEdit) -> dict[str, Any]:
    return {
        "step": step,
        "kind": run.writing.kind,
        "offset": edit.offset,
        "removed": edit.removed,
        "inserted": edit.inserted,
        "cursor": edit.cursor,
        "logprob": run.writing.logprob,
    }


async def _unless_disconnected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work, which is cancelled if the client disconnects first."""

    async def leave() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    left, done = asyncio.create_task(leave()), asyncio.create_task(work)
    try:
        await asyncio.wait([left, done], return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise RequestRefused("The client disconnected.", CLIENT_CLOSED)
        return done.result()
    finally:
        left.cancel()
        done.cancel()


def _record(request: Request, result: Rollout | Revision) -> None:
    """Add to the request's log line what its result cost and how it ended."""
    request.state.log_fields.update(actions=actions_of(result), stop_reason=result.stop_reason)
