"""The commands prompts, eval and report, from files to a page, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from reviser.cli import main
from support import small_tokenizers

pytest.importorskip("torch", reason="torch is not installed, so there are no scorers.")

from .test_texts import documents, jsonl

SMALL = ["--prefix-tokens", "5", "--total-tokens", "12", "--min-tokens", "9", "--max-tokens", "40"]


def reviser(*words: Any) -> Result:
    return CliRunner().invoke(main, [*map(str, words)])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Prompts, and two systems that continued them."""
    small_tokenizers.byte_level().save(str(tmp_path / "tokenizer.json"))
    jsonl(tmp_path / "text.jsonl", [{"text": text} for text in documents()])
    options = ["--tokenizer", tmp_path, "--count", 6, "--seed", 1, "--seed", 2, *SMALL]
    done = reviser("lab", "prompts", tmp_path / "text.jsonl", *options, "-o", tmp_path / "prompts")
    assert done.exit_code == 0, done.output
    assert f"{tmp_path / 'prompts' / '1.jsonl'}: 6 prompts" in done.stdout
    assert "left out, not of 9 to 40 tokens:" in done.stdout
    rng = Random(2)
    words = " ".join(small_tokenizers.LINES).split()
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        for seed in (1, 2):
            lines = (tmp_path / "prompts" / f"{seed}.jsonl").read_text("utf-8").splitlines()
            found = [
                {k: json.loads(line)[k] for k in ("id", "prompt")}
                | {"continuation": " " + " ".join(rng.choices(words, k=8))}
                for line in lines
            ]
            jsonl(tmp_path / name / f"{seed}.jsonl", found)
    return tmp_path


def test_from_texts_to_a_page(files: Path, causal_lm: Path) -> None:
    measured = ["--prompts", files / "prompts", "--scorer", causal_lm]
    systems = [f"ours={files / 'ours'}", files / "theirs"]
    done = reviser("lab", "eval", *systems, *measured, "-o", files / "eval.json")
    assert done.exit_code == 0, done.output
    record = json.loads((files / "eval.json").read_text("utf-8"))
    assert [s["name"] for s in record["systems"]] == ["ours", "theirs", "reference"]
    assert [s["samples"] for s in record["systems"][:2]] == [12, 12]
    assert (record["protocol"]["prefix_tokens"], record["data"]) == (5, "text.jsonl")
    ratio = record["comparisons"][0]["perplexity_ratio"][0]["ratio"]["value"]
    assert f"evalPPL of ours / theirs, {causal_lm}: {ratio:.1f}" in done.stdout
    page = reviser("lab", "report", files / "eval.json", "-o", files / "deep" / "page.md")
    assert page.stdout == f"{files / 'deep' / 'page.md'}\n"
    assert f"| ours / theirs | {causal_lm} |" in (files / "deep" / "page.md").read_text("utf-8")
    other = reviser("lab", "report", files / "eval.json", "-o", files / "page.html")
    assert "must end with .md" in other.stderr


def test_prompts_that_were_chosen_differently_are_not_overwritten(files: Path) -> None:
    before = (files / "prompts" / "1.jsonl").read_bytes()
    options = ["--tokenizer", files, "--seed", 1, "--seed", 2, *SMALL, "-o", files / "prompts"]
    other = reviser("lab", "prompts", files / "text.jsonl", "--count", 3, *options)
    assert "holds prompts that were chosen differently" in other.stderr
    assert (files / "prompts" / "1.jsonl").read_bytes() == before
    same = reviser("lab", "prompts", files / "text.jsonl", "--count", 6, *options)
    assert same.exit_code == 0, same.output
    assert (files / "prompts" / "1.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["a=gone.jsonl"], "Cannot read 'gone.jsonl'"),
        (["a=ours/1.jsonl", "a=ours/1.jsonl"], "'ours/1.jsonl' is given twice for 'a'"),
        (["a=ours", "b=theirs/1.jsonl"], "'a' and 'b' cannot be compared: 6 of the 12 samples"),
        (["a=."], "needs a text as its 'prompt'"),
        (["a=empty"], "There are no .jsonl files in 'empty'"),
        (["a=ours", "--scorer", "./gone"], "There is no folder './gone'"),
        (["a=ours", "--scorer", "."], "'.' is not a model folder"),
        (["a=ours", "--mauve", "bert"], "Give pll:NAME of a masked LM"),
        (["a=ours", "--model", "b=."], "--model names 'b', which is not one of the systems"),
        (["a=ours", "--judge", "m", "--judge-url", "u"], "must begin with http://"),
        (["a=ours", "--judge-url", "http://u"], "Give --judge and --judge-url together"),
        (["a=ours", "--judge", "m"], "Give --judge and --judge-url together"),
        (["a=ours", "--judge", "m", "--judge-url", "http://u"], "An arena needs two systems"),
        (["a=ours", "--model", "a=."], "'a' has a model, but its samples are not rollouts"),
        (["a=ours", "--device", "nonsense"], "The device 'nonsense' cannot be used"),
        (["=ours"], "Give NAME=PATH; got '=ours'"),
        (["a="], "Give NAME=PATH; got 'a='"),
        (["a=deep.txt"], "is not JSON"),
        (["a=ours", "-o", "text.jsonl/e.json"], "Cannot write"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence(
    files: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
) -> None:
    monkeypatch.chdir(files)
    (files / "empty").mkdir()
    (files / "deep.txt").write_text("[" * 100_000, encoding="utf-8")
    done = reviser("lab", "eval", "-o", "e.json", *words)
    assert done.exit_code in (1, 2)
    assert sentence in done.stderr
    assert not isinstance(done.exception, Exception) or isinstance(done.exception, SystemExit)
    assert not (files / "e.json").exists()


def test_a_report_of_something_else_is_refused(files: Path) -> None:
    jsonl(files / "x.json", [{"format": 7}])
    for name, sentence in [("x.json", "has format 7"), ("text.jsonl", "Cannot read the record"),
                           ("gone", "There is no file")]:  # fmt: skip
        done = reviser("lab", "report", files / name, "-o", files / "page.md")
        assert done.exit_code == 1
        assert sentence in done.stderr
    assert not (files / "page.md").exists()
