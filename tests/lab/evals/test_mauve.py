"""MAUVE: 1 for the same, near 0 for what never meets, and the published numbers in between."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from reviser.errors import CheckpointError, DataError
from reviser.lab.evals.texts import Sample
from support import small_tokenizers

pytest.importorskip("sklearn", reason="scikit-learn is not installed, so there is no MAUVE.")
pytest.importorskip("torch", reason="torch is not installed, so there are no features.")

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import AutoModelForCausalLM, BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from reviser.lab.evals import mauve

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("p", "q", "value"),
    [
        ([5, 3, 2], [1, 4, 5], 0.6397171785953268),
        ([9, 1, 0, 4], [2, 2, 8, 1], 0.10679690321607234),
        ([3, 0, 0], [0, 2, 5], 0.004072096261961256),
    ],
)
def test_the_area_is_what_mauve_text_computes(p: list[int], q: list[int], value: float) -> None:
    """By its release 0.4.0."""
    assert mauve.area(np.array(p, float), np.array(q, float)) == pytest.approx(value, abs=1e-14)


def test_equal_sets_are_near_one_and_apart_ones_near_zero() -> None:
    a, b = RNG.normal(size=(300, 8)), RNG.normal(size=(300, 8))
    far = RNG.normal(size=(300, 8)) + np.array([40, *[0] * 7])
    same, clusters = mauve.mauve(a, a)
    assert same.value == pytest.approx(1)
    assert clusters == 30
    alike, _ = mauve.mauve(a, b)
    assert 0.9 < alike.value < 1
    assert alike.low < alike.value < alike.high <= 1
    apart, _ = mauve.mauve(a - far.mean(0), far)
    assert apart.value < 0.01
    shifted, _ = mauve.mauve(a + 0.7, b)
    assert apart.value < shifted.value < alike.value


@pytest.mark.full
def test_the_interval_leaves_out_one_prompt_at_a_time() -> None:
    a, b = RNG.normal(size=(60, 4)), RNG.normal(size=(60, 4)) + 0.5
    groups = [str(n // 3) for n in range(60)]
    estimate, clusters = mauve.mauve(a, b, groups=groups)
    assert (estimate.n, estimate.method) == (20, "jackknife")
    both, without = np.concatenate([a, b]), np.zeros(20)
    for seed in range(5):
        labels = mauve._labels(both, clusters, seed)
        for n in range(20):
            kept = [row for row in range(60) if row // 3 != n]
            sides = (labels[:60], labels[60:])
            counts = [np.bincount(side[kept], minlength=clusters) for side in sides]
            without[n] += mauve.area(*counts) / 5
    spread = math.sqrt(19 / 20 * sum((x - sum(without) / 20) ** 2 for x in without))
    assert estimate.value - estimate.low == pytest.approx(2.093 * spread, rel=1e-3)
    with pytest.raises(DataError, match="as many groups"):
        mauve.mauve(a, b[:-1], groups=groups)
    with pytest.raises(DataError, match="2 texts or more"):
        mauve.mauve(a[:1], b)


# -- features -------------------------------------------------------------------------------------


def test_hidden_states_are_those_of_each_text_alone(causal_lm: Path) -> None:
    texts = ["The cat sat.", "x", "", "The dog did not! Did the cat care?"]
    tokenizer = small_tokenizers.byte_level()
    model = AutoModelForCausalLM.from_pretrained(causal_lm)
    found, about = mauve.hidden_states(causal_lm, texts, max_tokens=9, rows=2)
    assert found.shape == (4, 16)
    assert (about["max_tokens"], about["features"]) == (9, "last hidden state")
    for text, state in zip(texts, found, strict=True):
        ids = tokenizer.encode(text).ids[:9] or [0]
        with torch.no_grad():
            states = model.gpt_neox(torch.tensor([ids])).last_hidden_state[0].double()
        assert state == pytest.approx(states[-1].numpy(), abs=1e-5)


@pytest.fixture(scope="module")
def masked_lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("masked-lm")
    words = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", *"abcdefgh"]
    vocabulary = {word: n for n, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    names = {"pad": 0, "cls": 1, "sep": 2, "mask": 3, "unk": 4}
    special = {f"{name}_token": words[n] for name, n in names.items()}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=20, initializer_range=0.5,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertForMaskedLM(config).save_pretrained(folder)
    return folder


def test_pseudo_log_likelihoods_hide_one_token_at_a_time(masked_lm: Path) -> None:
    texts = ["a b c d", "", "h g f e d c b a", "zz a"]
    found, about = mauve.pseudo_log_likelihoods(masked_lm, texts, max_tokens=6, rows=4)
    assert found.shape == (4, 6)
    assert about["features"] == "pseudo-log-likelihood by place"
    model = BertForMaskedLM.from_pretrained(masked_lm).eval()
    vocabulary = {"zz": 4, **{letter: n for n, letter in enumerate("abcdefgh", start=5)}}
    for text, row in zip(texts, found, strict=True):
        ids = [1, *[vocabulary[word] for word in text.split()[:6]], 2]
        expected = [0.0] * 6
        for place in range(1, len(ids) - 1):
            hidden = [3 if n == place else token for n, token in enumerate(ids)]
            with torch.no_grad():
                logits = model(torch.tensor([hidden])).logits[0, place].double()
            expected[place - 1] = torch.log_softmax(logits, -1)[ids[place]].item()
        assert row == pytest.approx(expected, abs=1e-5)


def test_weights_without_the_head_are_refused(masked_lm: Path, tmp_path: Path) -> None:
    BertForMaskedLM.from_pretrained(masked_lm).bert.save_pretrained(tmp_path)
    for path in masked_lm.glob("tokenizer*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(CheckpointError, match="of the tensors that these features need, first cls"):
        mauve.pseudo_log_likelihoods(tmp_path, ["a"])
    assert mauve.hidden_states(tmp_path, ["a b"])[0].shape == (1, 16)


def test_a_model_without_a_mask_is_refused(causal_lm: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="Cannot open a model"):
        mauve.pseudo_log_likelihoods(causal_lm, ["a"])
    with pytest.raises(CheckpointError, match="Cannot open a model"):
        mauve.hidden_states(tmp_path, ["a"])


def test_samples_are_compared_with_their_references(causal_lm: Path) -> None:
    features = partial(mauve.hidden_states, causal_lm)
    rng = np.random.default_rng(1)
    words = " ".join(small_tokenizers.LINES[:2]).split()

    def text(low: int, high: int) -> str:
        return " ".join(words[n] for n in rng.integers(low, high, 8))

    def samples(low: int, high: int) -> list[Sample]:
        return [
            Sample(system="s", id=str(n), prompt="", continuation=text(low, high),
                   reference=text(0, 10))
            for n in range(60)
        ]  # fmt: skip

    alike, other = (mauve.evaluate(samples(*span), features) for span in ((0, 10), (15, 25)))
    assert alike.mauve.value > 0.6 > 0.4 > other.mauve.value
    assert alike.clusters == 6
    assert alike.mauve.n == 60
    assert alike.features["model"] == str(causal_lm)
    unread = [Sample(system="s", id="1", prompt="", continuation="a")]
    with pytest.raises(DataError, match="1 of 1 samples have no reference"):
        mauve.evaluate(unread, features)
