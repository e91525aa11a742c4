"""Runs of reinforcement learning: their output, exact resume, several processes, and refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from tests.lab.reinforce.test_likelihood import slow_reference
from tests.train.conftest import assert_same_weights, run, weights
from transformers import GPT2Config, GPT2LMHeadModel

import reviser
from reviser.core.actions import ActionVocab
from reviser.core.codec import read_tokenizer
from reviser.errors import ConfigError
from reviser.lab.recipe import check_inputs, load_recipe
from reviser.lab.reinforce import trainer as trainers
from reviser.lab.reinforce.prompts import HELD_OUT, TRAINING, Prompts
from reviser.lab.reinforce.rollouts import Rollout
from reviser.lab.reinforce.run import reinforce
from reviser.models import trunks
from reviser.train.inputs import make_missing, open_inputs

from .conftest import EDITS, changed


@pytest.fixture(scope="module")
def whole(bench: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never interrupted."""
    return reinforce(load_recipe(bench / "edits.yaml"), tmp_path_factory.mktemp("whole"))


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_the_output_is_a_model_folder_with_its_log(bench: Path, whole: Path) -> None:
    log = log_of(whole)
    steps = [line for line in log if "loss" in line]
    assert [line["step"] for line in steps] == [1, 2, 3, 4]
    assert steps[0]["kl"] == pytest.approx(0.0, abs=1e-9)  # the weights of the reference
    assert steps[0]["type_divergence"] == pytest.approx(0.0, abs=1e-6)
    assert steps[-1]["kl"] > 1e-6
    guards = {"distinct_2", "text_tokens", "revised", "actions_per_token", "stopped"}
    assert all({*line} >= {"reward", "entropy", "ids_per_second", *guards} for line in steps)
    assert [line["step"] for line in log if "eval_reward" in line] == [0, 4]
    record = json.loads((whole / "run.json").read_text())
    assert record["recipe"]["reinforce"]["reward"]["kind"] == "edits"
    assert record["seen"]["examples"] == 4 * 8
    assert "eval_reward" in record["metrics"]
    assert "trl" in record["versions"]
    assert not all(
        np.array_equal(weights(whole)[name], tensor)
        for name, tensor in weights(bench / "editor").items()
    )
    with reviser.load(whole) as model:
        assert model.revise("One two two three.", max_actions=8).text
    assert reinforce(load_recipe(bench / "edits.yaml"), whole) == whole  # finished


