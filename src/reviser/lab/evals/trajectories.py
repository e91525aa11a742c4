"""Statistics of how a model writes: the paper's table, and how often it searches.

Each rollout becomes a `Walk`, its counts; everything else is an estimate over walks. This module
knows ids and cursors, but not text. The preamble, the ids in the history before the model chose its
first action (the prefix, and the text after a gap), is never counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from reviser.core.actions import MOVES, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.mask import is_argument, is_search, trace
from reviser.core.trajectory import Trajectory
from reviser.errors import DataError
from reviser.lab.evals.intervals import Clusters, Estimate, proportion, ratio_of_means, share


@dataclass(frozen=True, kw_only=True)
class Walk:
    """The counts of one trajectory; make one with `Walk.of(rollout.trajectory, vocab)`.

    >>> vocab = ActionVocab.build(10)
    >>> back, on = vocab.move_id(-1), vocab.move_id(+1)
    >>> walk = Walk.of(Trajectory(restoration=(7, back, 5, 6, on, vocab.stop)), vocab)
    >>> walk.actions, walk.inserts, walk.moves, walk.revisions
    (6, 3, (-1, 1), 1)
    """

    preamble: int
    """Length of the preamble: the prefix, and actions that the model did not choose."""
    actions: int
    """Number of ids chosen, STOP and the arguments of operators included."""
    stops: bool
    """True if it ends with STOP, not at a limit."""
    tokens: int
    """Number of tokens by which the text grew."""
    inserts: int
    end_appends: int
    """Number of inserts with the cursor at the end of the text."""
    positions: tuple[float, ...]
    """Relative positions of inserts, 0 to 1 after the prefix; one into an empty text has none."""
    moves: tuple[int, ...]
    """Distance of each move, in order; a search of several ids is one move, and so is TO_MARK."""
    to_mark: tuple[bool, ...]
    """One value per move: True if it went to a mark."""
    searches: tuple[bool, ...]
    """One value per move: True if it was a search. One that was cut off counts, and went nowhere.
    """
    revisions: int
    """Number of inserts after a chain of moves that goes left in total."""

    @classmethod
    def of(cls, trajectory: Trajectory, vocab: ActionVocab) -> Walk:
        """Count one trajectory; `no_loss` actions at its very start belong to the preamble."""
        preamble = len(vocab.prefix_actions(trajectory.prefix))
        preamble += preamble_length(trajectory)
        history = np.array([trajectory.history(vocab)])
        Canvas.replay(vocab, history[0].tolist())  # raises for an invalid history
        kinds = np.where(is_argument(vocab, history), Kind.NUMBER_END, vocab.kinds[history])
        kinds = kinds[0, preamble:]
        length, cursor = (np.append(0, row[0])[preamble:] for row in trace(vocab, history))

        inserts = np.flatnonzero(kinds == Kind.INSERT)
        moves = np.flatnonzero(np.isin(kinds, MOVES))
        is_search_id = is_search(vocab, history)[0, preamble:]
        is_move_id = np.isin(kinds, MOVES) | is_search_id
        ends = _ends(moves, is_search_id & (kinds != Kind.FIND))
        offsets = cursor[inserts] - len(trajectory.prefix)
        span = length[inserts] - len(trajectory.prefix)
        stops = bool(len(kinds) and kinds[-1] == Kind.STOP)
        return cls(
            preamble=preamble,
            actions=len(kinds),
            stops=stops,
            tokens=int(length[-1] - length[0]),
            inserts=len(inserts),
            end_appends=int((offsets == span).sum()),
            positions=tuple((offsets[span > 0] / span[span > 0]).clip(0, 1).tolist()),
            moves=tuple((cursor[ends] - cursor[moves]).tolist()),
            to_mark=tuple((kinds[moves] == Kind.TO_MARK).tolist()),
            searches=tuple((kinds[moves] == Kind.FIND).tolist()),
            revisions=sum(
                bool(kinds[end] == Kind.INSERT and cursor[end] < cursor[start])
                for start, end in _chains(is_move_id)
                if end < len(kinds)
            ),
        )

    @property
    def backward(self) -> int:
        """The number of moves to the left."""
        return sum(delta < 0 for delta in self.moves)

    @property
    def sizes(self) -> Counter[int]:
        """The number of moves of each size; moves to a mark and searches have no size."""
        moves = zip(self.moves, self.to_mark, self.searches, strict=True)
        return Counter(abs(delta) for delta, *other in moves if not any(other))

    @property
    def distance(self) -> int:
        """The distance that the cursor travelled by moves."""
        return sum(map(abs, self.moves))


@dataclass(frozen=True, kw_only=True)
class TrajectoryStatistics:
    """The rows of the paper's table, and the searches; None where there is nothing to divide by.

    Fractions and means are over all actions of all walks together, not over walks.
    """

    actions_per_token: Estimate | None
    """Actions per token; an autoregressive model needs 1, and its STOP."""
    insert_fraction: Estimate | None
    move_fraction: Estimate | None
    """The paper's p_move. STOP is an action too, so this and the inserts add up to less than 1.

    A search is one move, though all of its ids count as actions.
    """
    move_distance: Estimate | None
    """Mean distance of a move."""
    move_sizes: dict[int, Estimate]
    """Share of each size that occurs among moves, without moves to marks and searches."""
    search_fraction: Estimate | None
    """Share of the moves that are searches; None if there is none."""
    backward_fraction: Estimate | None
    insert_position: Estimate | None
    """Relative position of inserts, from 0, right after the prefix, to 1, the end."""
    end_append_fraction: Estimate | None
    inner_insert_fraction: Estimate | None
    """Share of the inserts that are not at the end."""
    revised: Estimate
    """Share of the walks in which a backward move, or chain of moves, led to an insert."""

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        sizes = {str(size): estimate.to_dict() for size, estimate in self.move_sizes.items()}
        one = {k: v.to_dict() if isinstance(v, Estimate) else None for k, v in found.items()}
        return one | {"move_sizes": sizes}


def statistics(walks: Sequence[Walk], clusters: Clusters = None) -> TrajectoryStatistics:
    """Compute all rows; clusters are prompts, if one was written several times."""
    if not walks:
        raise DataError("There are no walks: statistics need at least one rollout.")

    def per(top: Iterable[float], bottom: Iterable[float]) -> Estimate | None:
        denominators = list(bottom)
        if sum(denominators) <= 0:
            return None
        return ratio_of_means(list(top), denominators, clusters).within(0, math.inf)

    def fraction(top: Iterable[float], bottom: Iterable[float]) -> Estimate | None:
        found = per(top, bottom)
        if found and found.value in (0, 1):  # equal values have no spread, but still an error
            return proportion(int(found.value) * found.n, found.n)
        return found and found.within(0, 1)

    tokens, actions = [w.tokens for w in walks], [w.actions for w in walks]
    inserts, moves = [w.inserts for w in walks], [len(w.moves) for w in walks]
    searches, by_tokens = [sum(w.searches) for w in walks], [w.sizes.total() for w in walks]
    position = per((sum(w.positions) for w in walks), (len(w.positions) for w in walks))
    return TrajectoryStatistics(
        actions_per_token=per(actions, tokens),
        insert_fraction=fraction(inserts, actions),
        move_fraction=fraction(moves, actions),
        move_distance=per((w.distance for w in walks), moves),
        move_sizes={
            size: share_of_moves
            for size in sorted({size for w in walks for size in w.sizes})
            if (share_of_moves := fraction((w.sizes[size] for w in walks), by_tokens))
        },
        search_fraction=fraction(searches, moves) if sum(searches) else None,
        backward_fraction=fraction((w.backward for w in walks), moves),
        insert_position=position and position.within(0, 1),
        end_append_fraction=fraction((w.end_appends for w in walks), inserts),
        inner_insert_fraction=fraction((w.inserts - w.end_appends for w in walks), inserts),
        revised=share([w.revisions > 0 for w in walks], clusters),
    )


def preamble_length(trajectory: Trajectory) -> int:
    """Return the number of actions at the start that a rollout's model did not choose.

    A trajectory calls them `no_loss`: training takes no loss on them.
    """
    return sum(index == n for n, index in enumerate(trajectory.no_loss))


# -- the parts ------------------------------------------------------------------------------------


def _chains(is_move: npt.NDArray[np.bool_]) -> Iterable[tuple[int, int]]:
    """Return the first id of each run of moves, and one past its last."""
    edges = np.flatnonzero(np.diff(is_move, prepend=False, append=False))
    return zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _ends(
    starts: npt.NDArray[np.int64], is_argument: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return one past the last id of each move."""
    outside = np.append(np.flatnonzero(~is_argument), len(is_argument))
    return outside[np.searchsorted(outside, starts, side="right")]
