"""Checks that a request passes before its route: host, API key, body size; log and metrics.

This is plain ASGI, outside the routes, so that refusing a request costs very little.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reviser.errors import ConfigError, RequestRefused
from reviser.serve.failures import error_body, error_headers
from reviser.serve.hosts import is_allowed
from reviser.serve.limits import Limits
from reviser.serve.metrics import Metrics
from reviser.serve.quotas import Quotas

log = logging.getLogger("reviser.serve")


class ApiKeys:
    """The accepted API keys; without any, every client is accepted."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._digests = [hashlib.sha256(key.encode()).digest() for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def owner(self, header: bytes) -> str | None:
        """Return an id for the key in an Authorization header; None if the key is not accepted.

        The key is compared with all accepted keys, each in constant time.
        """
        if not self._digests:
            return ""
        scheme, _, key = header.partition(b" ")
        digest = hashlib.sha256(key.strip()).digest()
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        is_known = any(matches) and scheme.lower() == b"bearer"
        return digest.hex()[:16] if is_known else None


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

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        metrics: Metrics,
        keys: ApiKeys,
        quotas: Quotas,
        hosts: Sequence[str],
    ) -> None:
        self.app = app
        self.limits = limits
        self.metrics = metrics
        self.keys = keys
        self.quotas = quotas
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http":
            await self._handle(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, send)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = time.monotonic(), 500
        number = secrets.token_hex(8)
        state = scope.setdefault("state", {})
        facts: dict[str, Any] = {}
        state["facts"], state["began"] = facts, began

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
                self._check_host(scope)
                state["owner"] = self._owner(scope)
                body = await self._body(scope, receive, state["owner"])
            except RequestRefused as error:
                await _refuse(error, observed_send)
            else:
                await self.app(scope, _replay(body, receive), observed_send)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self.metrics.requests.labels(route, status).inc()
            seconds = round(time.monotonic() - began, 6)
            line = {"id": number, "route": route, "status": status, "seconds": seconds, **facts}
            log.info("request", extra={"facts": line})

    def _check_host(self, scope: Scope) -> None:
        if "*" in self.hosts:
            return
        names = [value.decode("latin-1") for key, value in scope["headers"] if key == b"host"]
        wrong = [name for name in names or [""] if not is_allowed(name, self.hosts)]
        if wrong:
            self.metrics.refused.labels("host").inc()
            scope["state"]["facts"]["refused"] = "host"
            raise RequestRefused(
                f"The Host header is {wrong[0][:100]!r}, which is not a name of this server. To"
                " allow it, start the server with --allow-host NAME.",
                400,
            )

    def _owner(self, scope: Scope) -> str:
        if not scope["path"].startswith("/v1/"):
            return ""
        owner = self.keys.owner(dict(scope["headers"]).get(b"authorization", b""))
        if owner is None:
            self.metrics.refused.labels("key").inc()
            raise RequestRefused("Send a valid key, as 'Authorization: Bearer KEY'.", 401)
        return owner

    async def _body(self, scope: Scope, receive: Receive, owner: str) -> bytes:
        """Receive the whole body; refuse it as soon as it is too large, too slow or too much."""
        max_bytes = self.limits.body_bytes
        headers = dict(scope["headers"])
        largest = b"%d" % max_bytes if b"transfer-encoding" in headers else b"0"
        declared = headers.get(b"content-length", largest)
        if not declared.isdigit() or int(declared[:20]) > max_bytes:
            raise self._too_large()
        if (quota := self.quotas.of(owner)) is not None:
            try:
                await quota.take(int(declared))
            except RequestRefused:
                self.metrics.refused.labels("rate").inc()
                raise
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestRefused("The client disconnected.", 400)
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > max_bytes:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise RequestRefused("The body did not arrive in time.", 408) from None

    def _too_large(self) -> RequestRefused:
        self.metrics.refused.labels("body").inc()
        max_bytes = self.limits.body_bytes
        return RequestRefused(f"The body is too large; send {max_bytes} bytes or less.", 413)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body first, then what follows: the disconnect."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return pending.pop() if pending else await receive()

    return next_message


async def _refuse(error: RequestRefused, send: Send) -> None:
    body = json.dumps(error_body(error)).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    pairs = [(k.encode(), v.encode()) for k, v in (headers | error_headers(error)).items()]
    await send({"type": "http.response.start", "status": error.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
