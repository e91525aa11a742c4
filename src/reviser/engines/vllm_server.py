"""A running vLLM server as an engine, asked over HTTP; it must run the mask (`vllm_plugin`).

This module imports httpx2 only when a server is opened, and never vllm or torch.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from reviser.core.actions import ActionVocab, Kind
from reviser.engines import vllm_requests, wire
from reviser.engines.base import Request, Step, failed_step
from reviser.engines.vllm_requests import PROCESSOR, Running
from reviser.errors import ConfigError, EngineError, MissingExtra, ReviserError
from reviser.models import hub

_INVALID = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""Errors of code that reads a response which is not vLLM's."""


class VLLMServer:
    """A client of a running vLLM server, which must run the mask.

    `timeout` is the number of seconds that the server may send nothing. The key, if the server
    needs one, is read from the environment variable VLLM_API_KEY unless it is passed.
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
        except ReviserError:
            raise
        except _INVALID as error:
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
        """Open the server at `url`; `name` is the model it serves, without its weights."""
        folder = hub.find(name, hub.CONFIG_FILES)
        vocab = ActionVocab.load(folder)
        hub.refuse_canvas_trunk(folder)
        try:
            return cls(url, vocab, **options), folder
        except TypeError as error:
            raise ConfigError(f"A vLLM server does not accept these options: {error}.") from error

    @property
    def versions(self) -> dict[str, str]:
        """Versions of what runs here, for provenance."""
        return vllm_requests.versions("reviser-lm", "httpx2")

    def check(self, request: Request) -> None:
        """Raise ConfigError for a request that this server cannot run."""
        request.check(self.vocab, self._context)
        wire.check(wire.write(request))

    def add(self, request: Request) -> int:
        """Check a request and send it; return its number."""
        self.check(request)
        self._added += 1
        number = self._added
        follow = self._follow(number, Running(request, self._context))
        future = asyncio.run_coroutine_threadsafe(follow, self._loop)
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
        """Drop all requests and close the connections."""
        for number in list(self._running):
            self.cancel(number)
        asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _follow(self, number: int, running: Running) -> None:
        """Put one request's actions into the queue as they come."""
        request = running.request
        asked = {
            **vllm_requests.sampling(request, self.vocab, self._context),
            "model": self._model,
            "prompt": list(request.history),
            "vllm_xargs": wire.write(request),
            # vLLM does not stream the log-probabilities of a prompt.
            "stream": not request.with_reading,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,  # log-probabilities need no tokenizer there
        }
        url = f"{self._url}/v1/completions"
        async with self._client.stream("POST", url, json=asked) as response:
            if response.status_code != 200:
                raise self._refused(await response.aread())
            if request.with_reading:
                (choice,) = json.loads(await response.aread())["choices"]
                tables = choice["prompt_logprobs"][1:]
                stops = [table.get(str(self.vocab.stop)) for table in tables]
                steps = self._taken(number, running, choice)
                following = zip(tables, request.history[1:], strict=True)
                for step in vllm_requests.with_reading(
                    steps,
                    (entry and entry["logprob"] for entry in stops),
                    (table[str(action)]["logprob"] for table, action in following),
                ):
                    self._steps.put(step)
                return
            async for event in self._httpx.EventSource(response):
                if event.data == "[DONE]":
                    break
                chunk = json.loads(event.data)
                if "error" in chunk:
                    raise self._refused(event.data.encode())
                for choice in chunk["choices"]:
                    for step in self._taken(number, running, choice):
                        self._steps.put(step)
                        if step.is_last:
                            return
        raise EngineError(f"The server at {self._url} ended a request early.")

    def _taken(self, number: int, running: Running, choice: dict[str, Any]) -> list[Step]:
        logprobs = (choice["logprobs"] or {}).get("token_logprobs") or ()
        taken = zip(choice["token_ids"], logprobs, strict=True)
        return [running.take(number, action, each, self.vocab) for action, each in taken]

    def _finish(self, number: int, done: Future[None]) -> None:
        """Pass a failure on to `step`, which waits."""
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self._steps.put(failed_step(number, self._failed(error)))

    # -- the server itself --------------------------------------------------------------------

    def _served(self, model: str | None) -> tuple[str, int]:
        """Return the name and the context length of the model that is served."""
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
        # After the mask, the logits of everything but STOP are -inf, which is sent as -9999.
        if sorted(choice["logprobs"]["top_logprobs"][0].values())[-2] < -9000:
            raise ConfigError(
                f"The server at {self._url} gives log-probabilities after the mask, not the"
                " model's own: start it with --logprobs-mode raw_logprobs."
            )

    def _ask(self, method: str, path: str, asked: dict[str, Any] | None = None) -> Any:
        try:
            with self._httpx.Client(**self._options) as client:
                answer = client.request(method, self._url + path, json=asked)
                if answer.status_code != 200:
                    raise self._refused(answer.content)
                return answer.json()
        except (self._httpx.HTTPError, self._httpx.InvalidURL, RecursionError, ValueError) as error:
            raise self._failed(error) from error

    def _refused(self, body: bytes) -> EngineError:
        try:
            answer = json.loads(body)
            reason = str(answer["error"]["message"])
        except _INVALID:
            reason = body.decode("utf-8", "replace")[:200]
        return EngineError(f"The server at {self._url} refused: {reason}")

    def _failed(self, error: BaseException) -> EngineError:
        if isinstance(error, EngineError):
            return error
        reason = str(error) or type(error).__name__
        if isinstance(error, self._httpx.ConnectError):
            return EngineError(f"There is no server at {self._url}: {reason}. Is it running?")
        return EngineError(f"The server at {self._url} does not answer as vLLM does: {reason}")


def _httpx() -> Any:
    try:
        import httpx2
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "Using a vLLM server needs httpx2. Install it with: pip install httpx2."
        ) from error
    return httpx2
