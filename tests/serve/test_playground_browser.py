"""The playground in a real Chromium on a real server: controls, the executor's text, trouble."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from reviser.cli import main
from reviser.engines.base import RANGES, DecodeConfig
from reviser.serve.limits import Limits
from reviser.writing.rollout import Rollout
from support import films, small_tokenizers
from support.browsers import serious, walked

pytest.importorskip("fastapi", reason="The extra serve is not installed.")

from support.serving import NAME, Served, eventually, serving

MODEL, CUTTER = films.replayer()
MIXED = f"The {films.MULTIBYTE} sat."
DONE = "() => document.body.matches('.written:not(.writing)')"
REFUSED = "console: Failed to load resource: the server responded with a status of"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving() as served:
        yield served


@pytest.fixture(scope="module")
def slow() -> Iterator[Served]:
    """Some fifty actions a second, so that there is something to watch and to interrupt."""
    with serving(seconds=0.02, limits={"resume_seconds": 0.5}) as served:
        yield served


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a server's playground, which may neither complain nor ask anybody else."""
    troubles: list[str] = []
    opened: list[Any] = []
    expected: list[str] = []

    def opener(served: Served, place: str = "", *, expects: str = "", **options: Any) -> Any:
        if expects:
            expected.append(expects)
        page = browser.new_page(**{"viewport": {"width": 1200, "height": 800}, **options})
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on(
            "request",
            lambda request: (
                urlsplit(request.url).netloc != urlsplit(served.url).netloc
                and not request.url.startswith(("blob:", "about:"))
                and troubles.append(f"request: {request.url}")
            ),
        )
        page.goto(f"{served.url}/{place}")
        page.wait_for_function("() => document.querySelectorAll('.fields input').length > 8")
        opened.append(page)
        return page

    yield opener
    for page in opened:
        page.close()
    assert [each for each in troubles if not any(map(each.startswith, expected))] == []


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
    """The executor's text before the first action that the model chose, and after each."""
    rollout = Rollout.from_json(saved(page))
    return list(films.texts(CUTTER, rollout))[len(rollout.trajectory.no_loss) :]


def text(page: Any) -> str:
    return page.evaluate("() => document.querySelector('.text p').textContent")


def marked(page: Any) -> list[str]:
    return page.locator("#sheet mark").all_text_contents()


