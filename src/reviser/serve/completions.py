"""The routes that OpenAI's clients know: completions and models.

Such clients only append, so they get the text when it is done, in one piece even if they ask for a
stream.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response

from reviser.errors import ConfigError, RequestRefused, ReviserError
from reviser.serve.events import PING
from reviser.serve.failures import error_body
from reviser.serve.jobs import EngineJob
from reviser.serve.responses import EventStream, JsonResponse
from reviser.serve.schema import (
    Choice,
    Completion,
    CompletionBody,
    Failure,
    Model,
    Models,
    Usage,
)
from reviser.serve.service import EVENTS, FAILURES, CLIENT_CLOSED, Responses, Service, note
from reviser.writing.model import Rollout
from reviser.writing.tasks import Plan


def add_completions(app: FastAPI, service: Service, guarded: list[Any]) -> None:
    """Add both routes."""
    completed: Responses = FAILURES | {
        200: {"model": Completion, "description": "The text, when it is done.", "content": EVENTS},
        404: {"model": Failure, "description": "No such model."},
    }

    @app.post("/v1/completions", responses=completed, dependencies=guarded, tags=["OpenAI"])
    async def completions(body: CompletionBody, request: Request) -> Response:
        """Complete a prompt, or what is between it and a suffix."""
        if body.model not in (None, service.name):
            raise RequestRefused("There is no such model here: see /v1/models.", 404)
        make = _plan(service, body)
        _, [job] = await service.submit(request, lambda: [make()])
        if body.stream:
            return EventStream(_stream(service, request, job, body), {})
        rollouts = await service.rollouts(request, [job])
        if not rollouts:
            return Response(status_code=CLIENT_CLOSED)
        return JsonResponse(_completion(service, job, body, rollouts[0]).model_dump_json())

    @app.get("/v1/models", responses={401: FAILURES[401]}, dependencies=guarded, tags=["OpenAI"])
    async def models() -> Models:
        """The model that is served."""
        return Models(data=[Model(id=service.name, created=service.created)])


def _plan(service: Service, body: CompletionBody) -> Callable[[], Plan]:
    given = body.model_fields_set
    if body.max_tokens is not None:
        if "max_actions" in given:
            raise ConfigError("Give max_tokens or max_actions: they mean the same.")
        body.max_actions = body.max_tokens
    settings = service.settings(body)
    suffix = body.suffix or ""
    service.check_prompt(body.text + suffix)
    if not suffix:
        return lambda: service.reviser.plan(body.text, **settings)
    place = len(body.text)
    return lambda: service.reviser.plan_infill(body.text + suffix, [(place, place)], **settings)


def _completion(service: Service, job: EngineJob, body: CompletionBody, rollout: Rollout) -> Completion:
    text = rollout.text
    if not body.echo:
        text = text[len(body.text) : len(text) - len(body.suffix or "")]
    cost = rollout.statistics
    return Completion(
        id=f"cmpl-{job.id}",
        created=int(time.time()),
        model=service.name,
        choices=[
            Choice(text=text, finish_reason="stop" if rollout.stop_reason == "stop" else "length")
        ],
        usage=Usage(
            prompt_tokens=cost.tokens_before,
            completion_tokens=cost.actions,
            total_tokens=cost.tokens_before + cost.actions,
        ),
    )


async def _stream(
    service: Service, request: Request, job: EngineJob, body: CompletionBody
) -> AsyncIterator[bytes]:
    """Pings while it is written, then the text, then what it cost if that was asked for."""
    work = asyncio.ensure_future(job.result())
    try:
        while not work.done():
            done, _ = await asyncio.wait([work], timeout=service.limits.ping_seconds)
            if not done:
                yield PING
        try:
            rollout = await work
        except ReviserError as error:
            yield _data(json.dumps(error_body(error)))
            return
        note(request, rollout)
        whole = _completion(service, job, body, rollout)
        yield _data(whole.model_copy(update={"usage": None}).model_dump_json())
        if (body.stream_options or {}).get("include_usage"):
            yield _data(whole.model_copy(update={"choices": []}).model_dump_json())
        yield b"data: [DONE]\n\n"
    finally:
        work.cancel()
        service.queue.cancel(job, by="client")


def _data(text: str) -> bytes:
    return f"data: {text}\n\n".encode()
