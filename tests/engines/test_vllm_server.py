"""A server that does not do as vLLM does: one sentence, and no waiting. Without vLLM."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from reviser.core.actions import ActionVocab
from reviser.engines.base import Act, Answer, Branch, DecodeConfig, Request, Score, Scores
from reviser.engines.vllm_server import VLLMServer
from reviser.errors import CheckpointError, ConfigError, EngineError
from support.asking import answers_of, records_of

httpx2 = pytest.importorskip("httpx2", reason="httpx2 is not installed: no server can be asked.")

import httpcore2  # noqa: E402
from httpcore2._backends import auto  # noqa: E402

VOCAB = ActionVocab.build(20, max_move=4)
PROBED = {"token_ids": [VOCAB.stop], "logprobs": {"top_logprobs": [{"a": -1.0, "b": -2.0}]}}


class Fake(BaseHTTPRequestHandler):
    """Answers the probe as told, and every request with the same lines."""

    probed: dict[str, Any] = PROBED
    lines: tuple[bytes, ...] = ()
    status = 200
    delay = 0.0
    asked = 0
    """Number of requests, without probes."""
    texts: list[tuple[int, ...]]
    """Those that were scored."""

    def do_GET(self) -> None:
        self.answer(200, json.dumps({"data": [{"id": "m", "max_model_len": 30}]}).encode())

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not asked.get("stream"):
            choices = [self.probed] if "vllm_xargs" in asked else self.read(asked)
            self.answer(200, json.dumps({"choices": choices}).encode())
            return
        type(self).asked += 1
        time.sleep(self.delay)
        self.answer(self.status, b"".join(b"data: " + line + b"\n\n" for line in self.lines))

    def read(self, asked: dict[str, Any]) -> Any:
        """Report that an id is as likely as it is large, and the first `count` ids."""
        ids = range(asked["prompt_logprobs"])
        type(self).texts += [tuple(prompt) for prompt in asked["prompt"]]
        return [
            {
                "index": n,
                "prompt_logprobs": [None]
                + [{str(i): {"logprob": -float(i)} for i in (*ids, each)} for each in prompt[1:]],
                "logprobs": {"top_logprobs": [{f"token_id:{i}": -float(i) for i in ids}]},
            }
            for n, prompt in reversed([*enumerate(asked["prompt"])])
        ]

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        is_stream = body.startswith(b"data:")
        self.send_header("Content-Type", "text/event-stream" if is_stream else "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[Any]:
    class Mine(Fake):
        texts: list[tuple[int, ...]] = []  # noqa: RUF012

    with ThreadingHTTPServer(("127.0.0.1", 0), Mine) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign] # whom we left
        threading.Thread(target=server.serve_forever).start()
        Mine.url = f"http://127.0.0.1:{server.server_port}/v1/"  # type: ignore[attr-defined]
        yield Mine
        server.shutdown()


@pytest.fixture
def fake() -> Iterator[Any]:
    with serving() as server:
        yield server


def chunk(*actions: int) -> bytes:
    logprobs = {"token_logprobs": [-0.5] * len(actions)}
    choice = {"token_ids": actions, "logprobs": logprobs, "text": "\x85\u2028"}
    return json.dumps({"choices": [choice]}, ensure_ascii=False).encode()


def actions_of(fake: Any, **options: Any) -> list[tuple[int, str | None]]:
    with opened(fake, **options) as engine:
        request = Request.continuation(VOCAB, [1, 2], DecodeConfig(max_actions=5))
        number, values = engine.add(Act(request)), list[Any]()
        while not values or not Answer(number, values[-1]).is_last:
            values += [value for _, value in engine.step(1.0)]
    if isinstance(values[-1], Exception):
        raise values[-1]
    return [(step.action, step.ended) for step in values]


@contextmanager
def opened(fake: Any, **options: Any) -> Iterator[VLLMServer]:
    engine = VLLMServer(fake.url, VOCAB, **options)
    try:
        yield engine
    finally:
        engine.close()


def test_only_what_the_text_does_not_report_is_asked_as_a_prompt_of_its_own(fake: Any) -> None:
    history = (1, 27, 2)
    branches = [(1, (5,)), (1, (25,)), (2, (3, 4)), (3, (19,)), (3, (28,)), (1, (25,)), (2, (3, 4))]
    asked = Score(history, 1, tuple(Branch(*each) for each in branches))
    with opened(fake) as engine:
        (found,) = answers_of(engine, [asked])
    assert isinstance(found, Scores)
    assert found.logprobs == (-27.0, -2.0)
    assert found.stop == (-inf,) * 3  # it is not among the reported ones
    assert [each.logprobs for each in found.branches] == [
        tuple(-float(i) for i in ids) for _, ids in branches
    ]
    assert sorted(fake.texts) == sorted([history, (1, 25), (1, 27, 3, 4), (*history, 28)])


def test_a_plain_language_model_needs_no_mask_and_has_no_stop(fake: Any, tmp_path: Path) -> None:
    fake.probed = {"token_ids": [1]}
    (tmp_path / "config.json").write_text('{"vocab_size": 32}')
    (tmp_path / "model.safetensors").touch()
    engine, _ = VLLMServer.load(tmp_path, url=fake.url, plain=True)
    (found,) = answers_of(engine, [Score((1, 27, 2), 2, (Branch(1, (25,)),))])
    engine.close()
    assert found == Scores((-2.0,), branches=(Scores((-25.0,)),))


def test_of_a_model_from_the_hub_the_small_files_are_enough(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface-hub is not installed.")
    VOCAB.save(tmp_path)
    asked: dict[str, Any] = {}
    monkeypatch.setattr(hub, "snapshot_download", lambda _, **o: asked.update(o) or tmp_path)
    engine, folder = VLLMServer.load("who/what", url=fake.url)
    engine.close()
    assert (folder, engine.vocab) == (tmp_path, VOCAB)
    assert asked["allow_patterns"] == ["*.json"]
    monkeypatch.setattr(hub, "snapshot_download", mock.Mock(side_effect=OSError("gone\nmore")))
    with pytest.raises(CheckpointError, match=r"no folder 'who/what'.* \(gone\)"):
        VLLMServer.load("who/what", url=fake.url)


def test_one_piece_of_a_stream_may_hold_several_actions(fake: Any) -> None:
    fake.lines = (chunk(3, 4), chunk(), chunk(5, VOCAB.stop), b"[DONE]")
    assert actions_of(fake) == [(3, None), (4, None), (5, None), (VOCAB.stop, "stop")]
    fake.lines = (chunk(3, 4, 5, 6), chunk(7, 8))
    assert actions_of(fake)[-1] == (7, "max_actions")


@pytest.mark.parametrize(
    ("lines", "status", "words"),
    [
        ((chunk(3, 4), b"[DONE]"), 200, "ended a request early"),
        ((b'{"error": {"message": "no room"}}',), 200, "refused: no room"),
        ((b"{",), 200, "does not answer as vLLM does"),
        ((b'{"choices": [{"token_ids": [1]}]}',), 200, "does not answer as vLLM does"),
        ((), 503, "refused"),
    ],
)
def test_a_server_that_fails_is_said_so(fake: Any, lines: Any, status: int, words: str) -> None:
    fake.lines, fake.status = lines, status
    with pytest.raises(EngineError, match=words):
        actions_of(fake)


def test_a_server_that_says_nothing_is_not_waited_for(fake: Any) -> None:
    fake.delay = 12.0
    start = time.monotonic()
    with pytest.raises(EngineError, match="does not answer"):
        actions_of(fake, timeout=0.5)
    assert time.monotonic() - start < 11


def test_a_server_that_does_not_mask_or_gives_masked_log_probabilities_is_refused(
    fake: Any,
) -> None:
    fake.probed = {**PROBED, "token_ids": [0]}
    with pytest.raises(ConfigError, match="does not mask actions"):
        actions_of(fake)
    fake.probed = {**PROBED, "logprobs": {"top_logprobs": [{"a": 0.0, "b": -9999.0}]}}
    with pytest.raises(ConfigError, match="raw_logprobs"):
        actions_of(fake)


def test_a_server_of_something_else_is_refused(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake, "do_GET", lambda self: self.answer(200, b"<html>"))
    with pytest.raises(EngineError, match="does not answer as vLLM does"):
        actions_of(fake)
    monkeypatch.setattr(fake, "do_GET", lambda self: self.answer(200, b"{}"))
    with pytest.raises(EngineError, match="does not answer as vLLM does"):
        actions_of(fake)
    with pytest.raises(EngineError, match="does not answer as vLLM does"):
        VLLMServer("nonsense://", VOCAB)


@pytest.mark.parametrize(
    "models",
    [
        b"[]", b"1", b"null", b'{"data": 1}', b'{"data": [1]}', b'{"data": [{"id": []}]}',
        b'{"data": [{"id": "m", "max_model_len": "x"}]}', b'{"data": [{"id": "m"}]}', b"\xff",
        b'{"data": [{"id": "m", "max_model_len": 1e999}]}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_whatever_a_server_says_of_its_models_raises_our_errors(
    fake: Any, monkeypatch: pytest.MonkeyPatch, models: bytes
) -> None:
    monkeypatch.setattr(fake, "do_GET", lambda self: self.answer(200, models))
    with pytest.raises(EngineError, match="does not answer as vLLM does"):
        actions_of(fake)


@pytest.mark.parametrize("probed", [{"token_ids": [VOCAB.stop]}, {}, {"token_ids": [VOCAB.stop],
    "logprobs": {"top_logprobs": [[]]}}, {"token_ids": [VOCAB.stop], "logprobs": 1}])  # fmt: skip
def test_whatever_a_server_says_when_it_is_probed_raises_our_errors(fake: Any, probed: Any) -> None:
    fake.probed = probed
    with pytest.raises((ConfigError, EngineError)):
        actions_of(fake)


def test_an_id_that_is_never_legal_is_the_failure_of_its_request(fake: Any) -> None:
    fake.lines = (chunk(1), chunk(int(VOCAB.forbidden[0])), chunk(2))
    with pytest.raises(EngineError, match="The mask failed on this request"):
        actions_of(fake)


def results(engine: VLLMServer, count: int) -> list[list[int] | str]:
    """What became of some requests that run at the same time: their actions, or their error."""
    request = Request.continuation(VOCAB, [1, 2], DecodeConfig(max_actions=5))
    records = records_of(engine, [request] * count)
    return [str(each["error"] or "") or each["actions"] for each in records]


def test_a_request_that_fails_fails_alone_and_is_not_sent_again(fake: Any) -> None:
    """What has been sent may have broken the server, so nothing is sent twice."""
    with opened(fake) as engine:
        fake.lines = (chunk(5),)
        assert "ended a request early" in results(engine, 1)[0]
        fake.lines, fake.status = (), 503
        assert "refused" in results(engine, 1)[0]
        fake.lines, fake.status = (chunk(5, VOCAB.stop),), 200
        assert results(engine, 2) == [[5, VOCAB.stop]] * 2
    assert fake.asked == 4


def test_a_connection_that_is_refused_once_is_tried_again(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.lines = (chunk(5, VOCAB.stop),)
    backend = auto.AutoBackend
    connect, failures = backend.connect_tcp, [False]

    async def unsteady(*words: Any, **options: Any) -> Any:
        if failures and failures.pop(0):
            raise httpcore2.ConnectError("no")
        return await connect(*words, **options)

    monkeypatch.setattr(backend, "connect_tcp", unsteady)
    with opened(fake) as engine:
        failures += [True]
        assert results(engine, 1) == [[5, VOCAB.stop]]
        failures += [True, True]
        assert "There is no server" in results(engine, 1)[0]
    assert fake.asked == 1


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    fake.lines = (chunk(5, VOCAB.stop),)
    assert actions_of(fake)[-1] == (VOCAB.stop, "stop")
