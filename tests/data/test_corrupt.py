"""Mistakes in clean text: the same for the same seed, of every kind, and nothing else touched."""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.data.corrupt import Corruption, corrupt, corrupted
from reviser.data.english import KINDS
from reviser.data.mistakes import Kind, Site, Word, apply, draw
from reviser.data.words import read_words
from reviser.errors import ConfigError

TEXT = (
    "The cats were sitting on the mat, and their owner was in the garden. It's a nice day; an old"
    " man shows the way to a small house.\n\n"
    "    She has more books than you. Its cover is blue!  See https://example.org/a,b or `code_1`"
    " for the 12 reasons.\n"
)
SEEDS = st.integers(0, 2**64 - 1)
ODD = ["\n", "\n\n", "  ", "\t", "3.14", "x=y", "中文", "naïve", "so", "well-known", "(“I'm”)"]
ENGLISH = st.lists(st.sampled_from([*TEXT.split(), *ODD]), max_size=40).map(" ".join)


def doubled(_: str, words: Sequence[Word]) -> Iterator[Site]:
    """Return the sites of a kind that is not ours."""
    for word in words:
        yield Site(word.start, word.end, [f"{word.text} {word.text}"])


def examples(kind: str, text: str) -> set[str]:
    """What one mistake of a kind makes of a text."""
    setting = Corruption(rate=1e-9, kinds=[each for each in KINDS if each.name == kind])
    return {corrupt(text, np.random.default_rng(n), setting) for n in range(300)}


@given(text=ENGLISH | st.text(), seed=SEEDS, rate=st.floats(0.1, 100))
def test_line_ends_and_everything_but_words_stay(text: str, seed: int, rate: float) -> None:
    before, again = (
        corrupt(text, np.random.default_rng(seed), Corruption(rate=rate)) for _ in range(2)
    )
    assert before == again
    ends = r"[\n\r\t\x0b\x0c\x1c-\x1e\x85\u2028\u2029]"
    assert re.findall(ends, before) == re.findall(ends, text)
    place = 0  # a neighbour's comma may come to touch them, but each is there, and in order
    for odd in re.findall(r"\S*[\d/_=`\u4e00-\u9fff]\S*", text):
        place = before.index(odd, place) + len(odd)
    # A word of three letters can always be misspelled.
    has_word = any(re.fullmatch("[a-z]{3,}[.,;!]?", chunk) for chunk in text.split())
    assert not has_word or before != text


