"""Give stories15M the vocabulary of our story models, and the actions of an editor.

The six layers and the final norm are unchanged. The embedding, which is also the output table,
gets a row for each token of the other tokenizer: the mean of the rows of stories15M's own tokens
for the same text. So most rows are those of the same word.

    python -m experiments.stories.transplant STORIES15M models/stories-revise -o base

The result needs training: see `editor.py`. It holds nothing of Llama's tokenizer.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from reviser import ActionVocab, Codec
from reviser.core.codec import read_tokenizer
from reviser.models import trunks
from reviser.models.adaptation import adapt, plain_tokenizer

CONTEXT = 384
BREAK = "\n"
"""Begins every text that is split, because Llama's tokenizer puts a space before a text."""


def rows_of(table: Tensor, source: Tokenizer, text: bytes) -> Tensor:
    """Return the rows of the source's tokens for a text, which can end within a character."""
    try:
        ids = source.encode(BREAK + text.decode("utf-8"), add_special_tokens=False).ids
        first = len(source.encode(BREAK, add_special_tokens=False).ids)
        ids = ids[first:]
    except UnicodeDecodeError:
        ids = [source.token_to_id(f"<0x{byte:02X}>") for byte in text]
    return table[ids]


def transplant(source: str | Path, target: str | Path, output: str | Path) -> float:
    """Save the model, and return the share of tokens that are one token of the source."""
    model, old = trunks.load_base(source)
    table = model.get_input_embeddings().weight.detach().clone()
    begin = table[model.config.bos_token_id]
    tokenizer = plain_tokenizer(read_tokenizer(target), ActionVocab.load(target))
    rows = [rows_of(table, old, text) for text in Codec(tokenizer).token_bytes]
    model.resize_token_embeddings(len(rows), mean_resizing=False)
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(torch.stack([each.mean(0) for each in rows]))
    options = {"operators": ["delete", "replace"], "max_move": 64, "marks": True, "search": True}
    vocab = adapt(model, tokenizer, **options)
    with torch.no_grad():
        model.get_input_embeddings().weight[vocab.begin] = begin
    model.config.max_position_embeddings = CONTEXT
    trunks.save(model, tokenizer, vocab, output)
    return sum(len(each) == 1 for each in rows) / len(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="stories15M, with a tokenizer.json")
    parser.add_argument("target", type=Path, help="the model whose tokenizer is used")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    share = transplant(given.source, given.target, given.output)
    print(f"{share:.0%} of the tokens are one token of the source")
