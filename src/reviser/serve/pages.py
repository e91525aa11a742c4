"""Static files for browsers: the JavaScript client, and the playground at /.

The routes are a fixed table that is read once, so no path leads to any other file. The playground
is the page of `player.playground`, with a backend that asks this server.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from reviser.player import playground as page

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'"
)
"""Content-Security-Policy: own files only, no inline scripts, no text that becomes markup."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",  # cached, but revalidated by ETag each time
}
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def add_pages(app: FastAPI, *, playground: bool) -> None:
    """Add a route for each file."""
    _add(app, "/client.js", _asset("client.js"))
    if playground:
        _add(app, "/", page.html(folder="playground/"), "html")
        for name, text in (page.files() | {"backend.js": _asset("backend.js")}).items():
            _add(app, f"/playground/{name}", text)


def _add(app: FastAPI, path: str, text: str, ending: str = "") -> None:
    content = text.encode()
    media_type = TYPES[ending or path.rpartition(".")[2]]
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = HEADERS | {"etag": tag}
    if path.endswith(".svg"):  # browsers request it whenever the address changes
        headers["cache-control"] = "max-age=86400"

    async def respond(request: Request) -> Response:
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=media_type, headers=headers)

    app.add_api_route(path, respond, include_in_schema=False, response_model=None)


def _asset(name: str) -> str:
    return files("reviser.serve").joinpath("assets", name).read_text("utf-8")
