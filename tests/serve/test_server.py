"""The server under stress and in trouble: overload, faults, limits, keys, logs, bad input."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="The extra serve is not installed.")

import httpx2

from experiments.speed.serve import resident
from reviser.engines.base import DecodeConfig
from reviser.errors import ConfigError, EngineError, RequestRefused
from reviser.serve.client import Client
from reviser.serve.events import Buffer
from reviser.serve.limits import Limits
from reviser.serve.middleware import Keys, read_keys
from reviser.serve.schema import RolloutBody, Settings
from reviser.writing.model import Rollout
from support.serving import NAME, Served, eventually, serving

LONG = {"prompt": "The", "max_actions": 3000, "stop_bias": -1}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    limits = {
        "body_bytes": 20_000, "prompt_characters": 2000, "prompt_tokens": 900, "max_actions": 300,
        "body_seconds": 2,
    }  # fmt: skip
    origins = ("https://ours.example",)
    with serving(keys=("first-key", "second-key"), limits=limits, origins=origins) as served:
        yield served


KEY = {"Authorization": "Bearer first-key"}


def sentence(answer: Any) -> str:
    """What an error says; it must be one, in full, and tell no secrets."""
    told = answer.json()["error"]
    assert set(told) == {"message", "type", "code"}
    assert told["code"] == answer.status_code
    assert told["message"].endswith((".", "?"))
    for secret in ("secret", "-key", "Traceback", "/tmp", "/home", "internal"):
        assert secret not in answer.text
    return str(told["message"])


# -- load and faults ------------------------------------------------------------------------------


def test_overload_is_refused_with_429_and_passes() -> None:
    with serving(seconds=0.01, limits={"running": 4, "waiting": 6}) as server:

        def ask(seed: int) -> Any:
            return server.post("/v1/generate", {"prompt": "The", "seed": seed, "max_actions": 40})

        with ThreadPoolExecutor(40) as pool:
            answers = list(pool.map(ask, range(40)))
        refused = [answer for answer in answers if answer.status_code == 429]
        assert 20 <= len(refused) <= 30
        assert {answer.status_code for answer in answers} == {200, 429}
        for answer in refused:
            assert "wait already" in sentence(answer)
        # Seven or more turns at four, a second each until it is known that they are shorter.
        assert 2 <= max(int(answer.headers["retry-after"]) for answer in refused) <= 3
        assert ask(1).status_code == 200
        counts = server.metrics()
        assert counts['reviser_refused_total{reason="full"}'] == len(refused)
        assert counts["reviser_waiting"] == counts["reviser_running"] == 0
        asked = counts['reviser_requests_total{route="/v1/generate",status="200"}']
        assert asked == counts["reviser_completion_seconds_count"] == 41 - len(refused)
        assert counts["reviser_first_edit_seconds_count"] == asked
        with Client(server.url) as client:
            streams = [client.stream(**LONG) for _ in range(10)]
            with pytest.raises(RequestRefused, match="wait already") as error:
                client.stream(**LONG)
            for stream in streams:
                stream.close()
        assert error.value.status == 429
        assert error.value.retry_after


def test_sigterm_under_load_loses_nothing_that_was_accepted() -> None:
    with serving(seconds=0.02, limits={"running": 8, "waiting": 32}) as server:

        def ask(seed: int) -> Rollout:
            body = {"prompt": "The", "seed": seed, "max_actions": 40}
            with Client(server.url) as client:
                return client.stream(**body).rollout() if seed % 2 else client.generate(**body)

        server.fault.write_text("hold")  # until all have come
        with ThreadPoolExecutor(24) as pool:
            futures = [pool.submit(ask, seed) for seed in range(24)]
            eventually(lambda: server.metrics()["reviser_waiting"] == 16)
            server.process.send_signal(signal.SIGTERM)
            eventually(lambda: server.get("/ready").status_code == 503)
            assert server.get("/ready").json() == {"status": "draining"}
            assert server.get("/health").status_code == 200
            late = server.post("/v1/generate", {})
            assert (late.status_code, "about to end" in sentence(late)) == (503, True)
            assert late.headers["connection"] == "close"  # the next goes elsewhere
            server.fault.write_text("")
            rollouts = [future.result() for future in futures]
        assert all(rollout.stop_reason in ("stop", "max_actions") for rollout in rollouts)
        assert server.process.wait(30) == 0


def test_a_drain_waits_for_a_reader_who_may_come_back() -> None:
    with serving(seconds=0.01, limits={"resume_seconds": 3}) as server:
        body = {"prompt": "The", "seed": 3, "max_actions": 20, "stream": True}
        with httpx2.stream("POST", server.url + "/v1/generate", json=body, timeout=20) as response:
            stream = response.headers["x-stream-id"]
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        rest = server.get(f"/v1/streams/{stream}")
        assert "event: done" in rest.text
        assert server.process.wait(30) == 0


def test_a_second_signal_and_a_drain_that_takes_too_long_end_it() -> None:
    limits = {"drain_seconds": 0.5}
    with serving(seconds=0.05, limits=limits) as server, Client(server.url) as client:
        stream = client.stream(**LONG)
        next(iter(stream))
        server.process.send_signal(signal.SIGTERM)
        assert stream.rollout().stop_reason == "cancelled"
        assert server.process.wait(30) == 0
    with serving(seconds=0.05) as server, Client(server.url) as client:
        stream = client.stream(**LONG)
        next(iter(stream))
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        server.process.send_signal(signal.SIGTERM)
        assert stream.rollout().stop_reason == "cancelled"
        assert server.process.wait(30) != 0


def test_an_engine_that_fails_once_is_taken_up_again() -> None:
    with serving(seconds=0.02) as server, Client(server.url) as client:
        stream = client.stream(**LONG)
        next(iter(stream))
        with ThreadPoolExecutor(1) as pool:
            whole = pool.submit(server.post, "/v1/generate", LONG)
            eventually(lambda: server.engine()["running"] == 2)
            server.fault.write_text("raise once")
            assert whole.result().status_code == 502
        assert "engine failed" in sentence(whole.result())
        for _ in range(2):  # as often as one asks
            with pytest.raises(EngineError, match="engine failed"):
                stream.rollout()
        eventually(client.is_ready)
        assert client.generate("The", max_actions=5).text
        assert server.metrics()["reviser_engine_failures_total"] == 1
        assert "the engine broke" in server.log.read_text()


def test_one_request_that_the_engine_fails_fails_alone() -> None:
    with serving(seconds=0.02) as server, ThreadPoolExecutor(2) as pool:
        body = {"prompt": "The", "max_actions": 60, "stop_bias": -1}
        both = [pool.submit(server.post, "/v1/generate", body) for _ in range(2)]
        eventually(lambda: server.engine()["running"] == 2)
        server.fault.write_text("step error")
        answers = [future.result() for future in both]
        assert sorted(answer.status_code for answer in answers) == [200, 502]
        for answer in answers:
            if answer.status_code == 502:
                sentence(answer)
        assert server.get("/ready").status_code == 200
        server.fault.write_text("step errors")  # it is more than the one request
        assert server.post("/v1/generate", body).status_code == 502
        eventually(lambda: server.get("/ready").status_code == 503, 3)


@pytest.mark.parametrize("word", ["raise", "hang"])
def test_a_dead_engine_ends_the_process_for_its_supervisor(word: str) -> None:
    limits = {"recovery_seconds": 8, "stall_seconds": 3, "running": 2}  # time to look at it
    with serving(seconds=0.02, limits=limits) as server, ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(server.post, "/v1/generate", LONG) for _ in range(4)]
        eventually(lambda: server.metrics()["reviser_waiting"] == 2)
        server.fault.write_text(word)
        if word == "raise":
            eventually(lambda: server.get("/ready").status_code == 503)
            assert "does not answer" in sentence(server.post("/v1/generate", LONG))
        answers = [future.result() for future in asked]
        assert sorted(answer.status_code for answer in answers) == [502, 502, 503, 503]
        for answer in answers:
            words = "engine failed" if answer.status_code == 502 else "about to end"
            assert words in sentence(answer)
        assert server.process.wait(30) == 1
        assert ("the engine broke" if word == "raise" else "it hangs") in server.log.read_text()


def test_an_engine_that_dies_without_work_is_noticed() -> None:
    with serving(limits={"probe_seconds": 0.1, "recovery_seconds": 0.5}) as server:
        server.fault.write_text("raise once")
        eventually(lambda: server.metrics()["reviser_engine_failures_total"] == 1)
        eventually(lambda: server.get("/ready").status_code == 200)
        server.fault.write_text("raise")
        assert server.process.wait(30) == 1
        assert "the engine broke" in server.log.read_text()


def test_an_engine_that_fails_once_while_the_server_ends_loses_only_what_it_ran() -> None:
    with serving(seconds=0.02, limits={"running": 1}) as server, ThreadPoolExecutor(3) as pool:
        body = {"prompt": "The", "max_actions": 40, "stop_bias": -1}
        server.fault.write_text("hold")
        asked = [pool.submit(server.post, "/v1/generate", body) for _ in range(3)]
        eventually(lambda: server.metrics()["reviser_waiting"] == 2)
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: server.get("/ready").status_code == 503)
        server.fault.write_text("raise once")
        assert sorted(future.result().status_code for future in asked) == [200, 200, 502]
        assert server.process.wait(30) == 1


def test_a_request_that_enters_while_the_engine_dies_is_told() -> None:
    with serving(seconds=0.02, limits={"recovery_seconds": 0.3}, plan_seconds=1.5) as server:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(server.post, "/v1/generate", LONG)
            eventually(lambda: server.engine()["running"] == 1)
            entering = pool.submit(server.post, "/v1/generate", LONG)
            time.sleep(0.3)
            server.fault.write_text("raise")
            assert first.result().status_code == 502
            late = entering.result()
        assert (late.status_code, "about to end" in sentence(late)) == (503, True)
        assert server.process.wait(30) == 1


def test_an_engine_that_fails_while_the_server_ends_is_not_waited_for() -> None:
    with serving(seconds=0.02, limits={"recovery_seconds": 60}) as server:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(server.post, "/v1/generate", LONG)
            eventually(lambda: server.engine()["running"] == 1)
            server.process.send_signal(signal.SIGTERM)
            eventually(lambda: server.get("/ready").status_code == 503)
            server.fault.write_text("raise")
            assert asked.result().status_code == 502
        assert server.process.wait(30) == 1  # something accepted was lost
    with serving(limits={"probe_seconds": 0.1, "recovery_seconds": 60}) as server:
        server.fault.write_text("raise")
        eventually(lambda: server.get("/ready").status_code == 503)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 1


def test_a_slow_reader_holds_up_nobody_and_may_fall_behind() -> None:
    limits = {"stream_bytes": 5000, "resume_seconds": 60, "max_actions": 4000}
    with serving(limits=limits) as server:
        body = json.dumps(LONG | {"stream": True, "max_actions": 4000, "max_length": 50}).encode()
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", server.port))
            reader.sendall(
                b"POST /v1/generate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\n\r\n%b" % (len(body), body)
            )
            head = reader.recv(2000).decode()
            stream = head.partition("x-stream-id: ")[2].partition("\r\n")[0]
            answer = server.post("/v1/generate", {"prompt": "The", "max_actions": 50})
            assert answer.status_code == 200  # while the other takes nothing
            eventually(lambda: server.engine()["running"] == 0, 120)
            reader.settimeout(60)
            rest = b""
            while not rest.endswith(b"0\r\n\r\n"):  # now it reads on
                rest += (data := reader.recv(65536))
                assert data
            assert b"event: done" not in rest
            assert b"event: failure" in rest
        late = server.get(f"/v1/streams/{stream}", headers={"Last-Event-ID": "3"})
        assert (late.status_code, "no longer kept" in sentence(late)) == (410, True)


def test_a_reader_who_takes_nothing_is_cut_off() -> None:
    limits = {"write_seconds": 1, "resume_seconds": 600}
    with serving(limits=limits) as server, socket.socket() as reader:
        body = LONG | {"stream": True, "max_length": 50}
        written = server.post("/v1/generate", body)
        address, times = f"/v1/streams/{written.headers['x-stream-id']}", 20
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", server.port))
        reader.sendall(f"GET {address} HTTP/1.1\r\nhost: x\r\n\r\n".encode() * times)
        assert len(written.content) * times > 8e6  # more than a system keeps for one
        time.sleep(2)
        reader.settimeout(60)
        rest = b""
        with suppress(ConnectionResetError):
            while data := reader.recv(1 << 20):
                rest += data
                assert rest.count(b"event: done") < times
        assert written.content[:1000] in rest
        with socket.create_connection(("127.0.0.1", server.port)) as patient:
            asked = f"GET {address} HTTP/1.1\r\nhost: x\r\n\r\n".encode()
            patient.settimeout(60)
            patient.sendall(asked * times)
            time.sleep(0.3)
            rest = b""
            while rest.count(b"event: done") < times:
                rest += (data := patient.recv(1 << 20))
                assert data
            time.sleep(1.3)  # who was slow for a while and is no more is left alone
            patient.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
            while b'"ok"' not in (rest := rest[-200:] + data):
                data = patient.recv(1 << 20)
                assert data


def test_a_text_that_takes_too_long_is_handed_over_as_it_is() -> None:
    with serving(seconds=0.02, limits={"seconds": 0.6, "running": 1}) as server:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(server.post, "/v1/generate", LONG)
            eventually(lambda: server.engine()["running"] == 1)
            assert first.result().json()["stop_reason"] == "time"
        completion = server.post("/v1/completions", {"max_tokens": 3000, "stop_bias": -1}).json()
        assert completion["choices"][0]["finish_reason"] == "length"


def test_a_request_that_cannot_begin_in_time_is_told() -> None:
    limits = {"seconds": 0.6, "running": 1, "stall_seconds": 3}
    with serving(seconds=0.02, limits=limits) as server, ThreadPoolExecutor(2) as pool:
        first = pool.submit(server.post, "/v1/generate", LONG)
        eventually(lambda: server.engine()["running"] == 1)
        server.fault.write_text("hang")
        second = server.post("/v1/generate", LONG)
        assert (second.status_code, "too busy to begin" in sentence(second)) == (503, True)
        assert first.result().status_code == 502


def test_an_ended_stream_is_kept_for_its_time_and_holds_little() -> None:
    with serving(seconds=0.02, limits={"resume_seconds": 3}) as server:
        body = {"prompt": "The", "max_actions": 100, "stop_bias": -1, "stream": True}
        with httpx2.stream("POST", server.url + "/v1/generate", json=body, timeout=20) as response:
            address = f"/v1/streams/{response.headers['x-stream-id']}"
        time.sleep(3.8)  # it ended after two seconds, and is kept for three more
        again = server.get(address)
        assert (again.status_code, "event: done" in again.text) == (200, True)
        last = re.findall(r"id: (\d+)", again.text)[-1]
        assert server.get(address, headers={"Last-Event-ID": last}).status_code == 204
    with serving(limits={"streams": 1024, "resume_seconds": 600}) as server:
        before = 0
        for n in range(150):
            body = {"prompt": "The cat. " * 400, "max_actions": 2, "seed": n, "stream": True}
            assert "event: done" in server.post("/v1/generate", body).text
            before = before or resident(server.process.pid)
        assert (
            resident(server.process.pid) - before < 40
        )  # MiB; with all that wrote them it would be 180


# -- keys, limits, logs ---------------------------------------------------------------------------


def test_without_a_key_nothing_is_written(server: Served) -> None:
    for headers in (
        {}, {"Authorization": "Bearer"}, {"Authorization": "Bearer first-keyy"},
        {"Authorization": "Basic first-key"}, {"Authorization": "first-key"},
        {"X-Api-Key": "first-key"}, {"Authorization": b"Bearer \xff"},
    ):  # fmt: skip
        routes = ("generate", "infill", "revise", "completions", "streams/x/cancel")
        for path in (f"/v1/{route}" for route in routes):
            answer = server.post(path, {"prompt": "The"}, headers=headers)
            assert (answer.status_code, "valid key" in sentence(answer)) == (401, True)
            assert answer.headers["www-authenticate"] == "Bearer"
        assert server.get("/v1/models", headers=headers).status_code == 401
    for path in ("/health", "/ready", "/metrics", "/client.js", "/openapi.json"):
        assert server.get(path).status_code == 200
    for key in ("first-key", "second-key"):
        headers = {"Authorization": f"bearer {key}"}
        assert server.post("/v1/generate", {"max_actions": 3}, headers=headers).status_code == 200


def test_a_stream_belongs_to_the_key_that_began_it(server: Served) -> None:
    body = {"stream": True, "max_actions": 5}
    stream = server.post("/v1/generate", body, headers=KEY).headers["x-stream-id"]
    other = {"Authorization": "Bearer second-key"}
    assert server.get(f"/v1/streams/{stream}", headers=other).status_code == 404
    assert server.post(f"/v1/streams/{stream}/cancel", None, headers=other).status_code == 404
    assert server.get(f"/v1/streams/{stream}", headers=KEY).status_code == 200


def test_pages_of_other_hosts_are_answered_only_if_they_were_named(server: Served) -> None:
    asks = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    for origin, allowed in (
        ("https://ours.example", "https://ours.example"),
        ("https://other.example", None),
        ("https://ours.example.other", None),
        ("http://ours.example", None),
        ("null", None),
    ):
        url = server.url + "/v1/generate"
        before = httpx2.options(url, headers={"origin": origin} | asks, timeout=20)
        assert (before.status_code == 200) == (allowed is not None)
        after = server.post("/v1/generate", {"max_actions": 1}, headers=KEY | {"origin": origin})
        for answer in (before, after):
            assert answer.headers.get("access-control-allow-origin") == allowed
            assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_what_a_form_of_another_page_can_send_is_refused(server: Served, kind: str | None) -> None:
    headers = KEY | ({} if kind is None else {"content-type": kind})
    for path in ("generate", "completions"):
        answer = httpx2.post(
            f"{server.url}/v1/{path}", content=b'{"prompt": "a"}', headers=headers, timeout=20
        )
        assert answer.status_code == 400


def test_keys_are_read_from_a_file_and_a_list(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# ours\nabc\n\n  def \n")
    assert read_keys(tmp_path / "keys", None) == ["abc", "def"]
    assert read_keys(tmp_path / "keys", "x") == ["abc", "def", "x"]
    assert read_keys(None, "x, y,#z") == ["x", "y", "#z"]
    assert read_keys(None, None) == []
    (tmp_path / "none").write_text("#\n")
    with pytest.raises(ConfigError, match="no key in"):
        read_keys(tmp_path / "none", None)
    for blank in ("", " , "):  # a secret that is empty must not open the door
        with pytest.raises(ConfigError, match="no key in REVISER_API_KEYS"):
            read_keys(None, blank)
    with pytest.raises(ConfigError, match="Cannot read the keys"):
        read_keys(tmp_path / "missing", None)
    with pytest.raises(ConfigError, match="space"):
        read_keys(None, "a b")
    assert Keys(["a"]).owner(b"Bearer a") == Keys(["b", "a"]).owner(b"Bearer a") != ""
    assert Keys(["a"]).owner(b"Bearer b") is None
    assert Keys().owner(b"") == ""


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/generate", {"prompt": "a" * 2001}, 400, "2001 characters; this server takes 2000"),
        ("/v1/infill", {"text": "ʒ" * 1000 + "{}"}, 400, "tokens; this server takes 900"),
        ("/v1/generate", {"prompt": "a" * 20_000}, 413, "20000 bytes or less"),
        ("/v1/generate", {"max_actions": 301}, 400, "max_actions is 301; this server takes 300"),
        ("/v1/completions", {"max_tokens": 301}, 400, "this server takes 300"),
        ("/v1/generate", {"temprature": 1}, 400, "no field 'temprature'. Did you mean 'temper"),
        ("/v1/generate", {"zzz": 1}, 400, "no field 'zzz'. Known: "),
        ("/v1/generate", {"temperature": -1}, 400, "'temperature': Input should be greater"),
        ("/v1/generate", {"temperature": "1"}, 400, "'temperature': Input should be a valid num"),
        ("/v1/generate", {"top_k": 1.5}, 400, "'top_k'"),
        ("/v1/generate", {"seed": True}, 400, "'seed'"),
        ("/v1/generate", {"top_p": 0}, 400, "'top_p': Input should be greater than 0"),
        ("/v1/generate", {"prompt": "\ud800"}, 400, "half a surrogate"),
        ("/v1/generate", {"\ud800": 1}, 400, "no field"),
        ("/v1/generate", [], 400, "Send one JSON object"),
        ("/v1/infill", {"text": "no"}, 400, "The text has no gap"),
        ("/v1/infill", {}, 400, "'text': Field required"),
        ("/v1/infill", {"text": "no", "spans": [[2, 1]]}, 400, "must be in order"),
        ("/v1/infill", {"text": "no", "spans": [[0, 9]]}, 400, "within the text's 2"),
        ("/v1/infill", {"text": "no", "spans": [[0]]}, 400, "'spans.0'"),
        ("/v1/infill", {"text": "no", "spans": []}, 400, "give one or more"),
        ("/v1/revise", {}, 400, "'draft': Field required"),
        ("/v1/revise", {"draft": "no", "locked": ["yes"]}, 400, "does not hold 'yes'"),
        ("/v1/revise", {"draft": "no", "locked": [""]}, 400, "does not hold ''"),
        ("/v1/revise", {"draft": "no", "locked": [[0, 9]]}, 400, "not within the draft's 2"),
        ("/v1/revise", {"draft": "no", "locked": [[0]]}, 400, "'locked.0"),
        ("/v1/revise", {"draft": "no", "locked": ["n"] * 1001}, 400, "'locked': List should"),
        ("/v1/revise", {"draft": "no", "window": 0}, 400, "'window': Input should be greater"),
        ("/v1/revise", {"draft": "no", "precision": 0.9}, 400, "no calibration.json"),
        ("/v1/revise", {"draft": "\ud800"}, 400, "half a surrogate"),
        ("/v1/revise", {"draft": "a", "locked": ["\ud800"]}, 400, "does not hold"),
        ("/v1/revise", {"draft": "a" * 1500, "instruction": "a" * 501}, 400, "2001 characters"),
        ("/v1/revise", {"draft": "ʒ" * 1000}, 400, "tokens or more, with what is shown around"),
        ("/v1/revise", {"draft": "a b " * 9, "window": 8, "stream": True}, 400, "leave out stream"),
        ("/v1/revise", {"draft": "The cat", "max_length": 1}, 400, "max_length is 1, and the"),
        ("/v1/completions", {"model": "gpt"}, 404, "no such model"),
        ("/v1/completions", {"n": 2}, 400, "'n' is not supported here"),
        ("/v1/completions", {"best_of": True}, 400, "'best_of' is not supported here"),
        ("/v1/completions", {"stop": ["."]}, 400, "'stop' is not supported here"),
        ("/v1/completions", {"stop": "."}, 400, "'stop' is not supported here"),
        ("/v1/completions", {"prompt": ["a", "b"]}, 400, "one prompt a request"),
        ("/v1/generate", {"prompt": "The cat", "max_length": 1}, 400, "max_length is 1, and the"),
        ("/v1/completions", {"max_tokens": 3, "max_actions": 3}, 400, "mean the same"),
        ("/v1/nothing", {}, 404, "nothing here"),
        ("/health", {}, 405, "not how it is asked"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_a_sentence(
    server: Served, path: str, body: Any, status: int, words: str
) -> None:
    answer = server_post_json(server, path, body)
    assert answer.status_code == status, answer.text
    assert words in sentence(answer)


def server_post_json(server: Served, path: str, body: Any) -> Any:
    """As Python's own JSON, which holds more than httpx2 would send."""
    headers = KEY | {"content-type": "application/json"}
    return httpx2.post(server.url + path, content=json.dumps(body), headers=headers, timeout=20)


