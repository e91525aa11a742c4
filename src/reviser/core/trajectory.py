"""Trajectories: the action sequences a model learns from, sampled or built from a recorded walk.

A trajectory is prefix and restoration in ids; it holds no text and no tensors. Sampling is a
function of (seed, epoch, index) and the policy: the same example for whoever asks, so nothing
about it needs saving.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reviser.core.actions import Action, ActionVocab, Kind
from reviser.core.canvas import Canvas, Edit
from reviser.core.policy import Mixture, Policy, Spans, compile_ids, compile_rows
from reviser.errors import TrajectoryError


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """A prefix and the actions that write the target behind it, STOP included.

    >>> from reviser import Append
    >>> vocab = ActionVocab.build(100)
    >>> trajectory = Sampler(vocab, Append()).sample([7, 8], prefix=[5])
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


@dataclass(frozen=True, kw_only=True)
class Restorations:
    """A batch of restorations, end to end: the i-th is ids[offsets[i]:offsets[i + 1]]."""

    ids: npt.NDArray[np.int32]
    learned: npt.NDArray[np.bool_]
    """Which ids bear loss."""
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """Ids of the i-th restoration, and which of them bear loss."""
        part = slice(self.offsets[:-1][i], self.offsets[1:][i])
        return self.ids[part], self.learned[part]


class Sampler:
    """Samples restorations of targets under a policy, one or a batch at a time."""

    def __init__(self, vocab: ActionVocab, policy: Policy) -> None:
        self.vocab = vocab
        self.policy = policy
        compile_rows(policy)  # so that what is no policy is refused here
        self._ids = compile_ids(policy, vocab)
        self._insertable = vocab.kinds == Kind.INSERT
        parts = policy.policies if isinstance(policy, Mixture) else (policy,)
        self._units_needed = {part.unit for part in parts if isinstance(part, Spans)} - {"token"}

    def sample(
        self,
        target: Sequence[int] | npt.NDArray[np.integer],
        *,
        prefix: Sequence[int] = (),
        seed: int = 0,
        epoch: int = 0,
        index: int = 0,
        units: npt.NDArray[np.uint8] | None = None,
        progress: float = 0.0,
    ) -> Trajectory:
        """The trajectory of one target."""
        batch = self.batch(
            [target],
            [index],
            seed=seed,
            epoch=epoch,
            units=None if units is None else [units],
            progress=progress,
        )
        return Trajectory(
            prefix=tuple(prefix),
            restoration=tuple(batch.ids.tolist()),
            unlearned=tuple(np.flatnonzero(~batch.learned).tolist()),
        )

    def batch(
        self,
        targets: Sequence[Sequence[int] | npt.NDArray[np.integer]],
        indices: Sequence[int],
        *,
        seed: int = 0,
        epoch: int = 0,
        units: Sequence[npt.NDArray[np.uint8]] | None = None,
        progress: float = 0.0,
    ) -> Restorations:
        """Restorations of many targets; each depends on its own index alone.

        `units` marks where words and sentences start, as `Codec.unit_starts` does; policies that
        align to those need it. `progress` is how much of training is done, for schedules.
        """
        from reviser.core import _kernels

        lengths = [len(target) for target in targets]
        if not 0 <= seed < 1 << 64 or not 0 <= epoch < 1 << 32:
            raise TrajectoryError(f"seed {seed} or epoch {epoch} is negative or too large.")
        if len(indices) != len(targets):
            raise TrajectoryError(f"{len(targets)} targets need as many indices: {len(indices)}.")
        tokens = self._tokens(targets)
        ids, learned, ends = _kernels.restorations(
            tokens,
            np.cumsum([0, *lengths], dtype=np.int64),
            self._marks(units, lengths),
            compile_rows(self.policy, progress),
            self._ids,
            np.uint64(seed),
            np.uint64(epoch),
            np.array(indices, np.uint64),
        )
        if ends.min() < 0:
            length = lengths[int(np.argmin(ends)) - 1]
            raise TrajectoryError(
                f"No obfuscation of {length} tokens within max_obfuscation_steps was found in"
                f" {_kernels.MAX_ATTEMPTS} tries. Raise it, or leave it out."
            )
        return Restorations(ids=ids, learned=learned, offsets=ends)

    def _tokens(
        self, targets: Sequence[Sequence[int] | npt.NDArray[np.integer]]
    ) -> npt.NDArray[np.int32]:
        tokens = np.concatenate([np.empty(0, np.int32), *targets])
        whole = tokens if tokens.dtype.kind in "iu" else tokens.astype(np.int64)
        inside = (whole >= 0) & (whole < self.vocab.size) & (whole == tokens)
        known = inside & self._insertable[np.where(inside, whole, 0)]
        if not known.all():
            wrong = tokens[~known][0]
            raise TrajectoryError(f"A target holds {wrong}, which this vocabulary cannot insert.")
        return whole.astype(np.int32, copy=False)

    def _marks(
        self, units: Sequence[npt.NDArray[np.uint8]] | None, lengths: list[int]
    ) -> npt.NDArray[np.uint8]:
        if units is None:
            if self._units_needed:
                raise TrajectoryError(
                    f"This policy aligns to units ({', '.join(sorted(self._units_needed))}): pass"
                    " units, the marks that codec.unit_starts(target) gives."
                )
            return np.ones(sum(lengths), np.uint8)
        if [len(marks) for marks in units] != lengths:
            raise TrajectoryError("Units and targets differ in length: give one mark per token.")
        return np.concatenate([np.empty(0, np.uint8), *units])


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
