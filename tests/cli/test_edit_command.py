"""`reviser edit`: the files, formats and questions of `reviser proofread`, with a chat server."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import docx
import pytest
from click.testing import CliRunner, Result

from reviser.cli import main
from support import chatting
from support.chatting import ChatScript, answer, completion, edit, names_of, replacing

TEXT = "The color is red.\n\nSee `color` and color.\n"
DONE = "The colour is red.\n\nSee `color` and colour.\n"
NOT_DONE = "a.md:3: edit not made: It would change locked text: '`color`'.\n"


@pytest.fixture(autouse=True)
def chat(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatScript]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("reviser.engines.chat_server.FIRST_PAUSE", 0.001)
    Path("a.md").write_text(TEXT)
    with chatting.chat_server() as served:
        served.script = replacing("color", "colour")
        yield served


def run(chat: ChatScript, *args: Any, stdin: str | bytes | None = None) -> Result:
    more = ["--instruction", "British.", "--url", chat.url, "-m", "small"]
    return CliRunner().invoke(main, ["edit", *map(str, args), *more], input=stdin)


LIST = (
    "a.md:1:5: The [color -> colour] is red.\na.md:3:17: See `color` and [color -> colour].\n"
    "2 changes in 1 file\n"
)


@pytest.mark.parametrize(
    ("args", "status", "output"),
    [
        ([], 0, LIST),
        (["--check"], 1, LIST),
        (["--format", "text"], 0, DONE),
        (["--format", "text", "--markup", "none"], 0, TEXT.replace("color", "colour")),
        (["--format", "text", "--lock", "red"], 0, DONE),
        (["--format", "criticmarkup"], 0, TEXT.replace("The color", "The {~~color~>colour~~}")
         .replace("and color", "and {~~color~>colour~~}")),
    ],
)  # fmt: skip
def test_what_is_printed(chat: ChatScript, args: list[str], status: int, output: str) -> None:
    result = run(chat, "a.md", *args)
    assert (result.exit_code, result.stdout) == (status, output)
    assert result.stderr == (NOT_DONE if "none" not in args else "")
    assert Path("a.md").read_text() == TEXT


def test_formats_for_programs(chat: ChatScript) -> None:
    Path("b.md").write_text("No change.\n")
    diff = run(chat, "a.md", "--format", "diff").stdout
    assert "-The color is red.\n+The colour is red.\n" in diff
    lines = run(chat, "a.md", "b.md", "--format", "json").stdout.splitlines()
    saved = [json.loads(line) for line in lines]
    assert [(each["file"], each["text"]) for each in saved] == [
        ("a.md", DONE),
        ("b.md", "No change.\n"),
    ]
    assert [len(each["dropped"]) for each in saved] == [1, 0]
    assert (saved[0]["requests"], saved[0]["tokens_written"]) == (1, 7)
    assert json.loads(run(chat, "a.md", "--format", "rdjson").stdout)["diagnostics"]
    assert json.loads(run(chat, "a.md", "--format", "sarif").stdout)["runs"]


def test_files_are_saved_in_place_or_elsewhere_and_standard_input_is_read(
    chat: ChatScript,
) -> None:
    assert run(chat, "a.md", "-o", "b.md").exit_code == 0
    assert (Path("a.md").read_text(), Path("b.md").read_text()) == (TEXT, DONE)
    assert run(chat, "a.md", "--in-place").exit_code == 0
    assert Path("a.md").read_text() == DONE
    result = run(chat, "--format", "text", stdin=b"\xef\xbb\xbfcolor\r\n")
    assert result.stdout_bytes == b"\xef\xbb\xbfcolour\r\n"


def test_code_changes_in_comments_only(chat: ChatScript) -> None:
    Path("a.py").write_text("color = 1  # The color.\n")
    assert run(chat, "a.py", "--format", "text").stdout == "color = 1  # The colour.\n"


def test_changes_are_accepted_one_by_one(chat: ChatScript) -> None:
    result = run(chat, "a.md", "--interactive", stdin="ra")
    assert Path("a.md").read_text() == TEXT.replace("and color", "and colour")
    assert "1 of 2. a: accept, r: reject, q: stop?" in result.stdout
    assert result.stdout.endswith("1 change in 1 file\n")


def test_word_documents_get_tracked_changes_on_one_line(chat: ChatScript) -> None:
    document = docx.Document()
    document.add_paragraph("The color is red. It is.")
    document.add_paragraph("No more.")
    document.save("a.docx")

    def script(body: chatting.Body) -> chatting.Response:
        first, second, *_ = names_of(body)
        return answer(edit(first, text="The colour is red."),
                      edit(second, "insert_after", "\nThat is new.\nYes."))  # fmt: skip

    chat.script = script
    assert run(chat, "a.docx", "-o", "b.docx").exit_code == 0
    xml = ZipFile(io.BytesIO(Path("b.docx").read_bytes())).read("word/document.xml").decode()
    assert xml.count("<w:ins ") == 2
    assert xml.count("<w:del ") == 1
    assert "> That is new. Yes.<" in xml


def test_a_file_without_a_whole_answer_is_reported_and_the_status_is_2(chat: ChatScript) -> None:
    Path("b.md").write_text("No color.\n")

    good = replacing("color", "colour")
    sorry = completion("Sorry, I cannot do that.")
    chat.script = lambda body: sorry if "red" in body["messages"][1]["content"] else good(body)
    result = run(chat, "a.md", "b.md", "--in-place")
    assert result.exit_code == 2
    assert result.stderr == "a.md:1: no answer: The answer is not the JSON that was asked for.\n"
    assert (Path("a.md").read_text(), Path("b.md").read_text()) == (TEXT, "No colour.\n")


def test_requests_have_the_settings_and_no_key_is_an_option(chat: ChatScript) -> None:
    run(chat, "a.md", "--setting", "seed=4", "--setting", "max_tokens=null")
    [body] = chat.bodies
    assert (body["model"], body["seed"], "max_tokens" in body) == ("small", 4, False)
    assert body["messages"][1]["content"].startswith("Instruction: British.\n")
    shown = CliRunner().invoke(main, ["edit", "--help"]).stdout
    assert "REVISER_API_KEY" in shown
    assert "--api-key" not in shown


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["b.md"], "There is no file named 'b.md'. Did you mean 'a.md'?"),
        (["a.md", "--in-place", "--check"], "Give one of --in-place"),
        (["a.md", "a.md", "--format", "text"], "Give one FILE"),
        (["--interactive"], "Give a FILE"),
        (["a.md", "--instruction", " "], "error: The instruction is empty. Say what to change."),
        (["a.md", "--url", "localhost"], "error: The url is 'localhost'; it must begin with http"),
        (["a.md", "--setting", "window=0"], "error: window is 0; it must be a whole number"),
    ],
)
def test_wrong_arguments_are_refused(chat: ChatScript, args: list[str], sentence: str) -> None:
    more = ["--instruction", "British.", "--url", chat.url, "-m", "small"]
    result = CliRunner().invoke(main, ["edit", *more, *args], input="")
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert chat.bodies == []


def test_a_server_that_refuses_is_an_error_of_one_sentence(chat: ChatScript) -> None:
    chat.script = lambda _: (404, {}, '{"error": "no model small"}')
    result = run(chat, "a.md", "--in-place")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: The server at http://127.0.0.1:")
    assert result.stderr.count("\n") == 1
    assert Path("a.md").read_text() == TEXT