def test_a_body_that_is_endless_or_does_not_come_is_cut_off(server: Served) -> None:
    def endless() -> Iterator[bytes]:
        yield from [b"x" * 1000] * 100

    try:
        answer = httpx2.post(
            server.url + "/v1/generate", content=endless(), headers=KEY, timeout=20
        )
        assert answer.status_code == 413
    except httpx2.TransportError:
        pass  # it may break off before the answer is read
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(b"POST /v1/generate HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n"
                     b"authorization: Bearer first-key\r\n\r\n{")  # fmt: skip
        slow.settimeout(20)
        assert b" 408 " in slow.recv(200)


def test_control_tokens_in_a_prompt_are_letters(server: Served) -> None:
    text = "<|stop|><|endoftext|> <|move+1|>"
    told = server.post("/v1/generate", {"prompt": text, "max_actions": 20}, headers=KEY).json()
    assert told["text"].startswith(text)
    prefix = told["trajectory"]["prefix"]
    assert len(prefix) > 10
    filled = server.post("/v1/infill", {"text": text + "{}" + text}, headers=KEY).json()
    assert filled["text"].startswith(text)
    assert filled["text"].endswith(text)


def test_the_log_tells_facts_and_no_text(server: Served) -> None:
    marker = "zebra-crossing"
    for path, body in [
        ("/v1/generate", {"prompt": marker}),
        ("/v1/generate", {"prompt": marker, "stream": True}),
        ("/v1/infill", {"text": marker + "{}"}),
        ("/v1/infill", {"text": marker}),
        ("/v1/revise", {"draft": marker, "instruction": marker, "locked": ["zebra"]}),
        ("/v1/revise", {"draft": "The cat", "locked": [marker]}),
        ("/v1/completions", {"prompt": marker, "user": marker}),
        ("/v1/completions", {"prompt": marker, "suffix": marker, "stream": True}),
        ("/v1/completions", {"model": marker}),
        ("/v1/generate", {marker: marker}),
        ("/v1/generate", {"temperature": marker}),
        (f"/v1/{marker}?{marker}={marker}", {}),
        (f"/v1/streams/{marker}/cancel", {}),
    ]:
        server.post(path, body, headers=KEY | {"user-agent": marker, "x-request-id": marker})
        server.post(path, body, headers={"authorization": f"Bearer {marker}"})
    with httpx2.stream(
        "POST", server.url + "/v1/generate", headers=KEY, json=LONG, timeout=20
    ) as response:
        response.close()
    time.sleep(0.1)
    log = server.log.read_text()
    assert marker not in log
    assert "-key" not in log
    lines = [json.loads(line) for line in log.splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert {"time", "level", "id", "route", "status", "seconds"} <= set(requests[0])
    assert any(line.get("actions") for line in requests)
    assert "none" in {line["route"] for line in requests}
    assert marker not in server.get("/metrics").text
    assert "secret" not in log


# -- OpenAI's routes ------------------------------------------------------------------------------


def test_completions_are_what_openais_clients_expect(server: Served) -> None:
    def ask(**body: Any) -> Any:
        return server.post("/v1/completions", {"seed": 4, "max_tokens": 30, **body}, headers=KEY)

    told = ask(prompt="The cat", model=NAME, n=1, stop=None, presence_penalty=0).json()
    settings = {"prompt": "The cat", "seed": 4, "max_actions": 30}
    rollout = server.post("/v1/generate", settings, headers=KEY).json()
    assert told["object"] == "text_completion"
    assert told["model"] == NAME
    [choice] = told["choices"]
    assert "The cat" + choice["text"] == rollout["text"]
    assert (
        choice["finish_reason"] == {"stop": "stop", "max_actions": "length"}[rollout["stop_reason"]]
    )
    cost = rollout["statistics"]
    assert told["usage"] == {
        "prompt_tokens": cost["tokens_before"],
        "completion_tokens": cost["actions"],
        "total_tokens": cost["tokens_before"] + cost["actions"],
    }
    assert ask(prompt="The cat", echo=True).json()["choices"][0]["text"] == rollout["text"]
    between = ask(prompt="The", suffix=" end.").json()["choices"][0]["text"]
    whole = ask(prompt="The", suffix=" end.", echo=True).json()["choices"][0]["text"]
    assert whole == "The" + between + " end."
    lines = ask(prompt="The cat", stream=True, stream_options={"include_usage": True}).text
    first, last, end = lines.split("\n\n")[:-1]
    assert json.loads(first.removeprefix("data: "))["choices"] == [choice]
    assert json.loads(last.removeprefix("data: "))["usage"] == told["usage"]
    assert end == "data: [DONE]"
    nulls = dict.fromkeys(["temperature", "top_p", "n", "echo", "stream", "stop", "logprobs"])
    for sent in ({"prompt": ["The cat"]}, {"prompt": "The cat", **nulls}, {"prompt": "The cat",
                 "stop": [], "logprobs": 0, "logit_bias": {}, "user": "me"}):  # fmt: skip
        assert ask(**sent).json()["choices"] == [choice]
    assert ask(prompt=["The", "cat"]).status_code == 400
    models = server.get("/v1/models", headers=KEY).json()
    assert [model["id"] for model in models["data"]] == [NAME]


# -- bodies ---------------------------------------------------------------------------------------


def test_settings_are_those_of_decoding() -> None:
    assert set(Settings.model_fields) == {field.name for field in fields(DecodeConfig)}
    assert DecodeConfig(**Settings().model_dump()) == DecodeConfig()
    assert set(RolloutBody.model_fields) == {field.name for field in fields(Rollout)}


@pytest.mark.parametrize("value", [0, -1, 1.5, "1", True, None])
def test_a_limit_out_of_range_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="running is"):
        Limits(running=value)
    Limits(waiting=0, resume_seconds=0, seconds=1)


