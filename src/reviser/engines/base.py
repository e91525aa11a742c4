"""The interface of engines: questions in, answers out as they come.

There are two questions. `Act` has the model choose actions, and gets one step for each of them.
`Score` asks how likely a text is, and what could be there instead; nothing is chosen. An engine
holds a model and answers many questions at a time, for one thread that owns it.

This module knows boundaries, not content, and does not import torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import expm1
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from reviser.core.actions import FILE_NAME, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.mask import ActionMask, check_editable, trace
from reviser.engines.settings import MAX_RANGES, DecodeConfig
from reviser.errors import CheckpointError, ConfigError, EngineError, ReviserError
from reviser.files import read_object

__all__ = [
    "Act",
    "Answer",
    "Branch",
    "DecodeConfig",
    "Engine",
    "PlainVocab",
    "Request",
    "Score",
    "Scores",
    "Step",
]

Ranges = tuple[tuple[int, int], ...]
StopReason = Literal["stop", "max_actions", "context", "cancelled", "time"]
_SINGLE_IDS = [Kind.INSERT, Kind.PREFIX_ONLY, Kind.MOVE, Kind.DELETE, Kind.SEPARATOR]


@dataclass(frozen=True)
class PlainVocab:
    """The ids of a language model that has no actions: it can score, but not act."""

    size: int


Vocab: TypeAlias = ActionVocab | PlainVocab


def actions_of(vocab: Vocab) -> ActionVocab:
    """Return a vocabulary that has actions, or refuse one that has none."""
    if isinstance(vocab, PlainVocab):
        raise ConfigError("This is a plain language model: it scores text, but has no actions.")
    return vocab


def vocab_of(folder: Path) -> Vocab:
    """Return the vocabulary of a model folder, which may be that of a plain language model."""
    if (folder / FILE_NAME).exists():
        return ActionVocab.load(folder)
    config = read_object(folder / "config.json", CheckpointError, limit=1 << 22)
    part = config.get("text_config")  # where a model reads images, too
    size = (part if isinstance(part, dict) else config).get("vocab_size")
    if type(size) is not int or size < 1:
        raise CheckpointError(f"The config in {str(folder)!r} has no vocab_size.")
    return PlainVocab(size)


@dataclass(frozen=True, kw_only=True)
class Request:
    """A history to continue, and the state of the canvas that it left."""

    history: tuple[int, ...]
    length: int
    """Length of the canvas in tokens."""
    cursor: int
    editable: Ranges
    """Ranges in which tokens may be inserted and removed; the rest is locked."""
    config: DecodeConfig = field(default_factory=DecodeConfig)

    @classmethod
    def continuation(
        cls, vocab: ActionVocab, prefix: Sequence[int], config: DecodeConfig | None = None
    ) -> Request:
        """Return a request that continues a prefix, which is locked."""
        return cls(
            history=tuple(vocab.prefix_actions(prefix)),
            length=len(prefix),
            cursor=len(prefix),
            editable=((len(prefix), len(prefix)),),
            config=config or DecodeConfig(),
        )

    def check(self, vocab: ActionVocab, context: int) -> None:
        """Refuse a history that fills the context, or does not lead to the state of the request."""
        check_room(self.history, context)
        length, cursor = measure(vocab, self.history)
        if (length, cursor) != (self.length, self.cursor):
            raise ConfigError(
                f"The history leaves length {length} and cursor {cursor}, but the request says"
                f" {self.length} and {self.cursor}."
            )
        if len(self.editable) > MAX_RANGES:
            raise ConfigError(
                f"Your text has {len(self.editable):,} separate parts that may be edited;"
                f" {MAX_RANGES:,} are allowed. Use fewer gaps or locks, or a smaller window."
            )
        check_editable(self.length, self.cursor, self.editable)

    def enter(self, rows: ActionMask, row: int) -> None:
        """Write this request's state into a row of the mask."""
        vocab = rows.vocab
        needs_canvas = vocab.find is not None or vocab.mark in self.history
        canvas = replay(vocab, self.history) if needs_canvas else None
        rows.reset(
            row,
            length=self.length,
            cursor=self.cursor,
            editable=self.editable,
            marks=canvas.marks if canvas else (),
            canvas=canvas,
            max_length=self.config.max_length,
            max_edits=self.config.max_edits,
            max_moves=self.config.max_moves,
        )


