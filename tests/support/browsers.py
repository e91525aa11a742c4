"""A real Chromium for the tests of pages, and axe to judge them; neither is skipped in CI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import pytest

ARGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip


def missing(reason: str) -> NoReturn:
    """Skip a test; in CI, where nothing may be missing, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def node() -> str:
    """A Node of version 20 or later: Playwright brings one along, Debian's may be older."""
    if (playwright := find_spec("playwright")) is not None:
        found = Path(playwright.origin or "").with_name("driver") / "node"
        if found.is_file():
            return str(found)
    return shutil.which("node") or missing("Neither Node nor playwright is installed.")


@contextmanager
def chromium() -> Iterator[Any]:
    try:
        api = import_module("playwright.sync_api")
    except ImportError:
        missing("playwright is not installed.")
    place = os.environ.get("REVISER_CHROMIUM") or shutil.which("chromium")
    if place is None:
        missing("Chromium is not installed; REVISER_CHROMIUM can say where it is.")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=place, args=ARGS)
        yield browser
        browser.close()


def walked(page: Any, steps: Iterable[int], kept: str = "textContent") -> list[str]:
    """What the text keeps at each of some steps; in the page, since a call for each takes long."""
    found: list[str] = page.evaluate(
        """async ([steps, kept]) => {
            const scrub = document.getElementById("scrub");
            const found = [];
            for (const step of steps) {
                scrub.value = step;
                scrub.dispatchEvent(new Event("input"));
                await new Promise(requestAnimationFrame);
                await new Promise(requestAnimationFrame);
                found.push(document.querySelector(".text p")[kept]);
            }
            return found;
        }""",
        [list(steps), kept],
    )
    return found


def serious(page: Any) -> list[tuple[str, str]]:
    """What axe finds that keeps somebody out."""
    try:
        axe = import_module("axe_playwright_python.sync_playwright")
    except ImportError:
        missing("axe-playwright-python is not installed.")
    found = axe.Axe().run(page).response
    assert len(found["passes"]) > 15
    return [
        (each["id"], each["nodes"][0]["html"])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
