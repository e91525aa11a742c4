"""A recipe becomes a model folder that any tool opens, with a record of how it was made."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result

torch = pytest.importorskip("torch")
pytest.importorskip("datatrove")

from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    AutoTokenizer,
    TrainingArguments,
)

from reviser.cli import main  # noqa: E402
from reviser.cli.output import terminable  # noqa: E402
from reviser.core.actions import ActionVocab  # noqa: E402
from reviser.core.canvas import Canvas  # noqa: E402
from reviser.core.codec import Codec  # noqa: E402
from reviser.data.pairs import Pair, write_pairs  # noqa: E402
from reviser.data.shards import TokenShards, tokenize  # noqa: E402
from reviser.errors import CheckpointError, ConfigError, DataError  # noqa: E402
from reviser.model import load  # noqa: E402
from reviser.models import trunks  # noqa: E402
from reviser.train.card import write_card  # noqa: E402
from reviser.train.inputs import open_inputs  # noqa: E402
from reviser.train.recipe import load_recipe  # noqa: E402
from reviser.train.resume import check_claim, check_start_token, write_start_token  # noqa: E402
from reviser.train.run import train  # noqa: E402
from reviser.train.yaml_reader import to_plain  # noqa: E402
from support import small_tokenizers  # noqa: E402

from .conftest import RECIPES, TINY, assert_same_weights, weights  # noqa: E402

SHARED = RECIPES.parents[1] / "shared"
LINES_OF_TRAINING = {
    "step", "loss", "grad_norm", "learning_rate", "padding", "cut", "ids_per_second",
    "ids_per_second_per_core", "peak_memory_gb", "epochs_seen", "ids_seen", "text_tokens_seen",
    "examples_seen", "digest_seen",
}  # fmt: skip
LINES_OF_EVALUATION = {"step"} | {
    f"eval_held_out_{name}"
    for name in (
        "nll", "nll_95", "insert_nll", "move_nll", "stop_nll", "operator_nll",
        "actions_per_token", "text_tokens", "cut",
    )
}  # fmt: skip


def run(recipe: Path, output: Path, *changes: str) -> Path:
    return train(load_recipe(recipe, changes), output)


def command(recipe: Path, output: Path, *changes: str) -> Result:
    settings = [word for change in changes for word in ("--set", change)]
    return CliRunner().invoke(main, ["train", str(recipe), "-o", str(output), *settings])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def record(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return content


def assert_opens_plainly(folder: Path) -> Any:
    """Open a folder with Transformers alone; it is complete and has no pickle."""
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    vocab = ActionVocab.load(folder)
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (vocab.begin, vocab.stop)
    assert model.config.eos_token_id == vocab.stop
    assert model.config.vocab_size >= vocab.size
    ids = tokenizer.encode("One morning, Ada", add_special_tokens=False)
    assert ids == Codec.load(folder).encode("One morning, Ada")
    logits = model(torch.tensor([[vocab.begin, *ids]])).logits
    assert torch.isfinite(logits).all()
    for path in folder.rglob("*"):
        if "checkpoints" not in path.relative_to(folder).parts:
            assert path.suffix not in (".bin", ".pt", ".pth", ".pkl"), path
    return model


@pytest.fixture(scope="module")
def recipe(workshop: Path) -> Path:
    return workshop / "recipe.yaml"


PROMPTS = ["", "One", "Straße 👩\u200d🚀"]
SAME = ["training.evaluate_every=5", f"evaluation.prompts=['', One, '{PROMPTS[2]}']"]


@pytest.fixture(scope="module")
def finished(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workshop's recipe, by the command; tests that change it take a copy."""
    output = tmp_path_factory.mktemp("finished") / "model"
    done = command(recipe, output, *SAME)
    assert (done.exit_code, done.stdout) == (0, f"{output}\n"), done.stderr
    return output


@pytest.fixture
def interrupted(finished: Path, tmp_path: Path) -> Path:
    """As the finished run was after six of its twelve steps, with more lines in its log."""
    folder = tmp_path / "interrupted"
    shutil.copytree(finished, folder)
    shutil.rmtree(folder / "checkpoints" / "checkpoint-12")
    (folder / "model.safetensors").unlink()
    (folder / "run.json").unlink()
    return folder


