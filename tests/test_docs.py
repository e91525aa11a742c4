"""The documentation: what it shows runs, what it names exists, and the site asks nobody else."""

import ast
import dataclasses
import doctest
import functools
import http.server
import inspect
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import textwrap
import threading
import tomllib
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

import click
import pytest

from reviser import errors
from reviser.cli import main
from reviser.core.actions import ActionVocab
from reviser.core.trajectory import Trajectory
from reviser.data.pairs import Pair
from reviser.data.shards import Manifest, Shard
from reviser.engines.base import DecodeConfig
from reviser.evals.texts import Prompt
from reviser.writing.model import Revision, Rollout
from support import browsers, fuzz, small_tokenizers

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for pattern in ("*.md", "models/*/README.md", "docs/**/*.md", "experiments/**/*.md")
    for path in ROOT.glob(pattern)
)
PLAYERS = ("edits.html", "gallery.html", "rollouts.html")  # built with the site
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
MARK = re.compile(r"<!-- (runs|prints) -->\n+\Z")
"""On the line before a block of commands that the tests run; `prints`: with just this output."""
SHELL = ("sh", "bash", "console")


class Block(NamedTuple):
    line: int
    """Of its page, before the first of its own."""
    text: str
    mark: str


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[Block]:
    """The blocks of a page in one of these languages."""
    text, found = page.read_text(encoding="utf-8"), []
    for fence in FENCE.finditer(text):
        if fence[2] in languages:
            marked = MARK.search(text[: fence.start()])
            inside = textwrap.dedent(fence[3])
            line = text.count("\n", 0, fence.start(3))
            found.append(Block(line, inside, marked[1] if marked else ""))
    return found


def session(text: str) -> tuple[str, str]:
    """The commands of a block of shell, and what they print, if there are prompts to tell."""
    if not text.startswith("$ "):
        return text, ""
    lines = text.splitlines(keepends=True)
    is_command = [
        line.startswith("$ ") or (n > 0 and lines[n - 1].endswith("\\\n"))
        for n, line in enumerate(lines)
    ]
    given = [line.removeprefix("$ ") for line, yes in zip(lines, is_command, strict=True) if yes]
    shown = [line for line, yes in zip(lines, is_command, strict=True) if not yes]
    return "".join(given), "".join(shown)


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


# -- code -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("fastapi", reason="fastapi is not installed, so nothing can be served.")
    from support import serving

    with serving.serving() as served:
        yield served.url


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python", "pycon")], ids=name_of
)
def test_the_code_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip("torch", reason="torch is not installed, so nothing can write.")
    monkeypatch.chdir(tmp_path)
    fuzz.folder_of_a_fresh_model(
        tmp_path / "runs" / "smoke", tokenizer=small_tokenizers.byte_level()
    )
    for name in ("models", "recipes"):
        (tmp_path / name).symlink_to(ROOT / name)
    namespace: dict[str, object] = {"__name__": "page"}
    for line, code, _ in blocks(page, "python", "pycon"):
        if "localhost" in code:
            url = request.getfixturevalue("server")
            code = re.sub(r"http://localhost:\d+", url, code)
        if code.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(code, namespace, page.name, None, line)
            assert doctest.DocTestRunner().run(test, clear_globs=False).failed == 0
            namespace |= test.globs
        else:  # with lines, so that a traceback names those of the page
            exec(compile("\n" * line + code, page.name, "exec"), namespace)


# -- commands -------------------------------------------------------------------------------------


def commands_in(script: str) -> Iterator[list[str]]:
    """The simple commands of some lines of shell, without redirections and variables."""
    for line in script.replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        command: list[str] = []
        for word in [*words, ";"]:
            if set(word) <= set("();|&"):
                while command and re.fullmatch(r"\w+=.*", command[0]):
                    command.pop(0)
                if command:
                    yield command
                command = []
            elif command[-1:] in (["<"], [">"], [">>"]):
                command.pop()
            else:
                command.append(word)


