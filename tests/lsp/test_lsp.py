"""The language server, with a real client over stdio, two rules and a judge without weights."""

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
    Positions,
    Segment,
    apply_changes,
    paragraphs,
    parse,
    parse_again,
    placed,
)
from reviser.lsp.server import make_server
from reviser.lsp.suggestions import actions_for, diagnostic_of
from reviser.markup import format_of, locked_spans
from reviser.model import Reviser
from reviser.proofread.settings import find_settings
from reviser.proofread.shown import title_of
from reviser.writing.changes import Change
from support import judging
from support.browsers import missing
from support.language_client import Editor, with_editor

TESTS = Path(__file__).parents[1]
PAGE = "# A page\n\n😀 It is teh end.\n\n```\nteh code\n```\n\nSee `teh` and teh rest.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".reviser.toml").write_text("delay = 0.05\n")
    return tmp_path


def given_texts(log: Path) -> list[str]:
    """The texts that the judge read, each once: it is asked twice about each."""
    return [*dict.fromkeys(json.loads(line).strip() for line in log.read_text().splitlines())]


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
        assert (first.message, first.code) == (
            "Replace “teh” with “the”\nspelling: It is spelt “the”. (88%)", "misspelling",
        )  # fmt: skip
        # A paragraph without any suggestion needs no judge.
        assert sorted(given_texts(log)) == sorted(["😀 It is teh end.", "See `teh` and teh rest."])
        # Another paragraph is typed before them: the model is asked about this one alone.
        log.write_text("")
        editor.change(0, 0, "New teh text.\n\n")
        await editor.until(lambda it: len(it.diagnostics) == 3)
        assert given_texts(log) == ["New teh text."]
        # Quick fixes for each suggestion, and one for all of them.
        fixes = [each for each in await editor.actions(["quickfix"]) if each.edit]
        titles = ["Replace “teh” with “the”", "Replace “teh” with “ten”"]
        assert [each.title for each in fixes] == titles * 3
        assert [each.is_preferred for each in fixes] == [True, False] * 3
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


def test_words_are_added_to_the_dictionary_and_rules_are_ignored(project: Path) -> None:
    settings = project / ".reviser.toml"

    async def work(editor: Editor) -> None:
        await editor.open("It is teh end of a apple.\n")
        await editor.until(lambda it: len(it.diagnostics) == 2)
        await editor.actions()
        assert editor.titles == [
            "Replace “teh” with “the”", "Replace “teh” with “ten”",
            "Add “teh” to the dictionary", "Ignore the rule “misspelling” here",
            "Replace “a” with “an”", "Add “a” to the dictionary", "Ignore the rule “a-an” here",
            "Reviser: accept all suggestions",
        ]  # fmt: skip
        await editor.command("reviser.ignoreRule", "a-an")
        await editor.until(lambda it: it.marked() == ["teh"])
        assert settings.read_text() == 'ignore = ["a-an"]\ndelay = 0.05\n'
        await editor.command("reviser.addWord", "teh")
        await editor.until(lambda it: not it.diagnostics)
        assert (project / "config" / "reviser" / "words.txt").read_text() == "teh\n"
        settings.write_text("ignore = [\n")
        with pytest.raises(JsonRpcException, match="Cannot read the settings"):
            await editor.command("reviser.ignoreRule", "doubled")

    with_editor(work, project / "page.md")


def test_what_is_sure_is_shown_before_the_judge_is_loaded_and_progress_is_reported(
    project: Path,
) -> None:
    async def work(editor: Editor) -> None:
        start = time.monotonic()
        await editor.open("It is a end.\n\nAnd teh rest.\n")
        await editor.until(lambda it: it.marked() == ["a"])
        assert time.monotonic() - start < 3
        await editor.until(lambda it: it.marked() == ["a", "teh"])
        await editor.until(lambda it: len(it.progress) >= 3)
        shown = [(each["kind"], each.get("message")) for each in map(_as_dict, editor.progress)]
        assert shown[0] == ("begin", "0 of 7 words")
        assert shown[-2:] == [("report", "7 of 7 words"), ("end", None)]

    with_editor(work, project / "page.md", REVISER_TEST_LOADING="5")


def _as_dict(value: Any) -> dict[str, Any]:
    """Return a value of `$/progress`, which the client's library may leave as it came."""
    if isinstance(value, dict):
        return value
    names = ("kind", "message", "percentage")
    return {name: getattr(value, name, None) for name in names}


def test_without_a_judge_at_hand_only_what_is_sure_is_shown(project: Path) -> None:
    async def work(editor: Editor) -> None:
        await editor.open("It is a end.\n\nAnd teh rest.\n")
        await editor.until(lambda it: bool(it.messages))
        assert editor.messages[0].startswith("Reviser: Only sure corrections are shown, because")
        assert editor.marked() == ["a"]

    name = "HuggingFaceTB/SmolLM2-135M-Instruct"
    with_editor(work, project / "page.md", REVISER_TEST_MISSING=name)


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


