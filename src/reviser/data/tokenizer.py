"""Training of a tokenizer: byte-level BPE on the same sources that are tokenized.

This module knows nothing about actions: `ActionVocab.from_tokenizer` adds the control tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reviser.data.readers import Reader, SplitBy, Tally, find_sources
from reviser.errors import ConfigError, DataError

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
