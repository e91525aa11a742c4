"""Word lists: which words they correct, and with what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.errors import CheckpointError
from reviser.models import wordlists
from reviser.models.wordlists import DISTANCE, LISTS, LONG, MAX_SPELLINGS, WORDS, WordLists

LISTED = ["the", "cat", "cats", "sat", "there", "definitely", "receive", "received", "question"]
SPELLER = WordLists(LISTED)


def spellings(text: str) -> list[tuple[int, int, str]]:
    return [each[:3] for each in SPELLER.suggestions(text)]


def distance(one: str, other: str) -> int:
    """The slow reference: insert, delete, replace a letter or swap two neighbours."""
    table = {(i, 0): i for i in range(len(one) + 1)} | {(0, j): j for j in range(len(other) + 1)}
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            options = [
                table[i - 1, j] + 1,
                table[i, j - 1] + 1,
                table[i - 1, j - 1] + (one[i - 1] != other[j - 1]),
            ]
            if i > 1 and j > 1 and one[i - 2 : i] == other[j - 2 : j][::-1]:
                options.append(table[i - 2, j - 2] + 1)
            table[i, j] = min(options)
    return table[len(one), len(other)]


@given(word=st.text("acdeinrsthq", min_size=3, max_size=11))
def test_corrections_are_the_nearest_words_then_the_most_frequent(word: str) -> None:
    most = DISTANCE if len(word) >= LONG else 1
    near = [(distance(word, each), rank) for rank, each in enumerate(LISTED)]
    expected = [LISTED[rank] for far, rank in sorted(near) if far <= most][:MAX_SPELLINGS]
    found = spellings(word)
    assert found == ([] if word in LISTED else [(0, len(word), new) for new in expected])
    nearest = min(near)[0]
    for each in SPELLER.suggestions(word):
        assert each.extra_letters == distance(word, each.text) - nearest


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        ("the qestion", ["qestion"]),
        ("Qestion the cat.", ["Qestion"]),
        ("The cat. Qestion it?", ["Qestion"]),
        ("The cat Qestion sat.", []),  # a name
        ("the QESTION", []),
        ("a qestion2 and qestion_id", []),
        ("qestion@there.com /qestion/ qestion's re-qestion", []),
        ("teh", ["teh"]),
        ("te", []),
        ("qestion" * 9, []),
    ],
)
def test_what_is_taken_for_a_misspelled_word(text: str, corrected: list[str]) -> None:
    found = spellings(text)
    assert [text[a:b] for a, b in dict.fromkeys((a, b) for a, b, _ in found)] == corrected
    assert all(new[0].isupper() == text[a].isupper() for a, _, new in found)


LISTS_OF_ALL = WordLists(
    ["the", "was", "your", "you're"],
    {"was": ["were"], "your": ["you're"], "you're": ["your"], "i": ["me"]},
    insert=["a", ",", "."],
    delete=["the", ","],
)


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("It was.", ["It were.", "It, was.", "It a was."]),
        ("Was.", ["Were."]),
        ("You\u2019re.", ["Your."]),
        ("It was", ["It were", "It, was", "It a was", "It was."]),
        ("All the,", ["All,", "All, the,", "All a the,"]),
        ("A, b.", ["A b."]),
        ("I.", ["me."]),
        ("WAS.", ["were."]),
        ("x.was was_ -was.", []),
        ("", []),
    ],
)
def test_words_are_replaced_inserted_and_removed(text: str, edited: list[str]) -> None:
    found = [
        text[:start] + new + text[end:] for start, end, new, *_ in LISTS_OF_ALL.suggestions(text)
    ]
    assert sorted(found) == sorted(edited)


@given(text=st.text("aI was the,. your'\n", max_size=30))
def test_suggestions_lie_in_the_text_and_change_it(text: str) -> None:
    for start, end, new, source, _ in LISTS_OF_ALL.suggestions(text):
        assert 0 <= start <= end <= len(text)
        assert text[start:end] != new
        assert source in ("list", "spelling")


def test_a_folder_has_lists_of_limited_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CheckpointError, match=r"words\.txt"):
        WordLists.load(tmp_path)
    (tmp_path / WORDS).write_text("\n".join(LISTED))
    assert [each[:3] for each in WordLists.load(tmp_path).suggestions("sta")] == [(0, 3, "sat")]
    (tmp_path / LISTS).write_text('{"replace": {"cat": ["cats"]}, "delete": ["cat"]}')
    assert [each.text for each in WordLists.load(tmp_path).suggestions("The cat")] == ["cats", ""]
    for damaged in ('{"replace": []}', '{"replace": {"cat": 1}}', '{"insert": 3}', "[]"):
        (tmp_path / LISTS).write_text(damaged)
        with pytest.raises(CheckpointError, match=r"suggestions\.json"):
            WordLists.load(tmp_path)
    many = [f"w{n}" for n in range(wordlists.MAX_OTHERS + 1)]
    for content in (
        {"replace": {"cat": many}},
        {"insert": many},
        {"delete": many},
        {"replace": {"cat": ["x" * 101]}},
        {"replace": {"x" * 101: ["cat"]}},
        {"insert": ["x" * 101]},
    ):
        (tmp_path / LISTS).write_text(json.dumps(content))
        with pytest.raises(CheckpointError, match="are too large: at most 500,000 words, 64"):
            WordLists.load(tmp_path)
    (tmp_path / LISTS).unlink()
    (tmp_path / WORDS).write_text("x" * 101)
    with pytest.raises(CheckpointError, match="100 characters each"):
        WordLists.load(tmp_path)
    (tmp_path / WORDS).write_text("\n".join(LISTED))
    monkeypatch.setattr(wordlists, "MAX_WORDS", len(LISTED))
    WordLists.load(tmp_path)
    monkeypatch.setattr(wordlists, "MAX_WORDS", len(LISTED) - 1)
    with pytest.raises(CheckpointError, match="are too large"):
        WordLists.load(tmp_path)
    monkeypatch.setattr(wordlists, "MAX_FILE_BYTES", 8)
    with pytest.raises(CheckpointError, match="has more than 8 bytes"):
        WordLists.load(tmp_path)
    (tmp_path / WORDS).write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match="is not UTF-8"):
        WordLists.load(tmp_path)
