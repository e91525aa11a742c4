"""The map from the paper to the code names only what exists."""

import ast
import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAP = (ROOT / "docs" / "design" / "paper-map.md").read_text(encoding="utf-8")
IN_CODE = re.compile(r"`(reviser\.[\w.]+|[\w/]+\.py:\w+)`")
IS_TEST = re.compile(r"tests/(?:\w+/)*test_\w+\.py:test_\w+")

REFERENCES = sorted(set(IN_CODE.findall(MAP)))
_, _, *ROWS = [line.strip("|").split("|") for line in MAP.splitlines() if line.startswith("|")]


def test_the_table_has_rows() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize("row", ROWS, ids=[row[0].strip() for row in ROWS])
def test_every_row_names_code_and_tests_and_nothing_else(row: list[str]) -> None:
    _, code, tests = row
    for cell in (code, tests):
        assert IN_CODE.search(cell)
        assert IN_CODE.sub("", cell).strip() == ""
    assert all(IS_TEST.fullmatch(name) for name in IN_CODE.findall(tests))
    assert not any(IS_TEST.fullmatch(name) for name in IN_CODE.findall(code))
    assert any(name.startswith("reviser.") for name in IN_CODE.findall(code))  # not only references


@pytest.mark.parametrize("reference", [name for name in REFERENCES if ":" not in name])
def test_every_name_of_the_package_resolves(reference: str) -> None:
    pkgutil.resolve_name(reference)


@pytest.mark.parametrize("reference", [name for name in REFERENCES if ":" in name])
def test_every_name_in_a_file_is_defined_there(reference: str) -> None:
    path, name = reference.split(":")
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
