"""What every request passes before its route: API key, body size, log and metrics.

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

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reviser.errors import ConfigError, RequestRefused
from reviser.serve.failures import error_response
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
    """ASGI middleware that passes a request on to the app, or refuses it.

    Without keys, every client is accepted.
    """

    def __init__(
        self, app: ASGIApp, body_bytes: int, metrics: Metrics, keys: Sequence[str]
    ) -> None:
        self.app = app
        self.body_bytes = body_bytes
        self.metrics = metrics
        self.digests = [hashlib.sha256(key.encode()).digest() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or the start and end of the app."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # 500 stands if the app fails before it answers: then no status passes `observed_send`.
        began, status, size = time.monotonic(), 500, 0
        number = secrets.token_hex(8)
        log_fields: dict[str, Any] = {}
        scope.setdefault("state", {})["log_fields"] = log_fields

        async def limited_receive() -> Message:
            nonlocal size
            message = await receive()
            # Counted as it arrives: a header about its length may be missing or wrong.
            size += len(message.get("body", b""))
            if size > self.body_bytes:
                raise HTTPException(413, f"The body is larger than {self.body_bytes} bytes")
            return message

        async def observed_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()), (b"x-request-id", number.encode())
                ]  # fmt: skip
            await send(message)

        try:
            if scope["path"].startswith("/v1/") and not self._has_key(scope):
                error = RequestRefused("Send a valid key, as 'Authorization: Bearer KEY'.", 401)
                await error_response(error)(scope, receive, observed_send)
            else:
                await self.app(scope, limited_receive, observed_send)
        finally:
            # The pattern of the route, and not the path: clients choose paths, and each value would
            # add a series to the metrics.
            route = getattr(scope.get("route"), "path", "none")
            self.metrics.requests.labels(route, status).inc()
            seconds = round(time.monotonic() - began, 6)
            line = {"id": number, "route": route, "status": status, "seconds": seconds}
            log.info("request", extra={"log_fields": line | log_fields})

    def _has_key(self, scope: Scope) -> bool:
        """Return whether a request has a valid key, each compared in constant time."""
        header: bytes = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, key = header.partition(b" ")
        # Digests have one length, so the time of a comparison does not depend on the key's either.
        # All are compared, so it does not show which key was nearly right.
        digest = hashlib.sha256(key.strip()).digest()
        matches = [hmac.compare_digest(digest, known) for known in self.digests]
        return not matches or (any(matches) and scheme.lower() == b"bearer")
