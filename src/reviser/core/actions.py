"""The action vocabulary: which ids exist, what each does, and how an action is spelled in ids.

Knows nothing of canvases, text or tensors. Every other room asks here for ids and deltas; no id
literal appears anywhere else. It is saved beside the weights as `action_vocab.json`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reviser.core._moves import fewest_moves, path_capacity
from reviser.errors import VocabError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FILE_NAME = "action_vocab.json"
MOST_MOVE = 1 << 16

IntArray = npt.NDArray[np.int32]


class Kind(IntEnum):
    """What an id does when it comes first, that is, not as another action's argument."""

    INSERT = 0
    MOVE = 1
    STOP = 2
    DELETE = 3
    REPLACE = 4
    SWAP = 5
    SPAN_DELETE = 6
    SPAN_MOVE = 7
    SPAN_COPY = 8
    MARK = 9  # leaves something out here, to come back to
    BACK = 10  # to the first mark, which it takes off
    FIND = 11  # to behind the next place that holds the tokens typed
    HERE = 12  # closes a search
    END = 13  # closes a number
    GIVEN = 14  # begin and delimiter: part of a history, never chosen, no effect on the canvas
    BARRED = 15  # a token that a prefix may hold, as a chat template does, but is never chosen
    FORBIDDEN = 16  # reserved ids: never in a history


MOVES = (Kind.MOVE, Kind.BACK, Kind.FIND)
"""What only takes the cursor elsewhere."""

_KINDS = tuple(Kind)  # by value: several times faster than Kind(value)

OPERATORS = ("delete", "replace", "swap", "span_delete", "span_move", "span_copy")
"""The appendix's operators; a vocabulary has any subset of them."""

_NUMBER_ARGUMENTS = {Kind.SPAN_DELETE: 1, Kind.SPAN_MOVE: 2, Kind.SPAN_COPY: 2}
_EFFECTS = {  # kind -> (change of length, change of cursor); a span's depend on its arguments
    Kind.INSERT: (1, 1),
    Kind.BARRED: (1, 1),
    Kind.DELETE: (-1, -1),
    Kind.REPLACE: (-1, -1),  # its argument is an insert, which adds the token back
}


@dataclass(frozen=True)
class Action:
    """One whole action as a value: what several ids may spell.

    `argument` is the token of an insert or replace, the delta of a move, the length of a span.
    `offset` belongs to the last two operators: for SPAN_MOVE, how many tokens the span jumps over
    (negative: to the left); for SPAN_COPY, where the copy goes relative to the cursor. `tokens` is
    what FIND looks for.

    >>> print(Action(Kind.MOVE, -4), Action(Kind.SPAN_MOVE, 3, -2), Action(Kind.STOP), sep=", ")
    move -4, span_move 3 -2, stop
    """

    kind: Kind
    argument: int = 0
    offset: int = 0
    tokens: tuple[int, ...] = field(default=(), kw_only=True)

    def __str__(self) -> str:
        name, numbers = self.kind.name.lower(), _NUMBER_ARGUMENTS.get(self.kind, 0)
        if self.kind is Kind.FIND:
            return " ".join([name, *map(str, self.tokens)])
        if self.kind is Kind.MOVE:
            return f"{name} {self.argument:+d}"
        if numbers == 2:
            return f"{name} {self.argument} {self.offset:+d}"
        takes_one = numbers == 1 or self.kind in (Kind.INSERT, Kind.REPLACE)
        return f"{name} {self.argument}" if takes_one else name


