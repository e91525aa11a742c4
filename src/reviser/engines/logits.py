"""Biases and the mask as a few writes to logits, on any device; every engine uses them.

Shapes: B rows, A ids of the vocabulary (or more: a padded one), C columns of a mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch

from reviser.core.actions import ActionVocab, Kind
from reviser.core.mask import BoolArray, Boundary
from reviser.engines.base import DecodeConfig

Searched: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""Rows and tokens, pair by pair."""


class LogitsMask:
    """A mask of logits: what the rows of a `Boundary` may not do becomes -inf."""

    def __init__(self, vocab: ActionVocab, device: torch.device | str = "cpu") -> None:
        self.vocab = vocab
        self.controls = torch.from_numpy(vocab.controls.astype(np.int64)).to(device)
        self._forbidden = torch.from_numpy(vocab.forbidden.astype(np.int64)).to(device)
        self._stop = torch.tensor([vocab.stop], device=device)
        is_biased = np.isin(vocab.kinds, [Kind.MOVE, Kind.FIND, Kind.MARK])
        self._nothing = torch.empty(0, dtype=torch.long, device=device)
        self._moves = torch.from_numpy(np.flatnonzero(is_biased)).to(device)

    def add_biases(
        self, logits_BA: torch.Tensor, rows: Boundary, configs: Sequence[DecodeConfig]
    ) -> None:
        """Add the biases of each row's settings to STOP, moves and marks; not to arguments."""
        is_free = ~rows.is_spelling
        for ids, biases in (
            (self._stop, [config.stop_bias for config in configs]),
            (self._moves, [config.move_bias for config in configs]),
        ):
            if any(biases):
                biases_B1 = np.where(is_free, biases, 0.0).astype(np.float32)[:, None]
                logits_BA[:, ids] += torch.from_numpy(biases_B1).to(logits_BA)

    def apply(self, logits_BA: torch.Tensor, rows: Boundary) -> tuple[BoolArray, Searched]:
        """Mask, in place, what each row may not do, in the order that `Boundary.fill_mask` states.

        Returns the mask, and the tokens with which searches may continue.
        """
        allowed_BC = rows.fill_mask()
        closed = -torch.inf
        without_inserts = np.flatnonzero(~allowed_BC[:, 0])
        controls_BC = logits_BA[:, self.controls]
        controls_BC.masked_fill_(torch.from_numpy(~allowed_BC[:, 1:]).to(logits_BA.device), closed)
        searched = self._searched(rows, np.flatnonzero(~allowed_BC[:, 1]).tolist())
        if without_inserts.size:
            at = torch.from_numpy(without_inserts).to(logits_BA.device)
            kept_N = logits_BA[searched]
            logits_BA[at, : self.vocab.tokens] = closed
            logits_BA[searched] = kept_N
        logits_BA[:, self.controls] = controls_BC
        logits_BA[:, self._forbidden] = closed
        logits_BA[:, self.vocab.size :] = closed
        return allowed_BC, searched

    def _searched(self, rows: Boundary, waiting: Sequence[int]) -> Searched:
        found = [rows.findable(n) for n in waiting] if self.vocab.find is not None else []
        if not any(found):
            return self._nothing, self._nothing
        row_N = np.repeat(waiting, [len(ids) for ids in found])
        index = np.stack([row_N, [token for ids in found for token in ids]])
        row, token = torch.from_numpy(index).to(self.controls.device)
        return row, token
