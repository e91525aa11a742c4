"""What a model folder says about editing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reviser.core.actions import ActionVocab
from reviser.errors import CheckpointError
from reviser.models.editing import Editing


def folder(path: Path, operators: tuple[str, ...] = ("delete",), **files: Any) -> Path:
    ActionVocab.build(20, operators=operators, search=True).save(path)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (path / f"{name}.json").write_text(text, encoding="utf-8")
    return path


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    editing = Editing(True, ((0.3, 0.5), (0.6, 0.75)), threshold=0.6)
    editing.save(folder(tmp_path))
    assert Editing.load(tmp_path) == editing


def test_a_model_without_the_file_is_no_editor(tmp_path: Path) -> None:
    trained = {"recipe": {"policy": {"kind": "edits", "edit_probabilities": True}}}
    assert Editing.load(folder(tmp_path, run=trained)) is None


def test_without_deletion_there_is_no_editor(tmp_path: Path) -> None:
    assert Editing.load(folder(tmp_path, (), editing={"edit_probabilities": True})) is None


@pytest.mark.parametrize(
    "files",
    [
        {"editing": "{"},
        {"editing": "[]"},
        {"editing": {"calibration": []}},
        {"editing": {"edit_probabilities": True, "threshold": float("nan")}},
        {"editing": "[" * 100_000},
        {"editing": {"edit_probabilities": True, "calibration": [[0.5, 1.5]]}},
        {"editing": {"edit_probabilities": True, "calibration": [[float("nan"), 0.5]]}},
        {"editing": "{}"},
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, files: dict[str, Any]) -> None:
    expected = "Cannot read|is not JSON|must hold a JSON object"
    with pytest.raises(CheckpointError, match=expected):
        Editing.load(folder(tmp_path, **files))
