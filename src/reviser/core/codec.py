"""Text to tokens and back, and edits of tokens to edits of the text a person sees.

Knows a tokenizer's bytes, nothing of actions or masks. Byte-level tokens may hold part of a
character, so an edit can break or join characters on either side; a `TextStream` accounts for it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from reviser.core.canvas import Edit
from reviser.errors import ConfigError, VocabError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Unit = Literal["char", "utf16"]

UNITS = {"token": 1, "word": 2, "sentence": 4}
"""Bits of `Codec.unit_starts`: what begins at a token."""

Marks = npt.NDArray[np.uint8]

_SENTENCE_END = re.compile(r"[.!?\u3002\uff01\uff1f]['\")\]\u201d\u300d\u300f]*\s*$")
_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True, slots=True)
class TextEdit:
    """One change of the visible text: `removed` at `offset` gave way to `inserted`.

    Offset and cursor count characters, or UTF-16 units if the stream was asked for those. A
    cursor inside a character stands behind it.
    """

    offset: int
    removed: str
    inserted: str
    cursor: int
    unit: Unit = "char"

    def apply(self, text: str) -> str:
        """The text after this edit.

        >>> TextEdit(4, "cat", "dog", 7).apply("The cat sat")
        'The dog sat'
        """
        start = self.offset
        if self.unit == "utf16":
            start = len(text.encode("utf-16-le")[: 2 * start].decode("utf-16-le"))
        return text[:start] + self.inserted + text[start + len(self.removed) :]


def read_tokenizer(folder: str | Path) -> Tokenizer:
    """The tokenizer in a model folder, as its `tokenizer.json` says."""
    from tokenizers import Tokenizer

    path = Path(folder) / "tokenizer.json"
    if not path.is_file():
        raise VocabError(f"There is no tokenizer.json in {str(folder)!r}.")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing narrower
        raise VocabError(f"Cannot read {str(path)!r}: {error}.") from error


class Codec:
    """A tokenizer seen as bytes: byte-level BPE, or SentencePiece style with byte fallback.

    Text is never read as control tokens: a user who types `<|stop|>` gets those letters.
    """

    def __init__(self, tokenizer: Tokenizer | Any) -> None:
        from tokenizers import Tokenizer

        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        self._tokenizer: Tokenizer = Tokenizer.from_str(backend.to_str())
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokenizer.encode_special_tokens = True
        self._pre_tokenizer = self._tokenizer.pre_tokenizer  # its own, before any change of ours
        if type(self._tokenizer.model).__name__ == "Unigram":
            _part_special_names(self._tokenizer)
        decoder = self._tokenizer.decoder
        decoders = _decoder_steps(json.loads(decoder.__getstate__()) if decoder else None)
        kinds = {step["type"] for step in decoders}
        self._is_byte_level = "ByteLevel" in kinds
        if not self._is_byte_level and not kinds & {"ByteFallback", "Metaspace"}:
            raise VocabError(
                f"Cannot tell the bytes of this tokenizer's tokens (decoder: {sorted(kinds)})."
                " Use a byte-level BPE or a SentencePiece-style tokenizer."
            )
        self.hides_first_space = any(
            step["type"] == "Strip" or step.get("prepend_scheme", "never") != "never"
            for step in decoders
        )
        """Whether decoding drops one space at the very start, as Llama 2's tokenizer does."""

    @classmethod
    def load(cls, folder: str | Path) -> Codec:
        """Read `tokenizer.json` from a model folder."""
        return cls(read_tokenizer(folder))

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, which are also the ids of its inserts."""
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            raise VocabError("This text is not UTF-8: it holds half a surrogate pair.")
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of several texts, each as `encode` gives them, on all cores."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of what decides how text is read, so of neither names nor special tokens.

        The same before and after `ActionVocab.from_tokenizer` added its own.
        """
        state = json.loads(self._tokenizer.to_str())
        own = {part: state[part] for part in ("model", "normalizer", "decoder")}
        steps = self._pre_tokenizer
        own["pre_tokenizer"] = json.loads(steps.__getstate__()) if steps else None
        own["added_tokens"] = [token for token in state["added_tokens"] if not token["special"]]
        return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()

    def encode_parts(self, parts: Sequence[str]) -> list[list[int]]:
        """Token ids of the parts of a text, of each exactly its bytes.

        A tokenizer that writes a space before every text, and hides it at the very start, writes
        that space before the first part, be it empty, and before no other.
        """
        hidden = b" " if self.hides_first_space else b""
        return [self._encode_part(part, b"" if n else hidden) for n, part in enumerate(parts)]

    def _encode_part(self, part: str, hidden: bytes) -> list[int]:
        whole = self.encode(part)  # refuses what UTF-8 cannot write
        data = hidden + part.encode()

        def candidates() -> Iterator[list[int]]:
            yield whole
            yield self.encode(part[1:])  # to which the tokenizer adds a space
            for anchor in ("\n", "\0"):  # one of them joins neither end, and can be cut off
                between = self.encode(anchor + part + anchor)
                ends = range(1, 4)
                yield from (between[start:-end] for start in ends for end in ends)
                yield from (self.encode(part + anchor)[:-end] for end in ends)

        for tokens in candidates():
            if b"".join([self.token_bytes[token] for token in tokens]) == data:
                return tokens
        raise VocabError(f"This tokenizer cannot write {part[:40]!r} byte for byte.")

    def decode(self, tokens: Iterable[int]) -> str:
        """The visible text; bytes that make no character show as U+FFFD."""
        table = self.token_bytes
        return _decode(b"".join([table[token] for token in tokens]), self.hides_first_space)

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The bytes of every token, by id; empty where the tokenizer has no token."""
        vocab = self._tokenizer.get_vocab(with_added_tokens=True)
        added = {token.content for token in self._tokenizer.get_added_tokens_decoder().values()}
        table = [b""] * (max(vocab.values()) + 1)
        for piece, i in vocab.items():
            as_is = self._is_byte_level and piece in added
            table[i] = piece.encode() if as_is else self._piece_bytes(piece)
        return table

    def unit_starts(self, tokens: Sequence[int] | npt.NDArray[np.integer]) -> Marks:
        """What begins at each token: the bits of `UNITS`.

        A word begins where white space does; a sentence after a token that ends one, as far as
        one token can tell.
        """
        words, ends = self._unit_tables
        ids = np.asarray(tokens, np.int64)
        after_end = np.concatenate([[True], ends[ids[:-1]]])[: len(ids)]
        sentence = np.where(after_end, UNITS["sentence"], 0)
        return (UNITS["token"] + UNITS["word"] * words[ids] + sentence).astype(np.uint8)

    @cached_property
    def _unit_tables(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        words = np.array([token[:1].isspace() for token in self.token_bytes])
        texts = [token.decode("utf-8", "replace") for token in self.token_bytes]
        ends = np.array([bool(_SENTENCE_END.search(text)) for text in texts])
        return words, ends

    def places(self, tokens: Sequence[int]) -> npt.NDArray[np.int64]:
        """How many characters of a text stand before each boundary of its tokens.

        -1 where a boundary lies within a character; a first space that does not show is none.
        """
        parts = [self.token_bytes[token] for token in tokens]
        data = np.frombuffer(b"".join(parts), np.uint8)
        begins = (data & 0xC0) != 0x80
        ends = np.cumsum([0, *map(len, parts)])
        counts = np.cumsum([0, *begins])[ends]
        hidden = self.hides_first_space and data[:1].tobytes() == b" "
        return np.where(np.append(begins, True)[ends], np.maximum(counts - hidden, 0), -1)

    def stream(self, tokens: Sequence[int] = (), *, unit: Unit = "char") -> TextStream:
        """Follow a canvas that holds `tokens`, turning its edits into text edits."""
        return TextStream(self, tokens, unit=unit)

    def _piece_bytes(self, piece: str) -> bytes:
        if self._is_byte_level:
            inside = _BYTE_OF.keys() >= set(piece)
            return bytes(_BYTE_OF[char] for char in piece) if inside else piece.encode()
        byte = _BYTE_PIECE.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace("\u2581", " ").encode()


class TextStream:
    """The visible text of one canvas as it is edited.

    Keeps, like the canvas, two stacks that meet where the last edit was, with the number of
    characters that begin in each token, so an edit costs its size and its distance from the last.
    """

    def __init__(self, codec: Codec, tokens: Sequence[int] = (), *, unit: Unit = "char") -> None:
        if unit not in ("char", "utf16"):
            raise ConfigError(f"unit is {unit!r}; use 'char' or 'utf16'.")
        self._codec = codec
        self._unit = unit
        self._left: list[bytes] = []
        self._right: list[bytes] = []  # reversed: the last is next to the boundary
        self._left_units: list[int] = []  # units of the characters that begin in each token
        self._right_units: list[int] = []
        self._offset = 0  # sum of _left_units
        if len(tokens):
            self.feed(Edit(0, (), tuple(tokens), 0, len(tokens)))

    @property
    def text(self) -> str:
        """The visible text now."""
        return _decode(b"".join(self._left + self._right[::-1]), self._codec.hides_first_space)

    def feed(self, edit: Edit) -> TextEdit:
        """Take the canvas's edit; give the edit of the text."""
        if not edit.changes_text:
            self._go_to(edit.cursor)
            return TextEdit(self._offset, "", "", self._offset, self._unit)
        self._go_to(edit.position + len(edit.removed))
        removed = self._take(len(edit.removed))
        inserted = [self._codec.token_bytes[token] for token in edit.inserted]
        before, after, hide = self._context()
        old = _read(before + removed + after, self._unit, hide)
        new = _read(before + inserted + after, self._unit, hide)
        first, last = len(before), len(new.units) - len(after)
        offset = self._offset - sum(old.units[:first])
        for n in range(first):
            self._left_units[n - first] += new.units[n] - old.units[n]
        for n in range(1, len(after) + 1):  # the last part in reading order is deepest
            self._right_units[n - 1 - len(after)] += new.units[-n] - old.units[-n]
        self._left += inserted
        self._left_units += new.units[first:last]
        self._offset = offset + sum(new.units[:last])
        self._go_to(edit.cursor)
        return self._trimmed(offset, old, new, first, len(after))

    def _trimmed(
        self, offset: int, old: _Window, new: _Window, before: int, after: int
    ) -> TextEdit:
        """The edit from one window to the other, without the context that stayed as it was."""
        head = sum(old.chars[:before])
        kept = next((n for n in range(head) if old.text[n] != new.text[n]), head)
        tail = min(sum(w.chars[len(w.chars) - after :]) for w in (old, new))
        same = next((n for n in range(tail) if old.text[-1 - n] != new.text[-1 - n]), tail)
        return TextEdit(
            offset + sum(_size(char, self._unit) for char in old.text[:kept]),
            old.text[kept : len(old.text) - same],
            new.text[kept : len(new.text) - same],
            self._offset,
            self._unit,
        )

    def _context(self) -> tuple[list[bytes], list[bytes], bool]:
        """Parts of the neighbouring tokens whose characters an edit here can change.

        UTF-8 falls into step at every byte that does not continue a character, and a character
        has at most three that do. With a hidden first space, what is first matters too: the
        third result says that the parts begin the text and its first space does not show.
        """
        left, right = b"".join(_tail(self._left, 3)), b"".join(_head(self._right, 3))
        back, ahead = _open_bytes(left), _continuing_bytes(right)
        hide = self._codec.hides_first_space and not left
        if hide:
            ahead += right[ahead : ahead + 1] == b" "
        return _tail(self._left, back), _head(self._right, ahead), hide

    def _take(self, count: int) -> list[bytes]:
        """Pop the last `count` tokens left of the boundary."""
        start = len(self._left) - count
        taken = self._left[start:]
        self._offset -= sum(self._left_units[start:])
        del self._left[start:], self._left_units[start:]
        return taken

    def _go_to(self, position: int) -> None:
        distance = position - len(self._left)
        if distance > 0:
            self._offset += sum(self._right_units[-distance:])
            _shift(self._right, self._left, distance)
            _shift(self._right_units, self._left_units, distance)
        elif distance < 0:
            self._offset -= sum(self._left_units[distance:])
            _shift(self._left, self._right, -distance)
            _shift(self._left_units, self._right_units, -distance)


