"""The proofreader experiment: cutting text into units and choosing real edits."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("lemminflect")
pytest.importorskip("symspellpy")
pytest.importorskip("spacy")

sys.path.append(str(Path(__file__).parent))

from proofreader_modules import opened

prepare = opened("prepare")


def test_sentences_end_at_marks_but_not_at_abbreviations():
    text = 'Dr. Who came in at 5 p.m. and left. "Was it J. Smith?" he asked. It was.'
    assert prepare.sentences(text) == [
        "Dr. Who came in at 5 p.m. and left.",
        '"Was it J. Smith?" he asked.',
        "It was.",
    ]


@pytest.mark.parametrize(
    ("sentence", "clean"),
    [
        ("The cell divides into two parts.", True),
        ("the cell divides into two parts.", False),
        ("The cell divides into two parts", False),
        ("The cell divvides into two parts.", False),
        ("The cell (divides into two parts.", False),
        ("See http://example.org for the other parts.", False),
    ],
)
def test_only_clean_sentences_are_kept(sentence, clean):
    assert prepare.is_clean(sentence) == clean


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ("We recieve a lot of mail.", "We receive a lot of mail.", ["spelling"]),
        ("She walk to the school.", "She walks to the school.", ["inflection"]),
        ("In attempt to win, he ran.", "In an attempt to win, he ran.", ["function word"]),
        ("However he ran.", "However, he ran.", ["punctuation"]),
        ("A large cat ran.", "A small dog ran.", None),
        ("It was in 1999.", "It was in 2001.", None),
        ("Here it is:", "Here it is.", None),
    ],
)
def test_small_edits_have_a_type(before, after, kinds):
    assert prepare.small_edit(before, after) == kinds


def test_units_are_runs_of_clean_sentences():
    good = "The cell divides into two parts."
    paragraph = " ".join([good] * 9 + ["bad sentence here."] + [good] * 9)
    found = list(prepare.clean_units(paragraph, 1))
    assert {len(unit) for unit in found} <= {len(" ".join([good] * n)) for n in (1, 2, 3, 4)}
    assert all("bad" not in unit for unit in found)
