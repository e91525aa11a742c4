"""The exported page in a real Chromium, on a plain static host; Transformers is the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from reviser.core.actions import ActionVocab
from support import exported
from support.browsers import serious

torch = pytest.importorskip("torch")

BEGINNINGS = ["Once upon a time, there was a little", "One day, a big", "In the park there was a"]
WHO = ["dog", "girl named Lily", "boy who had a red ball", "cat with a hat", "bird", "frog", "bear"]
GAPS = [
    f"{name} went to the {place}.{{}} {name} was {mood}."
    for name in ("Tom", "Mia", "Ben", "Anna")
    for place in ("park", "lake")
    for mood in ("sad", "very happy", "tired and went home")
]
PROMPTS = [f"{start} {who}" for start in BEGINNINGS for who in WHO] + GAPS
PROMPTS += [
    "",
    "The",
    "Tom had 3 cars and 12 balls.",
    "Ben saw {} bird. {} He laughed.",
    "{} The end.",
]
READY = "() => document.body.dataset.model"
DONE = "() => !document.body.matches('.writing')"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with exported.hosted(exported.site()) as url:
        yield url


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Opens the page, which may neither log anything nor contact another host."""
    problems: list[str] = []
    pages: list[Any] = []

    def open_page(width: int = 1280, height: int = 900, **options: Any) -> Any:
        page = browser.new_page(viewport={"width": width, "height": height}, **options)
        page.set_default_timeout(120_000)  # the model may load slowly beside other tests
        pages.append(page)
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("request", lambda r: r.url.startswith(address) or problems.append(r.url))
        page.goto(address)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert problems == []


def begin(page: Any, text: str, **settings: object) -> None:
    page.wait_for_selector("body[data-page=open]")
    page.evaluate("() => { document.getElementById('settings').open = true; }")
    for name, value in settings.items():
        page.fill(f"#{name}", str(value))
    page.evaluate("() => { document.getElementById('settings').open = false; }")
    page.locator(f"#mode-{'fill' if '{}' in text else 'continue'}").check(force=True)
    page.fill("#source", text)
    page.click("#write")


def written(page: Any, text: str, **settings: object) -> str:
    """Let the model write to the end; return the text."""
    begin(page, text, **settings)
    page.wait_for_function(DONE)
    assert page.inner_text("#error") == ""
    return page.input_value("#source")


def test_a_text_is_written_without_a_server(visit: Any) -> None:
    page = visit()
    page.wait_for_selector("body[data-page=open]")
    sample = page.input_value("#source")  # something is there before the model is
    assert len(sample) > 200
    assert page.locator("#sheet .late").count() > 0
    page.wait_for_function(READY)
    first = page.locator("#examples button").first
    page.evaluate("() => { document.getElementById('seed').value = '5'; }")
    first.click()
    page.wait_for_function(DONE)
    seed = int(page.inner_text("#facts").split("Seed ")[1].rstrip("."))
    again = page.input_value("#source")
    assert again.startswith(first.inner_text())
    assert page.locator("#sheet [class^=order]").count() > 5
    assert serious(page) == []
    # The same seed gives the same text, and the page agrees with its own sheet.
    assert written(page, first.inner_text(), seed=seed) == again
    sheet = page.evaluate("() => document.getElementById('sheet').textContent")
    assert sheet == again + "\u200b"
    page.click("#restore")
    assert page.input_value("#source") == first.inner_text()
    assert page.locator("#sheet [class^=order]").count() == 0
    assert page.is_hidden("label:has(#mode-proofread)")  # this engine has no such task


def greedy(texts: list[str]) -> list[Any]:
    """Return what Transformers writes, in the page's precision."""
    import reviser
    from reviser.writing.tasks import Continue, Infill

    with reviser.load(exported.MODEL, dtype=torch.float32) as model:
        tasks = [Infill(text) if "{}" in text else Continue(text) for text in texts]
        config = reviser.DecodeConfig(temperature=0)
        return [model.run(task, config) for task in tasks]


@pytest.mark.parametrize("count", [3, pytest.param(50, marks=pytest.mark.full)])
def test_greedy_texts_are_those_of_transformers(visit: Any, count: int) -> None:
    assert len(PROMPTS) == 50
    chosen = PROMPTS[:count] if count == 50 else ["One day, a big dog", GAPS[0], GAPS[-1]]
    page = visit()
    expected = [rollout.text for rollout in greedy(chosen)]
    found = [written(page, text, temperature=0) for text in chosen]
    differing = [text for text, a, b in zip(chosen, found, expected, strict=True) if a != b]
    assert differing == []


@pytest.mark.full
def test_a_seed_gives_the_text_of_the_command(visit: Any) -> None:
    import reviser

    page = visit()
    with reviser.load(exported.MODEL, dtype=torch.float32) as model:
        expected = [model.generate(PROMPTS[n], seed=n).text for n in range(5)]
    found = [written(page, PROMPTS[n], seed=n) for n in range(5)]
    assert found == expected


@pytest.mark.full
def test_writing_can_be_stopped_and_the_text_is_kept(visit: Any) -> None:
    page = visit()
    begin(page, "Once upon a time", seed=1)
    page.wait_for_function("() => document.querySelectorAll('#sheet [class^=order]').length > 3")
    page.keyboard.press("Escape")
    page.wait_for_function(DONE)
    assert page.inner_text("#status").startswith("Stopped. ")
    text = page.input_value("#source")
    assert text.startswith("Once upon a time")
    page.click("#keep")
    assert page.locator("#sheet [class^=order]").count() == 0
    assert written(page, text, seed=2).startswith(text)


@pytest.mark.full
def test_faults_are_explained(visit: Any) -> None:
    page = visit()
    page.wait_for_function(READY)
    page.locator("#mode-fill").check(force=True)
    page.fill("#source", "No gap here.")
    page.click("#write")
    page.wait_for_function("() => document.getElementById('error').textContent")
    assert page.inner_text("#error") == "The text has no gap. Put one where something is missing."
    begin(page, "word " * 400)
    page.wait_for_function("() => document.getElementById('error').textContent.includes('limit')")
    assert page.inner_text("#error").endswith("this model's limit is 383. Shorten it.")
    assert page.input_value("#source") == "word " * 400
    page.fill("#source", "Ben")
    assert page.inner_text("#error") == ""


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_needs_no_mouse(visit: Any, scheme: str) -> None:
    page = visit(390, 844, color_scheme=scheme)
    page.wait_for_function(READY)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    assert serious(page) == []
    page.focus("#source")
    page.keyboard.press("Control+A")
    page.keyboard.type("Ben  went home.")
    for _ in range(len(" went home.")):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Control+g")
    assert page.input_value("#source") == "Ben {} went home."
    assert page.locator("#sheet .gap").all_text_contents() == ["{}"]
    page.keyboard.press("Control+Enter")
    page.wait_for_function("() => document.body.matches('.written:not(.writing)')")
    text = page.input_value("#source")
    assert text.startswith("Ben ")
    assert text.endswith(" went home.")
    assert "The text is: Ben " in page.inner_text("#live")


def test_the_page_is_self_contained() -> None:
    folder = exported.site()
    html = (folder / "index.html").read_text("utf-8")
    assert "http:" not in html
    assert "https:" not in html
    assert "default-src 'self'" in html.replace("&#x27;", "'")
    assert ActionVocab.load(folder / "model") == ActionVocab.load(exported.MODEL)
