"""Edit scripts: the ids that carry out the hunks of a diff, one by one from left to right.

The diff decides what changes. This module decides how: with which operators, and how the cursor
gets there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np

from reviser.core.actions import Action, ActionVocab, Kind
from reviser.errors import ConfigError, InvalidAction, VocabError
from reviser.trajectories.diff import Hunk, Tokens, align, as_tokens

Address: TypeAlias = Literal["moves", "search", "both"]
"""The way to a position: moves, a search for the tokens before it, or the shorter of both."""


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
    writer = _Writer(vocab, old, cursor, offset, address)
    for hunk in possible_hunks(vocab, old, hunks):
        writer.carry_out(hunk)
    return writer.ids


def possible_hunks(vocab: ActionVocab, before: Tokens, hunks: Sequence[Hunk]) -> list[Hunk]:
    """Return the hunks, or others with the same outcome that the vocabulary's operators allow."""
    replaces, deletes = vocab.replace is not None, vocab.delete is not None
    if deletes or vocab.span_delete is not None or all(hunk.removed == 0 for hunk in hunks):
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

    def carry_out(self, hunk: Hunk) -> None:
        """Write the way to a hunk and its edit, with the fewest ids."""
        tokens, removed = hunk.tokens, hunk.removed
        ways = []
        edit = cheapest_edit(self.vocab, removed, tokens)
        if edit is not None:
            ways.append([*self._way(hunk.end), *edit])
        if self.vocab.replace is not None and 2 <= removed <= len(tokens):
            # Replacements from the first token on, with moves of +1 in between; then the inserts.
            replacements: list[Action] = []
            for token in tokens[:removed]:
                replacements += [Action(Kind.MOVE, 1), Action(Kind.REPLACE, token)]
            inserts = [Action(Kind.INSERT, token) for token in tokens[removed:]]
            ways.append([*self._way(hunk.start + 1), *replacements[1:], *inserts])
        # Both end at the end of the hunk, so the choice changes nothing for the hunks after it.
        for action in min(ways, key=lambda way: price(self.vocab, way)):
            self.ids += self.vocab.spell(action)
        self.at = hunk.end
        self.growth += len(tokens) - removed

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
        return min(ways, key=lambda way: price(self.vocab, way))

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


def cheapest_edit(vocab: ActionVocab, removed: int, tokens: Sequence[int]) -> list[Action] | None:
    """Return the cheapest way to replace tokens left of the cursor; None if there is none."""
    inserts = [Action(Kind.INSERT, token) for token in tokens]
    endings = [(removed, inserts)]
    # The first of the new tokens may replace the last of the old ones that is left.
    if vocab.replace is not None and removed and tokens:
        endings.append((removed - 1, [Action(Kind.REPLACE, tokens[0]), *inserts[1:]]))
    # Deleting token by token takes as many ids as tokens; a span takes the digits of its size.
    ways = []
    for count, ending in endings:
        if vocab.delete is not None or not count:
            ways.append([Action(Kind.DELETE)] * count + ending)
        if vocab.span_delete is not None and count:
            ways.append([Action(Kind.SPAN_DELETE, count), *ending])
    return min(ways, key=lambda way: price(vocab, way), default=None)


def price(vocab: ActionVocab, actions: list[Action]) -> tuple[int, int]:
    """Return the number of ids of some actions, and the number of actions."""
    return sum(len(vocab.spell(action)) for action in actions), len(actions)


def _check_address(vocab: ActionVocab, address: Address) -> None:
    if address not in get_args(Address):
        raise ConfigError(f"address is {address!r}; use 'moves', 'search' or 'both'.")
    if address != "moves" and vocab.find is None:
        raise VocabError("This vocabulary has no searches: build it with them, or use 'moves'.")
