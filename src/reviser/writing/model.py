"""Text in, edits out: what people hold in their hands, whichever engine runs the model.

Knows engines by their protocol only, and applies every action they give to a canvas: one executor
for all. Imports no torch.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar, get_args
from weakref import finalize

from reviser.core.canvas import Canvas, Edit
from reviser.core.codec import Codec, TextEdit, Unit
from reviser.core.trajectory import Trajectory
from reviser.engines.base import DecodeConfig, Engine, Request, Step, StopReason
from reviser.errors import (
    ConfigError,
    DataError,
    EngineError,
    MissingExtra,
    ReviserError,
    TrajectoryError,
)
from reviser.writing.changes import Change, Changes, changes_of
from reviser.writing.driver import Driver
from reviser.writing.tasks import CONTEXT, WINDOW, Plan, Revising, continuation, infilling, is_share

__all__ = ["Locked", "Reviser", "Revision", "Rollout", "Statistics", "Writing", "load"]

_Written = TypeVar("_Written")
CALIBRATION = "calibration.json"
"""In a model folder: how right its changes were, by what keeps it from making more."""


@dataclass(frozen=True, kw_only=True)
class Locked:
    """A stretch of text that was to stay as it is, and proof that it did."""

    text: str
    before: str
    """SHA-256 of its bytes in the text given."""
    after: str
    """SHA-256 of the bytes in its place in the result."""


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What a rollout cost."""

    actions: int
    """Ids that the model chose, STOP and arguments included."""
    edits: int
    """Of these, the ones that changed the text."""
    moves: int
    """Of these, the ones that moved the cursor."""
    tokens_before: int
    """Of the text; of a draft's part without what is shown around it."""
    tokens_after: int


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """What a model wrote, and how."""

    prompt: str
    """As given, gaps and all."""
    text: str
    trajectory: Trajectory
    """Its `unlearned` actions were given, not chosen: the text behind a gap, and the way back."""
    logprobs: tuple[float, ...]
    """The model's own for each chosen action, before mask, bias and temperature."""
    stop_reason: StopReason
    statistics: Statistics
    locked: tuple[Locked, ...]
    config: DecodeConfig
    provenance: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        return told | {
            "trajectory": self.trajectory.to_dict(),
            "statistics": asdict(self.statistics),
            "locked": [asdict(part) for part in self.locked],
            "config": asdict(self.config),
        }

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Rollout:
        """Read what `to_json` wrote."""
        try:
            told = json.loads(text)
            if told["stop_reason"] not in get_args(StopReason):
                raise ValueError(f"stop_reason {told['stop_reason']!r}")
            return cls(
                prompt=str(told["prompt"]),
                text=str(told["text"]),
                trajectory=Trajectory.from_json(json.dumps(told["trajectory"])),
                logprobs=tuple(map(float, told["logprobs"])),
                stop_reason=told["stop_reason"],
                statistics=Statistics(**told["statistics"]),
                locked=tuple(Locked(**part) for part in told["locked"]),
                config=DecodeConfig(**told["config"]),
                provenance=dict(told["provenance"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise TrajectoryError(f"This is no rollout ({error!r}): {str(text)[:80]!r}.") from error


@dataclass(frozen=True, kw_only=True)
class Revision:
    """What a model made of a draft: the changes, and the rollouts that they came from."""

    changes: Changes
    rollouts: tuple[Rollout, ...]
    """One for each part of the draft, from the left; mostly there is one."""

    @property
    def text(self) -> str:
        """The draft with all changes made."""
        return self.changes.text

    @property
    def actions(self) -> int:
        """Ids that the model chose."""
        return sum(rollout.statistics.actions for rollout in self.rollouts)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        rollouts = [rollout.to_dict() for rollout in self.rollouts]
        return {"text": self.text, **self.changes.to_dict(), "rollouts": rollouts}

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Revision:
        """Read what `to_json` wrote."""
        changes = Changes.from_json(text)
        try:
            parts = json.loads(text)["rollouts"]
            rollouts = [Rollout.from_json(json.dumps(part)) for part in parts]
        except (KeyError, TypeError) as error:
            raise DataError(f"This is no revision ({error!r}): {str(text)[:80]!r}.") from error
        return cls(changes=changes, rollouts=tuple(rollouts))


class Writing:
    """One text being written: iterate for its edits as they happen, `async for` works too.

    Whoever has enough calls `cancel`, at any step; the text is valid at all times.
    """

    def __init__(
        self,
        plan: Plan,
        codec: Codec,
        driver: Driver,
        provenance: dict[str, Any],
        unit: Unit = "char",
    ) -> None:
        self.plan = plan
        self._codec = codec
        self._vocab = vocab = driver.engine.vocab
        self._provenance = provenance
        self._canvas = Canvas.replay(vocab, [*plan.prefix, *plan.given])
        self._stream = codec.stream(self._canvas.tokens()[plan.unseen :], unit=unit)
        here = self._canvas.cursor - plan.unseen
        self.cursor = self._stream.feed(Edit(here, (), (), here, here)).cursor
        """Where the cursor is in the text now."""
        self.kind = ""
        """What the last id did: the name of a `Kind`, or argument."""
        self._logprobs: list[float] = []
        self._actions: list[int] = []
        self._edits = 0
        self._moves = 0
        self._gaps = [list(gap) for gap in plan.request.gaps]
        self._stop_reason: StopReason | None = None
        self._driver = driver
        self._steps: deque[Step] = deque()
        self._number: int | None = None
        self._leave: Callable[[], object] = lambda: None

    @property
    def text(self) -> str:
        """The text as it is now."""
        return self._stream.text

    def take(self, step: Step) -> TextEdit:
        """Apply one step; the edit of the text that it is."""
        if step.error is not None:
            raise step.error
        if not isfinite(step.logprob):
            raise EngineError(f"The engine chose an action of log-probability {step.logprob}.")
        if step.notes is not None and self.plan.narrow is not None:
            self.plan = self.plan.narrow(step.notes)
            self._gaps = [list(gap) for gap in self.plan.request.gaps]
        is_argument = self._canvas.is_spelling
        edit = self._canvas.apply(step.action)
        kind = self._vocab.kind(step.action)
        self.kind = "argument" if is_argument else kind.name.lower()
        self._moves += bool(self._vocab.is_move[step.action]) and not is_argument
        if edit.changes_text:
            self._follow(edit)
            self._edits += 1
        self._actions.append(step.action)
        self._logprobs.append(step.logprob)
        self._stop_reason = self._stop_reason or step.ended
        text_edit = self._stream.feed(_moved(edit, -self.plan.unseen))
        self.cursor = text_edit.cursor
        return text_edit

    def __iter__(self) -> Iterator[TextEdit]:
        while self._stop_reason is None:
            if self._steps:
                yield self._next()
            else:
                self._steps.extend(self._driver.take([self._enter()]))

    async def __aiter__(self) -> AsyncIterator[TextEdit]:
        while self._stop_reason is None:
            if self._steps:
                yield self._next()
            elif self._number is None:
                await asyncio.to_thread(self._enter)  # it may wait for a step to end
            else:
                self._steps.extend(await self._driver.atake([self._number]))

    def _enter(self) -> int:
        """Hand the request over, once; whoever lets go of this object lets go of the request."""
        if self._number is None:
            self._number = self._driver.add(self.plan.request)
            self._leave = finalize(self, self._driver.drop, self._number)
        return self._number

    def _next(self) -> TextEdit:
        try:
            return self.take(self._steps.popleft())
        finally:
            if self._stop_reason is not None:
                self._leave()

    def _follow(self, edit: Edit) -> None:
        """Move the gaps along with an edit; one outside them is no work of the mask."""
        first, last = edit.position, edit.position + len(edit.removed)
        grown = len(edit.inserted) - len(edit.removed)
        within = [n for n, (low, high) in enumerate(self._gaps) if low <= first and last <= high]
        if not within:
            self._canvas.rollback()
            self.cancel()
            raise EngineError("The engine changed locked text: does it run the mask?")
        self._gaps[within[0]][1] += grown
        for gap in self._gaps[within[0] + 1 :]:
            gap[:] = gap[0] + grown, gap[1] + grown

    def cancel(self, reason: StopReason = "cancelled") -> None:
        """Stop here. The engine drops the request."""
        if self._stop_reason is None:
            self._stop_reason = reason
            self._leave()

    def rollout(self) -> Rollout:
        """What was written, to the end if it was not cancelled."""
        for _ in self:
            pass
        return self._rollout()

    async def arollout(self) -> Rollout:
        """The same without blocking the event loop."""
        async for _ in self:
            pass
        return self._rollout()

    def _rollout(self) -> Rollout:
        assert self._stop_reason is not None
        plan = self.plan
        chosen = Trajectory(
            prefix=plan.prefix,
            restoration=(*plan.given, *self._actions),
            no_loss=tuple(range(len(plan.given))),
        )
        return Rollout(
            prompt=plan.prompt,
            text=self.text,
            trajectory=chosen,
            logprobs=tuple(self._logprobs),
            stop_reason=self._stop_reason,
            statistics=Statistics(
                actions=len(self._actions),
                edits=self._edits,
                moves=self._moves,
                tokens_before=plan.length,
                tokens_after=len(self._canvas) - plan.beside,
            ),
            locked=self._locked(),
            config=plan.config,
            provenance=self._provenance,
        )

    def _locked(self) -> tuple[Locked, ...]:
        """Each stretch as it was given, and as it is cut out of the canvas now."""
        locked = []
        for text, found in zip(self.plan.locked, self._stretches(), strict=True):
            if text:
                before, after = (
                    hashlib.sha256(data).hexdigest() for data in (text.encode(), found)
                )
                locked.append(Locked(text=text, before=before, after=after))
        return tuple(locked)

    def _stretches(self) -> Iterator[bytes]:
        """The bytes around the gaps; a space that is hidden at the very start is none of them."""
        tokens, table = self._canvas.tokens(), self._codec.token_bytes
        edges = [0, *(bound for gap in self._gaps for bound in gap), len(tokens)]
        for n, (start, end) in enumerate(zip(edges[::2], edges[1::2], strict=True)):
            first = start if n else self.plan.unseen
            data = b"".join(table[token] for token in tokens[first:end])
            hidden = n == 0 and self._codec.hides_first_space and data.startswith(b" ")
            yield data[hidden:]


class Reviser:
    """A model to write with; `reviser.load` opens one.

    Settings are those of `DecodeConfig`, by name. A request does not notice others that run at the
    same time, in other threads or tasks.
    """

    def __init__(
        self,
        engine: Engine,
        codec: Codec,
        *,
        provenance: dict[str, Any] | None = None,
        calibration: Sequence[tuple[float, float]] = (),
        calibrated_by: str = "move_bias",
    ) -> None:
        self.engine = engine
        self.codec = codec
        self.provenance = provenance or {}
        self.calibration = tuple(calibration)
        """How right changes were, from 0 to 1, by the value of a setting that makes them fewer."""
        self.calibrated_by = calibrated_by
        """That setting: `notes`, or `move_bias`, of which the value is taken off."""
        self.driver = Driver(engine)

    def close(self) -> None:
        """Let go of the engine; what runs is lost."""
        self.engine.close()

    def __enter__(self) -> Reviser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def generate(self, prompt: str = "", **settings: Any) -> Rollout:
        """Write on behind a prompt, which stays as it is."""
        return self.stream(prompt, **settings).rollout()

    async def agenerate(self, prompt: str = "", **settings: Any) -> Rollout:
        """The same for asyncio."""
        return await self.stream(prompt, **settings).arollout()

    def stream(self, prompt: str = "", **settings: Any) -> Writing:
        """The same, edit by edit as they happen; iterate with `for` or `async for`."""
        return self.write(self.plan(prompt, **settings))

    def infill(
        self, text: str, spans: Sequence[tuple[int, int]] | None = None, **settings: Any
    ) -> Rollout:
        """Fill the gaps of a text, marked with {} or given as spans of characters to rewrite."""
        return self.stream_infill(text, spans, **settings).rollout()

    async def ainfill(
        self, text: str, spans: Sequence[tuple[int, int]] | None = None, **settings: Any
    ) -> Rollout:
        """The same for asyncio."""
        return await self.stream_infill(text, spans, **settings).arollout()

    def stream_infill(
        self, text: str, spans: Sequence[tuple[int, int]] | None = None, **settings: Any
    ) -> Writing:
        """The same, edit by edit as they happen; iterate with `for` or `async for`."""
        return self.write(self.plan_infill(text, spans, **settings))

    def revise(self, draft: str, **options: Any) -> Revision:
        """Edit a text: what `plan_revise` takes, and settings; the likeliest edits by default."""
        plans = self.checked(self.plan_revise(draft, **options))
        return self.revision(draft, plans, list(self.write_many(plans)))

    async def arevise(self, draft: str, **options: Any) -> Revision:
        """The same for asyncio."""
        plans = await asyncio.to_thread(lambda: list(self.plan_revise(draft, **options)))
        written = await asyncio.gather(*(self.write(plan).arollout() for plan in plans))
        return self.revision(draft, plans, written)

    def stream_revise(self, draft: str, **options: Any) -> Writing:
        """The same, edit by edit as they happen, for a draft of one part."""
        plan, *more = self.plan_revise(draft, **options)
        if more:
            raise ConfigError(
                f"This draft is revised in {1 + len(more)} parts, which have no edits in common to"
                " stream: use revise, a larger window, or stream each plan of plan_revise."
            )
        return self.write(plan)

    def revise_many(self, drafts: Iterable[str], **options: Any) -> Iterator[Revision]:
        """Many drafts side by side, in the order given; each is all there before it is told."""
        return _raised(self.attempt_revise_many(drafts, **options))

    def attempt_revise_many(
        self, drafts: Iterable[str], **options: Any
    ) -> Iterator[Revision | ReviserError]:
        """The same, with the error in the place of a draft that cannot be revised, or failed."""
        self.revising(**options)  # here, not when the first is asked for
        numbered = enumerate(_several(drafts))
        asked: deque[tuple[str, Sequence[Plan]]] = deque()

        def groups() -> Iterator[Sequence[Plan] | ReviserError]:
            for n, draft in numbered:
                try:
                    plans = self.checked(self.plan_revise(draft, **nth(options, n)))
                except ReviserError as error:
                    asked.append((draft, ()))
                    yield error
                else:
                    asked.append((draft, plans))
                    yield plans

        def attempts() -> Iterator[Revision | ReviserError]:
            for written in self.attempt_groups(groups()):
                draft, plans = asked.popleft()
                if isinstance(written, ReviserError):
                    yield written
                else:
                    yield self.revision(draft, plans, written)

        return attempts()

    def revision(self, draft: str, plans: Sequence[Plan], rollouts: Sequence[Rollout]) -> Revision:
        """The changes to a draft, out of what was written for the plans of its parts."""
        changes: list[Change] = []
        stop_logprob = 0.0
        for plan, rollout in zip(plans, rollouts, strict=True):
            part = self._changes(plan, rollout)
            stop_logprob += part.stop_logprob
            for each in part.changes:
                start, end = each.start + plan.place, each.end + plan.place
                change = replace(each, start=start, end=end)
                meets = changes and changes[-1].end == start  # at the border of two windows
                changes.append(_both(changes.pop(), change) if meets else change)
        merged = Changes(draft=draft, changes=tuple(changes), stop_logprob=stop_logprob)
        return Revision(changes=merged, rollouts=tuple(rollouts))

    def _changes(self, plan: Plan, rollout: Rollout) -> Changes:
        canvas = Canvas.replay(self.engine.vocab, [*plan.prefix, *plan.given])
        tokens = canvas.tokens()[plan.unseen :]
        chosen = rollout.trajectory.restoration[len(plan.given) :]
        edits = (_moved(canvas.apply(i), -plan.unseen) for i in chosen)
        steps = zip(edits, rollout.logprobs, strict=True)
        return changes_of(self.codec, tokens, steps, draft=plan.prompt)

    def generate_many(self, prompts: Iterable[str], **settings: Any) -> Iterator[Rollout]:
        """Many prompts side by side, in the order given; the n-th has the seed plus n."""
        decode_config(settings)  # here, not when the first is asked for
        return self.write_many(
            self.plan(prompt, **nth(settings, n)) for n, prompt in enumerate(_several(prompts))
        )

    def infill_many(self, texts: Iterable[str], **settings: Any) -> Iterator[Rollout]:
        """Many texts with gaps side by side, in the order given; the n-th has the seed plus n."""
        decode_config(settings)
        return self.write_many(
            self.plan_infill(text, **nth(settings, n)) for n, text in enumerate(_several(texts))
        )

    def write(self, plan: Plan, *, unit: Unit = "char") -> Writing:
        """Begin to write: the engine gets the request when the first step is asked for."""
        self.check(plan)
        return self._writing(plan, unit)

    def check(self, plan: Plan) -> None:
        """Refuse what the engine cannot run, or what is too long from the start."""
        length, most = plan.length, plan.config.max_length
        if most is not None and length > most:
            raise ConfigError(f"max_length is {most}, and the text has {length} tokens already.")
        self.engine.check(plan.request)

    def checked(self, plans: Iterable[Plan]) -> list[Plan]:
        """The plans for a draft, none of which is refused."""
        kept = list(plans)
        for plan in kept:
            self.check(plan)
        return kept

    def write_many(self, plans: Iterable[Plan]) -> Iterator[Rollout]:
        """Write many side by side, in the order given; plans are asked for as there is room."""
        return _raised(self.attempt_many(plans))

    def attempt_groups(
        self, groups: Iterable[Sequence[Plan] | ReviserError]
    ) -> Iterator[list[Rollout] | ReviserError]:
        """All rollouts of each group, as of a draft's parts, or the first error of any.

        What is an error already is told in its place.
        """
        asked: deque[int | ReviserError] = deque()  # how many plans each group has

        def plans() -> Iterator[Plan]:
            for group in groups:
                if isinstance(group, ReviserError):
                    asked.append(group)
                else:
                    asked.append(len(group))
                    yield from group

        def errors() -> Iterator[ReviserError]:
            while asked and isinstance(error := asked[0], ReviserError):
                yield error
                asked.popleft()

        done: list[Rollout] = []
        failed: list[EngineError] = []
        for written in self.attempt_many(plans()):
            yield from errors()
            if isinstance(written, EngineError):
                failed.append(written)
            else:
                done.append(written)
            if len(done) + len(failed) == asked[0]:
                asked.popleft()
                yield failed[0] if failed else done
                done, failed = [], []
        yield from errors()

    def attempt_many(self, plans: Iterable[Plan]) -> Iterator[Rollout | EngineError]:
        """The same, with the error in the place of a rollout that failed."""
        writings: dict[int, Writing] = {}
        done: dict[int, Rollout | EngineError] = {}
        shown = 0

        def requests() -> Iterator[Request]:
            for n, plan in enumerate(plans):
                writings[n] = self._writing(plan)
                yield plan.request

        for step in self.driver.run(requests(), held=lambda: len(done)):
            writing = writings.get(step.request)
            if writing is None:  # it failed before
                continue
            try:
                writing.take(step)
                if step.ended is not None:
                    done[step.request] = writings.pop(step.request).rollout()
            except EngineError as error:
                del writings[step.request]
                done[step.request] = error
            while shown in done:
                yield done.pop(shown)
                shown += 1

    def _writing(self, plan: Plan, unit: Unit = "char") -> Writing:
        return Writing(plan, self.codec, self.driver, self.provenance, unit)

    def plan(self, prompt: str = "", /, **settings: Any) -> Plan:
        """What `generate` asks of the engine."""
        return continuation(self.engine.vocab, self.codec, prompt, decode_config(settings))

    def plan_infill(
        self, text: str, spans: Sequence[tuple[int, int]] | None = None, /, **settings: Any
    ) -> Plan:
        """What `infill` asks."""
        return infilling(self.engine.vocab, self.codec, text, spans, decode_config(settings))

    def plan_revise(self, draft: str, /, **options: Any) -> Iterator[Plan]:
        """What `revise` asks: one plan, or for a long draft one for each `window` of its tokens."""
        return self.revising(**options).plans(draft)

    def revising(
        self,
        /,
        *,
        instruction: str = "",
        locked: Sequence[str | tuple[int, int]] = (),
        precision: float | None = None,
        notes: float | None = None,
        window: int = WINDOW,
        context: int = CONTEXT,
        **settings: Any,
    ) -> Revising:
        """How drafts are to be revised; what makes no sense for any is refused here.

        A window is shown with `context` tokens on either side, which are locked; so windows share
        no change, and cost grows as the draft does. `locked` are spans of characters, or texts
        wherever they occur. With `notes`, from 0 to 1, the engine reads the draft first, and what
        it does not note to need a change with this likelihood is locked: for models that learned
        to note. `precision` is the share of changes that are to be right, by the model's own
        calibration.
        """
        if precision is not None:
            value = self._least_for(precision)
            if self.calibrated_by == "notes":
                least = 0.0 if notes is None else notes
                notes = max(value, least) if is_share(least) else least
            else:
                settings = settings | {"move_bias": settings.get("move_bias", 0.0) - value}
        return Revising(
            vocab=self.engine.vocab,
            codec=self.codec,
            config=decode_config({"temperature": 0.0} | settings),
            instruction=instruction,
            locked=locked,
            notes=notes,
            window=window,
            context=context,
        )

    def _least_for(self, precision: float) -> float:
        """The least value at which so many changes were right; the more, the higher it is."""
        if not is_share(precision):
            raise ConfigError(f"precision is {precision!r}; it must be a number from 0 to 1.")
        if not self.calibration:
            raise ConfigError(
                f"This model has no {CALIBRATION}, so nobody knows what gives a precision: use"
                " move_bias, below 0 for fewer changes."
            )
        enough = [value for value, reached in self.calibration if reached >= precision]
        if not enough:
            most = max(reached for _, reached in self.calibration)
            raise ConfigError(f"precision is {precision}; this model has shown at most {most}.")
        return min(enough)


def load(name: str | Path, *, engine: str = "hf", **options: Any) -> Reviser:
    """Open a model folder, or a model of that name from the hub, to write with.

    Options go to the engine: `rows` and what `from_pretrained` takes for "hf"; what vLLM's
    `EngineArgs` takes for "vllm", or the `url` of a vLLM server that runs the model.
    """
    if engine not in ("hf", "vllm"):
        raise ConfigError(f"engine is {engine!r}; use 'hf' or 'vllm'.")
    if engine == "hf" and "url" in options:
        raise ConfigError("A url is for engine 'vllm': Transformers has no server to ask.")
    opened: Any
    if engine == "hf":
        try:
            from reviser.engines.hf import HFEngine
        except ModuleNotFoundError as error:
            raise MissingExtra(
                f"Engine 'hf' needs the hf extra: {error.name} is not installed. Install it with:"
                " pip install 'reviser-lm[hf]'."
            ) from error
        opened, folder = HFEngine.load(name, **options)
    else:
        from reviser.engines.vllm import VLLMEngine, VLLMServer

        opened, folder = (VLLMServer if "url" in options else VLLMEngine).load(name, **options)
    provenance = {"model": str(name), "engine": engine, "versions": opened.versions}
    return Reviser(opened, Codec.load(folder), provenance=provenance, **_calibration(folder))


def _calibration(folder: Path) -> dict[str, Any]:
    path = folder / CALIBRATION
    if not path.is_file():
        return {}
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        points = [(float(value), float(reached)) for value, reached in told["precision"]]
        setting = told.get("by", "move_bias")
        if setting not in ("move_bias", "notes"):
            raise ValueError(setting)
        return {"calibration": points, "calibrated_by": setting}
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{str(path)!r} is no calibration: {error!r}.") from error


def nth(settings: dict[str, Any], n: int) -> dict[str, Any]:
    """The settings of the n-th of many: with a seed of its own."""
    return settings | {"seed": (settings.get("seed", DecodeConfig.seed) + n) % (1 << 64)}


def decode_config(settings: Mapping[str, Any]) -> DecodeConfig:
    """Settings by name; one that does not exist is told, with the nearest that does."""
    known = [f.name for f in fields(DecodeConfig)]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            advice = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
            raise ConfigError(f"{name!r} is no setting of decoding. {advice}")
    return DecodeConfig(**settings)


def _both(first: Change, second: Change) -> Change:
    """Two changes that meet, as one."""
    return Change(
        start=first.start,
        end=second.end,
        before=first.before + second.before,
        after=first.after + second.after,
        logprob=first.logprob + second.logprob,
        actions=first.actions + second.actions,
    )


def _moved(edit: Edit, by: int) -> Edit:
    """The same edit on a canvas with more tokens before it, or fewer."""
    places = edit.position + by, edit.cursor_before + by, edit.cursor + by
    return Edit(places[0], edit.removed, edit.inserted, *places[1:])


def _raised(written: Iterable[_Written | ReviserError]) -> Iterator[_Written]:
    """The same, but an error ends it."""
    for each in written:
        if isinstance(each, ReviserError):
            raise each
        yield each


def _several(texts: Iterable[str]) -> Iterable[str]:
    if isinstance(texts, str):
        raise ConfigError("Give several texts, as a list; got one.")
    return texts
