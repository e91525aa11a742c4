"""Trajectories: the action sequences that a model learns from or has written.

A trajectory is a prefix and a restoration in ids. It holds no text and no tensors.
`reviser.trajectories.sampler` samples trajectories from a policy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reviser.core.actions import Action, ActionVocab, Kind
from reviser.core.canvas import Canvas, Edit
from reviser.errors import TrajectoryError


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """A prefix and the actions that write the target behind it, STOP included.

    >>> vocab = ActionVocab.build(100)
    >>> trajectory = Trajectory(prefix=(5,), restoration=(7, 8, vocab.stop))
    >>> [vocab.describe(i) for i in trajectory.history(vocab)]
    ['begin', 'insert 5', 'delimiter', 'insert 7', 'insert 8', 'stop']
    """

    prefix: tuple[int, ...] = ()
    restoration: tuple[int, ...]
    unlearned: tuple[int, ...] = ()
    """Places in the restoration that bear no loss: noise that only sets up a repair."""

    def history(self, vocab: ActionVocab) -> list[int]:
        """All ids in order, as the model reads them."""
        return [*vocab.prefix_actions(self.prefix), *self.restoration]

    def loss_mask(self, vocab: ActionVocab) -> list[bool]:
        """Which ids of the history are predicted: the restoration, less `unlearned`."""
        learned = [True] * len(self.restoration)
        for place in self.unlearned:
            learned[place] = False
        return [False] * len(vocab.prefix_actions(self.prefix)) + learned

    def target(self, vocab: ActionVocab) -> list[int]:
        """The tokens the restoration writes behind the prefix, by replaying it."""
        return Canvas.replay(vocab, [*self.prefix, *self.restoration]).tokens()[len(self.prefix) :]

    def to_dict(self) -> dict[str, tuple[int, ...]]:
        """As JSON holds it."""
        fields = {"prefix": self.prefix, "restoration": self.restoration}
        return fields | ({"unlearned": self.unlearned} if self.unlearned else {})

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Trajectory:
        """Read what `to_json` wrote."""
        try:
            fields = json.loads(text)
        except json.JSONDecodeError as error:
            raise TrajectoryError(f"This is not JSON, so not a trajectory: {error}.") from error
        known = {"prefix", "restoration", "unlearned"}
        if not isinstance(fields, dict) or "restoration" not in fields or fields.keys() - known:
            raise TrajectoryError(f"A trajectory has {sorted(known)}; got {text[:80]!r}.")
        for name, ids in fields.items():
            if not isinstance(ids, list) or not all(type(i) is int and i >= 0 for i in ids):
                raise TrajectoryError(f"{name!r} of a trajectory must be a list of ids.")
        trajectory = cls(**{name: tuple(ids) for name, ids in fields.items()})
        if any(place >= len(trajectory.restoration) for place in trajectory.unlearned):
            raise TrajectoryError("'unlearned' names a place beyond the restoration.")
        return trajectory

    @classmethod
    def from_obfuscation(
        cls,
        vocab: ActionVocab,
        target: Sequence[int],
        cursor: int,
        obfuscation: Iterable[Action],
        *,
        prefix: Sequence[int] = (),
    ) -> Trajectory:
        """The strict inverse of a recorded walk from the target to a blank canvas.

        Operators beyond Delete and Move may occur; what the walk put in is temporary, and
        bringing it back bears no loss.
        """
        canvas = Canvas(vocab, target, cursor)
        temporary = [False] * len(canvas)
        inverses: list[list[tuple[Action, bool]]] = []
        for action in obfuscation:
            if action.kind is Kind.STOP:
                raise TrajectoryError("An obfuscation does not stop: it ends on a blank canvas.")
            if action.kind in (Kind.MARK, Kind.BACK):
                raise TrajectoryError("An obfuscation has no marks: they are for what is written.")
            edit = canvas.act(action)[-1]
            place = slice(edit.position, edit.position + len(edit.removed))
            inverses.append(_invert(vocab, action, edit, len(canvas), temporary[place]))
            temporary[place] = _marks(action, temporary[place])
        if len(canvas):
            raise TrajectoryError(
                f"The obfuscation leaves {len(canvas)} tokens; it must end on a blank canvas."
            )
        ids: list[int] = []
        unlearned: list[int] = []
        for action, learned in (pair for inverse in reversed(inverses) for pair in inverse):
            spelled = vocab.spell(action)
            unlearned += [] if learned else range(len(ids), len(ids) + len(spelled))
            ids += spelled
        return cls(prefix=tuple(prefix), restoration=(*ids, vocab.stop), unlearned=tuple(unlearned))


def _invert(
    vocab: ActionVocab, action: Action, edit: Edit, length: int, temporary: list[bool]
) -> list[tuple[Action, bool]]:
    """The actions that undo one, each with whether it bears loss; `length` is after it."""
    kind, size, jump = action.kind, action.argument, action.offset
    lost = list(zip(edit.removed, temporary, strict=True))
    if kind is Kind.REPLACE:
        return [(Action(kind, token), not noise) for token, noise in lost]
    if kind in (Kind.DELETE, Kind.SPAN_DELETE):
        return [(Action(Kind.INSERT, token), not noise) for token, noise in lost]

    def moves(start: int, goal: int, length: int) -> list[Action]:
        deltas = vocab.split_move(goal - start, cursor=start, length=length)
        return [Action(Kind.MOVE, delta) for delta in deltas]

    undo: list[Action]
    if kind is Kind.SPAN_MOVE:
        back = [Action(kind, size, -jump)]
        start, goal = edit.cursor, edit.cursor_before
        if jump < 0:
            undo = moves(start, start + jump, length) + back
        else:
            undo = back + moves(start, goal, length)
    elif kind is Kind.SPAN_COPY:
        undo = [Action(Kind.SPAN_DELETE, size)]
        undo += moves(edit.position, edit.cursor_before, length - size)
    elif kind is Kind.MOVE:
        undo = [Action(kind, -size)]
    else:
        undo = [Action(Kind.DELETE if kind is Kind.INSERT else kind)]
    return [(inverse, True) for inverse in undo]


def _marks(action: Action, removed: list[bool]) -> list[bool]:
    """Which of the tokens an action put in place of others are temporary."""
    if action.kind in (Kind.DELETE, Kind.SPAN_DELETE):
        return []
    if action.kind is Kind.SWAP:
        return removed[::-1]
    if action.kind is Kind.SPAN_MOVE:
        lead = -action.offset if action.offset < 0 else action.argument
        return removed[lead:] + removed[:lead]
    fresh = {Kind.INSERT: 1, Kind.REPLACE: 1, Kind.SPAN_COPY: action.argument}
    return [True] * fresh.get(action.kind, 0)
