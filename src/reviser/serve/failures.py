"""The form in which a client sees an error: its status code, headers and JSON body."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from reviser.errors import EngineError, RequestRefused, ReviserError


def error_body(error: ReviserError) -> dict[str, Any]:
    """Return an error as the JSON object that clients receive."""
    is_engine = isinstance(error, EngineError)
    status = error.status if isinstance(error, RequestRefused) else 502 if is_engine else 400
    return {"error": {"message": str(error), "type": type(error).__name__, "code": status}}


def error_response(error: ReviserError) -> Response:
    """Return an error as a response."""
    body = error_body(error)
    status: int = body["error"]["code"]
    headers = {"www-authenticate": "Bearer"} if status == 401 else {}
    # Close the connection where the rest of a body stays unread (413), and where a load
    # balancer should send the next request to another server (503).
    if status in (413, 503):
        headers["connection"] = "close"
    if isinstance(error, RequestRefused) and error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    return json_response(body, status, headers)


def json_response(
    content: Any, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return a value as JSON, lone surrogates included; a string is taken to be JSON already."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    data = text.encode("utf-8", "replace")
    return Response(data, status, headers, media_type="application/json")
