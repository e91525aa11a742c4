"""A chat server as an engine: it is asked over HTTP, as OpenAI's API is.

vLLM, llama.cpp, Ollama and hosted services answer so.
"""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass
from math import isfinite
from typing import Any

from reviser.engines.base import Answer
from reviser.engines.remote import Remote
from reviser.errors import ConfigError, EngineError, MissingExtra, reason_of

KEYS = ("REVISER_API_KEY", "OPENAI_API_KEY")
"""Environment variables that may hold the key of a server; the first one that is set counts."""
CONNECT_SECONDS = 10.0
"""How long a server may take to accept a connection."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds before a request is sent again; they double from the first to the longest."""
_PASSING = (408, 409, 425, 429)
"""Statuses below 500 after which a request is sent again."""
_FOR_ALL = (401, 403, 404)
"""Statuses that every request to this server would get."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A question for a chat model; its answer is a `Reply`."""

    system: str
    user: str
    schema: dict[str, Any]
    """The JSON schema of the reply, which a server may enforce."""
    max_tokens: int


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a chat model wrote."""

    text: str = ""
    failure: str = ""
    """Why there is no whole reply, in a sentence; empty if there is one."""
    tokens_read: int = 0
    tokens_written: int = 0


class ChatServer(Remote):
    """An engine that answers `Ask` and no other question; `reviser.Editor` has its options."""

    vocab = None
    context = 0

    def __init__(
        self, url: str, model: str, *, parallel: int, timeout: float, retries: int,
        settings: dict[str, Any],
    ) -> None:  # fmt: skip
        try:
            import httpx2
        except ModuleNotFoundError as error:
            raise MissingExtra(
                "Edits by a chat model need the chat extra: httpx2 is not installed. Install it"
                " with: pip install 'reviser-lm[chat]'."
            ) from error
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"The url is {url!r}; it must begin with http:// or https://.")
        self._httpx = httpx2
        self.url = url.rstrip("/")
        self.versions = {"httpx2": httpx2.__version__}
        self._settings = {"model": model, "temperature": 0, **settings}
        self._retries = retries
        self._has_schema = True
        self._key = next((key for name in KEYS if (key := os.environ.get(name))), "")
        self._http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS), pool=None),
            limits=httpx2.Limits(max_connections=parallel),
            verify=self.url.startswith("https"),  # reading the certificates takes a while
        )
        self._slots = asyncio.Semaphore(parallel)
        super().__init__()

    def add(self, question: Any) -> int:
        """Send a question as soon as few enough are under way; return its number."""
        return self.ask(lambda number: self._answer(number, question))

    def close(self) -> None:
        """Drop all questions and close the connections."""
        self.end(self._http.aclose())

    async def _answer(self, number: int, ask: Ask) -> None:
        """Put the reply to a question into the queue, or an error that all questions would get."""
        value: Any
        try:
            async with self._slots:
                value = await self._reply(ask)
        except Exception as error:  # noqa: BLE001 - whatever it is, it fails this question
            value = error if isinstance(error, EngineError) else EngineError(reason_of(error))
        self.answers.put(Answer(number, value))

    async def _reply(self, ask: Ask) -> Reply:
        """Send a request, again if it fails for the moment, and return what came of it."""
        reason, pause = "", FIRST_PAUSE
        for attempt in range(self._retries + 1):
            if attempt:
                await asyncio.sleep(min(pause, LONGEST_PAUSE) * random.uniform(0.75, 1))
                pause *= 2
            try:
                url = f"{self.url}/chat/completions"
                response = await self._http.post(url, json=self._body(ask))
            except self._httpx.ConnectError as error:
                reason = f"There is no server at {self.url}: {reason_of(error).rstrip('.')}."
                continue
            except self._httpx.TransportError as error:
                reason = f"The server at {self.url} did not answer: {type(error).__name__}."
                continue
            if response.is_success:
                return _reply_of(response)
            status, text = response.status_code, " ".join(response.text.split())[:200]
            text = text.replace(self._key, "***") if self._key else text
            reason = f"The server at {self.url} refused with status {status}: {text}."
            if status in (400, 422) and self._has_schema and "response_format" in text:
                self._has_schema = False  # a server that knows no schemas
                return await self._reply(ask)
            if status in _FOR_ALL:
                advice = "" if status == 404 else f" Is its key in {KEYS[0]}?"
                raise EngineError(reason + advice)
            if status not in _PASSING and status < 500:
                return Reply(failure=reason)
            pause = max(pause, _seconds(response.headers.get("retry-after", "")))
        if reason.startswith("There is no server"):
            raise EngineError(f"{reason} Is it running?")
        return Reply(failure=reason)

    def _body(self, ask: Ask) -> dict[str, Any]:
        """Return a question as servers read it."""
        schema = {"name": "edits", "strict": True, "schema": ask.schema}
        messages = {"system": ask.system, "user": ask.user}
        body = {
            "messages": [{"role": role, "content": text} for role, text in messages.items()],
            "max_tokens": ask.max_tokens,
            "response_format": {"type": "json_schema", "json_schema": schema},
            **self._settings,
        }
        if not self._has_schema:
            body["response_format"] = None
        return {name: value for name, value in body.items() if value is not None}


def _seconds(text: str) -> float:
    """Return the seconds of a Retry-After header; 0 for a date, or for anything else."""
    try:
        return found if isfinite(found := float(text)) else 0.0
    except ValueError:
        return 0.0


def _reply_of(response: Any) -> Reply:
    """Return the reply in a server's response, which may be anything."""
    try:
        values = response.json()
        choice, usage = values["choices"][0], values.get("usage") or {}
        text, is_cut = choice["message"]["content"], choice.get("finish_reason") == "length"
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return Reply(failure="The response of the server is not a chat completion.")
    read, written = (each if type(each) is int else 0 for each in counts)
    failure = "The answer was cut off by the limit of tokens." if is_cut else ""
    if not isinstance(text, str):
        text, failure = "", failure or "The model gave no answer."
    return Reply(text=text, failure=failure, tokens_read=read, tokens_written=written)
