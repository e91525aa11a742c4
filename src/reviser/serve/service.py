"""The work that the routes share: check a request against the limits, queue it, await its result.

It is given a `Reviser`, so it knows neither which engine runs nor where the model came from.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

from fastapi import Request
from starlette.responses import Response

from reviser.core.codec import Unit
from reviser.engines.base import DecodeConfig
from reviser.errors import ConfigError
from reviser.serve.jobs import EngineJob
from reviser.serve.limits import Limits
from reviser.serve.metrics import Metrics
from reviser.serve.queue import RequestQueue
from reviser.serve.responses import EventStream, JsonResponse, finished_before_disconnect
from reviser.serve.schema import Failure, Settings, StreamableBody
from reviser.writing.model import Reviser, Revision, Rollout, Writing
from reviser.writing.tasks import Plan

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

    def __init__(self, reviser: Reviser, limits: Limits, name: str) -> None:
        self.reviser = reviser
        self.limits = limits
        self.name = name
        self.created = int(time.time())
        self.metrics = Metrics()
        self.queue = RequestQueue(reviser, limits, self.metrics, name)

    def settings(self, asked: Settings) -> dict[str, Any]:
        """The settings of a request, within the limits."""
        limits, settings = self.limits, asked.settings()
        if settings.get("max_actions", 1) > limits.max_actions:
            raise ConfigError(
                f"max_actions is {settings['max_actions']}; this server takes"
                f" {limits.max_actions} or less."
            )
        settings.setdefault("max_actions", min(DecodeConfig.max_actions, limits.max_actions))
        length = settings.get("max_length")
        settings["max_length"] = min(
            limits.max_length if length is None else length, limits.max_length
        )
        return settings

    def check_prompt(self, text: str) -> None:
        """Refuse a text that is too long to be read."""
        if len(text) > self.limits.prompt_characters:
            raise ConfigError(
                f"The text has {len(text)} characters; this server takes"
                f" {self.limits.prompt_characters} or less."
            )

    def parts(self, plans: Iterable[Plan]) -> list[Plan]:
        """Plans for the parts of a draft that are together not too long, nor too many."""
        limits, kept, tokens = self.limits, [], 0
        for plan in plans:  # and no further than it takes to know
            kept.append(plan)
            tokens += len(plan.request.history)
            if tokens > limits.prompt_tokens:
                raise ConfigError(
                    f"The draft has {tokens} tokens or more, with what is shown around its parts;"
                    f" this server takes {limits.prompt_tokens} or less."
                )
            if len(kept) > limits.running + limits.waiting:
                raise ConfigError(
                    f"The draft has {len(kept)} parts or more; this server takes"
                    f" {limits.running + limits.waiting} or less: use a larger window."
                )
        return kept

    async def submit(
        self,
        request: Request,
        make: Callable[[], Iterable[Plan]],
        *,
        is_stream: bool = False,
        unit: Unit = "char",
    ) -> tuple[list[Plan], list[EngineJob]]:
        def prepare() -> tuple[list[Plan], list[Writing]]:
            plans = self.parts(make())
            if is_stream and len(plans) > 1:
                raise ConfigError(
                    f"The draft has {len(plans)} parts, which have no edits in common to stream:"
                    " leave out stream, use a larger window, or send less at a time."
                )
            return plans, [self.reviser.write(plan, unit=unit) for plan in plans]

        with self.queue.entering():
            plans, writings = await asyncio.to_thread(prepare)
        owner = request.state.owner
        return plans, self.queue.add(writings, owner=owner, is_stream=is_stream, unit=unit)

    async def rollouts(self, request: Request, jobs: list[EngineJob]) -> list[Rollout]:
        """The same for the parts of a text; the first error is that of all."""
        work = asyncio.gather(*(job.result() for job in jobs))
        try:
            if await finished_before_disconnect(request, work):
                rollouts = list(await work)
                note(request, *rollouts)
                return rollouts
        finally:
            if not work.done():
                work.cancel()
            for job in jobs:
                self.queue.cancel(job, by="client")
        return []

    async def answer(
        self, request: Request, body: StreamableBody, make: Callable[[], Plan]
    ) -> Response:
        """JSON or a stream, as the body says."""
        _, jobs = await self.submit(
            request, lambda: [make()], is_stream=body.stream, unit=body.unit
        )
        if body.stream:
            return self.stream(jobs[0])
        rollouts = await self.rollouts(request, jobs)
        return (
            JsonResponse(rollouts[0].to_json())
            if rollouts
            else Response(status_code=CLIENT_CLOSED)
        )

    async def revise(
        self, request: Request, draft: str, make: Callable[[], Iterable[Plan]]
    ) -> Revision | None:
        """Revise a draft in all its parts; None if the client has left."""
        plans, jobs = await self.submit(request, make)
        rollouts = await self.rollouts(request, jobs)
        if not rollouts:
            return None
        return await asyncio.to_thread(self.reviser.revision, draft, plans, rollouts)

    def stream(self, job: EngineJob, place: int = 0) -> EventStream:
        """The events of a stream, from one on."""
        headers = {"x-stream-id": job.id}
        return EventStream(self.queue.streams.read(job, place), headers)


def note(request: Request, *rollouts: Rollout) -> None:
    """Facts for the log; of several parts the first that did not stop by itself is told."""
    actions = sum(rollout.statistics.actions for rollout in rollouts)
    reasons = [rollout.stop_reason for rollout in rollouts]
    reason = next((reason for reason in reasons if reason != "stop"), "stop")
    request.state.facts.update(actions=actions, stop_reason=reason)


def in_characters(text: str, spans: list[list[int]], unit: Unit) -> list[tuple[int, int]]:
    """Spans as Python counts them."""
    if unit == "char":
        return [(start, end) for start, end in spans]
    places = _in_utf16(text)
    place_of = {place: n for n, place in enumerate(places)}
    try:
        return [(place_of[start], place_of[end]) for start, end in spans]
    except KeyError as error:
        raise ConfigError(
            f"A span has the bound {error.args[0]}, which is outside the text's {places[-1]}"
            " UTF-16 units or within a character."
        ) from error


def counted(revision: Revision, unit: Unit) -> dict[str, Any]:
    """A revision as JSON holds it, with places as the client counts them."""
    told = revision.to_dict()
    if unit != "char":
        places = _in_utf16(revision.changes.draft)
        for change in told["changes"]:
            change |= {"start": places[change["start"]], "end": places[change["end"]]}
    return told


def _in_utf16(text: str) -> list[int]:
    """Where each character begins, and the last one ends, in UTF-16 units."""
    return list(accumulate((1 + (ord(char) > 0xFFFF) for char in text), initial=0))
