"""Measure what adapting a pretrained model changes, before and after training.

`before` prints the largest difference between the next-token distributions of the base and of the
adapted model over windows of a plain text, without the probability mass on new rows, and that mass.

    python -m experiments.adapt.run before MODEL TEXT --begin "<s>"

`after` prints the losses of the base and of a run of `recipes/adapt.yaml` on the run's held-out
texts, token by token as the append policy writes them.

    python -m experiments.adapt.run after MODEL RUN
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from reviser import Append, Codec
from reviser.data.dataset import NO_LABEL
from reviser.models.adaptation import adapt
from reviser.models.trunks import load, load_base
from reviser.train.inputs import held_out_set, open_inputs
from reviser.train.recipe import load_recipe


@torch.no_grad()
def before(name: str, text: Path, begin: str | None, windows: int = 8, length: int = 128) -> None:
    """Print how far adapting alone changes the distribution over ordinary tokens."""
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
        f" probability {(adapted / kept - base).abs().max():.1e}; mean mass on new rows"
        f" {1 - kept.mean():.1e}, at most {1 - kept.min():.1e}"
    )


@torch.no_grad()
def after(base_name: str, run: Path) -> None:
    """Print the held-out losses of the base and of the adapted run."""
    recipe = load_recipe(run / "recipe.json")
    parts = open_inputs(recipe, run)
    base, (trained, _) = load_base(base_name)[0], load(run)
    batches = held_out_set(recipe, parts, Append())
    ordinary, tokens = parts.vocab.tokens, 0
    sums = dict.fromkeys(("base", "trained", "trained, no action possible"), 0.0)
    for n in range(len(batches)):
        for row, labels in zip(batches[n]["input_ids"], batches[n]["labels"], strict=True):
            # The base has no delimiter and no stop, so it reads the text without them.
            text = labels.clone()
            text[text == parts.vocab.stop] = NO_LABEL
            known = row < ordinary
            sums["base"] += loss(base, row[known], text[known])
            sums["trained"] += loss(trained, row, text)
            sums["trained, no action possible"] += loss(trained, row, text, ordinary)
            tokens += int((text[known][1:] != NO_LABEL).sum())
    for name, total in sums.items():
        print(
            f"{name}: {total / tokens:.4f} nats per text token, {total / sums['base']:.4f} of base"
        )
    metrics = json.loads((run / "run.json").read_text())["metrics"]
    for key in sorted(k for k in metrics if k.endswith(("nll", "95"))):
        print(f"{key.removeprefix('eval_')}: {metrics[key]:.4f}")


def loss(model: torch.nn.Module, ids: torch.Tensor, goals: torch.Tensor, among: int = 0) -> float:
    """Return the loss of one history, over the first `among` ids only if given."""
    logits = model.eval()(ids[None]).logits[0, :-1, : among or None]
    return float(torch.nn.functional.cross_entropy(logits, goals[1:], reduction="sum"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("when", choices=["before", "after"])
    parser.add_argument("model")
    parser.add_argument("text_or_run", type=Path)
    parser.add_argument("--begin")
    arguments = parser.parse_args()
    if arguments.when == "before":
        before(arguments.model, arguments.text_or_run, arguments.begin)
    else:
        after(arguments.model, arguments.text_or_run)
