"""The proofreader experiment: the scores of rivals."""

import json
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
    found = scoring.score(lambda *_: [scoring.Edit(3, 5, "goes")], drafts)
    assert found["precision"] == found["recall"] == found["f05"][0] == 1
    assert found["rows"] == "1/1/1 1/1/1 1/1/1"


def test_two_versions_are_compared_in_pairs():
    pytest.importorskip("errant")
    over = opened("scoring").f05_over
    better, worse = "1/1/1 " * 12, "1/1/1 " * 8 + "0/1/1 " * 4
    value, low, high = over(better, worse)
    assert 0 < low < value < high
    assert value == pytest.approx(1 / 3, abs=1e-3)
    assert over(worse, worse) == [0, 0, 0]


def test_alarms_have_exact_intervals_and_locked_text_has_none():
    pytest.importorskip("errant")
    scoring = opened("scoring")
    edits = [scoring.Edit(0, 1, "x"), scoring.Edit(4, 5, "x"), scoring.Edit(2, 2, "x")]
    texts = [scoring.Text("a b c d", [(2, 6)])] * 250
    found = scoring.score_clean(lambda *_: edits, texts)
    assert (found["words"], found["alarms"]) == (1000, 500)  # the insertion is before the lock
    assert scoring.poisson(0) == (0.0, pytest.approx(3.689, abs=1e-3))
    assert scoring.poisson(3) == pytest.approx((0.619, 8.767), abs=1e-3)


def test_pages_are_read_as_sentences():
    pytest.importorskip("errant")
    scoring = opened("scoring")
    page = (
        "# A heading of eight words is not a sentence\n\nRead [the\nguide](a.md) and run `just`"
        " with no option.\n\n- Item of a list that has **eight** words.\n- Too short.\n\n"
        "```sh\nNot prose at all, though it ends so.\n```\n"
    )
    assert scoring.page_blocks([page]) == [
        scoring.Text("Read the guide and run `just` with no option.", [(23, 29)]),
        scoring.Text("Item of a list that has eight words.", []),
    ]


def test_the_same_texts_are_drawn_and_fewer_are_a_part_of_more():
    pytest.importorskip("errant")
    scoring = opened("scoring")
    texts = [scoring.Text(f"{n} one two three") for n in range(30)]
    few, many = (scoring.of_words(texts, count) for count in (10, 40))
    assert (len(few), len(many)) == (3, 10)
    assert many[:3] == few == scoring.of_words(texts[::-1], 10)


def test_marked_texts_are_scored_with_their_clean_ones(tmp_path):
    pytest.importorskip("errant")
    rivals = opened("rivals")
    for name, text in {
        "src/a.txt": "I {has=>have|verb} {teh=>the} {saem=>same} car.",
        "clean/b.md": "I has `teh` car.\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    new = {"has": "have", "teh": "them", "car": "cars"}

    def check(text, _):
        found = [(text.index(old), old, after) for old, after in new.items() if old in text]
        return [rivals.Edit(at, at + len(old), after) for at, old, after in found]

    found = rivals.score_marked(tmp_path, check)
    counts = [found[name] for name in ("mistakes", "right", "wrong", "missed", "false", "words")]
    assert counts == [3, 1, 1, 1, 1, 5]
    assert found["clean"]["alarms"] == 2  # none in the code


def test_our_row_is_compared_with_the_version_before(tmp_path):
    pytest.importorskip("errant")
    rivals = opened("rivals")
    output = tmp_path / "results" / "rivals.json"
    rivals.save(output, rivals.BEFORE, "old", "set", {"rows": "0/1/1 1/1/1 " * 6})
    rivals.save(output, rivals.OURS, "new", "set", {"rows": "1/1/1 " * 12})
    found = json.loads(output.read_text())
    assert found[rivals.OURS]["set"]["f05_over_before"][0] == pytest.approx(0.5)
    assert found[rivals.BEFORE]["version"] == "old"
