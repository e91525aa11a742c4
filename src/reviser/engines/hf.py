"""Decoding with Transformers: one history at a time, with a key-value cache.

From the action id on it is the core's code: the mask says what may be chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from reviser.core.actions import ActionVocab
from reviser.core.mask import Boundary
from reviser.core.trajectory import Trajectory
from reviser.engines.base import DecodeConfig


@torch.no_grad()
def rollout(
    model: Any,
    vocab: ActionVocab,
    prefix: Sequence[int],
    config: DecodeConfig,
    *,
    agree: Callable[[int], int] = int,
) -> Trajectory:
    """Continue a prefix until STOP or the last action allowed.

    Processes that share the weights must take the same actions: `agree` turns each process'
    choice into that of all.
    """
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(config.seed)
    rows = Boundary(vocab, 1)
    rows.reset(0, length=len(prefix), gaps=[(len(prefix), len(prefix))])
    feed, cache = vocab.prefix_actions(prefix), None
    chosen: list[int] = []
    while len(chosen) < config.max_actions and not rows.is_finished[0]:
        ids_BT = torch.tensor([feed], device=device)
        output = model(input_ids=ids_BT, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        logits_A = apply_mask(output.logits[:, -1].float().cpu(), vocab, rows)[0]
        action = agree(_choose(logits_A, config, generator))
        rows.advance([action])
        chosen.append(action)
        feed = [action]
    return Trajectory(prefix=tuple(prefix), restoration=tuple(chosen))


def apply_mask(logits_BA: torch.Tensor, vocab: ActionVocab, rows: Boundary) -> torch.Tensor:
    """Close what each row may not do, in the order that `Boundary.fill_mask` states."""
    mask_BC = torch.from_numpy(rows.fill_mask())
    controls = torch.from_numpy(vocab.controls)
    closed = -torch.inf
    masked = logits_BA.clone()
    masked[:, : vocab.tokens].masked_fill_(~mask_BC[:, :1], closed)
    masked[:, controls] = logits_BA[:, controls].masked_fill(~mask_BC[:, 1:], closed)
    masked[:, torch.from_numpy(vocab.forbidden)] = closed
    masked[:, vocab.size :] = closed
    return masked


def _choose(logits_A: torch.Tensor, config: DecodeConfig, generator: torch.Generator) -> int:
    if config.temperature == 0:
        return int(logits_A.argmax())
    likeliest = min(config.top_k or len(logits_A), len(logits_A))
    values, ids = logits_A.topk(likeliest)
    shares = torch.softmax(values / config.temperature, dim=-1)
    return int(ids[torch.multinomial(shares, 1, generator=generator)])
