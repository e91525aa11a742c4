"""A tiny causal LM in a folder, as every measure that needs a model opens it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import small_tokenizers

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
CONTEXT = 48


@pytest.fixture(scope="session")
def causal_lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch = pytest.importorskip("torch", reason="torch is not installed, so there are no models.")
    import transformers

    folder = tmp_path_factory.mktemp("causal-lm")
    tokenizer = small_tokenizers.byte_level()
    config = transformers.GPTNeoXConfig(
        **SIZES,
        vocab_size=tokenizer.get_vocab_size(),
        intermediate_size=24,
        max_position_embeddings=CONTEXT,
        bos_token_id=tokenizer.token_to_id(small_tokenizers.END_OF_TEXT),
        initializer_range=0.4,  # far from uniform, so that what comes before matters
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        transformers.GPTNeoXForCausalLM(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
