"""Edit scripts: the ids that carry out the hunks of a diff, in one sweep from left to right.

Finding the shortest script for two long texts would take too long, so the text is split into
windows around nearby hunks. In a window of a few tokens the kernel `sweep` finds the fewest ids
of all diffs of the same cost; a larger one is spelled hunk by hunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from reviser.core.actions import Action, ActionVocab, Kind
from reviser.errors import ConfigError, InvalidAction, VocabError
from reviser.trajectories.diff import REACH, Hunk, Tokens, align, as_tokens

Address: TypeAlias = Literal["moves", "search", "both"]
"""The way to a position: moves, a search for the tokens before it, or the shorter of both."""

_WINDOW = 16  # the largest window, in tokens before or after: `sweep` is O(window ** 4)
_CONTEXT = 6  # equal tokens around the hunks of a window
_NEVER = 1 << 60

_AT_END, _ONE_BY_ONE, _SWAP = range(3)  # as the kernel `sweep` numbers them


class _Operators(NamedTuple):
    """The operators that a script can use; hashable, as a key for prices."""

    max_move: int
    delete: bool
    replace: bool
    span_delete: bool


@dataclass(frozen=True, slots=True)
class _EditStep:
    """A hunk and how it is done: from its end, token by token from its start, or by SWAP."""

    start: int
    removed: int
    tokens: tuple[int, ...]
    way: int


def script(
    vocab: ActionVocab,
    before: Sequence[int],
    hunks: Sequence[Hunk],
    *,
    cursor: int = 0,
    offset: int = 0,
    address: Address = "moves",
) -> list[int]:
    """Return the ids that carry out hunks on a canvas that holds `before` from `offset` on.

    Within a window, another diff of the same cost replaces the given hunks if it takes fewer ids.
    `cursor` is the canvas's. With "both" a position is reached by moves, by a search for the
    tokens before it, or by a search and a move, whichever takes the fewest ids. With "search" it
    is a search whenever those tokens do not occur in between.

    >>> vocab = ActionVocab.build(100, operators=["delete", "replace"])
    >>> ids = script(vocab, [1, 2, 3, 4], [Hunk(1, 2, (7,)), Hunk(3, 4, ())])
    >>> [vocab.describe(i) for i in ids]
    ['move +2', 'replace', 'insert 7', 'move +2', 'delete']
    """
    _check_address(vocab, address)
    old = as_tokens(before)
    hunks = possible_hunks(vocab, old, hunks)
    writer = _Writer(vocab, old, cursor, offset, address)
    floor = 0  # where the last window ended
    while hunks:
        count, low, high = _window(hunks, floor, len(old))
        # What is done in one window decides where the cursor is for the next, so go in order.
        steps = _direct_steps(writer, hunks[:count])
        if low >= 0:
            steps = _fewest_steps(writer, steps, hunks[:count], low, high)
        for step in steps:
            writer.do(step)
        # Windows must not overlap: what lies before `floor` has changed already.
        floor, hunks = max(high, hunks[count - 1].end), hunks[count:]
    return writer.ids


def possible_hunks(vocab: ActionVocab, before: Tokens, hunks: Sequence[Hunk]) -> list[Hunk]:
    """Return the hunks, or others with the same outcome that the vocabulary's operators allow."""
    operators = operators_of(vocab)
    replaces = operators.replace
    if operators.delete or operators.span_delete or all(hunk.removed == 0 for hunk in hunks):
        return list(hunks)
    # Without a way to remove tokens, find a diff that only inserts, or replaces one for one.
    parts, end = [], 0
    for hunk in hunks:
        parts += [before[end : hunk.start], as_tokens(hunk.tokens)]
        end = hunk.end
    after = np.concatenate([*parts, before[end:]])
    others = align(before, after, None, may_delete=False, may_replace=replaces)
    if others is None:
        needed = "delete or span_delete" if replaces else "delete, replace or span_delete"
        raise VocabError(
            f"{len(before)} tokens cannot become these {len(after)} with the operators of this"
            f" vocabulary. Build it with {needed}."
        )
    return others


