"""Published pages are what the reports write, and the commands that they name exist."""

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments import models, player_pages
from experiments.revise import report as revise
from experiments.solve import report as solve
from experiments.stories import model_cards
from experiments.stories import report as stories

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"(?:python -m |`)(experiments(?:\.[a-z_]+)+)")
NAMING = ("*.md", "docs/**/*.md", "experiments/**/*.md", "experiments/**/*.py", "justfile")
NAMING += ("models/*/*.md", "recipes/*.yaml")


@pytest.mark.parametrize(
    ("command", "pages"),
    [
        ("stories.report", lambda: {f"docs/{n}": page for n, page in stories.pages().items()}),
        ("stories.report", model_cards.cards),
        ("revise.report", lambda: {"docs/revise-results.md": revise.page()}),
        ("solve.report", lambda: {"docs/solving.md": solve.page()}),
        ("models", lambda: {"docs/models.md": models.page()}),
    ],
    ids=["stories", "cards", "revise", "solve", "models"],
)
def test_a_committed_page_is_what_its_report_writes(
    command: str, pages: Callable[[], dict[str, str]]
) -> None:
    for name, content in pages().items():
        message = f"{name}: python -m experiments.{command}"
        assert (ROOT / name).read_text("utf-8") == content, message


def test_every_command_that_is_named_exists() -> None:
    texts = (path.read_text("utf-8") for pattern in NAMING for path in ROOT.glob(pattern))
    named = {name for text in texts for name in COMMAND.findall(text)}
    assert len(named) > 10
    assert not [name for name in named if importlib.util.find_spec(name) is None]


def test_a_player_page_has_all_its_films_and_is_small() -> None:
    films = {}
    for name, page in player_pages.pages().items():
        assert len(page.encode()) < 1_000_000, name
        films[name] = page.count('"name":')
    expected = {"rollouts.html": 11, "edits.html": 10, "gallery.html": 10, "maze.html": 0}
    assert films == expected
