"""Streams of edits: all clients rebuild the server's text, and nothing is lost or repeated."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("fastapi", reason="The extra serve is not installed.")

import httpx2

from reviser.core.canvas import Canvas
from reviser.engines.settings import DecodeConfig
from reviser.errors import EngineError
from reviser.serve import service
from reviser.serve.client import Client, StreamedEdit
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import Continue, task_from_dict
from support.browsers import node
from support.serving import NAME, Served, eventually, reviser, serving

HERE = Path(__file__).parent
CLIENT_JS = HERE.parent.parent / "src/reviser/serve/assets/client.js"
MODEL = reviser()
ENDLESS: Any = {"max_actions": 3000, "stop_bias": -1}
PIECES = [
    "The cat", " sat", ".", "\n", "\r\n", "\u2028", "\u0085", "é", "e\u0301", "你好", "😀",
    "👩\u200d🚀", "👍🏽", "🇩🇪", "שלום", "مرحبا", "\u202eabc\u202c", "नमस्ते", "\ufeff", "<|stop|>",
    "<|endoftext|>",     "data: x\n\n", "\0", "{", "\U0001d518",
]  # fmt: skip


@pytest.fixture(scope="module")
def slow() -> Iterator[Served]:
    with mock.patch.object(service, "PING_SECONDS", 0.1), serving(seconds=0.02) as served:
        yield served


def random_request(rng: Random, most: int = 24) -> tuple[str, dict[str, Any]]:
    """Return the path and body of a request with any text."""
    words = ["".join(rng.choices(PIECES, k=rng.randint(0, 4))) for _ in range(rng.randint(2, 4))]
    settings = {"seed": rng.randrange(2**32), "max_actions": rng.randint(1, most)}
    texts = {
        "/v1/generate": {"prompt": "".join(words)},
        "/v1/infill": {"text": "{}".join(words)},
        "/v1/revise": {"draft": "".join(words), "min_edit_probability": 0, "window": 256},
    }
    path = rng.choice([*texts])
    return path, texts[path] | settings


def split(body: dict[str, Any]) -> tuple[Any, Any]:
    """Return the task and the settings of a body."""
    settings = {name: body[name] for name in ("seed", "max_actions")}
    return task_from_dict({k: v for k, v in body.items() if k not in settings}), settings


def expected(body: dict[str, Any]) -> Rollout:
    """Return the rollout of a request without a server."""
    task, settings = split(body)
    config = DecodeConfig.of(settings | {"max_length": 16_384}, task.default_config)
    result = MODEL.run(task, config)
    return result.rollouts[0] if isinstance(result, Revision) else result


def replayed(rollout: Rollout) -> str:
    """Return the text that its actions make."""
    actions = [*rollout.trajectory.prefix, *rollout.trajectory.restoration]
    return MODEL.codec.decode(Canvas.replay(MODEL.engine.vocab, actions).tokens())


def same(rollout: Rollout, wanted: Rollout) -> bool:
    """Return whether two rollouts are equal but for the model's name."""
    assert rollout.provenance == {"model": NAME}
    assert replayed(rollout) == rollout.text
    return replace(rollout, provenance={}) == replace(wanted, provenance={})


def in_javascript(
    url: str, requests: list[tuple[str, dict[str, Any]]], at_once: int = 16
) -> list[dict[str, Any]]:
    asked = {"client": str(CLIENT_JS), "url": url, "requests": requests, "atOnce": at_once}
    run = subprocess.run(
        [node(), "--no-warnings", str(HERE / "rebuild.mjs")],
        input=json.dumps(asked), capture_output=True, text=True, encoding="utf-8", timeout=100,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.split("\n") if line]


def in_python(
    url: str, requests: list[tuple[str, dict[str, Any]]], at_once: int = 16
) -> list[tuple[str, int, list[StreamedEdit], Rollout]]:
    with Client(url) as client, ThreadPoolExecutor(at_once) as pool:

        def follow(request: tuple[str, dict[str, Any]]) -> Any:
            task, settings = split(request[1])
            stream = client.stream(task, **settings)
            edits = list(stream)
            return stream.text, stream.cursor, edits, stream.rollout()

        return list(pool.map(follow, requests))


