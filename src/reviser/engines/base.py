"""What every engine is asked and gives: requests in, actions out as they come.

Knows boundaries, not content, and no torch. An engine holds a model and runs many requests at a
time; who calls it applies the actions. `ScriptedEngine` is one for tests, without a model.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, Protocol

import numpy as np

from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.mask import Boundary, trace
from reviser.errors import ConfigError

StopReason = Literal["stop", "max_actions", "context", "cancelled"]

EXTRA_ARGS = ("reviser_gaps", "reviser_max_length", "reviser_max_edits", "reviser_stop_bias")
"""What the mask is told beside a history, where a request goes to another process."""

_SINGLE_IDS = [Kind.INSERT, Kind.BARRED, Kind.MOVE, Kind.DELETE, Kind.GIVEN]


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
    stop_bias: float = 0.0
    """Added to the logit of STOP: below 0 the model writes on, above it ends sooner."""

    def __post_init__(self) -> None:
        if not (self.temperature >= 0 and self.top_k >= 0 and self.max_actions >= 1):
            raise ConfigError(
                f"temperature {self.temperature} and top_k {self.top_k} must be 0 or more,"
                f" max_actions {self.max_actions} 1 or more."
            )
        if not (0 < self.top_p <= 1 and 0 <= self.min_p <= 1):
            raise ConfigError(
                f"top_p is {self.top_p}, min_p {self.min_p}; the first goes from above 0 to 1, the"
                " other from 0 to 1."
            )
        if not 0 <= self.seed < 1 << 64:
            raise ConfigError(f"seed is {self.seed}; it goes from 0 to 2**64 - 1.")
        for name in ("max_length", "max_edits"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ConfigError(f"{name} is {value}; it must be 0 or more, or None.")


@dataclass(frozen=True, kw_only=True)
class Request:
    """A history to go on from, and the state of the canvas it left."""

    history: tuple[int, ...]
    length: int
    """Of the canvas."""
    cursor: int
    gaps: tuple[tuple[int, int], ...]
    """Where tokens may be inserted and removed; the rest is locked."""
    config: DecodeConfig = field(default_factory=DecodeConfig)

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

    @classmethod
    def from_extra_args(
        cls, vocab: ActionVocab, history: Sequence[int], args: Mapping[str, Any]
    ) -> Request:
        """Read what `extra_args` wrote; length and cursor are taken from the history itself.

        Without gaps all that the history wrote is locked, and there is one gap at its end.
        """
        check_extra_args(args)
        length, cursor = measure(vocab, history)
        bounds = args.get("reviser_gaps", [length, length])
        request = cls(
            history=tuple(history),
            length=length,
            cursor=cursor,
            gaps=tuple(zip(bounds[::2], bounds[1::2], strict=True)),
            config=DecodeConfig(
                max_length=args.get("reviser_max_length"),
                max_edits=args.get("reviser_max_edits"),
                stop_bias=args.get("reviser_stop_bias", 0.0),
            ),
        )
        request.enter(Boundary(vocab, 1), 0)  # refuses a state that makes no sense
        return request

    def extra_args(self) -> dict[str, Any]:
        """The mask's part of this request beside its history: flat, and only numbers and lists."""
        config = self.config
        args: dict[str, Any] = {"reviser_gaps": [bound for gap in self.gaps for bound in gap]}
        if config.max_length is not None:
            args["reviser_max_length"] = config.max_length
        if config.max_edits is not None:
            args["reviser_max_edits"] = config.max_edits
        if config.stop_bias:
            args["reviser_stop_bias"] = config.stop_bias
        return args

    def enter(self, rows: Boundary, row: int) -> None:
        """Put this request's state into a row of the mask."""
        rows.reset(
            row,
            length=self.length,
            cursor=self.cursor,
            gaps=self.gaps,
            max_length=self.config.max_length,
            max_edits=self.config.max_edits,
        )


def check_extra_args(args: Mapping[str, Any]) -> None:
    """Refuse arguments of the mask with an unknown name, a wrong type or outside their range."""
    for name in args:
        if name.startswith("reviser_") and name not in EXTRA_ARGS:
            near = difflib.get_close_matches(name, EXTRA_ARGS, n=1)
            advice = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(EXTRA_ARGS)}."
            raise ConfigError(f"{name!r} is no argument of the mask. {advice}")
    bounds = args.get("reviser_gaps", [])
    is_list = isinstance(bounds, list | tuple) and all(type(bound) is int for bound in bounds)
    if not (is_list and len(bounds) % 2 == 0 and all(0 <= bound < 1 << 40 for bound in bounds)):
        raise ConfigError(
            f"reviser_gaps is {bounds!r}; give a flat list of whole numbers, low and high of each"
            " gap in turn."
        )
    if any(a > b for a, b in pairwise(bounds)):
        raise ConfigError(f"reviser_gaps is {list(bounds)}; its bounds must not fall.")
    for name in ("reviser_max_length", "reviser_max_edits"):
        value = args.get(name, 0)
        if not (type(value) is int and 0 <= value < 1 << 40):
            raise ConfigError(f"{name} is {value!r}; it must be a whole number, 0 or more.")
    bias = args.get("reviser_stop_bias", 0.0)
    if not (type(bias) in (int, float) and abs(bias) <= 1e30):  # finite in float32, heat and all
        raise ConfigError(f"reviser_stop_bias is {bias!r}; it must be a number up to 1e30.")


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
    canvas = Canvas.replay(vocab, ids.tolist())  # arguments are only checked by the executor
    vocab.read(ids.tolist())  # refuses an action that is half spelled
    return len(canvas), canvas.cursor


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


class Engine(Protocol):
    """A model that runs requests side by side; `step` takes an action or more for each it runs."""

    vocab: ActionVocab

    def add(self, request: Request) -> int:
        """Take a request in; it runs as soon as there is room."""
        ...

    def cancel(self, number: int) -> None:
        """Drop a request, finished or not; it gives no further step."""
        ...

    def step(self) -> list[Step]:
        """Some next actions, those of one request in order; none if nothing is left to run."""
        ...


def run(engine: Engine, requests: Iterable[Request], *, ahead: int = 256) -> Iterator[Step]:
    """The steps of many requests as they come, numbered as given; they are taken in as needed."""
    source = enumerate(requests)
    numbers: dict[int, int] = {}
    try:
        while True:
            for n, request in source:
                numbers[engine.add(request)] = n
                if len(numbers) >= ahead:
                    break
            if not numbers:
                return
            for step in engine.step():
                n = numbers[step.request]
                if step.ended is not None:
                    del numbers[step.request]
                yield Step(n, step.action, step.logprob, step.ended)
    finally:  # whoever stops listening wants no more
        for number in numbers:
            engine.cancel(number)


class ScriptedEngine:
    """Gives each request the same actions, legal or not: an engine for tests, without a model."""

    def __init__(self, vocab: ActionVocab, script: Sequence[int]) -> None:
        self.vocab = vocab
        self._script = list(script)
        self._places: dict[int, int] = {}
        self._added = 0

    def add(self, request: Request) -> int:
        """Take a request in."""
        del request
        self._added += 1
        self._places[self._added] = 0
        return self._added

    def cancel(self, number: int) -> None:
        """Drop a request."""
        self._places.pop(number, None)

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
