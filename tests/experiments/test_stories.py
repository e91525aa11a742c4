"""The story world's benchmarks: sampling is exact, budgets are equal, what is shown is there."""

import json
import runpy
from pathlib import Path

import grounding
import infill
import numpy as np
import pytest
import sample_corpus
import torch
import world
from transformers import LlamaConfig, LlamaForCausalLM

import small_tokenizers
from reviser import PRESETS, ActionVocab, Canvas, Codec, Sampler, info, models
from reviser.core.actions import Kind
from reviser.core.codec import read_tokenizer
from reviser.data.dataset import Example, labelled
from reviser.evals import flops
from reviser.evals.texts import Prompt, write_prompts
from reviser.generate import Rollout
from reviser.models import TrunkConfig
from reviser.train.recipe import Recipe
from reviser.train.run import train

VOCAB = ActionVocab.build(50, operators=["delete", "swap"], max_move=16)


# -- sampling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [5, 256, 700])
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


# -- grounding ------------------------------------------------------------------------------------


def example(policy: str, index: int) -> Example:
    prefix, target = [1, 2, 3], list(range(4, 34))
    units = np.array([7, 1, 3] * 10, np.uint8)
    trajectory = Sampler(VOCAB, PRESETS[policy]).sample(
        target, prefix=prefix, index=index, units=units
    )
    ids = np.array(trajectory.history(VOCAB), np.int32)
    labels = labelled(ids, np.array(trajectory.loss_mask(VOCAB)))
    return Example(ids, labels, len(target), False, 0)


@pytest.mark.parametrize("policy", ["append", "paper", "spans-8", "late-2"])
@pytest.mark.parametrize("words", ["1", "4", "r0l5", "r3l1"])
def test_what_is_shown_after_a_move_is_what_stands_around_the_cursor(
    policy: str, words: str
) -> None:
    look = grounding.Look.parse(words)
    shown = 0
    for index in range(20):
        plain = example(policy, index)
        found = grounding.ground(plain, VOCAB, look, context=1000)
        canvas, ids, kept = Canvas(VOCAB), found.ids.tolist(), []
        at = 0
        while at < len(ids):
            if ids[at] == VOCAB.swap:
                shown += 1
                assert found.learned[at]
                assert not found.learned[at + 1 : at + 1 + look.size].any()
                tokens = canvas.tokens()
                around = [
                    tokens[n] if 0 <= n < len(tokens) else VOCAB.delete
                    for n in range(canvas.cursor - look.left, canvas.cursor + look.right)
                ]
                if words.startswith("r"):  # the right ones come first
                    around = around[look.left :] + around[: look.left]
                assert ids[at + 1 : at + 1 + look.size] == around
                assert VOCAB.kinds[ids[at - 1]] == Kind.MOVE
                at += 1 + look.size
                assert VOCAB.kinds[ids[at]] == Kind.INSERT
            kept.append((ids[at], bool(found.learned[at])))
            canvas.apply(ids[at])
            at += 1
        assert kept == list(zip(plain.ids.tolist(), plain.learned.tolist(), strict=True))
    assert (shown > 0) == (policy != "append")


@pytest.mark.parametrize("policy", ["paper", "spans-8"])
def test_a_slip_leads_astray_without_loss_and_is_put_right_in_sight_of_the_goal(
    policy: str,
) -> None:
    width, slipped = 3, 0
    for index in range(30):
        plain = example(policy, index)._replace(digest=index)
        found = grounding.ground(
            plain, VOCAB, grounding.Look(width, width), context=2000, slips=0.5
        )
        canvas, ids, wrote, looked = Canvas(VOCAB), found.ids.tolist(), [], []
        at, last_look = 0, None
        while at < len(ids):
            action, kind = ids[at], VOCAB.kinds[ids[at]]
            if action == VOCAB.swap:
                last_look = canvas.cursor
                looked.append(at)
                at += 1 + 2 * width
                continue
            if kind == Kind.MOVE and not found.learned[at]:
                slipped += 1
            if kind == Kind.INSERT:
                if last_look is not None:
                    assert canvas.cursor == last_look  # looked where it writes
                wrote.append((canvas.cursor, action))
                last_look = None
            elif kind == Kind.MOVE and last_look is not None:
                assert found.learned[at]  # what puts it right is learned
            canvas.apply(action)
            at += 1
        replayed, expected = Canvas(VOCAB), []
        for action in plain.ids.tolist():
            if VOCAB.kinds[action] == Kind.INSERT:
                expected.append((replayed.cursor, action))
            replayed.apply(action)
        assert wrote == expected
        assert canvas.tokens() == replayed.tokens()
    assert slipped > 20


