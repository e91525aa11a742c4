"""The server under stress and in trouble: overload, failing engines, slow clients, signals."""

from __future__ import annotations

import gc
import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="The extra serve is not installed.")

from reviser.errors import EngineError
from reviser.serve import runs
from reviser.serve.client import Client
from reviser.writing.rollout import Rollout
from reviser.writing.tasks import Continue
from reviser.writing.text import Writing
from support.serving import Served, error_message, eventually, serving

LONG = {"prompt": "The", "max_actions": 3000, "stop_bias": -1}
LONG_SETTINGS = {"max_actions": 3000, "stop_bias": -1}


def generate(server: Served, body: dict[str, Any]) -> Any:
    return server.post("/v1/generate", body)


def refuses_connections(port: int) -> bool:
    """Return whether a server has begun to shut down."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return True
    return False


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
            assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert ask(1).status_code == 200
        counts = server.metrics()
        assert counts["reviser_waiting"] == counts["reviser_running"] == 0
        served = counts['reviser_requests_total{route="/v1/generate",status="200"}']
        assert served == counts["reviser_completion_seconds_count"] == 11
        assert counts["reviser_first_edit_seconds_count"] == served


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
            eventually(lambda: refuses_connections(server.port))
            server.fault.write_text("")
            rollouts = [future.result() for future in futures]
        assert all(rollout.stop_reason in ("stop", "max_actions") for rollout in rollouts)
        assert server.wait() == 0


def test_a_drain_that_takes_too_long_cancels_what_is_left() -> None:
    limits = {"drain_seconds": 0.5}
    with serving(seconds=0.05, limits=limits) as server, Client(server.url) as client:
        stream = client.stream(Continue("The"), **LONG_SETTINGS)
        next(iter(stream))
        server.terminate()
        assert stream.rollout().stop_reason == "cancelled"
        assert server.wait() == 0


# -- engines that fail ----------------------------------------------------------------------------


def test_an_engine_that_fails_once_goes_on() -> None:
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
        assert client.generate("The", max_actions=5).text
        assert server.metrics()["reviser_engine_failures_total"] == 2
        assert "the engine broke" in server.log.read_text()


def test_one_request_that_the_engine_fails_fails_alone() -> None:
    with serving(seconds=0.02) as server, ThreadPoolExecutor(2) as pool:
        body = {"prompt": "The", "max_actions": 60, "stop_bias": -1}
        both = [pool.submit(generate, server, body) for _ in range(2)]
        eventually(lambda: server.engine()["running"] == 2)
        server.fault.write_text("step error")
        answers = [future.result() for future in both]
        assert sorted(answer.status_code for answer in answers) == [200, 502]
        assert server.get("/ready").status_code == 200


@pytest.mark.parametrize("word", ["raise", "step errors", "hold", "end"])
def test_a_broken_engine_ends_the_process_for_its_supervisor(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "PROBE_SECONDS", 0.5)
    monkeypatch.setattr(runs, "HANG_SECONDS", 1.0)
    with serving(seconds=0.02, limits={"running": 2}) as server, ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(generate, server, LONG) for _ in range(4)]
        eventually(lambda: server.metrics()["reviser_waiting"] == 2)
        server.fault.write_text(word)
        answers = [future.result() for future in asked]
        # One that waited may get to the engine between its fault and the probe.
        statuses = sorted(answer.status_code for answer in answers)
        assert statuses[:2] == [502, 502]
        assert set(statuses) <= {502, 503}
        for answer in answers:
            words = "engine failed" if answer.status_code == 502 else "shutting down"
            assert words in error_message(answer)
        assert server.wait() == 1
        lines = [json.loads(line) for line in server.log.read_text().splitlines()]
        states = [line for line in lines if line["event"] == "engine"]
        assert [(line["level"], line["state"]) for line in states] == [
            ("info", "ready"), ("error", "broken"),
        ]  # fmt: skip
        words = {"raise": "engine broke", "hold": "hangs", "end": "has ended"}
        assert words.get(word, "refused") in states[1]["reason"]


def test_an_engine_that_fails_during_a_drain_loses_only_what_it_ran() -> None:
    with serving(seconds=0.02, limits={"running": 1}) as server, ThreadPoolExecutor(3) as pool:
        body = {"prompt": "The", "max_actions": 40, "stop_bias": -1}
        server.fault.write_text("hold")
        asked = [pool.submit(generate, server, body) for _ in range(3)]
        eventually(lambda: server.metrics()["reviser_waiting"] == 2)
        server.terminate()
        eventually(lambda: refuses_connections(server.port))
        server.fault.write_text("raise once")
        assert sorted(future.result().status_code for future in asked) == [200, 200, 502]
        assert server.wait() == 1  # an accepted request was lost


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
        assert writings() <= before + 1  # the driver's thread still knows its last question
        reader.settimeout(60)
        rest = b""
        while not rest.endswith(b"0\r\n\r\n"):  # now it reads again
            rest += (data := reader.recv(65536))
            assert data
        ids = [int(number) for number in re.findall(rb"id: (\d+)\nevent: edit", rest)]
        assert ids == list(range(ids[0], 1801))
        assert b"event: done" in rest


def test_a_text_that_takes_too_long_is_returned_as_far_as_it_is_written() -> None:
    with serving(seconds=0.02, limits={"seconds": 0.6, "running": 1}) as server:
        assert generate(server, LONG).json()["stop_reason"] == "time"
        completion = server.post("/v1/completions", {"max_tokens": 3000, "stop_bias": -1}).json()
        assert completion["choices"][0]["finish_reason"] == "length"


def test_a_request_that_cannot_start_in_time_is_refused() -> None:
    with serving(seconds=0.02, limits={"seconds": 0.6, "running": 1}) as server:
        server.fault.write_text("hold")
        with ThreadPoolExecutor(8) as pool:  # all have the same deadline, but one thread
            answers = list(pool.map(lambda _: generate(server, LONG), range(8)))
        late = [each for each in answers if each.status_code == 503]
        assert late
        assert "too busy to start" in error_message(late[0])
        written = [each.json() for each in answers if each.status_code == 200]
        assert {each["stop_reason"] for each in written} == {"time"}


def writings() -> int:
    """Return how many texts being written are in memory."""
    gc.collect()
    return sum(type(each) is Writing for each in gc.get_objects())