# -- what a run leaves ------------------------------------------------------------------------


def test_the_folder_has_a_model_card(finished: Path, tmp_path: Path) -> None:
    card, facts = (finished / "README.md").read_text("utf-8"), record(finished)
    _, head, body = card.split("---\n", 2)
    assert yaml.safe_load(head) == {"library_name": "reviser", "tags": ["reviser"]}
    nll = facts["metrics"]["eval_held_out_nll"]
    for words in (
        "# model\n", 'reviser generate "Once" -m model\n', f"{facts['parameters']:,} parameters",
        "trained from random weights. In 12 steps", f"{facts['seen']['text_tokens']:,} tokens of",
        f"\n\n| held out | nats per text token |\n|---|---:|\n| eval_held_out_nll | {nll:.3f} ±",
    ):  # fmt: skip
        assert words in body, words

    facts["recipe"]["base"] = "openai-community/gpt2@607a30d"
    facts["metrics"] = {}
    write_card(tmp_path, facts, is_editor=True)
    card = (tmp_path / "README.md").read_text("utf-8")
    assert yaml.safe_load(card.split("---\n")[1])["base_model"] == "openai-community/gpt2"
    assert "reviser revise draft.txt" in card
    assert "nats per text token" not in card
    (tmp_path / "README.md").write_text("Mine.")
    write_card(tmp_path, facts, is_editor=True)
    assert (tmp_path / "README.md").read_text() == "Mine."


def test_the_folder_is_a_model_that_plain_transformers_opens(finished: Path) -> None:
    model = assert_opens_plainly(finished)
    ours, _ = trunks.load(finished)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, ours.state_dict()[name])
    newest = finished / "checkpoints" / "checkpoint-12"
    assert_same_weights(finished, newest)


def test_the_log_has_a_line_per_step_and_evaluation_with_the_figures_promised(
    finished: Path,
) -> None:
    log = lines(finished / "log.jsonl")
    logged = [("loss" in line, line["step"]) for line in log]
    steps = [(True, n) for n in range(1, 13)]
    assert sorted(logged) == sorted([*steps, (False, 5), (False, 10), (False, 12)])
    assert logged == sorted(logged, key=lambda pair: (pair[1], not pair[0]))
    for line in log:
        assert line.keys() == (LINES_OF_TRAINING if "loss" in line else LINES_OF_EVALUATION)
        assert all(np.isfinite(value) and value >= 0 for value in line.values())
        if "loss" in line:
            assert 0 <= line["padding"] < 0.5
            assert line["peak_memory_gb"] > 0.1
            cores = torch.get_num_threads()
            assert line["ids_per_second_per_core"] * cores == pytest.approx(line["ids_per_second"])
        else:
            parts = [line[f"eval_held_out_{k}_nll"] for k in ("insert", "move", "stop", "operator")]
            assert line["eval_held_out_nll"] == pytest.approx(sum(parts))
            assert min(parts[:3]) > 0
            assert parts[3] == 0


def test_samples_replay_to_their_text_behind_their_prompt(finished: Path) -> None:
    codec, vocab = Codec.load(finished), ActionVocab.load(finished)
    samples = lines(finished / "samples.jsonl")
    assert [(s["step"], s["prompt"]) for s in samples] == [
        (step, prompt) for step in (5, 10, 12) for prompt in PROMPTS
    ]
    for sample in samples:
        assert sample["prefix"] == codec.encode(sample["prompt"])
        canvas = Canvas.replay(vocab, [*sample["prefix"], *sample["restoration"]])
        assert codec.decode(canvas.tokens()) == sample["text"]
        assert canvas.tokens()[: len(sample["prefix"])] == sample["prefix"]
        ended = vocab.stop in sample["restoration"]
        assert ended or len(sample["restoration"]) == TINY["evaluation"]["max_actions"]
    model = load(finished)
    for sample in samples[-len(PROMPTS) :]:  # those of the saved model
        rollout = model.generate(sample["prompt"], max_actions=8, seed=0)
        assert list(rollout.trajectory.restoration) == sample["restoration"]


