"""What a model folder says about editing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import reviser
from reviser.core.actions import ActionVocab
from reviser.errors import CheckpointError, ConfigError
from reviser.models.editing import Editing

WEIGHS = {"edit_probabilities": True, "writes_edits": False}


def folder(path: Path, operators: tuple[str, ...] = ("delete",), **files: Any) -> Path:
    ActionVocab.build(20, operators=operators, search=True).save(path)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (path / f"{name}.json").write_text(text, encoding="utf-8")
    return path


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    editing = Editing(
        True, ((0.3, 0.5), (0.6, 0.75)), threshold=0.6, label_delay=1, delimiters=2,
        writes_edits=False, min_confidence=0.7, most_gain=30.0,
        suggestions={"spelling": (1.0, 2.0, 3.0), "list": (0.0, 0.5, 1.0)},
    )  # fmt: skip
    editing.save(folder(tmp_path))
    (tmp_path / "words.txt").write_text("a cat")
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
        {"editing": {"edit_probabilities": True, "delimiters": 10**30}},
        {"editing": {"edit_probabilities": True, "threshold": float("nan")}},
        {"editing": {"edit_probabilities": True, "label_delay": -1}},
        {"editing": {"edit_probabilities": True, "suggestions": {"list": [1, 2, 3]}}},
        {"editing": {**WEIGHS, "suggestions": {"list": [1, 2]}}},
        {"editing": {**WEIGHS, "suggestions": {"other": [1, 2, 3]}}},
        {"editing": {**WEIGHS, "suggestions": {"list": [1, 2, float("nan")]}}},
        {"editing": {**WEIGHS, "suggestions": {"list": [1, 2, 3]}}},  # and no lists
        {"editing": {**WEIGHS, "suggestions": 3}},
        {"editing": {**WEIGHS, "suggestions": {"list": [1, 2, float("inf")]}}},
        {"editing": {"edit_probabilities": True, "most_gain": float("nan")}},
        {"editing": {"edit_probabilities": True, "most_gain": 0}},
        {"editing": "[" * 100_000},
        {"editing": {"edit_probabilities": True, "delimiters": 5, "label_delay": 3}},
        {"editing": {"edit_probabilities": True, "calibration": [[0.5, 1.5]]}},
        {"editing": {"edit_probabilities": True, "calibration": [[float("nan"), 0.5]]}},
        {"editing": {**WEIGHS, "suggestions": {"list": [1, 2, 1e308]}}},
        {"editing": {**WEIGHS, "edit_probabilities": False, "suggestions": {"list": [1, 2, 3]}}},
        {"editing": "{}"},
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, files: dict[str, Any]) -> None:
    expected = "Cannot read|is not JSON|must hold a JSON object"
    with pytest.raises(CheckpointError, match=expected):
        Editing.load(folder(tmp_path, **files))


def test_actions_that_the_vocabulary_lacks_are_refused(tmp_path: Path) -> None:
    saved = {"edit_probabilities": True, "delimiters": 1}
    assert Editing.load(folder(tmp_path, editing=saved)) == Editing(True, delimiters=1)
    ActionVocab.build(20, operators=["delete"], search=True, delimiter=False).save(tmp_path)
    with pytest.raises(CheckpointError, match="delimiters needs a vocabulary with `delimiter`"):
        Editing.load(tmp_path)


@pytest.mark.parametrize("options", [{}, {"url": "http://127.0.0.1:9"}])
def test_an_editor_that_needs_what_vllm_does_not_give_is_refused(
    options: dict[str, Any],
) -> None:
    """Both engines of vLLM give the same readings: neither is imported or asked here."""
    model = Path(__file__).parents[2] / "models" / "stories-edit"
    with pytest.raises(ConfigError, match=r"stories-edit gives .* Use engine 'hf'"):
        reviser.load(model, engine="vllm", **options)
    assert Editing(True).runs_on_vllm
    assert Editing(among_controls=True).runs_on_vllm


def test_a_gain_counts_up_to_a_limit() -> None:
    weights = {"list": (0.0, 0.0, 0.1)}
    editing = Editing(writes_edits=False, suggestions=weights, most_gain=20.0)
    found = [editing.confidence_of(0.0, gain, "list") for gain in (-30, -20, 5, 20, 30)]
    assert found == sorted(found)
    assert [found.count(each) for each in found] == [2, 2, 1, 2, 2]
