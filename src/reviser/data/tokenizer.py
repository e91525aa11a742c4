"""New tokenizers: byte-level BPE, trained on the same sources that are tokenized, or whole words.

This module knows nothing about actions: `ActionVocab.from_tokenizer` adds the control tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reviser.data.readers import Reader, SplitBy, Tally, find_sources
from reviser.errors import ConfigError, DataError
from reviser.files import read_text

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BYTES = 256


def train_bpe(
    sources: Sequence[str | Path],
    size: int,
    *,
    split: SplitBy = "blank",
    text_key: str = "text",
) -> Tokenizer:
    """Train a byte-level BPE with at most `size` tokens and no special ones.

    Words are split as in GPT-2's tokenizer, and every digit is a token. The same text gives the
    same tokenizer. Text is streamed; memory grows with the number of distinct words.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from tokenizers.trainers import BpeTrainer

    if size < BYTES:
        raise ConfigError(f"size is {size}; a byte-level tokenizer needs {BYTES} or more tokens.")
    reader = Reader(split=split, text_key=text_key)
    files = [file for source in sources for file in find_sources(source)]
    tally, used = Tally(), 0

    def texts() -> Iterator[str]:
        nonlocal used
        for file in files:
            for text in reader.documents(file, tally):
                used += 1
                yield text

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts(), trainer)
    if not used:
        counts = ", ".join(f"{reason}: {count}" for reason, count in tally.skipped.items())
        raise DataError(f"There is no text to train on (left out: {counts or 'nothing'}).")
    return tokenizer


def word_tokenizer(words: Iterable[str]) -> Tokenizer:
    """Return a tokenizer that has one token for each word of a list, and no others.

    Words are separated by single spaces in a text. A text with any other word is refused.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    words = list(words)
    bad = next((w for w in words if not isinstance(w, str) or w.split() != [w]), None)
    if bad is not None or not words or len({*words}) < len(words):
        raise ConfigError(
            f"A list of words has {bad!r}; each word should be a text without spaces."
            if bad is not None
            else "A list of words should have at least one word, and none of them twice."
        )
    # As SentencePiece has it: each word's token includes the space before it.
    tokenizer = Tokenizer(models.WordLevel({f"\u2581{w}": n for n, w in enumerate(words)}))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def read_words(path: str | Path) -> Tokenizer:
    """Return the tokenizer of a file that has a list of words in JSON."""
    content = read_text(Path(path), ConfigError, limit=1 << 26)
    try:
        words = json.loads(content)
    except ValueError as error:
        raise ConfigError(f"{str(path)!r} is not JSON: {error}.") from error
    if not isinstance(words, list):
        raise ConfigError(f'{str(path)!r} should hold a list of words, such as ["a", "b"].')
    return word_tokenizer(words)