def test_a_buffer_forgets_the_oldest_and_never_the_newest() -> None:
    buffer = Buffer(10)
    for n in range(6):
        buffer.add(b"%d" % n * 4)
    assert buffer.end == 6
    assert buffer.since(3) is None
    assert buffer.since(4) == [b"4444", b"5555"]
    assert buffer.since(5) == [b"5555"]
    assert buffer.since(6) == []
    buffer.add(b"x" * 100)
    assert buffer.since(5) is None
    assert buffer.since(6) == [b"x" * 100]


def test_other_ways_to_ask_do_no_harm(server: Served) -> None:
    assert httpx2.head(server.url + "/health", timeout=20).status_code == 200
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}  # fmt: skip
    assert server.get("/health", headers=upgrade).status_code == 200
    assert server.get("/v1/models", headers=upgrade).status_code == 401
    many = {"text": "ab" * 900, "spans": [[n, n - 1] for n in range(1, 1000)]}
    refused = server.post("/v1/infill", many, headers=KEY)
    assert (refused.status_code, len(refused.text) < 400) == (400, True)
    refused = server.post("/v1/infill", {"x" * 15_000: 1}, headers=KEY)
    assert (refused.status_code, len(refused.text) < 400) == (400, True)


def test_no_body_makes_the_server_fail(server: Served) -> None:
    rng = Random(6)
    words: list[Any] = [
        None, True, False, 0, -1, 1, 2**63, 2**64, 2**200, 1e308, -0.0, 1.5, "", "The{}", "{}",
        "\ud800", "\0", "😀{}", "x" * 3000, [], {}, [[]], [[0, 1]], [[1, 0], [2]], {"a": 1},
        float("nan"), float("inf"), "utf16", "char",
    ]  # fmt: skip
    names = [
        *Settings.model_fields, "prompt", "text", "spans", "unit", "stream", "max_tokens",
        "draft", "locked", "window", "context", "precision", "instruction",
        "suffix", "echo", "model", "n", "stop", "logit_bias", "stream_options", "x",
    ]  # fmt: skip
    broken = [b"", b"{", b"[" * 5000, b"\xff\xfe", b"null", b"1" * 5000, b'{"prompt": "\\ud800"}',
              b'{"a":1,"a":2}', b"{}" * 3, b'"x"']  # fmt: skip
    headers = KEY | {"content-type": "application/json"}
    statuses = set()
    with httpx2.Client(base_url=server.url, headers=headers, timeout=20) as http:
        for n in range(300):
            path = rng.choice(["/v1/generate", "/v1/infill", "/v1/revise", "/v1/completions"])
            body = {rng.choice(names): rng.choice(words) for _ in range(rng.randint(0, 4))}
            if rng.random() < 0.5:
                text = {"/v1/infill": {"text": "The{}"}, "/v1/revise": {"draft": "The"}}
                body |= {"max_actions": 3} | text.get(path, {})
            data = broken[n] if n < len(broken) else json.dumps(body).encode()
            answer = http.post(path, content=data)
            statuses.add(answer.status_code)
            if answer.status_code != 200:
                sentence(answer)
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            answer = http.post("/v1/generate", content=b"{}", headers={"content-type": kind})
            assert answer.status_code == 400, kind
            sentence(answer)
    assert {200, 400} <= statuses <= {200, 400, 404}
