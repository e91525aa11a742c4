"""Settings of all tests: hypothesis profiles (REVISER_HYPOTHESIS), no proxy, order, fixtures."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from support import browsers

collect_ignore = ["support/vllm_mask.py"]  # only vLLM can import it

settings.register_profile(
    "default", deadline=None, derandomize=os.environ.get("CI") == "true", max_examples=100
)
settings.register_profile("full", deadline=None, max_examples=2000)
# Without the compiler the kernels are slow Python, and coverage asks for lines, not for luck.
settings.register_profile("nojit", deadline=None, derandomize=True, max_examples=20)

profile = "nojit" if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0" else "default"
settings.load_profile(os.environ.get("REVISER_HYPOTHESIS") or profile)

for name in ("NO_PROXY", "no_proxy"):
    os.environ[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1", "localhost"]))


LONGEST = ("train", "serve", "player", "writing", "data", "lab", "models")
"""Folders whose files take longest, in this order."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first, so that none of them is left alone at the end."""
    order = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.parent.name, len(order)))


@pytest.fixture(scope="session")
def latex() -> str:
    """The paper's own text, which is not part of the repository."""
    default = Path(__file__).parents[2] / "shared" / "paper" / "reviser.tex"
    path = Path(os.environ.get("REVISER_PAPER", default))
    if "REVISER_PAPER" not in os.environ and not path.exists():
        pytest.skip("reviser.tex is not at hand; REVISER_PAPER can say where it is")
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; not for the whole session, since it runs an event loop that others stumble over."""
    with browsers.chromium() as chromium:
        yield chromium
