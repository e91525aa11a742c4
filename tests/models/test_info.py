"""Descriptions of models from their files: the numbers that opening them would give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from reviser.cli import main
from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.errors import CheckpointError
from reviser.models.info import describe
from support import small_tokenizers

torch = pytest.importorskip("torch", reason="torch is not installed, so there are no models.")

from reviser.models import trunks  # noqa: E402


@pytest.fixture(params=["gpt_neox", "llama"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=["delete", "replace"], max_move=8)
    sizes = {"layers": 2, "width": 16, "heads": 2, "mlp_width": 24, "context": 96}
    trunk = trunks.build(trunks.TrunkConfig(architecture=request.param, **sizes), vocab)
    trunks.save(trunk, tokenizer, vocab, tmp_path)
    return tmp_path


def test_the_facts_are_those_of_the_opened_model(folder: Path) -> None:
    facts = describe(folder)
    model, vocab = trunks.load(folder)
    assert facts["architecture"] == type(model).__name__
    assert facts["parameters"] == sum(p.numel() for p in model.parameters())
    assert facts["dtypes"] == ["F32"]
    assert (facts["context"], facts["tokens"], facts["max_move"]) == (96, vocab.tokens, 8)
    assert facts["operators"] == ["delete", "replace"]
    assert facts["tokenizer"] == Codec.load(folder).fingerprint
    assert facts["training"] is None


def test_the_command_prints_a_few_lines(folder: Path) -> None:
    result = CliRunner().invoke(main, ["info", str(folder)])
    assert result.exit_code == 0
    names = [line.split()[0] for line in result.stdout.splitlines()]
    assert names == ["trunk", "reads", "writes", "operators", "tokenizer"]
    assert "delete, replace" in result.stdout
    as_json = CliRunner().invoke(main, ["info", str(folder), "--json"])
    assert json.loads(as_json.stdout) == describe(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "[]"),
        ("run.json", '{"a": 1}'),
        ("config.json", "[" * 100_000),
        ("model.safetensors", "[]"),
        ("model.safetensors", '{"a": {}}'),
        ("raw.safetensors", ""),
        ("raw.safetensors", "1234567"),
    ],
)
def test_a_damaged_file_is_refused(folder: Path, name: str, content: str) -> None:
    data = content.encode()
    if name == "model.safetensors":
        data = len(data).to_bytes(8, "little") + data
    (folder / name).write_bytes(data)
    expected = "content its name promises|is not JSON|must hold a JSON object|is not a safetensors"
    with pytest.raises(CheckpointError, match=expected):
        describe(folder)


def test_control_characters_of_a_folder_do_not_reach_the_terminal(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["\x1b]0;x\x07"]}))
    result = CliRunner().invoke(main, ["info", str(folder)])
    assert "\x1b" not in result.output


def test_a_folder_without_a_config_is_refused(folder: Path) -> None:
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"Cannot read .*config\.json"):
        describe(folder)
    result = CliRunner().invoke(main, ["info", str(folder / "none")])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: There is no folder")
