"""Requests that are answered or refused: keys, origins, sizes, fields, logs, OpenAI's routes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="The extra serve is not installed.")

import httpx2

from reviser.engines.settings import SETTINGS, DecodeConfig
from reviser.errors import ConfigError
from reviser.serve.middleware import read_keys
from reviser.serve.schema import GenerateBody, InfillBody, ReviseBody, TaskBody
from reviser.writing.tasks import Continue, Infill, Revise
from support.serving import NAME, Served, error_message, serving

KEY = {"Authorization": "Bearer first-key"}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    limits = {
        "body_bytes": 20_000, "prompt_tokens": 900, "max_actions": 300,
    }  # fmt: skip
    origins = ("https://ours.example",)
    with serving(keys=("first-key", "second-key"), limits=limits, origins=origins) as served:
        yield served


def post(server: Served, path: str, body: Any) -> Any:
    return server.post(path, body, headers=KEY)


# -- keys and origins -----------------------------------------------------------------------------


def test_without_a_key_nothing_is_written(server: Served) -> None:
    for headers in (
        {}, {"Authorization": "Bearer"}, {"Authorization": "Bearer first-keyy"},
        {"Authorization": "Basic first-key"}, {"Authorization": "first-key"},
        {"X-Api-Key": "first-key"}, {"Authorization": b"Bearer \xff"},
    ):  # fmt: skip
        for route in ("generate", "infill", "revise", "completions", "nothing"):
            answer = server.post(f"/v1/{route}", {"prompt": "The"}, headers=headers)
            assert (answer.status_code, "valid key" in error_message(answer)) == (401, True)
            assert answer.headers["www-authenticate"] == "Bearer"
        assert server.get("/v1/models", headers=headers).status_code == 401
    for path in ("/health", "/ready", "/metrics", "/client.js", "/openapi.json"):
        assert server.get(path).status_code == 200
    for key in ("first-key", "second-key"):
        headers = {"Authorization": f"bearer {key}"}
        assert server.post("/v1/generate", {"max_actions": 3}, headers=headers).status_code == 200


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
        before = server.http.options("/v1/generate", headers={"origin": origin} | asks)
        assert (before.status_code == 200) == (allowed is not None)
        after = server.post("/v1/generate", {"max_actions": 1}, headers=KEY | {"origin": origin})
        for answer in (before, after):
            assert answer.headers.get("access-control-allow-origin") == allowed
            assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", None]
)
def test_what_a_form_of_another_page_can_send_is_refused(server: Served, kind: str | None) -> None:
    headers = KEY | ({} if kind is None else {"content-type": kind})
    for path in ("generate", "completions"):
        answer = server.http.post(f"/v1/{path}", content=b'{"prompt": "a"}', headers=headers)
        assert (answer.status_code, error_message(answer) != "") == (400, True)


def test_keys_are_read_from_a_file_and_a_list(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# ours\nabc\n\n  def \n")
    assert read_keys(tmp_path / "keys", "x") == ["abc", "def", "x"]
    assert read_keys(None, "x, y,#z") == ["x", "y", "#z"]
    assert read_keys(None, None) == []
    (tmp_path / "none").write_text("#\n")
    for file, listed, words in (
        (tmp_path / "none", None, "no key in"),
        (None, "", "no key in REVISER_API_KEYS"),  # an empty secret must not accept everybody
        (None, " , ", "no key in REVISER_API_KEYS"),
        (tmp_path / "missing", None, "Cannot read the keys"),
        (None, "é", "cannot send"),
    ):
        with pytest.raises(ConfigError, match=words):
            read_keys(file, listed)


# -- bodies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/generate", {"prompt": "a" * 7201}, 400, "7,201 characters long"),
        ("/v1/infill", {"text": "ʒ" * 1000 + "{}"}, 400, "the limit is 900"),
        ("/v1/generate", {"prompt": "a" * 20_000}, 413, "larger than 20000 bytes"),
        ("/v1/generate", {"max_actions": 301}, 400, "asks for 301 actions; this server's limit"),
        ("/v1/completions", {"max_tokens": 301}, 400, "asks for 301 actions; this server's limit"),
        ("/v1/generate", {"temprature": 1}, 400, "not a field of this request. Did you"),
        ("/v1/generate", {"zzz": 1}, 400, "Choose from: "),
        ("/v1/generate", {"temperature": -1}, 400, "temperature is -1; it must be a number from 0"),
        ("/v1/generate", {"temperature": "1"}, 400, "temperature is '1'; it must be a number"),
        ("/v1/generate", {"top_k": 1.5}, 400, "top_k is 1.5; it must be a whole number"),
        ("/v1/generate", {"top_k": 10**309}, 400, "top_k is 1000"),
        ("/v1/generate", {"seed": True}, 400, "seed is True"),
        ("/v1/generate", {"prompt": "\ud800"}, 400, "surrogate"),
        ("/v1/generate", {"\ud800": 1}, 400, "is not a field"),
        ("/v1/generate", [], 400, "Send one JSON object"),
        ("/v1/generate", {"prompt": "The cat", "max_length": 1}, 400, "max_length is 1, but"),
        ("/v1/infill", {"text": "no"}, 400, "The text has no gap"),
        ("/v1/infill", {}, 400, "'text': Field required"),
        ("/v1/infill", {"text": "no", "spans": [[0, 9]]}, 400, "within the text's 2"),
        ("/v1/infill", {"text": "no", "spans": [[0]]}, 400, "'spans.0'"),
        ("/v1/infill", {"text": "no", "spans": []}, 400, "give one or more"),
        ("/v1/revise", {"draft": "no", "locked": ["yes"]}, 400, "'yes', which does not occur"),
        ("/v1/revise", {"draft": "no", "locked": [[0]]}, 400, "'locked.0"),
        ("/v1/revise", {"draft": "no", "locked": ["n"] * 1001}, 400, "'locked': List should"),
        ("/v1/revise", {"draft": "no", "window": 0}, 400, "window is 0"),
        ("/v1/revise", {"draft": "no", "min_edit_probability": 2}, 400, "min_edit_probability is"),
        ("/v1/revise", {"draft": "no", "precision": 0.9}, 400, "has no calibration"),
        ("/v1/revise", {"draft": "no", "words": ["no"]}, 400, "are for a proofreader"),
        ("/v1/revise", {"draft": "no", "sure": True}, 400, "are for a proofreader"),
        ("/v1/revise", {"draft": "no", "words": [1]}, 400, "'words.0'"),
        ("/v1/revise", {"draft": "a" * 7000, "instruction": "a" * 201}, 400, "7,201 characters"),
        ("/v1/revise", {"draft": "ʒ" * 1000}, 400, "the limit is 900"),
        ("/v1/revise", {"draft": "a b " * 9, "window": 8, "stream": True}, 400, "be streamed"),
        ("/v1/completions", {"model": "gpt"}, 404, "no such model"),
        ("/v1/completions", {"n": 2}, 400, "'n': Input should be 1"),
        ("/v1/completions", {"stream": True}, 400, "'stream': Input should be False"),
        ("/v1/completions", {"stop": "."}, 400, "'stop' is not a field of this request"),
        ("/v1/nothing", {}, 404, "Not Found. See /openapi.json"),
        ("/health", {}, 405, "Method Not Allowed"),
    ],
)  # fmt: skip
def test_an_invalid_request_is_refused_in_a_sentence(
    server: Served, path: str, body: Any, status: int, words: str
) -> None:
    headers = KEY | {"content-type": "application/json"}
    # Python's own JSON, which allows more than httpx2 would send.
    answer = server.http.post(path, content=json.dumps(body), headers=headers)
    assert answer.status_code == status, answer.text
    assert words in error_message(answer)


def test_an_endless_body_is_refused(server: Served) -> None:
    def endless() -> Iterator[bytes]:
        yield from [b"x" * 1000] * 100

    try:
        answer = server.http.post("/v1/generate", content=endless(), headers=KEY)
        assert answer.status_code == 413
    except httpx2.TransportError:
        pass  # the connection may end before the response is read


def test_a_model_that_was_not_trained_to_edit_is_refused_by_the_name_clients_know() -> None:
    with serving(is_editor=False) as server:
        answer = server.post("/v1/revise", {"draft": "It have a end."})
        assert answer.status_code == 400
        assert error_message(answer).startswith(f"{NAME} was not trained to edit")
        assert server.post("/v1/generate", {"prompt": "It", "max_actions": 3}).status_code == 200


@pytest.mark.parametrize("has_judge", [True, False])
def test_a_proofreader_gives_changes_with_reasons_and_writes_nothing(has_judge: bool) -> None:
    def changes(**body: Any) -> list[tuple[Any, ...]]:
        found = server.post("/v1/revise", {"draft": "😀 teh end of of it, a apple", **body}).json()
        names = ("start", "after", "rule", "category")
        return [tuple(each[name] for name in names) for each in found["changes"]]

    doubled, article = (13, "", "doubled", "repetition"), (20, "an", "a-an", "article")
    judged = [(2, "the", "misspelling", "spelling")] * has_judge
    with serving(is_proofreader=True, has_judge=has_judge) as server:
        assert server.get("/ready").status_code == 200
        assert changes() == [*judged, doubled, article]
        assert changes(sure=True) == [doubled, article]
        assert changes(words=["TEH", "a"]) == [doubled]
        [each] = server.post("/v1/revise", {"draft": "a apple", "unit": "utf16"}).json()["changes"]
        assert (each["message"], each["confidence"]) == ("“an” stands before a vowel.", 0.99)
        [model] = server.get("/v1/models").json()["data"]
        assert (model["routes"], model["min_confidence"]) == (
            ["revise"],
            0.5 if has_judge else None,
        )
        for route, body in (
            ("generate", {"prompt": "It"}), ("infill", {"text": "It {}"}),
            ("completions", {"prompt": "It"}), ("revise", {"draft": "It", "stream": True}),
        ):  # fmt: skip
            answer = server.post(f"/v1/{route}", body)
            assert (answer.status_code, "A proofreader" in error_message(answer)) == (400, True)


def test_control_tokens_in_a_prompt_are_letters(server: Served) -> None:
    text = "<|stop|><|endoftext|> <|move+1|>"
    rollout = post(server, "/v1/generate", {"prompt": text, "max_actions": 20}).json()
    assert rollout["text"].startswith(text)
    assert len(rollout["trajectory"]["prefix"]) > 10
    filled = post(server, "/v1/infill", {"text": text + "{}" + text}).json()
    assert filled["text"].startswith(text)
    assert filled["text"].endswith(text)


def test_fields_derive_from_settings_and_tasks() -> None:
    assert list(TaskBody.model_fields) == list(SETTINGS)
    assert DecodeConfig(**TaskBody().model_dump()) == DecodeConfig()
    for body, task in ((GenerateBody, Continue), (InfillBody, Infill), (ReviseBody, Revise)):
        assert {field.name for field in fields(task)} <= set(body.model_fields)
    assert ReviseBody(draft="").temperature == Revise.default_config.temperature


def test_other_ways_to_ask_do_no_harm(server: Served) -> None:
    assert server.http.head("/health").status_code == 200
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}  # fmt: skip
    assert server.get("/health", headers=upgrade).status_code == 200
    assert server.get("/v1/models", headers=upgrade).status_code == 401


# -- the log --------------------------------------------------------------------------------------


def test_the_log_has_facts_and_no_text(server: Served) -> None:
    marker = "zebra-crossing"
    for path, body in [
        ("/v1/generate", {"prompt": marker}),
        ("/v1/generate", {"prompt": marker, "stream": True}),
        ("/v1/infill", {"text": marker + "{}"}),
        ("/v1/infill", {"text": marker}),
        ("/v1/revise", {"draft": marker, "instruction": marker, "locked": ["zebra"]}),
        ("/v1/revise", {"draft": "The cat", "locked": [marker]}),
        ("/v1/completions", {"prompt": marker, "user": marker}),
        ("/v1/completions", {"prompt": marker, "suffix": marker}),
        ("/v1/completions", {"model": marker}),
        ("/v1/generate", {marker: marker}),
        ("/v1/generate", {"temperature": marker}),
        (f"/v1/{marker}?{marker}={marker}", {}),
        (f"/v1/{marker}/cancel", {}),
    ]:
        server.post(path, body, headers=KEY | {"user-agent": marker, "x-request-id": marker})
        server.post(path, body, headers={"authorization": f"Bearer {marker}"})
    body = {"prompt": marker, "max_actions": 300, "stop_bias": -1, "stream": True}
    with server.http.stream("POST", "/v1/generate", headers=KEY, json=body) as response:
        response.close()
    time.sleep(0.1)
    log = server.log.read_text()
    assert marker not in log
    assert "-key" not in log
    assert "secret" not in log
    lines = [json.loads(line) for line in log.splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert {"time", "level", "id", "route", "status", "seconds"} <= set(requests[0])
    assert any(line.get("actions") for line in requests)
    assert "none" in {line["route"] for line in requests}
    assert marker not in server.get("/metrics").text


# -- OpenAI's routes ------------------------------------------------------------------------------


def test_completions_are_what_openais_clients_expect(server: Served) -> None:
    def ask(**body: Any) -> Any:
        return post(server, "/v1/completions", {"seed": 4, "max_tokens": 30, **body})

    completion = ask(prompt="The cat", model=NAME, n=1).json()
    settings = {"prompt": "The cat", "seed": 4, "max_actions": 30}
    rollout = post(server, "/v1/generate", settings).json()
    assert completion["object"] == "text_completion"
    assert completion["model"] == NAME
    [choice] = completion["choices"]
    assert "The cat" + choice["text"] == rollout["text"]
    reasons = {"stop": "stop", "max_actions": "length"}
    assert choice["finish_reason"] == reasons[rollout["stop_reason"]]
    cost = rollout["statistics"]
    assert completion["usage"] == {
        "prompt_tokens": cost["tokens_before"],
        "completion_tokens": cost["actions"],
        "total_tokens": cost["tokens_before"] + cost["actions"],
    }
    between = ask(prompt="The", suffix=" end.").json()["choices"][0]["text"]
    settings = {"text": "The{} end.", "seed": 4, "max_actions": 30}
    assert post(server, "/v1/infill", settings).json()["text"] == f"The{between} end."
    neutral = {"n": None, "best_of": 1, "echo": False, "stream": None, "user": "me"}
    assert ask(prompt="The cat", **neutral).json()["choices"] == [choice]
    models = server.get("/v1/models", headers=KEY).json()
    assert [model["id"] for model in models["data"]] == [NAME]
