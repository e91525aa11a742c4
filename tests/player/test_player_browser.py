"""The page in a real Chromium: every control, the executor's text, no other host, accessibility.

The first test is a complete walk through the page; the rest runs with `just full`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reviser.player import page as pages
from reviser.player.film import Film
from support import films
from support.browsers import serious, walked

MODEL, REPLAYER = films.replayer()
LONG = 10_000


@pytest.fixture(scope="module")
def long_film() -> Film:
    return films.long(LONG)


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens films in a page that may neither complain nor ask anyone for anything."""
    troubles: list[str] = []
    opened: list[Any] = []

    def opener(*shown: Film, place: str = "", **options: Any) -> Any:
        path = tmp_path / f"page{len(opened)}.html"
        path.write_text(pages.to_html(shown), encoding="utf-8")
        page = browser.new_page(**{"viewport": {"width": 1200, "height": 800}, **options})
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on(
            "request",
            lambda request: (
                request.url.split("#")[0] != path.as_uri()
                and troubles.append(f"request: {request.url}")
            ),
        )
        page.goto(path.as_uri() + place)
        opened.append(page)
        return page

    yield opener
    for page in opened:
        page.close()
    assert troubles == []


def rollout(
    seed: int = 0, prompt: str = films.MULTIBYTE, most: int = 120
) -> tuple[Film, list[str]]:
    """A film and the executor's texts."""
    made = MODEL.generate(prompt, seed=seed, max_actions=most)
    return REPLAYER.film_of(made), list(films.texts(REPLAYER, made))


def filled(seed: int = 0) -> tuple[Film, list[str]]:
    made = MODEL.infill(f"The{{}} {films.MULTIBYTE} on{{}} mat.", seed=seed, max_actions=40)
    return REPLAYER.film_of(made), list(films.texts(REPLAYER, made))


def text(page: Any, pane: int = 0) -> str:
    """What the text's nodes hold; what is drawn around it is no text."""
    return page.evaluate("n => document.querySelectorAll('.text p')[n].textContent", pane)


