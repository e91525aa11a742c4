"""A client of one vLLM server: what it says, or an error of one sentence.

A server is checked before it is used: it must run the model, and the mask on it. This module
imports httpx2 only when a client is made, and never vllm or torch.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from typing import Any

from reviser.core.actions import ActionVocab, Kind
from reviser.engines.base import Vocab
from reviser.engines.vllm_process import PROCESSOR
from reviser.errors import ConfigError, EngineError, MissingExtra, ReviserError

_INVALID = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""Errors of code that reads a response which is not vLLM's."""

CONNECT_SECONDS = 10.0
"""How long a server may take to accept a connection."""
CHECK_SECONDS = 120.0
"""How long a server may take to answer while it is checked."""
AS_IDS = {"return_token_ids": True, "return_tokens_as_token_ids": True}
"""Settings of a request by which the server needs no tokenizer."""
_COMPLETIONS = "/v1/completions"


class VLLMClient:
    """The connection to one server; all of it runs in one event loop.

    The key, if the server needs one, is read from the environment variable VLLM_API_KEY unless it
    is passed. `timeout` is the number of seconds that the server may send nothing.
    """

    def __init__(self, url: str, *, api_key: str | None, timeout: float) -> None:
        self._httpx = httpx = import_httpx()
        self.url = url.rstrip("/").removesuffix("/v1")
        api_key = api_key or os.environ.get("VLLM_API_KEY")
        self._check_seconds = min(timeout, CHECK_SECONDS)
        # Only connecting is tried again: what has been sent may have broken the server.
        limits = httpx.Limits(max_connections=None)
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(retries=1, limits=limits),
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            # A proxy of the environment would look for this server on its own machine.
            trust_env=not self.url.startswith("http://127.0.0.1:"),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def complete(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the choices of a request that is answered at once, in order."""
        choices: list[dict[str, Any]] = (await self._ask("POST", _COMPLETIONS, asked))["choices"]
        return sorted(choices, key=lambda choice: choice["index"])

    async def stream(self, asked: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the parts of a choice as they come."""
        asked = {**asked, "stream": True}
        async with self._http.stream("POST", self.url + _COMPLETIONS, json=asked) as response:
            if response.status_code != 200:
                raise EngineError(self._refusal(await response.aread()))
            async for event in self._httpx.EventSource(response):
                if event.data == "[DONE]":
                    break
                chunk = json.loads(event.data)
                if "error" in chunk:
                    raise EngineError(self._refusal(event.data.encode()))
                for choice in chunk["choices"]:
                    yield choice
        raise EngineError(f"The server at {self.url} ended a request early.")

    async def check(self, model: str | None, vocab: Vocab) -> tuple[str, int]:
        """Check that the server runs the model and the mask; return its name and context.

        A model that has no actions needs no mask.
        """
        try:
            answer = await self._ask("GET", "/v1/models", timeout=self._check_seconds)
            cards = {card["id"]: card for card in answer["data"]}
            name = model or next(iter(cards), "")
            if name not in cards:
                raise ConfigError(f"The server has no model {name!r}; it has {', '.join(cards)}.")
            context = int(cards[name]["max_model_len"])
            if isinstance(vocab, ActionVocab):
                await self._probe(name, vocab)
        except ReviserError:
            raise
        except (self._httpx.HTTPError, self._httpx.InvalidURL, *_INVALID) as error:
            raise self.error(error) from error
        return name, context

    def error(self, error: Exception) -> EngineError:
        """Return what a user should read about an error."""
        if isinstance(error, EngineError):
            return error
        reason = str(error) or type(error).__name__
        if isinstance(error, (self._httpx.ConnectError, self._httpx.ConnectTimeout)):
            return EngineError(f"There is no server at {self.url}: {reason}. Is it running?")
        return EngineError(f"The server at {self.url} does not answer as vLLM does: {reason}")

    async def _ask(
        self, method: str, path: str, asked: dict[str, Any] | None = None, **options: Any
    ) -> Any:
        response = await self._http.request(method, self.url + path, json=asked, **options)
        if response.status_code != 200:
            raise EngineError(self._refusal(response.content))
        return response.json()

    async def _probe(self, model: str, vocab: ActionVocab) -> None:
        """Refuse a server that does not mask.

        It is asked for a token where only STOP is allowed: with the mask STOP wins, without it
        nothing but the token can come.
        """
        token = int((vocab.kinds == Kind.INSERT).argmax())
        asked = {
            "model": model,
            "prompt": vocab.prefix_actions([token]),
            "allowed_token_ids": [token],
            "vllm_xargs": {"reviser_max_edits": 0},
            "temperature": 0.0,
            "max_tokens": 1,
            "logprobs": 2,
            **AS_IDS,
        }
        answer = await self._ask("POST", _COMPLETIONS, asked, timeout=self._check_seconds)
        choice = answer["choices"][0]
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

    def _refusal(self, body: bytes) -> str:
        try:
            reason = str(json.loads(body)["error"]["message"])
        except _INVALID:
            reason = body.decode("utf-8", "replace")[:200]
        return f"The server at {self.url} refused: {reason}"


def import_httpx() -> Any:
    """Return httpx2, or say how to install it."""
    try:
        import httpx2
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "Using a vLLM server needs httpx2. Install it with: pip install httpx2."
        ) from error
    return httpx2
