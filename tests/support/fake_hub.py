"""A small Hugging Face hub on this machine: the part of the API that downloads a model."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeHub(ThreadingHTTPServer):
    """A hub with the repositories that a test puts there: files by their path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def commit(self, name: str) -> str:
        """Return the hash of a repository's newest commit."""
        files = sorted(self.repositories[name].items())
        return hashlib.sha1(repr(files).encode()).hexdigest()


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """Run a hub until the end of the block."""
    with FakeHub() as hub:
        thread = threading.Thread(target=hub.serve_forever)
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        parts = path.strip("/").split("/")
        if parts[0] == "api":
            name = "/".join(parts[2:4])
            if name not in self.server.repositories:
                return self._json({"error": "Repository not found"}, 404, "RepoNotFound")
            return self._api(name, parts[4:])
        name, file = "/".join(parts[:2]), "/".join(parts[4:])
        content = self.server.repositories.get(name, {}).get(file)
        if parts[2:3] != ["resolve"] or content is None:
            return self._json({"error": "Entry not found"}, 404, "EntryNotFound")
        self.send_response(200)
        self.send_header("X-Repo-Commit", self.server.commit(name))
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)
        return None

    def _api(self, name: str, rest: list[str]) -> None:
        files = self.server.repositories[name]
        if rest[:1] == ["tree"]:
            listed = [
                {"type": "file", "path": path, "size": len(content), "oid": "0" * 40}
                for path, content in files.items()
            ]
            return self._json(listed)
        siblings = [{"rfilename": path} for path in files]
        return self._json({"id": name, "sha": self.server.commit(name), "siblings": siblings})

    def _json(self, content: Any, status: int = 200, code: str | None = None) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
