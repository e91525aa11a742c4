"""Sample a corpus from a causal LM, so that the true distribution of the text is known.

Texts are sampled at temperature 1 without truncation, so a text's perplexity under the model is
exact. Each text is one JSON line and ends where the model or its context ended. The command can be
stopped and started at any time, because batch n depends only on the seed and n. `--share 0/2`
samples every second batch, so that two processes can write two files.

    python -m experiments.stories.sample_corpus MODEL -o stories-0.jsonl --batches 420 --share 0/2
"""

from __future__ import annotations

import argparse
import copy
import json
from pathlib import Path

import torch
from transformers.cache_utils import Cache, DynamicLayer

from reviser import Codec
from reviser.models.trunks import load_base

BLOCK = 256
"""Ids per block: `draw` first draws a block and then an id inside it."""
CACHED = 8
"""Rows whose probabilities are computed together, so that they fit in a core's cache."""
SHRINK = 16
"""Steps between two removals of the rows that have ended."""


class Buffer(DynamicLayer):
    """Keys and values of one layer in preallocated memory; the usual cache copies at each step."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.used = size, 0

    def lazy_initialization(self, key_states: torch.Tensor, _: torch.Tensor) -> None:
        """Allocate the memory when the shape is known."""
        rows, heads, _, width = key_states.shape
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys = key_states.new_empty(rows, heads, self.size, width)
        self.values = torch.empty_like(self.keys)
        self.is_initialized = True

    def update(self, keys: torch.Tensor, values: torch.Tensor, *_: object, **__: object) -> tuple:
        """Store the newest keys and values, and return all so far."""
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        end = self.used + keys.shape[2]
        self.keys[:, :, self.used : end] = keys
        self.values[:, :, self.used : end] = values
        self.used = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_seq_length(self) -> int:
        """Return the number of positions in use."""
        return self.used


def draw(logits: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draw one id per row from its softmax: first a block of ids, then an id of the block."""
    rows, ids = logits.shape
    logits = torch.nn.functional.pad(logits, (0, -ids % BLOCK), value=-torch.inf)
    top = logits.amax(1, keepdim=True).float()
    parts = zip(logits.split(CACHED), top.split(CACHED), strict=True)
    sums = [(part.float() - most).exp_().view(len(part), -1, BLOCK).sum(2) for part, most in parts]
    blocks = torch.cat(sums).cumsum(1)
    point = torch.rand(rows, 1, generator=generator) * blocks[:, -1:]
    block = torch.searchsorted(blocks, point, right=True).clamp_(max=blocks.shape[1] - 1)
    before = blocks.gather(1, (block - 1).clamp_(min=0)) * (block > 0)
    chosen = logits.view(rows, -1, BLOCK)[torch.arange(rows), block[:, 0]]
    inside = (chosen.float() - top).exp_().cumsum(1)
    offset = torch.searchsorted(inside, point - before, right=True).clamp_(max=BLOCK - 1)
    return (block * BLOCK + offset).clamp_(max=ids - 1)


@torch.no_grad()
def sample(model: torch.nn.Module, count: int, seed: int) -> list[list[int]]:
    """Return the token ids of some texts, including the end token of those that have one."""
    config = model.config
    ends = torch.tensor([config.bos_token_id, config.eos_token_id])
    generator = torch.Generator().manual_seed(seed)
    length = config.max_position_embeddings
    cache = Cache(layers=[Buffer(length) for _ in range(config.num_hidden_layers)])
    texts: list[list[int]] = [[] for _ in range(count)]
    running = list(range(count))
    ids = torch.full((count, 1), config.bos_token_id)
    alive = torch.ones(count, dtype=torch.bool)
    for step in range(length - 1):
        positions = torch.full((1, 1), step)
        output = model(input_ids=ids, position_ids=positions, past_key_values=cache, use_cache=True)
        ids = draw(output.logits[:, -1], generator)
        for text, drawn, going in zip(running, ids[:, 0].tolist(), alive.tolist(), strict=True):
            if going:
                texts[text].append(drawn)
        alive &= ~torch.isin(ids[:, 0], ends)
        if not alive.any():
            break
        if step % SHRINK == 0 and not alive.all():
            kept = alive.nonzero()[:, 0]
            cache.reorder_cache(kept)
            ids, alive = ids[kept], alive[kept]
            running = [running[row] for row in kept.tolist()]
    return texts


@torch.no_grad()
def divergence(name: str, texts: list[str]) -> dict[str, float]:
    """Compare the bf16 model that texts are drawn from with the float32 model that judges them.

    Returns the mean nats per token of some texts under both, and their mean divergence.
    """
    exact, tokenizer = load_base(name)
    rounded = copy.deepcopy(exact).to(torch.bfloat16)
    codec, begin = Codec(tokenizer), exact.config.bos_token_id
    sums, tokens = torch.zeros(3, dtype=torch.float64), 0
    for text in texts:
        ids = torch.tensor([[begin, *codec.encode(text)][: exact.config.max_position_embeddings]])
        p, q = (m(input_ids=ids).logits[0, :-1].double().log_softmax(-1) for m in (rounded, exact))
        drawn = ids[0, 1:, None]
        nats = [-table.gather(1, drawn).sum() for table in (p, q)]
        sums += torch.stack([*nats, (p.exp() * (p - q)).sum()])
        tokens += len(drawn)
    names = ("nats_bf16", "nats_float32", "divergence")
    return {name: float(total / tokens) for name, total in zip(names, sums, strict=True)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--batch", type=int, default=256, help="Texts per batch.")
    parser.add_argument(
        "--share", default="0/1", help="The batches to sample: 0/2 is every second one."
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    first, every = map(int, arguments.share.split("/"))
    model, tokenizer = load_base(arguments.model)
    model = model.to(torch.bfloat16).eval()
    ends = {model.config.bos_token_id, model.config.eos_token_id}
    codec = Codec(tokenizer)
    arguments.output.touch()
    lines = arguments.output.read_text("utf-8").splitlines(keepends=True)
    done = len(lines) // arguments.batch  # whole batches
    arguments.output.write_text("".join(lines[: done * arguments.batch]), "utf-8")
    numbers = range(first, arguments.batches, every)
    with arguments.output.open("a", encoding="utf-8") as file:
        for batch in numbers[done:]:
            seed = arguments.seed * 1_000_003 + batch
            for row in sample(model, arguments.batch, seed):
                ended = row[-1] in ends
                text = codec.decode(row[: len(row) - ended])
                fields = {"text": text, "tokens": len(row), "ended": ended, "seed": seed}
                file.write(json.dumps(fields) + "\n")
            file.flush()
            print(f"batch {batch} of {arguments.batches}", end="\r", flush=True)
