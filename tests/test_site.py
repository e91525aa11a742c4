"""The site as `just docs` builds it: no broken link, and no request to another host."""

import functools
import http.server
import re
import subprocess
import sys
import threading
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from support import browsers

ROOT = Path(__file__).parent.parent
PLAYERS = ("edits.html", "gallery.html", "maze.html", "rollouts.html")  # built too

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `just docs` does it."""
    if any(find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings")):
        browsers.missing("The group `docs` is not installed.")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return folder


class Read(HTMLParser):
    """The anchors of a page, and what it refers to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        self.ids |= {told[name] for name in ("id", "name") if name in told}
        if tag == "a" and "href" in told:
            self.links.append(told["href"])
        elif tag == "link" and told.get("rel") not in ("prev", "next", "canonical"):
            self.loads.append(told["href"])
        elif "src" in told:
            self.loads.append(told["src"])


def test_links_of_the_site_lead_somewhere(site: Path) -> None:
    read = {path: Read(path) for path in site.rglob("*.html")}
    broken = []
    for page, found in read.items():
        here = f"http://site/{page.relative_to(site).as_posix()}".removesuffix("index.html")
        for target in found.links + found.loads:
            place = urlsplit(urljoin(here, target))
            if place.netloc != "site" or place.scheme != "http" or page.name == "404.html":
                continue
            if place.path == "/try/":  # `just site` adds it
                continue
            file = site / unquote(place.path).lstrip("/")
            file = file / "index.html" if file.is_dir() else file
            if not file.is_file() or (
                place.fragment
                and file.name == "index.html"  # a player's page reads its own
                and unquote(place.fragment) not in read[file].ids
            ):
                broken.append((here, target))
    assert broken == []


def test_the_site_loads_nothing_of_others_by_its_markup(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert [url for url in Read(page).loads if urlsplit(url).netloc] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", sheet.read_text("utf-8"))


def test_players_are_published_and_scripts_are_not(site: Path) -> None:
    for name in PLAYERS:
        assert '<script type="application/json"' in (site / name).read_text("utf-8")
    assert list(site.rglob("*.py")) == []


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing."""


def test_in_a_browser_no_page_asks_another_host_or_complains(site: Path, browser: Any) -> None:
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{server.server_port}/"
        troubles: list[str] = []
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.on("console", lambda message: troubles.append(f"{page.url}: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"{page.url}: {error}"))
        page.on("response", lambda told: told.status < 400 or troubles.append(told.url))

        def let(route: Any) -> None:
            if route.request.url.startswith(home):
                route.continue_()
            else:
                troubles.append(route.request.url)
                route.abort()

        page.route("**/*", let)
        for path in sorted(site.rglob("*.html")):
            if path.name != "404.html":
                page.goto(home + path.relative_to(site).as_posix())
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= 390, f"{path} is {wide} pixels wide on a phone"
        page.goto(home + "reference/cli/")
        page.locator("label[for=__search].md-header__button").click()
        page.locator(".md-search__input").fill("canvas")
        page.locator(".md-search-result__item").first.wait_for()
        page.close()
        server.shutdown()
    assert troubles == []
