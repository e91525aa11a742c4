"""`reviser proofread`: every format, the judge, the settings, and asking about each change."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import docx
import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from rich.file_proxy import FileProxy
from rich.text import Text

from reviser.cli import main
from reviser.cli.drafts import Draft
from reviser.cli.output import print_styled
from reviser.cli.sheets import Sheet
from reviser.proofread.settings import Settings, user_words
from reviser.writing.changes import Change, Changes
from reviser.writing.tasks import Revise
from support import judging

TEXT = "It is a end of of it.\n\nSee `teh` and teh rest.\n"
SURE = "It is an end of it.\n\nSee `teh` and teh rest.\n"
JUDGED = "It is an end of it.\n\nSee `teh` and the rest.\n"


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The rules of `support.judging`, and a folder and settings of its own for each test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    stop = judging.installed()
    Path("a.md").write_text(TEXT)
    yield
    stop()


def run(*args: Any, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["proofread", *map(str, args)], input=stdin)


LIST = (
    "a.md:1:7: It is [a -> an] end of of it.\n    article: “an” stands before a vowel. (99%)\n"
    "a.md:1:16: It is a end of [of -> (delete)] it.\n"
    "    repetition: The word is there twice. (99%)\n"
)
JUDGED_LIST = (
    "a.md:3:15: See `teh` and [teh -> the] rest.\n    spelling: It is spelt “the”. (88%)\n"
)
CRITIC = "It is {~~a~>an~~} end of {--of --}it.\n\nSee `teh` and teh rest.\n"


@pytest.mark.parametrize(
    ("args", "status", "output"),
    [
        (["a.md", "--no-judge"], 0, LIST + "2 changes in 1 file\n"),
        (["a.md"], 0, LIST + JUDGED_LIST + "3 changes in 1 file\n"),
        (["a.md", "a.md", "--no-judge"], 0, LIST * 2 + "4 changes in 2 files\n"),
        (["a.md", "--no-judge", "--check"], 1, LIST + "2 changes in 1 file\n"),
        (["a.md", "--format", "text", "--no-judge"], 0, SURE),
        (["a.md", "--format", "text"], 0, JUDGED),
        (["a.md", "--format", "text", "--min-confidence", "0.9"], 0, SURE),
        (["a.md", "--format", "text", "--markup", "none"], 0, JUDGED.replace("teh", "the")),
        (["a.md", "--format", "text", "--lock", "of of"], 0, JUDGED.replace("of", "of of")),
        (["a.md", "--format", "criticmarkup", "--no-judge"], 0, CRITIC),
    ],
)
def test_what_is_printed(args: list[str], status: int, output: str) -> None:
    result = run(*args)
    assert (result.exit_code, result.stdout, result.stderr) == (status, output, "")
    assert Path("a.md").read_text() == TEXT


def test_formats_for_programs() -> None:
    diff = run("a.md", "--format", "diff", "--no-judge").stdout
    assert "-It is a end of of it.\n+It is an end of it.\n" in diff
    saved = [json.loads(line) for line in run("a.md", "a.md", "--format", "json").stdout.split("\n")
             if line]  # fmt: skip
    assert [each["file"] for each in saved] == ["a.md", "a.md"]
    assert [each["rule"] for each in saved[0]["changes"]] == ["a-an", "doubled", "misspelling"]
    found = json.loads(run("a.md", "--format", "rdjson").stdout)
    assert "“an” stands before a vowel." in found["diagnostics"][0]["message"]
    [sarif] = json.loads(run("a.md", "--format", "sarif").stdout)["runs"]
    first = sarif["results"][0]
    assert (first["ruleId"], first["level"]) == ("a-an", "note")
    region = first["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 1, "startColumn": 7, "endLine": 1, "endColumn": 8}
    [edit] = first["fixes"][0]["artifactChanges"][0]["replacements"]
    assert edit == {"deletedRegion": region, "insertedContent": {"text": "an"}}


def test_files_are_saved_in_place_or_elsewhere_and_standard_input_is_read() -> None:
    assert run("a.md", "-o", "b.md").exit_code == 0
    assert (Path("a.md").read_text(), Path("b.md").read_text()) == (TEXT, JUDGED)
    assert run("a.md", "--in-place").exit_code == 0
    assert Path("a.md").read_text() == JUDGED
    assert run("--format", "text", stdin=b"\xef\xbb\xbfteh\r\n").stdout_bytes == (
        b"\xef\xbb\xbfthe\r\n"
    )


@pytest.mark.parametrize(
    ("args", "status", "sentence"),
    [
        (["b.md"], 2, "There is no file named 'b.md'. Did you mean 'a.md'?"),
        (["a.md", "--in-place", "--check"], 2, "Give one of --in-place"),
        (["a.md", "a.md", "--format", "text"], 2, "Give one FILE"),
        (["--interactive"], 2, "Give a FILE"),
        (["a.md", "--judge", "missing"], 2, "There is no folder 'missing'."),
        (["a.md", "--min-confidence", "2"], 2, "is not in the range"),
    ],
)
def test_wrong_arguments_are_refused(args: list[str], status: int, sentence: str) -> None:
    result = run(*args, stdin="")
    assert (result.exit_code, result.stdout) == (status, "")
    assert sentence in result.stderr


def test_without_a_judge_at_hand_the_sure_changes_are_made_and_a_line_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REVISER_TEST_MISSING", "HuggingFaceTB/SmolLM2-135M-Instruct")
    result = run("a.md")
    assert (result.exit_code, result.stdout) == (0, LIST + "2 changes in 1 file\n")
    assert result.stderr.count("\n") == 1
    assert "Only sure corrections are shown" in result.stderr


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ('words = ["teh"]', SURE),
        ('ignore = ["a-an"]', JUDGED.replace("an end", "a end")),
        ('ignore = ["article", "misspelling"]', SURE.replace("an end", "a end")),
        ("min-confidence = 0.9", SURE),
        ('judge = "other"', JUDGED),
    ],
)
def test_the_settings_of_the_project_count(settings: str, wanted: str) -> None:
    Path("pyproject.toml").write_text(f"[tool.reviser]\n{settings}\n")
    assert run("a.md", "--format", "text").stdout == wanted


def test_changes_are_accepted_one_by_one() -> None:
    Path(".git").mkdir()
    Path("a.md").write_text("a end of of it, teh one, teh two, a orange.\n")
    result = run("a.md", "--interactive", stdin="aird")
    assert result.exit_code == 0, result.output
    assert Path("a.md").read_text() == "an end of of it, teh one, teh two, a orange.\n"
    assert Path(".reviser.toml").read_text() == 'ignore = ["doubled"]\n'
    asked = 'd: add "teh" to the dictionary, i: ignore the rule misspelling, q: stop?'
    assert f"3 of 5. a: accept, r: reject, {asked}" in " ".join(result.stdout.split())
    assert user_words() == {"teh"}
    assert result.stdout.endswith("1 change in 1 file\n")
    assert run("a.md", "--interactive", stdin="q").stdout.endswith("0 changes in 1 file\n")


def test_accepting_changes_needs_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_terminal() -> str:
        raise OSError("No such device or address: '/dev/tty'")

    monkeypatch.setattr("click.getchar", no_terminal)
    result = run("a.md", "--interactive")
    assert result.exit_code == 2
    assert "--interactive needs a terminal." in result.stderr


def test_a_space_before_a_deleted_word_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    text = "Into the the house."
    Path("a.md").write_text(text)
    sheet = Sheet(Draft.read(Path("a.md"), "auto", "proofread"), Revise(text), Settings())
    sheet.print(Change(start=8, end=12, before=" the", after=""))
    assert capsys.readouterr().out == "a.md:1:9: Into the [the -> (delete)] house.\n"


def test_in_a_terminal_a_line_is_as_wide_as_its_room_and_says_what_it_replaces(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "A long line of many words before they doesnt end, and many more words after it."
    Path("a.md").write_text(text)
    sheet = Sheet(Draft.read(Path("a.md"), "auto", "proofread"), Revise(text), Settings())
    sure = Change(start=38, end=44, before="doesnt", after="doesn't", logprob=0, actions=0)
    better = replace(sure, start=33, before="they doesnt", after="they don't")
    monkeypatch.setattr("reviser.cli.sheets.is_terminal", lambda: True)
    for columns in ("60", "80"):
        monkeypatch.setenv("COLUMNS", columns)
        sheet.print(sure)
        [line] = capsys.readouterr().out.splitlines()
        assert int(columns) - 16 < len(line) <= int(columns)
    sheet.show(Changes(draft=text, changes=(sure,)))
    sheet.show(Changes(draft=text, changes=(better,)))
    assert capsys.readouterr().out.endswith("    It replaces [doesnt -> doesn't].\n")


def test_the_summary_in_a_terminal_says_how_to_save(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reviser.cli.sheets.is_terminal", lambda: True)
    hint = "2 changes in 1 file. Save them with --in-place or -o FILE.\n"
    assert run("a.md", "--no-judge").stdout.endswith(hint)
    assert run("a.md", "--no-judge", "--check").stdout.endswith("2 changes in 1 file\n")
    assert run("a.md", "--no-judge", "--in-place").stdout.endswith("2 changes in 1 file\n")


def test_a_line_is_printed_above_a_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    bar = Console(file=screen, force_terminal=True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("sys.stdout", FileProxy(bar, sys.stdout))  # as long as a bar is drawn
    print_styled(Text("one line"))
    assert "one line" in screen.getvalue()


def test_a_word_document_is_saved_with_tracked_changes() -> None:
    document = docx.Document()
    document.add_paragraph("It is a end.")
    document.add_paragraph("And ").add_run("teh").bold = True
    document.save("a.docx")
    result = run("a.docx", "-o", "b.docx")
    assert result.exit_code == 0, result.output
    assert "a.docx:3:5: And [teh -> the]" in result.stdout
    with ZipFile("b.docx") as package:
        xml = package.read("word/document.xml").decode()
    assert xml.count('w:author="Reviser"') == 4
    assert run("a.docx", "--format", "diff").exit_code == 2
