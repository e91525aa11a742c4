"""The language server, with a real client over stdio and a model that corrects one word."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from reviser.errors import ConfigError
from reviser.lsp import documents
from reviser.lsp.documents import (
    FIRST_WORD,
    PROMPT,
    Positions,
    Segment,
    apply_changes,
    paragraphs,
    parse,
    parse_again,
    placed,
    prompt_start,
)
from reviser.lsp.server import make_server
from reviser.lsp.settings import Settings, find_settings
from reviser.lsp.suggestions import actions_for, diagnostic_of, title_of
from reviser.markup import format_of, locked_spans
from reviser.model import Reviser
from reviser.writing.changes import Change
from support import correcting
from support.browsers import missing
from support.correcting import FILL
from support.language_client import Editor, editing, with_editor

TESTS = Path(__file__).parents[1]
PAGE = "# A page\n\n😀 It is teh end.\n\n```\nteh code\n```\n\nSee `teh` and teh rest.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".reviser.toml").write_text("delay = 0.05\n")
    return tmp_path


def given_texts(log: Path) -> list[str]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_suggestions_are_shown_fixed_and_checked_again_by_paragraph(project: Path) -> None:
    log = project / "log"

    async def work(editor: Editor) -> None:
        await editor.open(PAGE)
        await editor.until(lambda it: len(it.diagnostics) == 2)
        first = editor.diagnostics[0]
        assert (first.range.start.line, first.source) == (2, "reviser")
        # The emoji before it counts as two UTF-16 units.
        assert first.range.start.character == PAGE.splitlines()[2].index("teh") + 1
        assert editor.marked() == ["teh", "teh"]
        assert first.severity == types.DiagnosticSeverity.Warning  # of a probable change
        assert sorted(given_texts(log)) == sorted(
            ["# A page", "😀 It is teh end.", "See `teh` and teh rest."]
        )
        # Another paragraph is typed before them: the model is asked about this one alone.
        log.write_text("")
        editor.change(0, 0, "New teh text.\n\n")
        await editor.until(lambda it: len(it.diagnostics) == 3)
        assert given_texts(log) == ["New teh text."]
        # A quick fix for each suggestion, and one for all of them.
        fixes = [each for each in await editor.actions(["quickfix"]) if each.edit]
        assert [each.title for each in fixes] == ["Replace “teh” with “the”"] * 3
        [whole] = await editor.actions(["source.fixAll"])
        assert whole.edit is not None
        assert whole.edit.changes is not None
        editor.apply(list(whole.edit.changes[editor.uri]))
        assert editor.text == (
            "New the text.\n\n# A page\n\n😀 It is the end.\n\n```\nteh code\n```\n\n"
            "See `teh` and the rest.\n"
        )
        await editor.until(lambda it: not it.diagnostics)

    with_editor(work, project / "page.md", REVISER_TEST_LOG=str(log))


def test_words_of_the_dictionary_and_ignored_suggestions_are_left_alone(project: Path) -> None:
    log = project / "log"
    (project / ".reviser.toml").unlink()
    (project / "pyproject.toml").write_text('[tool.reviser]\nwords = ["teh"]\ndelay = 0.05\n')

    async def work(editor: Editor) -> None:
        await editor.open("It is teh end.\n")
        while not log.exists():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        assert editor.diagnostics == []
        (project / "pyproject.toml").write_text("[tool.reviser]\ndelay = 0.05\n")
        editor.change(0, 0, "So ")
        await editor.until(lambda it: bool(it.diagnostics))
        await editor.actions()
        assert editor.titles == [
            "Replace “teh” with “the”", "Never change “teh”", "Ignore this suggestion",
            "Reviser: accept all suggestions",
        ]  # fmt: skip
        await editor.command("reviser.ignore", "teh -> the")
        await editor.until(lambda it: not it.diagnostics)
        assert (project / "config" / "reviser" / "ignore.txt").read_text() == "teh -> the\n"
        (project / "config" / "reviser" / "ignore.txt").unlink()
        editor.change(0, 0, "And ")
        await editor.until(lambda it: bool(it.diagnostics))
        await editor.command("reviser.addWord", "teh")
        await editor.until(lambda it: not it.diagnostics)

    with_editor(work, project / "page.md", REVISER_TEST_LOG=str(log))


def test_commands_stream_edits_into_the_buffer_and_typing_stops_them(project: Path) -> None:
    async def work(editor: Editor) -> None:
        await editor.open("One.\n\nBen was a {} boy.\n\nLast.\n")
        gap = types.Position(2, 4)
        assert await editor.command("reviser.fillGap", gap) == "done"
        assert editor.text == f"One.\n\nBen was a {FILL} boy.\n\nLast.\n"
        assert len(editor.applied) > 1  # it was streamed
        assert await editor.command("reviser.continueHere", types.Position(0, 4)) == "done"
        assert editor.text.startswith(f"One.{FILL}\n\nBen")
        with pytest.raises(JsonRpcException, match="has no gap"):
            await editor.command("reviser.fillGap", gap)
        # Typing while it writes wins.
        work = asyncio.ensure_future(editor.command("reviser.continueHere", types.Position(4, 5)))
        seen = len(editor.applied)
        while len(editor.applied) == seen:
            await asyncio.sleep(0.005)
        editor.change(0, 0, "Typed. ")
        assert await work == "cancelled"
        assert FILL not in editor.text.rpartition("\n\n")[2]
        editor.refuses = True
        assert await editor.command("reviser.continueHere", types.Position(0, 0)) == "refused"

    with_editor(work, project / "page.md", REVISER_TEST_SECONDS="0.05")


def test_a_newer_version_cancels_the_check_of_an_older_one(project: Path) -> None:
    log = project / "log"

    async def work(editor: Editor) -> None:
        long = "Word " * 20 + "teh end.\n\n"
        await editor.open("".join(f"{n} {long}" for n in range(30)))
        while not log.exists() or len(given_texts(log)) < 2:
            await asyncio.sleep(0.01)
        start = time.monotonic()
        editor.change(0, len(editor.text), "Only teh text.")
        await editor.until(lambda it: it.marked() == ["teh"])
        assert time.monotonic() - start < 10
        read = len(given_texts(log))
        await asyncio.sleep(3)
        assert len(given_texts(log)) == read < 29  # the other paragraphs are never read

    with_editor(work, project / "a.md", REVISER_TEST_LOG=str(log), REVISER_TEST_SECONDS="0.05")


def test_the_paragraph_that_was_changed_is_checked_before_the_rest(project: Path) -> None:
    log = project / "log"

    async def work(editor: Editor) -> None:
        # It is changed at its end, where the next paragraph's start is nearer than its own.
        more = " With more words." * 10
        await editor.open("".join(f"{n} Word teh end.{more}\n\n" for n in range(40)))
        while not log.exists() or len(given_texts(log)) < 2:
            await asyncio.sleep(0.01)
        end = editor.text.index("\n\n31 Word")
        editor.change(end, end, " New")
        version = editor.version
        await editor.until(lambda it: it.shown_version == version)
        seen = len(given_texts(log))
        line = editor.text[:end].count("\n")
        await editor.until(lambda it: line in {each.range.start.line for each in it.diagnostics})
        # The paragraph that the model was reading may come before it.
        assert f"30 Word teh end.{more} New" in given_texts(log)[seen - 1 : seen + 2]

    with_editor(work, project / "a.md", REVISER_TEST_LOG=str(log), REVISER_TEST_SECONDS="0.05")


def test_many_new_suggestions_do_not_need_many_messages(project: Path) -> None:
    async def work(editor: Editor) -> None:
        await editor.open("".join(f"{n} Word teh end.\n\n" for n in range(200)))
        await editor.until(lambda it: len(it.diagnostics) == 200)
        assert editor.shown_count < 100

    with_editor(work, project / "a.md")


def test_bad_requests_and_settings_do_not_end_the_server(project: Path) -> None:
    async def work(editor: Editor) -> None:
        with pytest.raises(JsonRpcException):
            await editor.command("reviser.nothing")
        with pytest.raises(JsonRpcException, match="is not open"):
            await editor.command("reviser.addWord", "x")
        with pytest.raises(JsonRpcException):
            await editor.command("reviser.fillGap", "not a position")
        (project / ".reviser.toml").write_text("wrods = []\n")
        await editor.open("teh end")
        await editor.until(lambda it: bool(it.messages))
        assert "`wrods`" in editor.messages[0]
        assert "Did you mean `words`?" in editor.messages[0]
        (project / ".reviser.toml").write_text("delay = 0.0\n")
        editor.change(0, 0, "It is ")
        await editor.until(lambda it: bool(it.diagnostics))

    with_editor(work, project / "page.md")


def test_the_editor_s_settings_count_where_the_project_has_none(project: Path) -> None:
    async def work(editor: Editor) -> None:
        await editor.open("It is teh end, and teh rest.\n\nThis is teh last.")
        await editor.until(lambda it: it.shown_version == 1)
        await asyncio.sleep(1)
        assert editor.diagnostics == []  # "teh" is in the editor's dictionary
        (project / ".reviser.toml").write_text("words = []\n")
        editor.change(0, 0, "So ")
        await editor.until(lambda it: len(it.diagnostics) == 3)
        assert editor.messages == []

    options = {"words": ["teh"], "delay": 0.05}
    with_editor(work, project / "page.md", options=options)

    async def refused(editor: Editor) -> None:
        await editor.until(lambda it: bool(it.messages))
        assert "`wrods` in the editor's settings is not a setting" in editor.messages[0]

    with_editor(refused, project / "page.md", options={"wrods": []})


def test_the_editor_never_waits_for_the_model_and_typing_while_it_loads_stops_a_command(
    project: Path,
) -> None:
    async def work(editor: Editor) -> None:
        await editor.open("Hi {} it is teh end.")
        start = time.monotonic()
        assert await editor.actions() == []
        asked = asyncio.ensure_future(editor.command("reviser.fillGap", types.Position(0, 3)))
        await asyncio.sleep(0.2)
        editor.change(0, 0, "Oh. ")
        assert time.monotonic() - start < 2
        assert await asked == "cancelled"
        assert editor.text == "Oh. Hi {} it is teh end."
        await editor.until(lambda it: bool(it.diagnostics))

    with_editor(work, project / "page.md", REVISER_TEST_LOADING="3")


@pytest.mark.parametrize("kind", ["hostile", "long"])
def test_a_document_that_is_hostile_or_too_long_holds_up_nothing(project: Path, kind: str) -> None:
    texts = {"hostile": "*a " * 40_000, "long": "It is teh end.\n\n" * 300_000}

    async def work(editor: Editor) -> None:
        other = (project / "other.md").as_uri()
        await editor.open("It is teh end.\n")
        await editor.until(lambda it: len(it.diagnostics) == 1)
        item = types.TextDocumentItem(other, "markdown", 1, texts[kind])
        editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        longest, started = 0.0, time.monotonic()
        while time.monotonic() - started < 2:
            asked = time.monotonic()
            await editor.actions()
            longest = max(longest, time.monotonic() - asked)
            await asyncio.sleep(0.02)
        assert longest < 3
        editor.change(0, 0, "So teh ")
        await editor.until(lambda it: it.shown_version == 2 and len(it.diagnostics) == 2)
        wanted = [] if kind == "hostile" else [
            "Reviser: 'other.md' has more than 1,000,000 characters, so it is not checked."
            " Split it, or add it to `ignore-files`."
        ]  # fmt: skip
        assert editor.messages == wanted
        ends.append(time.monotonic())

    ends = list[float]()
    with_editor(work, project / "page.md", seconds=100)
    assert time.monotonic() - ends[0] < 10  # it ended when it was asked to


def test_a_text_without_spaces_is_continued_from_its_last_characters(project: Path) -> None:
    log, text = project / "log", "\u4e2d" * 2990 + " " + "\u4e2d" * 9

    async def work(editor: Editor) -> None:
        await editor.open(text)
        await editor.command("reviser.continueHere", types.Position(0, len(text)))
        assert editor.text == text + FILL
        assert text[-PROMPT:] in given_texts(log)

    (project / ".reviser.toml").write_text('ignore-files = ["*.md"]\n')
    with_editor(work, project / "page.md", REVISER_TEST_LOG=str(log))


def test_a_prompt_starts_at_a_word_or_a_whole_character() -> None:
    text = "word " * 1000
    assert prompt_start(text, len(text)) == len(text) - PROMPT + 4
    assert prompt_start("short text", 10) == 0
    text = "e\u0301" * 2000
    assert prompt_start(text, 3999) == 3999 - PROMPT + 1
    assert prompt_start("\u0301" * 4000, 4000) == 4000 - PROMPT + FIRST_WORD  # and not without end
    assert prompt_start("", 0) == 0


def test_the_command_without_a_model_says_what_to_do_and_ends_when_asked(project: Path) -> None:
    async def run() -> int | None:
        async with editing(project / "page.md", "reviser", "lsp") as editor:
            await editor.open("A text.")
            await editor.until(lambda it: bool(it.messages))
            assert "No model is set. Start the server with" in editor.messages[0]
        assert editor.client._server is not None
        return await editor.client._server.wait()

    assert asyncio.run(asyncio.wait_for(run(), 120)) == 0


def test_a_model_that_cannot_be_opened_is_reported(project: Path) -> None:
    async def work(editor: Editor) -> None:
        await editor.until(lambda it: bool(it.messages))
        assert editor.messages[0] == "Reviser: There is no model folder 'missing'."

    with_editor(work, project / "page.md", "missing")


def test_a_model_that_could_not_be_opened_is_tried_again(project: Path) -> None:
    failures = [ConfigError("The hub cannot be reached."), RuntimeError("Out of memory.")]

    def load(*_: object) -> Reviser:
        if failures:
            raise failures.pop(0)
        return correcting.reviser()

    async def ask() -> None:
        server, settings = make_server(load, "mine"), find_settings(project / "page.md")
        for message in ("cannot be reached", "Out of memory"):
            with pytest.raises(Exception, match=message):
                await server.checker(settings)
        assert (await server.checker(settings)).model is not None

    asyncio.run(ask())


SCRIPT = """
local client = vim.lsp.start_client({
  name = "reviser", cmd = {PYTHON, "-m", "support.correcting"}, root_dir = vim.fn.getcwd(),
})
vim.cmd("edit page.md")
vim.lsp.buf_attach_client(0, client)
vim.wait(60000, function() return #vim.diagnostic.get(0) == 2 end, 50)
for _, each in ipairs(vim.diagnostic.get(0)) do
  print(each.lnum .. ":" .. each.col .. " " .. each.message)
end
local params = {
  textDocument = vim.lsp.util.make_text_document_params(),
  range = {start = {line = 0, character = 0}, ["end"] = {line = 9, character = 0}},
  context = {diagnostics = {}, only = {"source.fixAll"}},
}
for _, found in pairs(vim.lsp.buf_request_sync(0, "textDocument/codeAction", params, 20000)) do
  vim.lsp.util.apply_workspace_edit(found.result[1].edit, "utf-16")
end
vim.cmd("write")
vim.cmd("qall!")
"""


def test_neovim_shows_suggestions_and_fixes_them(project: Path) -> None:
    if shutil.which("nvim") is None:
        missing("Neovim is not installed.")
    (project / "page.md").write_text(PAGE)
    script = project / "test.lua"
    script.write_text(SCRIPT.replace("PYTHON", json.dumps(sys.executable)))
    path_of_modules = os.pathsep.join(filter(None, [str(TESTS), *sys.path]))
    shown = subprocess.run(
        ["nvim", "--headless", "-u", "NONE", "-n", "-c", f"luafile {script}"],
        cwd=project, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": path_of_modules, "HOME": str(project)},
    )  # fmt: skip
    assert "2:" in shown.stderr, shown.stderr
    wanted = PAGE.replace("is teh", "is the").replace("and teh", "and the")
    assert (project / "page.md").read_text() == wanted


# -- parts --------------------------------------------------------------------------------------


@given(st.text("a😀é\u2028\x0b\r\n", max_size=12), st.sampled_from(["utf-8", "utf-16", "utf-32"]))
def test_positions_lead_back_to_their_offsets(text: str, encoding: str) -> None:
    positions = Positions(text, encoding)
    for offset in range(len(text) + 1):
        if text[offset - 1 : offset + 1] != "\r\n":
            assert positions.offset(positions.position(offset)) == offset


def test_positions_count_the_units_of_the_protocol() -> None:
    positions = Positions("a\u2028😀b\r\nc", "utf-16")
    assert positions.position(4) == (0, 5)
    assert positions.position(6) == (1, 0)
    assert positions.offset(types.Position(0, 99)) == 4  # beyond the line is its end
    assert positions.offset(types.Position(9, 0)) == 7


def test_changes_are_applied_one_after_the_other() -> None:
    def part(start: int, end: int, text: str) -> types.TextDocumentContentChangePartial:
        span = types.Range(types.Position(0, start), types.Position(0, end))
        return types.TextDocumentContentChangePartial(span, text)

    lines, at = apply_changes(Positions("😀 cat"), [part(3, 6, "dog"), part(6, 6, "!")])
    assert (lines.text, at) == ("😀 dog!", 5)
    lines, at = apply_changes(lines, [types.TextDocumentContentChangeWholeDocument("new")])
    assert (lines.text, at) == ("new", 0)


def test_paragraphs_have_their_own_locks_and_words() -> None:
    text = "One word.\nTwo.\n\n  \n----\r\n\r\nThree Reviser, Revisers."
    found = paragraphs(text, [(0, 3), (19, 23), (27, 32)], ["Reviser"])
    assert [(each.text, each.locked) for each in found] == [
        ("One word.\nTwo.", ((0, 3),)),
        ("Three Reviser, Revisers.", ((0, 5), (6, 13))),
    ]
    assert all(text.startswith(each.text, each.start) for each in found)


BLOCKS = [
    "word", "Text here.\n\n", " ", "\n", "\n\n", "\r\n\r\n", "- a\n\n", "1. b\n", "> ", "    ",
    "```\n", "~~~\n", "---\n", "+++\n", "===\n", "# Head\n", "<div>\n", "</div>\n", "<!--", "-->",
    "<script>", "| a | b |\n|---|---|\n", "[a]: b\n", "[^1]: c\n", "$$\n", "`", "*", "!!! note\n\n",
    "http://a.b", "é", "😀", "\0", "\u2028", "\x0c", "\\", "\t",
]  # fmt: skip
texts = st.lists(st.sampled_from(BLOCKS), max_size=40).map("".join)


edits = st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0, 0, 1, 9]), texts), max_size=4)


@given(texts, edits, st.sampled_from(["a.md", "a.txt", "a.rst"]))
@example("---\n\nOne.\n\nTwo.\n", [(1.0, 0, "\n---\n")], "a.md")  # closes the front matter
@example("One.\n\nTwo.\n\n---\n\nThree.\n\n---\n", [(0.6, 0, "x")], "a.md")  # it has none
@example("One.\n\n---\na: b\n---\n\nTwo.\n", [(0.0, 6, "")], "a.md")  # now it has front matter
@example("---\na: b\n---\n\nTwo.\n", [(0.0, 0, "One.\n\n")], "a.md")  # and now it has none
@example("One //a.b\n\nTwo.\n\nThree: it.\n", [(0.1, 0, "x")], "a.txt")
def test_parsing_what_changed_gives_what_parsing_all_gives(
    text: str, edits: list[tuple[float, int, str]], name: str
) -> None:
    path, words = Path(name), ("here",)
    known = parse(text, path, words, is_start=True)
    for part, removed, inserted in edits:
        start = round(part * len(text))
        text = text[:start] + inserted + text[start + removed :]
        known = parse_again(text, path, words, known)
        assert "".join(each.text for each in known) == text
        # The slow reference knows no segments.
        wanted = paragraphs(text, locked_spans(text, format_of(path), path), words)
        assert [replace(each, start=start) for start, each in placed(known)] == wanted


@pytest.mark.parametrize("name", ["a.md", "a.txt"])
def test_parsing_again_reads_only_what_changed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(name)
    text = "---\ntitle: A\n---\n\n" + "".join(
        f"# Head {n}\n\nText {n} with `code`.\n\n- one\n\n- two\n\n```\n\ncode\n```\n\n"
        for n in range(200)
    )
    known = parse(text, path, (), is_start=True)
    read = list[int]()

    def counting(part: str, *args: Any, **more: Any) -> list[Segment]:
        read.append(len(part))
        return parse(part, *args, **more)

    monkeypatch.setattr(documents, "parse", counting)
    for place in ("title: A", "Text 0 ", "Text 100 ", "Text 199 "):
        text = text.replace(place, place + "x")
        known = parse_again(text, path, (), known)
    assert sum(read) < len(text) / 10
    # What a new fence changes is read: everything from there on.
    read.clear()
    known = parse_again(text.replace("Text 100 ", "```\nText 100 "), path, (), known)
    assert name != "a.md" or sum(read) > len(text) / 2


def test_settings_come_from_the_nearest_folder(tmp_path: Path) -> None:
    inner = tmp_path / "docs" / "sub"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.reviser]\nmodel = "m"\nwords = ["teh"]\nignore-files = ["docs/old*", "LOG.md"]\n'
    )
    settings = find_settings(inner / "a.md")
    assert (settings.model, settings.words, settings.root) == ("m", ("teh",), tmp_path)
    assert settings.ignores(tmp_path / "docs" / "old.md")
    assert settings.ignores(inner / "LOG.md")
    assert not settings.ignores(inner / "a.md")
    (inner / ".reviser.toml").write_text("precision = 0.9\n")
    assert find_settings(inner / "a.md").precision == 0.9
    assert find_settings(tmp_path.parent / "none.md") == Settings()


OWN, SHARED = ".reviser.toml", "pyproject.toml"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (OWN, "wrods = []", "Did you mean `words`"),
        (OWN, "words = 3", "must be a list of texts"),
        (OWN, "model = 3", "must be a text"),
        (OWN, "delay = true", "must be a number"),
        (OWN, "delay = 1" + 400 * "0", "must be a number"),
        (OWN, "delay = 1" + 5000 * "0", "Cannot read the settings"),
        (OWN, "words = " + 100_000 * "[", "Cannot read the settings"),
        (OWN, "precision = 2", "from 0 to 1"),
        (OWN, "x = ", "Cannot read the settings"),
        (SHARED, "tool = 1", "^`tool` in .* must be a table"),
        (SHARED, "tool = []", "^`tool` in .* must be a table"),
        (SHARED, "tool.reviser = 3", "^`tool.reviser` in .* must be a table"),
        (SHARED, "[[tool.reviser]]\nwords = []", "^`tool.reviser` in .* must be a table"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, file: str, content: str, message: str) -> None:
    (tmp_path / file).write_text(content)
    with pytest.raises(ConfigError, match=message):
        find_settings(tmp_path / "a.md")


def test_settings_are_read_from_regular_files_only(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".reviser.toml")
    (tmp_path / "pyproject.toml").symlink_to("/dev/zero")
    for folder in ("a", "a" * 5000, "a\0"):
        assert find_settings(tmp_path / folder / "a.md") == Settings()


def a_change(text: str, before: str, after: str, confidence: float | None = None) -> Change:
    start = text.index(before)
    return Change(
        start=start, end=start + len(before), before=before, after=after, logprob=-2.0, actions=2,
        confidence=confidence,
    )  # fmt: skip


def test_suggestions_are_shown_as_whole_words_and_applied_as_they_are() -> None:
    text = "It is teh end"
    change = a_change(text, "eh", "he")
    positions = Positions(text)
    [fix, *_] = actions_for("u", [change], positions, (6, 6), ["quickfix"])  # before the word
    assert fix.title == "Replace “teh” with “the”"
    assert fix.edit == types.WorkspaceEdit(
        changes={"u": [types.TextEdit(positions.range(7, 9), "he")]}
    )
    assert actions_for("u", [change], positions, (0, 5), ["quickfix"]) == []
    assert actions_for("u", [change], positions, (6, 6), ["refactor"]) == []
    assert title_of(text, a_change(text, " teh", "")) == "Delete “teh”"
    assert title_of(text, a_change(text, "", ",")) == "Replace “It” with “,It”"


def test_the_severity_follows_the_confidence() -> None:
    text = "It is teh end"
    found = [
        diagnostic_of(Positions(text), a_change(text, "teh", "the", confidence)).severity
        for confidence in (0.9, 0.6, 0.2, None)  # None: exp(-1) for each action
    ]
    kinds = types.DiagnosticSeverity
    assert found == [kinds.Warning, kinds.Information, kinds.Hint, kinds.Hint]