def at(page: Any) -> tuple[int, int]:
    """The step that is shown, once it is drawn, and of how many."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    step, of = page.inner_text("#count").split(" / ")
    return int(step), int(of)


def asked_for(page: Any) -> list[dict[str, Any]]:
    """The bodies that the page will have sent."""
    bodies: list[dict[str, Any]] = []
    page.on(
        "request", lambda r: r.method == "POST" and r.post_data and bodies.append(r.post_data_json)
    )
    return bodies


WATCH = """() => {
    window.seen = [];
    const look = () => {
        const shown = document.querySelector(".text p");
        if (shown) seen.push([document.getElementById("count").textContent, shown.textContent]);
        requestAnimationFrame(look);
    };
    look();
}"""


# -- writing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "how"), [(0, "continue"), (1, "fill"), (2, "rewrite")])
def test_each_edit_is_shown_as_it_comes_and_again_afterwards(
    visit: Any, slow: Served, seed: int, how: str
) -> None:
    page = visit(slow)
    mode(page, how)
    page.fill("#source", f"A{{}} {MIXED} B{{}}." if how == "fill" else f"{MIXED} End.")
    if how == "rewrite":
        for start, end in ((0, 4), (6, 12), (len(MIXED.encode("utf-16-le")) // 2 + 1, 99)):
            select(page, start, end)
            page.click("#lock")
        assert len(marked(page)) == 3
    page.evaluate(WATCH)
    write(page, seed=seed, max_actions=60, stop_bias=-1)
    expected = executed(page)
    assert text(page) == expected[-1]
    assert at(page) == (60, 60)
    seen = {int(count.split(" / ")[0]): shown for count, shown in page.evaluate("() => seen")}
    assert len(seen) > 15  # it was watched while it came
    assert {step: expected[step] for step in seen} == seen
    steps = [*range(0, 61, 10), 33, 7, 60]
    assert walked(page, steps) == [expected[step] for step in steps]


def test_what_was_written_is_played_again_with_the_players_controls(
    visit: Any, server: Served
) -> None:
    page = visit(server)
    write(page, "The", seed=4, max_actions=40, stop_bias=-1)
    expected = executed(page)
    for name, step in [("To the start", 0), ("A step on", 1), ("To the end", 40)]:
        page.get_by_role("button", name=name, exact=True).click()
        assert (at(page)[0], text(page)) == (step, expected[step])
    page.select_option("#speed", "500")
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_function("() => !document.body.classList.contains('playing')")
    assert at(page)[0] == 40
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowRight")
    assert (at(page)[0], text(page)) == (10, expected[10])
    page.click("#order")
    page.click("#ghost")
    assert text(page) == expected[10]
    page.locator(".row", has_text="insert").first.click()
    page.get_by_text("Statistics").click()
    facts = dict(
        zip(
            page.locator(".facts dt").all_inner_texts(),
            page.locator(".facts dd").all_inner_texts(),
            strict=True,
        )
    )
    assert facts["Actions"].startswith("40, of which ")
    assert facts["Ended by"] == "max actions"
    assert "seed 4" in facts["Settings"]
    assert facts["model"] == NAME


def test_who_goes_back_while_it_writes_is_left_there(visit: Any, slow: Served) -> None:
    page = visit(slow)
    begin(page, "The", max_actions=120, stop_bias=-1)
    page.wait_for_function("() => document.querySelectorAll('.row').length > 9")
    page.locator("#write").blur()
    page.keyboard.press("Home")
    assert at(page)[0] == 0
    page.wait_for_function("() => Number(document.getElementById('scrub').max) > 60")
    assert at(page)[0] == 0
    for _ in range(20):  # also when an edit has come that is not drawn yet
        page.evaluate("() => document.getElementById('last').click()")
        page.wait_for_timeout(7)
    page.wait_for_function(DONE)
    assert at(page) == (120, 120)
    assert text(page) == executed(page)[-1]


@pytest.mark.parametrize("by", ["Escape", "#stop"])
def test_an_interrupted_text_stays_and_can_be_played(visit: Any, slow: Served, by: str) -> None:
    page = visit(slow)
    begin(page, MIXED, max_actions=3000, stop_bias=-1)
    page.wait_for_function("() => document.querySelectorAll('.row').length > 9")
    assert "actions/s" in page.inner_text("#status")
    page.keyboard.press(by) if by == "Escape" else page.click(by)
    page.wait_for_function(DONE)
    assert page.inner_text("#status").endswith("; interrupted")
    expected = executed(page)
    assert 9 < len(expected) - 1 == at(page)[1] < 3000
    assert text(page) == expected[-1]
    page.locator("#write").blur()
    page.keyboard.press("Home")
    assert (at(page)[0], text(page)) == (0, MIXED)
    assert page.is_hidden("#stop")
    eventually(lambda: slow.engine()["running"] == 0)


def test_who_leaves_the_page_leaves_the_text(visit: Any, slow: Served) -> None:
    page = visit(slow)
    begin(page, "The", max_actions=3000, stop_bias=-1)
    page.wait_for_function("() => document.querySelectorAll('.row').length > 3")
    assert slow.engine()["running"] == 1
    page.goto("about:blank")
    eventually(lambda: slow.engine()["running"] == 0)


def test_keys_write_and_those_of_the_player_keep_out_of_the_text(visit: Any, slow: Served) -> None:
    page = visit(slow)
    page.focus("#source")
    page.keyboard.type("not o-t ?")
    page.keyboard.press("Home")
    page.keyboard.press("Control+Enter")
    page.wait_for_function("() => document.querySelectorAll('.row').length > 3")
    page.keyboard.press("Escape")
    page.wait_for_function(DONE)
    step = at(page)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("+")
    assert page.input_value("#source") == "+not o-t ?"
    assert page.evaluate("() => document.activeElement.id") == "source"
    assert (at(page), page.input_value("#speed")) == (step, "10")
    for place in ("#temperature", "#mode-fill"):
        page.focus(place)
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Home")
        assert at(page) == step


def test_everything_can_be_reached_without_a_mouse(visit: Any, server: Served) -> None:
    page = visit(server)
    write(page, "The", max_actions=5)
    page.focus("#mode-continue")
    expected = [
        "source", "write", *RANGES, "use", "copy", "save-text", "save-rollout", "another",
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


def test_start_and_end_are_announced_and_no_edit(visit: Any, slow: Served) -> None:
    page = visit(slow)
    page.evaluate(
        """() => {
            window.said = [];
            const live = document.getElementById("live");
            const heard = new MutationObserver(() => said.push(live.textContent));
            heard.observe(live, { childList: true });
            const others = document.querySelectorAll("output, [role=status], [aria-live]");
            window.more = [...others].filter((each) => each !== live).length;
        }"""
    )
    write(page, "The", max_actions=30, stop_bias=-1)
    page.wait_for_timeout(500)
    said = page.evaluate("() => said")
    assert said[0] == "Writing"
    assert said[1].startswith("Done: 30 actions, ")
    assert said[1].endswith("stopped at the most actions.")
    assert len(said) == 2
    assert page.evaluate("() => more") == 0


# -- settings -------------------------------------------------------------------------------------


def test_settings_are_the_servers_own(visit: Any, server: Served) -> None:
    page = visit(server)
    bodies = asked_for(page)
    told = page.evaluate(
        "() => [...document.querySelectorAll('.fields input')]"
        ".map(({name, placeholder, min, max}) => [name, placeholder, min, max])"
    )
    assert [name for name, *_ in told] == list(RANGES)
    for name, default, low, high in told:
        own = getattr(DecodeConfig, name)
        assert default == ("none" if own is None else f"{own:g}")
        assert float(low) == RANGES[name][1]
        most = Limits.max_actions if name == "max_actions" else 2**53 - 1
        assert high == "" or float(high) == min(RANGES[name][2], most)
    write(page, "The", max_actions=3)
    assert bodies[-1] == {"prompt": "The", "max_actions": 3, "unit": "utf16", "stream": True}
    values = {
        "temperature": 0.25, "top_k": 7, "top_p": 0.5, "min_p": 0.125, "seed": 2**53 - 1,
        "max_actions": 4, "max_length": 99, "max_edits": 3, "max_moves": 2,
        "stop_bias": -0.5, "move_bias": 0.5,
    }  # fmt: skip
    write(page, **values)
    assert bodies[-1] == {"prompt": "The", "unit": "utf16", "stream": True} | values
    assert Rollout.from_json(saved(page)).config == DecodeConfig(**values)


def test_mode_and_settings_stand_in_the_address_and_the_text_does_not(
    visit: Any, server: Served
) -> None:
    page = visit(server, "#mode=fill&temperature=0.5&seed=12&zzz=1")
    assert page.is_checked("#mode-fill")
    assert page.input_value("#temperature") == "0.5"
    assert page.input_value("#seed") == "12"
    mode(page, "rewrite")
    page.fill("#seed", "13")
    page.fill("#source", "secret")
    page.locator("#source").blur()
    assert urlsplit(page.url).fragment == "mode=rewrite&temperature=0.5&seed=13"


def test_a_number_out_of_range_is_not_sent(visit: Any, server: Served) -> None:
    page = visit(server)
    bodies = asked_for(page)
    page.fill("#top_p", "2")
    page.evaluate("() => { document.getElementById('settings').open = false; }")
    page.click("#write")
    assert page.evaluate("() => document.getElementById('settings').open")
    assert page.evaluate("() => document.activeElement.id") == "top_p"
    assert bodies == []


def test_another_seed_is_another_text(visit: Any, server: Served) -> None:
    page = visit(server)
    write(page, "The", max_actions=20)
    first = text(page)
    page.click("#another")
    page.wait_for_function(
        "first => document.querySelector('.text p').textContent !== first", arg=first
    )
    page.wait_for_function(DONE)
    assert page.input_value("#seed") == "1"
    assert text(page) != first
    assert Rollout.from_json(saved(page)).config.seed == 1


# -- gaps and locks -------------------------------------------------------------------------------


def test_a_key_puts_a_gap_and_undo_takes_it_back(visit: Any, server: Served) -> None:
    page = visit(server)
    bodies = asked_for(page)
    page.focus("#source")
    page.keyboard.type("Ben to the park")
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Control+g")
    assert page.input_value("#source") == "Ben{} to the park"
    assert page.is_checked("#mode-fill")
    assert marked(page) == ["{}"]
    page.keyboard.press("Control+z")
    assert page.input_value("#source") == "Ben to the park"
    assert marked(page) == []
    select(page, 7, 10)
    page.click("#gap")
    assert page.input_value("#source") == "Ben to{} park"  # words bring their space along
    page.keyboard.type("{x} {}")
    assert marked(page) == ["{}", "{}"]
    write(page, max_actions=10)
    assert bodies[-1]["text"] == "Ben to{}{x} {} park"
    assert "spans" not in bodies[-1]
    assert text(page).startswith("Ben to")
    assert page.inner_text("#proof").startswith("3 locked stretches, untouched: by SHA-256")


def test_what_is_selected_is_locked_and_follows_the_typing(visit: Any, server: Served) -> None:
    page = visit(server)
    bodies = asked_for(page)
    kept = " " + films.MULTIBYTE  # words bring their space along
    page.fill("#source", f"One two three {films.MULTIBYTE} four")
    select(page, 4, 7)
    page.keyboard.press("Control+Shift+L")
    assert page.is_checked("#mode-rewrite")
    assert marked(page) == [" two"]
    select(page, 14, 14 + len(films.MULTIBYTE.encode("utf-16-le")) // 2)
    page.click("#lock")
    assert marked(page) == [" two", kept]

    def typed(place: int, keys: str, *, over: int = 0) -> list[str]:
        select(page, place, place + over)
        page.keyboard.insert_text(keys) if len(keys) > 9 or keys > "~" else page.keyboard.type(keys)
        return marked(page)

    assert typed(0, "😀 ") == [" two", kept]  # before
    assert typed(8, "X") == [" tXwo", kept]  # inside
    assert typed(6, "<") == [" tXwo", kept]  # at its edges
    assert typed(12, ">") == [" tXwo", kept]
    assert page.input_value("#source").startswith("😀 One< tXwo> three")
    assert typed(10, "", over=0) == [" tXwo", kept]
    page.keyboard.press("Backspace")
    assert marked(page) == [" two", kept]
    assert typed(6, "__", over=3) == ["wo", kept]  # over an edge
    write(page, max_actions=30, seed=2)
    source = page.input_value("#source").encode("utf-16-le")
    spans = bodies[-1]["spans"]
    edges = [0, *(bound for span in spans for bound in span), len(source) // 2]
    stayed = [
        source[2 * a : 2 * b].decode("utf-16-le")
        for a, b in zip(edges[::2], edges[1::2], strict=True)
    ]
    assert [*filter(None, stayed)] == ["wo", kept]
    assert bodies[-1]["unit"] == "utf16"
    assert [part.text for part in Rollout.from_json(saved(page)).locked] == ["wo", kept]
    assert page.inner_text("#proof") == (
        "2 locked stretches, untouched: by SHA-256, checked in this page."
    )


def test_locks_are_opened_by_selection_and_by_their_buttons(visit: Any, server: Served) -> None:
    page = visit(server)
    page.fill("#source", "One two three")
    select(page, 0, 13)
    page.keyboard.press("Control+Shift+L")
    select(page, 4, 8)
    page.wait_for_function(
        "() => document.getElementById('lock-word').textContent === 'Unlock selection'"
    )
    page.click("#lock")
    assert marked(page) == ["One", "three"]
    assert page.locator("#locks li").count() == 2
    page.get_by_role("button", name="Unlock “\u2068One\u2069”").click()
    assert marked(page) == ["three"]
    mode(page, "continue")
    assert marked(page) == []
    assert page.locator("#locks li").count() == 0
    mode(page, "rewrite")
    assert marked(page) == ["three"]


def test_nothing_locked_or_everything_is_told_and_not_asked(visit: Any, server: Served) -> None:
    page = visit(server, "#mode=rewrite")
    bodies = asked_for(page)
    begin(page, "One two")
    assert page.inner_text("#trouble").startswith("Nothing is locked")
    select(page, 0, 7)
    page.click("#lock")
    page.click("#write")
    assert page.inner_text("#trouble").startswith("All of the text is locked")
    assert bodies == []


def test_locked_text_that_was_changed_would_be_told(visit: Any, server: Served) -> None:
    page = visit(server)
    page.evaluate("() => { crypto.subtle.digest = async () => new ArrayBuffer(32); }")
    write(page, "The", max_actions=3)
    page.wait_for_function("() => document.getElementById('proof').textContent !== ''")
    assert page.inner_text("#proof").startswith("Locked text was changed")
    page.evaluate("() => Object.defineProperty(crypto, 'subtle', { value: undefined })")
    write(page)
    page.wait_for_function(
        "() => document.getElementById('proof').textContent"
        ' === "1 locked stretch, untouched: by the server\'s SHA-256."'
    )


@pytest.mark.parametrize(
    ("said", "instead"),
    [('"text": "The"', '"text": "Thx"'), ('"after": "', '"after": "0')],
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


ARITHMETIC = r"""async () => {
    const { change, follow, isLocked, lock, open, unlock } = await import("/playground/locks.js");
    let seed = 7;
    const pick = (below) => {
        seed = (seed * 1103515245 + 12345) % 2147483648;
        return Math.floor((seed / 2147483648) * below);
    };
    const LETTERS = ["a", "b", "😀", "😁", "\n"];
    const some = (most) => Array.from({ length: pick(most) }, () => LETTERS[pick(5)]).join("");
    const flags = (locks, length) => Array.from({ length }, (_, n) => isLocked(locks, n, n + 1));
    const isApart = (locks) => locks.every(([low, high], n) =>
        low < high && (n === 0 || locks[n - 1][1] < low));
    const whole = (text, place) => {
        while (/[\udc00-\udfff]/.test(text[place] ?? "")) place--;
        return place;
    };
    const wrong = [];
    const check = (is, ...what) => { if (!is) wrong.push(what); };
    for (let round = 0; round < 3000; round++) {
        const before = some(12);
        const place = () => whole(before, pick(before.length + 1));
        let locks = [];
        let expected = flags([], before.length);
        for (let n = 0; n < 4; n++) {
            const [start, end] = [place(), place()].sort((a, b) => a - b);
            const isLock = pick(3) > 0;
            locks = (isLock ? lock : unlock)(locks, start, end);
            expected = expected.map((was, m) => (start <= m && m < end ? isLock : was));
            check(isApart(locks), "apart", locks);
            check(`${flags(locks, before.length)}` === `${expected}`, "flags", locks, expected);
        }
        const spans = open(locks, before.length);
        const opened = expected.map((_, n) => spans.some(([a, b]) => a <= n && n < b));
        check(opened.every((is, n) => is !== expected[n]), "open", locks, spans);
        check(isApart(spans), "open apart", locks, spans);
        // typing: what is put in is locked if both its neighbours belong to one lock
        const [start, end] = [place(), place()].sort((a, b) => a - b);
        const put = some(4);
        const inside = locks.some(([low, high]) => low < start && end < high);
        const after = before.slice(0, start) + put + before.slice(end);
        const followed = follow(locks, { start, end, size: put.length });
        const wanted = [...expected.slice(0, start), ...Array(put.length).fill(inside),
            ...expected.slice(end)];
        check(isApart(followed), "followed", locks, start, end, put);
        check(`${flags(followed, after.length)}` === `${wanted}`, "follow", locks, start, end, put);
        // what was typed is found again from the two texts and the caret
        const found = change(before, after, start + put.length);
        const again = before.slice(0, found.start)
            + after.slice(found.start, found.start + found.size) + before.slice(found.end);
        check(again === after, "change", before, after, found);
        check(found.start >= start && found.end <= end, "least", before, after, found);
        check(whole(before, found.start) === found.start && whole(before, found.end) === found.end
            && whole(after, found.start + found.size) === found.start + found.size, "pair", found);
        const isTyped = found.size === put.length && found.start === start;
        check(isTyped || start < end, "typed", before, after, found);
    }
    return wrong.slice(0, 3);
}"""


def test_the_arithmetic_of_locks_is_that_of_one_flag_a_unit(visit: Any, server: Served) -> None:
    assert visit(server).evaluate(ARITHMETIC) == []


# -- what becomes of it ---------------------------------------------------------------------------


def test_the_result_is_used_as_the_text_with_what_was_there_locked(
    visit: Any, server: Served
) -> None:
    page = visit(server)
    page.locator("#mode-fill").check(force=True)
    write(page, "One{} two{}.", seed=5, max_actions=40, stop_bias=-1)
    expected = executed(page)
    page.click("#use")
    assert page.input_value("#source") == expected[-1]
    mode(page, "rewrite")
    assert "".join(marked(page)) == "One two."
    assert len(marked(page)) > 1
    page.keyboard.press("Tab")
    page.click("#first")
    at(page)
    page.click("#use")  # as it is shown
    assert page.input_value("#source") == "One two."
    assert marked(page) == ["One two."]


def test_the_text_is_copied_with_and_without_the_clipboards_leave(
    visit: Any, server: Served
) -> None:
    page = visit(server)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    write(page, MIXED, max_actions=5, seed=3)
    page.click("#copy")
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == text(page)
    page.evaluate("() => navigator.clipboard.writeText('')")
    page.evaluate(
        "() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }"
    )
    page.get_by_role("button", name="Copy", exact=True).click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == text(page)
    assert page.evaluate("() => document.activeElement.id") == "copy"


def test_what_is_saved_is_the_text_and_a_rollout_to_play(
    visit: Any, server: Served, tmp_path: Path
) -> None:
    page = visit(server)
    write(page, MIXED, seed=2**53 - 1, max_actions=25, stop_bias=-1)
    assert saved(page, "#save-text") == text(page)
    line = saved(page)
    assert line.count("\n") == 1
    rollout = Rollout.from_json(line)
    expected = MODEL.plan(MIXED, seed=2**53 - 1, max_actions=25, stop_bias=-1, max_length=16_384)
    assert (rollout.prompt, rollout.config) == (MIXED, expected.request.config)
    (tmp_path / "rollout.json").write_text(line, encoding="utf-8")
    CUTTER.vocab.save(tmp_path)
    small_tokenizers.byte_level().save(str(tmp_path / "tokenizer.json"))
    played = CliRunner().invoke(
        main,
        ["play", str(tmp_path / "rollout.json"), "--model", str(tmp_path), "-o",
         str(tmp_path / "page.html")],
    )  # fmt: skip
    assert played.exit_code == 0, played.output
    assert "1 rollout" in played.output


# -- trouble --------------------------------------------------------------------------------------


def test_a_key_is_asked_for_and_kept_for_the_tab_only(visit: Any) -> None:
    with serving(keys=("the-key",)) as server:
        page = visit(server, expects=f"{REFUSED} 401")
        page.wait_for_selector("#door:not([hidden])")
        assert page.get_attribute("#key", "type") == "password"
        assert serious(page) == []
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.getElementById('trouble').textContent !== ''")
        assert page.inner_text("#trouble") == "The server does not know this key."
        page.fill("#key", "the-key")
        page.click("#door button")
        page.wait_for_selector("#model b")
        assert page.is_hidden("#door")
        assert page.inner_text("#trouble") == ""
        write(page, "The", max_actions=5)
        assert text(page).startswith("The")
        assert "the-key" not in page.url
        assert page.evaluate("() => [localStorage.length, document.cookie]") == [0, ""]
        page.reload()
        page.wait_for_selector("#model b")
        assert page.is_hidden("#door")
        other = visit(server, expects=f"{REFUSED} 401")
        other.wait_for_selector("#door:not([hidden])")


def test_a_full_server_is_told_and_what_was_written_before_stays(visit: Any) -> None:
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
        page.wait_for_function("() => document.getElementById('trouble').textContent !== ''")
        told = page.inner_text("#trouble")
        assert told.startswith("Too many requests wait already; ask again later. Try again in ")
        assert told.endswith((" second.", " seconds."))
        assert page.get_attribute("#trouble", "role") == "alert"
        assert (text(page), page.inner_text("#status")) == (before, status)
        assert saved(page, "#save-text") == before
        third.keyboard.press("Escape")  # before it has begun
        third.wait_for_function(DONE)
        assert third.inner_text("#status").endswith("; interrupted")
        assert (at(third), text(third)) == ((0, 0), "One")
        other.keyboard.press("Escape")
        other.wait_for_function(DONE)
        write(page)
        assert page.inner_text("#trouble") == ""


def test_what_the_server_refuses_is_told_in_its_words(visit: Any, server: Served) -> None:
    page = visit(server, "#mode=fill", expects=f"{REFUSED} 400")
    for body, words in [("no gap", "The text has no gap"), ("a{}" + "b" * 100_001, "100004 char")]:
        begin(page, body)
        page.wait_for_function(
            "words => document.getElementById('trouble').textContent.includes(words)", arg=words
        )
    begin(page, "a{}", max_actions=5000)  # which the browser knows better already
    assert page.evaluate("() => document.getElementById('max_actions').validity.rangeOverflow")
    assert page.inner_text("#trouble") == ""
    assert page.is_hidden("#result")


def test_only_one_is_written_at_a_time_and_an_early_interrupt_reaches_it(visit: Any) -> None:
    with serving(seconds=0.02, plan_seconds=0.7) as server:
        page = visit(server)
        bodies = asked_for(page)
        begin(page, "The", max_actions=3000, stop_bias=-1)
        for _ in range(3):
            page.evaluate("() => document.getElementById('ask').requestSubmit()")
        page.keyboard.press("Escape")  # before the server has answered
        page.wait_for_function("() => !document.body.matches('.writing')")
        eventually(lambda: server.engine()["running"] == 0, 3)
        assert len(bodies) == 1
        assert page.inner_text("#trouble") == ""


def test_a_text_that_the_browser_kept_is_the_one_that_is_sent(visit: Any, server: Served) -> None:
    page = visit(server, expects=f"{REFUSED} 404")  # another page has no icon
    bodies = asked_for(page)
    page.fill("#source", "Ben had{} a dog")
    page.goto(server.url + "/health")
    page.go_back()
    page.wait_for_function("() => document.querySelectorAll('.fields input').length > 8")
    assert page.input_value("#source") == "Ben had{} a dog"
    write(page, max_actions=2)
    assert bodies[-1]["prompt"] == "Ben had{} a dog"


def test_filled_gaps_are_open_when_the_result_is_used(visit: Any, server: Served) -> None:
    page = visit(server, "#mode=fill")
    write(page, "Ben{} to the park.", max_actions=12, stop_bias=-1)
    page.click("#use")
    assert page.is_checked("#mode-rewrite")
    assert marked(page) == ["Ben", " to the park."]
    write(page, max_actions=5)
    assert page.inner_text("#trouble") == ""


def test_trouble_goes_when_something_is_done_about_it(visit: Any, server: Served) -> None:
    page = visit(server, "#mode=rewrite")
    begin(page, "One two")
    assert page.inner_text("#trouble").startswith("Nothing is locked")
    select(page, 0, 3)
    page.click("#lock")
    assert page.inner_text("#trouble") == ""


def test_an_engine_that_fails_and_a_server_that_goes_leave_what_was_written(visit: Any) -> None:
    with serving(seconds=0.02) as server:
        page = visit(server, expects="console: Failed to load resource: net::ERR_")
        begin(page, "The", max_actions=3000, stop_bias=-1)
        page.wait_for_function("() => document.querySelectorAll('.row').length > 9")
        server.fault.write_text("raise once")
        page.wait_for_function(DONE)
        assert page.inner_text("#trouble") == (
            "The engine failed while it ran this request; ask again. What was written so far stays."
        )
        assert at(page)[1] > 9
        assert page.is_disabled("#save-rollout")
        eventually(lambda: server.get("/ready").status_code == 200)
        begin(page)
        page.wait_for_function("() => parseInt(document.getElementById('status').textContent) > 9")
        server.process.kill()
        page.wait_for_function(DONE, timeout=20_000)
        assert "breaks again and again. What was written" in page.inner_text("#trouble")
        assert page.inner_text("#status").endswith("; broken off")
        last = text(page)
        page.locator("#write").blur()
        page.keyboard.press("Home")
        assert (at(page)[0], text(page)) == (0, "The")
        page.keyboard.press("End")
        at(page)
        assert saved(page, "#save-text") == text(page) == last
        page.evaluate("() => { window.setTimeout = (act) => queueMicrotask(act); }")  # be quick
        page.click("#write")
        page.get_by_text("The server cannot be reached.").wait_for()
        assert text(page) == last


# -- for everybody --------------------------------------------------------------------------------


def test_hostile_text_is_text(visit: Any, server: Served) -> None:
    hostile = films.HOSTILE.replace("\r\n", "\n")
    page = visit(server)
    write(page, hostile, max_actions=5)
    page.click("#first")
    at(page)
    assert text(page) == hostile
    mode(page, "rewrite")
    select(page, 0, 60)
    page.click("#lock")
    assert marked(page) == [hostile[:60]]
    write(page)
    page.click("#use")
    assert page.evaluate("() => window.hit") is None
    assert page.locator("main img, main script").count() == 0


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
    assert 'route="/",status="200"' in server.get("/metrics").text


def test_the_playground_can_be_left_out() -> None:
    with serving(playground=False) as server:
        assert server.get("/").status_code == 404
        assert server.get("/playground/playground.js").status_code == 404
        assert server.get("/client.js").status_code == 200
    assert "--no-playground" in CliRunner().invoke(main, ["serve", "--help"]).output


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit: Any, server: Served, scheme: str, width: int) -> None:
    page = visit(
        server, "#mode=fill", expects=f"{REFUSED} 400", color_scheme=scheme,
        viewport={"width": width, "height": 844}, reduced_motion="reduce",
    )  # fmt: skip
    write(page, f"The{{}} {films.MULTIBYTE}", max_actions=30, stop_bias=-1)
    begin(page, "no gap")
    page.wait_for_function("() => document.getElementById('trouble').textContent !== ''")
    assert serious(page) == []
    page.fill("#source", "One two three")
    select(page, 4, 7)
    page.keyboard.press("Control+Shift+L")
    page.get_by_text("Statistics").click()
    assert serious(page) == []


@pytest.mark.parametrize("width", [1200, 390, 320])
def test_the_page_is_as_wide_as_the_window_and_what_is_pressed_large_enough(
    visit: Any, server: Served, width: int
) -> None:
    page = visit(server, viewport={"width": width, "height": 700}, reduced_motion="reduce")
    write(page, films.HOSTILE + "x" * 300, max_actions=30, stop_bias=-1)
    select(page, 0, 200)
    page.keyboard.press("Control+Shift+L")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    small = page.evaluate(
        """() => [...document.querySelectorAll("button, select, summary, input, textarea")]
            .map((node) => [node.id, (node.closest("label") ?? node).getBoundingClientRect()])
            .filter(([, box]) => box.width > 0 && (box.width < 24 || box.height < 24))
            .map(([id]) => id)"""
    )
    assert small == []
    assert page.evaluate("() => document.getAnimations().length") == 0


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


def test_the_cursor_stays_in_view_in_a_long_text(visit: Any, server: Served) -> None:
    page = visit(server)
    page.fill("#source", "A line.\n" * 80)
    page.focus("#source")
    scrolled = "() => document.querySelector('.paper').scrollTop"
    page.keyboard.press("Control+Home")
    page.keyboard.type("a")
    assert page.evaluate(scrolled) == 0
    page.keyboard.press("Control+End")
    page.keyboard.type("z")
    assert page.evaluate(scrolled) > 1000
    assert page.evaluate("() => document.getElementById('source').scrollTop") == 0


def test_it_works_under_a_path(browser: Any, server: Served) -> None:
    page = browser.new_page()
    asked = []

    def pass_on(route: Any) -> None:
        asked.append(urlsplit(route.request.url).path)
        route.fulfill(response=route.fetch(url=route.request.url.replace("/reviser/", "/")))

    page.route("**/reviser/**", pass_on)
    page.goto(f"{server.url}/reviser/")
    page.wait_for_selector("#model b")
    write(page, "The", max_actions=5)
    assert text(page).startswith("The")
    assert len(asked) > 10
    assert all(path.startswith("/reviser/") for path in asked)
    page.close()


def test_ten_thousand_steps_are_taken_one_by_one_in_no_time(visit: Any, server: Served) -> None:
    seconds, is_right = visit(server).evaluate(
        """async () => {
            const { Reel } = await import("/playground/edits.js");
            const reel = new Reel({ text: "", cursor: 0 });
            const texts = [""];
            for (let n = 0; n < 10_000; n++) {
                const text = texts.at(-1);
                const offset = (n * 7919) % (text.length + 1);
                const removed = n % 5 ? "" : text.slice(offset, offset + 2);
                const inserted = n % 7 ? ` w${n}` : "";
                texts.push(text.slice(0, offset) + inserted + text.slice(offset + removed.length));
            }
            let taken = 0;
            for (let n = 0; n < 10_000; n++) {
                const offset = (n * 7919) % (texts[n].length + 1);
                const removed = n % 5 ? "" : texts[n].slice(offset, offset + 2);
                const inserted = n % 7 ? ` w${n}` : "";
                const edit = { offset, removed, inserted, cursor: offset };
                const before = performance.now();
                reel.append({ edit, word: "x", logprob: null, isGiven: false });
                taken += performance.now() - before;
            }
            const steps = [10_000, 5_000, 5_001, 4_999, 256, 255, 0, 9_999];
            return [taken / 1000, steps.every((step) => reel.at(step).text === texts[step])];
        }"""
    )
    assert is_right
    assert seconds < 15, seconds  # a tenth of it or less on an idle machine


def test_a_saved_rollout_is_the_servers_own_line(visit: Any, server: Served) -> None:
    page = visit(server)
    write(page, "The", max_actions=6, seed=1)
    body = {"prompt": "The", "max_actions": 6, "seed": 1}
    answer = json.loads(server.post("/v1/generate", body).text)
    assert json.loads(saved(page)) == answer
