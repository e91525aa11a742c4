"""Two tiny models with random weights, one that edits and one that continues, and their recipes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("datatrove")

import yaml
from tests.train.conftest import TEXT

from reviser.core.actions import ActionVocab
from reviser.core.codec import read_tokenizer
from reviser.data.corrupt import Corruption, corrupted
from reviser.data.pairs import write_pairs
from reviser.data.tokenizer import train_bpe
from reviser.models import trunks
from reviser.models.editing import Editing
from reviser.models.trunk_config import TrunkConfig

TRUNK = TrunkConfig(layers=1, width=16, heads=2, mlp_width=32, context=160, dropout=0.1)
OPERATORS = {"operators": ["delete", "replace"], "marks": True, "search": True}
EDITS = {
    "base": "editor",
    "policy": {"kind": "edits"},
    "data": {"pairs": ["pairs.jsonl"], "windows": {"held_out": 0.2}},
    "training": {
        "steps": 4,
        "batch": 8,
        "micro_batch": 4,
        "learning_rate": 0.01,
        "warmup": 1,
        "precision": "fp32",
        "log_every": 1,
        "evaluate_every": 1000,
        "save_every": 2,
        "reporters": [],
    },
    "evaluation": {"examples": 4, "prompts": ["One two."], "max_actions": 8},
    "reinforce": {
        "reward": {"kind": "edits", "price_per_byte": 0.01},
        "group": 4,
        "max_actions": 12,
        "kl": 0.05,
        "entropy": 0.01,
        "types": 0.1,
        "price_per_action": 0.001,
        "oracle": 0.5,
    },
}
"""A recipe with every term of the loss."""


def changed(recipe: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """Return a recipe with some values of its sections replaced."""
    merged = {
        name: recipe.get(name, {}) | value if isinstance(value, dict) else value
        for name, value in sections.items()
    }
    return recipe | merged


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models, pairs, a text and the recipes edits.yaml and text.yaml."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "text.txt").write_text(TEXT)
    (folder / "tokenizer").mkdir()
    train_bpe([folder / "text.txt"], 300).save(str(folder / "tokenizer" / "tokenizer.json"))
    sentences = [part.split(". ")[0] + "." for part in TEXT.split("\n\n")]
    write_pairs(folder / "pairs.jsonl", corrupted(sentences[:40], Corruption(rate=10), 0))
    for name, options in (("editor", OPERATORS), ("writer", {})):
        tokenizer = read_tokenizer(folder / "tokenizer")
        vocab = ActionVocab.from_tokenizer(tokenizer, max_move=32, **options)
        model = trunks.build(TRUNK, vocab, seed=1)
        trunks.save(model, tokenizer, vocab, folder / name)
    Editing(edit_probabilities=False).save(folder / "editor")
    trunks.save_weights(model, folder / "scorer")
    shutil.copy(folder / "tokenizer" / "tokenizer.json", folder / "scorer")
    text = changed(
        EDITS,
        base="writer",
        policy="paper",
        data={"text": ["text.txt"], "windows": {"size": 40, "prefix": [4, 8], "held_out": 0.1}},
        reinforce={"reward": {"kind": "judge", "scorer": "scorer"}, "oracle": 0.0},
    )
    del text["data"]["pairs"]
    (folder / "edits.yaml").write_text(yaml.safe_dump(EDITS))
    (folder / "text.yaml").write_text(yaml.safe_dump(text))
    return folder