class _Writer:
    """A script while it is written, from left to right."""

    def __init__(
        self, vocab: ActionVocab, before: Tokens, cursor: int, offset: int, address: Address
    ) -> None:
        if not 0 <= cursor <= offset + len(before):
            raise InvalidAction(f"Cursor {cursor} is outside 0..{offset + len(before)}.")
        self.vocab, self.before, self.address = vocab, before, address
        self.at = cursor - offset  # the cursor, as an index into `before` as it was
        self.growth = 0  # by how much the canvas is longer than at the start
        # Moves stay within `before`, so that a locked prefix does not matter. Only a cursor that
        # starts in the prefix may pass over what lies between.
        self.margin = max(0, -self.at)
        self.ids: list[int] = []
        self.actions = 0

    def price(self, steps: list[_EditStep]) -> tuple[int, int]:
        """Return how many ids and actions steps would take with moves alone."""
        trial = _Writer(self.vocab, self.before, 0, 0, "moves")
        trial.at, trial.growth, trial.margin = self.at, self.growth, self.margin
        for step in steps:
            trial.do(step)
        return len(trial.ids), trial.actions

    def do(self, step: _EditStep) -> None:
        """Write the way to a step and the step itself."""
        start, tokens = step.start, step.tokens
        if step.way == _SWAP:
            self._reach(start + 2)
            self._act([Action(Kind.SWAP)])
        # Replacements from the first token on, with moves of +1 in between; then the inserts.
        elif step.way == _ONE_BY_ONE:
            for n in range(step.removed):
                self._reach(start + n + 1)
                self._act([Action(Kind.REPLACE, tokens[n])])
            self._act([Action(Kind.INSERT, token) for token in tokens[step.removed :]])
        else:
            self._reach(start + step.removed)
            self._act(cheapest_edit(operators_of(self.vocab), step.removed, tokens) or [])
        self.growth += len(tokens) - step.removed

    def _act(self, actions: list[Action]) -> None:
        self.actions += len(actions)
        for action in actions:
            self.ids += self.vocab.spell(action)

    def _reach(self, goal: int) -> None:
        self._act(self._way(goal))
        self.at = goal

    def _way(self, goal: int) -> list[Action]:
        """Return the actions that move the cursor to a goal, by the rules of the address."""
        shift = self.margin + self.growth
        length = len(self.before) + shift
        deltas = self.vocab.split_move(goal - self.at, cursor=self.at + shift, length=length)
        moves = [Action(Kind.MOVE, delta) for delta in deltas]
        # Searches go to the right. What they read there is `before`, which no edit has reached.
        if self.address == "moves" or not 0 <= self.at < goal:
            return moves
        direct = self._search(goal)
        if self.address == "search" and direct and len(direct[0].tokens) < goal - self.at:
            return direct
        # A search may also end one move before or after the goal, where a rare token is.
        ways = [moves, direct] if direct else [moves]
        for delta in self.vocab.deltas:
            near = self._search(goal - delta)
            ways += [[*near, Action(Kind.MOVE, delta)]] if near else []
        return min(ways, key=lambda way: _price(operators_of(self.vocab), way))

    def _search(self, goal: int) -> list[Action]:
        """Return the shortest search from the cursor that ends at a goal; none if there is none."""
        from reviser.trajectories._kernels import diff as kernel

        if not self.at < goal <= len(self.before):
            return []
        size = kernel.shortest_search(self.before, self.at, goal)
        tokens = self.before[goal - size : goal]
        if (self.vocab.kinds[tokens] != Kind.INSERT).any():
            return []
        return [Action(Kind.FIND, tokens=tuple(tokens.tolist()))]


# -- the steps of a window --------------------------------------------------------------------


def _window(hunks: list[Hunk], floor: int, length: int) -> tuple[int, int, int]:
    """Return how many hunks are done together, and the part of before around them.

    The part is (-1, -1) if even the first hunk is too large for a window.
    """
    # Take as many hunks as fit, up to the start of the next one and with equal tokens around.
    low = max(floor, hunks[0].start - _CONTEXT)
    best, growth = (1, -1, -1), 0
    for count, hunk in enumerate(hunks, start=1):
        growth += len(hunk.tokens) - hunk.removed
        ceiling = hunks[count].start if count < len(hunks) else length
        high = min(ceiling, hunk.end + _CONTEXT)
        if max(high - low, high - low + growth) > _WINDOW:
            break
        best = (count, low, high)
    return best


