"""What every engine is asked and gives: requests in, actions out as they come.

Knows boundaries, not content, and no torch. An engine holds a model and runs many requests at a
time; who calls it applies the actions. `ScriptedEngine` is one for tests, without a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf
from numbers import Integral, Real
from typing import Literal, Protocol

import numpy as np

from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.mask import Boundary, check_gaps, trace
from reviser.errors import ConfigError, EngineError

__all__ = ["DecodeConfig", "Engine", "Request", "ScriptedEngine", "Step"]

Gaps = tuple[tuple[int, int], ...]
StopReason = Literal["stop", "max_actions", "context", "cancelled", "time"]


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """How actions are chosen; the defaults are the paper's."""

    temperature: float = 0.9
    """0 takes the likeliest action."""
    top_k: int = 50
    """Choose among so many likeliest actions; 0 for all."""
    top_p: float = 1.0
    """Choose among the likeliest that together have this share."""
    min_p: float = 0.0
    """Leave out what is less likely than this share of the likeliest."""
    seed: int = 0
    max_actions: int = 256
    max_length: int | None = None
    """Most tokens of the text, prompt included."""
    max_edits: int | None = None
    """Most actions that change the text; then only STOP is left."""
    max_moves: int | None = None
    """Most moves in a row, `back` and searches included; then something else is done, if only STOP.
    At 0 there are none."""
    stop_bias: float = 0.0
    """Added to the logit of STOP: below 0 the model writes on, above it ends sooner."""
    move_bias: float = 0.0
    """Added to the logits of moves, of `find` and of `mark`: above 0 the cursor moves more, or more
    is left out to come back to; below it less. Not to `back`, or it would come back too soon.

    The digits of an operator's number share the moves' ids and are left alone: there it would
    decide between a further digit and the end, and so how long the spans of operators are.
    """

    def __post_init__(self) -> None:
        for name, (kind, low, high) in RANGES.items():
            value = getattr(self, name)
            if value is None and name in ("max_length", "max_edits", "max_moves"):
                continue
            is_right = isinstance(value, kind) and not isinstance(value, bool)
            if not (is_right and low <= value <= high):
                whole = "a whole number" if kind is Integral else "a number"
                bounds = f", {low} or more" if high in (inf, MOST) else f" from {low} to {high}"
                raise ConfigError(f"{name} is {value!r}; it must be {whole}{bounds}.")
            object.__setattr__(self, name, int(value) if kind is Integral else float(value))
        if self.top_p == 0:
            raise ConfigError("top_p is 0; it must be above 0, since it is a share to choose from.")


_SINGLE_IDS = [Kind.INSERT, Kind.BARRED, Kind.MOVE, Kind.DELETE, Kind.GIVEN]
MOST = 2**40 - 1
RANGES: dict[str, tuple[type, float, float]] = {
    "temperature": (Real, 0, 1000),
    "top_k": (Integral, 0, inf),
    "top_p": (Real, 0, 1),
    "min_p": (Real, 0, 1),
    "seed": (Integral, 0, 2**64 - 1),
    "max_actions": (Integral, 1, inf),
    "max_length": (Integral, 0, MOST),
    "max_edits": (Integral, 0, MOST),
    "max_moves": (Integral, 0, MOST),
    "stop_bias": (Real, -1e30, 1e30),  # finite in float32, whatever the temperature
    "move_bias": (Real, -1e30, 1e30),
}
"""Kind of number, lowest and highest value of each setting; top_p must be above its lowest."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A history to go on from, and the state of the canvas it left."""

    history: tuple[int, ...]
    length: int
    """Of the canvas."""
    cursor: int
    gaps: Gaps
    """Where tokens may be inserted and removed; the rest is locked."""
    config: DecodeConfig = field(default_factory=DecodeConfig)
    is_noted: bool = False
    """Whether the first step brings `notes`."""

    @classmethod
    def continuation(
        cls, vocab: ActionVocab, prefix: Sequence[int], config: DecodeConfig | None = None
    ) -> Request:
        """Write on behind a prefix, which is locked."""
        return cls(
            history=tuple(vocab.prefix_actions(prefix)),
            length=len(prefix),
            cursor=len(prefix),
            gaps=((len(prefix), len(prefix)),),
            config=config or DecodeConfig(),
        )

    def check(self, vocab: ActionVocab, context: int) -> None:
        """Refuse a history that leaves no room to go on, or does not lead to the state told."""
        if len(self.history) >= context:
            raise ConfigError(
                f"The history has {len(self.history)} ids; this model reads {context}, and one must"
                " be left for an action."
            )
        length, cursor = measure(vocab, self.history)
        if (length, cursor) != (self.length, self.cursor):
            raise ConfigError(
                f"The history leaves length {length} and cursor {cursor}, but the request says"
                f" {self.length} and {self.cursor}."
            )
        check_gaps(self.length, self.cursor, self.gaps)

    def enter(self, rows: Boundary, row: int) -> None:
        """Put this request's state into a row of the mask."""
        vocab = rows.vocab
        needs_canvas = vocab.find is not None or vocab.mark in self.history
        canvas = replay(vocab, self.history) if needs_canvas else None
        rows.reset(
            row,
            length=self.length,
            cursor=self.cursor,
            gaps=self.gaps,
            marks=canvas.marks if canvas else (),
            canvas=canvas,
            max_length=self.config.max_length,
            max_edits=self.config.max_edits,
            max_moves=self.config.max_moves,
        )


