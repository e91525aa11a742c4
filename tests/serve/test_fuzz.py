"""Random bodies to every route: no answer has a status of 500 or above."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="The extra serve is not installed.")

import httpx2

from reviser.serve.schema import CompletionBody, GenerateBody, InfillBody, ReviseBody
from support.serving import Served, error_message, serving

ROUTES: dict[str, Any] = {
    "/v1/generate": GenerateBody,
    "/v1/infill": InfillBody,
    "/v1/revise": ReviseBody,
    "/v1/completions": CompletionBody,
}
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 7, 2**31, 2**63, 2**64, 2**200, 10**309, 1e308, -0.0, 1.5, 1e-320,
    "", "The{}", "{}", "{}{}", "\ud800", "\0", "😀{}", "e\u0301", "x" * 3000, "<|stop|>", "utf16",
    "char", [], {}, [[]], [[0, 1]], [[1, 0], [2]], [[0, 0], [0, 0]], [[0, 1], [1, 2]], ["The"],
    ["", "a"], [1, 2], [["a", 1]], [[2**70, 2**71]], [[True, False]], {"a": 1},
    {"include_usage": True}, float("nan"), float("inf"), -float("inf"),
]  # fmt: skip
BROKEN = [
    b"", b"{", b"[" * 5000, b"\xff\xfe", b"null", b"1" * 5000, b'{"prompt": "\\ud800"}', b"{}" * 3,
    b'{"prompt":1,"prompt":"a"}', b'"x"', b'{"seed": 1e999}', b'{"seed": ' + b"9" * 5000 + b"}",
    b"\xef\xbb\xbf{}", b'{"prompt": "a"', b'{"prompt": "\n"}', b"{'prompt': 1}",
]  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    limits = {"max_actions": 12, "prompt_tokens": 2000, "waiting": 100}
    with serving(limits=limits) as served:
        yield served


def body(rng: Random, route: str) -> bytes:
    if rng.random() < 0.02:
        return rng.choice(BROKEN)
    names = [*ROUTES[route].model_fields, "x", "\ud800"]
    values = {rng.choice(names): rng.choice(VALUES) for _ in range(rng.randint(0, 5))}
    if rng.random() < 0.6:
        text = {"/v1/infill": {"text": "The{} cat"}, "/v1/revise": {"draft": "The cat"}}
        values |= {"max_actions": rng.randint(1, 5)} | text.get(route, {})
    data = json.dumps(values).encode()
    if rng.random() < 0.05:  # a byte of it is another
        at = rng.randrange(len(data))
        data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    return data


async def statuses(server: Served, route: str, count: int) -> Counter[int]:
    rng, found = Random(route), Counter[int]()
    async with httpx2.AsyncClient(base_url=server.url, timeout=60) as http:

        async def send() -> None:
            headers = {"content-type": "application/json"}
            while found.total() < count:
                answer = await http.post(route, content=body(rng, route), headers=headers)
                found[answer.status_code] += 1
                if answer.status_code != 200:
                    error_message(answer)

        await asyncio.gather(*(send() for _ in range(16)))
    return found


@pytest.mark.parametrize("count", [80, pytest.param(4000, marks=pytest.mark.full)])
@pytest.mark.parametrize("route", ROUTES)
def test_no_random_body_makes_the_server_fail(
    server: Served, route: str, count: int, record_property: Any
) -> None:
    found = asyncio.run(statuses(server, route, count))
    record_property("statuses", dict(found))
    assert found.total() >= count
    assert max(found) < 500
    assert 200 in found
    assert server.get("/ready").status_code == 200
