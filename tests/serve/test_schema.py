"""The OpenAPI schema against the server: every response is one that the schema describes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from support.serving import Served, serving

pytest.importorskip("fastapi", reason="The extra serve is not installed.")
schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed.")


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    limits = {"max_actions": 20, "running": 16}
    with serving(limits=limits) as served:
        yield served


OPERATIONS = [
    ("/v1/generate", "POST"),
    ("/v1/infill", "POST"),
    ("/v1/revise", "POST"),
    ("/v1/completions", "POST"),
    ("/v1/models", "GET"),
    ("/health", "GET"),
    ("/ready", "GET"),
    ("/metrics", "GET"),
]


CASES = [(*operation, "positive") for operation in OPERATIONS]
CASES += [(*operation, "negative") for operation in OPERATIONS[:4]]  # those with a body


@pytest.mark.parametrize(("path", "method", "mode"), CASES)
def test_every_answer_is_one_that_the_schema_knows(
    server: Served, path: str, method: str, mode: str
) -> None:
    operation = schemathesis.openapi.from_url(f"{server.url}/openapi.json")[path][method]
    schemathesis.checks.load_all_checks()
    names = ["not_a_server_error", "status_code_conformance", "content_type_conformance"]
    names += ["response_schema_conformance", "negative_data_rejection"]
    wanted = [schemathesis.checks.CHECKS.get_one(name) for name in names]

    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
    @settings(
        max_examples=settings().max_examples // 8,
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    def answers(case: Any) -> None:
        case.call_and_validate(checks=wanted, timeout=20)

    answers()


def test_all_operations_are_tried(server: Served) -> None:
    paths = server.get("/openapi.json").json()["paths"]
    found = {(path, method.upper()) for path, methods in paths.items() for method in methods}
    assert found == {*OPERATIONS}


def test_the_schema_has_the_ranges_of_this_server(server: Served) -> None:
    schema = server.get("/openapi.json").json()
    parts = schema["components"]["schemas"]
    temperature = parts["GenerateBody"]["properties"]["temperature"]
    found = (temperature["minimum"], temperature["maximum"], temperature["default"])
    assert found == (0, 1000, 0.9)
    assert parts["ReviseBody"]["properties"]["temperature"]["default"] == 0
    assert parts["GenerateBody"]["properties"]["max_actions"]["maximum"] == 20
    assert "422" not in str(schema)
