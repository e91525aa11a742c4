"""The proofreader experiment: what the base compares, and the scores of rivals."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

torch = pytest.importorskip("torch")
pytest.importorskip("lemminflect")
pytest.importorskip("symspellpy")

from proofreader_modules import opened  # noqa: E402

Edit = opened("examples").Edit
TEXT = "The cats sat on the mat, and they were happy. However, a dog barked at these birds."


@pytest.fixture
def reader(base):
    made = opened("reader").Reader(base, frozen=2)
    torch.manual_seed(1)
    with torch.no_grad():
        for value in made.model.lora.values():
            value.normal_(std=0.3)
        made.model.rows.normal_()
    return made


def test_a_cache_changes_nothing(reader):
    model = reader.model
    ids = torch.tensor([[0, 5, 9, 17, 30, 2, 8, 11]])
    whole = model.upper(model.lower(ids))
    first, cache = model.step(ids[:, :3], None)
    second, cache = model.step(ids[:, 3:6], cache)
    third, _ = model.step(ids[:, 6:], cache)
    torch.testing.assert_close(torch.cat([first, second, third], 1), whole, atol=1e-4, rtol=1e-3)


def test_the_ratio_is_that_of_the_two_texts(reader):
    # An edit near the end, so that all tokens up to the end are compared.
    low = TEXT.index("birds")
    new = TEXT[:low] + "cats."
    (ratio,) = reader.verify(TEXT, [(low, len(TEXT), "cats.")])

    def likelihood(text):
        ids = torch.tensor([[0, *reader.codec.encode(text), reader.newline]])
        scores = reader.model.base_logits(ids)[0, :-1].log_softmax(-1)
        return float(scores.gather(-1, ids[0, 1:, None]).sum())

    assert ratio == pytest.approx(likelihood(new) - likelihood(TEXT), abs=1e-3)


def test_words_that_no_edit_touches_stay():
    pytest.importorskip("errant")
    scoring = opened("scoring")
    words = ["He", "do", "n't", "goes", "there", ",", "really", "."]
    text, spans = scoring.detokenize(words)
    assert text == "He don't goes there, really."
    assert [text[a:b] for a, b in spans] == words
    at = text.index("goes")
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
    one, two, three = Edit(0, 4, "x"), Edit(2, 6, "y"), Edit(6, 6, "z")
    assert apart([three, two, one]) == [one, three]


def test_any_function_from_text_to_edits_is_scored():
    pytest.importorskip("errant")
    scoring = opened("scoring")
    words = ["He", "go", "."]
    text, spans = scoring.detokenize(words)
    gold = [{(1, 2, "goes"): "R:VERB:SVA"}]
    drafts = [scoring.Draft(words, text, spans, gold, ["He goes ."])] * 3
    found = scoring.score(lambda _: [Edit(3, 5, "goes")], drafts)
    assert found["precision"] == found["recall"] == found["f05"][0] == 1
    found = scoring.score_clean(lambda text: [Edit(0, 1, "x")] * (len(text) > 9), ["a b"])
    assert found["per_1000_words"][0] == 0


def test_lists_compare_edits_as_the_reader_does(reader):
    pytest.importorskip("errant")
    lists = opened("lists")
    at = TEXT.index("sat")
    edits = [
        Edit(at, at + 3, "sits"),
        Edit(0, 3, "A"),
        Edit(at, at, "have "),
        Edit(TEXT.index(","), TEXT.index(",") + 1, ""),
        Edit(len(TEXT) - 1, len(TEXT), "!"),
    ]
    found = lists.ratios(reader, TEXT, edits, limit=9, first_token=-99.0)
    expected = reader.verify(TEXT, [tuple(edit) for edit in edits])
    assert [found[n] for n in range(5)] == pytest.approx(expected, abs=1e-3)


def test_lists_suggest_what_people_confuse():
    pytest.importorskip("errant")
    lists = opened("lists")
    text = "he go too the goverment in the evening and she sleeps"
    made = {lists.Edit(*edit) for edit in lists.candidates(text)}
    new = {text[: e.start] + e.text + text[e.end :] for e in made}
    for part in ("He go", "he goes", "go to the", "government in", "at the evening", "evening, and",
                 "too goverment", "sleeps."):  # fmt: skip
        assert any(part in each for each in new), part
