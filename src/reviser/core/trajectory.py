"""Trajectories: the action sequences that a model learns from or has written.

A trajectory is a prefix and a restoration in ids. It holds no text and no tensors. The package
`reviser.trajectories` makes trajectories from texts.
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
    """A prefix and the actions that write the target after it, STOP included.

    >>> vocab = ActionVocab.build(100)
    >>> trajectory = Trajectory(prefix=(5,), restoration=(7, 8, vocab.stop))
    >>> [vocab.describe(i) for i in trajectory.history(vocab)]
    ['begin', 'insert 5', 'delimiter', 'insert 7', 'insert 8', 'stop']
    """

    prefix: tuple[int, ...] = ()
    restoration: tuple[int, ...]
    no_loss: tuple[int, ...] = ()
    """Indices into the restoration of ids that have no loss.

    In training these are noise that a later action repairs, or a draft that was shown. In a
    rollout they are the ids that the model did not choose.
    """

    @property
    def shown(self) -> tuple[int, ...]:
        """The ids at the start of the restoration that show a draft: those before any loss."""
        size = next((n for n, i in enumerate(self.no_loss) if n != i), len(self.no_loss))
        return self.restoration[:size]

    def history(self, vocab: ActionVocab) -> list[int]:
        """Return all ids in order, as the model reads them."""
        return [*vocab.prefix_actions(self.prefix), *self.restoration]

    def loss_mask(self, vocab: ActionVocab) -> list[bool]:
        """Return which ids of the history have a loss: the restoration's, except `no_loss`."""
        learned = [True] * len(self.restoration)
        for index in self.no_loss:
            learned[index] = False
        return [False] * len(vocab.prefix_actions(self.prefix)) + learned

    def target(self, vocab: ActionVocab) -> list[int]:
        """Return the tokens that the restoration writes after the prefix."""
        return Canvas.replay(vocab, [*self.prefix, *self.restoration]).tokens()[len(self.prefix) :]

    def to_dict(self) -> dict[str, tuple[int, ...]]:
        """Return the fields for JSON."""
        fields = {"prefix": self.prefix, "restoration": self.restoration}
        return fields | ({"no_loss": self.no_loss} if self.no_loss else {})

    def to_json(self) -> str:
        """Return the trajectory as one line of JSON."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Trajectory:
        """Return the trajectory that `to_json` wrote."""
        try:
            fields = json.loads(text)
        except json.JSONDecodeError as error:
            raise TrajectoryError(f"This is not JSON, so not a trajectory: {error}.") from error
        known = {"prefix", "restoration", "no_loss"}
        if not isinstance(fields, dict) or "restoration" not in fields or fields.keys() - known:
            raise TrajectoryError(f"A trajectory has {sorted(known)}; got {text[:80]!r}.")
        for name, ids in fields.items():
            if not isinstance(ids, list) or not all(type(i) is int and i >= 0 for i in ids):
                raise TrajectoryError(f"{name!r} of a trajectory must be a list of ids.")
        if any(index >= len(fields["restoration"]) for index in fields.get("no_loss", ())):
            raise TrajectoryError("'no_loss' has an index beyond the end of the restoration.")
        return cls(**{name: tuple(ids) for name, ids in fields.items()})

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
        """Return the strict inverse of a recorded walk from the target to a blank canvas.

        This is the second half of Algorithm 2, for every operator. A token that the walk inserts
        is temporary: the restoration writes it only to remove it again, so writing it bears no
        loss.
        """
        canvas = Canvas(vocab, target, cursor)
        temporary = [False] * len(canvas)
        inverses: list[list[tuple[Action, bool]]] = []
        for action in obfuscation:
            if action.kind is Kind.STOP:
                raise TrajectoryError("An obfuscation does not stop: it ends on a blank canvas.")
            if action.kind in (Kind.MARK, Kind.TO_MARK):
                raise TrajectoryError("An obfuscation has no marks: they only serve to write text.")
            edit = canvas.act(action)[-1]
            part = slice(edit.position, edit.position + len(edit.removed))
            inverses.append(_invert(vocab, action, edit, len(canvas), temporary[part]))
            temporary[part] = _temporary_after(action, temporary[part])
        if len(canvas):
            raise TrajectoryError(
                f"The obfuscation leaves {len(canvas)} tokens; it must end on a blank canvas."
            )
        ids: list[int] = []
        no_loss: list[int] = []
        for action, learned in (pair for inverse in reversed(inverses) for pair in inverse):
            spelled = vocab.spell(action)
            no_loss += [] if learned else range(len(ids), len(ids) + len(spelled))
            ids += spelled
        return cls(prefix=tuple(prefix), restoration=(*ids, vocab.stop), no_loss=tuple(no_loss))


def _invert(
    vocab: ActionVocab, action: Action, edit: Edit, length: int, temporary: list[bool]
) -> list[tuple[Action, bool]]:
    """Return the actions that undo one, each with whether it has a loss.

    `length` is the canvas's after the action, `temporary` tells which removed tokens were.
    """
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


def _temporary_after(action: Action, removed: list[bool]) -> list[bool]:
    """Return which of the tokens that an action writes are temporary."""
    if action.kind in (Kind.DELETE, Kind.SPAN_DELETE):
        return []
    if action.kind is Kind.SWAP:
        return removed[::-1]
    if action.kind is Kind.SPAN_MOVE:
        lead = -action.offset if action.offset < 0 else action.argument
        return removed[lead:] + removed[:lead]
    fresh = {Kind.INSERT: 1, Kind.REPLACE: 1, Kind.SPAN_COPY: action.argument}
    return [True] * fresh.get(action.kind, 0)
