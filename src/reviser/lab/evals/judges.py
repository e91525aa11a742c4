"""The judge of the arena: a model behind an endpoint with OpenAI's API.

It answers `arena`'s questions and knows nothing of systems. `vllm serve` makes an endpoint of any
model, such as the paper's Skywork critic.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reviser.errors import ConfigError, EngineError, MissingExtra
from reviser.lab.evals.arena import Order, Question

if TYPE_CHECKING:
    import httpx2

TEMPLATE = """\
Judge fairly between two assistants that got the user question below, and choose the one whose \
answer serves the user better. Weigh how helpful, relevant, accurate, deep, creative and detailed \
the answers are. Neither which answer is shown first, nor how long it is, nor what an assistant is \
called may matter.
Reply with your verdict alone, in just this form: "[[A]]" if assistant A is better, "[[B]]" if \
assistant B is better.

[User Question]
{prompt}

[The Start of Assistant A's Answer]
{a}
[The End of Assistant A's Answer]

[The Start of Assistant B's Answer]
{b}
[The End of Assistant B's Answer]
"""
"""The layout and verdicts of the Skywork critics, in our own words."""

KEY = "REVISER_JUDGE_KEY"
"""Name of the environment variable that holds the key of an endpoint."""

_PASSING = (408, 409, 425, 429)
"""Status codes below 500 after which a retry makes sense."""
_LONGEST_WAIT = 60.0


@dataclass(frozen=True, kw_only=True)
class JudgeConfig:
    """The model that judges the arena."""

    model: str
    """Name of the model at the endpoint."""
    url: str
    """URL of an endpoint with OpenAI's API, up to /v1. `vllm serve MODEL` starts one."""
    order: Order = "both"
    """Show each pair in `both` orders, or in one `random` order as in the paper."""

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(
                f"The judge's url is {self.url!r}; it must begin with http:// or https://."
            )


def open_judge(config: JudgeConfig) -> EndpointJudge:
    """Return the judge that the config chooses; its key is read from the environment."""
    return EndpointJudge(config.url, config.model, key=os.environ.get(KEY))


class EndpointJudge:
    """A model behind `{url}/chat/completions`.

    A question that fails temporarily (no connection, 429, 5xx) is asked up to `attempts` times. The
    waits double from `patience` seconds, unless the server asks for a longer one.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: str | None = None,
        parallel: int = 4,
        attempts: int = 6,
        patience: float = 1.0,
    ) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._parallel = parallel
        self._attempts = attempts
        self._patience = patience
        self._settings = {"model": model, "temperature": 0, "max_tokens": 1024}
        self.about: dict[str, Any] = {"judge": "endpoint", "url": self._url, **self._settings}
        self.about["template"] = TEMPLATE

    def replies(self, questions: Sequence[Question]) -> Iterator[tuple[Question, str]]:
        """Ask several questions at a time; after a failure, yield the replies already under way."""
        try:
            import httpx2
        except ModuleNotFoundError as error:
            raise MissingExtra(
                "Asking a judge over HTTP needs httpx2. Install it with: pip install"
                " 'reviser-lm[eval]'."
            ) from error
        rest = iter(questions)
        running: dict[Future[str], Question] = {}
        failed: BaseException | None = None
        client = httpx2.Client(headers=self._headers, timeout=120.0)
        with client, ThreadPoolExecutor(self._parallel) as pool:
            while True:
                while failed is None and len(running) < self._parallel:
                    question = next(rest, None)
                    if question is None:
                        break
                    running[pool.submit(self._ask, client, question)] = question
                if not running:
                    break
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    question = running.pop(future)
                    failed = failed or future.exception()
                    if future.exception() is None:
                        yield question, future.result()
        if failed is not None:
            raise failed

    def _ask(self, client: httpx2.Client, question: Question) -> str:
        import httpx2

        body = self._settings | {"messages": [{"role": "user", "content": filled(question)}]}
        pause, reason = self._patience, ""
        for attempt in range(self._attempts):
            if attempt:
                time.sleep(min(pause, _LONGEST_WAIT))
                pause *= 2
            try:
                response = client.post(f"{self._url}/chat/completions", json=body)
            except httpx2.TransportError as error:
                reason = f"{type(error).__name__} {error}".strip(" .")
                continue
            if response.is_success:
                return _content(response)
            body_text = " ".join(response.text.split())[:200]
            reason = f"status {response.status_code} {body_text}".strip(" .")
            if response.status_code not in _PASSING and response.status_code < 500:
                advice = f" Is its key in {KEY}?" if response.status_code in (401, 403) else ""
                raise EngineError(
                    f"The judge at {self._url!r} refused a question: {reason}.{advice}"
                )
            asked_for = response.headers.get("retry-after", "")
            pause = max(pause, float(asked_for)) if asked_for.isdigit() else pause
        raise EngineError(
            f"The judge at {self._url!r} failed {self._attempts} times in a row, at last with"
            f" {reason}. Its replies are saved in the journal: start again to continue."
        )


def _content(response: httpx2.Response) -> str:
    try:
        content = response.json()["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError) as error:
        raise EngineError(
            f"The judge's reply is not a chat completion: {response.text[:200]!r}."
        ) from error
    return content if isinstance(content, str) else ""  # null if the model declines


def filled(question: Question) -> str:
    """Fill the template in one pass, so that a text which contains `{a}` is not replaced again."""
    return re.sub(r"\{(prompt|a|b)\}", lambda field: str(getattr(question, field[1])), TEMPLATE)
