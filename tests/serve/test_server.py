"""The server under stress and in trouble: overload, failing engines, slow clients, signals."""

from __future__ import annotations

import gc
import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="The extra serve is not installed.")

from reviser.errors import ConfigError, EngineError, RequestRefused
from reviser.serve import protocol
from reviser.serve.client import Client
from reviser.serve.limits import Limits
from reviser.writing.rollout import Rollout
from reviser.writing.session import Writing
from reviser.writing.tasks import Continue
from support.serving import Served, error_message, eventually, serving

LONG = {"prompt": "The", "max_actions": 3000, "stop_bias": -1}
LONG_SETTINGS = {"max_actions": 3000, "stop_bias": -1}


def generate(server: Served, body: dict[str, Any]) -> Any:
    return server.post("/v1/generate", body)


def test_overload_is_refused_with_429_and_passes() -> None:
    with serving(seconds=0.01, limits={"running": 4, "waiting": 6}) as server:

        def ask(seed: int) -> Any:
            return generate(server, {"prompt": "The", "seed": seed, "max_actions": 40})

        server.fault.write_text("hold")
        with ThreadPoolExecutor(40) as pool:
            asked = [pool.submit(ask, seed) for seed in range(40)]
            eventually(lambda: sum(future.done() for future in asked) == 30)
            server.fault.write_text("")
            answers = [future.result() for future in asked]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(refused) == 30
        assert {answer.status_code for answer in answers} == {200, 429}
        for answer in refused:
            assert "are waiting" in error_message(answer)
            # Seven jobs wait for four rows, and a job is taken to last a second at first.
            assert int(answer.headers["retry-after"]) == 2
        assert ask(1).status_code == 200
        counts = server.metrics()
        assert counts['reviser_refused_total{reason="full"}'] == len(refused)
        assert counts["reviser_waiting"] == counts["reviser_running"] == 0
        served = counts['reviser_requests_total{route="/v1/generate",status="200"}']
        assert served == counts["reviser_completion_seconds_count"] == 11
        assert counts["reviser_first_edit_seconds_count"] == served
        with Client(server.url) as client:
            streams = [client.stream(Continue("The"), **LONG_SETTINGS) for _ in range(10)]
            with pytest.raises(RequestRefused, match="are waiting") as error:
                client.stream(Continue("The"), **LONG_SETTINGS)
            for stream in streams:
                stream.close()
        assert error.value.status == 429
        assert error.value.retry_after


# -- the end --------------------------------------------------------------------------------------


def test_sigterm_under_load_loses_nothing_that_was_accepted() -> None:
    limits = {"running": 8, "waiting": 32}
    with serving(process=True, seconds=0.02, limits=limits) as server:

        def ask(seed: int) -> Rollout:
            settings: Any = {"seed": seed, "max_actions": 20}
            with Client(server.url) as client:
                if seed % 2:
                    return client.stream(Continue("The"), **settings).rollout()
                return client.generate("The", **settings)

        server.fault.write_text("hold")  # until all have been accepted
        with ThreadPoolExecutor(24) as pool:
            futures = [pool.submit(ask, seed) for seed in range(24)]
            eventually(lambda: server.metrics()["reviser_waiting"] == 16)
            server.terminate()
            eventually(lambda: server.get("/ready").status_code == 503)
            assert server.get("/ready").json() == {"status": "draining"}
            assert server.get("/health").status_code == 200
            late = generate(server, {})
            assert (late.status_code, "shutting down" in error_message(late)) == (503, True)
            assert late.headers["connection"] == "close"  # the next request goes elsewhere
            server.fault.write_text("")
            rollouts = [future.result() for future in futures]
        assert all(rollout.stop_reason in ("stop", "max_actions") for rollout in rollouts)
        assert server.wait() == 0


def test_a_second_signal_ends_it_at_once() -> None:
    with serving(process=True, seconds=0.05) as server, Client(server.url) as client:
        stream = client.stream(Continue("The"), **LONG_SETTINGS)
        next(iter(stream))
        server.terminate()
        eventually(lambda: server.get("/ready").status_code == 503)
        server.terminate()
        assert stream.rollout().stop_reason == "cancelled"
        assert server.wait() != 0


def test_a_drain_that_takes_too_long_cancels_what_is_left() -> None:
    limits = {"drain_seconds": 0.5}
    with serving(seconds=0.05, limits=limits) as server, Client(server.url) as client:
        stream = client.stream(Continue("The"), **LONG_SETTINGS)
        next(iter(stream))
        server.terminate()
        assert stream.rollout().stop_reason == "cancelled"
        assert server.wait() == 0


