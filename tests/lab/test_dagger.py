"""DAgger: rounds of rollouts, their labels and files, and restarts in the middle."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

pytest.importorskip("torch")

from tests.train.conftest import TINY, assert_same_weights, run
from tests.train.test_editing import VOCAB

from reviser.core.canvas import Canvas
from reviser.data.corrupt import Corruption, corrupted
from reviser.data.dataset import NO_LABEL
from reviser.data.pairs import Pair, write_pairs
from reviser.engines.hf import HFEngine
from reviser.errors import ConfigError
from reviser.lab import dagger
from reviser.lab.dagger import Aggregated, Visited
from reviser.lab.recipe import Dagger, LabRecipe, load_recipe
from reviser.lab.train import train
from reviser.train.inputs import Inputs, open_inputs, pair_stream

POLICY = {"kind": "dagger", "rounds": 2, "drafts": 70, "oracle": 0.6}


@pytest.fixture(scope="module")
def recipe(workshop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe on pairs of corrupted sentences, with two rounds."""
    folder = tmp_path_factory.mktemp("dagger")
    sentences = (workshop / "text.txt").read_text().split(". ")[:60]  # short, to be quick
    write_pairs(folder / "pairs.jsonl", corrupted(sentences, Corruption(rate=20), 0))
    data = {"pairs": ["pairs.jsonl"], "tokenizer": str(workshop / "tokenizer")}
    tiny = TINY | {"vocab": VOCAB, "policy": POLICY, "data": data}
    data["windows"] = {"held_out": 0.1}
    tiny["trunk"] = TINY["trunk"] | {"context": 400}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(tiny))
    return folder / "recipe.yaml"