def test_the_editor_never_waits_for_the_model(project: Path) -> None:
    async def work(editor: Editor) -> None:
        await editor.open("Hi, it is teh end.")
        start = time.monotonic()
        assert await editor.actions() == []
        editor.change(0, 0, "Oh. ")
        assert await editor.actions() == []
        assert time.monotonic() - start < 2
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


def test_a_judge_that_cannot_be_opened_is_reported(project: Path) -> None:
    async def work(editor: Editor) -> None:
        await editor.open("Teh a end.")
        await editor.until(lambda it: bool(it.messages))
        assert editor.messages[0] == "Reviser: There is no folder 'missing'."
        assert editor.marked() == ["a"]

    with_editor(work, project / "page.md", "--judge", "missing")


def test_a_judge_that_could_not_be_opened_is_tried_again(project: Path) -> None:
    failures = [ConfigError("The hub cannot be reached."), RuntimeError("Out of memory.")]

    def open_model(*_: object) -> Reviser:
        if failures:
            raise failures.pop(0)
        return judging.reviser_of()

    async def ask() -> None:
        server, settings = make_server(open_model), find_settings(project / "page.md")
        for message in ("cannot be reached", "Out of memory"):
            with pytest.raises(Exception, match=message):
                await server.model(settings)
        assert (await server.model(settings)).proofreading is not None

    asyncio.run(ask())


SCRIPT = """
local client = vim.lsp.start_client({
  name = "reviser", cmd = {PYTHON, "-m", "support.judging", "lsp"}, root_dir = vim.fn.getcwd(),
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


def test_paragraphs_have_their_own_locks() -> None:
    text = "One word.\nTwo.\n\n  \n----\r\n\r\nThree Reviser, Revisers."
    found = paragraphs(text, [(0, 3), (19, 23), (27, 32)])
    assert [(each.text, each.locked) for each in found] == [
        ("One word.\nTwo.", ((0, 3),)),
        ("Three Reviser, Revisers.", ((0, 5),)),
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
    path = Path(name)
    known = parse(text, path, is_start=True)
    for part, removed, inserted in edits:
        start = round(part * len(text))
        text = text[:start] + inserted + text[start + removed :]
        known = parse_again(text, path, known)
        assert "".join(each.text for each in known) == text
        # The slow reference knows no segments.
        wanted = paragraphs(text, locked_spans(text, format_of(path), path))
        assert [replace(each, start=start) for start, each in placed(known)] == wanted


@pytest.mark.parametrize("name", ["a.md", "a.txt"])
def test_parsing_again_reads_only_what_changed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(name)
    text = "---\ntitle: A\n---\n\n" + "".join(
        f"# Head {n}\n\nText {n} with `code`.\n\n- one\n\n- two\n\n```\n\ncode\n```\n\n"
        for n in range(200)
    )
    known = parse(text, path, is_start=True)
    read = list[int]()

    def counting(part: str, *args: Any, **more: Any) -> list[Segment]:
        read.append(len(part))
        return parse(part, *args, **more)

    monkeypatch.setattr(documents, "parse", counting)
    for place in ("title: A", "Text 0 ", "Text 100 ", "Text 199 "):
        text = text.replace(place, place + "x")
        known = parse_again(text, path, known)
    assert sum(read) < len(text) / 10
    # What a new fence changes is read: everything from there on.
    read.clear()
    known = parse_again(text.replace("Text 100 ", "```\nText 100 "), path, known)
    assert name != "a.md" or sum(read) > len(text) / 2


def a_change(text: str, before: str, after: str, confidence: float | None = None) -> Change:
    start = text.index(before)
    return Change(
        start=start, end=start + len(before), before=before, after=after, logprob=-2.0, actions=2,
        confidence=confidence,
    )  # fmt: skip


def only_its_own(change: Change) -> list[str]:
    return [change.after]


def test_suggestions_are_shown_as_whole_words_and_applied_as_they_are() -> None:
    text = "It is teh end"
    change = a_change(text, "eh", "he")
    positions = Positions(text)
    [fix, *_] = actions_for("u", [change], positions, (6, 6), ["quickfix"], only_its_own)
    assert fix.title == "Replace “teh” with “the”"
    assert fix.edit == types.WorkspaceEdit(
        changes={"u": [types.TextEdit(positions.range(7, 9), "he")]}
    )
    assert actions_for("u", [change], positions, (0, 5), ["quickfix"], only_its_own) == []
    assert actions_for("u", [change], positions, (6, 6), ["refactor"], only_its_own) == []
    assert title_of(text, a_change(text, " teh", "")) == "Delete “teh”"
    assert title_of("end .", a_change("end .", " ", "")) == "Replace “end .” with “end.”"
    assert title_of(text, a_change(text, "", ",")) == "Replace “It” with “,It”"


def test_the_severity_follows_the_confidence() -> None:
    text = "It is teh end"
    found = [
        diagnostic_of(Positions(text), a_change(text, "teh", "the", confidence)).severity
        for confidence in (0.9, 0.6, 0.2, None)
    ]
    kinds = types.DiagnosticSeverity
    assert found == [kinds.Warning, kinds.Information, kinds.Hint, kinds.Hint]
