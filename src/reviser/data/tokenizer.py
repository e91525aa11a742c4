"""A tokenizer of one's own: byte-level BPE trained on the same sources that are tokenized.

Knows nothing of actions: `ActionVocab.from_tokenizer` adds what a model needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reviser.data.readers import Reader, Split, Tally, find_sources
from reviser.errors import ConfigError, DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BYTES = 256


def train_bpe(
    sources: Sequence[str | Path],
    size: int,
    *,
    split: Split = "blank",
    text_key: str = "text",
    max_document_bytes: int = Reader.max_document_bytes,
) -> Tokenizer:
    """Byte-level BPE with at most `size` tokens and no special ones.

    Words part as in GPT-2's, and digits stand alone. The same text gives the same tokenizer. Text
    is streamed; memory grows with its distinct words.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from tokenizers.trainers import BpeTrainer

    if size < BYTES:
        raise ConfigError(f"size is {size}; a byte-level tokenizer has {BYTES} tokens or more.")
    reader = Reader(split=split, text_key=text_key, max_document_bytes=max_document_bytes)
    files = [file for given in sources for file in find_sources(given)]
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
