"""A chat server for tests: it gives scripted answers, or fails, and keeps all requests."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]
Response: TypeAlias = tuple[int, dict[str, str], str]
"""Status, headers and body; status 0 hangs up."""

UNIT = re.compile(r"^\[([a-z]+\d+)\] (.*)$", re.MULTILINE)


def units_of(body: Body) -> dict[str, str]:
    """The units that a request may change, by their anchors."""
    return dict(UNIT.findall(body["messages"][1]["content"].split("\n\n", 1)[1]))


def names_of(body: Body) -> list[str]:
    """The anchors in the schema of a request."""
    schema = body["response_format"]["json_schema"]["schema"]
    found: list[str] = schema["properties"]["edits"]["items"]["properties"]["anchor"]["enum"]
    return found


def edit(anchor: str, do: str = "replace", text: str = "") -> dict[str, str]:
    return {"anchor": anchor, "do": do, "text": text}


def completion(content: str | None, *, finish: str = "stop", tokens: int = 7) -> Response:
    choice = {"index": 0, "message": {"role": "assistant", "content": content},
              "finish_reason": finish}  # fmt: skip
    usage = {"prompt_tokens": 100, "completion_tokens": tokens, "total_tokens": 100 + tokens}
    return 200, {}, json.dumps({"id": "x", "choices": [choice], "usage": usage})


def answer(*edits: Any) -> Response:
    return completion(json.dumps({"edits": [*edits]}))


def replacing(old: str, new: str) -> Callable[[Body], Response]:
    """A model that replaces a text in every unit that has it."""

    def script(body: Body) -> Response:
        found = units_of(body).items()
        return answer(*(edit(n, text=t.replace(old, new)) for n, t in found if old in t))

    return script


class ChatScript:
    """What a server does, and what it was asked."""

    def __init__(self) -> None:
        self.script: Callable[[Body], Response] = lambda _: answer()
        self.bodies: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""
        self.most = 0
        """Requests that were under way at a time, at most."""
        self._open = 0
        self._lock = threading.Lock()

    def respond(self, body: Body) -> Response:
        with self._lock:
            self.bodies.append(body)
            self._open += 1
            self.most = max(self.most, self._open)
        try:
            return self.script(body)
        finally:
            with self._lock:
                self._open -= 1


@contextmanager
def chat_server() -> Iterator[ChatScript]:
    """Serve a script on a port of this machine."""
    chat = ChatScript()
    errors: list[BaseException | None] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            chat.headers.append({name.lower(): value for name, value in self.headers.items()})
            assert self.path == "/v1/chat/completions", self.path
            status, headers, text = chat.respond(body)
            if status == 0:
                self.close_connection = True
                with suppress(OSError):
                    self.connection.shutdown(SHUT_RDWR)
                return
            data = text.encode("utf-8", "surrogatepass")
            with suppress(OSError):  # the client may be gone
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *_: object) -> None:
            error = sys.exc_info()[1]
            if not isinstance(error, ConnectionError):
                errors.append(error)

    server = Server(("127.0.0.1", 0), Handler)
    chat.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield chat
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert not errors, errors