@dataclass(frozen=True, slots=True)
class _Window:
    """Some bytes read as text, with what begins in each of the parts they came in."""

    text: str
    chars: list[int]
    units: list[int]


def _read(parts: list[bytes], unit: Unit, hide_first_space: bool) -> _Window:
    data = b"".join(parts)
    text = data.decode("utf-8", "replace")
    hidden = hide_first_space and text.startswith(" ")
    if data.isascii() and not hidden:
        sizes = [len(part) for part in parts]
        return _Window(text, sizes, sizes)
    chars, units = [0] * len(parts), [0] * len(parts)
    part, part_end, position = 0, len(parts[0]), 0
    for n, char in enumerate(text):
        while position >= part_end:
            part += 1
            part_end += len(parts[part])
        if n > 0 or not hidden:
            chars[part] += 1
            units[part] += _size(char, unit)
        position += _width(data, position, char)
    return _Window(text[hidden:], chars, units)


def _width(data: bytes, position: int, char: str) -> int:
    """How many bytes a decoded character took; a replaced one stands for up to three."""
    if char != "\ufffd":
        return len(char.encode())
    tries = (data[position : position + n] for n in (3, 2, 1))
    return next(len(piece) for piece in tries if piece.decode("utf-8", "replace") == "\ufffd")


