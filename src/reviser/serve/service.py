"""The work that the routes share: turn a request into a plan, queue it and await its result.

It is given a `Reviser`, so it knows neither which engine runs nor where the model came from. Tasks
check texts and settings; this module adds the limits of the server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

from fastapi import Request
from starlette.responses import Response

from reviser.core.codec import OffsetUnit
from reviser.engines.settings import DecodeConfig
from reviser.errors import ConfigError
from reviser.player.playground import PageText
from reviser.serve.jobs import EngineJob
from reviser.serve.limits import Limits
from reviser.serve.metrics import Metrics
from reviser.serve.queue import RequestQueue
from reviser.serve.quotas import Quotas
from reviser.serve.responses import EventStream, JsonResponse, finished_before_disconnect
from reviser.serve.schema import Failure, Settings, StreamableBody
from reviser.serve.units import revision_body
from reviser.writing.model import Reviser
from reviser.writing.plan import Plan
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.session import Writing
from reviser.writing.tasks import Task

Responses = dict[int | str, dict[str, Any]]
CLIENT_CLOSED = 499
"""nginx's status code for a client that disconnected; no client ever receives it."""

FAILURES: Responses = {
    400: {"model": Failure, "description": "The request is not valid; the message says why."},
    401: {"model": Failure, "description": "No valid key."},
    408: {"model": Failure, "description": "The body did not arrive in time."},
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


class Service:
    """The model, limits, metrics and queue of one server."""

    def __init__(self, reviser: Reviser, limits: Limits, name: str, page_text: PageText) -> None:
        # Rollouts and errors name the model as clients know it, not by its folder.
        self.reviser = copy(reviser)
        self.reviser.provenance = reviser.provenance | {"model": name}
        self.limits = limits
        self.name = name
        self.page_text = page_text
        self.created = int(time.time())
        self.metrics = Metrics()
        self.queue = RequestQueue(self.reviser, limits, self.metrics)
        self.quotas = Quotas(limits)

    async def respond(self, request: Request, body: StreamableBody) -> Response:
        """Run the task of a request; respond with JSON or a stream, as the body asks."""
        plan, jobs = await self.submit(
            request, body, body.texts(), body.task, is_stream=body.stream, unit=body.unit
        )
        if body.stream:
            return self.stream(jobs[0])
        rollouts = await self.rollouts(request, jobs)
        if not rollouts:
            return Response(status_code=CLIENT_CLOSED)

        def write() -> Response:
            result = plan.result(rollouts)
            if isinstance(result, Revision):
                return JsonResponse(revision_body(result, body.unit))
            return JsonResponse(result.to_json())

        return await asyncio.to_thread(write)  # a long draft takes a while

    async def submit(
        self,
        request: Request,
        settings: Settings,
        texts: Sequence[str],
        make_task: Callable[[], Task],
        *,
        is_stream: bool = False,
        unit: OffsetUnit = "char",
    ) -> tuple[Plan, list[EngineJob]]:
        """Plan a task and queue its parts."""
        self._check_size(texts)
        owner, began = request.state.owner, request.state.began
        max_parts = self.queue.capacity(owner)

        def prepare() -> tuple[Plan, list[Writing]]:
            plan = self._plan(make_task(), settings, max_parts, is_stream=is_stream)
            return plan, [self.reviser.start(part, unit=unit) for part in plan.parts]

        with self.queue.entering(owner):  # long texts take a while
            quota = self.quotas.of(owner)
            planned = asyncio.to_thread(prepare) if quota is None else quota.plan(prepare)
            plan, writings = await planned
        jobs = self.queue.add(writings, owner=owner, is_stream=is_stream, unit=unit, began=began)
        return plan, jobs

    def _check_size(self, texts: Sequence[str]) -> None:
        characters, limit = sum(map(len, texts)), self.limits.prompt_characters
        if characters > limit:
            raise ConfigError(
                f"Your text is {characters:,} characters long; this server's limit is {limit:,}."
            )

    def _plan(self, task: Task, settings: Settings, max_parts: int, *, is_stream: bool) -> Plan:
        plan = self.reviser.plan(
            task,
            self._config(task, settings),
            max_parts=max_parts,
            max_tokens=self.limits.prompt_tokens,
        )
        if is_stream and len(plan.parts) > 1:
            raise ConfigError(
                f"This draft is revised in {len(plan.parts)} windows, whose edits"
                " cannot be streamed as one. Leave out stream, use a larger window, or send a"
                " shorter draft."
            )
        return plan

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

    async def rollouts(self, request: Request, jobs: list[EngineJob]) -> list[Rollout]:
        """Wait for the rollouts of all jobs; none if the client disconnects first.

        The first error ends all of them.
        """
        work = asyncio.gather(*(job.result() for job in jobs))
        try:
            if await finished_before_disconnect(request, work):
                rollouts = list(await work)
                record(request, *rollouts)
                return rollouts
        finally:
            if not work.done():
                work.cancel()
            for job in jobs:
                self.queue.cancel(job, by="client")
        return []

    def stream(self, job: EngineJob) -> EventStream:
        """Return a response with the events of a stream; a client that leaves cancels it."""
        leave = partial(self.queue.cancel, job, by="client")
        return EventStream(job.events(self.limits.ping_seconds), leave)


def record(request: Request, *rollouts: Rollout) -> None:
    """Add to the request's log line what its rollouts cost and how they ended.

    Of several parts it records the first one that did not stop by itself.
    """
    actions = sum(rollout.statistics.actions for rollout in rollouts)
    reasons = [rollout.stop_reason for rollout in rollouts]
    reason = next((reason for reason in reasons if reason != "stop"), "stop")
    request.state.facts.update(actions=actions, stop_reason=reason)
