"""Natural mistakes: each message says what to do, and comes before torch is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
STORIES = "models/stories-revise"
ON_HUB = (
    "To download a model of this name from the Hugging Face hub, write models/storys-revise@main."
)

MISTAKES = {
    "a misspelled model": (
        ["generate", "Ben had a", "-m", "models/storys-revise"],
        f"There is no folder 'models/storys-revise'. Did you mean '{STORIES}'? {ON_HUB}",
    ),
    "a file of a model in place of its folder": (
        ["generate", "Ben had a", "-m", f"{STORIES}/config.json"],
        f"'{STORIES}/config.json' is a file. Give the model folder that contains it.",
    ),
    "a misspelled model to serve, with -m": (
        ["serve", "-m", "models/storys-revise"],
        f"There is no folder 'models/storys-revise'. Did you mean '{STORIES}'? {ON_HUB}",
    ),
    "a misspelled recipe": (
        ["train", "recipes/smok.yaml", "-o", "run"],
        "There is no file 'recipes/smok.yaml'. Did you mean 'recipes/smoke.yaml'?",
    ),
    "a misspelled setting": (
        ["train", "recipes/smoke.yaml", "-o", "run", "--set", "training.stps=3"],
        "`training.stps` is not a setting. Did you mean `steps`?",
    ),
    "a recipe that is not filled in": (
        ["train", "recipes/revise.yaml", "-o", "run"],
        "base is 'your-model', a placeholder. Set it in the recipe, or with: --set base=MODEL",
    ),
    "a text in place of a file": (
        ["revise", "It have a end.", "-m", STORIES],
        "There is no file named 'It have a end.'. To revise a text directly, pipe it:"
        f' echo "It have a end." | reviser revise -m {STORIES}',
    ),
    "a model that cannot revise": (
        ["revise", "README.md", "-m", STORIES],
        f"{STORIES} was not trained to edit, so it cannot revise a draft. Use generate or infill"
        " with it, or train an editor with recipes/revise.yaml.",
    ),
    "a text that is too long": (
        ["generate", "word " * 2400, "-m", STORIES],
        "Your text is 2,404 tokens long; this model's limit is 383. Shorten it, or use a model with"
        " a longer context.",
    ),
    "a misspelled source": (
        ["tokenize", "recipe/smoke.txt", "-o", "shards", "--tokenizer", STORIES],
        "There is nothing to read at 'recipe/smoke.txt'. Did you mean 'recipes/smoke.txt'? Give a"
        " file, a pattern like 'text/*.py', hf:NAME, or a folder with files of these kinds: .json"
        " .jsonl .md .ndjson .parquet .txt, also compressed (.gz .xz .zst).",
    ),
}

CODE = """
import json, sys, time
from click.testing import CliRunner
from reviser.cli import main

results = {}
for name, words in json.load(sys.stdin).items():
    began = time.process_time()
    result = CliRunner().invoke(main, words)
    seconds = time.process_time() - began
    slow = sorted({"torch", "transformers"} & sys.modules.keys())
    results[name] = [result.exit_code, result.stdout, result.stderr, slow, seconds]
json.dump(results, sys.stdout)
"""


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """What the command printed for each mistake, all in one process that starts without torch."""
    words = json.dumps({name: words for name, (words, _) in MISTAKES.items()})
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(
        command, input=words, capture_output=True, text=True, cwd=ROOT, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", MISTAKES)
def test_a_natural_mistake_is_explained_at_once(results: dict[str, Any], name: str) -> None:
    status, stdout, stderr, slow, seconds = results[name]
    assert (status, stdout, stderr) == (1, "", f"error: {MISTAKES[name][1]}\n")
    assert slow == []
    assert seconds < 2