def test_what_does_not_fit_the_context_is_cut_off() -> None:
    whole, cut = (
        grounding.ground(example("spans-8", 0), VOCAB, grounding.Look(4, 4), context=context)
        for context in (1000, 40)
    )
    assert len(whole.ids) > 40
    assert cut.ids.tolist() == whole.ids[:40].tolist()
    assert len(cut.learned) == 40


# -- the page -------------------------------------------------------------------------------------


def test_the_results_page_is_what_its_script_writes() -> None:
    docs = world.HERE / "docs"
    made = runpy.run_path(str(docs / "results.py"))["pages"]()
    assert {*made} == {path.name for path in docs.glob("results*.*") if path.suffix != ".py"}
    for name, content in made.items():
        assert (docs / name).read_text("utf-8") == content, name


# -- budgets --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    text = Path(world.HERE / "recipes" / "smoke.txt").read_text("utf-8").split("\n\n")
    lines = [{"text": story, "tokens": 9, "ended": True, "seed": 0} for story in text]
    with (folder / "stories-0.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "RESULTS", folder / "results")
        world.prepare(folder)
    return folder


def test_every_arm_trains_for_the_same_flops(small_world: Path) -> None:
    spent = {}
    for arm in world.ARMS:
        changes = world.plan(small_world, arm, 0, "screen", ())
        recipe = world.recipe_of(small_world, *changes)
        stream = world.stream_of(recipe)
        vocab = stream.sampler.vocab
        assert recipe.trunk is not None
        sizes = flops.Sizes(
            L=recipe.trunk.layers, d=recipe.trunk.width, d_ff=recipe.trunk.mlp_width, V=vocab.size
        )
        # Other examples than those that the plan was made from.
        lengths = [
            len(e.ids)
            for progress in (0.1, 0.3, 0.5, 0.7, 0.9)
            for e in stream.examples(np.arange(1024, 1524), progress=progress)
        ]
        cost = 6 * np.mean([flops.autoregressive(sizes, n) for n in lengths])
        spent[arm] = cost * recipe.training.steps * recipe.training.batch
    assert min(spent.values()) > 0.97 * world.LEAST
    assert max(spent.values()) < 1.03 * world.LEAST


def test_a_world_says_what_it_was_made_from(small_world: Path) -> None:
    note = json.loads((small_world / "world.json").read_text("utf-8"))
    assert note["stories"] == 1000
    assert note["tokens"] == 9000
    assert len(note["files"]["stories-0.jsonl"]) == 64
    assert note["own_tokens"] > 10_000


def test_gaps_are_whole_sentences_inside_of_held_out_stories(small_world: Path) -> None:
    gaps = infill.choose(small_world, 8)
    assert len(gaps) == 8
    held_out = {codec.decode(tokens) for codec, tokens in world.held_out_texts(recipe(small_world))}
    for gap in gaps:
        assert gap.left + gap.gap + gap.right in held_out
        assert all(part.rstrip("\"'")[-1] in ".!?" for part in gap[:3])
        assert len(infill.SENTENCE.findall(gap.gap)) == gap.sentences
    assert {gap.sentences for gap in gaps} == {1, 2, 3}


def recipe(folder: Path) -> Recipe:
    return world.recipe_of(folder)


def test_a_gap_is_filled_between_both_sides_and_the_truth_has_its_price(
    small_world: Path, tmp_path: Path
) -> None:
    tokenizer = read_tokenizer(small_world / "tokenizer")
    vocab = ActionVocab.from_tokenizer(tokenizer, marks=True)
    model = models.build(
        TrunkConfig(layers=1, width=32, heads=2, mlp_width=32, context=384, dropout=0.0), vocab
    )
    models.save(model, tokenizer, vocab, tmp_path)
    gaps = infill.choose(small_world, 4)
    fills, actions = infill.filled(tmp_path, gaps)
    assert all(0 < count <= 128 for count in actions)
    assert any(fills)
    bits = infill.surprise(tmp_path, gaps, sees_right=True)
    codec = Codec.load(tmp_path)
    for gap, cost in zip(gaps, bits, strict=True):  # fresh weights know next to nothing
        tokens = codec.encode_parts([gap.left, gap.gap, gap.right])[1]
        assert cost / len(tokens) == pytest.approx(np.log2(models.rows_for(vocab.size)), rel=0.02)


def test_a_shipped_model_says_nothing_of_this_machine(
    small_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world.recipe_of(
        small_world, "policy=late-1", world.MARKS, "training.compile=false", "training.steps=2",
        "training.warmup=1", "evaluation.examples=8", "evaluation.max_actions=4",
        "trunk.layers=1", "trunk.width=32", "trunk.mlp_width=32",
    )  # fmt: skip
    run = tmp_path / "run"
    train(made, run)
    monkeypatch.setattr(world, "HERE", tmp_path)
    world.ship(run, "small")
    shipped = tmp_path / "models" / "small"
    for path in shipped.glob("*.json"):
        assert str(small_world) not in path.read_text("utf-8")
        assert str(tmp_path) not in path.read_text("utf-8")
    _, vocab = models.load(shipped)
    assert vocab.mark is not None
    facts = info.describe(shipped)
    assert facts["dtypes"] == ["BF16"]
    assert facts["training"]["seen"]["examples"] == 16


def test_a_model_that_looks_writes_the_histories_it_was_trained_on(tmp_path: Path) -> None:
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=["delete", "swap"], max_move=8)
    trunk = TrunkConfig(layers=1, width=32, heads=2, mlp_width=32, context=96, dropout=0.0)
    model = models.build(trunk, vocab)
    with torch.no_grad():  # moves often, and never stops at once
        table = model.get_output_embeddings().weight
        table[vocab.first_move : vocab.first_move + len(vocab.deltas)] *= 40
        table[vocab.stop] = 0
    models.save(model, tokenizer, vocab, tmp_path)
    prompts = tmp_path / "prompts.jsonl"
    write_prompts(
        prompts, [Prompt(id=str(n), prompt="ab" * (n % 12), reference="x") for n in range(48)]
    )
    written = tmp_path / "written.jsonl"
    look = grounding.Look(2, 2)
    grounding.write(tmp_path, prompts, written, look, max_actions=80, temperature=1.0, top_k=0)
    loaded, _ = models.load(tmp_path, dtype=torch.float32)
    shown = 0
    for line in written.read_text("utf-8").splitlines():
        rollout = Rollout.from_json(line)
        shown += rollout.provenance["shown"]
        history = np.array(rollout.trajectory.history(vocab), np.int32)
        labels = labelled(history, np.array(rollout.trajectory.loss_mask(vocab)))
        whole = grounding.ground(Example(history, labels, 0, False, 0), vocab, look, context=999)
        with torch.no_grad():
            logits = loaded(input_ids=torch.tensor(whole.ids[None].astype(np.int64))).logits[0]
        chosen = torch.log_softmax(logits, -1)[:-1].gather(
            1, torch.tensor(whole.ids[1:, None].astype(np.int64))
        )[:, 0]
        ours = whole.learned & (whole.ids != vocab.swap)
        assert rollout.logprobs == pytest.approx(chosen[ours[1:]].tolist(), abs=1e-4)
    assert shown >= 50
