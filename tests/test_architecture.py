"""The architecture page: its picture is the import contract, its walk-throughs are real calls."""

import ast
import re
import sys
import threading
import tomllib
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from support.paths import ROOT

PAGE = (ROOT / "docs/design/architecture.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src/reviser"
REFERENCE = re.compile(r"`([a-z_/]+\.py):([\w.]+)`")


def section(heading: str) -> str:
    return PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]


def test_the_picture_and_the_table_are_the_import_contract() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    contracts = tools["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if "exhaustive" in each)
    packages = [re.findall(r"\w+", layer) for layer in layers if layer != "__main__"]
    picture = (ROOT / "docs/img/packages.svg").read_text(encoding="utf-8")
    drawn: dict[str, list[str]] = {}
    for height, name in re.findall(r'class="package" x="[\d.]+" y="([\d.]+)".*?>(\w+)<', picture):
        drawn.setdefault(height, []).append(name)
    assert list(drawn.values()) == packages
    rows = re.findall(r"^\| (`.*?) \|", section("Packages"), re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert listed == {name for layer in packages for name in layer}


@pytest.mark.parametrize("reference", sorted(set(REFERENCE.findall(PAGE))), ids=":".join)
def test_every_function_that_the_page_names_exists(reference: tuple[str, str]) -> None:
    path, name = reference
    body: Any = ast.parse((SOURCE / path).read_text(encoding="utf-8")).body
    for part in name.split("."):
        *_, node = [n for n in body if getattr(n, "name", None) == part]  # after its overloads
        body = node.body


def first_calls(work: Callable[[], object]) -> list[tuple[str, str]]:
    """Run `work` and return our functions in the order of their first calls."""
    seen: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(SOURCE)):
            seen.setdefault((path[len(str(SOURCE)) + 1 :], frame.f_code.co_qualname))

    before = sys.getprofile()
    threading.setprofile(note)  # of the thread that owns the engine, which starts now
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return list(seen)


def test_one_prompt_takes_the_way_that_the_page_describes() -> None:
    reviser = pytest.importorskip("reviser")
    pytest.importorskip("torch")
    model = reviser.load(ROOT / "models/stories-revise")
    calls = first_calls(lambda: model.generate("Ben had a", max_actions=4))
    steps = REFERENCE.findall(section("Follow one prompt"))
    assert [call for call in calls if call in steps] == steps


def test_one_draft_takes_the_way_that_the_page_describes() -> None:
    pytest.importorskip("torch")
    from support import editors

    model, draft = editors.reading_editor()
    calls = first_calls(lambda: model.revise(draft, window=8, context=2, min_edit_probability=0.01))
    steps = REFERENCE.findall(section("Follow one draft"))
    assert [call for call in calls if call in steps] == steps
