"""Adaptation: give a causal LM the actions of an editor, take them away, or train adapters on it.

This module changes vocabularies and embedding rows. It does not open or save files: see
`trunks.py`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedModel

from reviser.core.actions import ActionVocab
from reviser.errors import MissingExtra
from reviser.models.trunks import embedding_tables, rows_for, set_special_ids


def adapt(
    model: PreTrainedModel,
    tokenizer: Tokenizer | Any,
    *,
    operators: Iterable[str] = (),
    max_move: int = 512,
    begin: str | None = None,
    delimiter: bool = True,
    marks: bool = False,
    search: bool = False,
) -> ActionVocab:
    """Turn a causal LM into one that can learn to edit. Model and tokenizer are changed.

    The control tokens are added to the tokenizer. Their rows, input and output, start as the mean
    of the ordinary tokens' rows. The logits of ordinary tokens stay exactly the same, and no action
    starts out much more or less likely than a token. `begin` names the token that the model's texts
    begin with, if it was trained with one.
    """
    vocab = ActionVocab.from_tokenizer(
        tokenizer,
        operators=operators,
        max_move=max_move,
        begin=begin,
        delimiter=delimiter,
        marks=marks,
        search=search,
    )
    rows = len(embedding_tables(model)[0])
    if rows < vocab.size:
        # The library's own initialisation draws noise; the mean below replaces it.
        model.resize_token_embeddings(rows_for(vocab.size), mean_resizing=False)
    first_new = min(rows, vocab.tokens)
    with torch.no_grad():
        for table in embedding_tables(model):
            table[first_new:] = table[:first_new].mean(dim=0)
    set_special_ids(model, vocab)
    return vocab


def remove_actions(model: PreTrainedModel, tokenizer: Tokenizer, vocab: ActionVocab) -> Tokenizer:
    """Reduce a Reviser model to the causal LM under its actions.

    The model keeps the rows of ordinary tokens only. Returns a tokenizer without control tokens.
    """
    model.resize_token_embeddings(vocab.tokens, mean_resizing=False)
    for config in (model.config, model.generation_config):
        if config is not None:
            config.bos_token_id = config.eos_token_id = config.pad_token_id = None
    return plain_tokenizer(tokenizer, vocab)


def plain_tokenizer(tokenizer: Tokenizer, vocab: ActionVocab) -> Tokenizer:
    """Return a copy of a tokenizer without the control tokens of a vocabulary."""
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [each for each in state["added_tokens"] if each["id"] < vocab.tokens]
    return Tokenizer.from_str(json.dumps(state))


def with_lora(
    model: PreTrainedModel, vocab: ActionVocab, *, rank: int, alpha: float, dropout: float
) -> Any:
    """Wrap a model in low-rank adapters on every linear layer.

    Of the embeddings, the rows of control tokens are trained in full. With rank 0 only those rows
    are trained, so the model's other weights do not change.
    """
    try:
        import peft
    except ImportError as error:
        raise MissingExtra("LoRA needs peft. Install it with: pip install peft.") from error
    names = {module: name for name, module in model.named_modules()}
    output = model.get_output_embeddings()
    tied = output.weight is model.get_input_embeddings().weight
    tables = [model.get_input_embeddings()] + [output] * (not tied)
    rows = [names[table].rpartition(".")[2] for table in tables]
    controls = sorted(vocab.control_tokens.values())
    config: peft.PeftConfig
    if rank == 0:
        config = peft.TrainableTokensConfig(target_modules=rows, token_indices=controls)
    else:
        config = peft.LoraConfig(
            r=rank,
            lora_alpha=alpha,  # type: ignore[arg-type]  # annotated int; any number works
            lora_dropout=dropout,
            target_modules="all-linear",
            trainable_token_indices=dict.fromkeys(rows, controls),
        )
    with warnings.catch_warnings():
        # PEFT warns about tied embeddings and merging; the merge at the end handles them.
        warnings.filterwarnings("ignore", "Model has `tie_word_embeddings=True`")
        # PEFT 0.21 uses a name that Transformers 5.23 has renamed.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated")
        adapted = peft.get_peft_model(model, config)
    # With the base's name PEFT would ask the hub at every checkpoint, find that the embeddings were
    # resized and save all of them. The trained rows are saved without that.
    config.base_model_name_or_path = ""
    return adapted


def merge_lora(
    sharded: Any,
    weights: dict[str, torch.Tensor],
    vocab: ActionVocab,
    *,
    rank: int,
    alpha: float,
    dropout: float,
) -> PreTrainedModel:
    """Return a whole model with the adapters of a sharded one merged, from its gathered weights.

    PEFT merges by writing into parameters, which shards do not allow.
    """
    base = sharded.get_base_model()
    whole = with_lora(type(base)(base.config), vocab, rank=rank, alpha=alpha, dropout=dropout)
    whole.load_state_dict(weights)
    merged: PreTrainedModel = whole.merge_and_unload()
    return merged
