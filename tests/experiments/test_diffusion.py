"""Masked diffusion: it attends both ways, learns, resumes, and writes only text."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("datatrove")

from tests.train.conftest import assert_same_weights  # noqa: E402

from experiments.stories import diffusion  # noqa: E402
from reviser import ActionVocab, Codec, Kind  # noqa: E402
from reviser.data.order import permute  # noqa: E402
from reviser.errors import ConfigError  # noqa: E402
from reviser.lab.evals.texts import Prompt, read_prompts, read_samples, write_prompts  # noqa: E402
from reviser.models import trunks  # noqa: E402
from reviser.models.trunks import TrunkConfig  # noqa: E402
from reviser.train.inputs import held_out_set, open_inputs, training_set  # noqa: E402
from reviser.train.recipe import load_recipe  # noqa: E402

WIDTH = 50  # a window of 48, begin and stop
STEPS, BATCH = 60, 8
IDS = STEPS * BATCH * WIDTH + 399  # nearly one step more
PROMPTS = ("One morning, ", "", "Ada")


def train(workshop: Path, output: Path, *words: str) -> None:
    changes = ("--set", "training.save_every=20")
    where = (str(workshop / "recipe.yaml"), "--output", str(output))
    diffusion.main(["train", *where, *changes, "--ids", str(IDS), *words])


@pytest.fixture(scope="module")
def trained(workshop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("diffusion") / "run"
    train(workshop, output)
    return output


@pytest.fixture
def opened(workshop: Path) -> tuple[Any, Any, int]:
    """A recipe, its parts and the width, before training."""
    recipe = diffusion.within_budget(load_recipe(workshop / "recipe.yaml"), IDS, None)
    parts = open_inputs(recipe, workshop)
    return recipe, replace(parts, context=parts.context + 1), parts.context


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    write_prompts(
        path, [Prompt(id=str(n), prompt=p, reference="it.") for n, p in enumerate(PROMPTS)]
    )
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("architecture", ["gpt_neox", "llama"])
@torch.no_grad()
def test_a_later_token_changes_the_prediction_at_an_earlier_position(architecture, tmp_path):
    vocab = ActionVocab.build(50, max_move=4)
    sizes = {"layers": 2, "width": 16, "heads": 2, "mlp_width": 32, "context": 16}
    model = trunks.build(TrunkConfig(architecture=architecture, dropout=0.0, **sizes), vocab).eval()
    one = torch.arange(10)[None]
    other = torch.cat([one[:, :-1], one[:, -1:] + 1], dim=1)

    def differences(model: Any) -> torch.Tensor:
        return (model(one).logits - model(other).logits).abs().amax(dim=(0, 2))[:-1]

    assert (differences(model) == 0).all()
    diffusion.look_both_ways(model, vocab)
    assert (differences(model) > 0).all()
    model.save_pretrained(tmp_path)
    assert (differences(type(model).from_pretrained(tmp_path).eval()) > 0).all()


@pytest.mark.full
def test_a_run_keeps_to_its_budget_and_ends_below_chance(trained):
    log, record = lines(trained / "log.jsonl"), json.loads((trained / "run.json").read_text())
    losses = [line["loss"] for line in log]
    assert np.mean(losses[-10:]) < 0.85 * np.mean(losses[:5])
    whole = record["metrics"]["held_out"]
    chance = math.log(301) * (WIDTH - 1) * whole["windows"] / whole["text_tokens"]
    assert 0 < whole["bound"] < chance - 2 * whole["bound_95"]
    assert record["metrics"]["given_prefix"]["text_tokens"] < whole["text_tokens"]
    assert log[-1]["step"] == STEPS
    assert log[-1]["ids_seen"] == record["ids_seen"] == STEPS * BATCH * WIDTH
    assert log[-1]["seconds"] == record["seconds"] > 0
    assert record["parameters"] == trunks.load(trained)[0].num_parameters()


@pytest.mark.full
def test_a_resumed_run_ends_with_the_weights_of_one_that_was_not_interrupted(
    trained, workshop, tmp_path
):
    output = tmp_path / "run"
    shutil.copytree(trained, output)
    shutil.rmtree(output / "checkpoints" / f"checkpoint-{STEPS}")
    for name in ("run.json", "model.safetensors"):
        (output / name).unlink()
    train(workshop, output)
    assert_same_weights(output, trained)
    before, after = lines(trained / "log.jsonl"), lines(output / "log.jsonl")
    resumed_at = STEPS - 20
    assert before[:resumed_at] == after[:resumed_at]  # with their seconds: not done again
    assert [line["loss"] for line in before] == [line["loss"] for line in after]
    assert before[-1]["seconds"] != after[-1]["seconds"]


def test_texts_are_the_recipes_windows_in_their_order(opened):
    recipe, parts, width = opened
    stream = training_set(recipe, parts).stream
    places = np.arange(len(stream.split) - 20, len(stream.split))
    ids_BT, _ = diffusion.read_texts(stream, places, width)
    order = permute(places, len(stream.split), seed=recipe.seed, epoch=0)
    for row, tokens in zip(ids_BT, stream.split.read(order), strict=True):
        padding = [parts.vocab.stop] * (width - 1 - len(tokens))
        assert row.tolist() == [parts.vocab.begin, *tokens.tolist(), *padding]
        assert padding


def test_the_times_of_a_step_are_spread_evenly_and_masks_follow_them(opened):
    recipe, parts, width = opened
    batches = diffusion.MaskedTexts(recipe, training_set(recipe, parts).stream, width)
    assert len(batches) == STEPS * 2  # two micro-batches a step
    found = [batches[n] for n in range(len(batches))]
    times = 1 / torch.cat([batch["weights_B"] for batch in found]).double()
    masked = torch.cat([batch["masked_BT"] for batch in found])
    parts_of_range = torch.floor((1 - times.view(STEPS, BATCH)) / (1 - 1e-3) * BATCH)
    assert torch.equal(parts_of_range, torch.arange(BATCH).expand(STEPS, -1).double())
    assert times.min() > 1e-3
    assert not masked[:, 0].any()
    assert torch.corrcoef(torch.stack([times, masked[:, 1:].double().mean(1)]))[0, 1] > 0.95
    assert not torch.equal(masked[:BATCH], masked[BATCH : 2 * BATCH])


@pytest.mark.parametrize("after_prefix", [False, True])
def test_a_model_that_knows_nothing_is_bounded_by_chance_exactly(opened, after_prefix):
    recipe, parts, width = opened
    diffusion.look_both_ways(parts.model, parts.vocab)
    torch.nn.init.zeros_(parts.model.get_input_embeddings().weight)  # tied: logits are all 0
    batches = held_out_set(recipe, parts, recipe.policy)
    found = diffusion.bound(parts.model, batches, width=width, after_prefix=after_prefix)
    _, given_B = diffusion.read_texts(batches.stream, np.arange(8), width)
    places = (width - (given_B if after_prefix else 1) * np.ones(8)).sum()
    choices = np.count_nonzero(parts.vocab.kinds == Kind.INSERT) + 1
    assert found["bound"] == pytest.approx(
        math.log(choices) * places / found["text_tokens"], rel=1e-5
    )
    assert found["windows"] == 8


@pytest.mark.full
@pytest.mark.parametrize("steps", [1, 7])
def test_filling_leaves_clean_positions_alone_and_gives_only_text_and_stop(trained, steps):
    model, vocab = trunks.load(trained)
    rng = torch.Generator().manual_seed(0)
    clean_BT = torch.randint(0, 300, (40, WIDTH), generator=rng)
    masked_BT = torch.rand(clean_BT.shape, generator=rng) < 0.7
    calls = []
    model.base_model.register_forward_hook(lambda *_: calls.append(1))
    ids_BT = clean_BT.masked_fill(masked_BT, vocab.size)
    done_BT = diffusion.fill(  # so hot that every possible id is equally likely
        model.eval(), vocab, ids_BT, steps=steps, temperature=1e6, rng=rng
    )
    assert torch.equal(done_BT[~masked_BT], clean_BT[~masked_BT])
    written = done_BT[masked_BT].unique().numpy()
    assert set(vocab.kinds[written]) == {Kind.INSERT, Kind.STOP}
    assert len(written) > 250
    assert len(calls) == steps


@pytest.mark.full
def test_texts_continue_the_prompts_up_to_the_first_stop(
    trained, prompts, tmp_path, capsys, monkeypatch
):
    output = tmp_path / "samples.jsonl"
    words = ["write", str(trained), str(prompts), "-o", str(output), "--steps=8", "--batch=2"]
    diffusion.main(words)
    samples = read_samples(output, prompts=read_prompts(prompts))
    assert [sample.prompt for sample in samples] == [*PROMPTS]
    assert any(sample.continuation for sample in samples)
    assert not any("<|" in sample.text for sample in samples)
    assert capsys.readouterr().err.endswith("3 of 3\n")
    first = output.read_text("utf-8")
    diffusion.main(words)
    assert output.read_text("utf-8") == first
    codec, vocab = Codec.load(trained), ActionVocab.load(trained)
    after = torch.tensor([*codec.encode(" and then"), vocab.stop, *codec.encode(" no more")])

    def fill(_model: Any, vocab: ActionVocab, ids_BT: torch.Tensor, **_: Any) -> torch.Tensor:
        for row in ids_BT:
            assert row[0] == vocab.begin
            start = int((row == vocab.size).nonzero()[0])
            assert (row[start:] == vocab.size).all()
            row[start : start + len(after)] = after
        return ids_BT

    monkeypatch.setattr(diffusion, "fill", fill)
    diffusion.main(words)
    assert [s.text for s in read_samples(output)] == [p + " and then" for p in PROMPTS]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--width", "49"), "The width is 49; it must be at least 50"),
        (("--width", "97"), "at most the trunk's context, 96"),
        (("--ids", "399"), "399 ids are less than one step"),
        (("--set", "training.lora={}"), "fresh weights"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_a_sentence(workshop, tmp_path, words, message):
    with pytest.raises(SystemExit, match=message):
        train(workshop, tmp_path / "run", *words)
    assert not (tmp_path / "run").exists()


@pytest.mark.full
def test_another_width_does_not_go_on_with_a_run(trained, workshop):
    with pytest.raises(SystemExit, match=r"begun with another .*trunk"):
        train(workshop, trained, "--width", "60")


def test_a_trunk_without_a_row_to_spare_is_refused():
    vocab = ActionVocab.build(54, max_move=4)  # and nine control tokens
    full = replace(vocab, size=64)
    sizes = {"layers": 1, "width": 16, "heads": 2, "mlp_width": 32, "context": 16}
    diffusion.look_both_ways(trunks.build(TrunkConfig(**sizes), vocab), vocab)
    with pytest.raises(ConfigError, match="All 64 rows are taken"):
        diffusion.look_both_ways(trunks.build(TrunkConfig(**sizes), full), full)
