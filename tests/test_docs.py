"""The documentation: what it shows runs, and what it names exists."""

import doctest
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import click
import pytest

from reviser.cli import main
from reviser.cli.options import InputPath
from reviser.models.editing import Editing
from support import chatting, fuzz, small_tokenizers

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for pattern in ("*.md", "models/*/README.md", "docs/**/*.md", "experiments/**/*.md")
    for path in ROOT.glob(pattern)
)
BUILT = ("edits.html", "gallery.html", "maze.html", "rollouts.html", "try")  # with the site
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
    """The sentences of a page; of the changelog, those on what is not released yet."""
    text = page.read_text(encoding="utf-8")
    if page.name == "CHANGELOG.md":
        text = text.partition("\n## [Unreleased]")[2].partition("\n## [")[0]
    return FENCE.sub("", text)


# -- code -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("fastapi", reason="fastapi is not installed, so nothing can be served.")
    from support import serving

    with serving.serving() as served:
        yield served.url


@pytest.fixture
def chat_server() -> Iterator[str]:
    with chatting.chat_server() as chat:
        chat.script = chatting.replacing("color", "colour")
        yield chat.url.removesuffix("/v1")


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
    Editing(edit_probabilities=True).save(tmp_path / "runs" / "smoke")  # so that it may revise
    (tmp_path / "runs" / "editor").symlink_to(tmp_path / "runs" / "smoke")
    for name in ("models", "recipes"):
        (tmp_path / name).symlink_to(ROOT / name)
    namespace: dict[str, object] = {"__name__": "page"}
    for line, code, _ in blocks(page, "python", "pycon"):
        if "localhost" in code:
            is_chat = "reviser.Editor(" in code
            url = request.getfixturevalue("chat_server" if is_chat else "server")
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
    for kind in (click.Path, InputPath):
        monkeypatch.setattr(kind, "convert", lambda _, value, *__: Path(value))
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
        is_there = is_there or (file.parent == DOCS and file.name in BUILT)
        # The anchors of the API are made with the site, and checked there.
        if is_there and place.fragment and not place.fragment.startswith("reviser."):
            is_there = file.suffix != ".md" or place.fragment in slugs(file)
        if not is_there:
            broken.append(target)
    assert broken == []
