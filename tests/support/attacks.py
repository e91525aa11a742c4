"""Attacks on a server, as data: bodies that are costly for their size, and misused connections.

The bodies were found against 0.1.0, or made to be the worst that a field can hold. A server
must answer each with a status below 500, or close the connection.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

MAX_BODY = 1 << 20
"""The default of `body_bytes`."""
CHARACTERS = 99_000
"""A little below the longest text that the server takes by default."""

Body = dict[str, Any]


def _many(item: str, size: int) -> list[Any]:
    """Return as many copies of an item as JSON needs `size` bytes for."""
    return [json.loads(item)] * (size // (len(item) + 2))


def _nested_locks(size: int) -> list[str]:
    """Return locks that all match everywhere in a text of one letter, and are all different."""
    return ["a" * n for n in range(1, 1001) if n * n / 2 < size]


BODIES: dict[str, tuple[str, Callable[[int], Body]]] = {
    # B1 to B3, and their variants
    "a top_k of 309 digits": ("generate", lambda _: {"prompt": "x", "top_k": 10**309}),
    "equal locks": (
        "revise", lambda n: {"draft": "a" * (n // 2), "locked": _many('"a"', n // 2)[:1000]}
    ),
    "nested locks": (
        "revise",
        lambda n: {"draft": "a" * min(n // 2, CHARACTERS), "locked": _nested_locks(n // 2)},
    ),
    "near misses": (
        "revise",
        lambda n: {
            "draft": "a" * min(n // 2, CHARACTERS),
            "locked": [*("a" * (n // 2001) + f"{k}" for k in range(999))],
        },
    ),
    "a lock everywhere": (
        "revise", lambda n: {"draft": "me be " * (min(n, CHARACTERS) // 6), "locked": ["e"]}
    ),
    "locked spans": (
        "revise",
        lambda n: {"draft": "a" * (n // 2), "locked": [[k, k + 1] for k in range(0, 2000, 2)]},
    ),
    "spans that are none": ("infill", lambda n: {"text": "a", "spans": _many("0", n)}),
    "empty spans": ("infill", lambda n: {"text": "a" * 1000, "spans": _many("[0, 0]", n)}),
    "locks that are none": ("revise", lambda n: {"draft": "a", "locked": _many("0", n)}),
    "options of a stream": (
        "completions", lambda n: {"stream_options": {f"{k:06}": True for k in range(n // 16)}}
    ),
    "biases": ("completions", lambda n: {"logit_bias": {f"{k:06}": 1 for k in range(n // 13)}}),
    "prompts": ("completions", lambda n: {"prompt": _many('""', n)}),
    "a list of stops": ("completions", lambda n: {"stop": _many('""', n)}),
    "unknown fields": ("generate", lambda n: {f"{k:06}": 1 for k in range(n // 13)}),
    "a long name": ("generate", lambda n: {"a" * n: 1}),
    # the worst that a text can be
    "a long word": ("generate", lambda n: {"prompt": "a" * n}),
    "a long prompt": ("generate", lambda n: {"prompt": "ab " * (n // 3)}),
    "bytes without a token": ("generate", lambda n: {"prompt": "\U0001f9ff" * (n // 12)}),
    "gaps": ("infill", lambda n: {"text": "{}a" * (n // 3)}),
    "gaps without text": ("infill", lambda n: {"text": "{}" * (n // 2)}),
    "a suffix": ("completions", lambda n: {"prompt": "a" * (n // 2), "suffix": "b" * (n // 2)}),
    "windows of a token": (
        "revise", lambda n: {"draft": "\u0292" * (n // 12), "window": 1, "context": 10**9}
    ),
    "windows": ("revise", lambda n: {"draft": "it have. " * (n // 9), "window": 8, "context": 0}),
    "a wide window": ("revise", lambda n: {"draft": "ab " * (n // 3), "window": 10**9}),
    "an instruction": ("revise", lambda n: {"draft": "a", "instruction": "a " * (n // 2)}),
    "spans in UTF-16": (
        "revise",
        lambda n: {"draft": "\U0001f9ff" * (n // 24), "locked": [[0, 2]] * 500, "unit": "utf16"},
    ),
    "a user": ("completions", lambda n: {"user": "a" * n, "model": None}),
}  # fmt: skip
"""By name: the route, and the worst body of about so many bytes."""

RAW: dict[str, bytes] = {
    "deep nesting": b"[" * MAX_BODY,
    "deep objects": b'{"a":' * (MAX_BODY // 5),
    "a number of a million digits": b'{"top_k": ' + b"9" * (MAX_BODY - 100) + b"}",
    "escapes": b'{"prompt": "' + b"\\u0061" * (MAX_BODY // 6 - 10) + b'"}',
    "white space": b" " * (MAX_BODY - 2) + b"{}",
    "no text": b"\xff" * MAX_BODY,
    "nothing": b"",
    "half of a surrogate pair": b'{"draft": "\\ud800", "\\ud800": 1}',
    "a field twice": b'{"draft": 1, "draft": "a"}',
    "a number without end": b'{"draft": "a", "seed": 1e999}',
    "no number": b'{"draft": "a", "temperature": NaN}',
    "a mark in front": b"\xef\xbb\xbf{}",
}


class Target:
    """A server to attack, with the key of the attacker."""

    def __init__(self, port: int, key: str = "") -> None:
        self.port = port
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        connection.settimeout(20)
        return connection

    def head(self, request: str, *more: str) -> bytes:
        """Return the start of a request with the key: a last header may follow."""
        lines = [f"{request} HTTP/1.1", "host: localhost", *more]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "".join(f"{line}\r\n" for line in lines).encode()

    def whole(self, route: str, data: bytes, *more: str) -> bytes:
        """Return a request with a body."""
        about = ("content-type: application/json", f"content-length: {len(data)}", *more)
        return self.head(f"POST /v1/{route}", *about) + b"\r\n" + data

    def post(self, route: str, data: bytes) -> int:
        """Send a body and return the status of the response; 0 if there is none."""
        with self.connect() as connection:
            with suppress(OSError):  # it may answer before it has read everything
                connection.sendall(self.whole(route, data, "connection: close"))
            return status(connection)


def status(connection: socket.socket) -> int:
    """Return the status of a response, all of which is read; 0 if the connection is closed."""
    data = b""
    with suppress(OSError):
        while part := connection.recv(1 << 16):
            data = data or part
    return int(data.split()[1]) if data.startswith(b"HTTP/1.1 ") else 0


def send_bodies(
    target: Target, sizes: tuple[int, ...] = (MAX_BODY - 200, CHARACTERS)
) -> Iterator[tuple[str, int]]:
    """Send every costly body, as large as bodies and as texts may be; yield name and status."""
    for name, (route, make) in BODIES.items():
        for size in sizes:
            body = make(size) | {"max_actions": 4}
            data = json.dumps(body, ensure_ascii=False).encode()
            yield name, target.post(route, data)
    for name, data in RAW.items():
        yield name, target.post("revise", data)


# -- connections ----------------------------------------------------------------------------------


Pieces = tuple[bytes, bytes, int]
"""What a connection sends first, what then, and how often."""
CHUNKED = ("POST /v1/generate", "transfer-encoding: chunked")

PIECES: dict[str, Callable[[Target], Pieces]] = {
    "pipelined requests": lambda to: (b"", (to.head("GET /openapi.json") + b"\r\n") * 500, 400),
    "an endless header": lambda to: (to.head("GET /") + b"x: ", b"a" * 65_536, 500),
    "an endless address": lambda _: (b"GET /", b"a" * 65_536, 500),
    "many headers": lambda to: (to.head("GET /"), b"x: y\r\n" * 10_000, 500),
    "an endless trailer": lambda to: (
        to.head(*CHUNKED) + b"\r\n1\r\na\r\n0\r\nx: ", b"a" * 65_536, 500,
    ),
    "chunks of a byte": lambda to: (to.head(*CHUNKED) + b"\r\n", b"1\r\na\r\n" * 20_000, 250),
}  # fmt: skip


def _sender(pieces: Callable[[Target], Pieces]) -> Callable[[Target], int]:
    return lambda target: _pour(target, *pieces(target))


CONNECTIONS = {name: _sender(pieces) for name, pieces in PIECES.items()}
"""Each sends without reading a response, and returns how many bytes the server took."""


def _pour(target: Target, first: bytes, data: bytes, count: int, seconds: float = 3) -> int:
    """Send data until the server refuses it, or takes none for a while; return what it took."""
    until, sent = time.monotonic() + seconds, 0
    with target.connect() as connection, suppress(OSError):
        connection.settimeout(1)
        connection.sendall(first)
        for _ in range(count):
            if time.monotonic() > until:
                break
            connection.sendall(data)
            sent += len(data)
    return sent


def long_jobs(target: Target, count: int = 4, seconds: float = 0.5) -> None:
    """Start texts that take long, and leave."""
    body = {"prompt": "x", "max_actions": 4096, "stop_bias": -1e30}
    opened = [target.connect() for _ in range(count)]
    for connection in opened:
        connection.sendall(target.whole("generate", json.dumps(body).encode()))
    time.sleep(seconds)
    for connection in opened:
        connection.close()
