"""The codec: text to tokens and back.

It sees a tokenizer as a table of bytes and knows nothing about actions or masks. `text_stream`
turns edits of tokens into edits of text.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

from reviser.core.layout import MAX_IDS
from reviser.core.text_stream import OffsetUnit, TextEdit, TextStream, decode_bytes
from reviser.errors import VocabError, reason_of
from reviser.files import read_object

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["UNITS", "Codec", "OffsetUnit", "TextEdit", "TextStream", "read_tokenizer"]


UNITS = {"token": 1, "word": 2, "sentence": 4}
"""Bits of `Codec.unit_starts`, by the unit of text that begins at a token."""

_SENTENCE_END = re.compile(r"[.!?\u3002\uff01\uff1f]['\")\]\u201d\u300d\u300f]*\s*$")
_LONG = 2000
"""Characters from which on a text is encoded as a batch, which lets other threads run meanwhile."""
_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")
_MAX_STEPS, _MAX_GROWTH = 64, 100
"""Limits of what a tokenizer does to a text before it looks up its tokens: steps, and how many
times as long they may make it. Steps that each double the text would fill the memory. NFKC as
SentencePiece has it, and then the bytes of each character, are 18 times 4."""
_DECOMPOSING = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "BertNormalizer"}
"""Steps that may write several characters for one; `_LONGEST_FORM` at most, for U+FDFA."""
_LONGEST_FORM = 18


def read_tokenizer(folder: str | Path) -> Tokenizer:
    """Return the tokenizer in a model folder, from its `tokenizer.json`."""
    from tokenizers import Tokenizer

    path = Path(folder) / "tokenizer.json"
    if not path.is_file():
        raise VocabError(f"There is no tokenizer.json in {str(folder)!r}.")
    content = read_object(path, VocabError, limit=1 << 28)
    _check_model(path, content)
    _check_steps(path, content)
    with _failures(f"Cannot read {str(path)!r}"):
        # Not the file itself: where a key stands twice, tokenizers may read the one that the checks
        # above did not see.
        return Tokenizer.from_str(json.dumps(content))


@contextmanager
def _failures(message: str) -> Iterator[None]:
    """Turn what tokenizers raises into a VocabError: plain exceptions, and panics of its Rust."""
    try:
        yield
    except VocabError:
        raise
    except BaseException as error:
        # The class of a panic derives from BaseException and cannot be imported.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise VocabError(f"{message}: {reason_of(error)}.") from error


def _check_steps(path: Path, content: dict[str, Any]) -> None:
    """Refuse steps that are damaged, or could make a text so long that it takes gigabytes."""
    try:
        steps = [*_steps(content.get("normalizer")), *_steps(content.get("pre_tokenizer"))]
        growth = _growth_of(steps)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise VocabError(
            f"{str(path)!r} has a damaged normalizer or pre-tokenizer: {reason_of(error)}."
        ) from error
    if len(steps) > _MAX_STEPS or growth > _MAX_GROWTH:
        raise VocabError(
            f"{str(path)!r} changes a text in {len(steps):,} steps, which can make it {growth:.3g}"
            f" times as long; the limits are {_MAX_STEPS} steps and {_MAX_GROWTH} times."
        )


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """Yield the steps of a normalizer, pre-tokenizer or decoder; sequences may be nested."""
    pending = [part]
    while pending:
        step = pending.pop()
        if isinstance(step, dict):
            for name in ("normalizers", "pretokenizers", "decoders"):
                pending += reversed(step.get(name, []))
            if step.get("type") != "Sequence":
                yield step


def _growth_of(steps: Iterable[dict[str, Any]]) -> float:
    """Return how many times as long the steps in their order can make a text, in characters.

    A normal form makes few texts much longer, but a step before it may write just such characters.
    """
    growth, longest = 1.0, 1  # `growth` is a float, because it may be infinite
    for step in steps:
        growth *= _growth(step)
        if step.get("type") in _DECOMPOSING:
            growth *= longest
            longest = 1
        inserted = str(step.get("prepend", "")) + str(step.get("content", ""))
        longest = max(longest, *(len(normalize("NFKD", char)) for char in inserted or " "))
        if "precompiled_charsmap" in step:
            longest = _LONGEST_FORM
    return growth


def _growth(step: dict[str, Any]) -> float:
    """Return how many times as long a step can make a text, in characters.

    Steps are known by their fields, because tokenizers reads those without a type, too.
    """
    found = [1.0]
    if "precompiled_charsmap" in step:
        found.append(_longest_replacement(step["precompiled_charsmap"]))
    if "prepend" in step:
        found.append(len(step["prepend"]))
    if "content" in step:
        old, new = step["pattern"].get("String"), len(step["content"])
        if old == "":
            raise ValueError("it replaces an empty text")
        found.append(new / len(old) if old else new + 1)  # a pattern may match between characters
    if step.get("type") == "ByteLevel":
        found.append(4)  # bytes of a character, each of which becomes one
    return max(found)


def _longest_replacement(charsmap: str) -> float:
    """Return the length of the longest text in a SentencePiece map of characters.

    The map is a table, after its size in bytes, and then the texts. tokenizers ends the process if
    the size is not true.
    """
    data = b64decode(charsmap, validate=True)
    end = 4 + int.from_bytes(data[:4], "little")
    if not 8 <= end <= len(data):
        raise ValueError("its map of characters is incomplete")
    return max(map(len, data[end:].decode("utf-8", "replace").split("\0")))


def _check_model(path: Path, content: dict[str, Any]) -> None:
    """Refuse ids so large that tables by id would take gigabytes, and what crashes tokenizers."""
    model, added = content.get("model"), content.get("added_tokens")
    model = model if isinstance(model, dict) else {}
    vocab = model.get("vocab")
    ids = [*vocab.values()] if isinstance(vocab, dict) else []
    if isinstance(added, list):
        ids += [token.get("id") for token in added if isinstance(token, dict)]
    if any(not isinstance(i, int) or not 0 <= i < MAX_IDS for i in ids):
        raise VocabError(
            f"{str(path)!r} has an id that is not a whole number from 0 to {MAX_IDS - 1:,}."
        )
    # With such a prefix, tokenizers cuts merges within characters, which can end the process.
    if model.get("continuing_subword_prefix") and model.get("type") != "WordPiece":
        raise VocabError(
            f"{str(path)!r} has a continuing_subword_prefix, which is not supported. Use a"
            " byte-level BPE or a SentencePiece-style tokenizer."
        )


class Codec:
    """A tokenizer seen as bytes: byte-level BPE, or SentencePiece style with byte fallback.

    Text never becomes a control token: `<|stop|>` in a text is encoded as those letters.
    """

    def __init__(self, tokenizer: Tokenizer | Any) -> None:
        from tokenizers import Tokenizer

        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        self._tokenizer: Tokenizer = Tokenizer.from_str(backend.to_str())
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokenizer.encode_special_tokens = True
        if hasattr(self._tokenizer.model, "dropout"):  # merges left out at random, for training
            self._tokenizer.model.dropout = None
        self._pre_tokenizer = self._tokenizer.pre_tokenizer  # before the change below
        if type(self._tokenizer.model).__name__ == "Unigram":
            _split_special_names(self._tokenizer)
        decoder = self._tokenizer.decoder
        decoders = list(_steps(json.loads(decoder.__getstate__()) if decoder else None))
        kinds = {step["type"] for step in decoders}
        self._is_byte_level = "ByteLevel" in kinds
        if not self._is_byte_level and not kinds & {"ByteFallback", "Metaspace"}:
            raise VocabError(
                f"Cannot determine the bytes of this tokenizer's tokens (decoder: {sorted(kinds)})."
                " Use a byte-level BPE or a SentencePiece-style tokenizer."
            )
        self.hides_first_space = any(
            step["type"] == "Strip" or step.get("prepend_scheme", "never") != "never"
            for step in decoders
        )
        """True if decoding drops one space at the very start, as for Llama 2's tokenizer."""

    @classmethod
    def load(cls, folder: str | Path) -> Codec:
        """Return the codec of a model folder."""
        tokenizer = read_tokenizer(folder)
        with _failures(f"Cannot use the tokenizer in {str(folder)!r}"):
            codec = cls(tokenizer)
            codec.token_bytes  # noqa: B018  # computed here, where a fault is the folder's
        return codec

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, which are also the ids that insert them."""
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            raise VocabError("This text is not valid Unicode: it holds half of a surrogate pair.")
        if len(text) > _LONG:
            return self.encode_batch([text])[0]
        with _failures("The tokenizer cannot encode this text"):
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of several texts, as `encode` does, using all cores."""
        with _failures("The tokenizer cannot encode these texts"):
            encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides how text is encoded; names and special tokens do not.

        So `ActionVocab.from_tokenizer`, which adds special tokens, does not change it.
        """
        state = json.loads(self._tokenizer.to_str())
        own = {part: state[part] for part in ("model", "normalizer", "decoder")}
        steps = self._pre_tokenizer
        own["pre_tokenizer"] = json.loads(steps.__getstate__()) if steps else None
        own["added_tokens"] = [token for token in state["added_tokens"] if not token["special"]]
        return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()

    def encode_parts(self, parts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each part of a text, for exactly the bytes of the part.

        If the tokenizer adds a space before every text and hides it when decoding, the tokens of
        the first part begin with that space, even if the part is empty. Those of no other part do.
        """
        hidden = b" " if self.hides_first_space else b""
        return [self._encode_part(part, b"" if n else hidden) for n, part in enumerate(parts)]

    def _encode_part(self, part: str, hidden: bytes) -> list[int]:
        whole = self.encode(part)  # first, since it refuses half of a surrogate pair
        data = hidden + part.encode()

        def candidates() -> Iterator[list[int]]:
            yield whole
            yield self.encode(part[1:])  # the tokenizer may add the space itself
            # Encode the part between anchors that merge with neither end, and cut those off.
            for anchor in ("\n", "\0"):
                between = self.encode(anchor + part + anchor)
                ends = range(1, 4)
                yield from (between[start:-end] for start in ends for end in ends)
                yield from (self.encode(part + anchor)[:-end] for end in ends)

        for tokens in candidates():
            if b"".join([self.token_bytes[token] for token in tokens]) == data:
                return tokens
        raise VocabError(f"This tokenizer cannot encode {part[:40]!r} byte for byte.")

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the visible text; bytes that make no character become U+FFFD."""
        table = self.token_bytes
        return decode_bytes(b"".join([table[token] for token in tokens]), self.hides_first_space)

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

    def id_of(self, token: str) -> int | None:
        """Return the id of a token by its name, special tokens included, if there is one."""
        found: int | None = self._tokenizer.token_to_id(token)
        return found

    @cached_property
    def space(self) -> int | None:
        """The id of the token that is a single space, if there is one."""
        return next((i for i, data in enumerate(self.token_bytes) if data == b" "), None)

    def unit_starts(self, tokens: Sequence[int] | npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
        """Return which units of text begin at each token, as bits of `UNITS`.

        A word begins with white space. A sentence begins after a token that ends one, as far as
        the token alone can show.
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

    def char_offsets(self, tokens: Sequence[int]) -> npt.NDArray[np.int64]:
        """Return how many visible characters come before each token boundary.

        The offset is -1 if a boundary lies inside a character.
        """
        parts = [self.token_bytes[token] for token in tokens]
        data = np.frombuffer(b"".join(parts), np.uint8)
        begins = (data & 0xC0) != 0x80
        ends = np.cumsum([0, *map(len, parts)])
        counts = np.concatenate([[0], np.cumsum(begins)])[ends]
        hidden = self.hides_first_space and data[:1].tobytes() == b" "
        return np.where(np.append(begins, True)[ends], np.maximum(counts - hidden, 0), -1)

    def stream(self, tokens: Sequence[int] = (), *, unit: OffsetUnit = "char") -> TextStream:
        """Return a stream that turns edits of a canvas with `tokens` into edits of its text."""
        hides = self.hides_first_space
        return TextStream(self.token_bytes, tokens, hides_first_space=hides, unit=unit)

    def _piece_bytes(self, piece: str) -> bytes:
        if self._is_byte_level:
            try:
                return bytes(map(_BYTE_OF.__getitem__, piece))
            except KeyError:
                return piece.encode()
        byte = _BYTE_PIECE.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace("\u2581", " ").encode()


def _split_special_names(tokenizer: Tokenizer) -> None:
    """Make a tokenizer split the names of special tokens in two where a text holds them.

    A Unigram model has those names among its pieces and would match them in any text. Lower
    scores do not help: unknown characters score below the lowest.
    """
    from tokenizers import Regex, pre_tokenizers

    added = tokenizer.get_added_tokens_decoder().values()
    names = [token.content for token in added if token.special]
    cuts = "|".join(f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in names)
    if cuts:
        before = [] if tokenizer.pre_tokenizer is None else [tokenizer.pre_tokenizer]
        split = pre_tokenizers.Split(Regex(cuts), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*before, split])


def _byte_level_alphabet() -> dict[str, int]:
    # Byte-level BPE writes each byte as one visible character: itself where it is printable
    # Latin-1, else the next unused one from U+0100 on.
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + n): b for n, b in enumerate(others)}


_BYTE_OF = _byte_level_alphabet()