@given(text=ENGLISH, seed=SEEDS)
def test_no_mistake_touches_another(text: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = read_words(text)
    assert all(text[word.start : word.end] == word.text for word in words)
    drawn = draw(text, words, KINDS, len(text), rng, tries=500)
    for left, right in pairwise(drawn):
        assert left.start <= left.end < right.start <= right.end
    assert apply(text, []) == text


def test_mistakes_do_not_cancel_out() -> None:
    kinds = [each for each in KINDS if each.name in ("word missing", "word extra", "word order")]
    for seed in range(400):
        setting = Corruption(rate=100, kinds=kinds)
        assert corrupt("it it it it it", np.random.default_rng(seed), setting) != "it it it it it"


def test_a_pair_depends_on_seed_and_number_alone() -> None:
    texts = [f"{TEXT} {n}" for n in range(20)]
    every = list(corrupted(texts, Corruption(), seed=5))
    assert list(corrupted(texts[:7], Corruption(), seed=5)) == every[:7]
    others = ["Another text.", *texts[1:]]
    assert list(corrupted(others, Corruption(), seed=5))[1:] == every[1:]
    assert list(corrupted(texts, Corruption(), seed=6)) != every
    assert [pair.after for pair in every] == texts


@pytest.mark.parametrize(("share", "rate"), [(0.0, 3.0), (0.2, 15.0)])
def test_shares_and_rates_are_those_asked_for(share: float, rate: float) -> None:
    text, count = TEXT * 5, 30
    setting = Corruption(unchanged=share, rate=rate)
    pairs = list(corrupted([TEXT] * 400, setting, seed=11))
    unchanged = sum(pair.is_unchanged for pair in pairs)
    assert abs(unchanged - share * 400) <= 4 * math.sqrt(400 * share * (1 - share))
    words = sum(word.text[0].isalpha() for word in read_words(text))
    setting = Corruption(unchanged=0.0, rate=rate)
    counts = [len(pair.more["mistakes"]) for pair in corrupted([text] * count, setting, seed=1)]
    expected = rate * words / 100
    assert abs(np.mean(counts) - expected) < 5 * math.sqrt(expected / count)


def test_weights_say_how_often_a_kind_is_drawn() -> None:
    pairs = corrupted([TEXT * 5] * 100, Corruption(unchanged=0.0), seed=3)
    names = [name for pair in pairs for name in pair.more["mistakes"]]
    share = {kind.name: kind.weight / sum(kind.weight for kind in KINDS) for kind in KINDS}
    for name in ("comma missing", "spelling", "noun number", "pronoun"):
        assert 0.5 < names.count(name) / len(names) / share[name] < 2


def test_a_kind_of_one_s_own_is_drawn() -> None:
    setting = Corruption(unchanged=0.0, kinds=[Kind("doubled", 1.0, doubled)])
    (pair,) = corrupted(["one x=y"], setting, seed=0)
    assert (pair.before, pair.more) == ("one one x=y", {"mistakes": ["doubled"]})


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("comma missing", "However, he ran.", {"However he ran."}),
        ("comma missing", "one\n, two", None),
        ("comma extra", "He said that", {"He, said that", "He said, that"}),
        ("comma splice", "He ran. She sat.",
         {"He ran, she sat.", "He ran she sat.", "He ran. she sat."}),
        ("comma splice", "He ran.\nShe sat.", None),
        ("end mark", "Is it?", {"Is it", "Is it."}),
        ("end mark", "He ran.\n", {"He ran\n", "He ran,\n", "He ran?\n"}),
        ("other punctuation", "a well-known (man)",
         {"a wellknown (man)", "a well known (man)", "a well-known man)", "a well-known (man"}),
        ("spelling", "I", None),
        ("confusion", "Their dog", {"There dog", "They're dog"}),
        ("confusion", "in Wood", None),  # a name
        ("article missing", "The cat ran", {"Cat ran"}),
        ("article extra", "I want cats", {"I want the cats", "I want a cats"}),
        ("article replaced", "an old man", {"a old man", "the old man"}),
        ("preposition replaced", "to run", None),
        ("preposition replaced", "among us", {"between us", "in us"}),
        ("preposition missing", "afraid of it", {"afraid it"}),
        ("preposition extra", "they must go", {"they must to go"}),
        ("capital", "I am. He sat", {"i am. He sat", "I am. he sat"}),
        ("space", "go on, now", {"goon, now", "go on,now", "go on , now"}),
        ("apostrophe", "it\u2019s don't", {"its don't", "it\u2019s dont"}),
        ("apostrophe", "the dog's", {"the dogs", "the dogs'"}),
        ("agreement", "She has. They want. He makes.",
         {"She have. They want. He makes.", "She has. They wants. He makes.",
          "She has. They want. He make."}),
        ("agreement", "to want", None),
        ("noun number", "these cats", {"these cat"}),
        ("noun number", "many copies and boxes", {"many copy and boxes", "many copies and box"}),
        ("noun number", "a house.", {"a houses."}),
        ("noun number", "the process", None),
        ("word form", "important", {"importance"}),
        ("pronoun", "He ran", {"Him ran", "His ran", "She ran"}),
        ("word order", "One two", {"Two one"}),
        ("word order", "one\ntwo", None),
        ("word missing", "He is tall", {"He tall", "Is tall"}),
        ("word missing", "Is x=y", None),  # the capital would fall on what is no word
        ("word extra", "Is tall", {"Is is tall"}),
    ],
)  # fmt: skip
def test_each_kind_makes_exactly_these(kind: str, text: str, found: set[str] | None) -> None:
    assert examples(kind, text) == (found or {text})


def test_words_are_misspelled_by_sound_and_by_hand() -> None:
    found = examples("spelling", "their")
    assert {"thier", "thir", "theirr", "theit", "ther"} <= found
    assert "theip" not in found  # p is far from r
    assert {"Cta", "Ct", "Catt"} <= examples("spelling", "Cat")


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"rate": 0.0}, "rate is 0.0; it must be above 0"),
        ({"unchanged": 1.5}, "unchanged is 1.5; it must be 0 to 1"),
        ({"kinds": ()}, "give at least one"),
        ({"kinds": [Kind("typo", 0.0, doubled)]}, "'typo': 0.0.*a weight, all above 0"),
    ],
)
def test_invalid_settings_are_refused(setting: dict, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Corruption(**setting)
