"""The story editor in models/stories-edit: it corrects a story and touches nothing else."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import reviser
from experiments.stories.editor_scores import RESULT
from reviser.model import Reviser
from reviser.models import info

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "models" / "stories-edit"
FILES = {
    "README.md", "action_vocab.json", "config.json", "editing.json", "generation_config.json",
    "model.safetensors", "run.json", "suggestions.json", "tokenizer.json",
    "tokenizer_config.json", "words.txt",
}  # fmt: skip
WRONG = "Tom and Sue went too the zoo. They wanted see the big lion. The lion was verry happy."
RIGHT = "Tom and Sue went to the zoo. They wanted to see the big lion. The lion was very happy."
STORY = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside with her dog."
    " One day, they went to the park. Lily saw a big red ball. She was very happy."
)


@pytest.fixture(scope="module")
def model() -> Iterator[Reviser]:
    with reviser.load(FOLDER) as opened:
        yield opened


def test_the_folder_is_small_and_complete() -> None:
    files = [path for path in FOLDER.iterdir() if path.is_file()]
    assert {path.name for path in files} == FILES
    assert sum(path.stat().st_size for path in files) < 15_000_000
    facts = info.describe(FOLDER)
    assert facts["architecture"] == "LlamaForCausalLM"
    assert facts["dtypes"] == ["BF16"]
    assert facts["context"] == 384


def test_its_tokenizer_is_that_of_our_story_models() -> None:
    # The weights come from stories15M, but Llama's tokenizer must not be shipped.
    folders = (FOLDER, ROOT / "models" / "stories-revise")
    ours, theirs = (json.loads((f / "tokenizer.json").read_text("utf-8")) for f in folders)
    assert ours["model"] == theirs["model"]


def test_it_corrects_a_story_from_the_command_line() -> None:
    words = [sys.executable, "-m", "reviser", "revise", "-m", "models/stories-edit"]
    done = subprocess.run(
        words, cwd=ROOT, input=WRONG, capture_output=True, check=True, encoding="utf-8"
    )
    assert done.stdout.strip() == RIGHT
    assert "warning" not in done.stderr.lower()


def test_it_leaves_a_correct_story_alone(model: Reviser) -> None:
    assert model.revise(STORY).text == STORY


@pytest.mark.parametrize("name", ["example", "hard_example"])
def test_an_example_of_the_card_is_what_it_does(model: Reviser, name: str) -> None:
    draft, shown = json.loads(RESULT.read_text("utf-8"))[name]
    assert model.revise(draft).changes.criticmarkup() == shown
