"""Revisions: from a text before and after to the actions that make the one of the other.

Knows tokens only: a diff finds what changes, a script spells it in one sweep from left to right.
Nothing is drawn at random. `revision` gives a `Trajectory` to train on, and `next_action` the
appendix's alignment oracle: what to do next on any canvas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from reviser.core.actions import Action, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.trajectory import Trajectory
from reviser.errors import ConfigError, InvalidAction, VocabError
from reviser.trajectories.policy import Address

Starts: TypeAlias = tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]
"""Which tokens of before and of after begin a word."""

REACH = 2
"""What a hunk costs beside its tokens: about the ids that it takes to reach another place.

The cost of a diff is the tokens it takes out and puts in, one each, and REACH for every hunk. Of
diffs that cost the same, the one whose hunks begin and end least often inside a word is taken.
"""

_MARGIN = 16  # equal tokens around a change over which its hunks may shift, to begin with a word
_SIDE = 16  # most tokens of a window, before or after: there the sweep is exact
_PAD = 6  # equal tokens around the hunks of a window
_NEVER = 1 << 60

Tokens = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Hunk:
    """One change: before[start:end] gives way to tokens."""

    start: int
    end: int
    tokens: tuple[int, ...]


def diff(
    before: Sequence[int], after: Sequence[int], *, starts: Starts | None = None
) -> list[Hunk]:
    """What changes, in order and apart, at the least cost (`REACH`).

    >>> diff([1, 2, 3, 4, 5, 6], [1, 7, 3, 4, 5])
    [Hunk(start=1, end=2, tokens=(7,)), Hunk(start=5, end=6, tokens=())]
    """
    hunks = _align(_array(before), _array(after), starts, may_delete=True, may_replace=False)
    assert hunks is not None
    return hunks


def script(
    vocab: ActionVocab,
    before: Sequence[int],
    hunks: Sequence[Hunk],
    *,
    cursor: int = 0,
    offset: int = 0,
    address: Address = "moves",
) -> list[int]:
    """The ids that make the hunks true, on a canvas that holds `before` from `offset` on.

    They go from left to right, with the fewest ids in windows of a few tokens: there another diff
    of the same cost takes the place of the hunks given if it takes fewer. `cursor` is the
    canvas's. By "search" a place is reached by the tokens before it if they stand nowhere between,
    else as by "both": by moves, a search or a search and a move, whichever has fewer ids.

    >>> vocab = ActionVocab.build(100, operators=["delete", "replace"])
    >>> ids = script(vocab, [1, 2, 3, 4], [Hunk(1, 2, (7,)), Hunk(3, 4, ())])
    >>> [vocab.describe(i) for i in ids]
    ['move +2', 'replace', 'insert 7', 'move +2', 'delete']
    """
    _check_address(vocab, address)
    old = _array(before)
    hunks = _possible(vocab, old, hunks)
    sweep = _Sweep(vocab, old, cursor, offset, address)
    floor = 0
    while hunks:
        count, low, high = _window(hunks, floor, len(old))
        steps = _given_steps(sweep, hunks[:count])
        if low >= 0:
            steps = _fewest_steps(sweep, steps, hunks[:count], low, high)
        for step in steps:
            sweep.do(step)
        floor, hunks = max(high, hunks[count - 1].end), hunks[count:]
    return sweep.ids


def present(
    vocab: ActionVocab, draft: Sequence[int], *, prefix: Sequence[int] = ()
) -> tuple[int, ...]:
    """The ids that show a draft behind a prefix's and take the cursor to where it begins.

    Where a history without prefix has no id to begin with, the draft itself stands for the
    prefix, and these are only the way back.

    >>> vocab = ActionVocab.build(100)
    >>> [vocab.describe(i) for i in present(vocab, [7, 8, 9])]
    ['insert 7', 'insert 8', 'insert 9', 'move -2', 'move -1']
    """
    size = len(draft)
    if not size:
        return ()
    is_prefix = vocab.needs_prefix and not len(prefix)
    if vocab.mark is not None and vocab.back is not None and not is_prefix:
        return (vocab.mark, *map(int, draft), vocab.back)
    back = vocab.split_move(-size, cursor=size, length=size)
    shown = () if is_prefix else map(int, draft)
    return (*shown, *(vocab.move_id(delta) for delta in back))


def revision(
    vocab: ActionVocab,
    before: Sequence[int],
    after: Sequence[int],
    *,
    instruction: Sequence[int] = (),
    starts: Starts | None = None,
    address: Address = "moves",
) -> Trajectory:
    """The trajectory that is shown a draft, revises it and stops; only the revising bears loss.

    >>> vocab = ActionVocab.build(100, operators=["delete"], marks=True)
    >>> trajectory = revision(vocab, [7, 8], [7, 9, 8], instruction=[5])
    >>> [vocab.describe(i) for i in trajectory.restoration]
    ['mark', 'insert 7', 'insert 8', 'back', 'move +1', 'insert 9', 'stop']
    >>> trajectory.unlearned
    (0, 1, 2, 3)
    """
    given = present(vocab, before, prefix=instruction)
    prefix = before if vocab.needs_prefix and not len(instruction) else instruction
    vocab.prefix_actions(prefix)  # so that what cannot be shown is refused here
    offset = len(instruction)
    hunks = diff(before, after, starts=starts)
    ids = script(vocab, before, hunks, cursor=offset, offset=offset, address=address)
    return Trajectory(
        prefix=tuple(map(int, prefix)),
        restoration=(*given, *ids, vocab.stop),
        unlearned=tuple(range(len(given))),
    )


def notes(
    vocab: ActionVocab, before: Sequence[int], hunks: Sequence[Hunk]
) -> npt.NDArray[np.int32]:
    """What is to be done right before each token of a draft, in an id: STOP if nothing is.

    Else it is the first token that comes in there, or an operator that takes tokens out.

    >>> vocab = ActionVocab.build(100, operators=["delete"])
    >>> found = notes(vocab, [1, 2, 3, 4], [Hunk(1, 2, (7,)), Hunk(2, 3, ())])
    >>> [vocab.describe(i) for i in found]
    ['stop', 'stop', 'insert 7', 'delete']
    """
    found = np.full(len(before) + 1, vocab.stop, np.int32)  # the last: what the end needs
    operators = _operators(vocab)
    for hunk in _possible(vocab, _array(before), hunks):
        block = _block(operators, hunk.end - hunk.start, hunk.tokens) or []
        found[hunk.end] = hunk.tokens[0] if hunk.tokens else vocab.spell(block[0])[0]
    return found[:-1]


def next_action(
    vocab: ActionVocab,
    canvas: Canvas,
    target: Sequence[int],
    *,
    offset: int = 0,
    starts: Starts | None = None,
    address: Address = "moves",
) -> Action:
    """The next whole action on the way to a canvas that holds `target` from `offset` on.

    It is a script's first. Followed to the end it gets there: every edit lowers the diff's cost,
    and between edits every move shortens the way to the next.

    >>> vocab = ActionVocab.build(100, operators=["delete"])
    >>> print(next_action(vocab, Canvas(vocab, [7, 8, 9]), [7, 9]))
    move -1
    """
    if canvas.is_spelling:
        raise InvalidAction("An action is half spelled; complete it or roll it back first.")
    before = canvas.tokens()[offset:]
    hunks = diff(before, target, starts=starts)
    ids = script(vocab, before, hunks, cursor=canvas.cursor, offset=offset, address=address)
    return vocab.read([*ids, vocab.stop])[0]


# -- the diff ---------------------------------------------------------------------------------


def _align(
    before: Tokens, after: Tokens, starts: Starts | None, *, may_delete: bool, may_replace: bool
) -> list[Hunk] | None:
    """The diff of least cost, or None if these operations make no `after` of `before`."""
    from reviser.trajectories import _kernels

    margin = 0 if starts is None else _MARGIN
    shortest = min(len(before), len(after))
    head = _common(before[:shortest], after[:shortest])
    tail = _common(before[::-1][: shortest - head], after[::-1][: shortest - head])
    head, tail = max(0, head - margin), max(0, tail - margin)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    bounds = [
        _bounds(None if starts is None else starts[n], len(text), head, tail)
        for n, text in enumerate((before, after))
    ]
    rows, found = _kernels.align(old, new, *bounds, REACH, may_delete, may_replace)
    if not found:
        return None
    return [
        Hunk(head + start, head + end, tuple(new[low:high].tolist()))
        for start, end, low, high in rows.tolist()
    ]


def _bounds(
    starts: npt.NDArray[np.bool_] | None, length: int, head: int, tail: int
) -> npt.NDArray[np.bool_]:
    """Which boundaries of the part that is compared lie between words."""
    if starts is None:
        return np.ones(length - head - tail + 1, np.bool_)
    if len(starts) != length:
        raise ConfigError(f"starts has {len(starts)} entries for {length} tokens: give one each.")
    whole = np.append(np.asarray(starts, np.bool_), np.True_)
    return whole[head : length - tail + 1]


def _common(first: Tokens, second: Tokens) -> int:
    """How many tokens two texts of one length have in common at their beginning."""
    differ = np.flatnonzero(first != second)
    return int(differ[0]) if differ.size else len(first)


def _array(tokens: Sequence[int]) -> Tokens:
    return np.array(tokens, np.int32)


# -- the script -------------------------------------------------------------------------------

_AT_END, _ONE_BY_ONE, _SWAP = range(3)


class _Operators(NamedTuple):
    """What a script has to work with."""

    max_move: int
    delete: bool
    replace: bool
    span_delete: bool


def _operators(vocab: ActionVocab) -> _Operators:
    ids = vocab.delete, vocab.replace, vocab.span_delete
    return _Operators(vocab.max_move, *(i is not None for i in ids))


@dataclass(frozen=True, slots=True)
class _Step:
    """A hunk and the way it is done: from its end, token by token from its start, or by SWAP."""

    start: int
    removed: int
    tokens: tuple[int, ...]
    way: int


class _Sweep:
    """Writes steps as ids, going from left to right."""

    def __init__(
        self, vocab: ActionVocab, before: Tokens, cursor: int, offset: int, address: Address
    ) -> None:
        if not 0 <= cursor <= offset + len(before):
            raise InvalidAction(f"Cursor {cursor} is outside 0..{offset + len(before)}.")
        self.vocab, self.before, self.address = vocab, before, address
        self.at = cursor - offset  # the cursor, by the tokens of `before` that were left of it
        self.grown = 0  # by how much the canvas is longer than it was
        self.room = max(0, -self.at)  # places left of `before` that a move may pass
        self.ids: list[int] = []
        self.actions = 0

    def count(self, steps: list[_Step]) -> tuple[int, int]:
        """How many ids and actions steps would take, by moves."""
        trial = _Sweep(self.vocab, self.before, 0, 0, "moves")
        trial.at, trial.grown, trial.room = self.at, self.grown, self.room
        for step in steps:
            trial.do(step)
        return len(trial.ids), trial.actions

    def do(self, step: _Step) -> None:
        """Reach a step's place and do it."""
        start, tokens = step.start, step.tokens
        if step.way == _SWAP:
            self._reach(start + 2)
            self._act([Action(Kind.SWAP)])
        elif step.way == _ONE_BY_ONE:
            for n in range(step.removed):
                self._reach(start + n + 1)
                self._act([Action(Kind.REPLACE, tokens[n])])
            self._act([Action(Kind.INSERT, token) for token in tokens[step.removed :]])
        else:
            self._reach(start + step.removed)
            self._act(_block(_operators(self.vocab), step.removed, tokens) or [])
        self.grown += len(tokens) - step.removed

    def _act(self, actions: list[Action]) -> None:
        self.actions += len(actions)
        for action in actions:
            self.ids += self.vocab.spell(action)

    def _reach(self, goal: int) -> None:
        self._act(self._way(goal))
        self.at = goal

    def _way(self, goal: int) -> list[Action]:
        """The way there; a search that leads past other such places, if searches are wanted."""
        shift = self.room + self.grown
        length = len(self.before) + shift
        deltas = self.vocab.split_move(goal - self.at, cursor=self.at + shift, length=length)
        moves = [Action(Kind.MOVE, delta) for delta in deltas]
        if self.address == "moves" or not 0 <= self.at < goal:
            return moves
        direct = self._search(goal)
        if self.address == "search" and direct and len(direct[0].tokens) < goal - self.at:
            return direct
        ways = [moves, direct] if direct else [moves]
        for delta in self.vocab.deltas:
            near = self._search(goal - delta)
            ways += [[*near, Action(Kind.MOVE, delta)]] if near else []
        return min(ways, key=lambda way: _price(_operators(self.vocab), way))

    def _search(self, goal: int) -> list[Action]:
        """The shortest search from the cursor that ends at a place; none if none does."""
        from reviser.trajectories import _kernels

        if not self.at < goal <= len(self.before):
            return []
        size = _kernels.shortest_search(self.before, self.at, goal)
        tokens = self.before[goal - size : goal]
        if (self.vocab.kinds[tokens] != Kind.INSERT).any():
            return []
        return [Action(Kind.FIND, tokens=tuple(tokens.tolist()))]