def arguments_of(command: list[str]) -> list[str] | None:
    """What stands behind `reviser`, or behind `-m reviser`; None for another program."""
    if command[0] == "reviser":
        return command[1:]
    for place in range(1, len(command)):
        if command[place - 1 : place + 1] == ["-m", "reviser"]:
            return command[place + 1 :]
    return None


def parse(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    """As the command line does it, up to the point where something would be done."""
    context = command.make_context(command.name, list(words), parent=parent)
    if isinstance(command, click.Group) and "help" not in context.args:
        _, child, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert child is not None
        parse(child, rest, context)


SCRIPTS = [
    pytest.param(session(block.text)[0], id=f"{name_of(page)}:{block.line}")
    for page in PAGES
    for block in blocks(page, *SHELL)
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_command_shown_could_be_given(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Path, "convert", lambda _, value, *__: Path(value))
    for command in commands_in(script):
        arguments = arguments_of(command)
        if arguments is not None:
            parse(main, arguments)
        elif command[0] == "python" and command[1].endswith(".py"):
            assert (ROOT / command[1]).is_file()
        elif command[0] == "just":
            assert re.search(rf"^{command[1]}\b.*:", (ROOT / "justfile").read_text(), re.MULTILINE)


def test_a_command_that_cannot_be_given_is_seen() -> None:
    with pytest.raises(click.NoSuchOption):
        parse(main, ["info", "MODEL", "--jsn"])
    with pytest.raises(click.UsageError, match="No such command"):
        parse(main, ["informations"])
    script = "OMP_NUM_THREADS=1 reviser a 'b | c' \\\n --d > e; echo | torchrun -m reviser f  # g"
    assert [arguments_of(each) for each in commands_in(script)] == [
        ["a", "b | c", "--d"],
        None,
        ["f"],
    ]


SPANS = sorted(
    {
        (name_of(page), span)
        for page in PAGES
        for span in re.findall(r"`(reviser [a-z][^`\n]*)`", prose(page))
    }
)


@pytest.mark.parametrize(("page", "span"), SPANS)
def test_every_option_named_in_a_sentence_exists(page: str, span: str) -> None:
    del page
    command: click.Command = main
    words = span.split()[1:]
    while isinstance(command, click.Group) and words:
        assert words[0] in command.commands
        command = command.commands[words.pop(0)]
    options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    assert {word.split("=")[0] for word in words if word.startswith("-")} <= {
        *options,
        "-h",
        "--help",
    }


@pytest.mark.parametrize(
    "page",
    [  # the gate runs those of one page, from a cold start each
        pytest.param(page, marks=() if page == ROOT / "README.md" else pytest.mark.full)
        for page in PAGES
        if any(block.mark for block in blocks(page, *SHELL))
    ],
    ids=name_of,
)
def test_commands_that_are_marked_run(page: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed, so nothing can write.")
    for name in ("models", "recipes", "README.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for block in blocks(page, *SHELL):
        if block.mark:
            script, shown = session(block.text)
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=tmp_path,
                env=os.environ | {"PATH": path},
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
            assert block.mark == "runs" or done.stdout == shown


# -- the reference --------------------------------------------------------------------------------


def test_the_reference_of_commands_is_what_its_script_writes() -> None:
    script = runpy.run_path(str(DOCS / "cli_reference.py"))
    page = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    assert page == script["reference"](), "python docs/cli_reference.py > docs/reference/cli.md"


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imported(path: Path) -> dict[str, str]:
    """The module that each imported name of a file comes from."""
    nodes = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in nodes for alias in node.names}


def documented() -> list[str]:
    pages = DOCS.glob("reference/api*.md")
    return [name for page in pages for name in re.findall(r"^::: (\S+)", page.read_text(), re.M)]


def exported() -> dict[str, list[str]]:
    """The names in `__all__` of each module that has one."""
    found = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in parsed(path).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                parts = path.relative_to(ROOT / "src").with_suffix("").parts
                module = ".".join(part for part in parts if part != "__init__")
                found[module] = ast.literal_eval(node.value)
    return found


def test_the_documented_names_are_exactly_the_exported_ones() -> None:
    names = {f"{module}.{name}" for module, some in exported().items() for name in some}
    assert len(names) > 40
    by_place = {name: definition(name) for name in names}
    told = Counter(definition(name) for name in documented())
    assert set(told) == set(by_place.values())
    assert max(told.values()) == 1
    assert set(documented()) <= names


def definition(name: str) -> str:
    """Where a name comes from, so that one object under two names counts once."""
    module, _, attribute = name.rpartition(".")
    path = ROOT / "src" / Path(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    origin = imported(file).get(attribute)
    return definition(f"{origin}.{attribute}") if origin else name


def test_the_drawings_are_what_their_script_draws() -> None:
    for draw in runpy.run_path(str(DOCS / "drawings.py"))["PICTURES"]:
        written = (DOCS / "img" / f"{draw.__name__}.svg").read_text(encoding="utf-8")
        assert written == draw(), "python docs/drawings.py"


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    text = (DOCS / page).read_text(encoding="utf-8")
    section = re.split(r"^#+ ", text.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def coded(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_error_is_told() -> None:
    classes = [
        each
        for _, each in inspect.getmembers(errors, inspect.isclass)
        if each.__module__ == errors.__name__
    ]
    told = {coded(row[0])[0]: coded(row[1]) for row in rows("reference/errors.md", "Classes")}
    assert told == {
        each.__name__: [
            base.__name__
            for base in each.__bases__
            if not issubclass(base, errors.ReviserError) and base is not Exception
        ]
        for each in classes
    }


def test_every_status_of_the_server_is_told() -> None:
    pytest.importorskip("fastapi", reason="fastapi is not installed.")
    from reviser.serve.app import make_app
    from support import serving

    paths = make_app(serving.reviser()).openapi()["paths"]
    known = {
        int(code) for path in paths.values() for how in path.values() for code in how["responses"]
    }
    told = {int(row[0]) for row in rows("reference/errors.md", "Status of the server")}
    assert told == known - {200} | {405, 500}


def names_of(kind: type) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def bodies() -> dict[str, set[str]]:
    """The fields of requests, by the heading they stand under."""
    from reviser.serve import schema

    of_all = set(schema.Settings.model_fields)
    routes = {
        "POST /v1/generate": schema.GenerateBody,
        "POST /v1/infill": schema.InfillBody,
        "POST /v1/revise": schema.ReviseBody,
        "POST /v1/completions": schema.CompletionBody,
    }
    found = {path: set(body.model_fields) - of_all for path, body in routes.items()}
    return found | {"Settings": of_all}


def test_the_fields_of_files_are_those_of_the_code() -> None:
    page = "reference/formats.md"
    expected = {
        "action_vocab.json": {"format"} | names_of(ActionVocab),
        "Trajectory": names_of(Trajectory),
        "Rollout": names_of(Rollout),
        "Prompts with references": names_of(Prompt),
        "Revision": {"text", "draft", "changes", "stop_logprob"} | names_of(Revision),
        "Pairs": names_of(Pair) - {"more"},
        "manifest.json": {"format", "documents", "tokens"} | names_of(Manifest),
    }
    for heading, names in expected.items():
        told = [name for row in rows(page, heading) for name in coded(row[0])]
        assert sorted(told) == sorted(names), heading
    cells = {coded(row[0])[0]: coded(row[1]) for row in rows(page, "Rollout")}
    assert set(cells["statistics"]) == {
        "actions",
        "edits",
        "moves",
        "tokens_before",
        "tokens_after",
    }
    assert {field.name for field in dataclasses.fields(Shard)} <= {
        name for row in rows(page, "manifest.json") for name in coded(row[1])
    }


def test_the_fields_over_the_wire_are_those_of_the_code() -> None:
    pytest.importorskip("pydantic", reason="pydantic is not installed.")
    from reviser.core.codec import TextEdit
    from reviser.serve import schema as wire
    from reviser.serve.events import edit_data

    page = "reference/formats.md"
    for heading, names in bodies().items():
        told = [name for row in rows(page, heading) for name in coded(row[0])]
        assert sorted(told) == sorted(names), heading
    defaults = {coded(row[0])[0]: row[1] for row in rows(page, "Settings")}
    for field in dataclasses.fields(DecodeConfig):
        shown = "none" if field.default is None else str(field.default)
        assert defaults[field.name] == shown
    events = {coded(row[0])[0]: row[2] for row in rows(page, "HTTP: events")}
    assert coded(events["edit"]) == list(
        json.loads(edit_data(1, "move", TextEdit(0, "", "", 0), 0.0))
    )
    (failure,) = rows(page, "HTTP: errors")
    assert set(coded(failure[1])) == set(wire.Problem.model_fields)


def test_the_picture_of_the_rooms_is_the_contract() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(each["layers"] for each in contract["contracts"] if "exhaustive" in each)
    rooms = [set(re.findall(r"\w+", layer)) for layer in layers if layer != "__main__"]
    picture = (DOCS / "img" / "rooms.svg").read_text(encoding="utf-8")
    drawn: dict[str, set[str]] = {}
    for height, room in re.findall(r'class="room" x="[\d.]+" y="([\d.]+)".*?>(\w+)<', picture):
        drawn.setdefault(height, set()).add(room)
    assert list(drawn.values()) == rooms
    table = rows("design/architecture.md", "Rooms")
    assert [set(coded(row[0])) for row in table[:2]] == [{"errors"}, {"core"}]
    assert {room for row in table for room in coded(row[0])} == set.union(*rooms)


# -- links, as they are seen in the repository ----------------------------------------------------


def slugs(page: Path) -> set[str]:
    """The anchors that the headings of a page get, by the rule of GitHub."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_files_lead_somewhere(page: Path) -> None:
    broken = []
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    for target in re.findall(r"\]\(([^()\s]+)\)", text) + re.findall(
        r' (?:src|href)="([^"]+)"', text
    ):
        place = urlsplit(target)
        if place.scheme in ("http", "https", "mailto"):
            continue
        file = page if not place.path else (page.parent / unquote(place.path)).resolve()
        is_there = file.exists() and file.is_relative_to(ROOT.resolve())
        is_there = is_there or (file.parent == DOCS and file.name in PLAYERS)
        # The anchors of the API are made with the site, and checked there.
        if is_there and place.fragment and not place.fragment.startswith("reviser."):
            is_there = file.suffix != ".md" or place.fragment in slugs(file)
        if not is_there:
            broken.append(target)
    assert broken == []


# -- the site -------------------------------------------------------------------------------------


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


@pytest.mark.full
def test_links_of_the_site_lead_somewhere(site: Path) -> None:
    read = {path: Read(path) for path in site.rglob("*.html")}
    broken = []
    for page, found in read.items():
        here = f"http://site/{page.relative_to(site).as_posix()}".removesuffix("index.html")
        for target in found.links + found.loads:
            place = urlsplit(urljoin(here, target))
            if place.netloc != "site" or place.scheme != "http" or page.name == "404.html":
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


@pytest.mark.full
def test_the_site_loads_nothing_of_others_by_its_markup(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert [url for url in Read(page).loads if urlsplit(url).netloc] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", sheet.read_text("utf-8"))


@pytest.mark.full
def test_players_are_published_and_scripts_are_not(site: Path) -> None:
    for name in PLAYERS:
        assert '<script type="application/json"' in (site / name).read_text("utf-8")
    assert list(site.rglob("*.py")) == []


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.mark.full
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
