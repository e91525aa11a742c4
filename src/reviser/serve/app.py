"""The routes of the server: requests in, texts or streams of edits out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response

from reviser.errors import ConfigError, RequestRefused, ReviserError
from reviser.model import Reviser
from reviser.player.playground import PageText
from reviser.serve.completions import add_completions
from reviser.serve.failures import error_response, json_response
from reviser.serve.limits import Limits
from reviser.serve.middleware import LOCAL_HOSTS, ApiKeys, RequestMiddleware
from reviser.serve.pages import add_pages
from reviser.serve.schema import (
    GenerateBody,
    InfillBody,
    Model,
    Models,
    ReviseBody,
    RevisionBody,
    Status,
    sentence,
)
from reviser.serve.service import EVENTS, FAILURES, Responses, Service
from reviser.writing.rollout import Rollout

ROLLOUT: Responses = FAILURES | {
    200: {
        "model": Rollout,
        "description": "The rollout. A stream has the events start, edit ..., done or failure.",
        "content": EVENTS,
    }
}
REVISION: Responses = FAILURES | {
    200: {
        "model": RevisionBody,
        "description": "The revision. A stream has the same events as on the other routes.",
        "content": EVENTS,
    }
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
    api_keys = ApiKeys(keys)

    app = _empty_app(service)
    app.state.runs = service.runs
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    app.add_middleware(
        RequestMiddleware, limits=service.limits, metrics=service.metrics, keys=api_keys
    )
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_headers=["authorization", "content-type"],
            allow_methods=["GET", "POST"],
            expose_headers=["retry-after"],
        )
    # The middleware checks keys; this dependency only puts them into the OpenAPI schema.
    dependencies = [Depends(HTTPBearer(auto_error=False))] if api_keys else []
    _add_errors(app)
    _add_tasks(app, service, dependencies)
    add_completions(app, service, dependencies)
    _add_status(app, service, dependencies)
    add_pages(app, playground=playground)
    _add_schema(app, service.limits)
    return app


def _empty_app(service: Service) -> FastAPI:
    """Return an app without routes, which runs the engine while it runs."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.runs.open()
        try:
            yield
        finally:
            await service.runs.close()

    return FastAPI(
        title="Reviser",
        version=version("reviser-lm"),
        description="Language models that write by editing: whole texts, or edit by edit.",
        openapi_url=None,  # its own route would write the schema again for each request
        docs_url=None,  # these pages would load scripts from another host
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        separate_input_output_schemas=False,  # results leave out what is empty
    )


def _add_tasks(app: FastAPI, service: Service, dependencies: list[Any]) -> None:
    @app.post("/v1/generate", responses=ROLLOUT, dependencies=dependencies, tags=["writing"])
    async def generate(body: GenerateBody, request: Request) -> Response:
        """Continue a prompt."""
        return await service.respond(request, body)

    @app.post("/v1/infill", responses=ROLLOUT, dependencies=dependencies, tags=["writing"])
    async def infill(body: InfillBody, request: Request) -> Response:
        """Fill the gaps of a text."""
        return await service.respond(request, body)

    @app.post("/v1/revise", responses=REVISION, dependencies=dependencies, tags=["writing"])
    async def revise(body: ReviseBody, request: Request) -> Response:
        """Edit a draft where it needs it."""
        return await service.respond(request, body)


def _add_status(app: FastAPI, service: Service, dependencies: list[Any]) -> None:
    not_ready: Responses = {503: {"model": Status, "description": "Send no requests now."}}

    @app.head("/health", include_in_schema=False)  # some load balancers use HEAD
    @app.get("/health", tags=["status"])
    async def health() -> Status:
        """Report that the process is alive."""
        return Status(status="ok")

    @app.head("/ready", include_in_schema=False)
    @app.get("/ready", responses=not_ready, tags=["status"])
    async def ready() -> Response:
        """Report whether requests are accepted: the engine responds and no drain has begun."""
        runs = service.runs
        status = "ready" if runs.is_ready else "draining" if runs.is_draining else "not ready"
        return json_response({"status": status}, 200 if runs.is_ready else 503)

    @app.get(
        "/v1/models", responses={401: FAILURES[401]}, dependencies=dependencies, tags=["OpenAI"]
    )
    async def models() -> Models:
        """List the model that is served."""
        return Models(data=[_model(service)])

    @app.get("/metrics", tags=["status"], response_class=Response)
    async def metrics() -> Response:
        """Return the metrics for Prometheus."""
        return Response(service.metrics.page(), media_type="text/plain; version=0.0.4")


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


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(ReviserError)
    async def known(_: Request, error: ReviserError) -> Response:
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return error_response(ConfigError(sentence(list(error.errors()))))

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        message = {
            404: "There is nothing at this address. /openapi.json lists the routes.",
            405: "This route does not take this method. /openapi.json lists the routes.",
        }.get(error.status_code, "This request cannot be read.")
        response = error_response(RequestRefused(message, error.status_code))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def unexpected(_: Request, __: Exception) -> Response:
        return error_response(RequestRefused("The server has a bug; its log says where.", 500))


def _add_schema(app: FastAPI, limits: Limits) -> None:
    """Add the route of the schema, with this server's limits and without FastAPI's 422.

    An invalid body has status 400 here.
    """
    make_schema = app.openapi

    def openapi() -> dict[str, Any]:
        schema = make_schema()
        for operations in schema["paths"].values():
            for operation in operations.values():
                operation["responses"].pop("422", None)
        for unused in ("HTTPValidationError", "ValidationError"):
            schema["components"]["schemas"].pop(unused, None)
        for body in schema["components"]["schemas"].values():
            for name in {"max_actions", "max_tokens"} & set(body.get("properties", ())):
                declared = body["properties"][name]
                declared.get("anyOf", [declared])[0]["maximum"] = limits.max_actions
        return schema

    app.openapi = openapi  # type: ignore[method-assign]
    written = cache(lambda: json.dumps(openapi()).encode())

    @app.get("/openapi.json", include_in_schema=False)
    async def schema() -> Response:
        """Return the OpenAPI schema."""
        # The first call takes long; a thread leaves the event loop to others.
        return Response(await asyncio.to_thread(written), media_type="application/json")
