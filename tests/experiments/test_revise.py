"""The experiment on revising: pairs, drafts, public sets, measures and the page made of them."""

import random
from pathlib import Path

import pytest

from experiments.revise import drafts, fewest_steps, gec_sets, run, systems
from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.data.pairs import Pair
from reviser.errors import DataError
from reviser.lab.evals import intervals
from reviser.lab.evals.revision import edits_between
from reviser.model import Reviser
from reviser.models.editing import Editing
from support import small_tokenizers
from support.random_engine import RandomEngine

# -- public sets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokenized", "natural"),
    [
        ("I do n't know .", "I don't know."),
        ("It 's Ann 's , is n't it ?", "It's Ann's, isn't it?"),
        ('He said " no , " ( twice ) .', 'He said "no," (twice).'),
        ("The students ' ideas : 10 % more ...", "The students' ideas: 10% more..."),
        ("Mr. Smith -- at 5 p.m. today !", "Mr. Smith -- at 5 p.m. today!"),
        ("CA N'T", "CAN'T"),
        ("", ""),
    ],
)
def test_tokens_become_natural_text_and_back(tokenized: str, natural: str) -> None:
    assert gec_sets.detokenize(tokenized) == natural
    assert gec_sets.tokenize(natural) == tokenized


def test_older_quotation_marks_are_read_and_not_written() -> None:
    text = "She is `` rich . ''"
    assert gec_sets.detokenize(text) == 'She is "rich."'
    assert gec_sets.tokenize('She is "rich."') == gec_sets.normalize(text) == 'She is " rich . "'
    assert gec_sets.round_trips([text, "He saw heat(energy) ."]) == 0.5


def test_a_set_is_read_line_by_line_and_a_broken_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="fetch"):
        gec_sets.jfleg(tmp_path, "dev")
    folder = tmp_path / gec_sets.FOLDER / "jfleg-dev"
    folder.mkdir(parents=True)
    (folder / "src.txt").write_text("a . \nb . \n")
    for k in range(4):
        (folder / f"ref{k}.txt").write_text(f"A {k} . \nB\u2028 {k} . \n", encoding="utf-8")
    found = gec_sets.jfleg(tmp_path, "dev")
    assert found.sources == ["a .", "b ."]
    assert found.references == [[f"{name} {k} ." for k in range(4)] for name in "AB"]
    for k in range(4):
        (folder / f"ref{k}.txt").write_text("A .\n")
    with pytest.raises(DataError, match="2 sources and 1 lines"):
        gec_sets.jfleg(tmp_path, "dev")


# -- drafts ---------------------------------------------------------------------------------------

WORDS = [f"{a}{b}" for a in ("stone", "river", "light", "cloud") for b in ("house", "way", "fall")]


def paragraphs(count: int = 60) -> list[str]:
    rng = random.Random(0)
    return [" ".join(rng.choices([*WORDS, "a", "is", "in"], k=50)) + "." for _ in range(count)]


def words(text: str) -> int:
    return len(text.split())


def test_drafts_have_the_size_and_the_mistakes_asked_for() -> None:
    made, again, other = (
        list(drafts.drafts(paragraphs(), words, each=2, seed=seed)) for seed in (1, 1, 2)
    )
    assert made == again != other
    kinds = {(n, k) for n in drafts.SIZES for k in drafts.MISTAKES if k * drafts.APART <= n}
    assert {(draft.size, draft.mistakes) for draft in made} == kinds
    assert len({draft.id for draft in made}) == len(made) == 2 * len(kinds)
    for draft in made:
        assert words(draft.clean) == draft.size
        assert draft.tokens == words(draft.draft)
        assert len(edits_between(draft.draft, draft.clean)) == draft.mistakes


def test_too_little_text_is_refused() -> None:
    with pytest.raises(DataError, match="have 50 tokens; 100 are needed"):
        list(drafts.drafts(paragraphs(1), words, each=1, seed=0, sizes=[100]))
    with pytest.raises(DataError, match="too few for 2"):
        drafts.corrupted("one two three four", 2, random.Random(0))


# -- measures -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> Reviser:
    """A model that acts at random."""
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(
        tokenizer, operators=["delete", "replace"], marks=True, search=True
    )
    return Reviser(RandomEngine(vocab), Codec(tokenizer), editing=Editing(edit_probabilities=True))


def test_lost_edits_are_counted_by_position_content_and_needless_changes() -> None:
    sources = ["a b c d", "a b c d", "a b", "a b"]
    wanted = ["a x c d", "a x c y", "a b", "a b"]
    made = ["a x c d", "a z c d", "a b", "a q"]
    assert run.parts_of_the_loss(sources, made, wanted) == {
        "wanted": 3,
        "made": 3,
        "place_found": 2 / 3,
        "content_right_there": 1 / 2,
        "made_elsewhere": 1 / 3,
        "left_alone_if_right": 1 / 2,
    }


def test_the_fewest_steps_are_the_shortest_revision_and_the_text(model: Reviser) -> None:
    made = [
        {"size": 25, "mistakes": many, "draft": "The cat sat.", "clean": "The bat sat."}
        for many in (1, 2)
    ]
    found = fewest_steps.fewest_steps(model.engine.vocab, model.codec, made)
    (row, _) = found["rows"]
    assert row["rewriter"] == len(model.codec.encode("The bat sat.")) + 1
    assert row["n-gram"] <= row["rewriter"]
    assert 2 <= row["editor"] <= 6
    assert found["ids_for_a_mistake"]["value"] == pytest.approx(2 * (row["editor"] - 1) / 3)


def test_systems_are_measured_alike(model: Reviser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "REPEATS", 20)
    compared = {
        "left alone": systems.leave,
        "editor": systems.edit(model, max_actions=20),
        "rewriter": systems.rewrite(model),
        "blocks": systems.replace_blocks(model),
    }
    pairs = [Pair(before=f"The cat sat {n}.", after=f"The dog sat {n}.") for n in range(12)]
    found = run.quality(pairs, compared)
    alone = found["systems"]["left alone"]
    assert alone["locality"]["value"] == 1
    assert alone["steps"]["value"] == alone["exact_match"]["value"] == 0
    assert found["systems"]["editor"]["median_steps"] > 0
    blocks = found["systems"]["blocks"]  # a random model hardly ever writes a valid block
    assert blocks["malformed"]["value"] > 0.5
    assert {*blocks["faults"]} <= {"broken", "absent", "ambiguous", "overlapping"}
    assert not found["systems"]["rewriter"]["faults"]
    draft = {"size": 25, "mistakes": 1, "tokens": 9, "draft": "The cat", "clean": "The dog"}
    cost = run.cost([{"id": "25-1-0", **draft}], compared, repeats=2)
    assert [row["editor"]["steps"] > 0 for row in cost["rows"]] == [True, True]
    befores = [pair.before for pair in pairs]
    read = [a.steps for a in systems.edit(model, min_edit_probability=1.0)(befores)]
    assert read == [1] * len(pairs)  # a draft without likely edits is read and left alone
    edited = [a.steps for a in systems.edit(model, min_edit_probability=1e-12)(befores)]
    assert min(edited) >= 2  # one step to read it, and at least one to edit it