def _size(char: str, unit: Unit) -> int:
    return 2 if unit == "utf16" and ord(char) > 0xFFFF else 1


def _open_bytes(data: bytes) -> int:
    """How many of the last bytes may belong to a character that what follows completes."""
    for n in range(1, min(3, len(data)) + 1):
        if data[-n] >= 0xC0:
            return n
        if data[-n] < 0x80:
            return 0
    return 0


def _continuing_bytes(data: bytes) -> int:
    """How many of the first bytes may belong to a character begun before them."""
    return next((n for n, byte in enumerate(data[:3]) if byte & 0xC0 != 0x80), len(data[:3]))


def _tail(tokens: list[bytes], size: int) -> list[bytes]:
    """The last `size` bytes, in the parts that the tokens hold of them."""
    parts: list[bytes] = []
    for token in reversed(tokens):
        if size == 0:
            break
        parts.append(token[-size:])
        size -= len(parts[-1])
    return parts[::-1]


def _head(reversed_tokens: list[bytes], size: int) -> list[bytes]:
    """The first `size` bytes of tokens kept in reverse."""
    parts: list[bytes] = []
    for token in reversed(reversed_tokens):
        if size == 0:
            break
        parts.append(token[:size])
        size -= len(parts[-1])
    return parts


def _shift(source: list[Any], target: list[Any], count: int) -> None:
    """Move the last `count` of one stack onto the other, which faces it."""
    target.extend(reversed(source[-count:]))
    del source[-count:]


