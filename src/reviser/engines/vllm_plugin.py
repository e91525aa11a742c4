"""The mask as vLLM's workers load it, by its path: `reviser.engines.vllm_plugin:ReviserMask`.

Every process of an engine imports this module, so it imports little. Its path is passed to vLLM,
never declared as a plugin of the environment: that would load it into every other model's engine
too.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from reviser.core.actions import ActionVocab
from reviser.engines import wire
from reviser.engines.vllm_state import BatchMask, SlotMask, check_config
from reviser.errors import ConfigError
from reviser.models import hub

try:
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as SlotLogitsProcessor
except ImportError:  # this vLLM has no processors for its second runner, so it uses the first
    SlotLogitsProcessor = object


class ReviserMask(LogitsProcessor, SlotLogitsProcessor):
    """The mask under either of vLLM's model runners, each of which needs a class of its own."""

    def __init__(
        self, vllm_config: Any, device_or_states: Any, is_pin_memory: bool | None = None
    ) -> None:
        model = vllm_config.model_config
        vocab = ActionVocab.load(hub.find(model.model, hub.CONFIG_FILES, revision=model.revision))
        check_config(vllm_config, vocab)
        self._mask: BatchMask | SlotMask
        # The first runner passes a device, the second its request states and no third argument.
        self._mask = (
            BatchMask(vocab, device_or_states)
            if is_pin_memory is not None
            else SlotMask(vocab, device_or_states)
        )

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request, with HTTP status 400, before it reaches a worker."""
        wire.check(sampling_params.extra_args or {})
        if sampling_params.structured_outputs is not None:
            raise ConfigError("Structured outputs do not work with actions: leave them out.")
        if sampling_params.thinking_token_budget is not None:
            raise ConfigError("A thinking budget overrides the mask: leave it out.")

    def is_argmax_invariant(self) -> bool:
        """Return False: the mask matters under greedy decoding too."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Remove, add and move requests, in this order; `apply` reads their newest ids."""
        mask = self._mask
        assert isinstance(mask, BatchMask)
        if batch_update is None:
            return
        for index in batch_update.removed:
            mask.remove(index)
        for index, params, prompt_ids, output_ids in batch_update.added:
            mask.add(index, params.extra_args, prompt_ids, output_ids)
        for source, goal, direction in batch_update.moved:
            mask.move(source, goal, swap=direction is MoveDirectionality.SWAP)

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Add a request to a slot of the second runner."""
        assert isinstance(self._mask, SlotMask)
        self._mask.add(req_idx, sampling_params.extra_args)
        return True

    def apply(self, logits: torch.Tensor, ctx: Any = None) -> torch.Tensor:
        """Mask what may not come next; the second runner passes the layout of its rows."""
        if isinstance(self._mask, SlotMask):
            self._mask.apply(logits, ctx)
        else:
            self._mask.apply(logits)
        return logits
