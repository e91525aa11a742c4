"""The command: results on standard output, one-line errors, a traceback only on request."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from reviser.cli import main
from reviser.errors import DataError
from reviser.trajectories.policy import PRESETS
from support import small_tokenizers

QUICK = ("--samples", "3", "--length", "5")


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["lab", "policies", *QUICK, *args])


def test_policies_prints_a_row_for_each_preset() -> None:
    title, heading, *rows = run().stdout.splitlines()
    assert title == "3 trajectories per policy, 5 tokens each"
    assert " ".join(heading.split()) == "policy actions per token moves, % order tax, bits"
    assert [row.split()[0] for row in rows] == list(PRESETS)
    assert rows[0].split() == ["append", "1.000", "+-", "0.000", "0.0", "+-", "0.0", "0.000"]


@pytest.fixture
def text_options(tmp_path: Path) -> tuple[str, ...]:
    small_tokenizers.byte_level().save(str(tmp_path / "tokenizer.json"))
    text = tmp_path / "text.txt"
    text.write_text("The cat sat on the mat. " * 20, encoding="utf-8")
    return "--text", str(text), "--tokenizer", str(tmp_path)


def test_policies_can_be_measured_on_a_text(text_options: tuple[str, ...]) -> None:
    assert run(*text_options).exit_code == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [(b"The cat", "tokens; --length asks for 5000."), (b"\xff\xfe", "is not UTF-8")],
)
def test_a_text_that_cannot_be_used_is_refused(
    text_options: tuple[str, ...], text: bytes, sentence: str
) -> None:
    Path(text_options[1]).write_bytes(text)
    result = run(*text_options, "--length", "5000")
    assert result.exit_code == 2
    assert sentence in result.stderr


@pytest.mark.parametrize("args", [("--text", __file__), ("--samples", "1")])
def test_options_that_do_not_fit_are_refused(args: tuple[str, ...]) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_an_error_is_one_line_and_a_traceback_on_request(tmp_path: Path) -> None:
    command = ["tokenizer", str(tmp_path / "none.txt"), "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert re.fullmatch(r"error: There is nothing to read at .*\n", result.stderr)
    debug = CliRunner().invoke(main, ["--debug", *command])
    assert isinstance(debug.exception, DataError)


def _of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_mistakes_are_put_into_texts_and_counted(tmp_path: Path) -> None:
    text, output = tmp_path / "text.txt", tmp_path / "pairs.jsonl"
    text.write_text("The cat sat on the mat.\n" * 200, encoding="utf-8")
    command = ["data", "corrupt", str(text), "--split", "line", "--unchanged", "0.25"]
    result = CliRunner().invoke(main, [*command, "-o", str(output)])
    assert result.exit_code == 0
    pairs = _of(output)
    same = sum(pair["before"] == pair["after"] for pair in pairs)
    assert {pair["after"] for pair in pairs} == {"The cat sat on the mat."}
    assert result.stdout == f"{output}: 200 pairs, {same / 200:.1%} of them unchanged\n"
    assert 25 <= same <= 75
    again = CliRunner().invoke(main, [*command, "-o", str(output)])
    assert again.exit_code == 1
    assert again.stderr == f"error: '{output}' exists already. Delete it or choose another name.\n"
    CliRunner().invoke(main, [*command, "-o", str(tmp_path / "same.jsonl")])
    assert (tmp_path / "same.jsonl").read_bytes() == output.read_bytes()
    CliRunner().invoke(main, [*command, "--seed", "1", "-o", str(tmp_path / "other.jsonl")])
    assert (tmp_path / "other.jsonl").read_bytes() != output.read_bytes()


def test_pairs_are_taken_from_a_git_history(tmp_path: Path) -> None:
    repo, output = tmp_path / "repo", tmp_path / "pairs.jsonl"

    def git(*args: str) -> None:
        who = ["-c", "user.name=someone", "-c", "user.email=someone@example.org"]
        subprocess.run(["git", *who, *args], cwd=repo, check=True, capture_output=True)

    repo.mkdir()
    git("init", "-q")
    for subject, text in [("Begin", "It have a end."), ("Mend it", "It has an end.")]:
        (repo / "a.md").write_text(text)
        (repo / "b.bin.txt").write_text(f"\0{text}")
        git("add", "-A")
        git("commit", "-q", "-m", subject)
    command = ["data", "from-git", str(repo), "--subjects", "--unchanged", "0.5"]
    result = CliRunner().invoke(main, [*command, "-o", str(output)])
    assert result.stdout == f"{output}: 2 pairs, 50.0% of them unchanged\nleft out, binary: 1\n"
    first, second = _of(output)
    assert (first["before"], first["after"]) == ("It have a end.", "It has an end.")
    assert (first["instruction"], first["source"]) == ("Mend it", "a.md")
    assert second["before"] == second["after"] == first["after"]
    other = [*command, "--suffix", ".py", "-o", str(tmp_path / "other.jsonl")]
    assert ": 0 pairs, 0.0% of" in CliRunner().invoke(main, other).stdout
    refused = CliRunner().invoke(main, ["data", "from-git", str(tmp_path), "-o", str(output)])
    assert refused.exit_code == 1
    assert "is not a git repository" in refused.stderr
