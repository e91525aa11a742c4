"""An editor from pairs: trained by the same command, its model folder revises."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tokenizers import Tokenizer

pytest.importorskip("torch")

from tests.train.conftest import TINY

import reviser
from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.data.corrupt import Corruption, corrupted
from reviser.data.pairs import write_pairs
from reviser.errors import ConfigError
from reviser.models.editing import Editing
from reviser.train.inputs import Inputs
from reviser.train.recipe import load_recipe
from reviser.train.run import train
from reviser.train.samples import _prompts

VOCAB = {"operators": ["delete", "replace"], "max_move": 32, "marks": True, "search": True}


@pytest.fixture(scope="module")
def recipe(workshop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe on pairs of corrupted sentences."""
    folder = tmp_path_factory.mktemp("editing")
    text = (workshop / "text.txt").read_text().split("\n\n")
    write_pairs(folder / "pairs.jsonl", corrupted(text, Corruption(rate=10), 0))
    data = {"pairs": ["pairs.jsonl"], "tokenizer": str(workshop / "tokenizer")}
    tiny = TINY | {"vocab": VOCAB, "policy": {"kind": "edits"}, "data": data}
    data["windows"] = {"held_out": 0.1}
    tiny["trunk"] = TINY["trunk"] | {"context": 400}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(tiny))
    return folder / "recipe.yaml"


def test_a_run_on_pairs_gives_a_model_that_revises(recipe: Path, tmp_path: Path) -> None:
    train(load_recipe(recipe), tmp_path / "whole")
    rewrite = ["policy={kind: rewrite}", "training.steps=2"]
    train(load_recipe(recipe, rewrite), tmp_path / "rewrite")
    record = json.loads((tmp_path / "whole" / "run.json").read_text())
    assert record["recipe"]["policy"]["kind"] == "edits"
    assert record["seen"]["examples"] == 12 * 8
    assert 0 < record["metrics"]["eval_held_out_nll"] < 10
    assert Editing.load(tmp_path / "whole") == Editing(edit_probabilities=False)
    assert Editing.load(tmp_path / "rewrite") is None
    with reviser.load(tmp_path / "whole") as model:
        result = model.revise("One two two three.", locked=["three"], max_actions=20)
    assert "three" in result.text
    assert result.rollouts[0].stop_reason in ("stop", "max_actions")
    samples = (tmp_path / "whole" / "samples.jsonl").read_text().splitlines()
    assert json.loads(samples[-1])["prompt"] == "One"


def test_prompts_are_drafts_with_all_their_parts_and_must_fit_as_such(
    recipe: Path, workshop: Path
) -> None:
    tokenizer = Tokenizer.from_file(str(workshop / "tokenizer" / "tokenizer.json"))
    vocab, codec = ActionVocab.from_tokenizer(tokenizer, **VOCAB), Codec(tokenizer)
    loaded, draft = load_recipe(recipe), "One two three. " * 200
    inputs = Inputs(
        model=None, tokenizer=tokenizer, data=None, vocab=vocab, codec=codec, context=400
    )
    parts = _prompts(loaded, inputs, draft)
    assert len(parts) > 2
    assert draft.startswith(parts[0].text)
    assert draft.endswith(parts[-1].text)
    ids = len(_prompts(loaded, inputs, "One two")[0].request.history)
    assert len(_prompts(loaded, replace(inputs, context=ids + 1), "One two")) == 1
    with pytest.raises(ConfigError, match=r"evaluation.prompts has 'One two': .*limit"):
        _prompts(loaded, replace(inputs, context=ids), "One two")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("policy=append", "data.pairs needs a policy of kind"),
        ("evaluation.policies={late: late-1}", "data.pairs needs a policy of kind"),
        ("data.text=[a.txt]", "With data.pairs, leave out"),
        ("policy={kind: edits, address: guess}", "policy.address is 'guess'"),
    ],
)
def test_a_recipe_that_mixes_pairs_and_text_is_refused(
    recipe: Path, change: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_recipe(recipe, [change])