def _possible(vocab: ActionVocab, before: Tokens, hunks: Sequence[Hunk]) -> list[Hunk]:
    """The hunks, or others with the same outcome that this vocabulary has the operators for."""
    operators = _operators(vocab)
    replaces = operators.replace
    if operators.delete or operators.span_delete or all(h.start == h.end for h in hunks):
        return list(hunks)
    parts, end = [], 0
    for hunk in hunks:
        parts += [before[end : hunk.start], _array(hunk.tokens)]
        end = hunk.end
    after = np.concatenate([*parts, before[end:]])
    others = _align(before, after, None, may_delete=False, may_replace=replaces)
    if others is None:
        needed = "delete or span_delete" if replaces else "delete, replace or span_delete"
        raise VocabError(
            f"{len(before)} tokens cannot become these {len(after)} with the operators of this"
            f" vocabulary. Build it with {needed}."
        )
    return others


def _window(hunks: list[Hunk], floor: int, length: int) -> tuple[int, int, int]:
    """How many hunks are done together, and the part of before around them; -1 if it is large."""
    low = max(floor, hunks[0].start - _PAD)
    best, grown = (1, -1, -1), 0
    for count, hunk in enumerate(hunks, start=1):
        grown += len(hunk.tokens) - (hunk.end - hunk.start)
        ceiling = hunks[count].start if count < len(hunks) else length
        high = min(ceiling, hunk.end + _PAD)
        if max(high - low, high - low + grown) > _SIDE:
            break
        best = (count, low, high)
    return best


