"""Model folders that the tests build: tiny trunks with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reviser.core.actions import ActionVocab
from reviser.models import trunks
from reviser.models.editing import Editing
from support import small_tokenizers


def writer(
    folder: Path, *, operators: Sequence[str] = (), layers: int = 1, context: int = 64
) -> Path:
    """Make a model that writes."""
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=operators, max_move=8)
    config = trunks.TrunkConfig(
        architecture="llama", layers=layers, width=16, heads=2, mlp_width=24, context=context
    )
    trunks.save(trunks.build(config, vocab, seed=3), tokenizer, vocab, folder)
    return folder


def editor(folder: Path, *, layers: int = 1, context: int = 64) -> Path:
    """Make a model that also revises."""
    writer(folder, operators=["delete"], layers=layers, context=context)
    Editing(edit_probabilities=False).save(folder)
    return folder
