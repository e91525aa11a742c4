"""Drafts revised by a server: results equal those without a server, window by window."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="The extra serve is not installed.")

import httpx2

from reviser.engines.settings import DecodeConfig
from reviser.errors import ConfigError, EngineError
from reviser.serve.client import Client
from reviser.serve.schema import RevisionBody
from reviser.writing.prompts import prompts_of
from reviser.writing.rollout import Revision
from reviser.writing.tasks import Revise
from support.browsers import node
from support.serving import Served, eventually, reviser, serving

MODEL = reviser()
CLIENT_JS = Path(__file__).parents[2] / "src/reviser/serve/assets/client.js"
PIECES = ["The cat", " sat", ".", "\r\n", "é", "e\u0301", "你好", "😀", "👍🏽", "שלום", "\ufeff",
          "<|stop|>", "data: x\n\n", "\0", "{", "\u2028"]  # fmt: skip
SLOW: Any = {
    "draft": "The cat sat. " * 12, "window": 20, "max_actions": 50, "stop_bias": -1,
    "min_edit_probability": 0,
}  # fmt: skip


def here(draft: str, **options: Any) -> Revision:
    """Return the revision without a server."""
    return MODEL.revise(draft, max_length=16_384, **options)


def same(one: Revision, other: Revision) -> bool:
    """Return whether two revisions are equal but for their provenance."""
    first, second = (
        replace(each, rollouts=tuple(replace(part, provenance={}) for part in each.rollouts))
        for each in (one, other)
    )
    return first == second


def random_draft(rng: Random) -> tuple[str, dict[str, Any]]:
    draft = "".join(rng.choices(PIECES, k=rng.randint(0, 9)))
    spans = [
        tuple(sorted(rng.choices(range(len(draft) + 1), k=2))) for _ in range(rng.randint(0, 2))
    ]
    options = {"seed": rng.randrange(2**32), "max_actions": rng.randint(1, 20), "locked": spans}
    options |= {"instruction": rng.choice(["", "Fix it"]), "window": rng.choice([6, 20, 256])}
    options["min_edit_probability"] = rng.choice([None, 0.0, 0.5])
    return draft, options | {"context": rng.randint(0, 5)}


def windows(draft: str, **options: Any) -> int:
    names = {field.name for field in fields(Revise)} & set(options)
    task = Revise(draft, **{name: options[name] for name in names})
    return len(prompts_of(task, MODEL.model(revises=True)))


def test_a_revision_is_what_it_would_be_without_a_server(server: Served) -> None:
    asked = [random_draft(Random(seed)) for seed in range(40)]
    counts = [windows(draft, **options) for draft, options in asked]
    assert sum(count > 1 for count in counts) > 7
    with Client(server.url) as client, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda each: client.revise(each[0], **each[1]), asked))

    for (draft, options), one in zip(asked, found, strict=True):
        assert same(one, here(draft, **options))
        for rollout in one.rollouts:
            assert rollout.provenance["model"] == "random"
            assert all(part.before == part.after for part in rollout.locked)
        assert Revision.from_json(one.to_json()) == one


def test_a_draft_of_one_part_can_be_followed(server: Served) -> None:
    settings: Any = {"seed": 3, "max_actions": 30}
    draft = "The cat sat. 😀"
    task = Revise(draft, locked=["cat"], min_edit_probability=0)
    with Client(server.url) as client:
        stream = client.stream(task, **settings)
        text = draft
        for edit in stream:
            text = edit.apply(text)
            assert (text, edit.cursor) == (stream.text, stream.cursor)
        revision = client.run(task, DecodeConfig.of(settings, task.default_config))
        assert stream.rollout() == revision.rollouts[0]
        assert text == revision.text
        with pytest.raises(ConfigError, match="in 3 windows, whose edits cannot be streamed"):
            client.stream(Revise("The cat sat. " * 3, window=9))
        assert client.revise("The", locked="The").text == "The"  # not a list of letters


def test_positions_are_in_the_clients_unit(server: Served) -> None:
    body = {"draft": "😀😀 sat", "locked": [[1, 2]], "seed": 4, "max_actions": 30,
            "min_edit_probability": 0}  # fmt: skip
    whole = server.post("/v1/revise", body).json()
    other = server.post("/v1/revise", body | {"locked": [[2, 4]], "unit": "utf16"}).json()
    assert other["text"] == whole["text"]
    assert len(whole["changes"]) == len(other["changes"]) > 0
    units = body["draft"].encode("utf-16-le")
    for change in other["changes"]:
        assert (
            units[2 * change["start"] : 2 * change["end"]].decode("utf-16-le") == change["before"]
        )
    within = server.post("/v1/revise", body | {"unit": "utf16"})
    assert (within.status_code, "within a character" in within.text) == (400, True)


def test_the_schema_has_every_field_of_a_revision() -> None:
    body = here("The cat sat.", seed=1, max_actions=20, min_edit_probability=0).to_dict()
    assert set(body) == set(RevisionBody.model_fields)


def test_a_draft_is_one_request_however_many_windows_it_has() -> None:
    parts = windows(SLOW["draft"], window=20)
    assert parts > 3
    with serving(seconds=0.02, limits={"running": 1, "waiting": 0}) as server:
        never = server.post("/v1/revise", {"draft": "a b. " * 400, "window": 1, "context": 0})
        assert (never.status_code, "more than 320 windows" in never.text) == (400, True)
        streamed = server.post("/v1/revise", SLOW | {"stream": True})
        assert (streamed.status_code, "cannot be streamed" in streamed.text) == (400, True)
        assert server.engine()["added"] == 1  # the probe: no text was asked for
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(server.post, "/v1/revise", SLOW)
            eventually(lambda: server.engine()["running"] == parts)
            refused = server.post("/v1/revise", SLOW)
            assert (refused.status_code, "are waiting" in refused.text) == (429, True)
            assert int(refused.headers["retry-after"]) >= 1
            assert first.result().status_code == 200
        assert len(first.result().json()["rollouts"]) == parts
        line = [
            json.loads(line) for line in server.log.read_text().splitlines() if "revise" in line
        ]
        assert line[-1]["actions"] == parts * 50
        assert line[-1]["stop_reason"] == "max_actions"


def test_a_disconnect_or_a_failure_ends_all_windows() -> None:
    with serving(seconds=0.02) as server:
        with pytest.raises(httpx2.ReadTimeout):
            server.http.post("/v1/revise", json=SLOW, timeout=0.5)
        eventually(lambda: server.engine()["running"] == 0)
        with Client(server.url) as client, ThreadPoolExecutor(1) as pool:
            asked = pool.submit(client.revise, **SLOW)
            eventually(lambda: server.engine()["running"] > 3)
            server.fault.write_text("step error")
            with pytest.raises(EngineError):
                asked.result()
        eventually(lambda: server.engine()["running"] == 0)
        assert server.post("/v1/revise", {"draft": "The", "max_actions": 3}).status_code == 200


READ_FIRST = {"draft": "The cat sat.", "min_edit_probability": 0.5, "max_actions": 3}


@pytest.mark.parametrize("word", ["step error", "raise once"])
def test_an_engine_may_fail_while_it_reads_a_draft(word: str) -> None:
    with serving() as server:
        server.fault.write_text(word)
        failed = server.post("/v1/revise", READ_FIRST)
        assert failed.status_code == 502
        assert "Try again" in failed.text
        assert "secret" not in failed.text  # nor "refused", which is for the log
        assert "refused" not in failed.text
        reason = "engine broke" if word == "raise once" else "internal:1 refused"
        assert reason in server.log.read_text()
        assert server.post("/v1/revise", READ_FIRST).status_code == 200
        assert server.engine()["running"] == 0


def test_reading_a_draft_ends_with_its_time_or_its_client() -> None:
    with serving(limits={"seconds": 1.0}) as server:
        server.fault.write_text("hold")
        with ThreadPoolExecutor(2) as pool:
            late = pool.submit(server.post, "/v1/revise", READ_FIRST)
            with pytest.raises(httpx2.ReadTimeout):
                server.http.post("/v1/revise", json=READ_FIRST, timeout=0.5)
            assert server.get("/health").status_code == 200
            revision = late.result().json()  # while the engine still holds
        assert revision["stop_reason"] == "time"
        assert revision["text"] == READ_FIRST["draft"]
        server.fault.unlink()
        eventually(lambda: server.engine()["running"] == 0)


def test_browsers_revise_too(server: Served) -> None:
    draft, options = "😀 The cat sat.", {
        "locked": [[0, 2], "cat"], "seed": 2, "max_actions": 20, "min_edit_probability": 0,
    }  # fmt: skip
    code = (
        f"import {{ Client }} from {json.dumps(str(CLIENT_JS))};"
        f"const [draft, options] = {json.dumps([draft, options])};"
        f"const client = new Client({{ url: {json.dumps(server.url)} }});"
        "const stream = await client.streamRevise(draft, options);"
        "const { text } = await stream.result();"
        "console.log(JSON.stringify([await client.revise(draft, options), text]));"
    )
    run = subprocess.run(
        [node(), "--input-type=module", "-e", code], capture_output=True, text=True, check=True
    )
    revision, text = json.loads(run.stdout)
    wanted = here(draft, **options | {"locked": [(0, 1), "cat"]})
    assert (revision["text"], text) == (wanted.text, wanted.text)
    assert revision["changes"][0]["start"] == wanted.changes[0].start + 1
