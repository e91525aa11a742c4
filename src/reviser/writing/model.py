"""The public Python API: `load` opens a model, `Reviser` runs tasks on it.

This module uses engines only through their protocol and does not import torch. A task becomes a
plan, the parts of the plan run side by side, and the plan turns their rollouts into a result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack, overload

from reviser.core.codec import Codec, OffsetUnit
from reviser.engines.base import DecodeConfig, Engine
from reviser.engines.process import ProcessEngine
from reviser.engines.settings import DecodeSettings
from reviser.errors import CheckpointError, ConfigError, MissingExtra, ReviserError
from reviser.markup.spans import Span
from reviser.models import adapters, hub
from reviser.models.editing import Editing, check_ability, check_vllm
from reviser.writing.driver import Driver
from reviser.writing.plan import Part, Plan, plan_task
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.running import OnError, Progress, Result, run_plans
from reviser.writing.session import Writing
from reviser.writing.tasks import (
    CONTEXT,
    WINDOW,
    Continue,
    Infill,
    Revise,
    Task,
)

__all__ = ["Reviser", "load"]


def _configured(
    task: Task, config: DecodeConfig | None, settings: DecodeSettings
) -> DecodeConfig | None:
    """Return the config of a task, with some settings changed by name."""
    return DecodeConfig.of(settings, config or task.default_config) if settings else config


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
    ) -> None:
        self.engine = engine
        self.codec = codec
        self.provenance = provenance or {}
        self.editing = editing
        """The model's training on edits; None if it cannot revise."""
        self.driver = Driver(engine)

    def close(self) -> None:
        """Release the engine; running requests are lost."""
        self.engine.close()

    def __enter__(self) -> Reviser:
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
        progress: Progress | None = None,
        **settings: Unpack[DecodeSettings],
    ) -> Rollout: ...
    @overload
    def run(
        self,
        task: Revise,
        config: DecodeConfig | None = None,
        *,
        progress: Progress | None = None,
        **settings: Unpack[DecodeSettings],
    ) -> Revision: ...
    def run(
        self,
        task: Task,
        config: DecodeConfig | None = None,
        *,
        progress: Progress | None = None,
        **settings: Unpack[DecodeSettings],
    ) -> Result:
        """Run a task and return its result.

        `progress` is called with the number of finished parts and the number of all parts.
        """
        plans = [self.plan(task, _configured(task, config, settings))]
        result: Result
        (result,) = run_plans(plans, self.driver, self.provenance, progress=progress)
        return result

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
        plan = await asyncio.to_thread(self.plan, task, _configured(task, config, settings))
        writings = [self.start(part) for part in plan.parts]
        return plan.result(await asyncio.gather(*(writing.arollout() for writing in writings)))

    def stream(
        self,
        task: Task,
        config: DecodeConfig | None = None,
        *,
        unit: OffsetUnit = "char",
        **settings: Unpack[DecodeSettings],
    ) -> Writing:
        """Run a task and get its edits as they happen: iterate with `for` or `async for`.

        Offsets count characters, or UTF-16 units for clients that count those.
        """
        plan = self.plan(task, _configured(task, config, settings))
        if len(plan.parts) > 1:
            raise ConfigError(
                f"This draft is revised in {len(plan.parts)} windows, whose edits"
                " cannot be streamed as one. Use run, pass a larger window, or start each part of"
                " the plan."
            )
        return self.start(plan.parts[0], unit=unit)

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

        def plans() -> Iterator[Plan | ReviserError]:
            for n, task in enumerate(tasks):
                try:
                    each = _configured(task, config, settings) or task.default_config
                    yield self.plan(task, each.with_seed_offset(n))
                except ReviserError as error:
                    yield error

        return run_plans(plans(), self.driver, self.provenance, on_error=on_error)

    # -- plans --------------------------------------------------------------------------------

    def plan(
        self,
        task: Task,
        config: DecodeConfig | None = None,
        *,
        max_parts: int | None = None,
        max_tokens: int | None = None,
    ) -> Plan:
        """Return the requests of a task; everything that can be refused is refused here."""
        name = self.provenance.get("model", "This model")
        check_ability(self.editing, name, revises=isinstance(task, Revise))
        plan = plan_task(
            task,
            config,
            vocab=self.engine.vocab,
            codec=self.codec,
            editing=self.editing,
            max_parts=max_parts,
            max_tokens=max_tokens,
        )
        for part in plan.parts:
            most = part.config.max_length
            if most is not None and part.length > most:
                raise ConfigError(
                    f"max_length is {most}, but the text is already {part.length} tokens long."
                )
            self.engine.check(part.request)
        return plan

    def start(self, part: Part, *, unit: OffsetUnit = "char") -> Writing:
        """Start a part of a plan; the engine gets it when the first step is asked for."""
        return Writing(part, self.codec, self.driver, self.provenance, unit)

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
            window=window,
            context=context,
        )
        return self.run(task, **settings)


def load(
    name: str | Path,
    *,
    engine: str = "hf",
    base: str | Path | None = None,
    own_process: bool = False,
    **options: Any,
) -> Reviser:
    """Open a model by its folder, or by its name on the hub.

    An adapter is merged with its base model the first time: the one that it names, or the folder,
    GGUF file or hub name that `base` gives. With `own_process`, engine "hf" runs in a process of
    its own, so that what this one does meanwhile does not delay it.

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
    folder = adapters.find(name, files, base=base)
    editing, codec = Editing.load(folder), Codec.load(folder)
    if engine == "vllm":
        check_vllm(editing, str(name))
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
    return Reviser(opened, codec, provenance=provenance, editing=editing)


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
