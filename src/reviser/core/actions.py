"""The action vocabulary: how actions are spelled in ids, and how it is built and saved.

Every other package asks here for ids; no id literal appears anywhere else. The id layout and its
tables are in `layout`. A vocabulary is saved next to the weights as `action_vocab.json`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reviser.core._moves import shortest_path
from reviser.core.kinds import MOVES, NUMBER_ARGUMENTS, OPERATORS, Action, Kind
from reviser.core.layout import VocabLayout
from reviser.errors import VocabError
from reviser.files import read_object

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["FILE_NAME", "MOVES", "OPERATORS", "Action", "ActionVocab", "Kind"]

FILE_NAME = "action_vocab.json"


@dataclass(frozen=True, kw_only=True)
class ActionVocab(VocabLayout):
    """The action vocabulary of one model; frozen, and shared by all code that handles its actions.

    >>> vocab = ActionVocab.paper()
    >>> vocab.stop, vocab.move_id(+1), vocab.move_id(-512), vocab.size
    (50260, 50261, 50280, 50291)
    """

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
        """Return a vocabulary whose control ids follow `tokens` ordinary tokens.

        Pass `begin` to reuse an existing token as the begin token, for a pretrained model whose
        texts already start with one.

        >>> vocab = ActionVocab.build(4096, operators=["delete", "replace"])
        >>> [name for name in vocab.control_tokens][:4]
        ['<|begin|>', '<|delimiter|>', '<|stop|>', '<|move+1|>']
        """
        chosen = [operators] if isinstance(operators, str) else list(operators)
        unknown = sorted(set(chosen) - set(OPERATORS))
        if unknown:
            raise VocabError(f"Unknown operators {unknown}. Known: {', '.join(OPERATORS)}.")
        never = {*never_insert, *([] if begin is None else [begin])}
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
            never_insert=tuple(sorted(never)),
            **ids,
        )

    @classmethod
    def paper(cls) -> ActionVocab:
        """Return the layout of the released checkpoints: GPT-2's 50,257 tokens, then controls.

        Every history begins with 50258, which the paper's code calls END_OF_INPUT: its trainer and
        its sampler put it there. Ids 50257 (cursor marker) and the last ten are reserved. So is
        50259 (DELETE), which was never trained.

        >>> ActionVocab.paper().prefix_actions([15496, 995])
        [50258, 15496, 995]
        """
        return cls(
            tokens=50257,
            size=50291,
            max_move=512,
            first_move=50261,
            stop=50260,
            begin=50258,
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

        The tokenizer is a `tokenizers.Tokenizer` or a fast tokenizer of Transformers. It is
        changed: the control tokens become special tokens of its `tokenizer.json`, so every engine
        knows them. Its own special tokens are never inserted; `begin` names one to reuse.
        """
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        known = backend.get_vocab(with_added_tokens=True)
        tokens = max(known.values()) + 1
        special = {i for i, token in backend.get_added_tokens_decoder().items() if token.special}
        holes = set(range(tokens)) - set(known.values())
        if begin is not None and begin not in known:
            raise VocabError(f"The tokenizer has no token {begin!r} that could be the begin token.")
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
        """Return the text of `action_vocab.json`; absent operators are left out."""
        fields = {k: v for k, v in dataclasses.asdict(self).items() if v is not None}
        return json.dumps({"format": 1, **fields}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> ActionVocab:
        """Return the vocabulary that `to_json` wrote.

        >>> ActionVocab.from_json(ActionVocab.paper().to_json()) == ActionVocab.paper()
        True
        """
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise VocabError(f"This is not JSON, so not an {FILE_NAME}: {error}.") from error
        return cls._from_fields(fields)

    @classmethod
    def _from_fields(cls, fields: Any) -> ActionVocab:
        if not isinstance(fields, dict) or fields.pop("format", None) != 1:
            raise VocabError(f"This is not an {FILE_NAME} of format 1.")
        known = {field.name: field.default for field in dataclasses.fields(cls)}
        required = {name for name, default in known.items() if default is dataclasses.MISSING}
        unknown = sorted(name[:40] for name in fields.keys() - known)
        missing = sorted(required - fields.keys())
        if unknown or missing:
            raise VocabError(f"{FILE_NAME} has unknown keys {unknown[:9]} and lacks {missing}.")
        never = fields.pop("never_insert", [])
        if not isinstance(never, list) or not all(
            type(i) is int for i in [*fields.values(), *never]
        ):
            raise VocabError(f"The values of {FILE_NAME} must be whole numbers.")
        return cls(**fields, never_insert=tuple(never))

    def save(self, folder: str | Path) -> None:
        """Write `action_vocab.json` into a model folder."""
        (Path(folder) / FILE_NAME).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> ActionVocab:
        """Read `action_vocab.json` from a model folder."""
        path = Path(folder) / FILE_NAME
        if not path.is_file():
            raise VocabError(
                f"There is no {FILE_NAME} in {str(folder)!r}: not a Reviser model. To turn a causal"
                " LM into one, use `reviser train` with recipes/adapt.yaml."
            )
        fields = read_object(path, VocabError)
        try:
            return cls._from_fields(fields)
        except VocabError as error:
            raise VocabError(f"{str(path)!r}: {error}") from error

    # -- spelling -----------------------------------------------------------------------------

    def spell(self, action: Action) -> tuple[int, ...]:
        """Return the ids of a whole action: usually one, or an operator and its arguments.

        A number is written in binary with the moves as digits, largest first. NUMBER_END ends it.

        >>> vocab = ActionVocab.build(100, operators=["span_delete"])
        >>> [vocab.describe(i) for i in vocab.spell(Action(Kind.SPAN_DELETE, 5))]
        ['span_delete', 'move +4', 'move +1', 'end']
        """
        kind, argument = action.kind, action.argument
        if kind is Kind.MOVE:
            return (self.move_id(argument),)
        if kind is Kind.INSERT:
            return (self._token(argument),)
        # These two end an action and are none themselves.
        is_last = kind in (Kind.NUMBER_END, Kind.FIND_END)
        first = None if is_last else getattr(self, kind.word, None)
        if first is None:
            raise VocabError(f"This vocabulary has no action {kind.word}.")
        if kind is Kind.REPLACE:
            return (first, self._token(argument))
        if kind is Kind.FIND:
            if not action.tokens:
                raise VocabError("A search needs at least one token; find got none.")
            assert self.here is not None
            return (first, *map(self._token, action.tokens), self.here)
        ids = [first]
        if kind in NUMBER_ARGUMENTS:
            if argument < 1:
                raise VocabError(f"A span has at least one token; {kind.word} got {argument}.")
            ids += self._number(argument)
        if NUMBER_ARGUMENTS.get(kind) == 2:
            ids += self._number(action.offset)
        return tuple(ids)

    def read(self, ids: Sequence[int]) -> list[Action]:
        """Return the whole actions that ids spell, skipping begin and delimiter.

        >>> vocab = ActionVocab.paper()
        >>> [str(action) for action in vocab.read([15496, vocab.move_id(-1), vocab.stop])]
        ['insert 15496', 'move -1', 'stop']
        """
        return list(self.read_each(ids))

    def read_each(self, ids: Iterable[int]) -> Iterator[Action]:
        """Yield the actions that `read` returns, reading no id before it is needed."""
        rest = iter(ids)
        for first in rest:
            kind = self.kind(first)
            if kind is Kind.SEPARATOR:
                continue
            if kind in (Kind.FIND_END, Kind.NUMBER_END, Kind.RESERVED):
                raise VocabError(f"{self.describe(first)} (id {first}) cannot start an action.")
            if kind is Kind.FIND:
                yield Action(kind, tokens=self._read_search(rest))
                continue
            numbers = [self._read_number(rest) for _ in range(NUMBER_ARGUMENTS.get(kind, 0))]
            if numbers and numbers[0] < 1:
                raise VocabError(f"A span has at least one token; {kind.word} has none.")
            if kind in (Kind.INSERT, Kind.PREFIX_ONLY):
                kind = Kind.INSERT
                numbers = [int(first)]
            elif kind is Kind.MOVE:
                numbers = [int(self.cursor_deltas[first])]
            elif kind is Kind.REPLACE:
                numbers = [self._token(next(rest, -1))]
            yield Action(kind, *numbers)

    def split_move(
        self, distance: int, *, cursor: int | None = None, length: int | None = None
    ) -> tuple[int, ...]:
        """Return the fewest deltas that add up to `distance`.

        With `cursor` and `length`, every position on the way stays within 0..length.

        >>> vocab = ActionVocab.paper()
        >>> vocab.split_move(7), vocab.split_move(7, cursor=0, length=7)
        ((8, -1), (4, 2, 1))
        """
        if (cursor is None) != (length is None):
            raise VocabError("Give both cursor and length, or neither.")
        margin = abs(distance) + self.max_move  # no shortest path goes further to either side
        endless = margin, margin + distance, 2 * margin + abs(distance)
        path = shortest_path(*endless, self.max_move)
        if cursor is None or length is None:
            return path
        if not (0 <= cursor <= length and 0 <= cursor + distance <= length):
            raise VocabError(
                f"Cannot move {distance} from cursor {cursor}: the canvas has length {length}."
            )
        # The search returns the first of the shortest paths in a fixed order, and the edges of a
        # canvas only remove paths. So if the first one of an endless canvas fits, it stays first.
        if all(0 <= position <= length for position in accumulate(path, initial=cursor)):
            return path
        return shortest_path(cursor, cursor + distance, length, self.max_move)

    @property
    def needs_prefix(self) -> bool:
        """True if a history with an empty prefix would have no first id.

        >>> vocab = ActionVocab.build(100, delimiter=False)
        >>> vocab.needs_prefix, dataclasses.replace(vocab, begin=None).needs_prefix
        (False, True)
        """
        return self.begin is None and self.delimiter is None

    def prefix_actions(self, prefix: Iterable[int]) -> list[int]:
        """Return the start of a history: begin, the prefix's tokens, the delimiter."""
        begin = [] if self.begin is None else [self.begin]
        delimiter = [] if self.delimiter is None else [self.delimiter]
        tokens = [int(token) for token in prefix]
        allowed = (Kind.INSERT, Kind.PREFIX_ONLY)
        wrong = [i for i in dict.fromkeys(tokens) if self.kind(i) not in allowed]
        if wrong:
            raise VocabError(f"A prefix holds tokens; id {wrong[0]} is {self.describe(wrong[0])}.")
        ids = [*begin, *tokens, *delimiter]
        if not ids:
            raise VocabError(
                "An empty prefix gives the model no input, and this vocabulary has no begin token."
                " Give a prefix of at least one token."
            )
        return ids

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
        raise VocabError("A search is misspelled, or FIND_END is missing at its end.")

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
        raise VocabError("A number is misspelled, or NUMBER_END is missing at its end.")