def _given_steps(sweep: _Sweep, hunks: list[Hunk]) -> list[_Step]:
    """Each hunk as it is, done in the way that takes the fewest ids."""
    operators = _operators(sweep.vocab)
    steps: list[_Step] = []
    for hunk in hunks:
        removed, tokens = hunk.end - hunk.start, hunk.tokens
        ways = []
        if _block(operators, removed, tokens) is not None:
            ways.append(_Step(hunk.start, removed, tokens, _AT_END))
        if operators.replace and 2 <= removed <= len(tokens):
            ways.append(_Step(hunk.start, removed, tokens, _ONE_BY_ONE))
        steps.append(min(ways, key=lambda way: sweep.count([*steps, way])))
    return steps


def _fewest_steps(
    sweep: _Sweep, given: list[_Step], hunks: list[Hunk], low: int, high: int
) -> list[_Step]:
    """The steps of a window that take the fewest ids, of those whose diff costs no more.

    Those given if they take as few.
    """
    from reviser.trajectories import _kernels

    after, end = [], low
    for hunk in hunks:
        after += [*sweep.before[end : hunk.start].tolist(), *hunk.tokens]
        end = hunk.end
    after += sweep.before[end:high].tolist()
    rows, ids = _kernels.sweep(
        sweep.before[low:high],
        _array(after),
        sweep.at - low,
        low + sweep.room + sweep.grown,
        len(sweep.before) - high,
        *_prices(_operators(sweep.vocab)),
        REACH,
        sum(REACH + hunk.end - hunk.start + len(hunk.tokens) for hunk in hunks),
        sweep.vocab.swap is not None,
        sweep.vocab.max_move,
    )
    if ids >= sweep.count(given)[0]:
        return given
    steps = [
        _Step(low + start, removed, tuple(after[first : first + size]), way)
        for start, removed, first, size, way in rows.tolist()
    ]
    assert sweep.count(steps)[0] == ids
    return steps