def test_a_run_that_was_killed_ends_with_the_same_weights(
    bench: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = trainers.roll_out
    made: list[tuple[int, ...]] = []

    class Killed(Exception):
        """In place of a kill."""

    def until_step_3(*args: Any, **options: Any) -> Any:
        rollouts = real(*args, **options)
        made.extend(each.ids for each in rollouts if each.prompt.key.startswith(TRAINING))
        if len(made) > 2 * 8:
            raise Killed
        return rollouts

    monkeypatch.setattr(trainers, "roll_out", until_step_3)
    with pytest.raises(Killed):
        reinforce(load_recipe(bench / "edits.yaml"), tmp_path)
    again: list[tuple[int, ...]] = []

    def counted(*args: Any, **options: Any) -> Any:
        rollouts = real(*args, **options)
        again.extend(each.ids for each in rollouts if each.prompt.key.startswith(TRAINING))
        return rollouts

    monkeypatch.setattr(trainers, "roll_out", counted)
    reinforce(load_recipe(bench / "edits.yaml"), tmp_path)
    assert again[:8] == made[16:]  # the rollouts that were lost are made again
    assert_same_weights(tmp_path, whole)
    timed = {"ids_per_second", "step_time", "eval_runtime", "eval_samples_per_second"}
    timed |= {"eval_steps_per_second"}
    logs = [
        [{k: line[k] for k in {*line} - timed} for line in log_of(f)] for f in (tmp_path, whole)
    ]
    assert logs[0] == logs[1]


def test_log_probabilities_in_training_are_those_of_the_rollouts(
    bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GPT-2 has a table of positions, so padding on the left would show; and it has dropout.
    tokenizer, vocab = read_tokenizer(bench / "editor"), ActionVocab.load(bench / "editor")
    config = GPT2Config(vocab_size=vocab.size, n_positions=160, n_embd=16, n_layer=1, n_head=2)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    trunks.set_special_ids(model, vocab)
    trunks.save(model, tokenizer, vocab, tmp_path / "base")
    made: dict[tuple[int, ...], Rollout] = {}
    real_rollouts = trainers.roll_out
    real = trainers.EditGRPOTrainer._get_per_token_logps_and_entropies
    compared = []

    def rollouts(*args: Any, **options: Any) -> Any:
        found = real_rollouts(*args, **options)
        made.update({(*each.prompt.request.history, *each.ids): each for each in found})
        return found

    def checked(
        self: Any, model: Any, ids: torch.Tensor, mask: torch.Tensor, width: int, **options: Any
    ) -> Any:
        logprobs, *rest = real(self, model, ids, mask, width, **options)
        is_training = model.training
        model.eval()
        for n, row in enumerate(ids):
            rollout = made[tuple(row[mask[n].bool()].tolist())]
            slow = slow_reference(model, vocab, rollout, self.temperature)
            expected = [step["logprob"] for step in slow] + [0.0] * (width - len(slow))
            assert logprobs[n].tolist() == pytest.approx(expected, abs=1e-4)
        compared.append((is_training, len({int(row) for row in mask.argmax(1)})))
        model.train(is_training)
        return logprobs, *rest

    monkeypatch.setattr(trainers, "roll_out", rollouts)
    monkeypatch.setattr(trainers.EditGRPOTrainer, "_get_per_token_logps_and_entropies", checked)
    changes = [f"base={tmp_path / 'base'}", "training.steps=2", "reinforce.temperature=0.8"]
    reinforce(load_recipe(bench / "edits.yaml", changes), tmp_path / "run")
    assert any(is_training and paddings > 1 for is_training, paddings in compared)


def test_another_base_is_refused_when_a_run_is_resumed(
    bench: Path, whole: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole, tmp_path / "run")
    (tmp_path / "run" / "run.json").unlink()
    with pytest.raises(ConfigError, match="weights"):
        reinforce(load_recipe(bench / "edits.yaml", [f"base={whole}"]), tmp_path / "run")


def test_texts_are_continued_and_ranked_and_learned_from_twice(bench: Path, tmp_path: Path) -> None:
    changes = ["reinforce.updates=2", "training.learning_rate=0.1", "training.steps=2"]
    reinforce(load_recipe(bench / "text.yaml", changes), tmp_path)
    first, second = (line for line in log_of(tmp_path) if "loss" in line)
    assert first["rewards/quality/mean"] == pytest.approx(0.5)  # of ranks
    assert second["examples_seen"] == first["examples_seen"] == 8  # the same rollouts again
    assert first["clip_ratio/region_mean"] == 0


def test_what_the_oracle_did_is_not_learned(bench: Path, tmp_path: Path) -> None:
    # With every action but STOP taken by the oracle, only STOP has a loss.
    changes = ["reinforce.oracle=1.0", "reinforce.oracle_until=1.0", "training.steps=2"]
    changes += ["reinforce.max_actions=1", "training.save_every=2"]
    reinforce(load_recipe(bench / "edits.yaml", changes), tmp_path)
    (first, *_) = (line for line in log_of(tmp_path) if "loss" in line)
    assert first["rewards/actions/mean"] == 1.0
    assert first["completions/mean_length"] == 1.0


def test_prompts_depend_on_the_seed_and_their_number_only(bench: Path, tmp_path: Path) -> None:
    for name in ("edits", "text"):
        recipe = load_recipe(bench / f"{name}.yaml")
        make_missing(recipe, tmp_path)
        inputs = open_inputs(recipe, tmp_path)
        for split in (TRAINING, HELD_OUT):
            prompts, again = (Prompts(recipe, inputs, split) for _ in range(2))
            numbers = range(len(prompts) + 2)  # into the second epoch
            found = [prompts[n] for n in numbers]
            assert found == [again[n] for n in reversed(numbers)][::-1]
            assert len({each.text + each.target for each in found[: len(prompts)]}) > 1
            for prompt in found:
                prompt.request.check(inputs.vocab, inputs.context)
                whole = prompt.oracle(inputs.vocab, 1.0, 10_000)
                least = len(prompt.request.history) + 3
                assert len(prompt.oracle(inputs.vocab, 1.0, least)) <= 2
                assert (
                    (*whole, inputs.vocab.stop) == prompt.script if prompt.is_draft else not whole
                )


@pytest.mark.full
def test_two_processes_learn_what_one_does(bench: Path, tmp_path: Path) -> None:
    # The means of these two terms are taken over the rollouts of a process, so they are left out.
    changes = ["reinforce.entropy=0.0", "reinforce.types=0.0", "training.learning_rate=0.001"]
    for processes in (1, 2):
        run(
            bench / "edits.yaml",
            tmp_path / str(processes),
            *changes,
            processes=processes,
            command="lab train",
        )
    one, two = (log_of(tmp_path / name) for name in "12")
    for a, b in zip(one, two, strict=True):
        for name in ("reward", "loss", "ids_seen", "examples_seen", "kl", "text_tokens"):
            if name in a:
                assert b[name] == pytest.approx(a[name], rel=1e-3, abs=1e-4), (a["step"], name)
    for name, tensor in weights(tmp_path / "1").items():
        np.testing.assert_allclose(weights(tmp_path / "2")[name], tensor, atol=1e-4)
    # The same run in two processes resumes, too.
    (tmp_path / "2" / "run.json").unlink()
    shutil.rmtree(tmp_path / "2" / "checkpoints" / "checkpoint-4")
    before = weights(tmp_path / "2")
    run(bench / "edits.yaml", tmp_path / "2", *changes, processes=2, command="lab train")
    assert all(np.array_equal(before[k], v) for k, v in weights(tmp_path / "2").items())


@pytest.mark.full
def test_a_model_learns_what_it_is_rewarded_for(bench: Path, tmp_path: Path) -> None:
    # The price of an action is more than any edit earns, so it is best to stop at once.
    changes = ["reinforce.price_per_action=1.0", "reinforce.kl=0.0", "reinforce.types=0.0"]
    changes += ["reinforce.oracle=0.0", "training.steps=60", "training.save_every=60"]
    changes += ["training.batch=32", "training.micro_batch=32", "reinforce.entropy=0.0"]
    reinforce(load_recipe(bench / "edits.yaml", changes), tmp_path)
    lengths = [line["rewards/actions/mean"] for line in log_of(tmp_path) if "loss" in line]
    assert np.mean(lengths[-5:]) < 0.75 * np.mean(lengths[:5])


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"base": None, "trunk": {"layers": 1, "width": 8, "heads": 1, "mlp_width": 8}}, "as base"),
        ({"vocab": {"max_move": 8}}, "leave out trunk and vocab"),
        ({"policy": {"kind": "rewrite"}}, "policy of kind edits"),
        ({"training": {"batch": 12, "micro_batch": 3}, "reinforce": {"group": 8}}, "multiple"),
        ({"training": {"save_every": 3}, "reinforce": {"updates": 2}}, "save_every"),
        ({"training": {"parallel": "fsdp"}}, "whole weights"),
        ({"reinforce": {"oracle_until": 0.0}}, "oracle_until"),
        ({"reinforce": {"reward": {"kind": "edits", "scorer": "x"}}}, "leave out scorer"),
    ],
)
def test_recipes_that_cannot_be_reinforced_are_refused(
    tmp_path: Path, sections: dict[str, Any], message: str
) -> None:
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(changed(EDITS, **sections)))
    with pytest.raises(ConfigError, match=message):
        load_recipe(tmp_path / "recipe.yaml")


def test_a_missing_scorer_is_refused_by_its_setting(bench: Path) -> None:
    recipe = load_recipe(bench / "text.yaml", ["reinforce.reward.scorer=your-scorer"])
    with pytest.raises(ConfigError, match=r"reinforce.reward.scorer is 'your-scorer'"):
        check_inputs(recipe)


def test_a_recipe_without_the_section_is_refused(bench: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no section reinforce"):
        reinforce(load_recipe(bench / "edits.yaml", ["reinforce=null"]), tmp_path)
