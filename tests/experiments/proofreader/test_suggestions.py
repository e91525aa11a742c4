"""The proofreader experiment: suggestions of a trained model and their scores."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

torch = pytest.importorskip("torch")
pytest.importorskip("lemminflect")
pytest.importorskip("symspellpy")

from proofreader_modules import opened  # noqa: E402

proofread = opened("proofread")
Suggestion, choose, corrected = proofread.Suggestion, proofread.choose, proofread.corrected

TEXT = "The cats sat on the mat, and they were happy. However, a dog barked at these birds."


@pytest.fixture
def reader(base):
    made = proofread.Reader(base, None, frozen=2)
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


def test_every_boundary_has_a_probability(reader):
    tokens = reader.codec.encode(TEXT)
    probabilities, _ = reader.detect(tokens)
    assert probabilities.shape == (len(tokens) + 1,)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()


def test_suggestions_are_edits_of_the_text(reader):
    found = reader.suggest(TEXT, 0.0, limit=40)
    for each in found:
        assert 0 <= each.start <= each.end <= len(TEXT)
        assert TEXT[each.start : each.end] != each.text
        assert 0 <= each.content <= 1


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


def test_choose_keeps_the_best_of_two_that_overlap():
    one, two, three = (
        Suggestion(a, b, "x", detection, 1.0, ratio)
        for a, b, detection, ratio in ((0, 4, 0.6, 2.0), (2, 6, 0.9, 2.0), (8, 9, 0.7, -1.0))
    )
    assert choose([one, two, three], detection=0.5, ratio=0.0) == [two]
    assert choose([one, two, three], detection=0.5, ratio=-5.0) == [two, three]
    assert corrected("abcdefghij", [two, three]) == "abxghxj"


def test_words_that_no_edit_touches_stay():
    pytest.importorskip("errant")
    evaluate = opened("evaluate")
    words = ["He", "do", "n't", "goes", "there", ",", "really", "."]
    text, spans = evaluate.detokenize(words)
    assert text == "He don't goes there, really."
    assert [text[a:b] for a, b in spans] == words
    at = text.index("goes")
    edits = [Suggestion(at, at + 4, "go", 1, 1, 1), Suggestion(len(text), len(text), "!", 1, 1, 1)]
    revised = evaluate.revised_words(words, text, spans, edits)
    assert revised == ["He", "do", "n't", "go", "there", ",", "really", ".", "!"]
    assert evaluate.revised_words(words, text, spans, []) == words
    extra = [Suggestion(at + 4, at + 4, " to", 1, 1, 1)]
    assert evaluate.revised_words(words, text, spans, extra)[3:6] == ["goes", "to", "there"]


def test_an_m2_file_is_read(tmp_path):
    pytest.importorskip("errant")
    evaluate = opened("evaluate")
    path = tmp_path / "a.m2"
    path.write_text(
        "S He go .\nA 1 2|||R:VERB:SVA|||goes|||REQUIRED|||-NONE-|||0\n\n"
        "S Fine .\nA -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0\n"
    )
    assert evaluate.read_m2(path) == [
        (["He", "go", "."], [(1, 2, "R:VERB:SVA", "goes")]),
        (["Fine", "."], []),
    ]
