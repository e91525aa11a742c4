"""How the source reads: docstrings are sentences, dense code is explained, files are short."""

from pathlib import Path

import pytest

from support import prose
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


@pytest.fixture(scope="module")
def passages() -> list[prose.Passage]:
    return list(prose.passages())


def test_no_text_uses_a_word_to_avoid(passages: list[prose.Passage]) -> None:
    faults = [fault for passage in passages for fault in passage.faults]
    assert faults == [], "\n" + "\n".join(faults)


def test_pages_docstrings_comments_and_messages_are_read(passages: list[prose.Passage]) -> None:
    texts = {each.text for each in passages}
    for expected in (
        "Reviser trains and runs language models",  # a page
        "Return a number with three digits",  # a docstring
        "most likely first",  # a comment
        "The history has stopped;",  # a message
    ):
        assert any(text.startswith(expected) for text in texts), expected
    assert not any(text.startswith("import reviser") for text in texts)  # the code of a page


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Write on behind a prompt, as told.", 3),
        ("Continue after the prompt, as reported. There is no limit.", 0),
        ("top_k is no setting, whoever asks", 2),
        ("replicas behind nginx take 3 tokens per second", 0),
        ("3 tokens a second", 1),
    ],
)
def test_words_to_avoid_are_found(text: str, count: int) -> None:
    assert len(prose.Passage(prose.ROOT / "x.md", 1, text).faults) == count


@pytest.mark.parametrize("pattern", DENSE)
def test_dense_code_explains_itself(pattern: str) -> None:
    lines = [line for path in SOURCE.glob(pattern) for line in path.read_text("utf-8").splitlines()]
    comments = sum(line.lstrip().startswith("#") for line in lines)
    assert comments >= MIN_COMMENTS * len(lines) > 0


def test_no_file_is_long() -> None:
    sizes = {path: len(path.read_text("utf-8").splitlines()) for path in SOURCE.rglob("*.py")}
    assert {str(path): size for path, size in sizes.items() if size > MAX_LINES} == {}
