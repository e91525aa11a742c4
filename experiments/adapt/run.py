"""What adapting a pretrained model changes: nothing before training, and how much after it.

Before: the largest difference between the next-token distributions of the base and of the adapted
model, the mass on new rows removed, over windows of a plain text, and how much mass that was.

    python benchmarks/adaptation.py before MODEL TEXT --begin "<s>"

After: of a run of recipes/adapt.yaml, the loss of the base on the held-out texts, token by token
as the append policy writes them, beside the run's own.

    python benchmarks/adaptation.py after MODEL RUN
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from reviser import Append, Codec
from reviser.data.dataset import NO_LABEL
from reviser.models import adapt, load, load_base
from reviser.train.parts import held_out_set, open_parts
from reviser.train.recipe import load_recipe


@torch.no_grad()
def before(name: str, text: Path, begin: str | None, windows: int = 8, length: int = 128) -> None:
    model, tokenizer = load_base(name)
    model.eval()
    tokens = Codec(tokenizer).encode(text.read_text(encoding="utf-8")[:200_000])
    step = max(1, (len(tokens) - length) // windows)
    first = [] if begin is None else [tokenizer.token_to_id(begin)]
    ids_BT = torch.tensor([first + tokens[n * step : n * step + length] for n in range(windows)])
    base = torch.softmax(model(ids_BT).logits.double(), dim=-1)
    vocab = adapt(model, tokenizer, begin=begin)
    adapted = torch.softmax(model(ids_BT).logits.double(), dim=-1)[..., : base.shape[-1]]
    kept = adapted.sum(-1, keepdim=True)
    print(
        f"{vocab.size - vocab.tokens} new ids, {ids_BT.numel()} positions; largest difference of a"
        f" probability {(adapted / kept - base).abs().max():.1e}; mass on new rows in the mean"
        f" {1 - kept.mean():.1e}, at most {1 - kept.min():.1e}"
    )


@torch.no_grad()
def after(name: str, run: Path) -> None:
    recipe = load_recipe(run / "recipe.json")
    parts = open_parts(recipe, run)
    base, (trained, _) = load_base(name)[0], load(run)
    batches = held_out_set(recipe, parts, Append())
    ordinary, tokens = parts.vocab.tokens, 0
    sums = dict.fromkeys(("base", "trained", "trained, no action possible"), 0.0)
    for n in range(len(batches)):
        for row, labels in zip(batches[n]["input_ids"], batches[n]["labels"], strict=True):
            # The base knows neither delimiter nor stop: it reads the text without them.
            text = labels.clone()
            text[text == parts.vocab.stop] = NO_LABEL
            known = row < ordinary
            sums["base"] += loss(base, row[known], text[known])
            sums["trained"] += loss(trained, row, text)
            sums["trained, no action possible"] += loss(trained, row, text, ordinary)
            tokens += int((text[known][1:] != NO_LABEL).sum())
    for who, total in sums.items():
        print(
            f"{who}: {total / tokens:.4f} nats per text token, {total / sums['base']:.4f} of base"
        )
    metrics = json.loads((run / "run.json").read_text())["metrics"]
    for key in sorted(k for k in metrics if k.endswith(("nll", "95"))):
        print(f"{key.removeprefix('eval_')}: {metrics[key]:.4f}")


def loss(model: torch.nn.Module, ids: torch.Tensor, goals: torch.Tensor, among: int = 0) -> float:
    """Of one history; `among` so many of the first ids only."""
    logits = model.eval()(ids[None]).logits[0, :-1, : among or None]
    return float(torch.nn.functional.cross_entropy(logits, goals[1:], reduction="sum"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("when", choices=["before", "after"])
    parser.add_argument("model")
    parser.add_argument("text_or_run", type=Path)
    parser.add_argument("--begin")
    arguments = parser.parse_args()
    if arguments.when == "before":
        before(arguments.model, arguments.text_or_run, arguments.begin)
    else:
        after(arguments.model, arguments.text_or_run)