def test_both_clients_rebuild_the_servers_text_from_its_events(server: Served) -> None:
    rng = Random(1)
    requests = [random_request(rng, most=16) for _ in range(120)]
    ours = in_python(server.url, requests)
    for n, (text, cursor, edits, rollout) in enumerate(ours):
        assert text == rollout.text == replayed(rollout)
        assert cursor == edits[-1].cursor
        assert [edit.step for edit in edits] == list(range(1, len(edits) + 1))
        assert [edit.logprob for edit in edits] == list(rollout.logprobs)
        if n % 4 == 0:
            assert same(rollout, expected(requests[n][1]))
    theirs = in_javascript(server.url, requests)
    for (_, _, edits, rollout), other in zip(ours, theirs, strict=True):
        assert other["text"] == other["theirs"] == rollout.text
        assert other["edits"] == len(edits)
        assert other["actions"] == list(rollout.trajectory.restoration)


def raw_events(response: Any) -> list[tuple[int, str, Any]]:
    """Parse events without the client's parser."""
    blocks = response.content.split(b"\n\n")
    assert blocks.pop() == b""
    events = []
    for block in blocks:
        if not block.startswith(b": ping"):
            lines = block.decode().split("\n")
            assert [line.partition(": ")[0] for line in lines] == ["id", "event", "data"]
            number, kind, data = (line.partition(": ")[2] for line in lines)
            events.append((int(number), kind, json.loads(data)))
    return events


def test_events_are_numbered_by_step_and_end_with_the_rollout(server: Served) -> None:
    body = {"text": "The{} mat. 😀{}", "seed": 5, "max_actions": 40}
    for unit in ("char", "utf16"):
        response = server.post("/v1/infill", body | {"stream": True, "unit": unit})
        assert response.headers["content-type"].startswith("text/event-stream")
        events = raw_events(response)
        start, *edits, done = events
        assert [number for number, _, _ in events] == list(range(len(events)))
        assert [kind for _, kind, _ in events] == ["start", *["edit"] * len(edits), "done"]
        assert start[2] == {"text": "The mat. 😀", "cursor": 3, "unit": unit}
        assert [data["step"] for _, _, data in edits] == [number for number, _, _ in edits]
        assert same(Rollout.from_json(json.dumps(done[2])), expected(body))
        kinds = {data["kind"] for _, _, data in edits}
        assert {"insert", "move"} <= kinds <= {
            "insert", "move", "mark", "back", "stop", "delete", "replace", "swap", "span_delete",
            "span_move", "span_copy", "argument",
        }  # fmt: skip
        for _, _, data in edits:
            assert set(data) == {
                "step", "kind", "offset", "removed", "inserted", "cursor", "logprob"
            }  # fmt: skip


def test_a_client_that_closes_a_stream_or_vanishes_frees_the_engine(slow: Served) -> None:
    before = slow.engine()["cancelled"]
    with Client(slow.url) as client:
        stream = client.stream(Continue("The"), **ENDLESS)
        for edit in stream:
            if edit.step == 5:
                stream.close()
                break
        eventually(lambda: slow.engine()["running"] == 0, 3)
        assert stream.text.startswith("The")
        with pytest.raises(EngineError, match="closed before its end"):
            stream.rollout()
    body = {"prompt": "The", **ENDLESS}
    with slow.http.stream("POST", "/v1/generate", json=body | {"stream": True}) as response:
        parts = response.iter_bytes()
        next(parts)  # the event `start`, which does not wait for the engine
        eventually(lambda: slow.engine()["running"] == 1, 3)
    eventually(lambda: slow.engine()["running"] == 0, 3)
    completion = {"prompt": "The", "max_tokens": 3000, "stop_bias": -1}
    draft = {"draft": "The cat sat. " * 12, "window": 20, "max_actions": 3000, "stop_bias": -1}
    draft |= {"min_edit_probability": 0}
    for path, asked in (
        ("/v1/generate", body), ("/v1/completions", completion), ("/v1/revise", draft)
    ):  # fmt: skip
        with pytest.raises(httpx2.TimeoutException):
            slow.http.post(path, json=asked, timeout=0.5)
        eventually(lambda: slow.engine()["running"] == 0, 3)
    assert slow.engine()["cancelled"] >= before + 5  # a draft has several windows


def test_a_silent_stream_sends_pings(slow: Served) -> None:
    slow.fault.write_text("hold")
    body = {"prompt": "The", "max_actions": 2, "stream": True}
    with slow.http.stream("POST", "/v1/generate", json=body) as response:
        parts = response.iter_bytes()
        assert b"event: start" in next(parts)
        assert next(parts).startswith(b": ping")
        slow.fault.write_text("")
