"""Text in, edits out: what people hold in their hands, whichever engine runs the model.

Knows engines by their protocol only, and applies every action they give to a canvas: one executor
for all. Imports no torch.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import accumulate, pairwise
from math import isfinite
from operator import index
from pathlib import Path
from typing import Any, get_args
from weakref import finalize

import numpy as np

from reviser.changes import Change, Changes, changes_of
from reviser.core.canvas import Canvas, Edit
from reviser.core.codec import Codec, TextEdit, Unit
from reviser.core.diff import present
from reviser.core.trajectory import Trajectory
from reviser.engines.base import DecodeConfig, Engine, Request, Step, StopReason
from reviser.engines.driver import Driver
from reviser.errors import ConfigError, DataError, EngineError, MissingExtra, TrajectoryError

__all__ = ["Locked", "Plan", "Reviser", "Revision", "Rollout", "Statistics", "Writing", "load"]

GAP = "{}"
"""What marks a gap in a text to fill in."""
WINDOW, CONTEXT = 192, 48
"""Tokens of a draft that are revised at a time, and those shown on either side of them."""
CALIBRATION = "calibration.json"
"""In a model folder: how right its changes were, by bias against going on to the next."""


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


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A request, with what it was made from."""

    prompt: str
    prefix: tuple[int, ...]
    given: tuple[int, ...]
    """Actions that stand in the history behind the prefix: text after a gap, and the way back."""
    locked: tuple[str, ...]
    """The texts around the gaps, one more than these."""
    request: Request
    unseen: int = 0
    """Tokens at the beginning of the canvas that are no part of the text, as an instruction."""
    place: int = 0
    """Where in a draft its text begins, if it is a part of one."""


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
            unlearned=tuple(range(len(plan.given))),
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
                tokens_before=plan.request.length,
                tokens_after=len(self._canvas),
            ),
            locked=self._locked(),
            config=plan.request.config,
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
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            data = b"".join(table[token] for token in tokens[start:end])
            if start == 0:
                data = b"".join(table[token] for token in tokens[self.plan.unseen : end])
            hidden = start == 0 and self._codec.hides_first_space and data.startswith(b" ")
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
    ) -> None:
        self.engine = engine
        self.codec = codec
        self.provenance = provenance or {}
        self.calibration = tuple(calibration)
        """How right changes were, from 0 to 1, by the bias against going on to the next."""
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
        plans = list(self.plan_revise(draft, **options))
        for plan in plans:
            self.check(plan)
        return self.revision(draft, plans, list(self.write_many(plans)))

    async def arevise(self, draft: str, **options: Any) -> Revision:
        """The same for asyncio."""
        plans = list(self.plan_revise(draft, **options))
        written = await asyncio.gather(*(self.write(plan).arollout() for plan in plans))
        return self.revision(draft, plans, written)

    def stream_revise(self, draft: str, **options: Any) -> Writing:
        """The same, edit by edit as they happen, for a draft of one part."""
        plans = list(self.plan_revise(draft, **options))
        if len(plans) > 1:
            raise ConfigError(
                f"This draft is revised in {len(plans)} parts, which have no edits in common to"
                " stream: use revise, a larger window, or stream each plan of plan_revise."
            )
        return self.write(plans[0])

    def revise_many(self, drafts: Iterable[str], **options: Any) -> Iterator[Revision]:
        """Many drafts side by side, in the order given; each is all there before it is told."""
        asked: deque[tuple[str, list[Plan]]] = deque()

        def plans() -> Iterator[Plan]:
            for n, draft in enumerate(_several(drafts)):
                asked.append((draft, list(self.plan_revise(draft, **nth(options, n)))))
                yield from asked[-1][1]

        done: list[Rollout] = []
        for rollout in self.write_many(plans()):
            done.append(rollout)
            if len(done) == len(asked[0][1]):
                yield self.revision(*asked.popleft(), done)
                done = []

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
        length, most = plan.request.length, plan.request.config.max_length
        if most is not None and length > most:
            raise ConfigError(f"max_length is {most}, and the text has {length} tokens already.")
        self.engine.check(plan.request)

    def write_many(self, plans: Iterable[Plan]) -> Iterator[Rollout]:
        """Write many side by side, in the order given; plans are asked for as there is room."""
        for written in self.attempt_many(plans):
            if isinstance(written, EngineError):
                raise written
            yield written

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
        config = decode_config(settings)
        _check_text(prompt)
        prefix = self.codec.encode(prompt)
        return Plan(
            prompt=prompt,
            prefix=tuple(prefix),
            given=(),
            locked=(prompt, ""),
            request=Request.continuation(self.engine.vocab, prefix, config),
        )

    def plan_infill(
        self, text: str, spans: Sequence[tuple[int, int]] | None = None, /, **settings: Any
    ) -> Plan:
        """What `infill` asks: what stands behind the first gap is shown as written first.

        So it is in training; then the cursor goes back to the gap.
        """
        vocab, config = self.engine.vocab, decode_config(settings)
        parts = _parts(text, spans)
        first, *rest = self.codec.encode_parts(parts)
        places = [len(first)]
        for part in rest[:-1]:
            places.append(places[-1] + len(part))
        later = [token for part in rest for token in part]
        length = len(first) + len(later)
        if vocab.mark is not None and vocab.back is not None:  # a mark stands for each gap
            marked = [i for part in rest for i in (vocab.mark, *part)]
            needs_prefix = vocab.begin is None and vocab.delimiter is None
            prefix = first if needs_prefix else []
            given = (*first[len(prefix) :], *marked, vocab.back)
        else:
            back = vocab.split_move(-len(later), cursor=length, length=length) if later else ()
            prefix, given = first, (*later, *(vocab.move_id(delta) for delta in back))
        request = Request(
            history=(*vocab.prefix_actions(prefix), *given),
            length=length,
            cursor=len(first),
            gaps=tuple((place, place) for place in places),
            config=config,
        )
        return Plan(
            prompt=text, prefix=tuple(prefix), given=given, locked=tuple(parts), request=request
        )

    def plan_revise(
        self,
        draft: str,
        *,
        instruction: str = "",
        locked: Sequence[str | tuple[int, int]] = (),
        precision: float | None = None,
        window: int = WINDOW,
        context: int = CONTEXT,
        **settings: Any,
    ) -> Iterator[Plan]:
        """What `revise` asks: one plan, or for a long draft one for each `window` of its tokens.

        A window is shown with `context` tokens on either side, which are locked; so windows share
        no change, and cost grows as the draft does. `locked` are spans of characters, or texts
        wherever they occur. `precision` is the share of changes that are to be right, by the
        model's own calibration.
        """
        _check_text(draft)
        _check_text(instruction)
        if instruction and self.engine.vocab.delimiter is None:
            raise ConfigError("This model has no delimiter to end an instruction with.")
        if window < 1 or context < 0:
            raise ConfigError(f"window is {window}, context {context}; use 1 or more, 0 or more.")
        if precision is not None:
            bias = settings.get("move_bias", 0.0) - self._bias_for(precision)
            settings = settings | {"move_bias": bias}
        config = decode_config({"temperature": 0.0} | settings)
        spans = _locked_spans(draft, locked)
        begin = self.codec.encode(instruction) if instruction else []
        parts = _windows(self.codec, draft, window, context)
        for n, (low, start, end, high) in enumerate(parts):
            shut = [(low, start), *spans, (end, high)]
            clipped = [(max(a, low) - low, min(b, high) - low) for a, b in shut if a < high]
            own = replace(config, seed=(config.seed + n) % (1 << 64))
            plan = self._plan_part(draft[low:high], begin, _joined(clipped), own)
            yield replace(plan, place=low)

    def _plan_part(
        self, text: str, begin: list[int], locked: list[tuple[int, int]], config: DecodeConfig
    ) -> Plan:
        edges = [0, *(bound for span in locked for bound in span), len(text)]
        parts = [text[a:b] for a, b in pairwise(edges)]  # free, locked, free ...
        if (
            locked and self.codec.hides_first_space
        ):  # or what is locked might come first, and lose one
            pieces = self.codec.encode_parts(["", *parts])
        else:
            pieces = [[], *self.codec.encode_parts(parts)]
        bounds = list(accumulate(map(len, pieces), initial=len(begin)))[1:]
        free = [n for n in range(0, len(parts), 2) if parts[n] or not text]
        gaps = [(bounds[n], bounds[n + 1]) for n in free]
        cursor = gaps[0][0] if gaps else len(begin)
        tokens = [token for piece in pieces for token in piece]
        head, rest = tokens[: cursor - len(begin)], tokens[cursor - len(begin) :]
        vocab = self.engine.vocab
        way = present(vocab, rest, prefix=[*begin, *head])
        if vocab.begin is None and vocab.delimiter is None:  # then a prefix must begin the history
            prefix, given = (head, way) if head else (rest, way)
        else:
            prefix, given = begin, (*head, *way)
        around = zip([-1, *free], [*free, len(parts)], strict=True)
        return Plan(
            prompt=text,
            prefix=tuple(prefix),
            given=tuple(given),
            locked=tuple("".join(parts[a + 1 : b]) for a, b in around),
            request=Request(
                history=(*vocab.prefix_actions(prefix), *given),
                length=bounds[-1],
                cursor=cursor,
                gaps=tuple(gaps),
                config=config,
            ),
            unseen=len(begin),
        )

    def _bias_for(self, precision: float) -> float:
        """The least bias at which so many changes were right."""
        if not self.calibration:
            raise ConfigError(
                f"This model has no {CALIBRATION}, so nobody knows what gives a precision: use"
                " move_bias, below 0 for fewer changes."
            )
        enough = [bias for bias, reached in self.calibration if reached >= precision]
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
    return Reviser(
        opened, Codec.load(folder), provenance=provenance, calibration=_calibration(folder)
    )


