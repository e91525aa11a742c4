"""Samples a corpus from a causal LM, so that the true distribution of the text is known.

Untruncated, at temperature 1: a text's perplexity under the model is then exact, not a proxy. One
JSON line per text; stop and start again at will, since batch n depends on the seed and n alone.

    python benchmarks/sample_corpus.py MODEL -o stories.jsonl --texts 4000
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from reviser import Codec
from reviser.models import load_base


@torch.no_grad()
def sample(model: torch.nn.Module, begin: int, count: int, length: int, seed: int) -> list:
    """Token ids of some texts, each up to where the model ends it or begins another."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.full((count, 1), begin)
    texts, cache = ids, None
    ended = torch.zeros(count, dtype=torch.bool)
    while texts.shape[1] < length and not ended.all():
        with torch.autocast("cpu", torch.bfloat16, enabled=False):
            output = model(input_ids=ids, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        shares = torch.softmax(output.logits[:, -1].float(), dim=-1)
        ids = torch.multinomial(shares, 1, generator=generator)
        ended |= (ids[:, 0] == begin) | (ids[:, 0] == model.config.eos_token_id)
        texts = torch.cat([texts, ids], dim=1)
    ends = {begin, model.config.eos_token_id}
    rows = [row[1:] for row in texts.tolist()]
    return [row[: next((n for n, i in enumerate(row) if i in ends), None)] for row in rows]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    model, tokenizer = load_base(arguments.model)
    codec = Codec(tokenizer)
    length = model.config.max_position_embeddings
    lines = arguments.output.read_text().splitlines() if arguments.output.exists() else []
    done = len(lines) // arguments.batch  # whole batches
    arguments.output.write_text("".join(line + "\n" for line in lines[: done * arguments.batch]))
    with arguments.output.open("a", encoding="utf-8") as file:
        for batch in range(done, arguments.texts // arguments.batch):
            seed = arguments.seed * 1_000_003 + batch
            rows = sample(model, model.config.bos_token_id, arguments.batch, length, seed)
            lines = (json.dumps({"text": codec.decode(row), "seed": seed}) for row in rows)
            file.write("".join(line + "\n" for line in lines))
            file.flush()
            print(f"{(batch + 1) * arguments.batch} texts", end="\r", flush=True)
