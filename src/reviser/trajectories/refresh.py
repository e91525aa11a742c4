"""See the text again: past actions give way to the text that they made.

A history grows with every action, and a model that reads only its actions may lose track of the
cursor. With a refresh the model is shown the current text, the cursor and the last few actions
instead. It is trained on histories that are cut at the same positions (`parts`), or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reviser.core.actions import ActionVocab
from reviser.core.canvas import Canvas
from reviser.core.history import is_argument
from reviser.core.kinds import Kind
from reviser.core.trajectory import Trajectory
from reviser.errors import ConfigError
from reviser.trajectories.alignment import present_canvas

LEAST = 8
"""Ids that must be free in the context after the text is shown again."""
_ACTIONS = [kind.word for kind in Kind if kind < Kind.FIND_END and kind is not Kind.STOP]


@dataclass(frozen=True, kw_only=True)
class Refresh:
    """When a model is shown the text again, and what it keeps of its past actions.

    It always is when the context is full.
    """

    after: int | None = None
    """Ids of actions after which the text is shown again, or None."""
    action: str | None = None
    """The name of an action after which the text is shown again, such as "insert", or None."""
    context: int | None = None
    """Ids at which the context counts as full, if that is less than the model's own."""
    keep: int = 16
    """Ids of the last actions that stay in the history, at most."""

    def __post_init__(self) -> None:
        for name in ("after", "context"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be 1 or more, or None.")
        if self.keep < 0:
            raise ConfigError(f"keep is {self.keep}; it must be 0 or more.")
        if self.action is not None and self.action not in _ACTIONS:
            raise ConfigError(f"action is {self.action!r}; use one of {', '.join(_ACTIONS)}.")

    def room(self, context: int) -> int:
        """Return the ids that a history may have, with a model of this context."""
        return min(context, self.context or context)

    def ends(self, vocab: ActionVocab, first_id: int) -> bool:
        """Return whether the text is shown again after an action with this first id."""
        return self.action is not None and vocab.kind(first_id).word == self.action

    def shown(
        self, canvas: Canvas, actions: Sequence[int], prefix: tuple[int, ...], room: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return a prefix and the ids after it that take the place of the actions so far.

        `actions` are those that led to the canvas, as far as they may be kept. None if the text
        itself leaves no room.
        """
        for keep in (self.keep, 0):
            found = _shown(canvas, actions, prefix, keep)
            if len(canvas.vocab.prefix_actions(found[0])) + len(found[1]) + LEAST <= room:
                return found
        return None


def _shown(
    canvas: Canvas, actions: Sequence[int], prefix: tuple[int, ...], keep: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    starts = action_starts(canvas.vocab, actions) if keep else []
    first = next((start for start in starts if start >= len(actions) - keep), len(actions))
    then = canvas
    if first < len(actions):
        then = canvas.fork()
        then.rollback(len(actions) - first)
    if tuple(then.tokens()[: len(prefix)]) != prefix:  # a draft without a delimiter before it
        prefix = tuple(then.tokens())
    return prefix, (*present_canvas(then, len(prefix)), *actions[first:])


def action_starts(vocab: ActionVocab, ids: Sequence[int]) -> list[int]:
    """Return the indices of the ids that begin an action."""
    if not ids:
        return []
    return np.flatnonzero(~is_argument(vocab, np.array([ids], np.int64))[0]).tolist()


def parts(
    vocab: ActionVocab, refresh: Refresh, context: int, recorded: Trajectory
) -> list[Trajectory]:
    """Return the histories in which a model with a refresh would write what was recorded.

    Each shows the current text, without a loss, and goes on until the text is shown again.
    """
    room, size = refresh.room(context), len(recorded.shown)
    prefix, shown = recorded.prefix, recorded.restoration[:size]
    canvas = Canvas.replay(vocab, [*prefix, *shown])
    written: list[int] = []
    part: list[int] = []
    found: list[Trajectory] = []
    is_over = False
    for action in _whole_actions(vocab, recorded.restoration[size:]):
        free = room - len(vocab.prefix_actions(prefix)) - len(shown)
        most = free if refresh.after is None else min(free, refresh.after)
        if part and (is_over or len(part) + len(action) > most):
            found.append(_part(prefix, shown, part))
            again = refresh.shown(canvas, written, recorded.prefix, room)
            if again is None:
                return found
            (prefix, shown), part = again, []
        for action_id in action:
            canvas.apply(action_id)
        written += action
        part += action
        is_over = refresh.ends(vocab, action[0])
    return [*found, _part(prefix, shown, part)]


def _part(prefix: tuple[int, ...], shown: Sequence[int], part: Sequence[int]) -> Trajectory:
    no_loss = tuple(range(len(shown)))
    return Trajectory(prefix=prefix, restoration=(*shown, *part), no_loss=no_loss)


def _whole_actions(vocab: ActionVocab, ids: Sequence[int]) -> Iterator[list[int]]:
    starts = action_starts(vocab, ids)
    for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
        yield list(ids[start:end])
