"""From a recipe to the page of its comparison: fair arms, and kills that change nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("sklearn", reason="scikit-learn is not installed, so there is no MAUVE.")

from tests.train.conftest import RECIPES, TEXT, TINY, make_workshop

from reviser.core.codec import Codec
from reviser.errors import ConfigError, DataError, ReviserError
from reviser.lab import reproduce as module
from reviser.lab.evals import texts
from reviser.lab.reproduce import Comparison, load_comparison, reproduce
from reviser.provenance import commit
from support import processes, trained

COMPARISON = {
    "prompts": {
        "prefix_tokens": 8, "total_tokens": 40, "min_tokens": 20, "max_tokens": 200, "prompts": 6,
        "seeds": [1, 2],
    },
    "decoding": {"max_actions": 48},
}  # fmt: skip
PAGES = ("report.md", "report.json")


class Killed(BaseException):
    """In the place of a signal."""


@pytest.fixture(scope="module")
def shared() -> Path:
    """A corpus with its recipe, and in the folder `run` what an undisturbed command made of it."""

    def make(folder: Path) -> None:
        make_workshop(folder)
        path = folder / "compared.yaml"
        path.write_text(yaml.safe_dump(TINY | {"comparison": COMPARISON}))
        done = processes.run("lab", "reproduce", path, "-o", folder / "run")
        page = folder / "run" / "report.md"
        assert (done.returncode, done.stdout) == (0, f"{page}\n"), done.stderr

    return trained.folder("reproduced", [TEXT, TINY, COMPARISON, commit()], make)  # pages name it


@pytest.fixture(scope="module")
def recipe(shared: Path) -> Path:
    return shared / "compared.yaml"


@pytest.fixture(scope="module")
def finished(shared: Path) -> Path:
    return shared / "run"


def pages(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in PAGES]


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text("utf-8"))
    return found


def test_the_arms_differ_in_their_policy_alone(finished: Path) -> None:
    runs = {
        name: json.loads((finished / "models" / name / "run.json").read_text("utf-8"))
        for name in ("reviser", "append", "own")
    }
    ours, baseline = runs["reviser"], runs["append"]
    assert ours["recipe"]["policy"]["kind"] == "obfuscation"
    assert baseline["recipe"]["policy"] == {"kind": "append"}
    for name in ("trunk", "data", "training", "seed", "vocab"):
        assert ours["recipe"][name] == baseline["recipe"][name]
    for name in ("data", "tokenizer", "parameters", "windows"):
        assert ours[name] == baseline[name]
    assert runs["own"]["recipe"]["seed"] != ours["recipe"]["seed"]


def test_both_continue_the_same_held_out_prompts(finished: Path, shared: Path) -> None:
    prompts = [texts.read_prompts(finished / "prompts" / f"{seed}.jsonl") for seed in (1, 2)]
    assert [len(some) for some in prompts] == [6, 6]
    documents = (shared / "text.txt").read_text("utf-8").split("\n\n")
    codec = Codec.load(finished / "models" / "reviser")
    for prompt in [p for some in prompts for p in some]:
        assert len(codec.encode(prompt.prompt)) == 8
        assert any(d.startswith(prompt.prompt + prompt.reference) for d in documents)
    found = [
        texts.read_systems([f"{name}={finished / 'rollouts' / name}"])[name]
        for name in ("reviser", "append")
    ]
    assert [(s.id, s.prompt) for s in found[0]] == [(s.id, s.prompt) for s in found[1]]
    for samples in found:
        for n, sample in enumerate(samples):
            assert sample.rollout is not None
            assert sample.rollout.config.seed == (1 << 20) + n + (n >= 6) * ((1 << 20) - 6)
            assert sample.rollout.config.max_length == 40
            assert sample.rollout.config.max_actions == 48
        seeds = [sample.rollout.config.seed for sample in samples if sample.rollout]
        assert len({*seeds}) == 12  # no two texts of a system share their random numbers


def test_the_record_has_both_arms_and_the_documents(finished: Path) -> None:
    told = record(finished)
    assert [system["name"] for system in told["systems"]] == ["reviser", "append", "reference"]
    for system in told["systems"][:2]:
        assert (system["samples"], len(system["perplexity"]), len(system["mauve"])) == (12, 1, 1)
        assert system["cost"]["measured"]["value"] >= 1
    assert told["comparisons"][0]["systems"] == ["reviser", "append"]
    assert told["protocol"]["prefix_tokens"] == 8
    assert str(finished) not in (finished / "report.json").read_text("utf-8")


def test_a_finished_run_does_nothing_again(
    finished: Path, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pages(finished)
    said: list[str] = []
    monkeypatch.setattr(module, "run", None)
    assert reproduce(recipe, finished, log=said.append) == finished / "report.md"
    assert said == ["evaluating"]
    assert pages(finished) == before


@pytest.mark.full
def test_a_run_that_dies_at_any_write_ends_with_the_same_page(
    finished: Path, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, count, fatal = Path.replace, 0, 10**9

    def counted(self: Path, target: Any) -> Path:
        nonlocal count
        count += 1
        if count == fatal:
            raise Killed
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", counted)

    def fresh(name: str) -> Path:
        shutil.copytree(finished / "models", tmp_path / name / "models")
        return tmp_path / name

    reproduce(recipe, fresh("whole"))
    assert pages(tmp_path / "whole") == pages(finished)
    total = count
    assert total > 15
    for point in range(1, total + 1, 2):
        count, fatal, output = 0, point, fresh(str(point))
        with pytest.raises(Killed):
            reproduce(recipe, output)
        reproduce(recipe, output)
        assert pages(output) == pages(finished), point


def test_what_was_made_from_something_else_is_made_anew(
    finished: Path, recipe: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished, tmp_path / "run")
    changed = ["comparison.decoding.max_actions=12", "comparison.mauve=[]"]
    reproduce(recipe, tmp_path / "run", changes=changed)
    systems = record(tmp_path / "run")["systems"]
    assert [s["decoding"]["max_actions"] for s in systems[:2]] == [12, 12]
    assert systems[0]["mauve"] == []
    with pytest.raises(ConfigError, match=r"begun with another training\.steps"):
        reproduce(recipe, tmp_path / "run", changes=["training.steps=13"])


def test_what_is_gone_or_damaged_is_made_again(
    finished: Path, recipe: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / "prompts" / "2.jsonl").unlink()
    rollouts = tmp_path / "run" / "rollouts" / "append" / "1.jsonl"
    rollouts.write_text("".join(rollouts.read_text("utf-8").splitlines(keepends=True)[:3]))
    said: list[str] = []
    reproduce(recipe, tmp_path / "run", log=said.append)
    assert said == ["choosing prompts", "rolling out append, seed 1", "evaluating"]
    assert pages(tmp_path / "run") == pages(finished)


def test_two_processes_do_not_share_a_folder(finished: Path, recipe: Path) -> None:
    with (
        module.lock(finished / "lock", "x"),
        pytest.raises(ConfigError, match="Another process is working in"),
    ):
        reproduce(recipe, finished)


def test_prompts_may_come_from_elsewhere(finished: Path, recipe: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    text = (RECIPES / "smoke.txt").read_text("utf-8").split("\n\n")[-40:]
    (tmp_path / "other.txt").write_text("\n\n".join(text), encoding="utf-8")
    changes = [f"comparison.text=[{tmp_path / 'other.txt'}]", "comparison.mauve=[]"]
    reproduce(recipe, tmp_path / "run", changes=changes)
    chosen = texts.read_prompts(tmp_path / "run" / "prompts" / "1.jsonl")
    assert all(any(t.startswith(p.prompt) for t in text) for p in chosen)
    (tmp_path / "other.txt").write_text("too little", encoding="utf-8")  # same name, other text
    with pytest.raises(DataError, match="Only 0 documents can be used"):
        reproduce(recipe, tmp_path / "run", changes=changes)


def test_every_recipe_of_ours_has_a_comparison_that_can_be() -> None:
    for path in RECIPES.glob("*.yaml"):
        assert isinstance(load_comparison(path), Comparison)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ("arms={}", "Name one arm or more"),
        ("arm={}", r"`comparison\.arm` is not a setting. Did you mean `arms`"),
        ("decoding={seed: 3}", "decoding.seed is not used"),
        ("prompts={prefix_tokens: 200}", "prefix_tokens is 200"),
        ("judge={url: x}", r"comparison\.judge\.model is missing"),
        ("judge={model: m, url: x}", "must begin with http://"),
        ("decoding={heat: 1}", "`heat` is not a setting"),
        ("arms={../up: []}", r"An arm is called '\.\./up'"),
        ("arms={a: [], b: [data.windows.held_out=0.2]}", "'b' holds out other documents than 'a'"),
        ("own_scorer=[policy=append, 'data.shards=elsewhere']", "'own' holds out other documents"),
        ("mauve=['foo:own']", "Give pll:NAME of a masked LM"),
        ("scorers=[./gone]", r"There is no folder '\./gone'"),
        ("decoding={temperature: -1}", "temperature"),
    ],
)
def test_a_comparison_that_cannot_be_is_refused_before_anything_is_trained(
    recipe: Path, tmp_path: Path, changes: str, sentence: str
) -> None:
    with pytest.raises(ReviserError, match=sentence):
        reproduce(recipe, tmp_path, changes=[f"comparison.{changes}"])
    assert not list(tmp_path.iterdir())


def test_too_few_documents_are_told_before_anything_is_trained(
    recipe: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"Only .* documents can be used"):
        reproduce(recipe, tmp_path, changes=["comparison.prompts.prompts=1000"])
    assert not (tmp_path / "models" / "reviser" / "log.jsonl").exists()


def test_paths_are_relative_to_the_recipe(recipe: Path, shared: Path) -> None:
    changes = ["text=[a.txt, 'hf:c4']", "scorers=[tokenizer, own, gpt2]", "mauve=['pll:tokenizer']"]
    found = load_comparison(recipe, [f"comparison.{change}" for change in changes])
    assert found.text == (str(shared / "a.txt"), "hf:c4")
    assert found.scorers == (str(shared / "tokenizer"), "own", "gpt2")
    assert found.mauve == (f"pll:{shared / 'tokenizer'}",)
