"""The interface of engines: requests in, actions out as they come.

This module knows boundaries, not content, and does not import torch. An engine holds a model and
runs many requests at a time; its caller applies the actions. `ScriptedEngine` is an engine for
tests, without a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import exp, expm1, log1p
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.mask import Boundary, check_gaps, trace
from reviser.engines.settings import MOST_GAPS, DecodeConfig
from reviser.errors import ConfigError, EngineError

__all__ = ["DecodeConfig", "Engine", "Reading", "Request", "ScriptedEngine", "Step"]

Gaps = tuple[tuple[int, int], ...]
StopReason = Literal["stop", "max_actions", "context", "cancelled", "time"]
FAILED = -1
"""In place of an action: this request has failed."""
_SINGLE_IDS = [Kind.INSERT, Kind.PREFIX_ONLY, Kind.MOVE, Kind.DELETE, Kind.SEPARATOR]


@dataclass(frozen=True, kw_only=True)
class Request:
    """A history to continue, and the state of the canvas that it left."""

    history: tuple[int, ...]
    length: int
    """Length of the canvas in tokens."""
    cursor: int
    gaps: Gaps
    """Ranges in which tokens may be inserted and removed; the rest is locked."""
    config: DecodeConfig = field(default_factory=DecodeConfig)
    with_reading: bool = False
    """True if the first step is to bring a `Reading`."""
    top: int = 0
    """Number of the most likely ids that the reading holds for each position, if the engine gives
    them."""
    then: Callable[[Reading], Request | None] | None = field(
        default=None, compare=False, repr=False
    )
    """The request that runs once this one has been read, made from the reading; None if nothing
    needs an edit. The driver calls it; engines do not look at it."""
    review: Callable[[Reading], Sequence[Request]] | None = field(
        default=None, compare=False, repr=False
    )
    """Texts to read once this request has been read, made from its reading. The driver calls it and
    adds their readings to the last step."""

    @classmethod
    def continuation(
        cls, vocab: ActionVocab, prefix: Sequence[int], config: DecodeConfig | None = None
    ) -> Request:
        """Return a request that continues a prefix, which is locked."""
        return cls(
            history=tuple(vocab.prefix_actions(prefix)),
            length=len(prefix),
            cursor=len(prefix),
            gaps=((len(prefix), len(prefix)),),
            config=config or DecodeConfig(),
        )

    def check(self, vocab: ActionVocab, context: int) -> None:
        """Refuse a history that fills the context, or does not lead to the state of the request."""
        if len(self.history) >= context:
            raise ConfigError(
                f"Your text is {len(self.history):,} tokens long; this model's limit is"
                f" {context - 1:,}. Shorten it, or use a model with a longer context."
            )
        length, cursor = measure(vocab, self.history)
        if (length, cursor) != (self.length, self.cursor):
            raise ConfigError(
                f"The history leaves length {length} and cursor {cursor}, but the request says"
                f" {self.length} and {self.cursor}."
            )
        if len(self.gaps) > MOST_GAPS:
            raise ConfigError(
                f"Your text has {len(self.gaps):,} separate parts that may be edited;"
                f" {MOST_GAPS:,} are allowed. Use fewer gaps or locks, or a smaller window."
            )
        check_gaps(self.length, self.cursor, self.gaps)

    def enter(self, rows: Boundary, row: int) -> None:
        """Write this request's state into a row of the mask."""
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