def test_the_record_says_how_the_model_was_made(
    finished: Path, recipe: Path, workshop: Path
) -> None:
    kept = record(finished)
    given = load_recipe(recipe, SAME)
    assert kept["recipe"] == json.loads(json.dumps(to_plain(given)))
    assert kept["recipe"] == json.loads((finished / "recipe.json").read_text(encoding="utf-8"))
    assert kept["data"] == TokenShards.open(workshop / "shards").fingerprint
    assert kept["tokenizer"] == Codec.load(workshop / "tokenizer").fingerprint
    model, _ = trunks.load(finished)
    assert kept["parameters"] == sum(p.numel() for p in model.parameters())
    assert kept["processes"] == 1
    log = lines(finished / "log.jsonl")
    training = [line for line in log if "loss" in line]
    assert kept["seen"] == {k: training[-1][f"{k}_seen"] for k in kept["seen"]}
    assert kept["metrics"] == {k: v for k, v in log[-1].items() if k != "step"}
    assert kept["flops"] > 0
    for name, number in kept["versions"].items():
        assert number == version(name)
    assert {"reviser-lm", "torch", "transformers", "accelerate"} <= kept["versions"].keys()
    assert kept["python"] == platform.python_version()
    assert kept["machine"].startswith(platform.machine())
    if (RECIPES.parent / ".git").exists():
        assert len(kept["commit"].removesuffix("-dirty")) == 40


@pytest.mark.full
def test_tensorboard_files_hold_the_same_figures_each_run_in_its_own_folder(
    recipe: Path, tmp_path: Path
) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for name in ("one", "other"):
        changes = ["training.reporters=[tensorboard]", "training.steps=3"]
        folder = run(recipe, tmp_path / name, *changes)
        board = events.EventAccumulator(str(folder / "tensorboard"))
        board.Reload()
        log = lines(folder / "log.jsonl")
        losses = [(event.step, event.value) for event in board.Scalars("train/loss")]
        assert losses == [
            (line["step"], pytest.approx(line["loss"])) for line in log if "loss" in line
        ]
        ((step, nll),) = ((e.step, e.value) for e in board.Scalars("eval/held_out_insert_nll"))
        assert (step, nll) == (3, pytest.approx(log[-1]["eval_held_out_insert_nll"]))
    assert "TENSORBOARD_LOGGING_DIR" not in os.environ


def test_from_text_alone_tokenizer_and_shards_are_made_in_the_output(
    workshop: Path, tmp_path: Path
) -> None:
    windows = TINY["data"]["windows"]
    content = TINY | {"data": {"text": ["stories.txt"], "bpe": 280, "windows": windows}}
    content["training"] = TINY["training"] | {"steps": 2}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(content))
    shutil.copy(workshop / "text.txt", tmp_path / "stories.txt")
    folder = run(tmp_path / "recipe.yaml", tmp_path / "model")
    assert_opens_plainly(folder)
    assert len(Codec.load(folder / "tokenizer").token_bytes) == 280
    assert record(folder)["data"] == TokenShards.open(folder / "shards").fingerprint


# -- resuming ---------------------------------------------------------------------------------


