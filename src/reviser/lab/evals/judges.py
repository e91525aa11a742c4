"""Judges of the arena: a local causal LM, an endpoint with OpenAI's API, or a file of verdicts.

Each answers `arena`'s questions and knows nothing of systems. Only the judge that holds a model
imports torch, and only when it is opened.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reviser.errors import ConfigError, DataError, EngineError, MissingExtra
from reviser.files import write_whole
from reviser.lab.evals.arena import Judge, Order, Question, pair_up, questions_of, read_verdict
from reviser.lab.evals.texts import Sample
from reviser.models import hub

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
"""The layout and verdicts of the Skywork critics, in our own words.

To repeat the paper's arena exactly, give the text of the model card as `template`.
"""

KEY = "REVISER_JUDGE_KEY"
"""Name of the environment variable that holds the key of an endpoint."""

_FIELDS = ("{prompt}", "{a}", "{b}")
_PASSING = (408, 409, 425, 429)
"""Status codes below 500 after which a retry makes sense."""
_LONGEST_WAIT = 60.0
_PLACE = "REVISER-QUESTION"


@dataclass(frozen=True, kw_only=True)
class JudgeConfig:
    """The choice of a judge: a local or hub model, a model behind a URL, or a file of verdicts."""

    model: str | None = None
    """Folder or hub name of the model; with `url`, its name at the endpoint."""
    url: str | None = None
    """URL of an endpoint with OpenAI's API, up to /v1."""
    verdicts: str | None = None
    """File of verdicts, used instead of a model."""
    template: str | None = None
    """File with the wording of the question around {prompt}, {a} and {b}."""
    order: Order = "both"
    """Show each pair in `both` orders, or in one `random` order as in the paper."""

    def __post_init__(self) -> None:
        if (self.model is None) == (self.verdicts is None):
            raise ConfigError("A judge is a model, which may have a url, or a file of verdicts.")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ConfigError(
                f"The judge's url is {self.url!r}; it must begin with http:// or https://."
            )


def check_judge(config: JudgeConfig) -> None:
    """Raise an error for a judge that cannot be opened, without opening a model."""
    if config.verdicts is not None:
        FileJudge(Path(config.verdicts))
    elif config.url is None:
        hub.find(config.model or "")
    _checked(_template(config))


def _template(config: JudgeConfig) -> str:
    if config.template is None:
        return TEMPLATE
    try:
        return Path(config.template).read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"Cannot read {config.template!r}: {error}.") from error


def open_judge(config: JudgeConfig, device: str = "cpu") -> Judge:
    """Open the judge that the config chooses; the key of a URL is read from the environment."""
    if config.verdicts is not None:
        return FileJudge(Path(config.verdicts))
    assert config.model is not None
    template = _template(config)
    if config.url is None:
        return LocalJudge(config.model, template=template, device=device)
    return EndpointJudge(config.url, config.model, key=os.environ.get(KEY), template=template)


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
        template: str = TEMPLATE,
        max_tokens: int = 1024,
        parallel: int = 4,
        attempts: int = 6,
        patience: float = 1.0,
        timeout: float = 120.0,
    ) -> None:
        if min(parallel, attempts, max_tokens) < 1:
            raise ConfigError("parallel, attempts and max_tokens must be 1 or more.")
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._template = _checked(template)
        self._parallel = parallel
        self._attempts = attempts
        self._patience = patience
        self._timeout = timeout
        self._settings = {"model": model, "temperature": 0, "max_tokens": max_tokens}
        self.about = {"judge": "endpoint", "url": self._url, **self._settings, "template": template}

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
        client = httpx2.Client(headers=self._headers, timeout=self._timeout)
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

        message = {"role": "user", "content": _filled(self._template, question)}
        body = self._settings | {"messages": [message]}
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


