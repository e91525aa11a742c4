"""The routes of the server: requests in, texts or streams of edits out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response

from reviser.errors import ConfigError, RequestRefused, ReviserError
from reviser.model import Reviser
from reviser.player.playground import PageText
from reviser.serve.completions import complete
from reviser.serve.failures import error_response
from reviser.serve.limits import Limits
from reviser.serve.middleware import LOCAL_HOSTS, RequestMiddleware
from reviser.serve.pages import add_pages
from reviser.serve.schema import (
    CompletionBody,
    Failure,
    GenerateBody,
    InfillBody,
    Model,
    Models,
    ReviseBody,
    RevisionBody,
    Route,
    sentence,
)
from reviser.serve.service import Service
from reviser.writing.rollout import Rollout

Responses = dict[int | str, dict[str, Any]]
FAILURES: Responses = {key: {"model": Failure} for key in (400, 401, 413, 429, 502, 503)}
EVENTS = {
    "description": "The result. A stream has the events start, edit ..., done or failure.",
    "content": {"text/event-stream": {}},
}


def make_app(
    reviser: Reviser,
    limits: Limits | None = None,
    *,
    name: str = "reviser",
    keys: Sequence[str] = (),
    origins: Sequence[str] = (),
    hosts: Sequence[str] = LOCAL_HOSTS,
    playground: bool = True,
    page_text: PageText | None = None,
) -> FastAPI:
    """Return a server for a model; `app.state.runs` drains it.

    Args:
        reviser: The model, on any engine.
        limits: The limits of the server.
        name: The model's name for clients.
        keys: The accepted API keys; without any, every client is accepted.
        origins: Origins of other hosts' web pages whose scripts may use the server.
        hosts: Names under which clients reach the server, checked against their Host header: a
            page of another site cannot rebind its own name to this server. "*" allows all.
        playground: Whether to serve the playground at /.
        page_text: What the playground says about the model.
    """
    service = Service(reviser, limits or Limits(), name, page_text or PageText())
    app = _empty_app(service)
    app.state.runs = service.runs
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    app.add_middleware(
        RequestMiddleware,
        body_bytes=service.limits.body_bytes,
        metrics=service.metrics,
        keys=keys,
    )
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_headers=["authorization", "content-type"],
            allow_methods=["GET", "POST"],
            expose_headers=["retry-after"],
        )
    _add_errors(app)
    # The middleware checks keys; this dependency only puts them into the OpenAPI schema.
    dependencies = [Depends(HTTPBearer(auto_error=False))] if keys else []
    app.include_router(_v1(service), dependencies=dependencies)
    _add_status(app, service)
    add_pages(app, playground=playground)
    _set_limits(app, service.limits)
    return app


def _empty_app(service: Service) -> FastAPI:
    """Return an app without routes, which runs the engine while it runs."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watch = asyncio.create_task(service.runs.watch())
        yield
        watch.cancel()
        service.runs.close()

    return FastAPI(
        title="Reviser",
        version=version("reviser-lm"),
        description="Language models that write by editing: whole texts, or edit by edit.",
        docs_url=None,  # these pages would load scripts from another host
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        separate_input_output_schemas=False,  # results leave out what is empty
    )


def _v1(service: Service) -> APIRouter:
    """Return the routes that need a key."""
    router = APIRouter(prefix="/v1")
    rollout: Responses = FAILURES | {200: {"model": Rollout, **EVENTS}}
    revision: Responses = FAILURES | {200: {"model": RevisionBody, **EVENTS}}

    @router.post("/generate", responses=rollout, tags=["writing"])
    async def generate(body: GenerateBody, request: Request) -> Response:
        """Continue a prompt."""
        return await service.respond(request, body)

    @router.post("/infill", responses=rollout, tags=["writing"])
    async def infill(body: InfillBody, request: Request) -> Response:
        """Fill the gaps of a text."""
        return await service.respond(request, body)

    @router.post("/revise", responses=revision, tags=["writing"])
    async def revise(body: ReviseBody, request: Request) -> Response:
        """Edit a draft where it needs it."""
        return await service.respond(request, body)

    @router.post("/completions", responses=FAILURES | {404: {"model": Failure}}, tags=["OpenAI"])
    async def completions(body: CompletionBody, request: Request) -> dict[str, Any]:
        """Continue a prompt, or fill the gap between a prompt and a suffix."""
        return await complete(service, request, body)

    @router.get("/models", responses={401: FAILURES[401]}, tags=["OpenAI"])
    async def models() -> Models:
        """List the model that is served."""
        return Models(data=[_model(service)])

    return router


def _add_status(app: FastAPI, service: Service) -> None:
    @app.head("/health", include_in_schema=False)  # some load balancers use HEAD
    @app.get("/health", tags=["status"])
    async def health() -> dict[str, str]:
        """Report that the process is alive."""
        return {"status": "ok"}

    @app.head("/ready", include_in_schema=False)
    @app.get("/ready", responses={503: {}}, tags=["status"])
    async def ready(response: Response) -> dict[str, str]:
        """Report whether requests are accepted, because the engine responds."""
        response.status_code = 200 if service.runs.is_ready else 503
        return {"status": "ready" if service.runs.is_ready else "not ready"}

    @app.get("/metrics", tags=["status"], response_class=Response)
    async def metrics() -> Response:
        """Return the metrics for Prometheus."""
        return Response(service.metrics.page(), media_type="text/plain; version=0.0.4")


def _model(service: Service) -> Model:
    editing, proofreading = service.reviser.editing, service.reviser.proofreading
    judge = proofreading and proofreading.judge
    routes: list[Route] = ["revise"]
    if proofreading is None:
        routes = ["generate", "infill", *(routes if editing else ())]
    return Model(
        id=service.name,
        created=service.created,
        routes=routes,
        about=service.page_text.about,
        examples=list(service.page_text.examples),
        min_confidence=judge.min_confidence if judge else None,
        calibration=list(judge.calibration) if judge else [],
    )


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(ReviserError)
    async def known(_: Request, error: ReviserError) -> Response:
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return error_response(ConfigError(sentence(list(error.errors()))))

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        message = f"{error.detail}. See /openapi.json."
        response = error_response(RequestRefused(message, error.status_code))
        response.headers.update(error.headers or {})
        return response


def _set_limits(app: FastAPI, limits: Limits) -> None:
    """Put this server's limits into the OpenAPI schema, without FastAPI's 422: here it is 400."""
    schema = app.openapi()
    for operations in schema["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    for unused in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(unused, None)
    for body in schema["components"]["schemas"].values():
        for name in {"max_actions", "max_tokens"} & set(body.get("properties", ())):
            declared = body["properties"][name]
            declared.get("anyOf", [declared])[0]["maximum"] = limits.max_actions
    app.openapi = lambda: schema  # type: ignore[method-assign]
