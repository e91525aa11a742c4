"""Tokenizers that the tests build: one of each family that the codec reads, from a few lines.

Nothing is downloaded, and each call builds a new one, since `from_tokenizer` changes what it gets.
"""

from __future__ import annotations

import json

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer

LINES = [
    "The cat sat on the mat. The dog did not! Did the cat care? The end.",
    'She said "stop." (He did not.)\n\nThen the other one came,  and  so   on.\tYes.',
    "Die Straße über die Brücke führt nach Łódź, déjà vu, e\u0301te\u0301, naïve café.",
    "Κάθε αρχή και δύσκολη. Привет, как дела? Привет!",
    "你好，世界。你们好，世界。今日は世界、こんにちは。",  # noqa: RUF001
    "안녕하세요 세계. नमस्ते दुनिया. สวัสดีชาวโลก",
    "😀😀 😃 😄 👩\u200d🚀 👩\u200d🚀 👍🏽 👍🏽 🇩🇪 🇫🇷 ❤\ufe0f 👨\u200d👩\u200d👧",
    "x = [1, 2, 3]  # → ∑ € ½ … “so” — so on.",
]
"""Mixed scripts, so that some merges hold parts of characters."""

END_OF_TEXT = "<|endoftext|>"
SPECIAL = ["<unk>", "<s>", "</s>"]
SPACE = "\u2581"  # how SentencePiece writes a space


def byte_level() -> Tokenizer:
    """Byte-level BPE, as GPT-2's: every byte is a token, and any text can be written."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=460,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[END_OF_TEXT],
        show_progress=False,
    )
    tokenizer.train_from_iterator(LINES, trainer)
    return tokenizer


def composing() -> Tokenizer:
    """Byte-level BPE that puts an accent and its letter together, so that it changes some texts."""
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def few_tokens(letters: str = "abcdefghijklmnopqrst") -> Tokenizer:
    """A byte-level tokenizer that knows some letters only; a line break is "\u010a"."""
    pieces = {letter: n for n, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=pieces, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def byte_fallback(*, strip: bool = True) -> Tokenizer:
    """SentencePiece BPE with a token per byte for what has none of its own.

    As Llama 2's, whose decoder strips the space that its normalizer put first; or, without
    `strip`, as Gemma's, which does neither.
    """
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    steps = [normalizers.Prepend(SPACE)] if strip else []
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    last = [decoders.Strip(" ", 1, 0)] if strip else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *last]
    )
    byte_pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = BpeTrainer(
        vocab_size=460,
        max_token_length=8,
        special_tokens=[*SPECIAL, *byte_pieces],
        show_progress=False,
    )
    tokenizer.train_from_iterator(LINES[:5], trainer)  # the rest falls back to bytes
    state = json.loads(tokenizer.to_str())  # the trainer made the bytes special: they are not
    state["added_tokens"] = [t for t in state["added_tokens"] if t["content"] in SPECIAL]
    return Tokenizer.from_str(json.dumps(state))


def metaspace() -> Tokenizer:
    """SentencePiece BPE without bytes: what it has no token for is unknown."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = BpeTrainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(LINES, trainer)
    return tokenizer


def unigram(*, knows: str = "</s>") -> Tokenizer:
    """SentencePiece's other model: its special tokens are pieces that a text could match."""
    letters = sorted({*"".join(LINES), *knows} - {" "})
    pieces = [*((piece, 0.0) for piece in SPECIAL), *((letter, -8.0) for letter in letters)]
    pieces += [(SPACE, -2.0), (f"{SPACE}the", -3.0), ("<=", -3.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, 0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens([AddedToken(piece, special=True) for piece in SPECIAL])
    return tokenizer
