"""A tokenizer trained on one's own text: deterministic, whole, and one that the codec reads."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from reviser.cli import main
from reviser.core.codec import Codec
from reviser.data.tokenizer import train_bpe
from reviser.errors import ConfigError, DataError
from support import small_tokenizers


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "in.txt"
    path.write_text("\n\n".join([*small_tokenizers.LINES, "It was 1984, then 2024."] * 5), "utf-8")
    return path


@pytest.fixture(scope="module")
def codec(text: Path) -> Codec:
    return Codec(train_bpe([text], 400))


@given(some_text=st.text())
def test_any_text_comes_back(codec: Codec, some_text: str) -> None:
    assert codec.decode(codec.encode(some_text)) == some_text


def test_the_same_text_gives_the_same_tokenizer(text: Path) -> None:
    first, second = train_bpe([text], 400), train_bpe([text], 400)
    assert first.to_str() == second.to_str()
    assert first.get_vocab_size() == 400
    assert json.loads(first.to_str())["added_tokens"] == []


def test_digits_stand_alone(codec: Codec) -> None:
    assert [codec.decode([token]) for token in codec.encode("1984")] == ["1", "9", "8", "4"]


def test_too_small_a_size_and_no_text_are_refused(text: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"size is 255; .* 256 or more tokens"):
        train_bpe([text], 255)
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"no text to train on .*not UTF-8: 1"):
        train_bpe([tmp_path], 300)


def test_the_command_writes_a_tokenizer(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "tokenizer"
    args = ["tokenizer", str(text), "-o", str(out), "--size", "300", "--split", "line"]
    result = CliRunner().invoke(main, args)
    assert result.stdout == f"{out}: 300 tokens\n"
    assert len(Codec.load(out).token_bytes) == 300
