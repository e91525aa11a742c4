"""Every number of the README, the first page of the site and the results pages has a source.

The results pages are generated. Their measured numbers are fields in braces in `PAGES`, which the
reports fill from the results files; only a number that is typed there needs an entry.

A number counts if it could be a measurement: it has a decimal point, a thousands separator or an
exponent, it is 10 or more, or one of `UNITS` follows. These do not count: code, link targets, list
numerals, versions (a number after one of `PROGRAMS`) and "95 % interval".

`docs/numbers.toml` says how to write an entry. A default that any page shows is compared with the
code: the number after the name of a setting, as in "| `top_k` | 50 |", and after an option of the
server, as in "`--running` (64)".
"""

import ast
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from reviser.engines.settings import DecodeConfig
from reviser.lab.evals import paper
from reviser.proofread.settings import Settings
from reviser.serve.limits import Limits
from reviser.writing.tasks import Revise

ROOT = Path(__file__).parent.parent
ENTRIES = tomllib.loads((ROOT / "docs/numbers.toml").read_text("utf-8"))


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


PAGES = {
    name: prose(ROOT / name) if name.endswith(".py") else (ROOT / name).read_text("utf-8")
    for name in (
        "README.md",
        "docs/index.md",
        "experiments/stories/page_text.py",
        "experiments/revise/page_text.py",
        "experiments/solve/page_text.py",
        "experiments/proofreader/page.py",
    )
}

# -- which numbers count --------------------------------------------------------------------------

UNITS = r"%|[kMGT]i?B|bytes|million|billion|bits|nats|times|(?:micro)?seconds|m?s|minutes|hours"
UNITS += r"|tokens|words|characters|parameters|actions|steps|requests|lines|cores"
PROGRAMS = "Apache|Python|PyTorch|torch|Transformers|vLLM|Accelerate|Neovim|Emacs|Node|Llama"
HIDDEN = re.compile(
    r"^( *)```.*?^\1```|<!--.*?-->|`[^`\n]*`|\]\([^)]*\)(?:\{[^}\n]*\})?|https?://\S+|<[^>\n]*>"
    rf"|^ *\d+\. |95 % intervals?|(?:{PROGRAMS}) \d[\d.]*\d",
    re.DOTALL | re.MULTILINE,
)
NUMBER = re.compile(
    rf"(?<![\w.,^-])(\d+(?:,\d{{3}})*(?:\.\d+)?(?:e-?\d+)?)(?![\w-]|[.,]\d)( (?:{UNITS})(?!\w))?"
)


def numbers(text: str) -> Iterator[re.Match[str]]:
    """Yield the numbers of a page that need a source."""
    shown = HIDDEN.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for found in NUMBER.finditer(shown):
        if found[2] or not re.fullmatch(r"\d", found[1]):
            yield found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It has 5.8 million and 3 of 12, `--set x=99`.", ["5.8 million", "12"]),
        ("1. A [link 10](x/20.md) with Python 3.11, SHA-256, 100M and 127.0.0.1", ["10"]),
        ("| 0 % | 1,002,014 | 3e-4 | 9 steps |", ["0 %", "1,002,014", "3e-4", "9 steps"]),
    ],
)
def test_what_counts_as_a_number(text: str, expected: list[str]) -> None:
    assert [found[0] for found in numbers(text)] == expected


# -- where they come from -------------------------------------------------------------------------


def result(name: str) -> Any:
    """Return a results file: `stories/full/append-0` is in `experiments/stories/results`."""
    folder, _, rest = name.partition("/")
    return json.loads((ROOT / "experiments" / folder / "results" / f"{rest}.json").read_text())


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


def derived(name: str) -> float:
    """Return a figure that is calculated from others."""
    ours, base = (
        result(f"stories/full/{run}")["written"]["trajectories"]["actions_per_token"]["value"]
        for run in ("late-1-marks-0", "append-0")
    )
    return {
        "more steps than the baseline": ours / base - 1,
        "baseline 100M preferred": 1 - paper.ARENA["100M"][paper.BASELINE["100M"]],
        "baseline 300M preferred": 1 - paper.ARENA["300M"][paper.BASELINE["300M"]],
    }[name]


SOURCES: dict[str, Any] = {
    "parameter": parameter,
    "paper": vars(paper),
    "run": lambda name: json.loads((ROOT / "models" / name / "run.json").read_text("utf-8")),
    "recipe": lambda name: yaml.safe_load((ROOT / "recipes" / f"{name}.yaml").read_text("utf-8")),
    "lowest": lowest,
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


def entries(page: str) -> list[str]:
    """Return the parts of a page that have a source."""
    kinds = ENTRIES[page]
    values = map(filled, kinds.get("values", []))
    return [*values, *chain(*kinds.get("printed", {}).values()), *kinds.get("said", [])]


@pytest.mark.parametrize("page", PAGES)
def test_every_number_has_a_source(page: str) -> None:
    text = PAGES[page]
    covered = [
        found.span() for part in entries(page) for found in re.finditer(re.escape(part), text)
    ]
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


# -- defaults -------------------------------------------------------------------------------------

DEFAULTS = {
    each.name: each.default for kind in (DecodeConfig, Revise, Settings) for each in fields(kind)
}


def defaults(text: str) -> Iterator[tuple[str, str, object]]:
    """Yield each default that a page shows: its name, the number, and that of the code."""
    for name, shown in re.findall(r"^\| `([\w-]+)` \| ([\d.,]+) \|", text, re.MULTILINE):
        if name in DEFAULTS:
            yield name, shown, DEFAULTS[name]
    for name, shown in re.findall(r"`--([a-z-]+)` \(([\d,]+(?: MiB)?)", text):
        yield name, shown, getattr(Limits(), name.replace("-", "_"))


def test_defaults_are_those_of_the_code() -> None:
    checked = 0
    for path in {*ROOT.glob("docs/**/*.md")} - {ROOT / "docs/reference/recipe.md"}:
        for name, shown, default in defaults(path.read_text("utf-8")):
            number = shown.replace(",", "")
            value = int(number[:-4]) << 20 if number.endswith("MiB") else float(number)
            assert value == default, f"{path.name}: {name}"
            checked += 1
    assert checked > 10