def _direct_steps(writer: _Writer, hunks: list[Hunk]) -> list[_EditStep]:
    """Return each hunk unchanged, done in the way that takes the fewest ids."""
    operators = operators_of(writer.vocab)
    steps: list[_EditStep] = []
    for hunk in hunks:
        removed, tokens = hunk.removed, hunk.tokens
        ways = []
        if cheapest_edit(operators, removed, tokens) is not None:
            ways.append(_EditStep(hunk.start, removed, tokens, _AT_END))
        if operators.replace and 2 <= removed <= len(tokens):
            ways.append(_EditStep(hunk.start, removed, tokens, _ONE_BY_ONE))
        # The way changes where the cursor ends up, so price it together with the steps before.
        steps.append(min(ways, key=lambda way: writer.price([*steps, way])))
    return steps


def _fewest_steps(
    writer: _Writer, direct: list[_EditStep], hunks: list[Hunk], low: int, high: int
) -> list[_EditStep]:
    """Return the steps of a window that take the fewest ids; the direct ones if they tie."""
    from reviser.trajectories._kernels import sweep as kernel

    after, end = [], low
    for hunk in hunks:
        after += [*writer.before[end : hunk.start].tolist(), *hunk.tokens]
        end = hunk.end
    after += writer.before[end:high].tolist()
    rows, ids = kernel.sweep(
        writer.before[low:high],
        as_tokens(after),
        writer.at - low,
        low + writer.margin + writer.growth,
        len(writer.before) - high,
        *_prices(operators_of(writer.vocab)),
        REACH,
        # No diff in the window may cost more than the given one, or texts would change more.
        sum(REACH + hunk.removed + len(hunk.tokens) for hunk in hunks),
        writer.vocab.swap is not None,
        writer.vocab.max_move,
    )
    if ids >= writer.price(direct)[0]:
        return direct
    steps = [
        _EditStep(low + start, removed, tuple(after[first : first + size]), way)
        for start, removed, first, size, way in rows.tolist()
    ]
    # The kernel and this module price steps on their own; if they disagree, one of them is wrong.
    assert writer.price(steps)[0] == ids
    return steps


# -- prices -----------------------------------------------------------------------------------


def operators_of(vocab: ActionVocab) -> _Operators:
    """Return the operators of a vocabulary that a script can use."""
    ids = vocab.delete, vocab.replace, vocab.span_delete
    return _Operators(vocab.max_move, *(i is not None for i in ids))


def cheapest_edit(
    operators: _Operators, removed: int, tokens: Sequence[int]
) -> list[Action] | None:
    """Return the cheapest way to replace tokens left of the cursor; None if there is none."""
    inserts = [Action(Kind.INSERT, token) for token in tokens]
    endings = [(removed, inserts)]
    # The first of the new tokens may replace the last of the old ones that is left.
    if operators.replace and removed and tokens:
        endings.append((removed - 1, [Action(Kind.REPLACE, tokens[0]), *inserts[1:]]))
    # Deleting token by token takes as many ids as tokens; a span takes the digits of its size.
    ways = []
    for count, ending in endings:
        if operators.delete or not count:
            ways.append([Action(Kind.DELETE)] * count + ending)
        if operators.span_delete and count:
            ways.append([Action(Kind.SPAN_DELETE, count), *ending])
    return min(ways, key=lambda way: _price(operators, way), default=None)


def _price(operators: _Operators, actions: list[Action]) -> tuple[int, int]:
    """Return the number of ids of some actions, and the number of actions."""
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
    """Return packed prices by tokens removed and inserted: from the end, and one by one."""
    from reviser.trajectories._kernels.sweep import pack

    at_end, one_by_one = np.full((2, _WINDOW + 1, _WINDOW + 1), _NEVER, np.int64)
    for removed in range(_WINDOW + 1):
        for size in range(_WINDOW + 1):
            edit = cheapest_edit(operators, removed, [0] * size)
            if edit is not None:
                at_end[removed, size] = pack(0, *_price(operators, edit))
            if operators.replace and 2 <= removed <= size:
                # Two ids for each replacement, one for each insert and each move in between.
                ids, actions = removed + size, size
                one_by_one[removed, size] = pack(0, ids + removed - 1, actions + removed - 1)
    return at_end, one_by_one


def _check_address(vocab: ActionVocab, address: Address) -> None:
    if address not in get_args(Address):
        raise ConfigError(f"address is {address!r}; use 'moves', 'search' or 'both'.")
    if address != "moves" and vocab.find is None:
        raise VocabError("This vocabulary has no searches: build it with them, or use 'moves'.")
