"""The id layout of an action vocabulary: which ids exist, and tables of what each one does.

This is data and lookup tables only. `actions.ActionVocab` adds how actions are spelled in ids and
how a vocabulary is built, saved and loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from reviser.core.kinds import KIND_OF_WORD, MOVES, NUMBER_ARGUMENTS, OPERATORS, Kind
from reviser.errors import VocabError

MAX_DELTA = 1 << 16
"""The largest `max_move` that a vocabulary may have."""
MAX_IDS = 1 << 22
"""Most ids that a vocabulary may have: tables by id take memory for each. Real ones have up to a
few hundred thousand."""

IntArray = npt.NDArray[np.int32]

_KINDS = tuple(Kind)  # indexing by value is several times faster than Kind(value)
_EFFECTS = {  # kind -> (change of length, change of cursor); a span's depend on its arguments
    Kind.INSERT: (1, 1),
    Kind.PREFIX_ONLY: (1, 1),
    Kind.DELETE: (-1, -1),
    Kind.REPLACE: (-1, -1),  # its argument is an insert, which adds the token back
}


def check_max_move(longest: int) -> None:
    """Refuse a longest move that is not a power of two, or too large."""
    if not 1 <= longest <= MAX_DELTA or longest & (longest - 1):
        raise VocabError(f"max_move is {longest}; it must be a power of two from 1 to {MAX_DELTA}.")


@dataclass(frozen=True, kw_only=True)
class VocabLayout:
    """The ids of one model's actions.

    Ids below `tokens` are the tokenizer's and insert themselves. Ids from `tokens` to `size` that
    no field names are reserved: they are never allowed.
    """

    tokens: int
    """Size of the tokenizer's vocabulary, the paper's V_c."""
    size: int
    """Number of ids, reserved ones included; a model's embedding has at least this many rows."""
    max_move: int
    """The largest delta, a power of two. The deltas are +-1, +-2, +-4, ... +-max_move."""
    first_move: int
    """Id of move +1. The ids of -1, +2, -2, ... follow it."""
    stop: int
    begin: int | None = None
    """First id of every history, so that the model has an input even if the prefix is empty."""
    delimiter: int | None = None
    """Separator between prefix and continuation; None for the paper's protocol."""
    delete: int | None = None
    replace: int | None = None
    swap: int | None = None
    span_delete: int | None = None
    span_move: int | None = None
    span_copy: int | None = None
    end: int | None = None
    """Ends a number; present exactly if an operator takes a number."""
    never_insert: tuple[int, ...] = ()
    """Tokens that are never chosen, such as an end-of-text token; a prefix may hold them."""
    back: int | None = None
    """Moves the cursor to the leftmost mark and removes the mark; present exactly if `mark` is."""
    mark: int | None = None
    """Leaves a mark at the cursor, where text is left out for now."""
    find: int | None = None
    """Begins a search to the right of the cursor; tokens follow that narrow it down."""
    here: int | None = None
    """Ends a search: the cursor moves to the end of the match; present exactly if `find` is."""

    def __post_init__(self) -> None:
        check_max_move(self.max_move)
        if not 0 < self.tokens <= self.size:
            raise VocabError(f"tokens is {self.tokens}; it must be from 1 to size, {self.size}.")
        if self.size > MAX_IDS:
            raise VocabError(f"size is {self.size}; a vocabulary has at most {MAX_IDS:,} ids.")
        if not all(0 <= i < self.tokens for i in self.never_insert):
            raise VocabError(f"never_insert must name tokens, 0..{self.tokens - 1}.")
        self._check_named_ids()
        if (self.mark is None) != (self.back is None):
            raise VocabError("Marks need two ids: give both `mark` and `back`, or neither.")
        if (self.find is None) != (self.here is None):
            raise VocabError("Searches need two ids: give both `find` and `here`, or neither.")
        operators = [getattr(self, kind.word) for kind in NUMBER_ARGUMENTS]
        if any(i is not None for i in operators) != (self.end is not None):
            raise VocabError("Span operators need an `end` id that ends numbers; others have none.")

    def _check_named_ids(self) -> None:
        named = self._named_ids()
        outside = {name: i for name, i in named.items() if not 0 <= i < self.size}
        if outside:
            raise VocabError(f"These ids lie outside 0..{self.size - 1}: {outside}. Raise size.")
        if len(set(named.values())) < len(named):
            raise VocabError(f"Two names share one id in {named}. Give each its own.")
        never = set(self.never_insert)
        ambiguous = {name: i for name, i in named.items() if i < self.tokens and i not in never}
        if ambiguous:
            raise VocabError(
                f"These control ids are also ordinary tokens: {ambiguous}. Add them to"
                f" never_insert, or use ids from {self.tokens} on."
            )

    def _named_ids(self) -> dict[str, int]:
        names = ("begin", "delimiter", "stop", *OPERATORS, "end", "back", "mark", "find", "here")
        ids = {name: i for name in names if (i := getattr(self, name)) is not None}
        ids |= {f"move{delta:+d}": self.first_move + n for n, delta in enumerate(self.deltas)}
        return ids

    # -- ids ----------------------------------------------------------------------------------

    @property
    def deltas(self) -> tuple[int, ...]:
        """The moves' deltas in id order: +1, -1, +2, -2, ..."""
        powers = [1 << k for k in range(self.max_move.bit_length())]
        return tuple(delta for power in powers for delta in (power, -power))

    def move_id(self, delta: int) -> int:
        """Return the id of one move."""
        size = abs(int(delta))
        if size == 0 or size & (size - 1) or size > self.max_move:
            advice = f" Use vocab.split_move({delta}) to write it as several moves." * (size > 0)
            raise VocabError(
                f"Move delta {delta} is not in this vocabulary (allowed: +-1, +-2, ..."
                f" +-{self.max_move}).{advice}"
            )
        return self.first_move + 2 * (size.bit_length() - 1) + (delta < 0)

    def kind(self, action_id: int) -> Kind:
        """Return the kind of an id; ids outside the vocabulary are RESERVED."""
        return _KINDS[self.kinds[action_id]] if 0 <= action_id < self.size else Kind.RESERVED

    def describe(self, action_id: int) -> str:
        """Return one id in words, for messages and listings."""
        kind = self.kind(action_id)
        if kind is Kind.MOVE:
            return f"move {self.cursor_deltas[action_id]:+d}"
        if kind is Kind.INSERT:
            return f"insert {action_id}"
        if kind is Kind.SEPARATOR:
            return "begin" if action_id == self.begin else "delimiter"
        if kind is Kind.PREFIX_ONLY:
            return f"prefix-only token {action_id}"
        if kind is Kind.RESERVED:
            return f"{'reserved' if 0 <= action_id < self.size else 'unknown'} id {action_id}"
        return kind.word

    @cached_property
    def control_tokens(self) -> dict[str, int]:
        """Name and id of every control token, reserved ones included, in id order."""
        named = {f"<|{name}|>": i for name, i in self._named_ids().items()}
        taken = set(named.values())
        reserved = (i for i in range(self.tokens, self.size) if i not in taken)
        named |= {f"<|reserved_{n}|>": i for n, i in enumerate(reserved)}
        return dict(sorted(named.items(), key=lambda item: item[1]))

    @cached_property
    def controls(self) -> IntArray:
        """Ids whose legality depends on the state: the columns of a mask after its first."""
        ids = [self.stop, *range(self.first_move, self.first_move + len(self.deltas))]
        names = (*OPERATORS, "end", "back", "mark", "find", "here")
        ids += [i for name in names if (i := getattr(self, name)) is not None]
        return np.array(ids, np.int32)

    @cached_property
    def forbidden(self) -> IntArray:
        """Ids that are never chosen, in any state."""
        return np.flatnonzero(self.kinds >= Kind.SEPARATOR).astype(np.int32)

    # -- tables by id -------------------------------------------------------------------------

    @cached_property
    def kinds(self) -> npt.NDArray[np.uint8]:
        """The `Kind` of every id."""
        kinds = np.full(self.size, Kind.RESERVED, np.uint8)
        kinds[: self.tokens] = Kind.INSERT
        kinds[list(self.never_insert)] = Kind.PREFIX_ONLY
        kinds[self.first_move : self.first_move + len(self.deltas)] = Kind.MOVE
        for name in ("stop", *OPERATORS, "end", "back", "mark", "find", "here"):
            if getattr(self, name) is not None:
                kinds[getattr(self, name)] = KIND_OF_WORD[name]
        # Last: a tokenizer's own token may serve as begin, and never_insert holds it too.
        kinds[[i for i in (self.begin, self.delimiter) if i is not None]] = Kind.SEPARATOR
        return kinds

    @cached_property
    def is_move(self) -> npt.NDArray[np.bool_]:
        """True for ids that begin an action that only moves the cursor: moves, `back`, `find`."""
        return np.isin(self.kinds, MOVES)

    @cached_property
    def length_deltas(self) -> IntArray:
        """Change of the canvas length by each id, so that a running sum of it is the length.

        The sum is exact between whole actions if no span operator occurs: the effect of those
        depends on their arguments, which `history.trace` reads.
        """
        return self._effect_table(0)

    @cached_property
    def cursor_deltas(self) -> IntArray:
        """Change of the cursor by each id; see `length_deltas`.

        It is zero for `back` and for searches: where they lead depends on the canvas.
        """
        table = self._effect_table(1)
        table[self.first_move : self.first_move + len(self.deltas)] = self.deltas
        return table

    def _effect_table(self, column: int) -> IntArray:
        by_kind = np.zeros(len(Kind), np.int32)
        for kind, effect in _EFFECTS.items():
            by_kind[kind] = effect[column]
        return by_kind[self.kinds]

    @cached_property
    def digit_follows(self) -> npt.NDArray[np.bool_]:
        """The grammar of numbers: entry [p + 1, d] is True if delta d may follow delta p.

        Deltas are counted in id order. Row 0 is for a number that has no digits yet. The digits
        of a number have one sign and decrease; only the largest repeats. So every number has
        exactly one spelling.
        """
        delta = np.array(self.deltas)
        before = delta[:, None]
        falls = (abs(delta) < abs(before)) | ((delta == before) & (abs(delta) == self.max_move))
        allowed = falls & ((delta > 0) == (before > 0))
        return np.vstack([np.ones_like(delta, np.bool_), allowed])
