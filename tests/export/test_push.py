"""Models on the hub: uploaded to one that speaks its API, and used from there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support import small_tokenizers
from support.fake_hub import TOKEN, FakeHub, fake_hub

pytest.importorskip("torch")

import reviser
from reviser.core.actions import ActionVocab
from reviser.errors import ConfigError
from reviser.export.push import repository
from reviser.models.trunk_config import CanvasReading
from reviser.models.trunks import TrunkConfig, build, save

ROOT = Path(__file__).parents[2]
STORIES = ROOT / "models" / "stories-revise"
NAME = "me/stories"


@pytest.fixture(scope="module")
def hub() -> Iterator[FakeHub]:
    """A hub without repositories."""
    with fake_hub() as running:
        yield running


def run(hub: FakeHub, home: Path, *command: str, token: str = TOKEN) -> subprocess.CompletedProcess:
    """Run Python with this hub in place of the real one."""
    own = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_TOKEN": token}
    own |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
    return subprocess.run(
        [sys.executable, *command],
        env=os.environ | own,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_model_is_pushed_and_opened_by_its_name(hub: FakeHub, tmp_path: Path) -> None:
    pushed = run(hub, tmp_path, "-m", "reviser", "push", str(STORIES), NAME, "--private")
    assert pushed.returncode == 0, pushed.stderr
    assert pushed.stdout.strip() == f"{hub.url}/{NAME}/commit/{hub.commit(NAME)}"
    assert hub.private == {NAME}
    files = hub.repositories[NAME]
    weights = "model.safetensors"
    assert files[weights] == (STORIES / weights).read_bytes()
    assert {"README.md", "action_vocab.json", "tokenizer.json"} <= set(files)
    assert not [name for name in files if name.endswith(".py")]

    words = ["generate", "Ben had a", "--temperature", "0", "--max-actions", "20", "-m", NAME]
    written = run(hub, tmp_path, "-m", "reviser", *words)
    with reviser.load(STORIES) as model:
        text = model.generate("Ben had a", temperature=0, max_actions=20).text
    assert written.stdout == f"{text}\n"


def test_without_a_login_one_sentence_says_so(hub: FakeHub, tmp_path: Path) -> None:
    failed = run(hub, tmp_path, "-m", "reviser", "push", str(STORIES), "me/other", token="wrong")
    assert failed.returncode == 1
    assert "hf auth login" in failed.stderr
    assert failed.stderr.count("\n") == 1
    assert "me/other" not in hub.repositories


def test_the_card_of_the_folder_is_kept_and_says_how_to_run_the_model() -> None:
    files = repository(STORIES, NAME)
    card = str(files["README.md"])
    assert card.startswith("---\n")
    assert card.count("license: mit") == 1
    assert "tags:\n- reviser\n" in card
    assert "trust_remote_code" not in card
    assert "](../" not in card  # links to other folders lead nowhere
    assert card.index("# stories-revise") < card.index("## Run it") < card.index("## Data")
    assert "0.789 [0.755, 0.827]" in card


def test_a_folder_without_a_card_gets_one(tmp_path: Path) -> None:
    for path in STORIES.iterdir():
        if path.name != "README.md":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ConfigError, match="--license"):
        repository(tmp_path, NAME)
    card = str(repository(tmp_path, NAME, licence="apache-2.0")["README.md"])
    assert "license: apache-2.0" in card
    assert "7.2 million parameters" in card
    assert "leave a mark and go back to it" in card
    assert "| held out, nats per text token | 1.422 ± 0.112 |" in card
    assert card.index("## Run it") < card.index("## Data and training") < card.index("## Limits")


def test_the_head_of_a_card_keeps_its_own_tags_and_lists(tmp_path: Path) -> None:
    for path in STORIES.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    head = "license: mit\nlanguage:\n- en\n- de\ntags:\n- stories\n- reviser\n"
    (tmp_path / "README.md").write_text(f"---\n{head}---\n\n# Mine\n")
    card = str(repository(tmp_path, NAME)["README.md"])
    head = yaml.safe_load(card.split("---\n")[1])
    assert head["language"] == ["en", "de"]
    assert head["tags"] == ["stories", "reviser"]
    (tmp_path / "README.md").write_text("---\n- [\n---\n")
    with pytest.raises(ConfigError, match=r"head of README\.md is not YAML"):
        repository(tmp_path, NAME)


def test_a_trunk_that_reads_its_canvas_is_not_offered_for_vllm(tmp_path: Path) -> None:
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(tokenizer, max_move=8)
    trunk = TrunkConfig(
        architecture="llama", layers=1, width=16, heads=2, mlp_width=16, context=64,
        canvas=CanvasReading(),
    )  # fmt: skip
    save(build(trunk, vocab), tokenizer, vocab, tmp_path)
    card = str(repository(tmp_path, NAME, licence="mit")["README.md"])
    assert "reviser generate" in card
    assert "vllm" not in card


def test_an_adapter_is_pushed_as_one() -> None:
    files = repository(ROOT / "models" / "proofreader", "me/proofreader")
    assert {"adapter_model.safetensors", "words.txt", "editing.json"} <= set(files)
    card = str(files["README.md"])
    assert "reviser revise draft.txt -m me/proofreader" in card
    assert "base_model: HuggingFaceTB/SmolLM2-135M-Instruct" in card
    assert card.count("base_model:") == 1
