"""Static files for browsers: the JavaScript client, and the playground at /.

The routes are a fixed table that is read once, so no path leads to any other file. The playground
is the page of `player.playground`, with a backend that asks this server.
"""

from __future__ import annotations

from importlib.resources import files

from fastapi import FastAPI
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
    "cache-control": "no-cache",
}
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def add_pages(app: FastAPI, *, playground: bool) -> None:
    """Add a route for each file."""
    _add(app, "/client.js", _asset("client.js"))
    if playground:
        _add(app, "/", page.html(folder="playground/"), "html")
        for name, text in (page.files() | {"backend.js": _asset("backend.js")}).items():
            _add(app, f"/playground/{name}", text)


def _add(app: FastAPI, path: str, content: str, ending: str = "") -> None:
    response = Response(
        content, media_type=TYPES[ending or path.rpartition(".")[2]], headers=HEADERS
    )

    async def respond() -> Response:
        return response

    app.add_api_route(path, respond, include_in_schema=False, response_model=None)


def _asset(name: str) -> str:
    return files("reviser.serve").joinpath("assets", name).read_text("utf-8")
