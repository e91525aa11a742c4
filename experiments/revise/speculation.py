"""A twin on vLLM without the mask, so that vLLM's n-gram speculation can run with it.

vLLM refuses a logits processor beside speculation. A twin that only writes needs none: inserts and
STOP are allowed, in the request's own terms. `forwards` counts what speculation takes without vLLM,
if it is known what is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reviser import Codec
from reviser.core.actions import ActionVocab, Kind
from reviser.engines.base import Request, Step
from reviser.engines.vllm import VLLMEngine, _Running, _sampling
from reviser.generate import Reviser

SMALL = {"dtype": "float32", "enforce_eager": True, "max_num_seqs": 64}
"""Of every engine here. Compiling takes minutes, and the models are small."""
LOOKUP: dict[str, Any] = {
    "method": "ngram",
    "prompt_lookup_min": 2,
    "prompt_lookup_max": 4,
    "num_speculative_tokens": 16,
}
"""Many at a time, since most of a text is copied."""


class Bare(VLLMEngine):
    """Writes, and counts what the model was asked to: a forward may give several tokens."""

    forwards = 0

    @classmethod
    def open(cls, folder: Path, ahead: dict[str, Any] | None = None) -> Reviser:
        """A twin, with speculation if its settings are given."""
        from vllm import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        options: dict[str, Any] = {"skip_tokenizer_init": True, "load_format": "safetensors"}
        options |= {"disable_log_stats": True, "speculative_config": ahead, **SMALL}
        config = EngineArgs(model=str(folder), **options).create_engine_config()
        engine = LLMEngine.from_vllm_config(config, disable_log_stats=True)
        return Reviser(cls(engine, ActionVocab.load(folder)), Codec.load(folder))

    def add(self, request: Request) -> int:
        """Take in a request to write on behind a prefix."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        written = np.flatnonzero(self.vocab.kinds == Kind.INSERT).tolist()
        params = SamplingParams(
            **_sampling(request, self.vocab, self._context),
            allowed_token_ids=[*written, self.vocab.stop],
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        self._added += 1
        name = f"reviser-{self._added}"
        prompt = {"type": "token", "prompt_token_ids": list(request.history)}
        self._engine.add_request(name, prompt, params)
        self._running[name] = _Running(request, self._context)
        self._names[self._added] = name
        return self._added

    def _steps(self, output: Any) -> list[Step]:
        self.forwards += bool(output.outputs[0].token_ids)
        return super()._steps(output)


def forwards(read: Sequence[int], written: Sequence[int]) -> int:
    """How often a greedy model is asked that reads and writes this, by vLLM's rule.

    Each time it gives one token, and before it those that were guessed rightly: what stood behind
    the earliest of the longest n-grams like the last one.

    >>> forwards([1, 2, 3, 4, 5, 6, 0], [1, 2, 3, 4, 5, 6])
    3
    """
    known, at, count = [*read], 0, 0
    while at < len(written):
        guess = _guess(known) if count else []
        same = [a == b for a, b in zip(guess, written[at:], strict=False)]
        right = same.index(False) if False in same else len(same)
        known += written[at : at + right + 1]
        at, count = at + right + 1, count + 1
    return count


def _guess(known: list[int]) -> list[int]:
    least, most, ahead = (
        LOOKUP[name]
        for name in ("prompt_lookup_min", "prompt_lookup_max", "num_speculative_tokens")
    )
    for n in range(most, least - 1, -1):
        for place in range(len(known) - n):
            if known[place : place + n] == known[-n:]:
                return known[place + n : place + n + ahead]
    return []


def busy() -> float:
    """Seconds of the processor that this process and vLLM's have used."""
    import psutil

    own = psutil.Process()
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)