def check_room(history: Sequence[int], context: int) -> None:
    """Refuse a history that leaves no room for an action."""
    if len(history) >= context:
        raise ConfigError(
            f"Your text is {len(history):,} tokens long; this model's limit is {context - 1:,}."
            " Shorten it, or use a model with a longer context."
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


class Branch(NamedTuple):
    """Ids that could stand in a history from a position on, in place of what does."""

    cut: int
    """Position in the history of the first id that they replace."""
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Score:
    """How likely is this history, and what could be there instead? The answer is its `Scores`."""

    history: tuple[int, ...]
    start: int = 1
    """Position of the first id whose log-probability is asked for."""
    branches: tuple[Branch, ...] = ()

    def check(self, vocab: Vocab, context: int) -> None:
        """Refuse ids that the model does not have, and more of them than it can read."""
        ids = [*self.history, *(each for branch in self.branches for each in branch.ids)]
        if not self.history or min(ids) < 0 or max(ids) >= vocab.size:
            raise ConfigError(f"A text to score is empty or holds ids outside 0..{vocab.size - 1}.")
        length = len(self.history)
        if not 0 < self.start <= length:
            raise ConfigError(f"start is {self.start}; it must be from 1 to {length}.")
        if not all(0 < branch.cut <= length and branch.ids for branch in self.branches):
            raise ConfigError("A branch begins outside of its text, or is empty.")
        longest = max([length, *(branch.cut + len(branch.ids) for branch in self.branches)])
        if longest > context:
            raise ConfigError(
                f"A text to score is {longest:,} ids long; this model's limit is {context:,}."
            )


def ignore(_step: Step) -> None:
    """Take a step without a trace."""


def never() -> bool:
    """Let a request go on to its end."""
    return False


@dataclass(frozen=True)
class Act:
    """Choose actions until the request ends. The answer is the last `Step`."""

    request: Request
    take: Callable[[Step], object] = field(default=ignore, compare=False)
    """Called with each step where the flow runs that asked; what it returns is an event."""
    is_enough: Callable[[], bool] = field(default=never, compare=False)
    """Asked after each step, in the same place: True withdraws the rest of the request."""

    def check(self, vocab: Vocab, context: int) -> None:
        """Refuse a request that the model cannot continue."""
        self.request.check(actions_of(vocab), context)


Question: TypeAlias = Score | Act


@dataclass(frozen=True, slots=True)
class Scores:
    """Log-probabilities of the ids of a text, each after all that stand before it."""

    logprobs: tuple[float, ...]
    """Of each id from `Score.start` on."""
    stop: tuple[float, ...] = ()
    """Of STOP in place of each of these ids, and after the last one; branches have none, and
    neither have texts if the model has no actions."""
    branches: tuple[Scores, ...] = ()
    """Those of each branch, of all its ids."""

    def edit_probabilities(self) -> list[float]:
        """Return the probability that the text right before each id needs an edit.

        A model that gives edit probabilities learned to stop where nothing is to be changed.
        """
        return [-expm1(stop) for stop in self.stop[: len(self.logprobs)]]


@dataclass(frozen=True, slots=True)
class Step:
    """One action of a request."""

    action: int
    logprob: float
    """The model's own log-probability, before mask, bias and temperature."""
    ended: StopReason | None = None
    """The reason why this step is the request's last, if it is."""


class Answer(NamedTuple):
    """Something that an engine says about a question."""

    number: int
    """The one that `Engine.add` returned."""
    value: Step | Scores | ReviserError
    """An error is this question's alone, and the last that is said about it."""

    @property
    def is_last(self) -> bool:
        """True if nothing follows."""
        return not isinstance(self.value, Step) or self.value.ended is not None


def failure(error: Exception | None = None) -> ReviserError:
    """Return the error of a question that failed alone, with the reason if there is one."""
    if isinstance(error, ReviserError):
        return error
    reason = "" if error is None else f": {type(error).__name__}: {error}"
    return EngineError(f"The engine could not continue this request{reason[:300].rstrip('.')}.")


class Engine(Protocol):
    """A model that answers questions side by side; one thread calls it."""

    vocab: Vocab
    context: int
    """Ids that a history may have at most."""

    def add(self, question: Question) -> int:
        """Check a question and queue it; return its number."""
        ...

    def cancel(self, number: int) -> None:
        """Drop a question, answered or not; nothing more is said about it."""
        ...

    def step(self, wait: float) -> list[Answer]:
        """Work a little, or wait so many seconds for work done elsewhere; return what came of it.

        Steps of one request come in order. What is raised here fails all questions.
        """
        ...

    def close(self) -> None:
        """Release processes, threads and memory."""
        ...


class EngineEnded(EngineError):
    """An engine whose process has ended, so that it will never answer anything again."""
