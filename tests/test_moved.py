"""Old module names keep working, and say the new ones."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest

import reviser
from reviser import _moved


@pytest.mark.parametrize(("old", "new"), _moved.MODULES.items())
def test_every_moved_module_is_where_the_table_says(old: str, new: tuple[str, ...]) -> None:
    importlib.import_module(f"reviser.{old}")
    assert all(find_spec(f"reviser.{name}") for name in new)


def test_the_page_for_users_has_every_moved_module() -> None:
    page = (Path(__file__).parents[1] / "docs" / "migrate.md").read_text("utf-8")
    for old, new in _moved.MODULES.items():
        modules = ", ".join(f"`reviser.{name}`" for name in new)
        assert f"| `reviser.{old}` | {modules} |" in page


def test_an_old_name_warns_and_is_the_new_object() -> None:
    with pytest.warns(
        DeprecationWarning, match=r"reviser\.generate\.Rollout is reviser\.writing\."
    ):
        from reviser.generate import Rollout
    assert Rollout is reviser.Rollout
    with pytest.warns(DeprecationWarning, match="is reviser.trajectories.policy.Spans now"):
        from reviser.core.policy import Spans
    assert Spans is reviser.Spans
    with pytest.warns(DeprecationWarning, match="is reviser.models.trunks.TrunkConfig now"):
        from reviser.models import TrunkConfig
    assert TrunkConfig.__module__ == "reviser.models.trunk_config"


def test_names_that_never_were_are_refused() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        from reviser.generate import Nothing  # noqa: F401
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("reviser.nothing")
