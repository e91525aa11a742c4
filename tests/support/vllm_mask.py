"""The mask of the vLLM servers of the tests: it can be broken while a server runs.

A server loads it by its path, in place of `reviser.engines.vllm_plugin:ReviserMask`. The folder
that the environment names has a file with the current fault, and gets one with what the mask saw.
"""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from reviser.engines import mask_args
from reviser.engines.vllm_plugin import ReviserMask
from support.vllm_runs import MASK_FOLDER, POISONS

_read = mask_args.read


def _poisoned(vocab: Any, history: Any, args: Any) -> Any:
    request = _read(vocab, history, args)
    match POISONS.get(request.config.max_edits or 0):
        case "one history":
            raise ZeroDivisionError("an error of our own")
        case "one config":
            object.__setattr__(request.config, "stop_bias", "much")
    return request


mask_args.read = _poisoned


class TestedMask(ReviserMask):
    """The mask, with the fault that a file names."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._folder = Path(os.environ[MASK_FOLDER])
        self._seen = {"mask": type(self._mask).__name__, "allowed": 0, "refused": 0}
        self._ask, self._mask._are_allowed = self._mask._are_allowed, self._count

    def _count(self, rows: Any, drafts: Any) -> Any:
        """Count the drafts of the second runner that the mask allows, and those it does not."""
        allowed = self._ask(rows, drafts)
        self._seen["allowed"] += int(allowed.sum())
        self._seen["refused"] += int((~allowed).sum())
        return allowed

    def update_state(self, batch_update: Any) -> None:
        if batch_update is not None and self._fault() == "no moves":
            batch_update = replace(batch_update, moved=[])
        super().update_state(batch_update)

    def apply(self, logits: Any, ctx: Any = None) -> Any:
        unmasked = mock.patch.object(self._mask, "_close")
        with unmasked if self._fault() == "no mask" else nullcontext():
            logits = super().apply(logits, ctx)
        (self._folder / "seen.json").write_text(json.dumps(self._seen))
        return logits

    def _fault(self) -> str:
        return (self._folder / "fault").read_text()
