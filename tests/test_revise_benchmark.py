"""The benchmark of revising: sets become natural text and back, drafts have counted mistakes."""

import json
import random
import sys
from pathlib import Path

import pytest
from revise import drafts, sets

import small_tokenizers
from reviser.errors import DataError
from reviser.evals.revision import edits_between

# -- sets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokenised", "natural"),
    [
        ("I do n't know .", "I don't know."),
        ("It 's Ann 's , is n't it ?", "It's Ann's, isn't it?"),
        ('He said " no , " ( twice ) .', 'He said "no," (twice).'),
        ("The students ' ideas : 10 % more ...", "The students' ideas: 10% more..."),
        (
            "He / she met Mr. Smith -- at 5 p.m. today !",
            "He / she met Mr. Smith -- at 5 p.m. today!",
        ),
        ("CA N'T", "CAN'T"),
        ("", ""),
    ],
)
def test_tokens_become_natural_text_and_back(tokenised: str, natural: str) -> None:
    assert sets.detokenize(tokenised) == natural
    assert sets.tokenize(natural) == tokenised


def test_older_quotation_marks_are_read_and_not_written() -> None:
    text = "She is `` rich . ''"
    assert sets.detokenize(text) == 'She is "rich."'
    assert sets.tokenize('She is "rich."') == sets.normalize(text) == 'She is " rich . "'
    assert sets.round_trips([text, "He saw heat(energy) ."]) == 0.5


def unpacked(folder: Path, **files: str) -> Path:
    place = folder / sets.FOLDER / "jfleg-dev"
    place.mkdir(parents=True)
    for name, text in files.items():
        (place / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


def test_a_set_is_read_line_by_line(tmp_path: Path) -> None:
    references = {f"ref{k}": f"A {k} . \nB\u2028 {k} . \n" for k in range(4)}
    found = sets.jfleg(unpacked(tmp_path, src="a . \nb . \n", **references), "dev")
    assert found.sources == ["a .", "b ."]
    assert found.references == [[f"{name} {k} ." for k in range(4)] for name in "AB"]


def test_a_set_that_is_missing_or_torn_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="fetch"):
        sets.jfleg(tmp_path, "dev")
    references = {f"ref{k}": "A .\n" for k in range(4)}
    with pytest.raises(DataError, match="2 sources and 1 lines"):
        sets.jfleg(unpacked(tmp_path, src="a .\nb .\n", **references), "dev")


# -- drafts ---------------------------------------------------------------------------------------

WORDS = [f"{a}{b}" for a in ("stone", "river", "light", "cloud") for b in ("house", "way", "fall")]


def paragraphs(count: int = 60) -> list[str]:
    rng = random.Random(0)
    return [" ".join(rng.choices([*WORDS, "a", "is", "in"], k=50)) + "." for _ in range(count)]


def words(text: str) -> int:
    return len(text.split())


def test_drafts_are_of_the_size_and_have_the_mistakes_asked_for() -> None:
    made = list(drafts.drafts(paragraphs(), words, each=2, seed=1))
    kinds = {(draft.size, draft.mistakes) for draft in made}
    room = {(n, k) for n in drafts.SIZES for k in drafts.MISTAKES if k * drafts.APART <= n}
    assert kinds == room
    assert len({draft.id for draft in made}) == len(made) == 2 * len(room)
    for draft in made:
        assert words(draft.clean) == draft.size
        assert draft.tokens == words(draft.draft)
        assert len(edits_between(draft.draft, draft.clean)) == draft.mistakes


def test_drafts_follow_from_their_seed() -> None:
    first, again, other = (
        list(drafts.drafts(paragraphs(), words, each=2, seed=seed, sizes=[100]))
        for seed in (1, 1, 2)
    )
    assert first == again != other
    assert len({draft.clean for draft in first if draft.id.endswith("-0")}) == 1


def test_too_little_text_is_refused() -> None:
    with pytest.raises(DataError, match="have 50 tokens; 100 are needed"):
        list(drafts.drafts(paragraphs(1), words, each=1, seed=0, sizes=[100]))
    with pytest.raises(DataError, match="no room for 2"):
        drafts.corrupted("one two three four", 2, random.Random(0))


def test_drafts_are_written_as_json_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clean.txt").write_text("\n\n".join(paragraphs(200)), encoding="utf-8")
    small_tokenizers.byte_level().save(str(tmp_path / "tokenizer.json"))
    arguments = [tmp_path / "clean.txt", "--tokenizer", tmp_path, "--each", 1, "-o", tmp_path / "d"]
    monkeypatch.setattr(sys, "argv", ["drafts.py", *map(str, arguments)])
    drafts.main()
    lines = [json.loads(line) for line in (tmp_path / "d").read_text("utf-8").splitlines()]
    assert {line["size"] for line in lines} == {*drafts.SIZES}
    assert all(0.8 * line["size"] - 10 < line["tokens"] < 1.3 * line["size"] + 50 for line in lines)
