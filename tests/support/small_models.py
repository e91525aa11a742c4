"""Model folders that the tests build: tiny trunks with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

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


def language_model(folder: Path, **options: Any) -> Path:
    """Make a Llama without actions, with fewer heads of keys than of queries."""
    tokenizer = small_tokenizers.byte_level()
    settings: dict[str, Any] = {
        "vocab_size": tokenizer.get_vocab_size(), "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 256, "tie_word_embeddings": True, "bos_token_id": 1,
    }  # fmt: skip
    model = LlamaForCausalLM(LlamaConfig(**settings | options))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():  # else everything is about equally likely
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    trunks.save_weights(model, folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    return folder


def editor(folder: Path, *, layers: int = 1, context: int = 64) -> Path:
    """Make a model that also revises."""
    writer(folder, operators=["delete"], layers=layers, context=context)
    Editing(edit_probabilities=False).save(folder)
    return folder
