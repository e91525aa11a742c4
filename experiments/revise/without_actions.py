"""Remove the actions from a Reviser model, to get a causal LM that can be adapted again.

python -m experiments.revise.without_actions models/stories-revise -o base
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer

from reviser.core.codec import read_tokenizer
from reviser.models import trunks


def without_actions(folder: Path, output: Path) -> None:
    """Save a model and its tokenizer with only the rows of the ordinary tokens."""
    model, vocab = trunks.load(folder, dtype=torch.float32)
    model.resize_token_embeddings(vocab.tokens, mean_resizing=False)
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(model.config, name, None)
        setattr(model.generation_config, name, None)
    model.save_pretrained(output)
    state = json.loads(read_tokenizer(folder).to_str())
    state["added_tokens"] = [each for each in state["added_tokens"] if each["id"] < vocab.tokens]
    Tokenizer.from_str(json.dumps(state)).save(str(output / "tokenizer.json"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    without_actions(arguments.model, arguments.output)
