"""The measurements of the language server, and the recording of Neovim."""

from __future__ import annotations

from pathlib import Path

from experiments.editor import cost

ROOT = Path(__file__).parents[2]


def test_the_guide_has_the_results() -> None:
    page = (ROOT / "docs/guides/editor.md").read_text("utf-8")
    for part in cost.table().split("\n\n"):
        assert part.strip() in page, "python -m experiments.editor.cost table"
