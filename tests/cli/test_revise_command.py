"""`reviser revise`: the changes of a draft in five formats, or written back to its file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import reviser.model
from reviser.cli import main
from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.engines.base import Act, DecodeConfig, Question, Request
from reviser.model import Reviser
from reviser.models.editing import Editing
from reviser.trajectories.alignment import revision as oracle
from reviser.writing.changes import Changes
from support import small_tokenizers
from support.correcting import CorrectingEngine
from support.random_engine import RandomEngine
from support.scripted import ScriptedEngine

TOKENIZER = small_tokenizers.byte_level()
VOCAB = ActionVocab.from_tokenizer(TOKENIZER, operators=("delete", "replace"), max_move=8)
CODEC = Codec(TOKENIZER)
BEFORE, AFTER = "It have a end.\r\nAnd so on.", "It has an end.\r\nAnd so on."


def run(*args: Any, stdin: str | bytes | None = None) -> Result:
    command = ["revise", "-m", "any", *map(str, args)]
    return CliRunner().invoke(main, command, input=stdin)


Opens = Callable[..., list[Request]]


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> Opens:
    """Returns a function that makes `load` return a model of an engine, and records requests."""

    def use(engine: Any, *calibration: tuple[float, float]) -> list[Request]:
        asked: list[Request] = []
        engine.scored = 0
        add = engine.add

        def record(question: Question) -> int:
            if isinstance(question, Act):
                asked.append(question.request)
            else:
                engine.scored += 1
            number: int = add(question)
            return number

        engine.add = record
        editing = Editing(edit_probabilities=bool(calibration), calibration=calibration)

        def load(*_: Any, **__: Any) -> Reviser:
            return Reviser(engine, CODEC, editing=editing)

        monkeypatch.setattr(reviser.model, "load", load)
        return asked

    return use


@pytest.fixture
def corrects(opens: Opens) -> list[Request]:
    """Makes `load` return a model that turns `BEFORE` into `AFTER`."""
    trajectory = oracle(VOCAB, CODEC.encode(BEFORE), CODEC.encode(AFTER))
    return opens(ScriptedEngine(VOCAB, trajectory.restoration[len(trajectory.no_loss) :]))


@pytest.mark.usefixtures("corrects")
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["", "\r\n", "\n\n"])
def test_every_format_has_the_same_changes(tmp_path: Path, start: str, end: str) -> None:
    file = tmp_path / "a draft.md"
    file.write_bytes(f"{start}{BEFORE}{end}".encode())
    wanted = f"{start}{AFTER}{end}"
    assert run(file).stdout_bytes.decode() == wanted
    assert run(stdin=f"{start}{BEFORE}{end}".encode()).stdout_bytes.decode() == wanted
    record = json.loads(run(file, "--format", "json").stdout)
    changes = Changes.from_json(json.dumps(record))
    assert (changes.text, changes.draft) == (wanted, f"{start}{BEFORE}{end}")
    assert [rollout["text"] for rollout in record["rollouts"]] == [AFTER]
    assert run(file, "--format", "criticmarkup").stdout_bytes.decode() == changes.criticmarkup()
    first, *_ = json.loads(run(file, "--format", "lsp").stdout)
    assert first["range"]["start"] == {"line": 0, "character": 5}  # without the byte order mark
    assert file.read_bytes().decode() == f"{start}{BEFORE}{end}"


@pytest.mark.usefixtures("corrects")
@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("tool", [["patch", "-p0"], ["git", "apply", "-p0"]])
def test_a_diff_goes_straight_to_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, tool: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("sub", "a draft.md")
    file.parent.mkdir()
    file.write_bytes(f"\ufeff{BEFORE}{end}".encode())
    diff = run(file, "--format", "diff").stdout_bytes
    subprocess.run(tool, input=diff, check=True, capture_output=True)
    assert file.read_bytes().decode() == f"\ufeff{AFTER}{end}"


@pytest.mark.usefixtures("corrects")
def test_a_file_is_written_back_whole_with_its_mode_and_through_links(tmp_path: Path) -> None:
    file, link = tmp_path / "real.md", tmp_path / "link.md"
    file.write_bytes(f"{BEFORE}\r\n".encode())
    file.chmod(0o640)
    link.symlink_to(file)
    result = run(link, "--check")
    assert (result.exit_code, result.stdout) == (1, f"{link}: 2 changes\n")
    assert file.read_bytes().decode() == f"{BEFORE}\r\n"
    result = run(link, "--in-place")
    assert (result.exit_code, result.stdout) == (0, f"{link}: 2 changes\n")
    assert file.read_bytes().decode() == f"{AFTER}\r\n"
    assert (link.is_symlink(), file.stat().st_mode & 0o777) == (True, 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.md", "real.md"]


def test_a_file_that_needs_no_change_is_not_touched(tmp_path: Path, opens: Opens) -> None:
    opens(ScriptedEngine(VOCAB, [VOCAB.stop]))
    file = tmp_path / "fine.md"
    file.write_bytes(b"Fine.\r\n")
    file.chmod(0o444)
    before = file.stat()
    for how in ("--in-place", "--check"):
        result = run(file, how)
        assert (result.exit_code, result.stdout) == (0, f"{file}: 0 changes\n")
    assert file.stat() == before
    assert run(file, "--format", "diff").stdout == ""


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("changed", "has changed since it was read"),
        ("pipe", "it is a pipe. Give the name of a file."),  # refused before it is read
        ("protected", "it is write-protected (mode 0444). Make it writable first"),
    ],
)
def test_a_file_that_cannot_be_written_back_is_left_alone(
    tmp_path: Path, opens: Opens, kind: str, sentence: str
) -> None:
    file, actions = tmp_path / "draft.md", [*CODEC.encode("x"), VOCAB.stop]
    engine = ScriptedEngine(VOCAB, actions)
    opens(engine)
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.write_text("One.")
    if kind == "changed":  # by another program, while the model writes
        engine.script = lambda _: actions * bool(file.write_text("Two."))  # type: ignore[method-assign]
    if kind == "protected":
        file.chmod(0o444)
    result = run(file, "--in-place")
    assert (result.exit_code, result.stdout) == (1, "")
    assert sentence in result.stderr
    left = {"changed": "Two.", "protected": "One."}
    assert file.is_fifo() if kind == "pipe" else file.read_text() == left[kind]


def test_options_reach_the_model(opens: Opens) -> None:
    asked = opens(ScriptedEngine(VOCAB, [VOCAB.stop]))
    draft = "one two one three"
    result = run("--lock", "one", "--lock", "three", "--instruction", "Fix it", "--max-edits", 3,
                 "--seed", 7, "--temperature", 0.5, stdin=draft)  # fmt: skip
    assert (result.exit_code, result.stdout) == (0, draft)
    assert asked[0].config == DecodeConfig(max_edits=3, seed=7, temperature=0.5)
    assert len(asked[0].editable) == 2
    instruction = CODEC.encode("Fix it")
    assert list(asked[0].history[1 : len(instruction) + 1]) == instruction
    asked.clear()
    run(stdin=draft)
    assert asked[0].config == DecodeConfig(temperature=0.0)
    asked.clear()
    run("--window", 4, "--context", 1, stdin=draft)
    assert len({request.length for request in asked}) <= 6
    assert len(asked) > 4


def test_a_model_that_gives_edit_probabilities_reads_the_draft_first(opens: Opens) -> None:
    engine: Any = RandomEngine(VOCAB)
    opens(engine, (0.5, 0.5), (0.8, 0.9))
    draft = "one two one three"
    for option in ((), ("--precision", 0.8), ("--min-edit-probability", 0.7)):
        result = run(*option, stdin=draft)
        assert result.exit_code == 0
        assert engine.scored == 1
        engine.scored = 0
    run("--min-edit-probability", 0, stdin=draft)
    assert engine.scored == 0


def test_locked_text_is_kept_and_parts_that_hit_a_limit_are_reported(opens: Opens) -> None:
    opens(RandomEngine(VOCAB))
    draft = "The cat sat on the mat. " * 5
    result = run("--window", 30, "--lock", "cat", "--max-actions", 9, "--seed", 1, stdin=draft)
    assert result.exit_code == 0
    assert result.stdout != draft
    assert result.stdout.count("cat") >= 5
    message = r"\d of \d windows reached the limit of 9 actions; raise --max-actions\.\n"
    assert re.fullmatch(message, result.stderr)


@pytest.mark.parametrize(
    ("args", "stdin", "status", "sentence"),
    [
        (["nowhere.md"], None, 1, "There is no file named 'nowhere.md'"),
        ([], b"a\xff", 1, "Standard input is not UTF-8 text (byte 0xff at position 2). Convert"),
        (["--in-place"], "a", 2, "Give a FILE"),
        (["--input", "x.jsonl"], None, 2, "--input and --output together"),
        (["x.md", "--input", "x.jsonl", "--output", "y.jsonl"], None, 2, "--output together"),
        (["--check", "--input", "x.jsonl", "--output", "y.jsonl"], None, 2, "--output together"),
        (["--input", "x.jsonl", "--output", "y.jsonl"], None, 1, "no file to read at 'x.jsonl'"),
        (["x.md", "--in-place", "--check"], "a", 2, "--check writes nothing"),
        (["--lock", "b"], "a", 1, "which does not occur in the draft"),
        (["--precision", "0.9"], "a", 1, "was not trained to give edit probabilities"),
        (["--temperature", "-1"], "a", 1, "temperature is -1"),
        (["--max-length", "2"], "The cat sat", 1, "max_length is 2, but the text is already"),
        (["--window", "0"], "a", 1, "window is 0"),
        (["--format", "criticmarkup"], "a {++b++}", 1, "cannot be written in CriticMarkup"),
    ],
)
def test_wrong_arguments_are_refused(
    opens: Opens, args: list[str], stdin: Any, status: int, sentence: str
) -> None:
    opens(ScriptedEngine(VOCAB, [VOCAB.stop]))
    result = run(*args, stdin=stdin)
    assert result.exit_code == status
    assert result.stdout == ""
    assert sentence in result.stderr


@pytest.mark.usefixtures("corrects")
def test_a_terminal_shows_changes_in_colour_and_obeys_no_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = run(stdin=f"{BEFORE}\n").stdout
    assert "\x1b[9;31mve\x1b[0m\x1b[32ms\x1b[0m" in shown
    assert shown.endswith("And so on.\n")
    monkeypatch.setenv("NO_COLOR", "1")
    shown = run(stdin=f"{BEFORE}\n").stdout
    assert "\x1b" not in shown
    assert shown == f"{AFTER}\n".replace("\r", "\u240d")


class Scribbles(RandomEngine):
    """Writes as much as it may, so that what is not locked changes."""

    def pick(self, walk: Any, allowed: set[int]) -> int:
        others = allowed - {VOCAB.stop}
        return super().pick(walk, others or allowed)


def test_markup_of_a_file_is_locked_by_its_suffix(tmp_path: Path, opens: Opens) -> None:
    text = "# Head\n\nSome words here, `code` and [a link](http://a.b).\n\n```\nx = 1\n```\n"
    for name, options, is_locked in (
        ("a.md", [], True),
        ("a.txt", [], False),
        ("a.txt", ["--markup", "markdown"], True),
        ("a.md", ["--markup", "none"], False),
    ):
        asked = opens(Scribbles(VOCAB))
        file = tmp_path / name
        file.write_text(text)
        result = run(file, "--max-actions", 60, "--min-edit-probability", 0, *options)
        assert result.exit_code == 0, result.stderr
        assert result.stdout != text
        assert (len(asked[0].editable) > 3) == is_locked
        if is_locked:
            for part in ("# ", "\n\n", "`code`", "](http://a.b)", "```\nx = 1\n```"):
                assert part in result.stdout
    asked = opens(ScriptedEngine(VOCAB, [VOCAB.stop]))
    assert run(stdin=text).stdout == text
    assert len(asked[0].editable) == 1  # standard input has no suffix


def test_missing_parsers_are_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: Opens
) -> None:
    opens(ScriptedEngine(VOCAB, [VOCAB.stop]))
    file = tmp_path / "a.md"
    file.write_text("Text.")
    monkeypatch.setitem(sys.modules, "tree_sitter_markdown", None)
    monkeypatch.delitem(sys.modules, "reviser.markup.markdown", raising=False)
    result = run(file)
    assert result.exit_code == 1
    assert "pip install 'reviser-lm[markup]'" in result.stderr
    assert "--markup none" in result.stderr
    assert run(file, "--markup", "none").exit_code == 0


def test_check_and_in_place_take_many_files(tmp_path: Path, opens: Opens) -> None:
    names = [tmp_path / name for name in ("one.txt", "two.txt", "three.txt")]
    opens(CorrectingEngine(VOCAB, CODEC))
    for name, text in zip(names, ("It is teh end.\n", "Fine.\n", "And teh rest.\n"), strict=True):
        name.write_text(text)
    one, two, three = names
    result = run(*names, "--check")
    assert (result.exit_code, result.stdout) == (
        1, f"{one}: 1 change\n{two}: 0 changes\n{three}: 1 change\n",
    )  # fmt: skip
    assert run(two, "--check").exit_code == 0
    assert run(*names, "--in-place").exit_code == 0
    assert [name.read_text() for name in names] == [
        "It is the end.\n", "Fine.\n", "And the rest.\n",
    ]  # fmt: skip
    assert run(*names, "--check").exit_code == 0
    result = run(one, two)
    assert (result.exit_code, "add --check or --in-place" in result.stderr) == (2, True)
