"""The playground in a real Chromium on a real server: controls, the executor's text, errors.

The first test goes through the page once; the others run with `just full`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from reviser.engines.settings import SETTINGS, DecodeConfig
from reviser.serve.limits import Limits
from reviser.writing.rollout import Rollout
from support import films
from support.browsers import serious, walked

pytest.importorskip("fastapi", reason="The extra serve is not installed.")

from support.serving import Served, eventually, serving

full = pytest.mark.full
_, REPLAYER = films.replayer()
MIXED = f"The {films.MULTIBYTE} sat."
DONE = "() => document.body.matches('.written:not(.writing)')"
ROWS = "count => document.querySelectorAll('.row').length > count"
REFUSED = "console: Failed to load resource: the server responded with a status of"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving() as served:
        yield served


@pytest.fixture(scope="module")
def slow() -> Iterator[Served]:
    """A server that takes fifty actions per second: slow enough to watch and to interrupt."""
    with serving(seconds=0.02, limits={"resume_seconds": 0.5}) as served:
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
        page.wait_for_function("() => document.querySelectorAll('.fields input').length > 8")
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
    page.evaluate("() => { document.getElementById('settings').open = true; }")
    for name, value in settings.items():
        page.fill(f"#{name}", str(value))
    if text is not None:
        page.fill("#source", text)
    page.click("#write")


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


def saved(page: Any, button: str = "#save-rollout") -> str:
    with page.expect_download() as download:
        page.click(button)
    return Path(download.value.path()).read_text(encoding="utf-8")


def executed(page: Any) -> list[str]:
    """Return the executor's text before the first action of the model, and after each."""
    rollout = Rollout.from_json(saved(page))
    return list(films.texts(REPLAYER, rollout))[len(rollout.trajectory.no_loss) :]


def text(page: Any) -> str:
    return page.evaluate("() => document.querySelector('.text p').textContent")


def marked(page: Any) -> list[str]:
    return page.locator("#sheet mark").all_text_contents()