# -- engines that fail ----------------------------------------------------------------------------


def test_an_engine_that_fails_once_recovers() -> None:
    with serving(seconds=0.02) as server, Client(server.url) as client:
        stream = client.stream(Continue("The"), **LONG_SETTINGS)
        next(iter(stream))
        with ThreadPoolExecutor(1) as pool:
            whole = pool.submit(generate, server, LONG)
            eventually(lambda: server.engine()["running"] == 2)
            server.fault.write_text("raise once")
            assert whole.result().status_code == 502
        assert "engine failed" in error_message(whole.result())
        for _ in range(2):  # as often as it is asked for
            with pytest.raises(EngineError, match="engine failed"):
                stream.rollout()
        eventually(client.is_ready)
        assert client.generate("The", max_actions=5).text
        assert server.metrics()["reviser_engine_failures_total"] == 1
        assert "the engine broke" in server.log.read_text()


def test_one_request_that_the_engine_fails_fails_alone() -> None:
    with serving(seconds=0.02) as server, ThreadPoolExecutor(2) as pool:
        body = {"prompt": "The", "max_actions": 60, "stop_bias": -1}
        both = [pool.submit(generate, server, body) for _ in range(2)]
        eventually(lambda: server.engine()["running"] == 2)
        server.fault.write_text("step error")
        answers = [future.result() for future in both]
        assert sorted(answer.status_code for answer in answers) == [200, 502]
        for answer in answers:
            if answer.status_code == 502:
                error_message(answer)
        assert server.get("/ready").status_code == 200
        server.fault.write_text("step errors")  # now it is more than one request
        assert generate(server, body).status_code == 502
        eventually(lambda: server.get("/ready").status_code == 503, 3)


@pytest.mark.parametrize("word", ["raise", "hold"])
def test_a_dead_engine_ends_the_process_for_its_supervisor(word: str) -> None:
    limits = {"recovery_seconds": 4, "stall_seconds": 2, "running": 2}  # time to look at it
    with serving(seconds=0.02, limits=limits) as server, ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(generate, server, LONG) for _ in range(4)]
        eventually(lambda: server.metrics()["reviser_waiting"] == 2)
        server.fault.write_text(word)
        if word == "raise":
            eventually(lambda: server.get("/ready").status_code == 503)
            assert "does not respond" in error_message(generate(server, LONG))
        answers = [future.result() for future in asked]
        assert sorted(answer.status_code for answer in answers) == [502, 502, 503, 503]
        for answer in answers:
            words = "engine failed" if answer.status_code == 502 else "shutting down"
            assert words in error_message(answer)
        assert server.wait() == 1
        assert ("the engine broke" if word == "raise" else "it hangs") in server.log.read_text()


def test_an_engine_that_dies_without_work_is_noticed() -> None:
    with serving(limits={"probe_seconds": 0.1, "recovery_seconds": 0.5}) as server:
        server.fault.write_text("raise once")
        eventually(lambda: server.metrics()["reviser_engine_failures_total"] == 1)
        eventually(lambda: server.get("/ready").status_code == 200)
        server.fault.write_text("raise")
        assert server.wait() == 1
        assert "the engine broke" in server.log.read_text()


def test_an_engine_that_has_ended_is_not_waited_for() -> None:
    with serving(limits={"probe_seconds": 0.1, "recovery_seconds": 600}) as server:
        server.fault.write_text("end")
        assert server.wait() == 1
        lines = [json.loads(line) for line in server.log.read_text().splitlines()]
        states = [line for line in lines if line["event"] == "engine"]
        found = [(line["level"], line["state"]) for line in states]
        assert found == [("info", "ready"), ("error", "failing"), ("error", "dead")]
        assert all("the engine has ended" in line["reason"] for line in states[1:])


