"""The Python clients: what they send, what they raise, and servers that send anything."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="The extra serve is not installed.")

from reviser.engines.settings import DecodeConfig
from reviser.errors import ConfigError, EngineError, RequestRefused, ReviserError
from reviser.serve.client import Client
from reviser.writing.tasks import Continue, Infill, Revise
from support.serving import NAME, Served, reviser

MODEL = reviser()


def test_both_clients_run_every_task(server: Served) -> None:
    settings: Any = {"seed": 3, "max_actions": 20}
    config = DecodeConfig(**settings)
    tasks = [Continue("The"), Infill("The cat", [(3, 7)]), Revise("The cat", locked=["cat"])]
    with Client(server.url + "/v1/") as client:  # as other clients write it
        assert client.is_ready()
        assert client.models() == [NAME]
        results = [client.run(tasks[0], config), client.run(tasks[1], config)]
        assert client.generate("The", **settings) == results[0]
        assert client.infill("The cat", [(3, 7)], **settings) == results[1]
        revision = client.revise("The cat", locked=["cat"], **settings)
        assert client.run(tasks[2], seed=3, max_actions=20) == revision
        limited = DecodeConfig(**settings, max_length=16_384)
        assert [each.text for each in results] == [
            MODEL.run(task, limited).text for task in tasks[:2]
        ]
        stream = client.stream(Infill("The{}."), config)
        text = "The."
        for edit in stream:
            text = edit.apply(text)
            assert (text, edit.cursor) == (stream.text, stream.cursor)
        stream.close()  # which is too late, and no error
        unread = client.stream(Continue("The"))
        unread.close()
        with pytest.raises(EngineError, match="closed before its end"):
            unread.rollout()


def test_errors_are_those_of_the_library(server: Served) -> None:
    with Client(server.url) as client:
        for wrong, words in (
            (lambda: client.generate("The", temperatur=1), "Did you mean `temperature`"),
            (lambda: client.generate("The", unit="utf16"), "`unit` is not a setting"),
            (lambda: client.infill("The"), "no gap"),
            (lambda: client.generate("The", max_actions=10**6), "this server's limit"),
            (lambda: Client("localhost:8000"), "must begin with http"),
            (lambda: Client("http://localhost:port"), "is not valid"),
            (lambda: Client("http://localhost", api_key="é"), "cannot send"),
        ):
            with pytest.raises(ConfigError, match=words):
                wrong()
    with Client(server.url + "/none") as lost:
        with pytest.raises(RequestRefused, match="Not Found") as refused:
            lost.models()
        assert refused.value.status == 404
    with Client("http://127.0.0.1:9") as nobody:
        for ask in (nobody.generate, lambda: nobody.stream(Continue("The"))):
            with pytest.raises(EngineError, match="cannot be reached"):
                ask()
        assert not nobody.is_ready()


# -- servers that send anything -------------------------------------------------------------------


@contextmanager
def sending(*responses: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Listen and send these bytes, one response per connection; yield address and requests."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with suppress(OSError):
                for n in range(20):
                    connection, _ = listener.accept()
                    with connection:
                        received.append(connection.recv(65536))
                        connection.sendall(responses[min(n, len(responses) - 1)])

        threading.Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", received


def response(body: bytes, *headers: str, status: int = 200) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


ROLLOUT = MODEL.run(Continue("The"), DecodeConfig(max_actions=2)).to_dict()
NESTED = b"[" * 100_000
BODIES = [
    b"", b"{}", b"[]", b"null", b"1", b"\xff\xfe", NESTED, b"<html>",
    json.dumps(ROLLOUT | {"config": {"temperature": "x"}}).encode(),
    json.dumps(ROLLOUT | {"logprobs": [[]]}).encode(),
    json.dumps(ROLLOUT | {"trajectory": None}).encode(),
    json.dumps({"draft": 1, "changes": [1], "stop_logprob": 0, "rollouts": []}).encode(),
    json.dumps({"data": [{"name": "x"}]}).encode(),
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize("status", [200, 400, 429, 502])
def test_a_response_that_is_not_valid_raises_our_errors(body: bytes, status: int) -> None:
    hostile = response(body, "Retry-After: ²", status=status)
    with sending(hostile) as (url, _), Client(url) as client:
        for ask in (client.generate, client.models, lambda: client.revise("The")):
            with pytest.raises(ReviserError):
                ask()


def event(number: object, kind: str, data: str) -> bytes:
    return f"id: {number}\nevent: {kind}\ndata: {data}\n\n".encode()


START = event(0, "start", '{"text": "The", "cursor": 3, "unit": "char"}')
EDIT = {"step": 1, "kind": "insert", "offset": 3, "removed": "", "inserted": "x", "cursor": 4,
        "logprob": -1.0}  # fmt: skip
EVENTS = [
    event("x", "start", "{}"), event(0, "start", "{}"), event(0, "start", "["),
    event(0, "start", '{"text": "", "cursor": Infinity}'), event(0, "start", "[" * 100_000),
    *(START + event(1, "edit", json.dumps(EDIT | wrong)) for wrong in (
        {"offset": "3"}, {"offset": -1}, {"removed": "cat"}, {"inserted": 1}, {"cursor": None},
    )),
    START + event(1, "done", "{}"), START + event(1, "failure", "{}"),
    START + event(1, "failure", '{"error": {"code": "x", "message": 1}}'),
    START + b"data: \xff\xfe\n\n",
]  # fmt: skip


@pytest.mark.parametrize("body", EVENTS, ids=range(len(EVENTS)))
def test_events_that_are_not_valid_raise_our_errors(body: bytes) -> None:
    kinds = ("Content-Type: text/event-stream; charset=utf-16",)
    with (
        sending(response(body, *kinds)) as (url, _),
        Client(url) as client,
        pytest.raises(EngineError, match="invalid event"),
    ):
        client.stream(Continue("The")).rollout()


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Type: text/html",),
        ("Content-Type: text/event-stream", "Content-Encoding: gzip"),
    ],
)
def test_a_stream_with_bad_headers_is_not_followed(headers: tuple[str, ...]) -> None:
    with sending(response(START, *headers)) as (url, received), Client(url) as client:
        with pytest.raises(EngineError, match="invalid response"):
            client.stream(Continue("The")).rollout()
        assert [data[:4] for data in received] == [b"POST"]


@pytest.mark.parametrize("sent", [b"", response(START, "Content-Type: text/event-stream")])
def test_a_server_that_hangs_up_is_not_asked_again(sent: bytes) -> None:
    with sending(sent) as (url, received), Client(url) as client:
        with pytest.raises(EngineError, match="cannot be reached"):
            client.stream(Continue("The")).rollout()
        assert [data[:4] for data in received] == [b"POST"]
