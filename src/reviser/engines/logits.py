"""Biases and the mask as a few writes to logits, on any device, and the choice of an action.

Every engine uses biases and mask; vLLM chooses by itself.

Shapes: B rows, A ids of the vocabulary (or more: a padded one), C columns of a mask, K most likely
ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from reviser.core.actions import ActionVocab, Kind
from reviser.core.mask import ActionMask, BoolArray
from reviser.engines.base import DecodeConfig

Searched: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""Rows and tokens, pair by pair."""


class MaskPlan(NamedTuple):
    """What is to be written to the logits of some rows."""

    stop_bias: npt.NDArray[np.float32]
    """Bias of STOP, by row."""
    move_bias: npt.NDArray[np.float32]
    """Bias of moves, searches and marks, by row."""
    allowed: BoolArray
    """The mask, as `ActionMask.fill_mask` gives it."""
    searched: Searched
    """The tokens with which searches may continue."""


class LogitsMask:
    """A mask of logits: what the rows of a `ActionMask` may not do becomes -inf."""

    def __init__(self, vocab: ActionVocab, device: torch.device | str = "cpu") -> None:
        self.vocab = vocab
        self.controls = torch.from_numpy(vocab.controls.astype(np.int64)).to(device)
        self._forbidden = torch.from_numpy(vocab.forbidden.astype(np.int64)).to(device)
        self._stop = torch.tensor([vocab.stop], device=device)
        is_biased = np.isin(vocab.kinds, [Kind.MOVE, Kind.FIND, Kind.MARK])
        self._nothing = torch.empty(0, dtype=torch.long, device=device)
        self._moves = torch.from_numpy(np.flatnonzero(is_biased)).to(device)

    def plan(self, rows: ActionMask, configs: Sequence[DecodeConfig]) -> MaskPlan:
        """Return what is to be written to the logits of these rows.

        Whatever can go wrong with a row does so here, before the first write.
        """
        is_free = ~rows.is_spelling
        biases = [
            np.where(is_free, [getattr(config, name) for config in configs], 0.0)
            for name in ("stop_bias", "move_bias")
        ]
        stop_B, moves_B = (each.astype(np.float32) for each in biases)
        allowed_BC = rows.fill_mask()
        row_N, token_N = rows.searched()
        searched = self._nothing, self._nothing
        if row_N.size:
            row, token = torch.from_numpy(np.stack([row_N, token_N])).to(self.controls.device)
            searched = row, token
        return MaskPlan(stop_B, moves_B, allowed_BC, searched)

    def apply(self, logits_BA: torch.Tensor, plan: MaskPlan) -> None:
        """Add biases and mask, in place and in the order that `ActionMask.fill_mask` states.

        Biases are added to STOP, moves, searches and marks; not to arguments.
        """
        for ids, biases_B in ((self._stop, plan.stop_bias), (self._moves, plan.move_bias)):
            if biases_B.any():
                logits_BA[:, ids] += torch.from_numpy(biases_B[:, None]).to(logits_BA)
        allowed_BC, searched = plan.allowed, plan.searched
        closed = -torch.inf
        without_inserts = np.flatnonzero(~allowed_BC[:, 0])
        controls_BC = logits_BA[:, self.controls]
        controls_BC.masked_fill_(torch.from_numpy(~allowed_BC[:, 1:]).to(logits_BA.device), closed)
        if without_inserts.size:
            at = torch.from_numpy(without_inserts).to(logits_BA.device)
            kept_N = logits_BA[searched]
            logits_BA[at, : self.vocab.tokens] = closed
            logits_BA[searched] = kept_N
        logits_BA[:, self.controls] = controls_BC
        logits_BA[:, self._forbidden] = closed
        logits_BA[:, self.vocab.size :] = closed


def choose(
    logits_BA: torch.Tensor, configs: Sequence[DecodeConfig], draws: Sequence[float | None]
) -> torch.Tensor:
    """Choose an action for each row by its own settings and its own random number in 0..1."""

    def column(values: Sequence[float | None], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=logits_BA.device)[:, None]

    size = logits_BA.shape[-1]
    counts = [config.top_k or size for config in configs]
    values_BK, ids_BK = logits_BA.topk(min(size, max(counts)))  # most likely first
    heat = column([config.temperature or 1.0 for config in configs])
    shares_BK = torch.softmax(values_BK / heat, dim=-1, dtype=torch.float64)
    ranks_K = torch.arange(shares_BK.shape[1], device=logits_BA.device)
    greedy = column([config.temperature == 0 for config in configs], torch.bool)
    kept_BK = (ranks_K < column(counts)) & ~(greedy & (ranks_K > 0))
    kept_BK &= shares_BK >= column([config.min_p for config in configs]) * shares_BK[:, :1]
    shares_BK = shares_BK * kept_BK
    shares_BK /= shares_BK.sum(-1, keepdim=True)
    before_BK = shares_BK.cumsum(-1) - shares_BK
    kept_BK &= before_BK < column([config.top_p for config in configs])
    kept_BK &= shares_BK > 0
    sums_BK = (shares_BK * kept_BK).cumsum(-1)
    goals = column(draws, torch.float64) * sums_BK[:, -1:]
    # The first sum above the goal, which is never an action that was left out.
    chosen = torch.searchsorted(sums_BK, goals, right=True).clamp(max=sums_BK.shape[1] - 1)
    last = kept_BK.long().cumsum(-1).argmax(-1, keepdim=True)  # in case rounding reaches the end
    return ids_BK.gather(1, torch.minimum(chosen, last))[:, 0]
