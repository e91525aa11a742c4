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
from reviser import ActionVocab, Kind  # noqa: E402
from reviser.data.order import permute  # noqa: E402
from reviser.errors import ConfigError  # noqa: E402
from reviser.models import trunks  # noqa: E402
from reviser.models.trunks import TrunkConfig  # noqa: E402
from reviser.train.inputs import held_out_set, open_inputs, training_set  # noqa: E402
from reviser.train.recipe import load_recipe  # noqa: E402

WIDTH = 50  # a window of 48, begin and stop
STEPS, BATCH = 60, 8
IDS = STEPS * BATCH * WIDTH + 399  # nearly one step more


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


def test_a_trunk_without_a_row_to_spare_is_refused():
    vocab = ActionVocab.build(54, max_move=4)  # and nine control tokens
    full = replace(vocab, size=64)
    sizes = {"layers": 1, "width": 16, "heads": 2, "mlp_width": 32, "context": 16}
    diffusion.look_both_ways(trunks.build(TrunkConfig(**sizes), vocab), vocab)
    with pytest.raises(ConfigError, match="All 64 rows are taken"):
        diffusion.look_both_ways(trunks.build(TrunkConfig(**sizes), full), full)
