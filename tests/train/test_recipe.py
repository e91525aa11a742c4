"""Recipes: unchanged through YAML and back, helpful when wrong, and the paper's numbers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from reviser.cli import main
from reviser.data.window_config import WindowConfig
from reviser.errors import ConfigError
from reviser.trajectories.policy import PRESETS, Append, Mixture, Obfuscation, Policy, Spans
from support import strategies

pytest.importorskip("torch", reason="torch is not installed, so there are no trunks to train.")

from reviser.lab.recipe import load_recipe as load_lab_recipe
from reviser.models.trunks import TrunkConfig
from reviser.train.recipe import (
    DataConfig,
    EvaluationConfig,
    LoraConfig,
    Recipe,
    TrainingConfig,
    VocabConfig,
    absolute_paths,
    load_recipe,
)
from reviser.train.yaml_reader import to_plain

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
PAPER_RECIPES = [path for path in RECIPES if path.name.startswith("paper")]
SMALLEST: dict[str, Any] = {
    "trunk": {"layers": 2},
    "data": {"text": ["stories.txt"], "bpe": 300},
    "training": {"steps": 10},
}

OF_THE_LAB = {
    "dagger": "policy.kind: dagger",
    "take-back": "policy.kind: dagger",
    "rl": "reinforce",
    "pooled": "trunk.canvas",
    "cross-attention": "trunk.canvas",
}

each_recipe = pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
each_paper_recipe = pytest.mark.parametrize("path", PAPER_RECIPES, ids=lambda path: path.stem)


def write(folder: Path, content: Any) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


@pytest.fixture
def least(tmp_path: Path) -> Path:
    """A recipe with what every recipe needs."""
    return write(tmp_path, SMALLEST)


def refusal(path: Path, *changes: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_recipe(path, changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# -- there and back ---------------------------------------------------------------------------

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8)
shares = st.floats(0, 0.99)


@given(
    policy=strategies.policies(),
    scored=st.dictionaries(words, strategies.policies(), max_size=2),
    prompts=st.lists(words).map(tuple),
    rates=st.tuples(st.floats(1e-9, 10), shares, shares),
    is_adapted=st.booleans(),
)
def test_a_recipe_written_as_json_which_is_yaml_is_read_back_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    policy: Policy,
    scored: dict[str, Policy],
    prompts: tuple[str, ...],
    rates: tuple[float, float, float],
    is_adapted: bool,
) -> None:
    rate, *betas = rates
    lora = LoraConfig(rank=3, dropout=betas[0]) if is_adapted else None
    data = DataConfig(
        text=("/a/b.txt", "hf:name"),
        split="line",
        bpe=None if is_adapted else 300,
        windows=WindowConfig(size=99, prefix=(1, 9), held_out=0.25),
    )
    recipe = Recipe(
        data=data,
        training=TrainingConfig(steps=7, learning_rate=rate, betas=tuple(betas), lora=lora),
        policy=policy,
        trunk=None if is_adapted else TrunkConfig(architecture="llama", layers=2),
        base="/a/model" if is_adapted else None,
        vocab=VocabConfig(operators=("delete",), max_move=8, begin="<s>", delimiter=False),
        evaluation=EvaluationConfig(policies=scored, prompts=prompts),
        seed=2**32 - 1,
    )
    path = tmp_path_factory.getbasetemp() / "there-and-back.yaml"
    plain = to_plain(recipe)
    path.write_text(json.dumps(plain, ensure_ascii=False), encoding="utf-8")  # with its 1e-09
    assert load_recipe(path) == recipe


@each_recipe
def test_every_recipe_here_loads_and_is_read_back_the_same(path: Path, tmp_path: Path) -> None:
    load = load_lab_recipe if path.stem in OF_THE_LAB else load_recipe
    recipe = load(path)
    assert load(write(tmp_path, to_plain(recipe))) == recipe


@pytest.mark.parametrize(("name", "setting"), OF_THE_LAB.items())
def test_recipes_of_the_laboratory_are_refused_with_the_command_that_trains_them(
    name: str, setting: str, tmp_path: Path
) -> None:
    words = ["train", str(ROOT / "recipes" / f"{name}.yaml"), "-o", str(tmp_path / "run")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1
    assert f"`{setting}` is a setting of the paper's appendix" in done.stderr
    assert "reviser lab train" in done.stderr


def test_settings_left_out_have_their_defaults(least: Path) -> None:
    assert load_recipe(least) == Recipe(
        trunk=TrunkConfig(layers=2),
        data=DataConfig(text=(str(least.parent / "stories.txt"),), bpe=300),
        training=TrainingConfig(steps=10),
        policy=Obfuscation(),
    )


# -- reading ----------------------------------------------------------------------------------


def test_changes_replace_single_values_and_make_the_sections_they_need(least: Path) -> None:
    changes = [
        "training.steps=20",
        "training.lora.rank=4",
        "training.clip=1e-4",
        "evaluation.prompts=[one, '2=3']",
        "policy={kind: spans, mean: 4}",
        "seed=1",
        "seed=2",
        "vocab.begin='='",
        "data.bpe=",
        "data.tokenizer=t",
    ]
    expected = load_recipe(least)
    assert load_recipe(least, changes) == replace(
        expected,
        training=TrainingConfig(steps=20, lora=LoraConfig(rank=4), clip=0.0001),
        evaluation=EvaluationConfig(prompts=("one", "2=3")),
        policy=Spans(mean=4.0),
        vocab=VocabConfig(begin="="),
        data=replace(expected.data, bpe=None, tokenizer=least.parent / "t"),
        seed=2,
    )


def test_a_policy_is_a_name_or_a_kind_with_its_fields(least: Path) -> None:
    for name, policy in PRESETS.items():
        assert load_recipe(least, [f"policy={name}"]).policy == policy
    mixed = "{kind: mixture, policies: [append, {kind: spans}], weights: [1, 2]}"
    assert load_recipe(least, [f"policy={mixed}"]).policy == Mixture(
        policies=(Append(), Spans()), weights=(1, 2)
    )
    scored = load_recipe(least, ["evaluation.policies={a: paper, b: {kind: append}}"])
    assert scored.evaluation.policies == {"a": Obfuscation(), "b": Append()}


def test_paths_are_relative_to_the_recipe_wherever_it_is_read_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "inside"
    (inside / "model").mkdir(parents=True)
    text = ["a.txt", "../b/*.txt", "/c.txt", "hf:name"]
    write(inside, SMALLEST | {"data": {"text": text, "tokenizer": "t"}})
    read = []
    for folder, path in ((tmp_path, "inside/recipe.yaml"), (inside, "recipe.yaml")):
        monkeypatch.chdir(folder)
        read.append(load_recipe(path))
    assert read[0] == read[1]
    data = read[0].data
    assert data.text == (f"{inside}/a.txt", f"{inside}/../b/*.txt", "/c.txt", "hf:name")
    assert data.tokenizer == inside / "t"
    write(inside, SMALLEST | {"data": {"shards": "../s", "tokenizer": "/t"}})
    data = load_recipe("recipe.yaml").data
    assert (data.shards, data.tokenizer) == (inside / "../s", Path("/t"))


def test_paths_of_a_command_are_relative_to_the_working_directory(
    least: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    (here / "model").mkdir(parents=True)
    monkeypatch.chdir(here)
    for change, made in {
        "data.text=[a.txt, ../b.txt, /c.txt, 'hf:n', 's3://b/é😀']": (
            f'data.text=["{here}/a.txt", "{here}/../b.txt", "/c.txt", "hf:n", "s3://b/é😀"]'
        ),
        "data.shards=s": f'data.shards="{here}/s"',
        "data.shards=": "data.shards=null",
        "data={pairs: [p], windows: {held_out: 1}}": (
            f'data={{"pairs": ["{here}/p"], "windows": {{"held_out": 1}}}}'
        ),
        "base=model": f'base="{here}/model"',
        "base=some/model": "base=some/model",
        "training.steps=3": "training.steps=3",
        "data.text=[": "data.text=[",
        "nothing": "nothing",
    }.items():
        assert absolute_paths(change) == made
    change = absolute_paths("data.text=[a😀.txt]")
    assert load_recipe(least, [change]).data.text == (f"{here}/a😀.txt",)


def test_a_base_is_a_folder_next_to_the_recipe_or_else_a_name(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    content = {"data": {"text": ["a"]}, "training": {"steps": 1}}
    for given_base, base in {
        "model": str(tmp_path / "model"),
        str(tmp_path / "model"): str(tmp_path / "model"),
        "some/model": "some/model",
    }.items():
        assert load_recipe(write(tmp_path, content | {"base": given_base})).base == base


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("traning.steps=1", "`traning` is not a setting. Did you mean `training`?"),
        ("training.lora.rnk=1", "`training.lora.rnk` is not a setting. Did you mean `rank`?"),
        ("policy={kind: spans, men: 4}", "`policy.men` is not a setting. Did you mean `mean`?"),
        (
            "evaluation.policies={a: {kind: mixture, policies: [{kind: spans, men: 4}]}}",
            "`evaluation.policies.a.policies[0].men` is not a setting. Did you mean `mean`?",
        ),
        ("7=1", "`7` is not a setting. Choose from: data, training, policy, trunk, base, context,"),
        ("training.steps=many", "training.steps is 'many'; it should be a whole number."),
        ("training.steps=true", "training.steps is True; it should be a whole number."),
        ("training.clip=.inf", "training.clip is inf; it should be a finite number."),
        ("training.precision=[]", "training.precision is []; it should be 'bf16' or 'fp32'."),
        ("vocab.delimiter=1", "vocab.delimiter is 1; it should be true or false."),
        ("data.text=a.txt", "data.text is 'a.txt'; it should be a list."),
        ("data.text=[3]", "data.text[0] is 3; it should be text."),
        ("training.betas=[0.9]", "training.betas[1] is missing."),
        (
            "training.betas=[0, 0, 0]",
            "training.betas is [0, 0, 0]; it should be a list of 2 values.",
        ),
        ("training.betas=[0.9, x]", "training.betas[1] is 'x'; it should be a finite number."),
        (
            "evaluation.policies={a: papr}",
            "evaluation.policies.a is 'papr'; it should be a name (ap",
        ),
        ("policy={kind: [spans]}", "policy is {'kind': ['spans']}; it should be a name (append"),
        ("policy={kind: spans, mean: 0}", "policy: Spans of mean 0.0 aligned to 'word': the mean"),
        ("policy={kind: mixture, weights: [1]}", "policy.policies is missing."),
        ("training=", "training is None; it should be a mapping of names."),
        ("training.steps=0", "training: steps is 0; it must be 1 or more."),
        ("training.warmup=-1", "training: warmup is -1; it must be 0 or more."),
        ("training.min_learning_rate=1", "training: learning_rate is 0.001, min_learning_rate 1.0"),
        ("training.betas=[1, 0]", "training: betas are (1.0, 0.0); each must be at least 0 and"),
        ("training.batch=24", "training: batch 24 is not a multiple of micro_batch 16."),
        ("trunk.heads=3", "trunk: width 512 cannot be divided into 3 heads"),
        ("seed=4294967296", "seed is 4294967296; it must be from 0 to 4294967295."),
        ("training.steps", "Write a change as name=value, like training.steps=100; got 'training."),
        ("seed=[1", "The value of 'seed=[1' is not YAML: "),
        ("precision=fp32", "`precision` is not a setting. Did you mean `training.precision`?"),
        ("data.size=9", "`data.size` is not a setting. Did you mean `data.windows.size`?"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_path_and_what_is_allowed(
    least: Path, change: str, sentence: str
) -> None:
    assert refusal(least, change).startswith(sentence)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (["base=x", "data.bpe="], "Give trunk or base, one of the two."),
        (["data.shards=s"], "Give data.shards or data.text, one of the two."),
        (["data.tokenizer=t"], "Give data.tokenizer or data.bpe, one of the two."),
        (["trunk=", "base=x"], "A base model has its own tokenizer: leave out data.tok"),
        (["trunk=", "base=x", "data.bpe=", "vocab.preset=paper"], "vocab.preset is for a new tr"),
        (["data.text=[]", "data.shards=s"], "data.bpe is trained on data.text; for shards give"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(
    least: Path, changes: list[str], sentence: str
) -> None:
    assert refusal(least, *changes).startswith(sentence)


def test_a_change_inside_a_plain_value_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, SMALLEST | {"seed": 1, "policy": "paper"})
    for change in ("seed.more=1", "policy.kind=spans"):
        assert f"cannot be changed: '{change}' needs a section" in refusal(path, change)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a: [", "is not YAML: while parsing a flow node"),
        (b"a: 1\nb: c: 1", "not YAML: mapping values are not allowed here (line 2, column 5)."),
        (b"a: !!python/object/apply:os.mkdir [intruded]", "is not YAML: could not determine a con"),
        (b"\xff", "is not YAML: unacceptable character #x00ff: invalid start byte"),
        (b"seed: 1\nseed: 2", "is not YAML: the key 'seed' is given twice (line 2, column 1)."),
        (b"seed: 2020-99-99", "is not YAML: month must be in 1..12"),
        (b"data: &a {text: *a}", "cannot be read: Error serializing to JSON: ValueError: Circ"),
        (b"", "A recipe is None; it should be a mapping of names."),
        (b"- training", "A recipe is ['training']; it should be a mapping of names."),
        (b"{}", "data is missing."),
        (b"seed: x\nsede: 1", "`sede` is not a setting. Did you mean `seed`?"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused_in_one_line(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_bytes(content)
    assert sentence in refusal(path)


# -- the paper's ------------------------------------------------------------------------------

# Appendix "Model and training", by hand.
PAPER = {
    "paper-100m": {"sizes": (24, 512, 8, 2048), "seq": 256, "rates": (1e-4, 2e-5), "micro": 64},
    "paper-300m": {"sizes": (26, 896, 14, 3584), "seq": 512, "rates": (1e-5, 1e-6), "micro": 16},
}


@each_paper_recipe
def test_the_papers_recipes_have_the_papers_numbers(path: Path) -> None:
    recipe, paper = load_recipe(path), PAPER[path.stem]
    trunk, training = recipe.trunk, recipe.training
    assert trunk is not None
    assert (trunk.layers, trunk.width, trunk.heads, trunk.mlp_width) == paper["sizes"]
    assert (trunk.architecture, trunk.context, trunk.dropout) == ("gpt_neox", paper["seq"], 0.1)
    assert recipe.vocab == VocabConfig(preset="paper")
    assert recipe.policy == Obfuscation(delete=0.8)
    assert (recipe.data.windows.prefix, recipe.data.windows.size) == ((35, 35), 180)
    assert (training.learning_rate, training.min_learning_rate) == paper["rates"]
    assert (training.micro_batch, training.batch) == (paper["micro"], 64)
    assert (training.warmup, training.weight_decay, training.clip) == (2000, 0.1, 1.0)
    assert (training.betas, training.epsilon) == ((0.9, 0.95), 1e-8)
    assert training.precision == "bf16"
    step = training.batch * trunk.context
    assert training.steps == round(30e9 / step)


def plain_latex(text: str) -> str:
    """LaTeX as a person would type it in a comment."""
    for pattern, plain in {
        r"\\text\{(\w+)\}": r"\1",
        r"\\texttt\{([^}]*)\}": r"\1",
        r"(\d)\\times10\^\{-(\d+)\}": r"\1e-\2",
        r"10\^\{-(\d+)\}": r"1e-\1",
        r"\\(beta|epsilon)_?": lambda match: match[1].replace("epsilon", "eps"),
        r"\\Mset": "M",
        r"\\pm": "+-",
        r"\\(?=[A-Za-z{}%])": "",
        r"_\{(\w+)\}": r"_\1",
        r"[$~\s]+": " ",
    }.items():
        text = re.sub(pattern, plain, text)
    return text.replace(" ", "")


def quotations(line: str) -> list[str]:
    _, _, comment = line.partition("#")
    return re.findall(r'"([^"]+)"', comment)


@pytest.fixture(scope="module")
def paper(latex: str) -> str:
    return plain_latex(latex)


@each_paper_recipe
def test_what_the_papers_recipes_quote_stands_in_the_paper(path: Path, paper: str) -> None:
    quoted = [quote for line in path.read_text().splitlines() for quote in quotations(line)]
    assert len(quoted) > 15
    for quote in quoted:
        parts = [re.escape(part.replace(" ", "")) for part in quote.split("...")]
        assert re.search(".{0,80}".join(parts), paper), quote


def unnamed(value: str) -> str:
    """Without the names of models, in which numbers mean nothing."""
    return re.sub(r"[\w.-]+/[\w.-]+", "", value)


@each_paper_recipe
def test_each_setting_of_the_papers_recipes_is_quoted_or_named_as_ours(path: Path) -> None:
    lines = path.read_text().splitlines()
    (ours,) = (n for n, line in enumerate(lines) if line.endswith("# ours from here on"))
    named = [line.partition(":")[0].strip() for line in lines[ours:]]
    assert named == ["workers", "evaluate_every", "save_every", "evaluation", "prompts"]
    quote: list[str] = []
    settings = 0
    for line in lines[:ours]:
        name, _, value = line.partition("#")[0].strip().partition(":")
        if not value:
            quote = []  # a section or a comment: what follows quotes for itself
            continue
        quote = quotations(line) or quote  # "(24,512,8,2048)" is for four lines
        settings += 1
        assert quote, name
        numbers = {float(n) for n in re.findall(r"\b\d+(?:\.\d+)?(?:e-?\d+)?\b", unnamed(value))}
        said = {float(n) for n in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", " ".join(quote))}
        derived = {"steps", "batch"}  # 30e9 / (64 x 256), 16 x 4
        assert name in derived or value.strip().startswith("../") or numbers <= said, line
    assert settings == 30  # one is the judge's url, which is ours


def test_the_reference_is_what_its_script_writes() -> None:
    docs = DOCS
    made = subprocess.run(
        [sys.executable, docs / "recipe_reference.py"], capture_output=True, text=True, check=True
    )
    assert (docs / "reference" / "recipe.md").read_text(encoding="utf-8") == made.stdout
