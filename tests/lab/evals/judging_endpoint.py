"""A judge behind HTTP for tests: prefers more vowels, fails now and then, and counts everything."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR
from threading import Lock, Thread
from typing import Any

ANSWER = re.compile(r"Start of Assistant ([AB])'s Answer\]\n(.*?)\n\[The End", re.DOTALL)


def vowels(text: str) -> int:
    return sum(char in "aeiou" for char in text)


class Endpoint:
    """What it was asked, by the content of the question, and what it does about it."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.plan: Callable[[int, str], tuple[int, dict[str, str], str] | None] = lambda *_: None
        """From the number of a request and its question: another answer than a verdict."""
        self.lock = Lock()
        self.url = ""

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, str], str]:
        content = body["messages"][0]["content"]
        with self.lock:
            self.asked[content] += 1
            number = self.asked.total()
            self.bodies.append(body)
        other = self.plan(number, content)
        if other is not None:
            return other
        texts = dict(ANSWER.findall(content))
        mark = "A" if vowels(texts["A"]) > vowels(texts["B"]) else "B"
        with self.lock:
            self.answered[content] += 1
        message = {"role": "assistant", "content": f"[[{mark}]]"}
        return 200, {}, json.dumps({"choices": [{"message": message}]})


@contextmanager
def serving() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    errors: list[BaseException | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("content-length", -1))
            data = self.rfile.read(max(0, size))
            if len(data) != size:  # the client was killed while it spoke
                self.close_connection = True
                return
            body = json.loads(data)
            endpoint.headers.append(dict(self.headers))
            assert self.path == "/v1/chat/completions"
            status, headers, text = endpoint.answer(body)
            if status == 0:  # hang up
                self.close_connection = True
                with suppress(OSError):  # the client may be gone already
                    self.connection.shutdown(SHUT_RDWR)
                return
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            error = sys.exc_info()[1]
            if not isinstance(error, ConnectionError):  # as of a client that was killed
                errors.append(error)

    server = Server(("127.0.0.1", 0), Handler)
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert not errors, errors
