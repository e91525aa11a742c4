"""Biases and the mask as a few writes to logits, wherever they are: what every engine uses.

Shapes: B rows, A ids of the vocabulary (or more: a padded one), C columns of a mask.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from reviser.core.actions import ActionVocab, Kind
from reviser.core.mask import BoolArray, Boundary
from reviser.engines.base import DecodeConfig


class LogitsMask:
    """Closes what the rows of a `Boundary` may not do."""

    def __init__(self, vocab: ActionVocab, device: torch.device | str = "cpu") -> None:
        self.vocab = vocab
        self.controls = torch.from_numpy(vocab.controls.astype(np.int64)).to(device)
        self._forbidden = torch.from_numpy(vocab.forbidden.astype(np.int64)).to(device)
        self._stop = torch.tensor([vocab.stop], device=device)
        about_places = np.isin(vocab.kinds, [Kind.MOVE, Kind.FIND, Kind.MARK])
        self._moves = torch.from_numpy(np.flatnonzero(about_places)).to(device)

    def add_biases(
        self, logits_BA: torch.Tensor, rows: Boundary, configs: Sequence[DecodeConfig]
    ) -> None:
        """Add, in place, to STOP, moves and marks what a row's settings say; not to arguments."""
        is_free = ~rows.is_spelling
        for ids, biases in (
            (self._stop, [config.stop_bias for config in configs]),
            (self._moves, [config.move_bias for config in configs]),
        ):
            if any(biases):
                biases_B1 = np.where(is_free, biases, 0.0).astype(np.float32)[:, None]
                logits_BA[:, ids] += torch.from_numpy(biases_B1).to(logits_BA)

    def apply(self, logits_BA: torch.Tensor, rows: Boundary) -> BoolArray:
        """Close, in place, what each row may not do, in the order `Boundary.fill_mask` states.

        Gives the mask that it filled.
        """
        allowed_BC = rows.fill_mask()
        closed = -torch.inf
        without_inserts = np.flatnonzero(~allowed_BC[:, 0])
        controls_BC = logits_BA[:, self.controls]
        controls_BC.masked_fill_(torch.from_numpy(~allowed_BC[:, 1:]).to(logits_BA.device), closed)
        if without_inserts.size:
            at = torch.from_numpy(without_inserts).to(logits_BA.device)
            searching = [(n, self.findable(rows, n)) for n in without_inserts.tolist()]
            kept = [(n, ids, logits_BA[n, ids]) for n, ids in searching if len(ids)]
            logits_BA[at, : self.vocab.tokens] = closed
            for n, ids, logits in kept:
                logits_BA[n, ids] = logits
        logits_BA[:, self.controls] = controls_BC
        logits_BA[:, self._forbidden] = closed
        logits_BA[:, self.vocab.size :] = closed
        return allowed_BC

    def findable(self, rows: Boundary, row: int) -> torch.Tensor:
        """The ids of the tokens that a row's search may go on with."""
        return torch.tensor(rows.findable(row), dtype=torch.long, device=self.controls.device)