@pytest.fixture(scope="module")
def whole(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never interrupted."""
    return train(load_recipe(recipe), tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def opened(recipe: Path, whole: Path) -> tuple[LabRecipe, Inputs]:
    """The recipe and its inputs."""
    loaded = load_recipe(recipe)
    return loaded, open_inputs(loaded, whole)


def lines(folder: Path) -> list[str]:
    return [
        line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().split("\n")
    ]


def test_each_round_has_its_rollouts_and_all_steps_are_logged(whole: Path) -> None:
    rounds = [lines(whole / "rollouts" / f"round-{n}") for n in (1, 2)]
    assert [sum(map(bool, found)) for found in rounds] == [70, 70]
    assert rounds[0] != rounds[1]
    record = json.loads((whole / "run.json").read_text())
    assert record["recipe"]["policy"]["kind"] == "dagger"
    assert record["seen"]["examples"] == 12 * 8
    steps = [json.loads(line) for line in (whole / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in steps if "loss" in entry] == list(range(1, 13))


@pytest.mark.parametrize("step", [4, *(pytest.param(n, marks=pytest.mark.full) for n in (8, 10))])
def test_a_run_that_was_stopped_ends_with_the_same_weights(
    recipe: Path, whole: Path, tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stopped right after a checkpoint: at the start of a round, half of whose rollouts are written
    # then, or between two rounds.
    stopped = tmp_path / "run"
    real = dagger.rollouts

    class Killed(Exception):
        """In place of a kill."""

    def rollouts(*args: object, **options: object) -> list[Visited]:
        checkpoint = str(args[3])
        if checkpoint.endswith(f"checkpoint-{step}"):
            found = real(*args, **options)  # type: ignore[arg-type]
            chunk = stopped / "rollouts" / f"round-{step // 4}" / "00001.jsonl"
            chunk.unlink()
            assert found
            raise Killed
        return real(*args, **options)  # type: ignore[arg-type]

    if step == 10:  # a checkpoint within a round
        train(load_recipe(recipe, ["training.save_every=5"]), stopped)
        shutil.rmtree(stopped / "checkpoints" / "checkpoint-12")
        assert (stopped / "checkpoints" / "checkpoint-10").is_dir()
        (stopped / "run.json").unlink()
    else:
        monkeypatch.setattr(dagger, "rollouts", rollouts)
        with pytest.raises(Killed):
            train(load_recipe(recipe), stopped)
        monkeypatch.undo()
    train(load_recipe(recipe), stopped)
    assert_same_weights(stopped, whole)
    for number in (1, 2):
        name = f"rollouts/round-{number}"
        assert lines(stopped / name) == lines(whole / name)


@pytest.mark.full
def test_two_processes_share_the_rollouts(recipe: Path, whole: Path, tmp_path: Path) -> None:
    run(recipe, tmp_path / "two", processes=2, command="lab train")
    two, one = (
        [json.loads(line)["pair"] for line in lines(folder / "rollouts/round-1") if line]
        for folder in (tmp_path / "two", whole)
    )
    assert two == one
    record = json.loads((tmp_path / "two" / "run.json").read_text())
    assert record["processes"] == 2


def test_a_rollout_replays_and_its_labels_are_ids_of_the_vocabulary(
    opened: tuple[LabRecipe, Inputs], whole: Path
) -> None:
    recipe, inputs = opened
    assert isinstance(recipe.policy, Dagger)
    visits = [Visited(**json.loads(x)) for x in lines(whole / "rollouts/round-1") if x]
    stream = pair_stream(recipe, inputs, recipe.policy)
    aggregated = Aggregated(stream, visits, recipe.policy.share)
    own = 0
    for visited in visits:
        pair = stream.split.read(visited.pair)
        example = aggregated.example(visited, 0)
        shown = len(example.ids) - len(visited.ids)
        if shown + len(visited.ids) <= inputs.context:
            assert example.ids[shown:].tolist() == visited.ids
        given = [NO_LABEL if label is None else label for label in visited.labels]
        assert example.labels[shown:].tolist() == given
        assert (example.labels[:shown] == NO_LABEL).all()
        ids = [
            i for i in example.ids.tolist() if i not in (inputs.vocab.begin, inputs.vocab.delimiter)
        ]
        canvas = Canvas.replay(inputs.vocab, ids)
        own += canvas.tokens() != [*pair.instruction, *pair.after]
    assert own  # an untrained model does not arrive
    assert any(None not in visited.labels and visited.labels != visited.ids for visited in visits)


def test_an_oracle_that_always_acts_gives_the_revision_itself(
    opened: tuple[LabRecipe, Inputs],
) -> None:
    recipe, inputs = opened
    policy = Dagger(rounds=1, drafts=20, oracle=1.0, address="both")
    stream = pair_stream(recipe, inputs, policy)
    engine = HFEngine(inputs.model, inputs.vocab)
    for visited in dagger.roll_out(engine, policy, stream, inputs, round_=1, chunk=0):
        trajectory = stream.trajectory(stream.split.read(visited.pair))
        expected = trajectory.restoration[len(trajectory.no_loss) :]
        assert len(visited.ids) <= len(expected)  # planned again after each action
        assert visited.labels == visited.ids


def test_a_text_written_from_nothing_takes_its_mistakes_back(
    opened: tuple[LabRecipe, Inputs], tmp_path: Path
) -> None:
    recipe, inputs = opened
    texts = ["She had a small red boat.", "They went home to eat soup."] * 3
    write_pairs(tmp_path / "new.jsonl", [Pair(before="", after=text) for text in texts])
    data = replace(recipe.data, pairs=(str(tmp_path / "new.jsonl"),))
    policy = Dagger(rounds=1, drafts=40, oracle=0.8, turn=3)
    stream = pair_stream(
        replace(recipe, data=data), open_inputs(replace(recipe, data=data), tmp_path), policy
    )
    vocab, arrived, taken_back = inputs.vocab, 0, 0
    engine = HFEngine(inputs.model, vocab)
    for visited in dagger.roll_out(engine, policy, stream, inputs, round_=1, chunk=0):
        target = stream.split.read(visited.pair).after.tolist()
        canvas = Canvas(vocab)
        for id_, label in zip(visited.ids, visited.labels, strict=True):
            is_right = canvas.tokens() == target[: len(canvas)]
            if is_right and canvas.cursor == len(canvas) and not canvas.is_spelling:
                assert label == [*target, vocab.stop][len(canvas)]
            canvas.apply(id_)
        arrived += canvas.tokens() == target
        taken_back += vocab.delete in visited.ids
    assert arrived
    assert taken_back


def test_the_share_of_rollouts_is_the_policys(opened: tuple[LabRecipe, Inputs]) -> None:
    recipe, inputs = opened
    visited = [Visited(0, [inputs.vocab.stop], [None])]
    stream = Aggregated(pair_stream(recipe, inputs, Dagger()), visited, 0.25)
    draws = [n * 0x9E3779B97F4A7C15 % (1 << 64) for n in range(4000)]
    share = sum(stream.choose(draw) is not None for draw in draws) / len(draws)
    assert share == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("training.steps=13", "multiple of 3"),
        ("training.parallel=fsdp", "whole weights"),
        ("training.lora={rank: 2}", "whole weights"),
        ("policy={kind: dagger, share: 2}", "share"),
    ],
)
def test_what_cannot_be_divided_into_rounds_is_refused(
    recipe: Path, change: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_recipe(recipe, [change])
