"""Drafts revised by a server: results equal those without a server, window by window."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="The extra serve is not installed.")

import httpx2

from reviser.serve.client import Client
from reviser.serve.schema import RevisionBody
from reviser.writing.prompts import prompts_of
from reviser.writing.rollout import Revision
from reviser.writing.tasks import Revise
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
        assert set(one.to_dict()) == set(RevisionBody.model_fields)
        for rollout in one.rollouts:
            assert rollout.provenance["model"] == "random"
            assert all(part.before == part.after for part in rollout.locked)
        assert Revision.from_json(one.to_json()) == one


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
