"""The proofreader experiment: the scores of rivals."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

torch = pytest.importorskip("torch")
pytest.importorskip("lemminflect")
pytest.importorskip("symspellpy")

from proofreader_modules import opened  # noqa: E402


def test_words_that_no_edit_touches_stay():
    pytest.importorskip("errant")
    scoring = opened("scoring")
    words = ["He", "do", "n't", "goes", "there", ",", "really", "."]
    text, spans = scoring.detokenize(words)
    assert text == "He don't goes there, really."
    assert [text[a:b] for a, b in spans] == words
    at = text.index("goes")
    Edit = scoring.Edit
    edits = [Edit(at, at + 4, "go"), Edit(len(text), len(text), "!")]
    revised = scoring.revised_words(words, text, spans, edits)
    assert revised == ["He", "do", "n't", "go", "there", ",", "really", ".", "!"]
    assert scoring.revised_words(words, text, spans, []) == words
    extra = [Edit(at + 4, at + 4, " to")]
    assert scoring.revised_words(words, text, spans, extra)[3:6] == ["goes", "to", "there"]


def test_an_m2_file_is_read(tmp_path):
    pytest.importorskip("errant")
    scoring = opened("scoring")
    path = tmp_path / "a.m2"
    path.write_text(
        "S He go .\nA 1 2|||R:VERB:SVA|||goes|||REQUIRED|||-NONE-|||0\n\n"
        "S Fine .\nA -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0\n"
    )
    assert scoring.read_m2(path) == [
        (["He", "go", "."], [(1, 2, "R:VERB:SVA", "goes")]),
        (["Fine", "."], []),
    ]


def test_several_annotators_count_as_the_best_of_them():
    pytest.importorskip("errant")
    scoring = opened("scoring")
    words = ["He", "go", "there", "."]
    drafts = [
        scoring.Draft(
            words,
            *scoring.detokenize(words),
            [{(1, 2, "went"): "R:VERB:TENSE"}, {(1, 2, "goes"): "R:VERB:SVA"}],
            [],
        )
    ] * 2
    rows, types = scoring.count_edits(drafts, ["He goes there .", "He go there ."])
    assert rows[0] == (1, 1, 1)
    assert rows[1] == (0, 0, 1)
    assert types == {"R:VERB:SVA": 1}
    assert scoring.f_score(1, 1, 2) == {"precision": 1.0, "recall": 0.5, "f05": 0.8333}


def test_edits_that_overlap_an_earlier_one_do_not_count():
    pytest.importorskip("errant")
    apart = opened("scoring").apart
    Edit = opened("scoring").Edit
    one, two, three = Edit(0, 4, "x"), Edit(2, 6, "y"), Edit(6, 6, "z")
    assert apart([three, two, one]) == [one, three]


def test_any_function_from_text_to_edits_is_scored():
    pytest.importorskip("errant")
    scoring = opened("scoring")
    words = ["He", "go", "."]
    text, spans = scoring.detokenize(words)
    gold = [{(1, 2, "goes"): "R:VERB:SVA"}]
    drafts = [scoring.Draft(words, text, spans, gold, ["He goes ."])] * 3
    found = scoring.score(lambda _: [scoring.Edit(3, 5, "goes")], drafts)
    assert found["precision"] == found["recall"] == found["f05"][0] == 1
    found = scoring.score_clean(lambda text: [scoring.Edit(0, 1, "x")] * (len(text) > 9), ["a b"])
    assert found["per_1000_words"][0] == 0
