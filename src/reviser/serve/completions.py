"""OpenAI-compatible routes: completions and models.

OpenAI's clients can only append text, so they get it in one piece when it is finished, even if
they ask for a stream.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
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
from reviser.serve.service import CLIENT_CLOSED, EVENTS, FAILURES, Responses, Service, record
from reviser.writing.rollout import Rollout


def add_completions(app: FastAPI, service: Service, dependencies: list[Any]) -> None:
    """Add both routes."""
    responses: Responses = FAILURES | {
        200: {"model": Completion, "description": "The finished text.", "content": EVENTS},
        404: {"model": Failure, "description": "There is no such model."},
    }

    @app.post("/v1/completions", responses=responses, dependencies=dependencies, tags=["OpenAI"])
    async def completions(body: CompletionBody, request: Request) -> Response:
        """Continue a prompt, or fill the gap between a prompt and a suffix."""
        if body.model not in (None, service.name):
            raise RequestRefused("There is no such model here. /v1/models names it.", 404)
        if body.max_tokens is not None:
            if "max_actions" in body.model_fields_set:
                raise ConfigError("max_tokens and max_actions mean the same. Send one of them.")
            if body.max_tokens > service.limits.max_actions:
                raise ConfigError(
                    f"max_tokens is {body.max_tokens}; this server's limit is"
                    f" {service.limits.max_actions}. Send a smaller max_tokens."
                )
            body.max_actions = body.max_tokens
        texts = [body.text, body.suffix or ""]
        _, [job] = await service.submit(request, body, texts, body.task)
        if body.stream:
            return EventStream(_events(service, request, job, body), {})
        rollouts = await service.rollouts(request, [job])
        if not rollouts:
            return Response(status_code=CLIENT_CLOSED)
        return JsonResponse(_completion(service, job, body, rollouts[0]).model_dump_json())

    @app.get(
        "/v1/models", responses={401: FAILURES[401]}, dependencies=dependencies, tags=["OpenAI"]
    )
    async def models() -> Models:
        """List the model that is served."""
        return Models(data=[_model(service)])


def _model(service: Service) -> Model:
    editing = service.reviser.editing
    writes = editing is None or editing.writes_edits
    compares = editing is not None and editing.compares
    return Model(
        id=service.name,
        created=service.created,
        routes=[*(("generate", "infill") if writes else ()), *(("revise",) if editing else ())],
        about=service.page_text.about,
        examples=list(service.page_text.examples),
        min_confidence=editing.least_confidence() if editing and compares else None,
        calibration=list(editing.calibration) if editing and compares else [],
    )


def _completion(
    service: Service, job: EngineJob, body: CompletionBody, rollout: Rollout
) -> Completion:
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


async def _events(
    service: Service, request: Request, job: EngineJob, body: CompletionBody
) -> AsyncIterator[bytes]:
    """Yield pings until the text is finished, then the text, then its usage if asked for."""
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
        record(request, rollout)
        completion = _completion(service, job, body, rollout)
        yield _data(completion.model_copy(update={"usage": None}).model_dump_json())
        if (body.stream_options or {}).get("include_usage"):
            yield _data(completion.model_copy(update={"choices": []}).model_dump_json())
        yield b"data: [DONE]\n\n"
    finally:
        work.cancel()
        service.queue.cancel(job, by="client")


def _data(text: str) -> bytes:
    return f"data: {text}\n\n".encode()
