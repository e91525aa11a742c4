"""The form in which a client sees an error: its status code, headers and JSON body."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from reviser.errors import EngineError, RequestRefused, ReviserError


def status_of(error: ReviserError) -> int:
    """Return the HTTP status code of an error."""
    if isinstance(error, RequestRefused):
        return error.status
    return 502 if isinstance(error, EngineError) else 400


def error_body(error: ReviserError) -> dict[str, object]:
    """Return an error as the JSON object that clients receive."""
    status = status_of(error)
    return {"error": {"message": str(error), "type": type(error).__name__, "code": status}}


def error_headers(error: ReviserError) -> dict[str, str]:
    """Return the HTTP headers that belong to an error."""
    if not isinstance(error, RequestRefused):
        return {}
    headers = {"www-authenticate": "Bearer"} if error.status == 401 else {}
    # Close the connection where the rest of a body stays unread (413), and where a load
    # balancer should send the next request to another server (503).
    if error.status in (413, 503):
        headers["connection"] = "close"
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    return headers


def json_response(
    content: Any, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return a value as JSON, lone surrogates included; a string is taken to be JSON already."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    data = text.encode("utf-8", "replace")
    return Response(data, status, headers, media_type="application/json")


def error_response(error: ReviserError) -> Response:
    """Return an error as a response."""
    return json_response(error_body(error), status_of(error), error_headers(error))