def _decode(data: bytes, hide_first_space: bool) -> str:
    text = data.decode("utf-8", "replace")
    return text[1:] if hide_first_space and text.startswith(" ") else text


def _part_special_names(tokenizer: Tokenizer) -> None:
    """Cut the names of special tokens in two where a text holds them.

    A Unigram model has those names among its pieces and would match them in any text. Lower
    scores do not help: what it does not know scores below its lowest.
    """
    from tokenizers import Regex, pre_tokenizers

    added = tokenizer.get_added_tokens_decoder().values()
    names = [token.content for token in added if token.special]
    cuts = "|".join(f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in names)
    if cuts:
        before = [] if tokenizer.pre_tokenizer is None else [tokenizer.pre_tokenizer]
        split = pre_tokenizers.Split(Regex(cuts), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*before, split])


def _decoder_steps(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    if decoder is None:
        return []
    if decoder["type"] == "Sequence":
        return [step for part in decoder["decoders"] for step in _decoder_steps(part)]
    return [decoder]


def _byte_level_alphabet() -> dict[str, int]:
    # Byte-level BPE writes each byte as one visible character: itself where it is printable
    # Latin-1, else the next unused one from U+0100 on.
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in shown]
    return {chr(b): b for b in shown} | {chr(0x100 + n): b for n, b in enumerate(others)}


_BYTE_OF = _byte_level_alphabet()
