"""The command: results on standard output, one-line errors, a traceback only on request."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import small_tokenizers
from reviser.cli import main
from reviser.core.policy import PRESETS
from reviser.errors import VocabError

QUICK = ("--samples", "3", "--length", "5")


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["policies", *QUICK, *args])


def test_policies_prints_a_row_for_each_preset() -> None:
    title, heading, *rows = run().stdout.splitlines()
    assert title == "3 trajectories per policy, 5 token(s) each"
    assert heading.split() == [
        "policy",
        "actions",
        "per",
        "token",
        "moves,",
        "%",
        "order",
        "tax,",
        "bits",
    ]
    assert [row.split()[0] for row in rows] == list(PRESETS)
    assert rows[0].split() == ["append", "1.000", "+-", "0.000", "0.0", "+-", "0.0", "0.000"]


def test_policies_prints_json_lines_with_their_settings() -> None:
    lines = [json.loads(line) for line in run("--json", "--seed", "7").stdout.splitlines()]
    assert [line["policy"] for line in lines] == list(PRESETS)
    for line in lines:
        assert (line["length"], line["samples"], line["max_move"], line["seed"]) == (5, 3, 512, 7)
        assert line["order_tax"]["low"] <= line["order_tax"]["value"] <= line["order_tax"]["high"]
    kinds = {line["policy"]: line["order_tax"]["kind"] for line in lines}
    assert (kinds["paper"], kinds["spans-8"], kinds["repair"]) == ("exact", "estimate", "at most")


@pytest.fixture
def text_options(tmp_path: Path) -> tuple[str, ...]:
    small_tokenizers.byte_level().save(str(tmp_path / "tokenizer.json"))
    text = tmp_path / "text.txt"
    text.write_text("The cat sat on the mat. " * 20, encoding="utf-8")
    return "--text", str(text), "--tokenizer", str(tmp_path)


def test_policies_can_be_measured_on_a_text(text_options: tuple[str, ...]) -> None:
    assert run(*text_options).exit_code == 0


def test_marks_make_late_spans_cheaper(text_options: tuple[str, ...]) -> None:
    costs = []
    for marks in ((), ("--marks",)):
        found = run(*text_options, *marks, "--length", "150", "--json")
        lines = [json.loads(line) for line in found.stdout.splitlines()]
        costs.append({line["policy"]: line["actions_per_token"]["value"] for line in lines})
    assert costs[1]["late-2"] < costs[0]["late-2"]
    assert costs[1]["paper"] == costs[0]["paper"]


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


@pytest.mark.parametrize("args", [("--text", __file__), ("--samples", "1"), ("--seed", "-1")])
def test_options_that_do_not_fit_are_refused(args: tuple[str, ...]) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_an_error_is_one_line_and_a_traceback_on_request() -> None:
    result = run("--max-move", "3")
    assert result.exit_code == 1
    assert result.stderr == "error: max_move is 3; it must be a power of two from 1 to 65536.\n"
    debug = CliRunner().invoke(main, ["--debug", "policies", "--max-move", "3"])
    assert isinstance(debug.exception, VocabError)
