"""Edits by a chat model, with a real server on this machine that gives scripted answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import reviser
from reviser.chat.answers import edits_in
from reviser.editor import Editor
from reviser.errors import ConfigError, EngineError
from reviser.writing.driver import Run
from reviser.writing.rollout import Revision
from reviser.writing.tasks import Continue, Revise
from support import chatting
from support.chatting import ChatScript, answer, completion, edit, names_of, replacing, units_of

DRAFT = "Ann ran. Bob ran. Cid ran.\n\nDan ran.\n\n- Eve\n- Fay"


@pytest.fixture
def chat() -> Iterator[ChatScript]:
    with chatting.chat_server() as served:
        yield served


@pytest.fixture
def editor(chat: ChatScript, monkeypatch: pytest.MonkeyPatch) -> Iterator[Editor]:
    monkeypatch.setattr("reviser.engines.chat_server.FIRST_PAUSE", 0.01)
    with Editor(chat.url, "small", retries=2, window=400, context=100) as opened:
        yield opened


def edited(chat: ChatScript, editor: Editor, *edits: Any, draft: str = DRAFT, **more: Any) -> Any:
    """The result of some edits, whose anchors are numbers of units."""

    def script(body: chatting.Body) -> chatting.Response:
        names = [*units_of(body)]
        return answer(*(edit(names[n], *rest) for n, *rest in edits))

    chat.script = script
    return editor.edit(draft, "Change it.", **more)


# -- what is sent ---------------------------------------------------------------------------------


def test_the_draft_goes_as_anchored_sentences_under_a_schema(
    chat: ChatScript, editor: Editor
) -> None:
    editor.edit("One s1. Two.\n\nThe third sentence, which is wrapped over two lines,\nends. Four.",
                " Shorten. ", lock=["Two."])  # fmt: skip
    [body] = chat.bodies
    assert body["messages"][1]["content"] == (
        "Instruction: Shorten.\n\n[u1] One s1.\n[-] Two.\n\n"
        "[u3] The third sentence, which is wrapped over two lines, ends.\n[u4] Four."
    )
    assert names_of(body) == ["u1", "u3", "u4"]
    assert (body["model"], body["temperature"]) == ("small", 0)
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["strict"] is True


def test_code_goes_in_lines_and_only_what_is_near_a_comment(
    chat: ChatScript, editor: Editor
) -> None:
    code = "\n".join(["# A coment.", *(f"x{n} = {n}" for n in range(200)), "y = 1  # Too.", ""])
    chat.script = replacing("coment", "comment")
    result = editor.edit(code, "Correct the comments.", markup="auto", name="a.py")
    assert result.text == code.replace("coment", "comment")
    sent = [body["messages"][1]["content"] for body in chat.bodies]
    assert len(sent) == 2
    assert "x100" not in "".join(sent)
    assert "[-] x0 = 0" in sent[0]
    assert "[s202] y = 1  # Too." in sent[1]


def test_settings_are_added_to_requests_and_none_leaves_a_field_out(chat: ChatScript) -> None:
    with Editor(chat.url, "m", seed=3, temperature=None) as editor:
        editor.edit("A.", "B.")
    assert chat.bodies[0]["seed"] == 3
    assert "temperature" not in chat.bodies[0]


def test_nothing_is_sent_when_nothing_may_change(chat: ChatScript, editor: Editor) -> None:
    for draft in ("", " \n", "All locked."):
        assert editor.edit(draft, "Go.", lock=[(0, len(draft))]).text == draft
    assert chat.bodies == []


# -- what comes back ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ([(0, "replace", "Ann walked.")], DRAFT.replace("Ann ran", "Ann walked")),
        ([(0, "replace", "[s1] Ann walked.")], DRAFT.replace("Ann ran", "Ann walked")),
        ([(0, "delete")], DRAFT.removeprefix("Ann ran. ")),
        ([(1, "delete", "ignored")], DRAFT.replace(" Bob ran.", "")),
        ([(2, "delete")], DRAFT.replace(" Cid ran.", "")),
        ([(1, "delete"), (2, "delete")], DRAFT.replace(" Bob ran. Cid ran.", "")),
        ([(3, "delete")], DRAFT.replace("Dan ran.\n\n", "")),
        ([(5, "delete")], DRAFT.removesuffix("\n- Fay")),
        ([(n, "delete") for n in range(6)], ""),
        ([(2, "insert_after", " New. ")], DRAFT.replace("Cid ran.", "Cid ran. New.")),
        ([(0, "insert_before", "New.")], "New. " + DRAFT),
        ([(3, "insert_after", "New.")], DRAFT.replace("Dan ran.", "Dan ran. New.")),
        ([(3, "insert_after", "\n\nNew.")], DRAFT.replace("Dan ran.", "Dan ran.\n\nNew.")),
        ([(4, "insert_after", "- New")], DRAFT.replace("- Eve", "- Eve\n- New")),
        ([(4, "insert_before", "- New")], DRAFT.replace("- Eve", "- New\n- Eve")),
        ([(0, "insert_after", "Z."), (0, "insert_after", "A.")], "Ann ran. Z. A." + DRAFT[8:]),
        ([(0, "replace", "Al."), (0, "insert_after", "New.")], "Al. New." + DRAFT[8:]),
        ([(0, "replace", "Ann ran.")], DRAFT),
    ],
)
def test_edits_are_applied(chat: ChatScript, editor: Editor, edits: Any, text: str) -> None:
    result = edited(chat, editor, *edits)
    assert (result.text, result.dropped, result.lost) == (text, (), ())


def test_changes_are_small_and_of_every_kind_of_result(chat: ChatScript, editor: Editor) -> None:
    result = edited(chat, editor, (1, "replace", "Bob has run."))
    assert [(c.before, c.after) for c in result.changes] == [("ran", "has run")]
    assert result.changes.criticmarkup().startswith("Ann ran. Bob {~~ran~>has run~~}.")
    saved = json.loads(result.to_json())
    assert (saved["requests"], saved["tokens_read"], saved["tokens_written"]) == (1, 100, 7)
    assert Revision.from_json(result.to_json()).changes == result.changes


def test_lines_of_code_keep_their_indentation_and_blank_lines(
    chat: ChatScript, editor: Editor
) -> None:
    draft = "if x:\r\n    y = 1\r\n\r\nz = 2\r\n"
    more = {"draft": draft, "markup": "none", "name": "a.py"}
    result = edited(chat, editor, (1, "replace", "    y = 3"), **more)
    assert result.text == draft.replace("1", "3")
    assert edited(chat, editor, (1, "delete"), **more).text == "if x:\r\n\r\nz = 2\r\n"
    result = edited(chat, editor, (1, "insert_after", "    t = 5"), **more)
    assert result.text == draft.replace("1\r\n", "1\r\n    t = 5\r\n")


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edits", "text", "reasons"),
    [
        ([(0, "replace", "Al walked.")], "Ann walked.", ["would change locked text: 'Ann'"]),
        ([(0, "delete")], "Ann ran.", ["would change locked text: 'Ann'"]),
        ([(0, "replace", "Ran Ann.")], "Ann ran.", ["locked", "locked"]),
        ([(0, "replace", " ")], "Ann ran.", ["no text"]),
        ([(0, "insert_after", "")], "Ann ran.", ["no text"]),
        ([(0, "replace", "Ann [s2] ran.")], "Ann ran.", ["holds an anchor"]),
        ([(0, "replace", "Ann\x00 ran.")], "Ann ran.", ["characters that no text has"]),
        ([(0, "replace", "Ann \ud800 ran.")], "Ann ran.", ["characters that no text has"]),
        ([(0, "replace", "Ann sat."), (0, "replace", "Ann lay.")], "Ann sat.", ["before it"]),
        ([(0, "explain", "Ann sat.")], "Ann ran.", ["not an edit"]),
        ([(0, "replace", 5)], "Ann ran.", ["not an edit"]),
    ],
)
def test_what_cannot_be_done_is_dropped_and_reported(
    chat: ChatScript, editor: Editor, edits: Any, text: str, reasons: list[str]
) -> None:
    result = edited(chat, editor, *edits, draft="Ann ran.", lock=["Ann"])
    found = [each.reason for each in result.dropped]
    assert result.text == text
    assert len(found) == len(reasons) or text == "Ann ran."
    assert all(word in reason for word, reason in zip(reasons, found, strict=False)), found


@pytest.mark.parametrize("item", [None, 3, "x", [], {}, {"anchor": "s1"}, {"anchor": [1], "do": []},
                                  edit("s9", text="New."), edit("s2", text="New.")])  # fmt: skip
def test_edits_with_other_anchors_are_dropped(chat: ChatScript, editor: Editor, item: Any) -> None:
    chat.script = lambda _: answer(item, edit("s1", text="Ann sat."))
    result = editor.edit("Ann ran. Bob ran.", "Go.", lock=["Bob ran."])
    assert result.text == "Ann sat. Bob ran."
    assert len(result.dropped) == 1


@pytest.mark.parametrize(
    ("content", "edits"),
    [
        ('```json\n{"edits": [1]}\n```', [1]),
        ('<think>{"edits": [1]}</think> {a} {"edits": [2]} {"edits": [3]}', [2]),
        ('{"answer": {"edits": [4]}}', [4]),
        ('{"edits": {}}', None),
        ('{"edits": [1', None),
        ("[]", None),
        ("", None),
        ("{" * 5000, None),
        ('{"a":' * 5000, None),
    ],
)
def test_an_answer_may_have_text_around_it(content: str, edits: Any) -> None:
    assert edits_in(content) == edits


def test_a_server_that_refuses_schemas_is_asked_without_one(
    chat: ChatScript, editor: Editor
) -> None:
    def script(body: chatting.Body) -> chatting.Response:
        if "response_format" in body:
            return 400, {}, '{"error": {"message": "response_format: json_schema is unknown"}}'
        return replacing("ran", "sat")(body)

    chat.script = script
    assert editor.edit("Ann ran.", "Go.").text == "Ann sat."
    assert editor.edit("Bob ran.", "Go.").text == "Bob sat."
    assert ["response_format" in body for body in chat.bodies] == [True, False, False]


# -- windows --------------------------------------------------------------------------------------

LONG = "\n\n".join(f"This is paragraph {n}. The color of it is red, and more." for n in range(60))


def test_long_drafts_go_in_windows_with_context(chat: ChatScript, editor: Editor) -> None:
    chat.script = replacing("color", "colour")
    seen: list[tuple[int, int]] = []
    result = editor.edit(LONG, "Go.", progress=lambda *each: seen.append(each))
    assert result.text == LONG.replace("color", "colour")
    assert len(result.changes) == 60
    names = [name for body in sorted(chat.bodies, key=lambda b: int(names_of(b)[0][1:]))
             for name in names_of(body)]  # fmt: skip
    assert names == [f"s{n}" for n in range(1, 121)]
    assert all(len(body["messages"][1]["content"]) < 900 for body in chat.bodies)
    middle = next(body for body in chat.bodies if "s60" in names_of(body))
    lines = middle["messages"][1]["content"].split("\n\n", 1)[1].splitlines()
    assert lines[0].startswith("[-] ")
    assert lines[-1].startswith("[-] ")
    assert seen[-1] == (len(chat.bodies), len(chat.bodies)) == (result.requests, result.requests)


def test_a_window_changes_no_unit_of_another(chat: ChatScript, editor: Editor) -> None:
    chat.script = lambda _: answer(edit("s60", text="New."))
    result = editor.edit(LONG, "Go.")
    assert [change.after for change in result.changes] == ["New"]
    reasons = [each.reason for each in result.dropped]
    assert reasons == ["Its anchor is none of those that may change."] * (result.requests - 1)


def test_few_requests_are_under_way_at_a_time(chat: ChatScript) -> None:
    def script(_: chatting.Body) -> chatting.Response:
        end = time.monotonic() + 20
        while len(chat.bodies) < 3 and time.monotonic() < end:  # the first three come together
            time.sleep(0.001)
        time.sleep(0.02)
        return answer()

    chat.script = script
    with Editor(chat.url, "m", window=100, parallel=3) as editor:
        editor.edit(LONG, "Go.")
    assert chat.most == 3


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (completion("I am sorry."), "not the JSON"),
        (completion('{"edits": [', finish="length"), "cut off"),
        (completion('{"edits": []}', finish="length"), "cut off"),
        (completion(None), "no answer"),
        ((200, {}, "<html>"), "not a chat completion"),
        ((200, {}, '{"choices": []}'), "not a chat completion"),
        ((200, {}, '{"choices": [{"message": 3}], "usage": []}'), "not a chat completion"),
        ((400, {}, "too long"), "refused with status 400: too long"),
        ((503, {}, "busy"), "refused with status 503: busy"),
        ((0, {}, ""), "did not answer"),
    ],
)
def test_a_broken_answer_costs_its_window_and_is_reported(
    chat: ChatScript, editor: Editor, broken: chatting.Response, reason: str
) -> None:
    good = replacing("color", "colour")
    chat.script = lambda body: broken if "s60" in names_of(body) else good(body)
    result = editor.edit(LONG, "Go.")
    [lost] = result.lost
    assert reason in lost.reason
    inside = LONG[lost.start : lost.end]
    assert result.text == LONG.replace("color", "colour").replace(
        inside.replace("color", "colour"), inside
    )
    assert inside.count("color") in range(1, 10)


def test_if_nothing_is_answered_that_is_an_error(chat: ChatScript, editor: Editor) -> None:
    chat.script = lambda _: (500, {}, "out of memory")
    with pytest.raises(EngineError, match=r"edited nothing: .* status 500: out of memory"):
        editor.edit(LONG, "Go.")


# -- the server -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 408, 409, 425, 429, 500, 502, 503])
def test_a_request_is_sent_again_after_a_failure_that_may_pass(
    chat: ChatScript, editor: Editor, status: int
) -> None:
    good = replacing("ran", "sat")
    chat.script = lambda body: (status, {}, "") if len(chat.bodies) < 3 else good(body)
    assert editor.edit("Ann ran.", "Go.").text == "Ann sat."
    assert len(chat.bodies) == 3


def test_it_waits_as_long_as_the_server_asks(chat: ChatScript, editor: Editor) -> None:
    times: list[float] = []

    def script(_: chatting.Body) -> chatting.Response:
        times.append(time.monotonic())
        if len(times) == 1:
            return 429, {"Retry-After": "0.6"}, ""
        return 429 if len(times) == 2 else 200, {"Retry-After": "never"}, answer()[2]

    chat.script = script
    editor.edit("Ann ran.", "Go.")
    assert times[1] - times[0] >= 0.4
    assert len(times) == 3


def test_a_server_that_does_not_answer_in_time(chat: ChatScript) -> None:
    def slow(_: chatting.Body) -> chatting.Response:
        time.sleep(0.5)
        return answer()

    chat.script = slow
    with (
        Editor(chat.url, "m", timeout=0.1, retries=0) as editor,
        pytest.raises(EngineError, match=r"did not answer: \w+Timeout"),
    ):
        editor.edit("Ann ran.", "Go.")


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_of_every_request_ends_at_once(
    chat: ChatScript, editor: Editor, status: int
) -> None:
    chat.script = lambda _: (status, {}, "no")
    with pytest.raises(EngineError, match=rf"refused with status {status}: no\."):
        editor.edit("Ann ran.", "Go.")
    assert len(chat.bodies) == 1


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reviser.engines.chat_server.FIRST_PAUSE", 0.01)
    with (
        Editor("http://127.0.0.1:9/v1", "m", retries=1) as other,
        pytest.raises(EngineError, match=r"There is no server at http://127.0.0.1:9/v1: .*running"),
    ):
        other.edit("Ann ran.", "Go.")


@pytest.mark.parametrize(
    ("variables", "header"),
    [
        ({}, None),
        ({"OPENAI_API_KEY": "key-one"}, "Bearer key-one"),
        ({"OPENAI_API_KEY": "key-one", "REVISER_API_KEY": "key-two"}, "Bearer key-two"),
    ],
)
def test_the_key_comes_from_the_environment_and_is_never_shown(
    chat: ChatScript, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], header: str | None
) -> None:
    for name in ("OPENAI_API_KEY", "REVISER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    chat.script = lambda _: (401, {}, f"Wrong key: {header}")
    with Editor(chat.url, "m") as editor, pytest.raises(EngineError) as refused:
        editor.edit("Ann ran.", "Go.")
    assert chat.headers[0].get("authorization") == header
    assert "key-" not in str(refused.value)
    assert header is None or "Bearer ***" in str(refused.value)
    assert "REVISER_API_KEY" in str(refused.value)


def test_a_run_can_be_cancelled_and_keeps_what_is_done(
    chat: ChatScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reviser.chat.flow.GROUP", 4)
    good, seen, held = replacing("color", "colour"), threading.Event(), threading.Event()

    def script(body: chatting.Body) -> chatting.Response:
        if len(chat.bodies) > 4:  # those of the second group
            seen.set()
            held.wait(30)
        return good(body)

    chat.script = script
    with Editor(chat.url, "m", window=100, context=0, parallel=4) as editor:
        run = Run(editor.edits(Revise(LONG, instruction="Go.")), editor.driver)
        threading.Thread(target=lambda: seen.wait(30) and run.cancel()).start()
        result = run.wait()  # without the answers that are held back
        assert not held.is_set()
        held.set()
    assert result.stop_reason == "cancelled"
    assert result.requests == 4
    assert result.text == LONG.replace("color", "colour", result.text.count("colour"))
    assert 4 <= result.text.count("colour") <= 8


def test_many_drafts_run_side_by_side_and_each_has_its_own_error(
    chat: ChatScript, editor: Editor
) -> None:
    chat.script = replacing("ran", "sat")
    tasks = [Revise(f"Number {n} ran.", instruction="Go." if n % 3 else " ") for n in range(9)]
    results = [*editor.run_many(tasks, on_error="return")]
    assert [isinstance(each, ConfigError) for each in results] == [n % 3 == 0 for n in range(9)]
    assert results[4].text == "Number 4 sat."  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"url": "localhost:8000"}, "it must begin with http"),
        ({"parallel": 0}, "parallel is 0"),
        ({"window": 1.5}, "window is 1.5"),
        ({"context": -1}, "context is -1"),
        ({"retries": True}, "retries is True"),
        ({"timeout": 0}, "timeout is 0"),
    ],
)
def test_wrong_options_are_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        reviser.Editor(**({"url": "http://a/v1", "model": "m"} | values))


def test_wrong_tasks_are_refused(editor: Editor) -> None:
    with pytest.raises(ConfigError, match="The instruction is empty"):
        editor.edit("Ann ran.", "")
    with pytest.raises(ConfigError, match="does not occur in the draft"):
        editor.edit("Ann ran.", "Go.", lock=["Bob"])
    with pytest.raises(ConfigError, match="only edits drafts"):
        editor.run(Continue("Ann"))
    with pytest.raises(ConfigError, match="only edits drafts"):
        editor.stream(Revise("Ann"))
