"""The reference pages name exactly the commands, names, fields and errors that the code has."""

import ast
import dataclasses
import functools
import inspect
import pkgutil
import re
import runpy
from collections import Counter
from pathlib import Path

import pytest

import reviser
from reviser import errors
from reviser.core.actions import ActionVocab
from reviser.core.trajectory import Trajectory
from reviser.data.pairs import Pair
from reviser.data.shards import Manifest, Shard
from reviser.engines.base import DecodeConfig
from reviser.lab.evals.texts import Prompt
from reviser.model import Revision, Rollout
from reviser.models.editing import Editing

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def test_the_reference_of_commands_is_what_its_script_writes() -> None:
    script = runpy.run_path(str(DOCS / "cli_reference.py"))
    page = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    assert page == script["reference"](), "python docs/cli_reference.py > docs/reference/cli.md"


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def documented() -> list[str]:
    pages = DOCS.glob("reference/api*.md")
    return [name for page in pages for name in re.findall(r"^::: (\S+)", page.read_text(), re.M)]


def test_every_public_name_is_documented_once_and_every_documented_name_exists() -> None:
    found = Counter(documented())
    assert max(found.values()) == 1
    assert {f"reviser.{name}" for name in reviser.__all__} <= found.keys()
    for name in found:
        if not name.startswith(("reviser.models.", "reviser.lab.evals.")):  # those need torch
            pkgutil.resolve_name(name)


def test_the_drawings_are_what_their_script_draws() -> None:
    for draw in runpy.run_path(str(DOCS / "drawings.py"))["PICTURES"]:
        written = (DOCS / "img" / f"{draw.__name__}.svg").read_text(encoding="utf-8")
        assert written == draw(), "python docs/drawings.py"


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    text = (DOCS / page).read_text(encoding="utf-8")
    section = re.split(r"^#+ ", text.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def coded(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_error_is_told() -> None:
    classes = [
        each
        for _, each in inspect.getmembers(errors, inspect.isclass)
        if each.__module__ == errors.__name__
    ]
    told = {coded(row[0])[0]: coded(row[1]) for row in rows("reference/errors.md", "Classes")}
    assert told == {
        each.__name__: [
            base.__name__
            for base in each.__bases__
            if not issubclass(base, errors.ReviserError) and base is not Exception
        ]
        for each in classes
    }


def test_every_status_of_the_server_is_told() -> None:
    pytest.importorskip("fastapi", reason="fastapi is not installed.")
    from reviser.serve.app import make_app
    from support import serving

    paths = make_app(serving.reviser()).openapi()["paths"]
    known = {
        int(code) for path in paths.values() for how in path.values() for code in how["responses"]
    }
    told = {int(row[0]) for row in rows("reference/errors.md", "Status of the server")}
    assert told == known - {200} | {405, 500}


def names_of(kind: type) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def bodies() -> dict[str, set[str]]:
    """The fields of requests, by the heading they stand under."""
    from reviser.serve import schema

    of_all = set(schema.TaskBody.model_fields)
    routes = {
        "POST /v1/generate": schema.GenerateBody,
        "POST /v1/infill": schema.InfillBody,
        "POST /v1/revise": schema.ReviseBody,
        "POST /v1/completions": schema.CompletionBody,
    }
    found = {path: set(body.model_fields) - of_all for path, body in routes.items()}
    return found | {"Settings": of_all}


def test_the_fields_of_files_are_those_of_the_code() -> None:
    page = "reference/formats.md"
    expected = {
        "action_vocab.json": {"format"} | names_of(ActionVocab),
        "Trajectory": {*Trajectory(restoration=(1, 2), no_loss=(0,)).to_dict()},
        "editing.json": names_of(Editing) - {"lists"},
        "Rollout": names_of(Rollout),
        "Prompts with references": names_of(Prompt),
        "Revision": {"text", "draft", "changes", "stop_logprob"} | names_of(Revision),
        "Pairs": names_of(Pair) - {"more"},
        "manifest.json": {"format", "documents", "tokens"} | names_of(Manifest),
    }
    for heading, names in expected.items():
        told = [name for row in rows(page, heading) for name in coded(row[0])]
        assert sorted(told) == sorted(names), heading
    cells = {coded(row[0])[0]: coded(row[1]) for row in rows(page, "Rollout")}
    assert set(cells["statistics"]) == {
        "actions",
        "edits",
        "moves",
        "tokens_before",
        "tokens_after",
        "ids_read",
    }
    assert {field.name for field in dataclasses.fields(Shard)} <= {
        name for row in rows(page, "manifest.json") for name in coded(row[1])
    }


def test_the_fields_over_the_wire_are_those_of_the_code() -> None:
    pytest.importorskip("pydantic", reason="pydantic is not installed.")
    from reviser.serve import schema as wire
    from reviser.serve.client import StreamedEdit

    page = "reference/formats.md"
    for heading, names in bodies().items():
        told = [name for row in rows(page, heading) for name in coded(row[0])]
        assert sorted(told) == sorted(names), heading
    defaults = {coded(row[0])[0]: row[1] for row in rows(page, "Settings")}
    for field in dataclasses.fields(DecodeConfig):
        shown = "none" if field.default is None else str(field.default)
        assert defaults[field.name] == shown
    events = {coded(row[0])[0]: row[2] for row in rows(page, "HTTP: events")}
    fields = {field.name for field in dataclasses.fields(StreamedEdit)}
    assert {*coded(events["edit"])} == fields - {"unit"}
    (failure,) = rows(page, "HTTP: errors")
    assert set(coded(failure[1])) == set(wire.Problem.model_fields)