@pytest.mark.parametrize(("word", "statuses"), [("raise once", [200, 200, 502]), ("raise", None)])
def test_an_engine_that_fails_during_a_drain_loses_only_what_it_ran(
    word: str, statuses: list[int] | None
) -> None:
    limits = {"running": 1, "recovery_seconds": 1}
    with serving(seconds=0.02, limits=limits) as server, ThreadPoolExecutor(3) as pool:
        body = {"prompt": "The", "max_actions": 40, "stop_bias": -1}
        server.fault.write_text("hold")
        asked = [pool.submit(generate, server, body) for _ in range(3)]
        eventually(lambda: server.metrics()["reviser_waiting"] == 2)
        server.terminate()
        eventually(lambda: server.get("/ready").status_code == 503)
        server.fault.write_text(word)
        answers = sorted(future.result().status_code for future in asked)
        assert answers == (statuses or [502, 503, 503])
        assert server.wait() == 1  # an accepted request was lost


def test_a_request_that_is_planned_while_the_engine_dies_is_refused() -> None:
    with serving(seconds=0.02, limits={"recovery_seconds": 0.3}, plan_seconds=1.5) as server:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(generate, server, LONG)
            eventually(lambda: server.engine()["running"] == 1)
            entering = pool.submit(generate, server, LONG)
            time.sleep(0.3)
            server.fault.write_text("raise")
            assert first.result().status_code == 502
            late = entering.result()
        assert (late.status_code, "shutting down" in error_message(late)) == (503, True)
        assert server.wait() == 1


# -- slow clients and long texts ------------------------------------------------------------------


def test_a_slow_client_holds_up_no_other_and_gets_everything_in_the_end() -> None:
    before = writings()
    with serving() as server, socket.socket() as reader:
        body = json.dumps(LONG | {"stream": True, "max_actions": 1800, "max_length": 50}).encode()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", server.port))
        reader.sendall(
            b"POST /v1/generate HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        )
        reader.recv(1000)
        answer = generate(server, {"prompt": "The", "max_actions": 50})
        assert answer.status_code == 200  # while the other reads nothing
        eventually(lambda: server.engine()["running"] == 0, 120)
        # The canvas of a finished text is not kept for a slow client.
        assert writings() <= before
        reader.settimeout(60)
        rest = b""
        while not rest.endswith(b"0\r\n\r\n"):  # now it reads again
            rest += (data := reader.recv(65536))
            assert data
        ids = [int(number) for number in re.findall(rb"id: (\d+)\nevent: edit", rest)]
        assert ids == list(range(ids[0], 1801))
        assert b"event: done" in rest


def test_a_client_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MOST_PIPELINED", 1000)
    with serving(limits={"write_seconds": 1}) as server, socket.socket() as reader:
        size = len(server.get("/openapi.json").content)
        times = 8_000_000 // size + 1  # more than the system buffers
        request = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", server.port))
        reader.sendall(request * times)
        time.sleep(2)
        reader.settimeout(60)
        received = 0
        with suppress(ConnectionResetError):
            while data := reader.recv(1 << 20):
                received += len(data)
        assert 0 < received < times * size
        with socket.create_connection(("127.0.0.1", server.port)) as patient:
            patient.settimeout(60)
            patient.sendall(request * times)
            time.sleep(0.3)
            received = 0
            while received < times * size:
                received += len(data := patient.recv(1 << 20))
                assert data
            time.sleep(1.3)  # a client that was slow for a while is left alone
            patient.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            while b'"ok"' not in data:
                data = data[-200:] + patient.recv(1 << 20)


def test_a_text_that_takes_too_long_is_returned_as_far_as_it_is_written() -> None:
    with serving(seconds=0.02, limits={"seconds": 0.6, "running": 1}) as server:
        assert generate(server, LONG).json()["stop_reason"] == "time"
        completion = server.post("/v1/completions", {"max_tokens": 3000, "stop_bias": -1}).json()
        assert completion["choices"][0]["finish_reason"] == "length"


def test_a_request_that_cannot_start_in_time_is_refused() -> None:
    limits = {"seconds": 0.6, "running": 1, "stall_seconds": 2}
    with serving(seconds=0.02, limits=limits) as server, ThreadPoolExecutor(2) as pool:
        first = pool.submit(generate, server, LONG)
        eventually(lambda: server.engine()["running"] == 1)
        server.fault.write_text("hold")
        second = generate(server, LONG)
        assert (second.status_code, "too busy to start" in error_message(second)) == (503, True)
        assert first.result().status_code == 502


def writings() -> int:
    """Return how many texts being written are in memory."""
    gc.collect()
    return sum(type(each) is Writing for each in gc.get_objects())


@pytest.mark.parametrize("value", [0, -1, 1.5, "1", True, None])
def test_a_limit_out_of_range_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="running is"):
        Limits(running=value)
    Limits(waiting=0, seconds=1)
