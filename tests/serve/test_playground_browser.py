"""The playground in a real Chromium on a real server: proofreading, writing, errors.

The first test goes through the page once; the others run with `just full`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from reviser.writing.changes import Change, Changes
from reviser.writing.rollout import Rollout
from support import films
from support.browsers import serious

pytest.importorskip("fastapi", reason="The extra serve is not installed.")

from support.serving import Served, eventually, serving

full = pytest.mark.full
_, REPLAYER = films.replayer()
MIXED = f"The {films.MULTIBYTE} sat."
DONE = "() => document.body.matches('.written:not(.writing)')"
CHECKED = "() => document.body.matches('.reviewed:not(.writing)')"
IDLE = "() => !document.body.matches('.writing')"
WROTE = "count => document.querySelectorAll('#sheet [class^=order]').length > count"
OPEN = "() => document.body.dataset.page || !document.getElementById('key-form').hidden"
DRAFT = "The cat sat. It have a end.\nBen 😀 said {} so. We was here.\n"
REFUSED = "console: Failed to load resource: the server responded with a status of"


@pytest.fixture(scope="module")
def slow() -> Iterator[Served]:
    """A server that takes fifty actions per second: slow enough to watch and to interrupt."""
    with serving(seconds=0.02) as served:
        yield served


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a server's playground, which may neither log errors nor contact another host."""
    problems: list[str] = []
    pages: list[Any] = []
    expected: list[str] = []

    def open_page(served: Served, fragment: str = "", *, expects: str = "", **options: Any) -> Any:
        expected.extend([expects] if expects else [])
        page = browser.new_page(**{"viewport": {"width": 1200, "height": 800}, **options})

        def check(request: Any) -> None:
            is_own = urlsplit(request.url).netloc == urlsplit(served.url).netloc
            if not is_own and not request.url.startswith(("blob:", "about:")):
                problems.append(f"request: {request.url}")

        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("request", check)
        page.goto(f"{served.url}/{fragment}")
        page.wait_for_function(OPEN)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert [each for each in problems if not any(map(each.startswith, expected))] == []


def write(page: Any, text: str | None = None, **settings: object) -> None:
    """Type, set and write to the end."""
    begin(page, text, **settings)
    page.wait_for_function(DONE)


def begin(page: Any, text: str | None = None, **settings: object) -> None:
    if text is not None:
        page.fill("#source", text)
    if settings:
        page.evaluate("() => { document.getElementById('settings').open = true; }")
        for name, value in settings.items():
            page.fill(f"#{name}", str(value))
        page.evaluate("() => { document.getElementById('settings').open = false; }")
    page.click("#write")


def proofread(page: Any, text: str) -> None:
    """Type a text and let the model check it."""
    mode(page, "proofread")
    begin(page, text)
    page.wait_for_function(CHECKED)


def mode(page: Any, name: str) -> None:
    page.locator(f"#mode-{name}").check(force=True)


def select(page: Any, start: int, end: int) -> None:
    page.evaluate(
        """([start, end]) => {
            const area = document.getElementById("source");
            area.focus();
            area.setSelectionRange(start, end);
        }""",
        [start, end],
    )
    page.wait_for_timeout(50)  # for the event


def saved(page: Any) -> str:
    with page.expect_download() as download:
        page.click("#save")
    return Path(download.value.path()).read_text(encoding="utf-8")


def executed(page: Any) -> list[str]:
    """Return the executor's text before the first action of the model, and after each."""
    rollout = Rollout.from_json(saved(page))
    texts = list(films.texts(REPLAYER, rollout))[len(rollout.trajectory.no_loss) :]
    return [each.replace("\r", "\n") for each in texts]  # as a textarea shows it


def replayed(page: Any, steps: list[int]) -> list[str]:
    """Return the text at some steps."""
    found: list[str] = page.evaluate(
        """(steps) => steps.map((step) => {
            const range = document.getElementById("step");
            range.value = step;
            range.dispatchEvent(new Event("input"));
            return document.getElementById("source").value;
        })""",
        steps,
    )
    return found


def text(page: Any) -> str:
    value: str = page.input_value("#source")
    return value


def marked(page: Any, looks: str) -> list[str]:
    found: list[str] = page.locator(f"#sheet .{looks}").all_text_contents()
    return found


def cards(page: Any) -> Any:
    return page.locator("#cards li")


def accept(page: Any, number: int) -> None:
    cards(page).nth(number).locator(".accept").click()


def reject(page: Any, number: int) -> None:
    cards(page).nth(number).locator(".reject").click()