def test_a_finished_run_run_again_stays_as_it_is(
    finished: Path, recipe: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "again"
    shutil.copytree(finished, folder)
    run(recipe, folder, *SAME)
    for name in ("model.safetensors", "log.jsonl", "samples.jsonl", "recipe.json"):
        assert (folder / name).read_bytes() == (finished / name).read_bytes(), name
    ours, before = record(folder), record(finished)
    assert {k: v for k, v in ours.items() if k != "commit"} == (
        {k: v for k, v in before.items() if k != "commit"}
    )


def test_what_is_free_to_change_does_not_change_the_weights(
    finished: Path, interrupted: Path, recipe: Path
) -> None:
    trunk = load_recipe(recipe).trunk
    assert trunk is not None
    assert trunk.dropout > 0  # with recompute, the second pass must drop the same activations
    free = [
        "training.workers=1", "training.recompute=true", "training.log_every=4",
        "training.save_every=3", "training.evaluate_every=4", "training.reporters=[]",
        "evaluation.examples=4", "evaluation.policies={left: append}", "evaluation.prompts=[Two]",
        "evaluation.max_actions=3", "training.parallel=fsdp",
    ]  # fmt: skip
    run(recipe, interrupted, *free)
    assert_same_weights(interrupted, finished)
    assert record(interrupted)["seen"] == record(finished)["seen"]
    last = lines(interrupted / "log.jsonl")[-1]
    assert last["step"] == 12
    assert "eval_left_nll" in last


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("seed=1", "seed"),
        ("policy={kind: obfuscation, delete: 0.7}", "policy.delete"),
        ("trunk.width=32", "trunk.width"),
        ("data.windows.size=38", "data.windows"),
        ("training.learning_rate=0.5", "training.learning_rate"),
        ("training.lora={}", "training.lora"),
    ],
)
def test_another_recipe_into_the_same_output_is_refused_by_what_differs(
    finished: Path, recipe: Path, change: str, name: str
) -> None:
    before = (finished / "recipe.json").read_bytes()
    with pytest.raises(ConfigError) as caught:
        run(recipe, finished, *SAME, change)
    named = str(caught.value).partition("another ")[2].partition(". ")[0]
    assert name in named.split(", ")
    assert {part.partition(".")[0] for part in named.split(", ")} == {name.partition(".")[0]}
    assert (finished / "recipe.json").read_bytes() == before


