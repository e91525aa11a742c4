"""The fast tokenizers of Transformers: extended like any other, and whole after a save."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tokenizers import Tokenizer

from reviser.core.actions import OPERATORS, ActionVocab
from reviser.core.codec import Codec
from support import small_tokenizers

transformers = pytest.importorskip(
    "transformers", reason="Transformers is not installed, so its tokenizers are not tested."
)

TEXT = "The cat, déjà vu 👩\u200d🚀 你好 <|stop|>"
BUILDERS = [small_tokenizers.byte_level, small_tokenizers.byte_fallback, small_tokenizers.metaspace]

every_tokenizer = pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
Build = Callable[[], Tokenizer]


def wrapped(build: Build) -> Any:
    return transformers.PreTrainedTokenizerFast(tokenizer_object=build())


@every_tokenizer
def test_a_codec_reads_a_tokenizer_of_transformers(build: Build) -> None:
    plain, fast = Codec(build()), Codec(wrapped(build))
    assert fast.encode(TEXT) == plain.encode(TEXT)
    assert fast.token_bytes == plain.token_bytes


@every_tokenizer
@pytest.mark.parametrize("reader", ["AutoTokenizer", "PreTrainedTokenizerFast"])
def test_control_tokens_survive_a_save_with_their_ids(
    build: Build, reader: str, tmp_path: Path
) -> None:
    tokenizer = wrapped(build)
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=OPERATORS, reserved=2)
    tokenizer.save_pretrained(tmp_path)
    saved = getattr(transformers, reader).from_pretrained(tmp_path)
    names = [*vocab.control_tokens]
    assert saved.convert_tokens_to_ids(names) == [*vocab.control_tokens.values()]
    assert len(saved) == vocab.size
    assert all(saved.added_tokens_decoder[i].special for i in vocab.control_tokens.values())
    for name, i in vocab.control_tokens.items():
        assert saved.encode(name, add_special_tokens=False)[-1] == i
        assert saved.decode([i], skip_special_tokens=True) == ""
    assert Codec.load(tmp_path).token_bytes == Codec(saved).token_bytes
    assert Codec.load(tmp_path).encode(TEXT) == Codec(tokenizer).encode(TEXT)


@every_tokenizer
def test_text_is_not_read_as_control_tokens_after_a_save(build: Build, tmp_path: Path) -> None:
    tokenizer = wrapped(build)
    vocab = ActionVocab.from_tokenizer(tokenizer)
    tokenizer.save_pretrained(tmp_path)
    saved = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert vocab.stop in saved.encode("a <|stop|>")  # Transformers reads it as one
    assert vocab.stop not in Codec(saved).encode("a <|stop|>")


@pytest.mark.parametrize("seed", range(20))
def test_tokens_are_decoded_as_transformers_does(seed: int) -> None:
    tokenizer = wrapped(small_tokenizers.byte_level)
    vocab = ActionVocab.from_tokenizer(tokenizer)
    tokens = Random(seed).choices(range(vocab.size), k=30)
    own = tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    assert Codec(tokenizer).decode(tokens) == own