@dataclass(frozen=True, kw_only=True)
class ActionVocab:
    """The id layout of one model; frozen, shared by everything that handles its actions.

    Ids below `tokens` are the tokenizer's and insert themselves. Ids from `tokens` to `size` that
    no field names are reserved: never allowed.

    >>> vocab = ActionVocab.paper()
    >>> vocab.stop, vocab.move_id(+1), vocab.move_id(-512), vocab.size
    (50260, 50261, 50280, 50291)
    """

    tokens: int
    """Size of the tokenizer's vocabulary, V_c."""
    size: int
    """All ids, reserved ones included; a trunk's embedding has at least so many rows."""
    max_move: int
    """The largest delta, a power of two; the deltas are +-1, +-2, +-4, ... +-max_move."""
    first_move: int
    """Id of move +1; then -1, +2, -2, ... follow."""
    stop: int
    begin: int | None = None
    """First id of every history, so that an empty prefix still gives the trunk an input."""
    delimiter: int | None = None
    """Stands between prefix and continuation; None for the paper's protocol."""
    delete: int | None = None
    replace: int | None = None
    swap: int | None = None
    span_delete: int | None = None
    span_move: int | None = None
    span_copy: int | None = None
    end: int | None = None
    """Closes a number; present exactly if an operator takes a number."""
    never_insert: tuple[int, ...] = ()
    """Tokens that are never chosen, such as an end-of-text marker; a prefix may hold them."""
    back: int | None = None
    """Takes the cursor to the leftmost mark, and the mark off; present exactly if `mark` is."""
    mark: int | None = None
    """Leaves a mark at the cursor, where something is left out for now."""
    find: int | None = None
    """Begins a search, which tokens narrow down: to the next place to the right that holds them."""
    here: int | None = None
    """Closes a search: the cursor is behind what was found; present exactly if `find` is."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_move <= MOST_MOVE or self.max_move & (self.max_move - 1):
            raise VocabError(
                f"max_move is {self.max_move}; it must be a power of two from 1 to {MOST_MOVE}."
            )
        named = self._named_ids()
        outside = {name: i for name, i in named.items() if not 0 <= i < self.size}
        if not 0 < self.tokens <= self.size:
            raise VocabError(f"tokens is {self.tokens}; it must be from 1 to size, {self.size}.")
        if outside:
            raise VocabError(f"These ids lie outside 0..{self.size - 1}: {outside}. Raise size.")
        if not all(0 <= i < self.tokens for i in self.never_insert):
            raise VocabError(f"never_insert must name tokens, 0..{self.tokens - 1}.")
        if len(set(named.values())) < len(named):
            raise VocabError(f"Two names share one id in {named}. Give each its own.")
        insertable = {
            name: i
            for name, i in named.items()
            if i < self.tokens and i not in set(self.never_insert)
        }
        if insertable:
            raise VocabError(
                f"These control ids are also ordinary tokens: {insertable}. Add them to"
                f" never_insert, or use ids from {self.tokens} on."
            )
        if (self.mark is None) != (self.back is None):
            raise VocabError("A mark is for coming back to: give both `mark` and `back`, or none.")
        if (self.find is None) != (self.here is None):
            raise VocabError("A search has two ends: give both `find` and `here`, or none.")
        operators = [getattr(self, kind.name.lower()) for kind in _NUMBER_ARGUMENTS]
        takes_number = any(i is not None for i in operators)
        if takes_number != (self.end is not None):
            raise VocabError("Span operators need an `end` id to close numbers; others none.")

    # -- building -----------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        tokens: int,
        *,
        operators: Iterable[str] = (),
        max_move: int = 512,
        begin: int | None = None,
        delimiter: bool = True,
        marks: bool = False,
        search: bool = False,
        reserved: int = 0,
        never_insert: Iterable[int] = (),
    ) -> ActionVocab:
        """Lay out our own vocabulary behind `tokens` ordinary tokens.

        Give `begin` to reuse an existing token as the begin token, as when a pretrained model
        already starts its texts with one.

        >>> vocab = ActionVocab.build(4096, operators=["delete", "replace"])
        >>> [name for name in vocab.control_tokens][:4]
        ['<|begin|>', '<|delimiter|>', '<|stop|>', '<|move+1|>']
        """
        chosen = [operators] if isinstance(operators, str) else list(operators)
        unknown = sorted(set(chosen) - set(OPERATORS))
        if unknown:
            raise VocabError(f"Unknown operators {unknown}. Known: {', '.join(OPERATORS)}.")
        barred = {*never_insert, *([] if begin is None else [begin])}
        names = ["delimiter"] * delimiter + ["stop", "first_move"]
        names += [name for name in OPERATORS if name in chosen]
        names += ["end"] * any(name.startswith("span") for name in chosen)
        names += ["back", "mark"] * marks + ["find", "here"] * search
        if begin is None:
            names.insert(0, "begin")
        ids: dict[str, int] = {} if begin is None else {"begin": begin}
        free = tokens
        for name in names:
            ids[name] = free
            free += 2 * max_move.bit_length() if name == "first_move" else 1
        return cls(
            tokens=tokens,
            size=free + reserved,
            max_move=max_move,
            never_insert=tuple(sorted(barred)),
            **ids,
        )

    @classmethod
    def paper(cls, *, delete: bool = False) -> ActionVocab:
        """The released checkpoints' layout, id for id (GPT-2's 50,257 tokens, then controls).

        50257 (cursor marker), 50258 (end of input) and the last ten ids are reserved there, and
        so is DELETE (50259), which was never trained: ask for it with `delete`.
        """
        return cls(
            tokens=50257,
            size=50291,
            max_move=512,
            first_move=50261,
            stop=50260,
            delete=50259 if delete else None,
            never_insert=(50256,),
        )

    @classmethod
    def from_tokenizer(
        cls,
        tokenizer: Tokenizer | Any,
        *,
        operators: Iterable[str] = (),
        max_move: int = 512,
        begin: str | None = None,
        delimiter: bool = True,
        marks: bool = False,
        search: bool = False,
        reserved: int = 0,
    ) -> ActionVocab:
        """Extend a tokenizer with the control tokens and return the vocabulary over it.

        Takes a `tokenizers.Tokenizer` or a fast tokenizer of Transformers, and changes it: the
        control tokens become added special tokens of its `tokenizer.json`, so every engine knows
        them. The tokenizer's own special tokens are never inserted; `begin` names one to reuse.
        """
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        known = backend.get_vocab(with_added_tokens=True)
        tokens = max(known.values()) + 1
        special = {i for i, token in backend.get_added_tokens_decoder().items() if token.special}
        holes = set(range(tokens)) - set(known.values())
        if begin is not None and begin not in known:
            raise VocabError(f"The tokenizer has no token {begin!r} to begin with.")
        vocab = cls.build(
            tokens,
            operators=operators,
            max_move=max_move,
            begin=None if begin is None else known[begin],
            delimiter=delimiter,
            marks=marks,
            search=search,
            reserved=reserved,
            never_insert=special | holes,
        )
        vocab.extend(tokenizer)
        return vocab

    def extend(self, tokenizer: Tokenizer | Any) -> None:
        """Add the control tokens to a tokenizer, under this vocabulary's ids."""
        from tokenizers import AddedToken

        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        known = backend.get_vocab(with_added_tokens=True)
        added = {name: i for name, i in self.control_tokens.items() if i >= self.tokens}
        taken = sorted(set(added) & set(known))
        if taken:
            raise VocabError(
                f"The tokenizer already has {taken[0]!r}: it was extended before. Open its"
                f" {FILE_NAME} with ActionVocab.load instead."
            )
        if max(known.values()) + 1 != self.tokens:
            raise VocabError(
                f"The tokenizer's ids end at {max(known.values())}; this vocabulary's control"
                f" tokens begin at {self.tokens}, so they do not follow it."
            )
        backend.add_special_tokens([AddedToken(name, special=True) for name in added])
        got = {name: backend.token_to_id(name) for name in added}
        if got != added:
            raise VocabError(f"The tokenizer numbered the control tokens {got}, not {added}.")

    # -- saving -------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The text of `action_vocab.json`; absent operators are left out."""
        fields = {k: v for k, v in dataclasses.asdict(self).items() if v is not None}
        return json.dumps({"format": 1, **fields}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> ActionVocab:
        """Read what `to_json` wrote.

        >>> ActionVocab.from_json(ActionVocab.paper().to_json()) == ActionVocab.paper()
        True
        """
        try:
            fields = json.loads(text)
        except json.JSONDecodeError as error:
            raise VocabError(f"This is not JSON, so not an {FILE_NAME}: {error}.") from error
        if not isinstance(fields, dict) or fields.pop("format", None) != 1:
            raise VocabError(f"This is not an {FILE_NAME} of format 1.")
        known = {field.name: field.default for field in dataclasses.fields(cls)}
        required = {name for name, default in known.items() if default is dataclasses.MISSING}
        unknown, missing = sorted(fields.keys() - known), sorted(required - fields.keys())
        if unknown or missing:
            raise VocabError(f"{FILE_NAME} has unknown keys {unknown} and lacks {missing}.")
        barred = fields.pop("never_insert", [])
        if not isinstance(barred, list) or not all(
            type(i) is int for i in [*fields.values(), *barred]
        ):
            raise VocabError(f"The values of {FILE_NAME} must be whole numbers.")
        return cls(**fields, never_insert=tuple(barred))

    def save(self, folder: str | Path) -> None:
        """Write `action_vocab.json` into a model folder."""
        (Path(folder) / FILE_NAME).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> ActionVocab:
        """Read `action_vocab.json` from a model folder."""
        path = Path(folder) / FILE_NAME
        if not path.is_file():
            raise VocabError(
                f"There is no {FILE_NAME} in {str(folder)!r}: not a Reviser model. `reviser train`"
                " makes one of a causal LM, by recipes/adapt.yaml."
            )
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except VocabError as error:
            raise VocabError(f"{str(path)!r}: {error}") from error

    # -- asking -------------------------------------------------------------------------------

    @property
    def deltas(self) -> tuple[int, ...]:
        """The moves' deltas in id order: +1, -1, +2, -2, ..."""
        powers = [1 << k for k in range(self.max_move.bit_length())]
        return tuple(delta for power in powers for delta in (power, -power))

    def move_id(self, delta: int) -> int:
        """The id of one move."""
        size = abs(int(delta))
        if size == 0 or size & (size - 1) or size > self.max_move:
            advice = f" Use vocab.split_move({delta}) to write it as several moves." * (size > 0)
            raise VocabError(
                f"Move delta {delta} is not in this vocabulary (allowed: +-1, +-2, ..."
                f" +-{self.max_move}).{advice}"
            )
        return self.first_move + 2 * (size.bit_length() - 1) + (delta < 0)

    def split_move(
        self, distance: int, *, cursor: int | None = None, length: int | None = None
    ) -> tuple[int, ...]:
        """The fewest deltas that add up to `distance`.

        With `cursor` and `length`, every position on the way stays within 0..length.

        >>> vocab = ActionVocab.paper()
        >>> vocab.split_move(7), vocab.split_move(7, cursor=0, length=7)
        ((8, -1), (4, 2, 1))
        """
        if (cursor is None) != (length is None):
            raise VocabError("Give both cursor and length, or neither.")
        if cursor is None or length is None:
            margin = abs(distance) + self.max_move
            cursor, length = margin, 2 * margin + abs(distance)
        if not (0 <= cursor <= length and 0 <= cursor + distance <= length):
            raise VocabError(
                f"Cannot move {distance} from cursor {cursor}: the canvas has length {length}."
            )
        path = np.empty(path_capacity(abs(distance), self.max_move), np.int64)
        count = fewest_moves(cursor, cursor + distance, length, self.max_move, path)
        return tuple(path[:count].tolist())

    @cached_property
    def control_tokens(self) -> dict[str, int]:
        """Name and id of every control token, reserved ones included, in id order."""
        named = {f"<|{name}|>": i for name, i in self._named_ids().items()}
        taken = set(named.values())
        reserved = (i for i in range(self.tokens, self.size) if i not in taken)
        named |= {f"<|reserved_{n}|>": i for n, i in enumerate(reserved)}
        return dict(sorted(named.items(), key=lambda item: item[1]))

    @cached_property
    def kinds(self) -> npt.NDArray[np.uint8]:
        """The `Kind` of every id."""
        kinds = np.full(self.size, Kind.FORBIDDEN, np.uint8)
        kinds[: self.tokens] = Kind.INSERT
        kinds[list(self.never_insert)] = Kind.BARRED
        kinds[self.first_move : self.first_move + len(self.deltas)] = Kind.MOVE
        for name in ("stop", *OPERATORS, "end", "back", "mark", "find", "here"):
            if getattr(self, name) is not None:
                kinds[getattr(self, name)] = Kind[name.upper()]
        kinds[[i for i in (self.begin, self.delimiter) if i is not None]] = Kind.GIVEN
        return kinds

    @cached_property
    def is_move(self) -> npt.NDArray[np.bool_]:
        """Which ids begin what only takes the cursor elsewhere: moves, `back` and `find`."""
        return np.isin(self.kinds, MOVES)

    @cached_property
    def length_deltas(self) -> IntArray:
        """By how much each id changes the canvas length: a history's running sum is its length.

        Exact whenever no action is half spelled, if no span operator is used: the effect of those
        depends on their arguments, which `mask.trace` reads.
        """
        return self._effect_table(0)

    @cached_property
    def cursor_deltas(self) -> IntArray:
        """By how much each id moves the cursor; see `length_deltas`.

        Where `back` and a search lead depends on the canvas.
        """
        table = self._effect_table(1)
        table[self.first_move : self.first_move + len(self.deltas)] = self.deltas
        return table

    @cached_property
    def digit_follows(self) -> npt.NDArray[np.bool_]:
        """The grammar of numbers: whether delta d may follow delta p, at [p + 1, d] in id order.

        Row 0 is for a number without digits yet. Digits have one sign and fall; only the largest
        repeats, so that each number has one spelling.
        """
        delta = np.array(self.deltas)
        before = delta[:, None]
        falls = (abs(delta) < abs(before)) | ((delta == before) & (abs(delta) == self.max_move))
        allowed = falls & ((delta > 0) == (before > 0))
        return np.vstack([np.ones_like(delta, np.bool_), allowed])

    @cached_property
    def controls(self) -> IntArray:
        """Ids whose legality depends on the state: the columns of a mask after its first."""
        ids = [self.stop, *range(self.first_move, self.first_move + len(self.deltas))]
        names = (*OPERATORS, "end", "back", "mark", "find", "here")
        ids += [i for name in names if (i := getattr(self, name)) is not None]
        return np.array(ids, np.int32)

    @cached_property
    def forbidden(self) -> IntArray:
        """Ids that are never chosen, whatever the state."""
        return np.flatnonzero(self.kinds >= Kind.GIVEN).astype(np.int32)

    @property
    def needs_prefix(self) -> bool:
        """Whether a history without a prefix would have no id to begin with.

        >>> vocab = ActionVocab.build(100, delimiter=False)
        >>> vocab.needs_prefix, dataclasses.replace(vocab, begin=None).needs_prefix
        (False, True)
        """
        return self.begin is None and self.delimiter is None

    def prefix_actions(self, prefix: Iterable[int]) -> list[int]:
        """What a history starts with: begin, the prefix's inserts, the delimiter."""
        begin = [] if self.begin is None else [self.begin]
        delimiter = [] if self.delimiter is None else [self.delimiter]
        tokens = [int(token) for token in prefix]
        wrong = [i for i in tokens if self.kind(i) not in (Kind.INSERT, Kind.BARRED)]
        if wrong:
            raise VocabError(f"A prefix holds tokens; id {wrong[0]} is {self.describe(wrong[0])}.")
        ids = [*begin, *tokens, *delimiter]
        if not ids:
            raise VocabError(
                "An empty prefix gives the model no input, and this vocabulary has no begin token."
                " Give a prefix of at least one token."
            )
        return ids

    # -- spelling -----------------------------------------------------------------------------

    def spell(self, action: Action) -> tuple[int, ...]:
        """The ids of a whole action: mostly one; an operator is followed by its arguments.

        A number is written in binary with the moves as digits, largest first, and closed by END.

        >>> vocab = ActionVocab.build(100, operators=["span_delete"])
        >>> [vocab.describe(i) for i in vocab.spell(Action(Kind.SPAN_DELETE, 5))]
        ['span_delete', 'move +4', 'move +1', 'end']
        """
        kind, argument = action.kind, action.argument
        if kind is Kind.MOVE:
            return (self.move_id(argument),)
        if kind is Kind.INSERT:
            return (self._token(argument),)
        closing = kind in (Kind.END, Kind.HERE)
        first = None if closing else getattr(self, kind.name.lower(), None)
        if first is None:
            raise VocabError(f"This vocabulary has no action {kind.name.lower()}.")
        if kind is Kind.REPLACE:
            return (first, self._token(argument))
        if kind is Kind.FIND:
            if not action.tokens:
                raise VocabError("A search needs a token or more to look for; find got none.")
            assert self.here is not None
            return (first, *map(self._token, action.tokens), self.here)
        ids = [first]
        if kind in _NUMBER_ARGUMENTS:
            if argument < 1:
                raise VocabError(
                    f"A span has at least one token; {kind.name.lower()} got {argument}."
                )
            ids += self._number(argument)
        if _NUMBER_ARGUMENTS.get(kind) == 2:
            ids += self._number(action.offset)
        return tuple(ids)

    def read(self, ids: Sequence[int]) -> list[Action]:
        """Whole actions from ids: the inverse of `spell`. Begin and delimiter are passed over.

        >>> vocab = ActionVocab.paper()
        >>> [str(action) for action in vocab.read([15496, vocab.move_id(-1), vocab.stop])]
        ['insert 15496', 'move -1', 'stop']
        """
        actions, rest = [], iter(ids)
        for first in rest:
            kind = self.kind(first)
            if kind is Kind.GIVEN:
                continue
            if kind in (Kind.HERE, Kind.END, Kind.FORBIDDEN):
                raise VocabError(f"{self.describe(first)} (id {first}) cannot start an action.")
            if kind is Kind.FIND:
                actions.append(Action(kind, tokens=self._read_search(rest)))
                continue
            numbers = [self._read_number(rest) for _ in range(_NUMBER_ARGUMENTS.get(kind, 0))]
            if numbers and numbers[0] < 1:
                raise VocabError(f"A span has at least one token; {kind.name.lower()} has none.")
            if kind in (Kind.INSERT, Kind.BARRED):
                kind = Kind.INSERT
                numbers = [int(first)]
            elif kind is Kind.MOVE:
                numbers = [int(self.cursor_deltas[first])]
            elif kind is Kind.REPLACE:
                numbers = [self._token(next(rest, -1))]
            actions.append(Action(kind, *numbers))
        return actions

    def kind(self, action_id: int) -> Kind:
        """What an id does; ids outside the vocabulary are FORBIDDEN."""
        return _KINDS[self.kinds[action_id]] if 0 <= action_id < self.size else Kind.FORBIDDEN

    def describe(self, action_id: int) -> str:
        """One id in words, for messages and listings."""
        kind = self.kind(action_id)
        if kind is Kind.MOVE:
            return f"move {self.cursor_deltas[action_id]:+d}"
        if kind is Kind.INSERT:
            return f"insert {action_id}"
        if kind is Kind.GIVEN:
            return "begin" if action_id == self.begin else "delimiter"
        if kind in (Kind.BARRED, Kind.FORBIDDEN):
            return f"{kind.name.lower()} id {action_id}"
        return kind.name.lower()

    def _named_ids(self) -> dict[str, int]:
        names = ("begin", "delimiter", "stop", *OPERATORS, "end", "back", "mark", "find", "here")
        ids = {name: i for name in names if (i := getattr(self, name)) is not None}
        ids |= {f"move{delta:+d}": self.first_move + n for n, delta in enumerate(self.deltas)}
        return ids

    def _effect_table(self, column: int) -> IntArray:
        by_kind = np.zeros(len(Kind), np.int32)
        for kind, effect in _EFFECTS.items():
            by_kind[kind] = effect[column]
        return by_kind[self.kinds]

    def _token(self, token_id: int) -> int:
        if self.kind(token_id) is not Kind.INSERT:
            raise VocabError(f"Token {token_id} cannot be inserted with this vocabulary.")
        return int(token_id)

    def _number(self, value: int) -> list[int]:
        assert self.end is not None
        strides, rest = divmod(abs(value), self.max_move)
        digits = [self.max_move] * strides
        digits += [1 << k for k in reversed(range(rest.bit_length())) if rest >> k & 1]
        sign = -1 if value < 0 else 1
        return [*(self.move_id(sign * digit) for digit in digits), self.end]

    def _read_search(self, ids: Iterable[int]) -> tuple[int, ...]:
        typed: list[int] = []
        for i in ids:
            if i == self.here and typed:
                return tuple(typed)
            if self.kind(i) is not Kind.INSERT:
                break
            typed.append(int(i))
        raise VocabError("A search is misspelled, or not closed by HERE.")

    def _read_number(self, ids: Iterable[int]) -> int:
        value, previous = 0, 0
        for i in ids:
            if i == self.end:
                return value
            digit = i - self.first_move
            if self.kind(i) is not Kind.MOVE or not self.digit_follows[previous, digit]:
                break
            value += self.deltas[digit]
            previous = digit + 1
        raise VocabError("A number is misspelled, or not closed by END.")
