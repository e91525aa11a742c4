"""The public Python API: `load` opens a model, `Reviser` runs tasks on it.

This module uses engines only through their protocol and does not import torch. A task is a flow,
which runs in the thread of its caller and asks the engine what it needs of the model.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, TypeVar, Unpack, overload

from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec, OffsetUnit, TextEdit
from reviser.engines.base import DecodeConfig, Engine, actions_of
from reviser.engines.process import ProcessEngine
from reviser.engines.settings import DecodeSettings
from reviser.errors import CheckpointError, ConfigError, MissingExtra, ReviserError
from reviser.markup.spans import Span
from reviser.models import hub
from reviser.models.editing import Editing, check_can_revise
from reviser.proofread.flow import Proofreading, proofread
from reviser.trajectories.refresh import Refresh
from reviser.writing.driver import Driver, Flow, Run, run_many
from reviser.writing.flows import Progress, edit, no_progress, revise, write
from reviser.writing.prompts import Model, prompts_of
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import CONTEXT, WINDOW, Continue, Infill, Revise, Task
from reviser.writing.text import Writing

__all__ = ["Reviser", "Stream", "load"]

T = TypeVar("T")
OnError: TypeAlias = Literal["raise", "return"]
"""The fate of a task that fails among many: its error ends all of them, or takes its place."""
Result: TypeAlias = Rollout | Revision


def _configured(
    task: Task, config: DecodeConfig | None, settings: DecodeSettings
) -> DecodeConfig | None:
    """Return the config of a task, with some settings changed by name."""
    return DecodeConfig.of(settings, config or task.default_config) if settings else config


class Stream(Run[Rollout]):
    """A text that is being written: iterate with `for` or `async for` to get its edits.

    Call `cancel` at any time to stop early; the text is valid after every edit.
    """

    def __init__(self, writing: Writing, flow: Flow[Rollout], driver: Driver) -> None:
        super().__init__(flow, driver)
        self.writing = writing

    @property
    def text(self) -> str:
        """The text after the last edit."""
        return self.writing.text

    @property
    def cursor(self) -> int:
        """Position of the cursor in the text."""
        return self.writing.cursor

    @property
    def marks(self) -> tuple[int, ...]:
        """Positions in the text of the marks that the model has not gone back to yet."""
        return self.writing.marks

    def rollout(self) -> Rollout:
        """Write to the end, unless it was cancelled, and return the rollout."""
        return self.wait()

    async def __aiter__(self) -> AsyncIterator[TextEdit]:
        while (edit := await _in_thread(self, partial(next, self, None))) is not None:
            yield edit

    async def arollout(self) -> Rollout:
        """Do what `rollout` does without blocking the event loop."""
        return await _in_thread(self, self.wait)


async def _in_thread(run: Run[Any], wait: Callable[[], T]) -> T:
    """Wait for a run in a thread of its own; it is cancelled with the task that waits.

    asyncio's own threads are few, and others need them.
    """
    loop, future = asyncio.get_running_loop(), Future[T]()

    def work() -> None:
        try:
            future.set_result(wait())
        except BaseException as error:  # noqa: BLE001 - the task gets it
            future.set_exception(error)

    threading.Thread(target=work, name="run", daemon=True).start()
    try:
        return await asyncio.wrap_future(future, loop=loop)
    except asyncio.CancelledError:
        run.cancel()
        raise


class Reviser:
    """A model to write with; `reviser.load` opens one.

    `run` takes any task; `generate`, `infill` and `revise` are shortcuts for the three kinds.
    Settings are the fields of `DecodeConfig`, given as a config, by name, or as both. Requests are
    independent of each other, also when they run at the same time, in other threads or asyncio
    tasks.
    """

    def __init__(
        self,
        engine: Engine,
        codec: Codec,
        *,
        provenance: dict[str, Any] | None = None,
        editing: Editing | None = None,
        proofreading: Proofreading | None = None,
        refresh: Refresh | None = None,
    ) -> None:
        self.engine = engine
        self.codec = codec
        self.provenance = provenance or {}
        self.editing = editing
        """The model's training on edits; None if it has none."""
        self.proofreading = proofreading
        """What a proofreader takes besides its model; None for a model that writes."""
        self.refresh = refresh or (editing.refresh if editing else None)
        """When the model is shown the text again, in place of its past actions; None: never."""
        self.driver = Driver(engine)

    @property
    def vocab(self) -> ActionVocab:
        """The model's actions."""
        return actions_of(self.engine.vocab)

    def close(self) -> None:
        """Release the engine; running requests are lost."""
        self.driver.close()
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- any task -----------------------------------------------------------------------------

    @overload
    def run(
        self,
        task: Continue | Infill,
        config: DecodeConfig | None = None,
        *,
        progress: Progress = no_progress,
        **settings: Unpack[DecodeSettings],
    ) -> Rollout: ...
    @overload
    def run(
        self,
        task: Revise,
        config: DecodeConfig | None = None,
        *,
        progress: Progress = no_progress,
        **settings: Unpack[DecodeSettings],
    ) -> Revision: ...
    def run(
        self,
        task: Task,
        config: DecodeConfig | None = None,
        *,
        progress: Progress = no_progress,
        **settings: Unpack[DecodeSettings],
    ) -> Result:
        """Run a task and return its result.

        `progress` is called with the number of finished windows of a draft, and of all of them.
        """
        flow = self.flow(task, _configured(task, config, settings), progress=progress)
        return Run(flow, self.driver).wait()

    @overload
    async def arun(
        self,
        task: Continue | Infill,
        config: DecodeConfig | None = None,
        **settings: Unpack[DecodeSettings],
    ) -> Rollout: ...
    @overload
    async def arun(
        self,
        task: Revise,
        config: DecodeConfig | None = None,
        **settings: Unpack[DecodeSettings],
    ) -> Revision: ...
    async def arun(
        self,
        task: Task,
        config: DecodeConfig | None = None,
        **settings: Unpack[DecodeSettings],
    ) -> Result:
        """Run a task without blocking the event loop."""
        run = Run(self.flow(task, _configured(task, config, settings)), self.driver)
        return await _in_thread(run, run.wait)

    def stream(
        self,
        task: Task,
        config: DecodeConfig | None = None,
        *,
        unit: OffsetUnit = "char",
        max_tokens: int | None = None,
        **settings: Unpack[DecodeSettings],
    ) -> Stream:
        """Run a task and get its edits as they happen: iterate with `for` or `async for`.

        Offsets count characters, or UTF-16 units for clients that count those. `max_tokens` is for
        servers: a longer text is refused.
        """
        if self.proofreading is not None:
            raise ConfigError(
                "A proofreader judges suggestions and writes no edits that could be streamed. Ask"
                " for the whole result."
            )
        model = self.model(revises=isinstance(task, Revise))
        config = _configured(task, config, settings)
        prompts = prompts_of(task, model, config, max_tokens=max_tokens)
        if len(prompts) > 1:
            raise ConfigError(
                f"This draft is revised in {len(prompts)} windows, whose edits cannot be streamed"
                " as one. Ask for the whole result, or pass a larger window."
            )
        threshold = 0.0
        if isinstance(task, Revise):
            threshold = model.editing.minimum(task.min_edit_probability, task.precision)
        writing = Writing(prompts[0], model, unit)

        def flow() -> Flow[Rollout]:
            yield from edit([writing], threshold, model)
            return writing.rollout()

        return Stream(writing, flow(), self.driver)

    @overload
    def run_many(
        self,
        tasks: Iterable[Continue | Infill],
        config: DecodeConfig | None = None,
        *,
        on_error: Literal["raise"] = "raise",
        **settings: Unpack[DecodeSettings],
    ) -> Iterator[Rollout]: ...
    @overload
    def run_many(
        self,
        tasks: Iterable[Revise],
        config: DecodeConfig | None = None,
        *,
        on_error: Literal["raise"] = "raise",
        **settings: Unpack[DecodeSettings],
    ) -> Iterator[Revision]: ...
    @overload
    def run_many(
        self,
        tasks: Iterable[Task],
        config: DecodeConfig | None = None,
        *,
        on_error: OnError = "raise",
        **settings: Unpack[DecodeSettings],
    ) -> Iterator[Result | ReviserError]: ...
    def run_many(
        self,
        tasks: Iterable[Task],
        config: DecodeConfig | None = None,
        *,
        on_error: OnError = "raise",
        **settings: Unpack[DecodeSettings],
    ) -> Iterator[Any]:
        """Run many tasks side by side and yield their results in order.

        The n-th task gets the config's seed plus n. With `on_error="return"` the error of a task
        that cannot run, or fails, is yielded in place of its result.
        """
        if isinstance(tasks, Continue | Infill | Revise):
            raise ConfigError("Pass several tasks, as a list; got one.")
        if on_error not in ("raise", "return"):
            raise ConfigError(f"on_error is {on_error!r}; use 'raise' or 'return'.")
        DecodeConfig.of(settings, config)  # refuses at once what no task could have

        def flows() -> Iterator[Flow[Result]]:
            for n, task in enumerate(tasks):
                each = _configured(task, config, settings) or task.default_config
                yield self.flow(task, each.with_seed_offset(n))

        return _results(run_many(flows(), self.driver), on_error)

    # -- flows --------------------------------------------------------------------------------

    def model(self, *, revises: bool) -> Model:
        """Return what flows know of this model; it must be able to revise, or to write."""
        name = self.provenance.get("model", "This model")
        if self.proofreading is not None:
            raise ConfigError("A proofreader only revises drafts. Use another model to write.")
        if revises:
            check_can_revise(self.editing, name)
        return Model(
            vocab=self.vocab,
            codec=self.codec,
            context=self.engine.context,
            editing=self.editing or Editing(),
            provenance=self.provenance,
            refresh=self.refresh,
        )

    def flow(
        self,
        task: Task,
        config: DecodeConfig | None = None,
        *,
        progress: Progress = no_progress,
        max_prompts: int | None = None,
        max_tokens: int | None = None,
    ) -> Flow[Any]:
        """Return a task as a flow, for `Run` and `run_many`; it refuses what cannot be run.

        The two limits are for servers: a draft with more windows or tokens is refused.
        """
        limits: dict[str, Any] = {"max_prompts": max_prompts, "max_tokens": max_tokens}
        if self.proofreading is not None and isinstance(task, Revise):
            return (yield from proofread(task, self.proofreading, progress, **limits))
        model = self.model(revises=isinstance(task, Revise))
        if not isinstance(task, Revise):
            return (yield from write(task, model, config, **limits))
        return (yield from revise(task, model, config, progress, **limits))

    # -- shortcuts: one kind of task each -----------------------------------------------------

    def generate(self, prompt: str = "", **settings: Unpack[DecodeSettings]) -> Rollout:
        """Continue a prompt, which is never changed."""
        return self.run(Continue(prompt), **settings)

    def infill(
        self, text: str, spans: Sequence[Span] | None = None, **settings: Unpack[DecodeSettings]
    ) -> Rollout:
        """Fill the gaps of a text, marked with {} or given as spans of characters to rewrite."""
        return self.run(Infill(text, spans), **settings)

    def revise(
        self,
        draft: str,
        *,
        instruction: str = "",
        locked: Sequence[str | Span] = (),
        min_edit_probability: float | None = None,
        precision: float | None = None,
        min_confidence: float | None = None,
        window: int = WINDOW,
        context: int = CONTEXT,
        **settings: Unpack[DecodeSettings],
    ) -> Revision:
        """Edit a draft where it needs it; `Revise` describes the options.

        By default, each step takes the most likely action.
        """
        task = Revise(
            draft,
            instruction=instruction,
            locked=locked,
            min_edit_probability=min_edit_probability,
            precision=precision,
            min_confidence=min_confidence,
            window=window,
            context=context,
        )
        return self.run(task, **settings)