def _calibration(folder: Path) -> list[tuple[float, float]]:
    path = folder / CALIBRATION
    if not path.is_file():
        return []
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return [(float(bias), float(reached)) for bias, reached in told["precision"]]
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


def _parts(text: str, spans: Sequence[tuple[int, int]] | None) -> list[str]:
    """The locked stretches around the gaps; of those between, none is empty."""
    _check_text(text)
    if spans is None:
        parts = text.split(GAP)
        if len(parts) == 1:
            raise ConfigError(f"The text has no gap: mark one or more with {GAP}, or give spans.")
    else:
        try:
            bounds = [index(bound) for start, end in spans for bound in (start, end)]
        except (TypeError, ValueError) as error:
            raise ConfigError("spans must be pairs of places in the text.") from error
        if not bounds or bounds != sorted(bounds) or bounds[0] < 0 or bounds[-1] > len(text):
            raise ConfigError(
                f"spans {str(list(spans))[:80]} must be in order, apart, and within the text's"
                f" {len(text)} characters; give one or more."
            )
        edges = [0, *bounds, len(text)]
        parts = [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
    first, *between, last = parts
    return [first, *filter(None, between), last]


def _locked_spans(text: str, locked: Sequence[str | tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans of characters that are locked, in order."""
    spans = []
    for part in [locked] if isinstance(locked, str) else locked:
        if isinstance(part, str):
            found = [m.span() for m in re.finditer(re.escape(part), text)] if part else []
            if not found:
                raise ConfigError(f"The draft does not hold {part[:40]!r}, which is to be locked.")
            spans += found
            continue
        try:
            start, end = map(index, part)
        except (TypeError, ValueError) as error:
            raise ConfigError("locked must be texts, or pairs of places in the draft.") from error
        if not 0 <= start <= end <= len(text):
            raise ConfigError(
                f"The locked span {start}..{end} is not within the draft's {len(text)} characters."
            )
        spans.append((start, end))
    return _joined(spans)


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, those that touch or overlap as one, empty ones left out."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _windows(
    codec: Codec, text: str, window: int, context: int
) -> Iterator[tuple[int, int, int, int]]:
    """Parts of a text, each with where it and what is shown around it begin and end.

    A part ends before a sentence, or else a word, where it can.
    """
    (tokens,) = codec.encode_parts([text])
    if len(tokens) <= window:
        yield 0, 0, len(text), len(text)
        return
    units, places = codec.unit_starts(tokens), codec.places(tokens)
    is_whole = places >= 0  # not within a character
    cuts = [0]
    while len(tokens) - cuts[-1] > window:
        late = np.arange(cuts[-1] + (window + 1) // 2, cuts[-1] + window + 1)
        late = late[is_whole[late]]
        if not late.size:  # a character of many tokens
            late = cuts[-1] + 1 + np.flatnonzero(is_whole[cuts[-1] + 1 :])[:1]
        if late[0] == len(tokens):
            break
        rank = units[late]  # sentences before words before tokens
        cuts.append(int(late[np.flatnonzero(rank == rank.max())[-1]]))
    cuts.append(len(tokens))
    for start, end in pairwise(cuts):
        low, high = max(0, start - context), min(len(tokens), end + context)
        while not is_whole[low]:
            low -= 1
        while not is_whole[high]:
            high += 1
        at = places[[low, start, end, high]].tolist()
        yield at[0], at[1], at[2], at[3]


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


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise ConfigError(f"Give a text; got {type(text).__name__}.")


def _several(texts: Iterable[str]) -> Iterable[str]:
    if isinstance(texts, str):
        raise ConfigError("Give several texts, as a list; got one.")
    return texts