def _block(operators: _Operators, removed: int, tokens: Sequence[int]) -> list[Action] | None:
    """The cheapest way to make tokens of those left of the cursor; None if there is none."""
    inserts = [Action(Kind.INSERT, token) for token in tokens]
    endings = [(removed, inserts)]
    if operators.replace and removed and tokens:
        endings.append((removed - 1, [Action(Kind.REPLACE, tokens[0]), *inserts[1:]]))
    ways = []
    for count, ending in endings:
        if operators.delete or not count:
            ways.append([Action(Kind.DELETE)] * count + ending)
        if operators.span_delete and count:
            ways.append([Action(Kind.SPAN_DELETE, count), *ending])
    return min(ways, key=lambda way: _price(operators, way), default=None)


def _price(operators: _Operators, actions: list[Action]) -> tuple[int, int]:
    """How many ids actions take, and how many they are."""
    ids = len(actions)
    for action in actions:
        if action.kind is Kind.REPLACE:
            ids += 1
        elif action.kind is Kind.FIND:
            ids += len(action.tokens) + 1
        elif action.kind is Kind.SPAN_DELETE:
            strides, rest = divmod(action.argument, operators.max_move)
            ids += strides + rest.bit_count() + 1
    return ids, len(actions)


@lru_cache(maxsize=64)
def _prices(operators: _Operators) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The price of each number of tokens taken out and put in: from the end, and one by one."""
    from reviser.trajectories._kernels import pack

    at_end, one_by_one = np.full((2, _SIDE + 1, _SIDE + 1), _NEVER, np.int64)
    for removed in range(_SIDE + 1):
        for size in range(_SIDE + 1):
            block = _block(operators, removed, [0] * size)
            if block is not None:
                at_end[removed, size] = pack(0, *_price(operators, block))
            if operators.replace and 2 <= removed <= size:
                ids, actions = 2 * removed + size - removed, size
                one_by_one[removed, size] = pack(0, ids + removed - 1, actions + removed - 1)
    return at_end, one_by_one


def _check_address(vocab: ActionVocab, address: Address) -> None:
    if address not in get_args(Address):
        raise ConfigError(f"address is {address!r}; use 'moves', 'search' or 'both'.")
    if address != "moves" and vocab.find is None:
        raise VocabError("This vocabulary has no searches: build it with them, or use 'moves'.")