def _results(runs: Generator[Run[Result]], on_error: OnError) -> Iterator[Result | ReviserError]:
    with closing(runs):
        for run in runs:
            if run.error is None:
                yield run.result
            elif on_error == "return" and isinstance(run.error, ReviserError):
                yield run.error
            else:
                raise run.error


def load(
    name: str | Path,
    *,
    engine: str = "hf",
    own_process: bool = False,
    refresh: Refresh | None = None,
    **options: Any,
) -> Reviser:
    """Open a model by its folder, or by its name on the hub.

    With `own_process`, engine "hf" runs in a process of its own, and this one cannot delay it.
    `refresh` says when the model is shown the text again; the default is how it was trained.
    Options go to the engine: `rows` and those of `from_pretrained` for "hf"; for "vllm" the `url`
    of a vLLM server that runs the model, or, without one, the options of vLLM's `EngineArgs` for a
    server that is started here and ends with this program.
    """
    if engine not in ("hf", "vllm"):
        raise ConfigError(f"engine is {engine!r}; use 'hf' or 'vllm'.")
    if engine == "hf" and "url" in options:
        raise ConfigError("A url is for engine 'vllm' only: Transformers runs in this process.")
    if engine == "vllm" and own_process:
        raise ConfigError("own_process is for engine 'hf' only: vLLM has processes of its own.")
    # Importing torch takes seconds: a wrong name or a damaged folder is reported before that.
    files = hub.CONFIG_FILES if "url" in options else hub.MODEL_FILES
    folder = hub.find(name, files)
    editing, codec = Editing.load(folder), Codec.load(folder)
    opened: Any
    if engine == "hf":
        apart = partial(ProcessEngine, _open_hf)
        opened = (apart if own_process else _open_hf)(folder, options)
    else:
        from reviser.engines.vllm_server import VLLMServer

        opened, _ = VLLMServer.load(folder, **options)
    provenance = {"model": str(name), "engine": engine, "versions": opened.versions}
    if len(codec.token_bytes) < opened.vocab.tokens:
        raise CheckpointError(
            f"The tokenizer in {str(folder)!r} has {len(codec.token_bytes)} tokens, but its action"
            f" vocabulary has {opened.vocab.tokens}: the two do not belong together."
        )
    return Reviser(opened, codec, provenance=provenance, editing=editing, refresh=refresh)


def _open_hf(folder: Path, options: dict[str, Any]) -> Any:
    """Return a Transformers engine; a process of its own calls this too."""
    try:
        from reviser.engines.hf import HFEngine
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"Engine 'hf' needs the hf extra: {error.name} is not installed. Install it with:"
            " pip install 'reviser-lm[hf]'."
        ) from error
    return HFEngine.load(folder, **options)[0]