def copied(page: Any, button: str) -> str:
    page.click(button)
    page.wait_for_function("id => document.querySelector(id).textContent === 'Copied'", arg=button)
    found: str = page.evaluate("() => navigator.clipboard.readText()")
    return found


def revised(server: Served, draft: str) -> Changes:
    """Return the changes that the server suggests."""
    body = server.post("/v1/revise", {"draft": draft}).json()
    return Changes(draft=draft, changes=tuple(Change(**each) for each in body["changes"]))


def wait_for_error(page: Any, words: str) -> None:
    page.wait_for_function(
        "words => document.getElementById('error').textContent.includes(words)", arg=words
    )


# -- all at once ----------------------------------------------------------------------------------


def test_a_draft_is_proofread_and_a_text_is_written(visit: Any, server: Served) -> None:
    page = visit(server)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    proofread(page, DRAFT)
    expected = revised(server, DRAFT)
    count = len(expected.changes)
    assert cards(page).count() == count > 3
    assert copied(page, "#copy-criticmarkup") == expected.criticmarkup()
    assert copied(page, "#copy-diff") == expected.unified()
    assert text(page) == DRAFT  # nothing changes before it is accepted
    assert serious(page) == []
    accept(page, 1)
    assert text(page) == expected.accept(1).text
    reject(page, 0)
    assert cards(page).count() == count - 2
    assert copied(page, "#copy-criticmarkup") == expected.reject(0).criticmarkup()
    page.click("#reject-all")
    assert (cards(page).count(), text(page)) == (0, expected.accept(1).text)
    page.click("#bring-back")
    assert (cards(page).count(), page.is_hidden("#bring-back")) == (count - 1, True)
    reject(page, 0)
    page.click("#accept-all")
    assert text(page) == expected.reject(0).text
    assert copied(page, "#copy-diff") == expected.reject(0).unified()
    hostile = films.HOSTILE.replace("\r\n", "\n").replace("{}", "")
    mode(page, "continue")
    write(page, hostile, seed=4, max_actions=40, stop_bias=-1)
    assert (cards(page).count(), page.is_visible("#review")) == (0, False)  # of another text
    steps = executed(page)
    assert (text(page), len(steps)) == (steps[-1], 41)
    assert replayed(page, [0, 7, 33, 40]) == [steps[n] for n in (0, 7, 33, 40)]
    assert page.evaluate("() => window.hit") is None
    assert page.locator("main script").count() == 0
    line = json.loads(saved(page))
    assert line == server.post("/v1/generate", {**line["config"], "prompt": hostile}).json()
    assert serious(page) == []


# -- proofreading ---------------------------------------------------------------------------------


@full
def test_suggestions_follow_the_typing_and_those_of_the_sentence_go(
    visit: Any, server: Served
) -> None:
    page = visit(server)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    proofread(page, DRAFT)
    expected = revised(server, DRAFT)
    second = DRAFT.index("\n")
    later = [n for n, change in enumerate(expected.changes) if change.start > second]
    assert 0 < len(later) < len(expected.changes)
    select(page, 0, 0)
    page.keyboard.type("😀 {++ ")
    page.click("#copy-criticmarkup")
    wait_for_error(page, "A text with “{++” cannot be written in CriticMarkup")
    select(page, 22, 22)  # the second sentence of the line
    page.keyboard.type("x")
    assert "Proofread it again" in page.inner_text("#status")
    assert cards(page).count() == len(later)
    typed = text(page)
    assert typed.startswith("😀 {++ The cat sat. It")
    shift = len(typed) - len(DRAFT)
    rest = expected.accept(*later)
    page.click("#accept-all")
    assert text(page) == typed[: second + shift] + rest.text[second:]
    page.keyboard.press("Control+z")  # one step for all
    assert text(page) == typed
    assert cards(page).count() == len(later)
    page.keyboard.press("Control+Shift+z")
    assert text(page) == typed[: second + shift] + rest.text[second:]
    assert cards(page).count() == 0
    assert len(marked(page, "accepted")) == len(later)


