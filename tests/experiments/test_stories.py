"""The story world: sampling is exact, budgets are equal, gaps are whole sentences."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from experiments.stories import arms, infill, run, sample_corpus, world
from reviser import ActionVocab, Codec
from reviser.core.codec import read_tokenizer
from reviser.lab.evals import flops
from reviser.models import info, trunks
from reviser.models.trunks import TrunkConfig
from reviser.train.recipe import load_recipe
from reviser.train.run import train


@pytest.mark.parametrize(
    ("size", "dtype"), [(5, torch.float32), (256, torch.bfloat16), (700, torch.float32)]
)
def test_ids_are_drawn_as_often_as_their_softmax_says(size: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.linspace(-3, 2, size)[torch.randperm(size, generator=generator)].to(dtype)
    draws = 40_000
    generator = torch.Generator().manual_seed(0)
    found = sample_corpus.draw(logits.repeat(draws, 1), generator)
    counts = torch.bincount(found[:, 0], minlength=size).double()
    expected = torch.softmax(logits.double(), 0) * draws
    assert counts.shape == expected.shape
    chi = float(((counts - expected) ** 2 / expected).sum())
    assert chi < size - 1 + 5 * (2 * (size - 1)) ** 0.5


def test_texts_do_not_depend_on_the_memory_of_keys_and_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=24, bos_token_id=1, eos_token_id=2,
        initializer_range=0.5,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    monkeypatch.setattr(sample_corpus, "SHRINK", 1)
    texts = sample_corpus.sample(model, 40, seed=3)
    assert {len(text) for text in texts} > {23}  # some end by themselves, some do not
    generator = torch.Generator().manual_seed(3)
    running = list(range(40))
    rows = [[1] for _ in running]
    for _ in range(23):
        logits = model(input_ids=torch.tensor([rows[n] for n in running])).logits[:, -1]
        for n, drawn in zip(running, sample_corpus.draw(logits, generator)[:, 0], strict=True):
            rows[n].append(int(drawn))
        running = [n for n in running if rows[n][-1] not in (1, 2)]
    assert texts == [row[1:] for row in rows]


@pytest.mark.parametrize(
    "names",
    [("append", "paper", "half-late-marks"), pytest.param([*arms.ARMS], marks=pytest.mark.full)],
    ids=["some", "all"],
)
def test_arms_train_for_the_same_flops(names: list[str], small_world: Path) -> None:
    spent = {}
    for arm in names:
        recipe = world.recipe_of(small_world, *arms.plan(small_world, arm, 0, "screen", ()))
        stream = arms.stream_of(recipe)
        assert recipe.trunk is not None
        sizes = flops.Sizes(
            L=recipe.trunk.layers, d=recipe.trunk.width, d_ff=recipe.trunk.mlp_width,
            V=stream.sampler.vocab.size,
        )  # fmt: skip
        # Other examples than those that the plan was made from.
        lengths = [
            len(e.ids)
            for progress in (0.1, 0.3, 0.5, 0.7, 0.9)
            for e in stream.examples(np.arange(1024, 1524), progress=progress)
        ]
        cost = 6 * np.mean([flops.autoregressive(sizes, n) for n in lengths])
        spent[arm] = cost * recipe.training.steps * recipe.training.batch
    assert min(spent.values()) > 0.97 * world.SCREEN_FLOPS
    assert max(spent.values()) < 1.03 * world.SCREEN_FLOPS


def test_a_world_records_what_it_was_made_from(small_world: Path) -> None:
    record = json.loads((small_world / "world.json").read_text("utf-8"))
    assert (record["stories"], record["tokens"]) == (1000, 9000)
    assert len(record["files"]["stories-0.jsonl"]) == 64
    assert record["own_tokens"] > 10_000


def test_gaps_are_whole_sentences_that_a_model_fills_between_both_sides(
    small_world: Path, tmp_path: Path
) -> None:
    gaps = infill.choose(small_world, 8)
    recipe = world.recipe_of(small_world)
    held_out = {codec.decode(tokens) for codec, tokens in world.held_out_texts(recipe)}
    assert {gap.sentences for gap in gaps} == {1, 2, 3}
    for gap in gaps:
        assert gap.left + gap.gap + gap.right in held_out
        assert all(part.rstrip("\"'")[-1] in ".!?" for part in gap[:3])
        assert len(infill.SENTENCE.findall(gap.gap)) == gap.sentences
    tokenizer = read_tokenizer(small_world / "tokenizer")
    vocab = ActionVocab.from_tokenizer(tokenizer, marks=True)
    trunk = TrunkConfig(layers=1, width=32, heads=2, mlp_width=32, context=384, dropout=0.0)
    trunks.save(trunks.build(trunk, vocab), tokenizer, vocab, tmp_path)
    fills, actions = infill.filled(tmp_path, gaps[:4])
    assert all(0 < count <= 128 for count in actions)
    assert any(fills)
    codec = Codec.load(tmp_path)
    for gap, bits in zip(gaps, infill.surprise(tmp_path, gaps[:4], sees_right=True), strict=False):
        # fresh weights give every row nearly the same probability
        tokens = codec.encode_parts([gap.left, gap.gap, gap.right])[1]
        assert bits / len(tokens) == pytest.approx(np.log2(trunks.rows_for(vocab.size)), rel=0.02)


def test_a_shipped_model_does_not_reveal_this_machine(
    small_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = load_recipe(
        world.ROOT / "recipes" / "story-writer.yaml",
        [
            f"data.text=[{small_world / 'stories-0.jsonl'}]", "training.steps=2",
            "training.warmup=1", "evaluation.examples=8", "evaluation.max_actions=4",
        ],
    )  # fmt: skip
    for name in ("first", "second"):
        train(made, tmp_path / name)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    run.ship([tmp_path / "first", tmp_path / "second"], "small")
    shipped = tmp_path / "models" / "small"
    for path in shipped.glob("*.json"):
        assert str(small_world) not in path.read_text("utf-8")
        assert str(tmp_path) not in path.read_text("utf-8")
    assert trunks.load(shipped)[1].mark is not None
    facts = info.describe(shipped)
    assert facts["dtypes"] == ["BF16"]
    assert facts["training"]["seen"]["examples"] == 16
    runs = json.loads((shipped / "run.json").read_text("utf-8"))["runs"]
    assert [each["steps"] for each in runs] == [2, 2]
