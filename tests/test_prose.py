"""How the source reads: docstrings are sentences, dense code is explained, files are short."""

from pathlib import Path

import pytest

from support.docstrings import Docstring, docstrings

SOURCE = Path(__file__).parent.parent / "src" / "reviser"
MAX_FRAGMENTS = 0.05
MAX_LINES = 450
MIN_COMMENTS = 0.05
DENSE = (
    "trajectories/_kernels/*.py",
    "core/mask.py",
    "core/history.py",
    "trajectories/diff.py",
    "trajectories/edit_script.py",
    "trajectories/alignment.py",
)


@pytest.mark.parametrize(
    ("text", "is_function", "is_fragment"),
    [
        ("Return the text.", True, False),
        ("The text.", True, True),
        ("The text.", False, False),
        ("Of the text.", False, True),
        ("`what` it is.", False, True),
        ("", False, False),
    ],
)
def test_a_fragment_is_known_by_its_first_word(
    text: str, is_function: bool, is_fragment: bool
) -> None:
    assert Docstring(Path(), 1, text, is_function).is_fragment == is_fragment


def test_few_docstrings_open_with_a_fragment() -> None:
    found = list(docstrings(SOURCE))
    fragments = [each for each in found if each.is_fragment]
    listed = "\n".join(f"{each.path}:{each.line}: {each.text[:60]!r}" for each in fragments)
    assert len(found) > 1000
    assert len(fragments) <= MAX_FRAGMENTS * len(found), f"\n{listed}"


@pytest.mark.parametrize("pattern", DENSE)
def test_dense_code_explains_itself(pattern: str) -> None:
    lines = [line for path in SOURCE.glob(pattern) for line in path.read_text("utf-8").splitlines()]
    comments = sum(line.lstrip().startswith("#") for line in lines)
    assert comments >= MIN_COMMENTS * len(lines) > 0


def test_no_file_is_long() -> None:
    sizes = {path: len(path.read_text("utf-8").splitlines()) for path in SOURCE.rglob("*.py")}
    assert {str(path): size for path, size in sizes.items() if size > MAX_LINES} == {}