def at(page: Any) -> int:
    """The step that is shown, once it is drawn."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    return int(page.inner_text("#count").split("/")[0])


def scrub(page: Any, step: int) -> None:
    page.evaluate(
        """step => {
            const scrub = document.getElementById("scrub");
            scrub.value = step;
            scrub.dispatchEvent(new Event("input"));
        }""",
        step,
    )


def test_a_reader_plays_two_rollouts_from_start_to_end(show: Any) -> None:
    (one, texts), (two, others) = rollout(most=50), filled()
    page, last = show(one, two, films.hostile()), len(one.steps)
    for step in (0, 20, last, 5, 0):
        scrub(page, step)
        assert (at(page), text(page)) == (step, texts[step])
    for name, step in (
        ("Next step", 1), ("Previous step", 0), ("Previous step", 0), ("Last step", last),
        ("Next step", last), ("First step", 0),
    ):  # fmt: skip
        page.get_by_role("button", name=name, exact=True).click()
        assert at(page) == step
    page.keyboard.press("Shift+ArrowRight")
    assert at(page) == 10
    page.click("#order")
    page.click("#ghost")
    assert text(page) == texts[10]  # colours change no text
    page.select_option("#speed", "500")
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Play").wait_for()  # it was Pause in between
    page.wait_for_function("() => !document.body.classList.contains('playing')")
    assert (at(page), text(page)) == (last, texts[-1])
    page.get_by_text("Statistics").click()
    assert page.locator(".facts dt").all_inner_texts() == [name for name, _ in one.facts]
    page.select_option("#film", "1")
    opening = sum(step.in_preamble for step in two.steps)
    assert (at(page), text(page)) == (opening, others[opening])  # where the model begins
    page.select_option("#beside", "0")
    assert page.locator(".pane").count() == 2
    assert serious(page) == []
    page.select_option("#film", "2")
    assert films.HOSTILE in text(page)
    assert page.evaluate("() => window.hit") is None
    assert page.locator("img").count() == 0


# -- the text -------------------------------------------------------------------------------------


@pytest.mark.full
def test_steps_over_keyframes_are_the_executors(show: Any) -> None:
    shown, expected = rollout(7, most=700)
    steps = [*range(250, 262), *range(520, 505, -1), 700, 3, 699, 257, 256, 255, 0]
    last = len(shown.steps)
    assert last > 600
    found = walked(show(shown), steps, "textContent")
    assert found == [expected[min(step, last)] for step in steps]


@pytest.mark.full
def test_no_character_is_cut_in_two(show: Any, long_film: Film) -> None:
    page = show(long_film)
    page.click("#order")
    page.click("#ghost")
    for step in (1000, 5000, LONG):
        scrub(page, step)
        at(page)
        pieces = page.locator(".text p > span").all_text_contents()
        assert len(pieces) > 20
        assert not [piece for piece in pieces if "\udc00" <= piece[:1] <= "\udfff"]
    assert text(page) == long_film.final
    assert page.locator(".row").count() < 60  # of 10,000: only those in sight are made


@pytest.mark.full
def test_every_step_shows_its_edit_and_the_cursor(show: Any) -> None:
    shown, _ = rollout(7)
    page, kinds = show(shown), set()
    for step, done in enumerate(shown.steps, start=1):
        scrub(page, step)
        at(page)
        before, fresh, gone = page.evaluate(
            """() => {
                const range = document.createRange();
                range.setStart(document.querySelector(".text p"), 0);
                range.setEndBefore(document.querySelector(".cursor"));
                const joined = (name, of) => [...document.querySelectorAll(name)].map(of).join("");
                return [range.toString().length, joined(".fresh", (node) => node.textContent),
                        joined(".gone", (node) => node.dataset.text)];
            }"""
        )
        assert (before, fresh, gone) == (done.edit.cursor, done.edit.inserted, done.edit.removed)
        kinds.add((bool(fresh), bool(gone)))
    assert kinds == {(False, False), (True, False), (False, True), (True, True)}


@pytest.mark.full
def test_a_search_shows_what_it_looks_for_and_where_that_is(show: Any) -> None:
    _, maker = films.replayer(search=True)
    made = films.revised(maker, "It have a end.", "It has an end.", instruction="Mend it: ")
    shown = maker.film_of(made)
    page = show(shown)
    assert (at(page), text(page)) == (0, "It have a end.")
    page.click("#order")
    for step, told in enumerate(shown.steps, start=1):
        scrub(page, step)
        assert at(page) == step
        marked = page.evaluate(
            "() => [...document.querySelectorAll('.text .found')].map(e => e.textContent).join('')"
        )
        expected = text(page)[slice(*told.found)] if told.found else ""
        assert marked == expected
        says = page.inner_text(".says").replace("\u2068", "").replace("\u2069", "")
        row = page.locator(".row[aria-selected=true] .what").inner_text()
        if told.found:
            assert says.startswith(f"{told.action} \u201c{expected}\u201d;")
            assert row == f"{told.action} \u201c{expected}\u201d"
    assert text(page) == "It has an end."
    assert any(step.found for step in shown.steps)
    scrub(page, next(n for n, step in enumerate(shown.steps, start=1) if step.found))
    assert serious(page) == []


# -- the controls ---------------------------------------------------------------------------------


@pytest.mark.full
def test_the_keys_work_until_they_are_turned_off(show: Any) -> None:
    shown, _ = rollout(most=50)
    other, _ = rollout(1, most=50)
    page = show(shown, other)
    of = len(shown.steps)
    for key, step in (
        ("ArrowRight", 1), ("Shift+ArrowRight", 11), ("ArrowLeft", 10), ("Shift+ArrowLeft", 0),
        ("End", of), ("Home", 0),
    ):  # fmt: skip
        page.keyboard.press(key)
        assert at(page) == step, key
    page.keyboard.press("+")
    assert page.input_value("#speed") == "20"
    page.keyboard.press("-")
    page.keyboard.press("-")
    assert page.input_value("#speed") == "5"
    page.keyboard.press("n")
    assert page.input_value("#film") == "1"
    page.keyboard.press("n")
    page.keyboard.press("p")
    assert page.input_value("#film") == "0"
    page.keyboard.press("o")
    page.keyboard.press("t")
    assert page.is_checked("#order")
    assert page.is_checked("#ghost")
    page.keyboard.press(" ")
    assert page.get_by_role("button", name="Pause").is_visible()
    page.keyboard.press(" ")
    page.keyboard.press("Home")
    page.keyboard.press("?")
    page.get_by_label("Use these keys").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("ArrowRight")
    assert at(page) == 0
    page.focus(".actions")  # a list has keys of its own
    page.keyboard.press("PageDown")
    page.keyboard.press("ArrowUp")
    assert at(page) == 9
    page.keyboard.press("End")
    assert at(page) == len(shown.steps)


@pytest.mark.full
def test_the_list_is_in_step_with_the_text(show: Any) -> None:
    shown, _ = rollout(most=100)
    page = show(shown)
    assert page.locator(".row[aria-selected=true]").count() == 0
    for step in (1, 40, 90, 3):
        scrub(page, step)
        at(page)
        row = page.locator(".row[aria-selected=true]")
        assert row.get_attribute("aria-posinset") == str(step)
        assert row.is_visible()
        assert row.inner_text().split()[1] == shown.steps[step - 1].action.split()[0]
        active = page.get_attribute(".actions", "aria-activedescendant")
        assert active == row.get_attribute("id")
    page.locator(".row").nth(5).click()
    assert at(page) == int(page.locator(".row[aria-selected=true]").get_attribute("aria-posinset"))


@pytest.mark.full
def test_a_link_leads_to_a_step_of_a_rollout(show: Any) -> None:
    (one, few), (two, expected) = rollout(most=40), rollout(1, most=40)
    page = show(one, two, place="#rollout=2&step=17")
    assert (at(page), text(page)) == (17, expected[17])
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => location.hash === '#rollout=2&step=18'")
    page.evaluate("() => { location.hash = '#rollout=1&beside=2&step=5'; }")
    page.wait_for_function("() => document.querySelectorAll('.pane').length === 2")
    assert (at(page), text(page, 0), text(page, 1)) == (5, few[5], expected[5])


@pytest.mark.full
@pytest.mark.parametrize(
    "place", ["#rollout=9&step=9999999", "#rollout=0", "#step=-3", "#step=x", "#%zz", "#beside=77"]
)
def test_a_link_to_nowhere_opens_the_page_all_the_same(show: Any, place: str) -> None:
    shown, expected = rollout(most=20)
    page = show(shown, place=place)
    assert text(page) == expected[at(page)]


# -- for everybody --------------------------------------------------------------------------------


@pytest.mark.full
def test_hostile_text_is_text(show: Any) -> None:
    page = show(films.hostile(), films.hostile(), place="#beside=2")
    for step in (0, 1, 2):
        scrub(page, step)
        at(page)
        page.click("#ghost")
        page.click("#order")
        assert text(page) == [films.HOSTILE, films.HOSTILE * 2, films.HOSTILE][step]
    assert page.evaluate("() => window.hit") is None
    assert page.locator("img").count() == 0
    assert page.evaluate("() => document.scripts.length") == 2
    page.locator("summary").first.click()
    assert "<script>" in page.locator(".facts dt").first.inner_text()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 1200
    outside = page.evaluate(
        "() => [...document.querySelectorAll('h2, .says, .facts, .rows, select')]"
        ".map(node => node.textContent).join('')"
    )
    assert "\u202e" not in outside  # nothing turns the page round
    assert "\\u202e" in outside


@pytest.mark.full
def test_the_page_runs_no_script_but_its_own(browser: Any, tmp_path: Path) -> None:
    html = pages.to_html([rollout(most=5)[0]])
    broken = html.replace("</body>", "<script>window.hit = 1</script></body>")
    assert broken != html
    path = tmp_path / "broken.html"
    path.write_text(broken, encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.evaluate("() => window.hit") is None
    page.close()


@pytest.mark.full
def test_steps_are_announced_when_they_come_to_rest_and_not_while_it_plays(show: Any) -> None:
    shown, _ = rollout(most=60)
    page = show(shown)
    page.evaluate(
        """() => {
            window.said = [];
            const live = document.getElementById("live");
            const heard = new MutationObserver(() => said.push(live.textContent));
            heard.observe(live, { childList: true });
        }"""
    )
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("() => said.length > 0")
    page.select_option("#speed", "100")
    page.click("#play")
    page.wait_for_function("() => !document.body.classList.contains('playing')")
    page.wait_for_function("() => said.at(-1).startsWith('Step')")
    said = page.evaluate("() => said")
    assert [words.split(":")[0] for words in said] == ["Step 5 of 60", "Playing", "Step 60 of 60"]
    assert page.get_attribute("#live", "aria-live") == "polite"


@pytest.mark.full
def test_nothing_moves_by_itself_for_who_asked_for_that(show: Any) -> None:
    shown, _ = rollout(most=10)
    moving = "() => document.getAnimations().length"
    assert show(shown).evaluate(moving) == 1  # the cursor
    assert show(shown, reduced_motion="reduce").evaluate(moving) == 0


@pytest.mark.full
@pytest.mark.parametrize("width", [1200, 320])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(show: Any, scheme: str, width: int) -> None:
    page = show(
        rollout(most=60)[0],
        filled(2)[0],
        place="#rollout=1&beside=2&step=30",
        color_scheme=scheme,
        viewport={"width": width, "height": 844},
        reduced_motion="reduce",
    )
    page.locator("summary").first.click()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    for _ in range(2):  # plain, and with every colour
        assert serious(page) == []
        page.click("#order")
        page.click("#ghost")
    page.click("#help")
    assert serious(page) == []
