"""A real pretrained model, adapted: its distribution over ordinary tokens does not change."""

from __future__ import annotations

import lzma
import os
import shutil
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from reviser import Codec, Kind  # noqa: E402
from reviser.errors import CheckpointError  # noqa: E402
from reviser.models.adaptation import adapt  # noqa: E402
from reviser.models.trunks import load_base  # noqa: E402

DATA = Path(os.environ.get("REVISER_DATA") or Path(__file__).parents[3] / "shared" / "data")
STORIES = DATA / "stories15M"


pytestmark = pytest.mark.skipif(
    not STORIES.is_dir(), reason="There is no stories15M in the data folder: see REVISER_DATA."
)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """stories15M with the tokenizer.json that its own tokenizer class writes."""
    pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("stories15M")
    for file in STORIES.iterdir():
        shutil.copyfile(file, folder / file.name)
    transformers.LlamaTokenizer.from_pretrained(STORIES).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def story():
    return lzma.open(DATA / "tinystories-sample" / "tiny_stories.txt.xz", "rt").read(4000)


@torch.no_grad()
def test_the_distribution_over_ordinary_tokens_is_the_bases(base, story):
    model, tokenizer = load_base(base)
    model.eval()
    ids = torch.tensor([[1, *Codec(tokenizer).encode(story)[:200]]])
    before = torch.softmax(model(ids).logits.double(), dim=-1)
    vocab = adapt(model, tokenizer, begin="<s>", operators=["delete", "replace"])
    after = torch.softmax(model(ids).logits.double(), dim=-1)
    ordinary, new = after.split([vocab.tokens, after.shape[-1] - vocab.tokens], dim=-1)
    assert before.shape[-1] == vocab.tokens == 32_000
    assert new.shape[-1] >= vocab.size - vocab.tokens == 24
    assert new.sum(-1).max() < 1e-2
    assert (ordinary / ordinary.sum(-1, keepdim=True) - before).abs().max() < 1e-6


def test_the_model_begins_with_its_own_token_and_text_is_read_as_before(base, story):
    model, tokenizer = load_base(base)
    before = Codec(tokenizer)
    tokens = before.encode(story)
    vocab = adapt(model, tokenizer, begin="<s>")
    after = Codec(tokenizer)
    assert vocab.begin == 1
    assert after.encode(story) == tokens
    assert after.decode(tokens) == before.decode(tokens)
    assert after.fingerprint == before.fingerprint
    assert vocab.kind(1) is Kind.SEPARATOR


def test_a_bare_sentencepiece_file_is_refused():
    with pytest.raises(CheckpointError, match=r"no tokenizer\.json.* save_pretrained"):
        load_base(STORIES)
