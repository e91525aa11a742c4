"""The mask as vLLM's workers load it, by its path: `reviser.engines.vllm_plugin:ReviserMask`.

Every process of an engine imports this module, so it imports little. Its path is passed to vLLM,
never declared as a plugin of the environment: that would load it into every other model's engine
too, and under the first runner vLLM 0.32 would show it -1 in place of the newest ids.

vLLM has two runners. It takes the second wherever Triton can be used, so on GPUs, and the first on
CPUs. The loader of each refuses a class that does not inherit its own `LogitsProcessor`.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from reviser.core.actions import ActionVocab
from reviser.engines import mask_args
from reviser.engines.vllm_state import BatchMask, SlotMask, check_config
from reviser.errors import ConfigError
from reviser.models import hub

try:
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as SlotLogitsProcessor
except ImportError:  # before 0.32 vLLM takes the first runner where there are processors
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
        """Refuse a request, with HTTP status 400, before it reaches a worker.

        An error in a worker would end the engine for everybody. vLLM shows the parameters here, not
        the prompt.
        """
        mask_args.check(sampling_params.extra_args or {})
        # A grammar would close STOP, which the mask opens where nothing else is left. A budget
        # is applied after all processors and overrides them.
        if sampling_params.structured_outputs is not None:
            raise ConfigError("Structured outputs do not work with actions: leave them out.")
        if sampling_params.thinking_token_budget is not None:
            raise ConfigError("A thinking budget overrides the mask: leave it out.")

    def is_argmax_invariant(self) -> bool:
        """Return False; otherwise vLLM would leave the mask out for greedy requests."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Remove, add and move requests, in the order that vLLM prescribes.

        With asynchronous scheduling the newest ids are not known yet; `apply` reads them.
        """
        mask = self._mask
        assert isinstance(mask, BatchMask)
        if batch_update is None:  # the same batch as in the step before
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
        return True  # `apply` changes the logits of this request

    def apply(self, logits: torch.Tensor, ctx: Any = None) -> torch.Tensor:
        """Mask what may not come next; the second runner passes the layout of its rows."""
        if isinstance(self._mask, SlotMask):
            self._mask.apply(logits, ctx)
        else:
            self._mask.apply(logits)
        return logits
