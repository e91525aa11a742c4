"""Running vLLM servers as an engine, asked over HTTP; they must run the mask (`vllm_plugin`).

This module imports httpx2 only when a server is opened, and never vllm or torch.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from reviser.core.actions import ActionVocab, Kind
from reviser.engines import vllm_requests, wire
from reviser.engines.base import Request, Step, failed_step
from reviser.engines.vllm_pods import Pod, Pods
from reviser.engines.vllm_requests import PROCESSOR, Running
from reviser.errors import ConfigError, EngineError, MissingExtra, ReviserError
from reviser.models import hub

_INVALID = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""Errors of code that reads a response which is not vLLM's."""

CONNECT_SECONDS = 10.0
"""How long a server may take to accept a connection."""
CHECK_SECONDS = 120.0
"""How long a server may take to answer while it is checked."""

log = logging.getLogger("reviser.engines")


class _Lost(EngineError):
    """A request that a server did not finish; another server may."""


class _NotSent(_Lost):
    """A request that no server has seen."""


class VLLMServer:
    """A client of one or more running vLLM servers, which must run the mask and the same model.

    A request goes to the server with the fewest requests. One that fails gets none for a while, and
    is checked before it gets requests again. A request that was lost with a server is sent once to
    another, unless some of its actions have been seen; then it fails, alone.

    `timeout` is the number of seconds that a server may send nothing. The key, if the servers
    need one, is read from the environment variable VLLM_API_KEY unless it is passed.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        vocab: ActionVocab,
        *,
        model: str | None = None,
        api_key: str | None = None,
        timeout: float = 600.0,
    ) -> None:
        self.vocab = vocab
        urls = [url] if isinstance(url, str) else url
        self._pods = Pods([each.rstrip("/").removesuffix("/v1") for each in urls])
        self._asked_model = model
        self._httpx = _httpx()
        api_key = api_key or os.environ.get("VLLM_API_KEY")
        connect = min(timeout, CONNECT_SECONDS)
        self._check_timeout = self._httpx.Timeout(min(timeout, CHECK_SECONDS), connect=connect)
        self._options: dict[str, Any] = {
            "timeout": self._httpx.Timeout(timeout, connect=connect),
            "limits": self._httpx.Limits(max_connections=None),
            "headers": {"Authorization": f"Bearer {api_key}"} if api_key else {},
        }
        self._context = self._open_all()
        self._steps: SimpleQueue[Step] = SimpleQueue()
        self._running: dict[int, Future[None]] = {}
        self._added = 0
        self._loop = asyncio.new_event_loop()
        self._client = self._httpx.AsyncClient(**self._options)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    @classmethod
    def load(
        cls, name: str | Path, /, *, url: str | Sequence[str], **options: Any
    ) -> tuple[VLLMServer, Path]:
        """Open the servers at `url`; `name` is the model they serve, without its weights."""
        folder = hub.find(name, hub.CONFIG_FILES)
        vocab = ActionVocab.load(folder)
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
        follow = self._follow(number, request)
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

    async def _follow(self, number: int, request: Request) -> None:
        """Run one request, on another server if the first one fails before any action came."""
        tried: list[Pod] = []
        lost = 0
        failure = EngineError("There is no server.")
        while (pod := self._pods.choose(tried)) is not None:
            running = Running(request, self._context)
            try:
                with self._pods.counted(pod):
                    await self._check(pod)
                    await self._run(pod, number, running)
                return
            except (self._httpx.HTTPError, EngineError) as error:
                failure = self._failed(error, pod.url)
                if isinstance(error, EngineError) and not isinstance(error, _Lost):
                    raise  # the server works, and refuses this request
                self._pods.leave_out(pod)
                log.warning("left out", extra={"facts": {"url": pod.url, "reason": str(failure)}})
                # A request that reached two servers, and both failed, might break a third.
                lost += not isinstance(failure, _NotSent)
                if running.actions or lost > 1:
                    raise failure from error
            except _INVALID as error:
                raise self._failed(error, pod.url) from error
            tried.append(pod)
        raise failure

    async def _check(self, pod: Pod) -> None:
        """Check a server that is new or has failed, before it gets requests."""
        failures = pod.failures
        async with pod.checking:
            if pod.failures > failures:  # another request has found out
                raise _NotSent(f"The server at {pod.url} has failed.")
            if not pod.model:
                try:
                    context = await asyncio.to_thread(self._open, pod)
                except ReviserError as error:
                    raise _NotSent(str(error)) from error
                if context < self._context:
                    pod.model = ""
                    raise _NotSent(
                        f"The server at {pod.url} has a context of {context} ids now; it had"
                        f" {self._context}."
                    )

    async def _run(self, pod: Pod, number: int, running: Running) -> None:
        """Put one request's actions into the queue as they come."""
        request = running.request
        asked = {
            **vllm_requests.sampling(request, self.vocab, self._context),
            "model": pod.model,
            "prompt": list(request.history),
            "vllm_xargs": wire.write(request),
            # vLLM does not stream the log-probabilities of a prompt.
            "stream": not request.with_reading,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,  # log-probabilities need no tokenizer there
        }
        url = f"{pod.url}/v1/completions"
        async with self._client.stream("POST", url, json=asked) as response:
            if response.status_code != 200:
                kind = _Lost if response.status_code >= 500 else EngineError
                raise kind(_refusal(pod.url, await response.aread()))
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
                    raise _Lost(_refusal(pod.url, event.data.encode()))
                for choice in chunk["choices"]:
                    for step in self._taken(number, running, choice):
                        self._steps.put(step)
                        if step.is_last:
                            return
        raise _Lost(f"The server at {pod.url} ended a request early.")

    def _taken(self, number: int, running: Running, choice: dict[str, Any]) -> list[Step]:
        logprobs = (choice["logprobs"] or {}).get("token_logprobs") or ()
        taken = zip(choice["token_ids"], logprobs, strict=True)
        return [running.take(number, action, each, self.vocab) for action, each in taken]

    def _finish(self, number: int, done: Future[None]) -> None:
        """Pass a failure on to `step`, which waits."""
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self._steps.put(failed_step(number, self._failed(error, self._pods.all[0].url)))

    # -- the servers themselves ---------------------------------------------------------------

    def _open_all(self) -> int:
        """Check all servers; return the smallest context. Those that are down are left out."""
        contexts: list[int] = []
        failure: EngineError | None = None
        for pod in self._pods.all:
            try:
                contexts.append(self._open(pod))
            except EngineError as error:
                if len(self._pods.all) == 1:
                    raise
                failure = error
                self._pods.leave_out(pod)
                log.warning("left out", extra={"facts": {"url": pod.url, "reason": str(error)}})
        if not contexts:
            raise failure or ConfigError("Name at least one url of a vLLM server.")
        return min(contexts)

    def _open(self, pod: Pod) -> int:
        """Check that a server runs the model and the mask; return its context."""
        try:
            name, context = self._served(pod)
            self._probe(pod, name)
        except ReviserError:
            raise
        except _INVALID as error:
            raise self._failed(error, pod.url) from error
        pod.model = name
        return context

    def _served(self, pod: Pod) -> tuple[str, int]:
        """Return the name and the context length of the model that is served."""
        cards = {card["id"]: card for card in self._ask(pod, "GET", "/v1/models")["data"]}
        name = self._asked_model or next(iter(cards), "")
        if name not in cards:
            raise ConfigError(f"The server has no model {name!r}; it has {', '.join(cards)}.")
        return name, int(cards[name]["max_model_len"])

    def _probe(self, pod: Pod, model: str) -> None:
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
        choice = self._ask(pod, "POST", "/v1/completions", asked)["choices"][0]
        if choice["token_ids"] != [vocab.stop]:
            raise ConfigError(
                f"The server at {pod.url} does not mask actions, or serves another model: start"
                f" it with --logits-processors {PROCESSOR}."
            )
        # After the mask, the logits of everything but STOP are -inf, which is sent as -9999.
        if sorted(choice["logprobs"]["top_logprobs"][0].values())[-2] < -9000:
            raise ConfigError(
                f"The server at {pod.url} gives log-probabilities after the mask, not the"
                " model's own: start it with --logprobs-mode raw_logprobs."
            )

    def _ask(self, pod: Pod, method: str, path: str, asked: dict[str, Any] | None = None) -> Any:
        try:
            options = self._options | {"timeout": self._check_timeout}
            with self._httpx.Client(**options) as client:
                answer = client.request(method, pod.url + path, json=asked)
                if answer.status_code != 200:
                    raise _Lost(_refusal(pod.url, answer.content))
                return answer.json()
        except (self._httpx.HTTPError, self._httpx.InvalidURL, RecursionError, ValueError) as error:
            raise self._failed(error, pod.url) from error

    def _failed(self, error: BaseException, url: str) -> EngineError:
        if isinstance(error, EngineError):
            return error
        reason = str(error) or type(error).__name__
        if isinstance(error, (self._httpx.ConnectError, self._httpx.ConnectTimeout)):
            return _NotSent(f"There is no server at {url}: {reason}. Is it running?")
        return _Lost(f"The server at {url} does not answer as vLLM does: {reason}")


def _refusal(url: str, body: bytes) -> str:
    try:
        answer = json.loads(body)
        reason = str(answer["error"]["message"])
    except _INVALID:
        reason = body.decode("utf-8", "replace")[:200]
    return f"The server at {url} refused: {reason}"


def _httpx() -> Any:
    try:
        import httpx2
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "Using a vLLM server needs httpx2. Install it with: pip install httpx2."
        ) from error
    return httpx2
