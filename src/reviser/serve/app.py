"""The routes: a request in, a text or its edits out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from reviser.errors import ConfigError, RequestRefused, ReviserError
from reviser.serve.completions import add_completions
from reviser.serve.failures import error_body, error_headers, status_of
from reviser.serve.limits import Limits
from reviser.serve.middleware import ApiKeys, RequestMiddleware
from reviser.serve.pages import add_pages
from reviser.serve.responses import JsonResponse
from reviser.serve.schema import (
    Failure,
    GenerateBody,
    InfillBody,
    ReviseBody,
    RevisionBody,
    RolloutBody,
    Status,
    sentence,
)
from reviser.serve.service import (
    EVENTS,
    FAILURES,
    CLIENT_CLOSED,
    Responses,
    Service,
    counted,
    in_characters,
)
from reviser.writing.model import Reviser

WRITTEN: Responses = FAILURES | {
    200: {
        "model": RolloutBody,
        "description": "The rollout; with stream, the events start, edit ... and done or failure.",
        "content": EVENTS,
    }
}
REVISED: Responses = FAILURES | {
    200: {
        "model": RevisionBody,
        "description": "The revision; with stream, events as of the other routes.",
        "content": EVENTS,
    }
}
STREAMED: Responses = FAILURES | {
    200: {"description": "The events that are left.", "content": EVENTS},
    204: {"description": "There are none left."},
    404: {"model": Failure, "description": "No such stream, or no more."},
    410: {"model": Failure, "description": "These events are no longer kept."},
}

StreamId = Annotated[str, Path(description="As the header X-Stream-Id of a stream told.")]


def make_app(
    reviser: Reviser,
    limits: Limits | None = None,
    *,
    name: str = "reviser",
    keys: Sequence[str] = (),
    origins: Sequence[str] = (),
    playground: bool = True,
) -> FastAPI:
    """A server for a model, whichever engine runs it; `app.state.queue` drains it.

    `name` is what clients call the model, `keys` are those that open it, `origins` the web pages
    of other hosts whose scripts may use it, and `playground` whether there is a page at /.
    """
    service = Service(reviser, limits or Limits(), name)
    api_keys = ApiKeys(keys)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        await service.queue.open()
        try:
            yield
        finally:
            await service.queue.close()

    app = FastAPI(
        title="Reviser",
        version=version("reviser-lm"),
        description="Texts written by editing, whole or edit by edit.",
        docs_url=None,  # they would load scripts from another host
        redoc_url=None,
        lifespan=life,
        redirect_slashes=False,
    )
    app.state.queue = service.queue
    app.add_middleware(RequestMiddleware, limits=service.limits, metrics=service.metrics, keys=api_keys)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_headers=["authorization", "content-type", "last-event-id"],
            allow_methods=["GET", "POST"],
            expose_headers=["x-stream-id", "retry-after"],
        )
    guarded = [Depends(HTTPBearer(auto_error=False))] if api_keys else []
    _add_errors(app)
    _add_writing(app, service, guarded)
    add_completions(app, service, guarded)
    _add_status(app, service)
    add_pages(app, playground=playground)
    _tidy_schema(app, service.limits)
    return app


def _add_writing(app: FastAPI, service: Service, guarded: list[Any]) -> None:
    @app.post("/v1/generate", responses=WRITTEN, dependencies=guarded, tags=["writing"])
    async def generate(body: GenerateBody, request: Request) -> Response:
        """Write on behind a prompt."""
        settings = service.settings(body)
        service.check_prompt(body.prompt)
        return await service.answer(
            request, body, lambda: service.reviser.plan(body.prompt, **settings)
        )

    @app.post("/v1/infill", responses=WRITTEN, dependencies=guarded, tags=["writing"])
    async def infill(body: InfillBody, request: Request) -> Response:
        """Fill the gaps of a text."""
        settings = service.settings(body)
        service.check_prompt(body.text)
        spans = None if body.spans is None else in_characters(body.text, body.spans, body.unit)
        return await service.answer(
            request, body, lambda: service.reviser.plan_infill(body.text, spans, **settings)
        )

    @app.post("/v1/revise", responses=REVISED, dependencies=guarded, tags=["writing"])
    async def revise(body: ReviseBody, request: Request) -> Response:
        """Edit a draft where it needs it."""
        options = service.settings(body) | body.options()
        service.check_prompt(body.instruction + body.draft)
        texts = [part for part in body.locked if isinstance(part, str)]
        spans = [part for part in body.locked if not isinstance(part, str)]
        locked: list[str | tuple[int, int]] = [*texts, *in_characters(body.draft, spans, body.unit)]

        plans = partial(service.reviser.plan_revise, body.draft, locked=locked, **options)
        if body.stream:
            _, jobs = await service.submit(request, plans, is_stream=True, unit=body.unit)
            return service.stream(jobs[0])
        revision = await service.revise(request, body.draft, plans)
        return JsonResponse(counted(revision, body.unit)) if revision else Response(status_code=CLIENT_CLOSED)

    @app.get("/v1/streams/{stream}", responses=STREAMED, dependencies=guarded, tags=["writing"])
    async def resume(
        stream: StreamId,
        request: Request,
        last_event_id: Annotated[
            str | None, Header(description="The last event that was read; none for all.")
        ] = None,
    ) -> Response:
        """Go on reading a stream after its connection was lost."""
        job = service.queue.streams.find(stream, request.state.owner)
        place = 0
        if last_event_id is not None:
            if not (
                last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 16
            ):
                raise ConfigError("Last-Event-ID must be the id of an event: a whole number.")
            place = int(last_event_id) + 1
        if place == job.buffer.end and job.is_done:
            return Response(status_code=204)  # which ends an EventSource
        if place > job.buffer.end:
            raise ConfigError(f"This stream has {job.buffer.end} events so far.")
        if job.buffer.since(place) is None:
            raise RequestRefused("These events are no longer kept: begin a new stream.", 410)
        return service.stream(job, place)

    @app.post(
        "/v1/streams/{stream}/cancel",
        responses=FAILURES | {404: STREAMED[404]},
        dependencies=guarded,
        tags=["writing"],
    )
    async def cancel(stream: StreamId, request: Request) -> Status:
        """Leave a text where it is; its readers get it as done."""
        job = service.queue.streams.find(stream, request.state.owner)
        service.queue.cancel(job, by="client")
        return Status(status="done" if job.is_done else "cancelling")


def _add_status(app: FastAPI, service: Service) -> None:
    not_ready: Responses = {503: {"model": Status, "description": "Send no requests now."}}

    @app.head("/health", include_in_schema=False)  # as some balancers ask
    @app.get("/health", tags=["status"])
    async def health() -> Status:
        """Whether the process lives."""
        return Status(status="ok")

    @app.head("/ready", include_in_schema=False)
    @app.get("/ready", responses=not_ready, tags=["status"])
    async def ready() -> Response:
        """Whether requests are taken: the engine answers, and the server is not about to end."""
        is_ready = service.queue.is_ready
        status = "ready" if is_ready else "draining" if service.queue.is_draining else "not ready"
        return JsonResponse({"status": status}, status_code=200 if is_ready else 503)

    @app.get("/metrics", tags=["status"], response_class=Response)
    async def metrics() -> Response:
        """Counts for Prometheus."""
        return Response(service.metrics.page(), media_type="text/plain; version=0.0.4")


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(ReviserError)
    async def ours(_: Request, error: ReviserError) -> Response:
        return JsonResponse(error_body(error), status_code=status_of(error), headers=error_headers(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return JsonResponse(error_body(ConfigError(sentence(list(error.errors())))), status_code=400)

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        message = {
            404: "There is nothing here: /openapi.json tells what there is.",
            405: "This is not how it is asked: /openapi.json tells how.",
        }.get(error.status_code, "This request cannot be read.")
        refusal = RequestRefused(message, error.status_code)
        return JsonResponse(error_body(refusal), error.status_code, headers=dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def unexpected(_: Request, __: Exception) -> Response:
        refusal = RequestRefused("Something went wrong in the server; its log says where.", 500)
        return JsonResponse(error_body(refusal), status_code=500)


def _tidy_schema(app: FastAPI, limits: Limits) -> None:
    """This server's limits, and what is wrong with a body is told with 400, not FastAPI's 422."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        schema = made()
        for operations in schema["paths"].values():
            for operation in operations.values():
                operation["responses"].pop("422", None)
        for unused in ("HTTPValidationError", "ValidationError"):
            schema["components"]["schemas"].pop(unused, None)
        for body in schema["components"]["schemas"].values():
            for name in {"max_actions", "max_tokens"} & set(body.get("properties", ())):
                told = body["properties"][name]
                told.get("anyOf", [told])[0]["maximum"] = limits.max_actions
        return schema

    app.openapi = openapi  # type: ignore[method-assign]
