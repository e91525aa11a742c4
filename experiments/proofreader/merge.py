"""Merge the base model and an adapter into a plain Llama folder.

    python merge.py base run/adapter -o proofreader

Transformers, vLLM and `reviser.load` open the folder. Input and output rows are no longer tied:
the control ids have fixed input rows and trained output rows.
"""

import argparse
from pathlib import Path

import torch
from examples import open_tokenizer
from model import PROJECTIONS, Proofreader, projection_path
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from reviser.models.trunks import rows_for, save


def merge(base: Path, adapter: Path, output: Path) -> None:
    """Write the merged model, its tokenizer and its action vocabulary."""
    vocab, _, newline = open_tokenizer(base)
    ours = Proofreader(base, vocab, newline=newline)
    ours.load_adapter(adapter)
    config = LlamaConfig.from_pretrained(base)
    config.vocab_size, config.tie_word_embeddings = rows_for(vocab.size), False
    config.bos_token_id = vocab.begin
    config.eos_token_id = config.pad_token_id = vocab.stop
    weights = {name: value.float() for name, value in load_file(base / "model.safetensors").items()}
    scale = ours.alpha / ours.rank
    with torch.no_grad():
        for n in range(ours.frozen, ours.depth):
            for name in PROJECTIONS:
                a, b = (ours.lora[f"{n}_{name}_{side}"] for side in "AB")
                weights[f"model.layers.{n}.{projection_path(name)}.weight"] += scale * b @ a
        spare = torch.zeros(config.vocab_size - vocab.size, ours.width)
        weights["model.embed_tokens.weight"] = torch.cat([ours.inputs, spare])
        weights["lm_head.weight"] = torch.cat([ours.table, ours.rows, spare])
    model = LlamaForCausalLM(config)
    model.load_state_dict(weights)
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    vocab.extend(tokenizer)
    save(model.half(), tokenizer, vocab, output)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("adapter", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    merge(given.base, given.adapter, given.output)


if __name__ == "__main__":
    main()
