"""What a user meets first: the public names, the cost of importing, the README's promises."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import click
import pytest

import reviser
from reviser.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
HEAVY = ("torch", "transformers", "vllm", "numba")


def heavy_modules_after(code: str) -> list[str]:
    """The heavy modules that a fresh interpreter holds once it has run `code`."""
    paths = os.pathsep.join(str(ROOT / name) for name in ("src", "tests"))  # of this checkout
    report = f"\nimport sys; print('heavy:', *[name for name in {HEAVY} if name in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", code + report],
        capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": paths},  # some code imports `support`
    )  # fmt: skip
    *_, last_line = run.stdout.splitlines()
    label, *names = last_line.split()
    assert label == "heavy:"
    return names


def commands(command: click.Command, path: str) -> Iterator[str]:
    """Every command under `command`, as a person types it."""
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from commands(child, f"{path} {name}")
    else:
        yield path


def test_the_import_check_sees_an_import() -> None:
    assert heavy_modules_after("import numba") == ["numba"]


def test_importing_reviser_imports_nothing_heavy() -> None:
    assert heavy_modules_after("import reviser") == []


def test_asking_for_help_imports_nothing_heavy() -> None:
    help_code = "from reviser.cli import main\nmain(['--help'], standalone_mode=False)"
    assert heavy_modules_after(help_code) == []


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
"""


@pytest.mark.parametrize(
    "use",
    [
        "import reviser.serve.client",
        "import reviser.serve.app, reviser.cli.serve",
        "from reviser import model; from reviser.batch import job, results, run",
        "from support import serving\n"
        "with serving.serving() as server: server.post('/v1/generate', {'prompt': 'a'})",
        "from reviser.cli import main\nmain(['data', 'corrupt', 'README.md', '-o', '/dev/null'],"
        " standalone_mode=False)",
    ],
)  # fmt: skip
def test_client_server_and_writing_do_without_numba(use: str) -> None:
    assert "numba" not in heavy_modules_after(WITHOUT_NUMBA + use + "\ndel sys.modules['numba']")


def test_sampling_without_numba_names_the_extra_that_brings_it() -> None:
    policies = "from reviser.cli import main; main(['lab', 'policies'])"
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA + policies],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert run.stderr == (
        "error: Sampling trajectories and aligning texts need the train extra: numba is not"
        " installed. Install it with: pip install 'reviser-lm[train]'.\n"
    )


def test_a_full_disk_behind_standard_output_gets_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        for words in (["--help"], ["--version"], ["data", "--help"]):
            run = subprocess.run(
                [sys.executable, "-m", "reviser", *words],
                stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
            assert run.returncode == 1
            assert run.stderr == "error: Cannot write the output: No space left on device.\n"


def test_the_public_names_are_exactly_the_exported_ones() -> None:
    exported = {
        name
        for name in dir(reviser)
        if not name.startswith("_") and not isinstance(getattr(reviser, name), ModuleType)
    }
    assert exported == {name for name in reviser.__all__ if not name.startswith("_")}


def test_every_public_name_resolves() -> None:
    for name in reviser.__all__:
        assert getattr(reviser, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        reviser.no_such_name  # noqa: B018


def test_the_installed_command_runs() -> None:
    script = Path(sys.executable).with_name("reviser")
    run = subprocess.run([script, "--help"], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("Usage: reviser")


def test_the_version_is_the_installed_one() -> None:
    assert reviser.__version__ == version("reviser-lm")


def test_the_citation_and_the_changelog_tell_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased, newest = re.findall(r"^## (.*)$", changelog, re.MULTILINE)[:2]
    [released] = re.findall(r"^date-released: (.*)$", citation, re.MULTILINE)
    assert unreleased == "[Unreleased]"
    assert newest == f"[{project['version']}] - {released}"
    assert f"\nversion: {project['version']}\n" in citation


def test_each_claim_of_the_security_page_has_its_place_and_its_test() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if "::" in line]
    assert len(rows) > 20
    for _, where, tests in rows:
        for name in re.findall(r"`([a-z][\w.]*)`", where):
            parts = name.split(".")
            rooms = [ROOT.joinpath("src/reviser", *parts[:n]) for n in range(1, len(parts) + 1)]
            room = next(r for r in reversed(rooms) if r.is_dir() or r.with_suffix(".py").is_file())
            file = room / "__init__.py" if room.is_dir() else room.with_suffix(".py")
            for inside in parts[rooms.index(room) + 1 :]:
                assert re.search(rf"\b{inside}\b", file.read_text()), name
        for path, name in re.findall(r"`(\S+\.py)::(\w+)`", tests):
            text = (ROOT / path).read_text(encoding="utf-8")
            assert f"\ndef {name}(" in text, f"{path}::{name}"


@pytest.mark.parametrize("command", list(commands(main, "reviser")))
def test_every_command_is_in_the_readme(command: str) -> None:
    assert command in README
