"""OpenAI's completions API, for clients that can only append text; they get it in one piece."""

from __future__ import annotations

import secrets
import time
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response

from reviser.errors import ConfigError, RequestRefused
from reviser.serve.failures import json_response
from reviser.serve.schema import Completion, CompletionBody, Failure
from reviser.serve.service import CLIENT_CLOSED, FAILURES, Responses, Service
from reviser.writing.rollout import Rollout

_RESPONSES: Responses = FAILURES | {
    200: {"model": Completion, "description": "The finished text."},
    404: {"model": Failure, "description": "There is no such model."},
}


def add_completions(app: FastAPI, service: Service, dependencies: list[Any]) -> None:
    """Add the route."""
    limit = service.limits.max_actions

    @app.post("/v1/completions", responses=_RESPONSES, dependencies=dependencies, tags=["OpenAI"])
    async def completions(body: CompletionBody, request: Request) -> Response:
        """Continue a prompt, or fill the gap between a prompt and a suffix."""
        if body.model not in (None, service.name):
            raise RequestRefused("There is no such model here. /v1/models names it.", 404)
        if body.max_tokens is not None:
            if "max_actions" in body.model_fields_set:
                raise ConfigError("max_tokens and max_actions mean the same. Send one of them.")
            if body.max_tokens > limit:
                raise ConfigError(
                    f"max_tokens is {body.max_tokens}; this server's limit is {limit}. Send a"
                    " smaller max_tokens."
                )
            body.max_actions = body.max_tokens
        rollout = await service.run(request, body, [body.prompt, body.suffix], body.task)
        if not isinstance(rollout, Rollout):
            return Response(status_code=CLIENT_CLOSED)
        cost = rollout.statistics
        end = len(rollout.text) - len(body.suffix)
        reason = "stop" if rollout.stop_reason == "stop" else "length"
        usage = {"prompt_tokens": cost.tokens_before, "completion_tokens": cost.actions}
        text = rollout.text[len(body.prompt) : end]
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
        return json_response(
            {
                "id": f"cmpl-{secrets.token_urlsafe(16)}",
                "object": "text_completion",
                "created": int(time.time()),
                "model": service.name,
                "choices": [choice],
                "usage": usage | {"total_tokens": sum(usage.values())},
            }
        )