@full
def test_everything_in_a_review_can_be_done_with_the_keyboard(visit: Any, server: Served) -> None:
    page = visit(server)
    page.focus("#source")
    page.keyboard.insert_text(DRAFT)
    page.keyboard.press("Control+Enter")
    page.wait_for_function(CHECKED)
    count = cards(page).count()
    expected = revised(server, DRAFT)
    page.keyboard.press("Control+Home")
    page.keyboard.press("F8")
    label = page.evaluate("() => document.activeElement.getAttribute('aria-label')")
    assert label.startswith("Accept: ")
    assert "% likely" in label
    page.keyboard.press("Enter")
    assert text(page) == expected.accept(0).text
    assert page.inner_text("#live") == f"Accepted. {count - 1} suggestions."
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # rejects the next one
    assert cards(page).count() == count - 2
    assert page.locator("#cards li.active").count() == 1
    page.keyboard.press("Shift+F8")
    assert page.evaluate(
        "() => document.activeElement.closest('li') === document.querySelector('#cards').lastChild"
    )
    start = page.evaluate("() => [...document.querySelectorAll('#sheet .suggestion')].length")
    assert start == count - 2
    for _ in range(count - 2):
        page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "source"
    assert text(page) == expected.reject(1).text


# -- the proofreader ------------------------------------------------------------------------------


LETTER = "I saw teh end of of it.\nThen a apple fell, and teh dog ran.\n"


def reasons(page: Any) -> list[str]:
    found: list[str] = page.locator("#cards .why > b").all_text_contents()
    return found