def _content(response: Any) -> str:
    try:
        content = response.json()["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError) as error:
        raise EngineError(
            f"The judge's reply is not a chat completion: {response.text[:200]!r}."
        ) from error
    return content if isinstance(content, str) else ""  # null if the model declines


class LocalJudge:
    """A causal LM that replies greedily, asked through its chat template if it has one."""

    def __init__(
        self,
        name: str | Path,
        *,
        template: str = TEMPLATE,
        max_tokens: int = 32,
        rows: int = 8,
        device: str = "cpu",
        **options: Any,
    ) -> None:
        try:
            from transformers import AutoTokenizer

            from reviser.models import trunks
        except ModuleNotFoundError as error:
            raise MissingExtra(
                f"A local judge needs the eval extra: {error.name} is not installed. Install"
                " it with: pip install 'reviser-lm[eval]'."
            ) from error
        folder = trunks.find(name)
        self._model: Any = trunks.load_base(folder, **options)[0].to(device).eval()  # type: ignore[arg-type]
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        self._template = _checked(template)
        self._max_tokens = max_tokens
        self._rows = rows
        self.about = {
            "judge": "local",
            "model": str(name),
            **hub.identity(folder),
            "dtype": str(self._model.dtype).removeprefix("torch."),
            "max_tokens": max_tokens,
            "template": template,
        }

    def replies(self, questions: Sequence[Question]) -> Iterator[tuple[Question, str]]:
        """Ask questions in batches, the shortest first."""
        prompts = sorted(((self._encoded(q), q) for q in questions), key=lambda each: len(each[0]))
        for start in range(0, len(prompts), self._rows):
            batch = prompts[start : start + self._rows]
            replies = self._generated([tokens for tokens, _ in batch])
            yield from zip([question for _, question in batch], replies, strict=True)

    def _encoded(self, question: Question) -> list[int]:
        """Return the token ids of a question, in which no text is read as a control token."""
        before, after = "", ""
        if self._tokenizer.chat_template:
            message = {"role": "user", "content": _PLACE}
            chat = self._tokenizer.apply_chat_template(
                [message], tokenize=False, add_generation_prompt=True
            )
            before, _, after = chat.partition(_PLACE)
        parts = [(before, False), (_filled(self._template, question), True), (after, False)]
        tokens = [
            token
            for text, is_said in parts
            for token in self._tokenizer.encode(
                text, add_special_tokens=False, split_special_tokens=is_said
            )
        ]
        context = getattr(self._model.config, "max_position_embeddings", None)
        if context is not None and len(tokens) + self._max_tokens > context:
            raise DataError(
                f"A question has {len(tokens)} tokens, and {self._max_tokens} are kept for the"
                f" reply, but this judge reads {context}. Use shorter texts or another judge."
            )
        return tokens

    def _generated(self, prompts: Sequence[list[int]]) -> list[str]:
        import torch

        longest = max(map(len, prompts))
        tokens_BT = torch.zeros((len(prompts), longest), dtype=torch.long)
        mask_BT = torch.zeros_like(tokens_BT)
        for n, prompt in enumerate(prompts):
            tokens_BT[n, longest - len(prompt) :] = torch.tensor(prompt)
            mask_BT[n, longest - len(prompt) :] = 1
        config = self._model.generation_config
        end = config.eos_token_id
        pad = config.pad_token_id if config.pad_token_id is not None else 0
        written_BT = self._model.generate(
            tokens_BT.to(self._model.device),
            attention_mask=mask_BT.to(self._model.device),
            max_new_tokens=self._max_tokens,
            do_sample=False,
            temperature=None,
            top_k=None,
            top_p=None,
            pad_token_id=pad,
            eos_token_id=end,
        )
        rows = written_BT[:, longest:].tolist()
        return [self._tokenizer.decode(row, skip_special_tokens=True) for row in rows]


class FileJudge:
    """Verdicts that people wrote down: lines with the `key` of a question and a `verdict`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._verdicts: dict[str, str] = {}
        try:
            content = path.read_text("utf-8")
        except (OSError, UnicodeError) as error:
            raise DataError(f"Cannot read {str(path)!r}: {error}.") from error
        open_lines = 0
        for n, line in enumerate(content.removesuffix("\n").split("\n"), start=1):
            try:
                record = json.loads(line)
                key = str(record["key"])
                if "verdict" not in record:
                    open_lines += 1
                    continue
                verdict = f"[[{record['verdict']}]]"
            except (ValueError, LookupError, TypeError) as error:
                raise DataError(
                    f"Line {n} of {str(path)!r} must be an object with a 'key' and a 'verdict'."
                ) from error
            if read_verdict(verdict) == "invalid":
                raise DataError(
                    f"Line {n} of {str(path)!r} has the verdict {record['verdict']!r}; use 'A', 'B'"
                    " or 'tie'."
                )
            if self._verdicts.setdefault(key, verdict) != verdict:
                raise DataError(f"Line {n} of {str(path)!r} contradicts an earlier one.")
        if open_lines:
            raise DataError(f"{open_lines} lines of {str(path)!r} have no verdict yet.")
        digest = hashlib.sha256(content.encode()).hexdigest()
        self.about: dict[str, Any] = {"judge": "file", "path": str(path), "content": digest}

    def replies(self, questions: Sequence[Question]) -> Iterator[tuple[Question, str]]:
        """Yield the verdicts of the file, which must hold every question."""
        missing = sum(question.key not in self._verdicts for question in questions)
        if missing:
            raise DataError(
                f"{str(self._path)!r} lacks a verdict for {missing} of {len(questions)} questions."
            )
        for question in questions:
            yield question, self._verdicts[question.key]


def write_questions(path: Path, systems: Mapping[str, Sequence[Sample]], order: Order) -> int:
    """Write a file of questions for people to add a `verdict` to; return how many there are.

    The first system meets each of the others. The file does not say which system wrote which text.
    """
    ours, *others = systems.values()
    if not others:
        raise DataError("An arena needs two systems or more.")
    if path.exists():
        raise ConfigError(f"{str(path)!r} already exists: delete it or name another.")
    unique = {
        question.key: question
        for theirs in others
        for each in questions_of(pair_up(ours, theirs), order=order)
        for question, _ in each
    }
    lines = [{"key": key, **vars(question)} for key, question in sorted(unique.items())]
    write_whole(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return len(lines)


def _checked(template: str) -> str:
    if any(template.count(field) != 1 for field in _FIELDS):
        raise ConfigError(f"A judge's template must hold each of {', '.join(_FIELDS)} once.")
    return template


def _filled(template: str, question: Question) -> str:
    """Fill the template in one pass, so that a text which contains `{a}` is not replaced again."""
    return re.sub(r"\{(prompt|a|b)\}", lambda field: str(getattr(question, field[1])), template)
