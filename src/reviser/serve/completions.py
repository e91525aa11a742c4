"""OpenAI's completions API, for clients that can only append text; they get it in one piece."""

from __future__ import annotations

import secrets
import time
from typing import Any

from fastapi import Request

from reviser.errors import RequestRefused
from reviser.serve.schema import CompletionBody
from reviser.serve.service import Service


async def complete(service: Service, request: Request, body: CompletionBody) -> dict[str, Any]:
    """Continue a prompt, or fill the gap between a prompt and a suffix."""
    if body.model not in (None, service.name):
        raise RequestRefused("There is no such model here. /v1/models names it.", 404)
    rollout: Any = await service.run(request, body)
    cost = rollout.statistics
    usage = {"prompt_tokens": cost.tokens_before, "completion_tokens": cost.actions}
    choice = {
        "index": 0,
        "text": rollout.text[len(body.prompt) : len(rollout.text) - len(body.suffix)],
        "logprobs": None,
        "finish_reason": "stop" if rollout.stop_reason == "stop" else "length",
    }
    return {
        "id": f"cmpl-{secrets.token_urlsafe(16)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": service.name,
        "choices": [choice],
        "usage": usage | {"total_tokens": sum(usage.values())},
    }
