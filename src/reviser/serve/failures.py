"""The form in which a client sees an error: its status code, headers and JSON body."""

from __future__ import annotations

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
    # Close the connection where the rest of a body stays unread (408, 413), and where a load
    # balancer should send the next request to another server (503).
    if error.status in (408, 413, 503):
        headers["connection"] = "close"
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    return headers