def test_sure_suggestions_are_shown_and_accepted_while_the_judge_reads(
    visit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REVISER_TEST_SECONDS", "1")
    with serving(is_proofreader=True, examples=(LETTER,)) as server:
        page = visit(server)  # proofreads its first example
        page.wait_for_function("() => document.querySelectorAll('#cards li').length === 2")
        assert page.evaluate("() => document.body.matches('.writing')")
        assert reasons(page) == ["repetition", "article"]
        assert "The word is there twice." in cards(page).nth(0).inner_text()
        assert serious(page) == []
        accept(page, 0)  # before the judge has answered
        reject(page, 0)
        page.wait_for_function(CHECKED)
        assert reasons(page) == ["spelling", "spelling"]
        assert text(page) == LETTER.replace("of of", "of")
        page.click("#accept-all")
        assert text(page) == LETTER.replace("of of", "of").replace("teh", "the")
        for _ in range(2):  # undo brings back what the judge suggested later
            page.keyboard.press("Control+z")
        assert (text(page), reasons(page)) == (
            LETTER,
            ["spelling", "repetition", "article", "spelling"],
        )


def test_a_word_of_the_dictionary_is_kept_for_the_next_visit_and_sent(visit: Any) -> None:
    with serving(is_proofreader=True, examples=(LETTER,)) as server:
        page = visit(server)
        page.wait_for_function(CHECKED)
        assert reasons(page) == ["spelling", "repetition", "article", "spelling"]
        page.locator("#cards .add").first.click()
        assert reasons(page) == ["repetition", "article"]  # the word occurs twice
        assert page.inner_text("#words") == "teh ✕"
        assert serious(page) == []
        bodies: list[Any] = []
        page.on("request", lambda request: bodies.append(request.post_data))
        page.reload()
        page.wait_for_function(CHECKED)
        sent = [json.loads(body) for body in bodies if body]
        assert [(body["sure"], body["words"]) for body in sent] == [
            (True, ["teh"]),
            (False, ["teh"]),
        ]
        assert reasons(page) == ["repetition", "article"]
        page.click("#words button")
        assert page.is_hidden("#dictionary")
        page.click("#write")
        page.wait_for_function(CHECKED)
        assert reasons(page) == ["spelling", "repetition", "article", "spelling"]


# -- what the page offers -------------------------------------------------------------------------


@full
@pytest.mark.parametrize(
    ("engine", "modes", "words"),
    [
        ({"is_editor": False}, ["continue", "fill", "rewrite"], "cannot proofread"),
        ({"is_proofreader": True}, ["proofread"], "only proofreads"),
        ({}, ["proofread", "continue", "fill", "rewrite"], ""),
    ],
)
def test_the_modes_are_those_of_the_model(
    visit: Any, engine: Any, modes: list[str], words: str
) -> None:
    with serving(**engine) as server:
        page = visit(server)
        names = ("proofread", "continue", "fill", "rewrite")
        offered = [n for n in names if page.locator(f"label:has(#mode-{n})").is_visible()]
        assert offered == (modes if len(modes) > 1 else [])  # one is no choice
        assert page.is_checked(f"#mode-{modes[0]}")
        assert page.inner_text("#about") == "It writes at random."
        assert words in page.inner_text("#cannot")
        page.goto(f"{server.url}/#mode=proofread")  # an address cannot ask for more
        page.reload()
        page.wait_for_function(OPEN)
        assert page.is_checked(f"#mode-{modes[0]}")


# -- writing --------------------------------------------------------------------------------------


WATCH = """() => {
    window.seen = [];
    const look = () => {
        const shown = document.getElementById("status").textContent.match(/^Writing: (\\d+)/);
        if (shown) seen.push([Number(shown[1]), document.getElementById("source").value]);
        requestAnimationFrame(look);
    };
    look();
}"""


@full
@pytest.mark.parametrize(("seed", "how"), [(0, "continue"), (1, "fill"), (2, "rewrite")])
def test_each_edit_is_shown_as_it_comes_and_again_afterwards(
    visit: Any, slow: Served, seed: int, how: str
) -> None:
    page = visit(slow)
    mode(page, how)
    source = f"A{{}} {MIXED} B{{}}." if how == "fill" else f"{MIXED} End."
    page.fill("#source", source)
    page.evaluate("() => { document.getElementById('settings').open = true; }")
    for name, value in {"seed": seed, "max_actions": 60, "stop_bias": -1}.items():
        page.fill(f"#{name}", str(value))
    page.evaluate("() => { document.getElementById('settings').open = false; }")
    if how == "rewrite":
        select(page, 3, 12)  # with the space, which a model writes with its word
        assert marked(page, "picked") == [MIXED.encode("utf-16-le")[6:24].decode("utf-16-le")]
    page.evaluate(WATCH)
    page.click("#write")
    page.wait_for_function(DONE)
    expected = executed(page)
    assert (text(page), page.inner_text("#count")) == (expected[-1], "60 of 60")
    seen = dict(page.evaluate("() => seen"))
    assert len(seen) > 15  # it was watched while it was written
    assert {n: expected[n] for n in seen} == seen
    steps = [*range(0, 61, 10), 33, 7, 60]
    assert replayed(page, steps) == [expected[n] for n in steps]
    assert page.inner_text("#sheet").rstrip("\u200b") == text(page)
    if how == "rewrite":
        rest = MIXED.encode("utf-16-le")[24:].decode("utf-16-le") + " End."
        assert text(page).startswith("The")
        assert text(page).endswith(rest)


@full
def test_work_on_a_text_that_the_user_leaves_ends_and_does_not_appear(
    visit: Any, slow: Served
) -> None:
    page = visit(slow)
    begin(page, "word " * 400)
    eventually(lambda: slow.engine()["running"] > 0)
    page.focus("#source")
    page.keyboard.type("New. ")
    page.wait_for_function(IDLE)
    assert page.inner_text("#status") == "Stopped, because the text has changed."
    eventually(lambda: slow.engine()["running"] == 0)
    assert cards(page).count() == page.locator("#sheet .suggestion").count() == 0
    page.click("#write")
    page.keyboard.press("Escape")
    page.wait_for_function(IDLE)
    assert page.inner_text("#status") == "Stopped."
    assert page.inner_text("#error") == ""
    mode(page, "continue")
    begin(page, "The cat", max_actions=3000, stop_bias=-1)
    page.wait_for_function(WROTE, arg=3)
    left = page.evaluate(
        """() => {
            document.getElementById("mode-proofread").click();
            return document.getElementById("source").value;
        }"""
    )
    page.wait_for_function(IDLE)
    eventually(lambda: slow.engine()["running"] == 0)
    page.wait_for_timeout(200)
    assert text(page) == left
    assert page.locator("#sheet [class^=order]").count() == 0
    assert page.is_hidden("#result")
    assert not page.evaluate("() => document.getElementById('source').readOnly")


# -- errors ---------------------------------------------------------------------------------------


@full
def test_a_key_is_asked_for_and_kept_for_the_tab_only(visit: Any) -> None:
    with serving(keys=("the-key",)) as server:
        page = visit(server, expects=f"{REFUSED} 401")
        page.wait_for_selector("#key-form:not([hidden])")
        assert page.get_attribute("#key", "type") == "password"
        assert serious(page) == []
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        wait_for_error(page, "The server does not accept this key.")
        page.fill("#key", "the-key")
        page.click("#key-form button")
        page.wait_for_selector("body[data-page=open]")
        assert page.is_hidden("#key-form")
        assert page.inner_text("#error") == ""
        mode(page, "continue")
        write(page, "The", max_actions=5)
        assert text(page).startswith("The")
        assert "the-key" not in page.url
        assert page.evaluate("() => [localStorage.length, document.cookie]") == [0, ""]
        page.reload()
        page.wait_for_selector("body[data-page=open]")
        assert page.is_hidden("#key-form")
        other = visit(server, expects=f"{REFUSED} 401")
        other.wait_for_selector("#key-form:not([hidden])")


@full
def test_an_engine_that_fails_and_a_server_that_dies_leave_the_text_so_far(visit: Any) -> None:
    with serving(process=True, seconds=0.02) as server:
        lost = "console: Failed to load resource: net::ERR_"
        page = visit(server, "#mode=continue", expects=lost)
        begin(page, "The", max_actions=3000, stop_bias=-1)
        page.wait_for_function(WROTE, arg=5)
        server.fault.write_text("raise once")
        page.wait_for_function(DONE)
        wait_for_error(page, "The engine failed while it ran this request. Try again. The text so")
        assert page.is_hidden("#save")
        eventually(lambda: server.get("/ready").status_code == 200)
        page.click("#write")
        page.wait_for_function(
            "() => document.getElementById('status').textContent.startsWith('Writing')"
        )
        page.wait_for_function(WROTE, arg=5)
        server.process.kill()
        page.wait_for_function(DONE, timeout=20_000)
        wait_for_error(page, "connection to the server was lost. The text so far is kept.")
        assert page.inner_text("#status").startswith("The connection was lost. ")
        last = text(page)
        assert replayed(page, [0, 99_999]) == ["The", last]
        page.click("#write")
        page.get_by_text("The server cannot be reached.").wait_for()
        assert text(page) == last
        mode(page, "proofread")
        page.click("#write")
        page.get_by_text("The server cannot be reached.").wait_for()
        assert page.is_hidden("#review")


# -- security and accessibility -------------------------------------------------------------------


@full
def test_the_policy_is_sent_and_kept(visit: Any, server: Served) -> None:
    page = visit(server, expects="console: ")
    attempts = page.evaluate(
        """async () => {
            const script = document.createElement("script");
            let refused = 0;
            try { script.textContent = "window.hit = 1"; } catch { refused++; }
            document.head.append(script);
            try { document.body.innerHTML = "<b>x</b>"; } catch { refused++; }
            try { await fetch("http://127.0.0.1:9/"); } catch { refused++; }
            document.body.setAttribute("style", "color: red");
            const image = new Image();
            const blocked = new Promise(done => { image.onerror = () => done("blocked"); });
            image.src = "data:image/gif;base64,R0lGODlhAQABAAAAACw=";
            return [refused, window.hit ?? null, await blocked, document.body.style.color];
        }"""
    )
    assert attempts == [3, None, "blocked", ""]


def test_files_are_sent_as_what_they_are_and_no_others_are(server: Served) -> None:
    types = {
        "/": "text/html", "/client.js": "text/javascript",
        "/playground/backend.js": "text/javascript", "/playground/player.css": "text/css",
        "/playground/icon.svg": "image/svg+xml",
    }  # fmt: skip
    for path, kind in types.items():
        answer = server.get(path)
        assert answer.headers["content-type"].split(";")[0] == kind
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-cache"
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    others = ("", "..%2fclient.js", "%2e%2e/app.py", "playground.html", "player.html", "pages.py")
    for name in others:
        assert server.get(f"/playground/{name}").status_code == 404
    assert server.post("/", {}).status_code == 405
    assert not [path for path in server.get("/openapi.json").json()["paths"] if "play" in path]
    with serving(playground=False) as without:
        for path, status in (("/", 404), ("/playground/playground.js", 404), ("/client.js", 200)):
            assert without.get(path).status_code == status


@full
@pytest.mark.parametrize(("scheme", "width"), [("dark", 390), ("light", 320)])
def test_the_page_is_accessible_and_fits_the_window(
    visit: Any, server: Served, scheme: str, width: int
) -> None:
    page = visit(
        server, "#mode=fill", expects=f"{REFUSED} 400", color_scheme=scheme,
        viewport={"width": width, "height": 844}, reduced_motion="reduce",
    )  # fmt: skip
    write(page, f"The{{}} {films.MULTIBYTE}" + "x" * 300, max_actions=30, stop_bias=-1)
    assert serious(page) == []
    begin(page, "no gap")
    wait_for_error(page, "no gap")
    page.evaluate("() => { document.getElementById('settings').open = true; }")
    assert serious(page) == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    page.evaluate("() => { document.getElementById('settings').open = false; }")
    proofread(page, DRAFT + films.MULTIBYTE + "x" * 300)
    accept(page, 1)
    reject(page, 0)
    assert serious(page) == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    small = page.evaluate(
        """() => [...document.querySelectorAll("button, select, summary, input, textarea")]
            .map((node) => [node.id, (node.closest("label") ?? node).getBoundingClientRect()])
            .filter(([, box]) => box.width > 0 && (box.width < 24 || box.height < 24))
            .map(([id]) => id)"""
    )
    assert small == []
    assert page.evaluate("() => document.getAnimations().length") == 0