def measure(vocab: ActionVocab, history: Sequence[int]) -> tuple[int, int]:
    """Return the length and cursor that a history leaves, or refuse one that cannot be continued.

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
            raise ConfigError("The history leaves its canvas: a move or delete goes past its end.")
        return int(lengths[-1]), int(cursors[-1])
    canvas = replay(vocab, history)  # arguments are only checked by the executor
    if canvas.is_spelling:
        raise ConfigError("The history ends with an incomplete action.")
    return len(canvas), canvas.cursor


def replay(vocab: ActionVocab, history: Sequence[int]) -> Canvas:
    """Return the canvas that a history leaves.

    What it inserts first, usually all of it, is put there at once.
    """
    ids = np.asarray(history, np.int64)
    is_plain = np.isin(vocab.kinds[ids], [Kind.INSERT, Kind.PREFIX_ONLY, Kind.SEPARATOR])
    first = len(ids) if is_plain.all() else int(is_plain.argmin())
    is_token = vocab.kinds[ids[:first]] != Kind.SEPARATOR
    canvas = Canvas(vocab, ids[:first][is_token].tolist())
    for action_id in ids[first:].tolist():
        canvas.apply(action_id)
    return canvas


@dataclass(frozen=True, slots=True)
class Reading:
    """Log-probabilities of what follows each id of a history but the last."""

    stop: tuple[float, ...]
    """That STOP follows."""
    actual: tuple[float, ...]
    """That the id follows which does."""
    controls: tuple[float, ...] | None = None
    """That any control id follows. None if the engine does not give it."""
    top: tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]] | None = field(
        default=None, compare=False, repr=False
    )
    """The most likely ids after each id, and their log-probabilities, in order. None if the request
    did not ask for them or the engine does not give them."""

    def edit_probabilities(self, *, among_controls: bool = False) -> list[float]:
        """Return the probability that the text right before each id needs an edit.

        A model that gives edit probabilities learned to stop where nothing is to be changed, either
        among all ids or among the control ids only.
        """
        if not among_controls:
            return [-expm1(stop) for stop in self.stop]
        if self.controls is None:
            raise ConfigError(
                "This engine cannot give this model's edit probabilities. Use engine 'hf', or set"
                " min_edit_probability to 0."
            )
        return [-expm1(min(0.0, a - b)) for a, b in zip(self.stop, self.controls, strict=True)]

    def at_most(self, position: int, following: int) -> float:
        """Return the log-probability that an id follows the one at a position, or a bound of it.

        What is not among the most likely ids is at most as likely as the last of them.
        """
        if self.top is None:
            return 0.0
        ids, logprobs = (part[position] for part in self.top)
        found = np.flatnonzero(ids == following)
        return float(logprobs[found[0] if len(found) else -1])

    def text_logprobs(self) -> list[float]:
        """Return the log-probability of each id but the first, if only text may follow.

        Where the engine does not say how likely control ids are, they count as impossible.
        """
        if self.controls is None:
            return list(self.actual)
        pairs = zip(self.actual, self.controls, strict=True)
        return [actual - log1p(-exp(min(controls, -1e-6))) for actual, controls in pairs]


@dataclass(frozen=True, slots=True)
class Step:
    """One action of one request."""

    request: int
    """The number that `Engine.add` returned."""
    action: int
    logprob: float
    """The model's own log-probability, before mask, bias and temperature."""
    ended: StopReason | None = None
    """The reason why this step is the request's last, if it is."""
    error: EngineError | None = None
    """The failure that took the place of an action; no step follows it."""
    reading: Reading | None = None
    """What the model predicted while it read the history, if the request asked for it."""
    narrowed: Request | None = None
    """The request that runs in place of one that was read first, with the first of its steps."""
    readings: tuple[Reading, ...] = ()
    """Those of the texts that the request's `review` asked for, with its last step."""

    @property
    def is_last(self) -> bool:
        """True if no step follows."""
        return self.ended is not None or self.error is not None


def failed_step(number: int, error: Exception | None = None) -> Step:
    """Return the last step of a request that failed, alone, with the reason if there is one."""
    reason = "" if error is None else f": {type(error).__name__}: {error}"
    message = f"The engine could not continue this request{reason[:300].rstrip('.')}."
    failure = error if isinstance(error, EngineError) else EngineError(message)
    return Step(number, FAILED, 0.0, error=failure)


def per_row(
    compute: Callable[[list[int]], list[int]], count: int, errors: dict[int, Exception]
) -> list[int]:
    """Return an action for each row; where there is none, `FAILED`, with the error in `errors`.

    All rows are computed together. If that raises, one of them is the cause and nothing says which,
    so each is computed alone. Rows share nothing, so the others get the action they would have had.
    """
    try:
        return compute(list(range(count)))
    except Exception:  # noqa: BLE001 - computed again below, where the error has a row

        def alone(n: int) -> int:
            try:
                return compute([n])[0]
            except Exception as error:  # noqa: BLE001 - a fault of this row alone
                errors.setdefault(n, error)
                return FAILED

        return [alone(n) for n in range(count)]


class Engine(Protocol):
    """A model that runs requests side by side; `step` runs one or more actions of each."""

    vocab: ActionVocab

    def check(self, request: Request) -> None:
        """Raise ConfigError for a request that this engine cannot run."""
        ...

    def add(self, request: Request) -> int:
        """Check a request and queue it; return its number."""
        ...

    def cancel(self, number: int) -> None:
        """Drop a request, finished or not; no further step of it is returned."""
        ...

    def step(self) -> list[Step]:
        """Wait for the next actions, those of one request in order; none if nothing is left.

        A failure of one request is a step of that request; what is raised here fails all of them.
        """
        ...

    def close(self) -> None:
        """Release processes, threads and memory."""
        ...


class EngineEnded(EngineError):
    """An engine whose process has ended, so that it will never run anything again."""


class ScriptedEngine:
    """An engine for tests, without a model: each request gets the same actions, legal or not."""

    def __init__(self, vocab: ActionVocab, script: Sequence[int]) -> None:
        self.vocab = vocab
        self._script = list(script)
        self._positions: dict[int, int] = {}
        self._added = 0

    def check(self, request: Request) -> None:
        """Accept every request."""

    def add(self, request: Request) -> int:
        """Queue a request; return its number."""
        self.check(request)
        self._added += 1
        self._positions[self._added] = 0
        return self._added

    def cancel(self, number: int) -> None:
        """Drop a request."""
        self._positions.pop(number, None)

    def close(self) -> None:
        """Forget all requests."""
        self._positions.clear()

    def step(self) -> list[Step]:
        """Return the next action of the script for every request."""
        steps = []
        for number, position in list(self._positions.items()):
            action = self._script[position]
            last = position + 1 == len(self._script)
            ended: StopReason | None = "max_actions" if last else None
            if action == self.vocab.stop:
                ended = "stop"
            steps.append(Step(number, action, 0.0, ended))
            self._positions[number] += 1
            if ended is not None:
                del self._positions[number]
        return steps