@dataclass(frozen=True, kw_only=True)
class Reading(Request):
    """A request that is read before it runs: its first step brings the notes that it runs by.

    For the driver, which asks an engine twice.
    """

    narrow: Callable[[Sequence[float]], Gaps] = field(compare=False, repr=False)
    """Which gaps are left by these notes."""

    def only(self) -> Request:
        """What reads it, and can do nothing but stop."""
        return replace(self, is_noted=True, config=replace(self.config, max_edits=0, max_actions=1))

    def left(self, notes: Sequence[float] | None) -> Request | None:
        """What runs by these notes; nothing if all is to stay."""
        if notes is None:
            raise EngineError("This engine gives no notes: leave them out.")
        if len(notes) != len(self.history) - 1:
            raise EngineError(f"The engine gave {len(notes)} notes on {len(self.history)} ids.")
        gaps = self.narrow(notes)
        told = {each.name: getattr(self, each.name) for each in fields(Request)}
        return Request(**told | {"gaps": gaps}) if gaps else None


def measure(vocab: ActionVocab, history: Sequence[int]) -> tuple[int, int]:
    """Length and cursor that a history leaves; one that cannot be, or be gone on from, is refused.

    >>> vocab = ActionVocab.build(100)
    >>> measure(vocab, [*vocab.prefix_actions([7, 8]), 9, vocab.move_id(-2)])
    (3, 1)
    """
    ids = np.asarray(history, np.int64)
    if not ids.size:
        raise ConfigError("The history is empty: a model needs an id to read.")
    if ids.min() < 0 or ids.max() >= vocab.size:
        raise ConfigError(f"The history holds ids outside 0..{vocab.size - 1}.")
    if (ids == vocab.stop).any():
        raise ConfigError("The history has stopped; nothing can follow STOP.")
    if np.isin(vocab.kinds[ids], _SINGLE_IDS).all():
        lengths, cursors = (values[0] for values in trace(vocab, ids[None]))
        if (cursors < 0).any() or (cursors > lengths).any():
            raise ConfigError("The history leaves its canvas: a move or delete has no room.")
        return int(lengths[-1]), int(cursors[-1])
    canvas = replay(vocab, history)  # arguments are only checked by the executor
    if canvas.is_spelling:
        raise ConfigError("The history ends in an action that is half spelled.")
    return len(canvas), canvas.cursor


def replay(vocab: ActionVocab, history: Sequence[int]) -> Canvas:
    """The canvas that a history leaves; what it inserts first, mostly all, is put there at once."""
    ids = np.asarray(history, np.int64)
    is_plain = np.isin(vocab.kinds[ids], [Kind.INSERT, Kind.BARRED, Kind.GIVEN])
    first = len(ids) if is_plain.all() else int(is_plain.argmin())
    is_token = vocab.kinds[ids[:first]] != Kind.GIVEN
    canvas = Canvas(vocab, ids[:first][is_token].tolist())
    for action_id in ids[first:].tolist():
        canvas.apply(action_id)
    return canvas


@dataclass(frozen=True, slots=True)
class Step:
    """One action of one request."""

    request: int
    """The number that `Engine.add` gave."""
    action: int
    logprob: float
    """The model's own, before mask, bias and temperature."""
    ended: StopReason | None = None
    """Why this is the request's last."""
    error: EngineError | None = None
    """What went wrong, in the place of an action; nothing follows."""
    notes: tuple[float, ...] | None = None
    """How likely STOP is behind each id of the history but the last, from 0 to 1, if it was asked
    for: a model that notes what it reads is sure of STOP where nothing is to change."""

    @property
    def is_last(self) -> bool:
        """Whether nothing follows."""
        return self.ended is not None or self.error is not None


class Engine(Protocol):
    """A model that runs requests side by side; `step` takes an action or more for each it runs."""

    vocab: ActionVocab

    def check(self, request: Request) -> None:
        """Refuse, with a sentence, a request that this engine cannot run."""
        ...

    def add(self, request: Request) -> int:
        """Check a request and take it in; it runs as soon as there is room."""
        ...

    def cancel(self, number: int) -> None:
        """Drop a request, finished or not; it gives no further step."""
        ...

    def step(self) -> list[Step]:
        """Wait for the next actions, those of one request in order; none if nothing is left.

        What fails for one request is a step of that request; what it raises, fails for all.
        """
        ...

    def close(self) -> None:
        """Let go of processes, threads and memory."""
        ...


class ScriptedEngine:
    """Gives each request the same actions, legal or not: an engine for tests, without a model."""

    def __init__(self, vocab: ActionVocab, script: Sequence[int]) -> None:
        self.vocab = vocab
        self._script = list(script)
        self._places: dict[int, int] = {}
        self._added = 0

    def check(self, request: Request) -> None:
        """Every request will do."""

    def add(self, request: Request) -> int:
        """Take a request in."""
        self.check(request)
        self._added += 1
        self._places[self._added] = 0
        return self._added

    def cancel(self, number: int) -> None:
        """Drop a request."""
        self._places.pop(number, None)

    def close(self) -> None:
        """Forget all requests."""
        self._places.clear()

    def step(self) -> list[Step]:
        """The next action of the script for every request."""
        steps = []
        for number, place in list(self._places.items()):
            action = self._script[place]
            last = place + 1 == len(self._script)
            ended: StopReason | None = "max_actions" if last else None
            if action == self.vocab.stop:
                ended = "stop"
            steps.append(Step(number, action, 0.0, ended))
            self._places[number] += 1
            if ended is not None:
                del self._places[number]
        return steps
