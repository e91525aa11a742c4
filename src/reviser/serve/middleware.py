"""Checks that a request passes before its route: API key and body size; log and metrics.

This is plain ASGI, outside the routes, so that refusing a request costs very little.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reviser.errors import ConfigError, RequestRefused
from reviser.serve.failures import error_response
from reviser.serve.limits import Limits
from reviser.serve.metrics import Metrics

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
"""The names of this machine for itself."""

log = logging.getLogger("reviser.serve")


def allowed_hosts(address: str, names: Iterable[str] = ()) -> list[str]:
    """Return the hosts that a server on this address accepts, with further names.

    A server on all networks cannot know its names: without any given, it accepts all.

    >>> allowed_hosts("10.0.0.5", ["reviser.example.org"])
    ['localhost', '127.0.0.1', '[::1]', '10.0.0.5', 'reviser.example.org']
    """
    names = list(names)
    for name in names:
        if "*" in name.removeprefix("*.") or "/" in name or name.rpartition(":")[2].isdigit():
            raise ConfigError(
                f"{name!r} is not a host name. Give one without a port, such as example.org, or"
                " *.example.org for all below it."
            )
    if address in ("", "0.0.0.0", "::"):
        return [*LOCAL_HOSTS, *names] if names else ["*"]
    own = f"[{address}]" if ":" in address else address
    return [*dict.fromkeys((*LOCAL_HOSTS, own, *names))]


class ApiKeys:
    """The accepted API keys; without any, every client is accepted."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._digests = [hashlib.sha256(key.encode()).digest() for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def accept(self, header: bytes) -> bool:
        """Return whether an Authorization header has one of the keys.

        Its key is compared with all of them, each in constant time.
        """
        if not self._digests:
            return True
        scheme, _, key = header.partition(b" ")
        digest = hashlib.sha256(key.strip()).digest()
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return any(matches) and scheme.lower() == b"bearer"


def read_keys(file: Path | None, listed: str | None) -> list[str]:
    """Return the keys of a file with one per line, and those of a comma-separated list."""
    try:
        lines = [] if file is None else file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read the keys in {str(file)!r}: {error}.") from error
    keys = [line.strip() for line in lines if not line.lstrip().startswith("#")]
    keys += [key.strip() for key in (listed or "").split(",")]
    keys = [key for key in keys if key]
    if not keys and (file is not None or listed is not None):
        source = "REVISER_API_KEYS" if file is None else repr(str(file))
        raise ConfigError(
            f"There is no key in {source}. Add one, or leave it out to serve without keys."
        )
    if any(not key.isascii() or " " in key for key in keys):
        raise ConfigError("A key contains a space or a character that HTTP cannot send.")
    return keys


class RequestMiddleware:
    """ASGI middleware that passes a request on to the app, or refuses it."""

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics, keys: ApiKeys) -> None:
        self.app = app
        self.limits = limits
        self.metrics = metrics
        self.keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http":
            await self._handle(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, send)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = time.monotonic(), 500
        number = secrets.token_hex(8)
        log_fields: dict[str, Any] = {}
        scope.setdefault("state", {})["log_fields"] = log_fields

        async def observed_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()), (b"x-request-id", number.encode())
                ]  # fmt: skip
            await send(message)

        try:
            try:
                self._check_key(scope)
                body = await self._body(scope, receive)
            except RequestRefused as error:
                await error_response(error)(scope, receive, observed_send)
            else:
                await self.app(scope, _replay(body, receive), observed_send)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self.metrics.requests.labels(route, status).inc()
            seconds = round(time.monotonic() - began, 6)
            line = {"id": number, "route": route, "status": status, "seconds": seconds}
            log.info("request", extra={"log_fields": line | log_fields})

    def _check_key(self, scope: Scope) -> None:
        header = dict(scope["headers"]).get(b"authorization", b"")
        if scope["path"].startswith("/v1/") and not self.keys.accept(header):
            self.metrics.refused.labels("key").inc()
            raise RequestRefused("Send a valid key, as 'Authorization: Bearer KEY'.", 401)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Receive the whole body; refuse it as soon as it is too large."""
        declared = dict(scope["headers"]).get(b"content-length", b"0").lstrip(b"0") or b"0"
        # Python refuses to read a number of thousands of digits.
        if not declared.isdigit() or int(declared[:20]) > self.limits.body_bytes:
            raise self._too_large()
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RequestRefused("The client disconnected.", 400)
            body += message.get("body", b"")
            if len(body) > self.limits.body_bytes:
                raise self._too_large()
            if not message.get("more_body", False):
                return bytes(body)

    def _too_large(self) -> RequestRefused:
        self.metrics.refused.labels("body").inc()
        most = self.limits.body_bytes
        return RequestRefused(f"The body is too large; send {most} bytes or less.", 413)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body first, then what follows: the disconnect."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return pending.pop() if pending else await receive()

    return next_message