def step(page: Any) -> tuple[int, int]:
    """Return the step that is shown, once it is drawn, and the number of steps."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    shown, of = page.inner_text("#count").split(" / ")
    return int(shown), int(of)


def wait_for_error(page: Any, words: str) -> None:
    page.wait_for_function(
        "words => document.getElementById('error').textContent.includes(words)", arg=words
    )


def sent_by(page: Any) -> list[dict[str, Any]]:
    """Return a list that fills with the bodies that the page sends."""
    bodies: list[dict[str, Any]] = []
    page.on(
        "request", lambda r: r.method == "POST" and r.post_data and bodies.append(r.post_data_json)
    )
    return bodies


# -- all at once ----------------------------------------------------------------------------------


def test_a_text_is_written_shown_locked_rewritten_and_saved(visit: Any, server: Served) -> None:
    page = visit(server)
    bodies = sent_by(page)
    hostile = films.HOSTILE.replace("\r\n", "\n").replace("{}", "")
    write(page, hostile, seed=4, max_actions=40, stop_bias=-1)
    expected = executed(page)
    assert (text(page), step(page)) == (expected[-1], (40, 40))
    assert walked(page, [0, 7, 33, 40]) == [expected[n] for n in (0, 7, 33, 40)]
    assert page.evaluate("() => window.hit") is None
    assert page.locator("main img, main script").count() == 0
    line = json.loads(saved(page))
    assert line == server.post("/v1/generate", {**line["config"], "prompt": hostile}).json()
    page.click("#use")  # what was there before is locked
    mode(page, "rewrite")
    assert "".join(marked(page)) == hostile
    write(page, seed=5, max_actions=10)
    assert bodies[-1]["unit"] == "utf16"
    kept = marked(page)
    assert [part.text for part in Rollout.from_json(saved(page)).locked] == kept
    assert page.inner_text("#proof").endswith("unchanged: by SHA-256, checked in this page.")
    assert saved(page, "#save-text") == text(page)
    assert serious(page) == []


# -- writing --------------------------------------------------------------------------------------


WATCH = """() => {
    window.seen = [];
    const look = () => {
        const shown = document.querySelector(".text p");
        if (shown) seen.push([document.getElementById("count").textContent, shown.textContent]);
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
    page.fill("#source", f"A{{}} {MIXED} B{{}}." if how == "fill" else f"{MIXED} End.")
    if how == "rewrite":
        for start, end in ((0, 3), (6, 12), (len(MIXED.encode("utf-16-le")) // 2 + 1, 99)):
            select(page, start, end)
            page.click("#lock")
        assert len(marked(page)) == 3
    page.evaluate(WATCH)
    write(page, seed=seed, max_actions=60, stop_bias=-1)
    expected = executed(page)
    assert (text(page), step(page)) == (expected[-1], (60, 60))
    seen = {int(count.split(" / ")[0]): shown for count, shown in page.evaluate("() => seen")}
    assert len(seen) > 15  # it was watched while it was written
    assert {n: expected[n] for n in seen} == seen
    steps = [*range(0, 61, 10), 33, 7, 60]
    assert walked(page, steps) == [expected[n] for n in steps]


@full
def test_a_step_back_while_it_writes_stays_where_it_is(visit: Any, slow: Served) -> None:
    page = visit(slow)
    begin(page, "The", max_actions=120, stop_bias=-1)
    page.wait_for_function(ROWS, arg=9)
    page.locator("#write").blur()
    page.keyboard.press("Home")
    assert step(page)[0] == 0
    page.wait_for_function("() => Number(document.getElementById('scrub').max) > 60")
    assert step(page)[0] == 0
    for _ in range(20):  # also when an edit has arrived that is not drawn yet
        page.evaluate("() => document.getElementById('last').click()")
        page.wait_for_timeout(7)
    page.wait_for_function(DONE)
    assert step(page) == (120, 120)
    assert text(page) == executed(page)[-1]


@full
@pytest.mark.parametrize("by", ["Escape", "#stop"])
def test_an_interrupted_text_is_kept_and_can_be_played(visit: Any, slow: Served, by: str) -> None:
    page = visit(slow)
    begin(page, MIXED, max_actions=3000, stop_bias=-1)
    page.wait_for_function(ROWS, arg=9)
    assert "actions/s" in page.inner_text("#status")
    page.keyboard.press(by) if by == "Escape" else page.click(by)
    page.wait_for_function(DONE)
    assert page.inner_text("#status").endswith("; interrupted")
    expected = executed(page)
    assert 9 < len(expected) - 1 == step(page)[1] < 3000
    assert text(page) == expected[-1]
    assert page.is_hidden("#stop")
    eventually(lambda: slow.engine()["running"] == 0)
    begin(page)
    page.wait_for_function(ROWS, arg=3)
    assert slow.engine()["running"] == 1
    page.goto("about:blank")  # leaving the page ends it, too
    eventually(lambda: slow.engine()["running"] == 0)


@full
def test_keys_of_the_page_and_the_player_keep_out_of_the_text(visit: Any, slow: Served) -> None:
    page = visit(slow)
    page.focus("#source")
    page.keyboard.type("not o-t ?")
    page.keyboard.press("Home")
    page.keyboard.press("Control+Enter")
    page.wait_for_function(ROWS, arg=3)
    page.keyboard.press("Escape")
    page.wait_for_function(DONE)
    shown = step(page)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("+")
    assert page.input_value("#source") == "+not o-t ?"
    assert page.evaluate("() => document.activeElement.id") == "source"
    assert (step(page), page.input_value("#speed")) == (shown, "10")
    for field in ("#temperature", "#mode-fill"):
        page.focus(field)
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Home")
        assert step(page) == shown


@full
def test_everything_can_be_reached_without_a_mouse(visit: Any, server: Served) -> None:
    page = visit(server)
    write(page, "The", max_actions=5)
    page.focus("#mode-continue")
    expected = [
        "source", "write", *SETTINGS, "use", "copy", "save-text", "save-rollout", "another",
        "first", "back", "play", "on", "last", "help", "speed", "order", "ghost", "scrub", "text",
        "actions",
    ]  # fmt: skip
    reached = []
    for _ in range(len(expected) + 2):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("() => document.activeElement.id || document.activeElement.className")
        )
    assert [each for each in reached if each] == expected
    assert reached.count("") == 2  # the summaries


@full
def test_start_and_end_are_announced_and_no_edit(visit: Any, slow: Served) -> None:
    page = visit(slow)
    page.evaluate(
        """() => {
            window.said = [];
            const live = document.getElementById("live");
            const heard = new MutationObserver(() => said.push(live.textContent));
            heard.observe(live, { childList: true });
        }"""
    )
    write(page, "The", max_actions=30, stop_bias=-1)
    page.wait_for_timeout(500)
    first, last = page.evaluate("() => said")
    assert first == "Writing"
    assert last.startswith("Done: 30 actions, ")
    assert last.endswith("stopped at the action limit.")
    assert page.locator(":is(output, [role=status], [aria-live]):not(#live)").count() == 0


# -- settings -------------------------------------------------------------------------------------


@full
def test_settings_are_the_servers_own(visit: Any, server: Served) -> None:
    page = visit(server)
    bodies = sent_by(page)
    inputs = page.evaluate(
        "() => [...document.querySelectorAll('.fields input')]"
        ".map(({name, placeholder, min, max}) => [name, placeholder, min, max])"
    )
    assert [name for name, *_ in inputs] == list(SETTINGS)
    for name, default, low, high in inputs:
        setting = SETTINGS[name]
        assert default == ("none" if setting.default is None else f"{setting.default:g}")
        largest = Limits.max_actions if name == "max_actions" else 2**53 - 1
        assert (float(low), float(high)) == (setting.low, min(setting.high, largest))
    write(page, "The", max_actions=3)
    assert bodies[-1] == {"prompt": "The", "max_actions": 3, "unit": "utf16", "stream": True}
    values = {
        "temperature": 0.25, "top_k": 7, "top_p": 0.5, "min_p": 0.125, "seed": 2**53 - 1,
        "max_actions": 4, "max_length": 99, "max_edits": 3, "max_moves": 2,
        "stop_bias": -0.5, "move_bias": 0.5,
    }  # fmt: skip
    write(page, **values)
    assert bodies.pop() == {"prompt": "The", "unit": "utf16", "stream": True} | values
    assert Rollout.from_json(saved(page)).config == DecodeConfig(**values)
    bodies.clear()
    page.fill("#top_p", "2")  # a value out of range is not sent
    page.evaluate("() => { document.getElementById('settings').open = false; }")
    page.click("#write")
    assert page.evaluate("() => document.getElementById('settings').open")
    assert page.evaluate("() => document.activeElement.id") == "top_p"
    assert bodies == []


@full
def test_mode_and_settings_are_in_the_address_and_the_text_is_not(
    visit: Any, server: Served
) -> None:
    page = visit(server, "#mode=fill&temperature=0.5&seed=12&zzz=1")
    assert page.is_checked("#mode-fill")
    assert page.input_value("#temperature") == "0.5"
    mode(page, "rewrite")
    page.fill("#seed", "13")
    page.fill("#source", "secret")
    page.locator("#source").blur()
    assert urlsplit(page.url).fragment == "mode=rewrite&temperature=0.5&seed=13"


# -- gaps and locks -------------------------------------------------------------------------------


@full
def test_a_key_inserts_a_gap_and_undo_takes_it_back(visit: Any, server: Served) -> None:
    page = visit(server)
    bodies = sent_by(page)
    page.focus("#source")
    page.keyboard.type("Ben to the park")
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Control+g")
    assert page.input_value("#source") == "Ben{} to the park"
    assert page.is_checked("#mode-fill")
    assert marked(page) == ["{}"]
    page.keyboard.press("Control+z")
    assert (page.input_value("#source"), marked(page)) == ("Ben to the park", [])
    select(page, 7, 10)
    page.click("#gap")
    assert page.input_value("#source") == "Ben to{} park"  # with the space before it
    page.keyboard.type("{x} {}")
    assert marked(page) == ["{}", "{}"]
    write(page, max_actions=10)
    assert bodies[-1]["text"] == "Ben to{}{x} {} park"
    assert "spans" not in bodies[-1]
    assert text(page).startswith("Ben to")
    assert page.inner_text("#proof").startswith("3 locked texts unchanged: by SHA-256")


@full
def test_a_selection_is_locked_and_follows_the_typing(visit: Any, server: Served) -> None:
    page = visit(server)
    bodies = sent_by(page)
    kept = " " + films.MULTIBYTE  # with the space before it
    page.fill("#source", f"One two three {films.MULTIBYTE} four")
    select(page, 4, 7)
    page.keyboard.press("Control+Shift+L")
    assert page.is_checked("#mode-rewrite")
    select(page, 14, 14 + len(films.MULTIBYTE.encode("utf-16-le")) // 2)
    page.click("#lock")
    assert marked(page) == [" two", kept]

    def typed(at: int, keys: str, *, over: int = 0) -> list[str]:
        select(page, at, at + over)
        page.keyboard.insert_text(keys) if keys > "~" else page.keyboard.type(keys)
        return marked(page)

    assert typed(0, "😀 ") == [" two", kept]  # before
    assert typed(8, "X") == [" tXwo", kept]  # inside
    assert typed(6, "<") == [" tXwo", kept]  # at its edges
    assert typed(12, ">") == [" tXwo", kept]
    assert page.input_value("#source").startswith("😀 One< tXwo> three")
    select(page, 10, 10)
    page.keyboard.press("Backspace")
    assert marked(page) == [" two", kept]
    assert typed(6, "__", over=3) == ["wo", kept]  # over an edge
    write(page, max_actions=30, seed=2)
    source = page.input_value("#source").encode("utf-16-le")
    edges = [0, *(bound for span in bodies[-1]["spans"] for bound in span), len(source) // 2]
    locked = [
        source[2 * a : 2 * b].decode("utf-16-le")
        for a, b in zip(edges[::2], edges[1::2], strict=True)
    ]
    assert [*filter(None, locked)] == ["wo", kept]
    assert [part.text for part in Rollout.from_json(saved(page)).locked] == ["wo", kept]


@full
def test_locks_are_opened_by_selection_and_by_their_buttons(visit: Any, server: Served) -> None:
    page = visit(server, "#mode=rewrite")
    bodies = sent_by(page)
    begin(page, "One two three")
    assert page.inner_text("#error").startswith("Nothing is locked")
    select(page, 0, 13)
    page.keyboard.press("Control+Shift+L")
    page.click("#write")
    assert page.inner_text("#error").startswith("All of the text is locked")
    assert bodies == []
    select(page, 4, 8)
    page.get_by_text("Unlock selection").wait_for()
    page.click("#lock")
    assert page.inner_text("#error") == ""
    assert marked(page) == ["One", "three"]
    page.get_by_role("button", name="Unlock “\u2068One\u2069”").click()
    assert marked(page) == ["three"]
    mode(page, "continue")
    assert (marked(page), page.locator("#locks li").count()) == ([], 0)
    mode(page, "rewrite")
    assert marked(page) == ["three"]


@full
@pytest.mark.parametrize(
    ("said", "instead"), [('"text": "The"', '"text": "Thx"'), ('"after": "', '"after": "0')]
)
def test_neither_the_text_nor_the_hashes_are_taken_on_trust(
    visit: Any, server: Served, said: str, instead: str
) -> None:
    page = visit(server)

    def lie(route: Any) -> None:
        answer = route.fetch()
        assert said in answer.text()
        route.fulfill(response=answer, body=answer.text().replace(said, instead, 1))

    page.route("**/v1/generate", lie)
    write(page, "The", max_actions=3)
    page.get_by_text("Locked text was changed").wait_for()
    page.unroute("**/v1/generate")
    page.evaluate("() => { crypto.subtle.digest = async () => new ArrayBuffer(32); }")
    write(page)
    page.get_by_text("Locked text was changed").wait_for()
    page.evaluate("() => Object.defineProperty(crypto, 'subtle', { value: undefined })")
    write(page)
    page.get_by_text("1 locked text unchanged: by the server's SHA-256.").wait_for()


# -- the result -----------------------------------------------------------------------------------


@full
def test_a_result_becomes_the_text_with_what_was_there_locked(visit: Any, server: Served) -> None:
    page = visit(server, "#mode=fill")
    write(page, "One{} two{}.", seed=5, max_actions=40, stop_bias=-1)
    expected = executed(page)
    page.click("#use")
    assert page.is_checked("#mode-rewrite")
    assert page.input_value("#source") == expected[-1]
    assert "".join(marked(page)) == "One two."
    assert len(marked(page)) > 1
    page.click("#first")
    step(page)
    page.click("#use")  # as it is shown
    assert page.input_value("#source") == "One two."
    assert marked(page) == ["One two."]
    mode(page, "continue")
    write(page)
    first = text(page)
    page.click("#another")
    page.wait_for_function(
        "first => document.querySelector('.text p').textContent !== first", arg=first
    )
    page.wait_for_function(DONE)
    assert Rollout.from_json(saved(page)).config.seed == 6


@full
def test_the_text_is_copied_with_and_without_the_clipboards_permission(
    visit: Any, server: Served
) -> None:
    page = visit(server)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    write(page, MIXED, max_actions=5, seed=3)
    for forbid in ("", "navigator.clipboard.writeText = () => Promise.reject(new Error('no'));"):
        page.evaluate(f"async () => {{ await navigator.clipboard.writeText(''); {forbid} }}")
        page.get_by_role("button", name="Copy", exact=True).click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("() => navigator.clipboard.readText()") == text(page)
    assert page.evaluate("() => document.activeElement.id") == "copy"


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
        page.wait_for_selector("#model b")
        assert page.is_hidden("#key-form")
        assert page.inner_text("#error") == ""
        write(page, "The", max_actions=5)
        assert text(page).startswith("The")
        assert "the-key" not in page.url
        assert page.evaluate("() => [localStorage.length, document.cookie]") == [0, ""]
        page.reload()
        page.wait_for_selector("#model b")
        assert page.is_hidden("#key-form")
        other = visit(server, expects=f"{REFUSED} 401")
        other.wait_for_selector("#key-form:not([hidden])")


@full
def test_a_full_server_is_reported_and_the_text_before_is_kept(visit: Any) -> None:
    with serving(seconds=0.02, limits={"running": 1, "waiting": 1}) as server:
        page, other = visit(server, expects=f"{REFUSED} 429"), visit(server)
        third = visit(server)
        write(page, "The", max_actions=5)
        before, status = text(page), page.inner_text("#status")
        begin(other, "The", max_actions=3000, stop_bias=-1)
        other.wait_for_selector(".row")
        begin(third, "One")
        eventually(lambda: server.metrics()["reviser_waiting"] == 1)
        page.click("#write")
        wait_for_error(page, "Too many requests are waiting. Try again later. Try again in ")
        assert page.get_attribute("#error", "role") == "alert"
        assert (text(page), page.inner_text("#status")) == (before, status)
        third.keyboard.press("Escape")  # before it has begun
        third.wait_for_function(DONE)
        assert third.inner_text("#status").endswith("; interrupted")
        assert (step(third), text(third)) == ((0, 0), "One")
        other.keyboard.press("Escape")
        other.wait_for_function(DONE)
        write(page)
        assert page.inner_text("#error") == ""


@full
def test_what_the_server_refuses_is_shown_in_its_words(visit: Any, server: Served) -> None:
    page = visit(server, "#mode=fill", expects=f"{REFUSED} 400")
    for body, words in [("no gap", "The text has no gap"), ("a{}" + "b" * 100_001, "100,004 char")]:
        begin(page, body)
        wait_for_error(page, words)
    begin(page, "a{}", max_actions=5000)  # which the browser refuses itself
    assert page.evaluate("() => document.getElementById('max_actions').validity.rangeOverflow")
    assert page.inner_text("#error") == ""
    assert page.is_hidden("#result")


@full
def test_one_text_is_written_at_a_time_and_an_early_interrupt_reaches_it(visit: Any) -> None:
    with serving(seconds=0.02, plan_seconds=0.7) as server:
        page = visit(server)
        bodies = sent_by(page)
        begin(page, "The", max_actions=3000, stop_bias=-1)
        for _ in range(3):
            page.evaluate("() => document.getElementById('ask').requestSubmit()")
        page.keyboard.press("Escape")  # before the server has responded
        page.wait_for_function("() => !document.body.matches('.writing')")
        eventually(lambda: server.engine()["running"] == 0, 3)
        assert len(bodies) == 1
        assert page.inner_text("#error") == ""


@full
def test_a_text_that_the_browser_restores_is_the_one_that_is_sent(
    visit: Any, server: Served
) -> None:
    page = visit(server, expects=f"{REFUSED} 404")  # another page has no icon
    bodies = sent_by(page)
    page.fill("#source", "Ben had{} a dog")
    page.goto(server.url + "/health")
    page.go_back()
    page.wait_for_function("() => document.querySelectorAll('.fields input').length > 8")
    write(page, max_actions=2)
    assert bodies[-1]["prompt"] == page.input_value("#source") == "Ben had{} a dog"


@full
def test_an_engine_that_fails_and_a_server_that_dies_leave_the_text_so_far(visit: Any) -> None:
    with serving(process=True, seconds=0.02) as server:
        page = visit(server, expects="console: Failed to load resource: net::ERR_")
        begin(page, "The", max_actions=3000, stop_bias=-1)
        page.wait_for_function(ROWS, arg=9)
        server.fault.write_text("raise once")
        page.wait_for_function(DONE)
        wait_for_error(page, "The engine failed while it ran this request. Try again. The text so")
        assert step(page)[1] > 9
        assert page.is_disabled("#save-rollout")
        eventually(lambda: server.get("/ready").status_code == 200)
        begin(page)
        page.wait_for_function("() => parseInt(document.getElementById('status').textContent) > 9")
        server.process.kill()
        page.wait_for_function(DONE, timeout=20_000)
        wait_for_error(page, "breaks again and again. The text so far is kept.")
        assert page.inner_text("#status").endswith("; connection lost")
        last = text(page)
        page.locator("#write").blur()
        page.keyboard.press("Home")
        assert (step(page)[0], text(page)) == (0, "The")
        page.keyboard.press("End")
        step(page)
        assert saved(page, "#save-text") == text(page) == last
        page.evaluate("() => { window.setTimeout = (act) => queueMicrotask(act); }")  # do not wait
        page.click("#write")
        page.get_by_text("The server cannot be reached.").wait_for()
        assert text(page) == last


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
        "/": "text/html", "/client.js": "text/javascript", "/playground/pane.js": "text/javascript",
        "/playground/player.css": "text/css", "/playground/icon.svg": "image/svg+xml",
    }  # fmt: skip
    for path, kind in types.items():
        answer = server.get(path)
        assert answer.headers["content-type"].split(";")[0] == kind
        assert answer.headers["x-content-type-options"] == "nosniff"
        kept = "max-age=86400" if path.endswith(".svg") else "no-cache"
        assert answer.headers["cache-control"] == kept
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        again = server.get(path, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    others = ("", "..%2fclient.js", "%2e%2e/app.py", "playground.html", "player.html", "pages.py")
    for name in others:
        assert server.get(f"/playground/{name}").status_code == 404
    assert server.post("/", {}).status_code == 405
    assert not [path for path in server.get("/openapi.json").json()["paths"] if "play" in path]
    with serving(playground=False) as without:
        for path, status in (("/", 404), ("/playground/playground.js", 404), ("/client.js", 200)):
            assert without.get(path).status_code == status


@full
@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390), ("light", 320)])
def test_the_page_is_accessible_and_fits_the_window(
    visit: Any, server: Served, scheme: str, width: int
) -> None:
    page = visit(
        server, "#mode=fill", expects=f"{REFUSED} 400", color_scheme=scheme,
        viewport={"width": width, "height": 844}, reduced_motion="reduce",
    )  # fmt: skip
    write(page, f"The{{}} {films.MULTIBYTE}" + "x" * 300, max_actions=30, stop_bias=-1)
    begin(page, "no gap")
    wait_for_error(page, "no gap")
    assert serious(page) == []
    page.fill("#source", "One two three")
    select(page, 4, 7)
    page.keyboard.press("Control+Shift+L")
    page.get_by_text("Statistics").click()
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


@full
def test_the_sheet_lies_under_the_text_letter_by_letter(visit: Any, server: Served) -> None:
    page = visit(server, "#mode=rewrite")
    page.fill("#source", "\n".join(["The cat sat on the mat. " * 8, films.MULTIBYTE, "שלום", ""]))
    select(page, 0, 30)
    page.click("#lock")
    sheet, area = page.evaluate(
        """() => ["sheet", "source"].map((id) => {
            const node = document.getElementById(id);
            const { x, y, width, height } = node.getBoundingClientRect();
            const look = getComputedStyle(node);
            return [x, y, width, height, node.scrollHeight, look.font, look.padding,
                look.whiteSpace, look.overflowWrap, look.letterSpacing, look.unicodeBidi,
                look.textAlign, look.tabSize];
        })"""
    )
    assert sheet == area
    page.fill("#source", "A line.\n" * 80)
    for key, is_scrolled in (("Control+Home", False), ("Control+End", True)):  # the caret shows
        page.keyboard.press(key)
        page.keyboard.type("a")
        scrolled = page.evaluate("() => document.querySelector('.paper').scrollTop")
        assert (scrolled > 1000) == is_scrolled
        assert page.evaluate("() => document.getElementById('source').scrollTop") == 0


@full
def test_it_works_under_a_path(browser: Any, server: Served) -> None:
    page = browser.new_page()
    paths = []

    def forward(route: Any) -> None:
        paths.append(urlsplit(route.request.url).path)
        route.fulfill(response=route.fetch(url=route.request.url.replace("/reviser/", "/")))

    page.route("**/reviser/**", forward)
    page.goto(f"{server.url}/reviser/")
    page.wait_for_selector("#model b")
    write(page, "The", max_actions=5)
    assert text(page).startswith("The")
    assert len(paths) > 10
    assert all(path.startswith("/reviser/") for path in paths)
    page.close()
