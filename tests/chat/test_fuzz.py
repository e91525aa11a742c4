"""2,000 fuzzed answers: no crash, no locked byte changed, everything that is dropped reported."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import pytest

from reviser.chat.answers import VERBS, edits_in
from reviser.chat.flow import Edited
from reviser.editor import Editor
from reviser.writing.driver import run_many
from reviser.writing.tasks import Revise
from support import chatting
from support.chatting import Body, Response

ANSWERS = 2000
WORDS = ["The", "cat", "colour", "`code`", "runs", "to", "the", "[link](http://a.b)", "naïve",
         "日本。", "e.g.", "x1", "**bold**", "don't", "—", "🙂"]  # fmt: skip
JUNK = [
    "\n",
    "\n\n",
    "\r\n",
    "  ",
    "[s1]",
    "[u2] ",
    "\x00",
    "\ud800",
    "```",
    '"',
    "\\",
    "\u2028",
    "{",
]


def sentence(rng: Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 9))) + rng.choice([".", "!", "?", ""])


def draft_of(rng: Random) -> str:
    gaps = [" ", "  ", "\n", "\n\n", "\r\n", "\n- ", "\n    "]
    return "".join(sentence(rng) + rng.choice(gaps) for _ in range(rng.randint(1, 12)))


def locks_of(rng: Random, draft: str) -> list[tuple[int, int]]:
    """Spans of code and links, and some at random."""
    found = [match.span() for match in re.finditer(r"`code`|\]\(.*?\)|\n", draft)]
    for _ in range(rng.randint(0, 3)):
        start = rng.randrange(len(draft) + 1)
        found.append((start, min(len(draft), start + rng.randint(0, 12))))
    return found


def changed(rng: Random, text: str) -> str:
    """A sentence as a model may write it again."""
    words = re.split(r"(\s+)", text)
    for _ in range(rng.randint(0, 4)):
        n = rng.randrange(len(words))
        words[n : n + rng.randint(0, 2)] = rng.choices([*WORDS, *JUNK, " "], k=rng.randint(0, 2))
        words = words or [""]
    return "".join(words)


def edit_of(rng: Random, units: dict[str, str]) -> Any:
    """An edit: mostly one that the schema allows, now and then anything."""
    name = rng.choice([*units])
    found: Any = {"anchor": name, "do": rng.choice(VERBS), "text": changed(rng, units[name])}
    if rng.random() < 0.15:
        wrong = [None, 5, "s999", [], {}, True, "", "delete all"]
        found[rng.choice([*found])] = rng.choice(wrong)
    return rng.choice([None, [], "edit", 3]) if rng.random() < 0.03 else found


def response_of(rng: Random, body: Body) -> Response:
    units = chatting.units_of(body)
    if rng.random() < 0.02:
        return (
            rng.choice([200, 400, 500]),
            {},
            rng.choice(["", "{}", "null", '{"choices": 3}']),
        )
    edits = [edit_of(rng, units) for _ in range(rng.randint(0, 6))]
    content = json.dumps({"edits": edits}, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.1:
        content = content[: rng.randrange(len(content))]
    elif rng.random() < 0.1:
        around = rng.choice(["```json\n%s\n```", "<think>{}</think>%s", "Here: %s {", "[%s]"])
        content = around.replace("%s", content)
    content = content.encode("utf-8", "replace").decode()
    return chatting.completion(content, finish=rng.choice(["stop"] * 20 + ["length"]))


def words_of(text: str) -> str:
    return "".join(text.split())


def check_locks(task: Revise, result: Edited) -> None:
    """Every locked character is in the result, where it was, and nothing stands between them."""
    locked = {n for start, end in task.locked_spans for n in range(start, end)}
    between = {n for start, end in task.locked_spans for n in range(start + 1, end)}
    for change in result.changes:
        assert locked.isdisjoint(range(change.start, change.end))
        assert change.start not in between or change.start != change.end
    rest, at = result.text, 0
    for start, end in task.locked_spans:
        found = rest.find(task.draft[start:end], at)
        assert found >= 0
        at = found + end - start


def check_reports(result: Edited, response: Response, names: list[str]) -> None:
    """What an answer asked for is in the result, or there is a report of it."""
    try:
        choice = json.loads(response[2])["choices"][0]
        content = choice["message"]["content"] if choice["finish_reason"] == "stop" else ""
    except (ValueError, LookupError, TypeError):
        content = ""
    edits = edits_in(content) if response[0] == 200 else None
    if edits is None:
        assert len(result.lost) == 1
        assert not result.changes
        return
    assert result.lost == ()
    malformed, wanted = 0, list[str]()
    for edit in edits:
        values = edit if isinstance(edit, dict) else {}
        anchor, text, verb = values.get("anchor"), values.get("text"), values.get("do")
        is_edit = isinstance(anchor, str) and verb in VERBS and isinstance(text, str | None)
        malformed += not is_edit or anchor not in names
        if is_edit and anchor in names and verb != "delete":
            echo = re.match(rf"(\[{names[0][0]}\d+\]|{names[0][0]}\d+:) ?", text or "")
            wanted.append((text or "")[echo.end() if echo else 0 :])
    reasons = [each.reason for each in result.dropped]
    assert sum("not an edit" in each or "Its anchor" in each for each in reasons) == malformed
    reported = [words_of(each.text) for each in result.dropped]
    for text in wanted:
        bare = words_of(text.encode("utf-8", "replace").decode())
        if not bare or bare not in words_of(result.text):
            # The whole edit was dropped, or words of it; reports of edits show what was echoed.
            assert any(each.endswith(bare) or each in bare for each in reported), text


@pytest.mark.timeout(600)
def test_fuzzed_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reviser.engines.chat_server.FIRST_PAUSE", 0.001)
    tasks: list[Revise] = []
    for n in range(ANSWERS):
        rng = Random(n)
        draft = draft_of(rng)
        tasks.append(Revise(draft, instruction=f"Task {n}:", locked=locks_of(rng, draft)))
    responses: dict[int, tuple[Response, list[str]]] = {}

    def script(body: Body) -> Response:
        number = int(re.findall(r"Task (\d+):", body["messages"][1]["content"])[0])
        responses[number] = response_of(Random(-number), body), chatting.names_of(body)
        return responses[number][0]

    with chatting.chat_server() as chat, Editor(chat.url, "m", retries=0) as editor:
        chat.script = script
        kinds = ["sentence", "line"]
        flows = (editor.edits(task, kind=kinds[n % 2]) for n, task in enumerate(tasks))  # type: ignore[arg-type]
        runs = [*run_many(flows, editor.driver)]
    counts = {"answers": len(responses), "changed": 0, "dropped": 0, "failed": 0}
    for n, (task, run) in enumerate(zip(tasks, runs, strict=True)):
        if run.error is not None:
            assert "edited nothing" in str(run.error), run.error
            counts["failed"] += 1
            continue
        check_locks(task, run.result)
        if n in responses:
            check_reports(run.result, *responses[n])
        counts["changed"] += len(run.result.changes) > 0
        counts["dropped"] += len(run.result.dropped) > 0
    assert counts["answers"] > 0.95 * ANSWERS
    assert min(counts["changed"], counts["dropped"]) > 0.3 * ANSWERS, counts
    assert counts["failed"] > 0
