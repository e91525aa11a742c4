"""The editor: any chat model edits text, and writes only the sentences that change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from reviser.chat.flow import CONTEXT, WINDOW, Edited, edit
from reviser.engines.chat_server import ChatServer
from reviser.engines.settings import DecodeConfig
from reviser.errors import ConfigError
from reviser.markup import Choice, chosen_spans, format_of
from reviser.markup.sentences import UnitKind
from reviser.markup.spans import Span
from reviser.model import Reviser
from reviser.writing.driver import Flow, Run
from reviser.writing.flows import Progress, no_progress
from reviser.writing.prompts import Model
from reviser.writing.tasks import Revise, Task

__all__ = ["Editor"]

_ONLY_EDITS = "A chat model only edits drafts. Use another model to write."


class Editor(Reviser):
    """A chat model that edits text; `edit` runs one task, `run_many` and the like run any.

    The server speaks OpenAI's protocol, as vLLM, llama.cpp and Ollama do. A key is read from the
    environment variable REVISER_API_KEY, or else OPENAI_API_KEY.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        parallel: int = 8,
        timeout: float = 600.0,
        retries: int = 5,
        window: int = WINDOW,
        context: int = CONTEXT,
        **settings: Any,
    ) -> None:
        """Open a chat model on a server.

        Args:
            url: Address of the server, up to and including /v1.
            model: Name of the model on the server.
            parallel: Requests that are under way at a time, at most.
            timeout: Seconds in which the server must answer a request.
            retries: How often a request is sent again that failed for the moment.
            window: Characters of a draft that are edited with one request.
            context: Characters that are shown on either side of them.
            settings: Other fields of the requests, such as `seed`; None leaves a field out.
        """
        for name, value in {"parallel": parallel, "window": window}.items():
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name} is {value!r}; it must be a whole number, 1 or more.")
        for name, value in {"retries": retries, "context": context}.items():
            if type(value) is not int or value < 0:
                raise ConfigError(f"{name} is {value!r}; it must be a whole number, 0 or more.")
        if not timeout > 0:
            raise ConfigError(f"timeout is {timeout!r}; it must be a number of seconds above 0.")
        engine: Any = ChatServer(
            url, model, parallel=parallel, timeout=timeout, retries=retries, settings=settings
        )
        provenance = {"model": model, "engine": "chat", "versions": engine.versions}
        nothing: Any = None
        super().__init__(engine, nothing, provenance=provenance)
        self.window, self.context = window, context

    def edit(
        self,
        draft: str,
        instruction: str,
        *,
        lock: Sequence[str | Span] = (),
        markup: Choice = "none",
        name: str | PurePath | None = None,
        progress: Progress = no_progress,
    ) -> Edited:
        """Edit a draft as the instruction says, and leave the rest of it alone.

        Args:
            draft: The text to edit.
            instruction: What to change, in words.
            lock: Text that is never changed: texts wherever they occur, or spans of characters.
            markup: Format whose markup is never changed; `auto` goes by the name.
            name: Name of the file that the draft is from, if there is one.
            progress: Called with the number of finished windows, and of all of them.
        """
        locked = [lock] if isinstance(lock, str) else list(lock)
        locked += chosen_spans(draft, markup, name)
        task = Revise(draft, instruction=instruction, locked=locked)
        flow = self.edits(task, kind=unit_kind(markup, name), progress=progress)
        return Run(flow, self.driver).wait()

    def edits(
        self,
        task: Revise,
        *,
        kind: UnitKind = "sentence",
        one_line: bool = False,
        progress: Progress = no_progress,
        max_prompts: int | None = None,
    ) -> Flow[Edited]:
        """Return the edits of a draft as a flow, for `Run`, which can be cancelled, and `run_many`.

        The model is shown sentences, or lines of code. With `one_line`, line ends that it writes
        become spaces.
        """
        return edit(
            task,
            kind=kind,
            window=self.window,
            context=self.context,
            one_line=one_line,
            progress=progress,
            max_prompts=max_prompts,
        )

    def model(self, *, revises: bool) -> Model:  # noqa: ARG002 - it does neither
        """Refuse what only a model of actions can do."""
        raise ConfigError(_ONLY_EDITS)

    def flow(
        self,
        task: Task,
        config: DecodeConfig | None = None,
        *,
        progress: Progress = no_progress,
        max_prompts: int | None = None,
        max_tokens: int | None = None,  # noqa: ARG002 - its tokens are not known
    ) -> Flow[Any]:
        """Return a task as a flow, for `Run` and `run_many`; settings of decoding do not count."""
        del config
        if not isinstance(task, Revise):
            raise ConfigError(_ONLY_EDITS)
        return (yield from self.edits(task, progress=progress, max_prompts=max_prompts))


def unit_kind(markup: Choice, name: str | PurePath | None) -> UnitKind:
    """Return what a model is shown of a file: lines of code, or else sentences.

    >>> unit_kind("auto", "a.py"), unit_kind("auto", "a.md"), unit_kind("code", None)
    ('line', 'sentence', 'line')
    """
    is_code = markup == "code" or (
        name is not None and markup in ("auto", "none") and format_of(name) == "code"
    )
    return "line" if is_code else "sentence"