def test_a_start_that_failed_leaves_the_output_free(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no shards"):
        run(recipe, tmp_path / "model", "data.shards=elsewhere", "seed=3")
    run(recipe, tmp_path / "model", "training.steps=1")


def test_the_same_data_elsewhere_is_the_same_and_other_data_in_its_place_is_not(
    finished: Path, workshop: Path, tmp_path: Path
) -> None:
    folder, other = tmp_path / "again", tmp_path / "workshop"
    shutil.copytree(finished, folder)
    shutil.copytree(workshop, other)
    (folder / "run.json").unlink()
    run(other / "recipe.yaml", folder, *SAME)
    shutil.rmtree(other / "shards")
    text = (other / "text.txt").read_text().split("\n\n")
    (other / "text.txt").write_text("\n\n".join(text[:100]))
    tokenize([other / "text.txt"], other / "shards", other / "tokenizer", workers=1)
    (folder / "run.json").unlink()
    with pytest.raises(ConfigError, match=r"was begun with another shards\."):
        run(other / "recipe.yaml", folder, *SAME)


def test_a_damaged_checkpoint_is_named(finished: Path, recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    shutil.copytree(finished, folder)
    newest = folder / "checkpoints" / "checkpoint-12"
    (newest / "model.safetensors").write_bytes(b"no")
    (folder / "run.json").unlink()
    with pytest.raises(CheckpointError, match=r"checkpoint-12'.*Delete it to resume"):
        run(recipe, folder, *SAME)


def test_settings_of_the_launcher_that_differ_are_refused(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    with pytest.raises(ConfigError, match="launcher sets mixed precision bf16, the recipe fp32"):
        run(recipe, tmp_path / "model")
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(ConfigError, match="launcher sets FSDP"):
        run(recipe, tmp_path / "model")


def test_a_process_with_another_output_folder_is_refused(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    token = write_start_token(here)
    check_start_token(here, token)
    write_start_token(there)
    for folder in (there, tmp_path):
        with pytest.raises(ConfigError, match="on a disk that all machines share"):
            check_start_token(folder, token)


def test_the_batch_must_fit_the_processes(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TrainingArguments, "world_size", property(lambda _: 3))
    with pytest.raises(ConfigError) as caught:
        run(recipe, tmp_path / "model")
    assert str(caught.value).startswith(
        "batch 8 is not a multiple of 3 processes with micro_batch 4 each."
    )
    assert not (tmp_path / "model").exists()


# -- exactness -------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # torch's compiler uses what it deprecates
def test_a_compiled_trunk_learns_the_same(finished: Path, recipe: Path, tmp_path: Path) -> None:
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    run(recipe, tmp_path, *SAME, "training.compile=true")
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > graphs
    ours, theirs = (record(folder)["metrics"] for folder in (tmp_path, finished))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, abs=0.01), name
    trunks.load(tmp_path)


# -- bases ------------------------------------------------------------------------------------


def tables(folder: Path) -> dict[str, Any]:
    model = AutoModelForCausalLM.from_pretrained(folder)
    return {
        "input": model.get_input_embeddings().weight.detach(),
        "output": model.get_output_embeddings().weight.detach(),
        "linear": model.model.layers[0].self_attn.q_proj.weight.detach(),
        "norm": model.model.norm.weight.detach(),
    }


@pytest.mark.parametrize("base", ["tied", pytest.param("untied", marks=pytest.mark.full)])
def test_a_base_is_adapted_and_trained_in_full(bases: Path, tmp_path: Path, base: str) -> None:
    folder = run(bases / "recipe.yaml", tmp_path / "model", f"base={base}")
    model = assert_opens_plainly(folder)
    assert model.config.tie_word_embeddings == (base == "tied")
    before, after = tables(bases / base), tables(folder)
    tokens = len(before["input"])
    assert ActionVocab.load(folder).tokens == tokens
    assert all(not torch.equal(before[n], after[n]) for n in ("linear", "norm"))
    for name in ("input", "output"):
        assert not torch.equal(before[name], after[name][:tokens])
    loss = [line["loss"] for line in lines(folder / "log.jsonl") if "loss" in line]
    assert loss[-1] < loss[0] - 0.1


@pytest.mark.parametrize("base", [pytest.param("tied", marks=pytest.mark.full), "untied"])
def test_lora_trains_the_control_rows_and_leaves_those_of_ordinary_tokens(
    bases: Path, tmp_path: Path, base: str
) -> None:
    changes = [f"base={base}", "training.lora={rank: 2, dropout: 0.1}"]
    folder = run(bases / "recipe.yaml", tmp_path / "model", *changes)
    model = assert_opens_plainly(folder)
    assert model.config.tie_word_embeddings == (base == "tied")
    before, after = tables(bases / base), tables(folder)
    tokens, vocab = len(before["input"]), ActionVocab.load(folder)
    for name in ("input", "output"):
        assert torch.equal(after[name][:tokens], before[name])
        mean = before[name].mean(0)
        moved = (after[name] - mean).abs().amax(1) > 1e-4
        expected = torch.arange(len(moved)) < vocab.size
        if base == "untied" and name == "input":
            expected[vocab.stop] = False  # nothing is read after it
        assert torch.equal(moved[tokens:], expected[tokens:])
    assert not torch.equal(after["linear"], before["linear"])
    assert torch.equal(after["norm"], before["norm"])
    assert np.linalg.matrix_rank(after["linear"] - before["linear"], tol=1e-6) == 2
    assert record(folder)["parameters"] == model.num_parameters()
    assert 0 < record(folder)["trained_parameters"] < model.num_parameters() / 2
    loss = [line["loss"] for line in lines(folder / "log.jsonl") if "loss" in line]
    assert loss[-1] < loss[0]


@pytest.mark.parametrize(
    "lora",
    ["", pytest.param("{rank: 2, dropout: 0.1}", marks=pytest.mark.full)],
    ids=["all", "lora"],
)
def test_an_adapted_base_is_resumed_where_it_was(bases: Path, tmp_path: Path, lora: str) -> None:
    changes = ["base=untied", f"training.lora={lora}"]
    folder = run(bases / "recipe.yaml", tmp_path / "model", *changes)
    again = tmp_path / "again"
    shutil.copytree(folder, again)
    shutil.rmtree(again / "checkpoints" / "checkpoint-12")
    run(bases / "recipe.yaml", again, *changes)
    assert_same_weights(again, folder)
    assert record(again)["metrics"] == record(folder)["metrics"]


@pytest.mark.parametrize("kind", ["adapted", "own"])
def test_a_reviser_model_is_trained_further_with_its_own_actions(
    bases: Path, finished: Path, workshop: Path, tmp_path: Path, kind: str
) -> None:
    adapted = kind == "adapted"
    if adapted:
        base = run(bases / "recipe.yaml", tmp_path / "base", "base=tied", "training.steps=2")
    else:
        base = finished
    changes = [f"base={base}", "training.steps=3", "training.learning_rate=1e-12"]
    changes += [f"data.shards={(bases if adapted else workshop) / 'shards'}"]
    # Left out, or the same as the base's: either way nothing that was learned is lost.
    vocab = "vocab={max_move: 32}" if adapted else "vocab={}"
    folder = run(bases / "recipe.yaml", tmp_path / "more", *changes, vocab)
    assert_opens_plainly(folder)
    assert (folder / "action_vocab.json").read_bytes() == (base / "action_vocab.json").read_bytes()
    one, other = weights(folder), weights(base)
    for name in other:
        np.testing.assert_allclose(one[name], other[name], atol=1e-6)


def test_a_reviser_model_gets_the_other_actions_that_a_recipe_asks_for(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = {k: v for k, v in TINY.items() if k not in ("trunk", "data")}
    pairs = [Pair(before=f"One {n}", after=f"One {n}.") for n in range(40)]
    write_pairs(tmp_path / "pairs.jsonl", pairs)
    recipe["data"] = {"pairs": ["pairs.jsonl"], "windows": {"held_out": 0.5}}
    recipe["vocab"] = {"operators": ["delete"], "max_move": 8}
    recipe |= {"base": str(finished), "policy": {"kind": "edits", "address": "moves"}}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    inputs = open_inputs(load_recipe(tmp_path / "recipe.yaml"), tmp_path)
    old, tokens = ActionVocab.load(finished), inputs.vocab.tokens
    assert (inputs.vocab.max_move, old.max_move) == (8, 32)
    assert old.delete is None
    assert inputs.vocab.delete is not None
    before, after = (
        m.get_input_embeddings().weight for m in (trunks.load(finished)[0], inputs.model)
    )
    assert torch.equal(after[:tokens], before[:tokens])
    mean = before[:tokens].mean(0).expand_as(after[tokens:])
    torch.testing.assert_close(after[tokens:], mean)
    assert "the recipe asks for other actions" in inputs.note
    folder = run(tmp_path / "recipe.yaml", tmp_path / "editor", "training.steps=2")
    assert "were removed" in capsys.readouterr().err
    assert ActionVocab.load(folder) == inputs.vocab
    with load(folder) as model:
        assert model.revise("One", max_actions=4).text


def test_a_placeholder_base_is_not_looked_up_on_the_hub(
    bases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", None)
    done = command(bases / "recipe.yaml", tmp_path / "model", "base=your-model")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: base is 'your-model', a placeholder. Set it in the")


# -- the paper's ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["paper-100m", pytest.param("paper-300m", marks=pytest.mark.full)])
def test_the_papers_recipes_run_with_a_smaller_trunk(
    workshop: Path, tmp_path: Path, name: str
) -> None:
    data = Path(os.environ.get("REVISER_DATA", SHARED / "data"))
    gpt2 = data / "gpt2-tokenizer"
    if "REVISER_DATA" not in os.environ and not gpt2.exists():
        pytest.skip("GPT-2's tokenizer is not at hand; REVISER_DATA can say where data is")
    shards = workshop / "gpt2-shards"
    tokenize([workshop / "text.txt"], shards, gpt2, workers=1)
    changes = [
        "trunk.layers=1", "trunk.width=8", "trunk.heads=2", "trunk.mlp_width=8",
        f"data.shards={shards}", f"data.tokenizer={gpt2}", "data.windows.held_out=0.1",
        "training.steps=2", "training.batch=4", "training.micro_batch=2", "training.workers=0",
        "training.reporters=[]", "evaluation.examples=4",
    ]  # fmt: skip
    folder = run(RECIPES / f"{name}.yaml", tmp_path / "model", *changes)
    assert ActionVocab.load(folder) == ActionVocab.paper()
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert (model.config.model_type, model.config.vocab_size) == ("gpt_neox", 50304)
    (sample,) = lines(folder / "samples.jsonl")
    assert sample["text"].startswith(sample["prompt"])


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (["data.shards=nowhere"], "data.shards: there is no folder "),
        (["data.shards=other"], "There is no manifest.json in "),
        (["data.tokenizer=nowhere"], "data.tokenizer: there is no folder "),
        (["data.shards=", "data.text=[nowhere.txt]"], "There is nothing to read at "),
        (["data.tokenizer=other"], "The shards in "),
        (["vocab.operators=[erase]"], "Unknown operators ['erase']."),
        (["vocab.begin=<s>"], "The tokenizer has no token '<s>' that could be the begin token."),
        (["vocab.preset=paper"], "The tokenizer's ids end at "),
        (["trunk.context=16"], "A context of 16 ids is too short for"),
        (["data.windows.held_out=0"], "data.windows.held_out is 0, which leaves nothing"),
        (["training.reporters=[pigeon]"], "training.reporters has 'pigeon', which Transformers"),
        ([f"evaluation.prompts=['{'One ' * 60}']"], "evaluation.prompts has 'One One"),
        (["trunk=", "data.tokenizer=", "base=other"], "Cannot open a model in "),
    ],
)
def test_a_bad_recipe_is_refused_in_one_line(
    workshop: Path,
    tmp_path: Path,
    changes: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(workshop)
    (workshop / "other").mkdir(exist_ok=True)
    small_tokenizers.byte_level().save(str(workshop / "other" / "tokenizer.json"))
    done = command(workshop / "recipe.yaml", tmp_path / "model", *changes)
    assert done.exit_code == 1, done.exception
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: {sentence}")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "model" / "model.safetensors").exists()


def test_a_recipe_saved_before_a_setting_existed_has_its_default(
    recipe: Path, tmp_path: Path
) -> None:
    made = load_recipe(recipe)
    saved = json.loads(json.dumps(to_plain(made)))
    del saved["vocab"]["marks"], saved["training"]["compile"]
    (tmp_path / "recipe.json").write_text(json.dumps(saved), "utf-8")
    check_claim(tmp_path, made)
    with pytest.raises(ConfigError, match=r"another vocab\.marks\."):
        check_claim(tmp_path, load_recipe(recipe, ["vocab.marks=true"]))


@pytest.mark.parametrize("step", [None, 6])
@pytest.mark.parametrize(
    ("number", "word", "status"),
    [(signal.SIGTERM, "Terminated", 143), (signal.SIGINT, "Interrupted", 130)],
)
def test_a_run_that_is_stopped_says_how_to_continue(
    recipe: Path,
    tmp_path: Path,
    step: int | None,
    number: signal.Signals,
    word: str,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stopped(_: Any, output: Path) -> Path:
        if step is not None:
            (output / "checkpoints" / f"checkpoint-{step}").mkdir(parents=True)
            (output / "checkpoints" / f"checkpoint-{step}" / "complete").write_text("plain")
        if number == signal.SIGINT:  # which a process in the background ignores
            raise KeyboardInterrupt
        signal.raise_signal(number)
        return output

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("reviser.train.run.train", stopped)
    done = command(recipe, tmp_path / "model")
    rest = {
        None: "There is no checkpoint yet: the same command starts again from step 0.",
        6: "Run the same command again to continue from step 6.",
    }[step]
    assert (done.exit_code, done.stdout, done.stderr) == (status, "", f"{word}. {rest}\n")
    assert signal.getsignal(signal.SIGTERM) == before


def test_one_of_several_processes_dies_of_sigterm_as_usual(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    before = signal.getsignal(signal.SIGTERM)
    with terminable():
        assert signal.getsignal(signal.SIGTERM) == before


def test_paths_on_the_command_line_are_relative_to_the_working_directory(
    finished: Path, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").symlink_to(finished)
    (tmp_path / "here").symlink_to(recipe.parent / "shards")
    again = command(recipe, Path("model"), "data.shards=here", *SAME)  # finished: nothing to do
    assert again.exit_code == 0, again.stderr
    missing = command(recipe, Path("new"), "data.shards=nowhere")
    assert f"there is no folder '{tmp_path}/nowhere'" in missing.stderr
