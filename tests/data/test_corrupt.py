"""Mistakes in clean text: the same for the same seed, of every kind, and nothing else touched."""

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.data.corrupt import Corruption, _drawn, corrupt, corrupted
from reviser.errors import ConfigError

KINDS = tuple(Corruption().kinds)
TEXT = (
    "The cats were sitting on the mat, and their owner was in the garden. It's a nice day; an old"
    " man shows the way to a small house.\n\n"
    "    She has more books than you. Its cover is blue!  See https://example.org/a,b or `code_1`"
    " for the 12 reasons.\n"
)
SEEDS = st.integers(0, 2**64 - 1)
ENGLISH = st.lists(
    st.sampled_from(
        [*TEXT.split(), "\n", "\n\n", "  ", "\t", "3.14", "x=y", "中文", "naïve", "so"]
    ),
    max_size=40,
).map(" ".join)


def only(*kinds: str, rate: float = 5.0) -> Corruption:
    return Corruption(rate=rate, kinds=dict.fromkeys(kinds, 1.0))


def examples(kind: str, text: str, count: int = 300) -> set[str]:
    """What one mistake of a kind makes of a text."""
    setting = only(kind, rate=1e-9)
    return {corrupt(text, np.random.default_rng(n), setting) for n in range(count)}


@given(text=ENGLISH | st.text(), seed=SEEDS, rate=st.floats(0.1, 100))
def test_the_same_random_numbers_make_the_same_mistakes(text: str, seed: int, rate: float) -> None:
    setting = Corruption(rate=rate)
    once, again = (corrupt(text, np.random.default_rng(seed), setting) for _ in range(2))
    assert once == again


@given(text=ENGLISH | st.text(), seed=SEEDS, rate=st.floats(0.1, 100))
def test_line_ends_and_everything_but_words_stay(text: str, seed: int, rate: float) -> None:
    before = corrupt(text, np.random.default_rng(seed), Corruption(rate=rate))
    ends = r"[\n\r\t\x0b\x0c\x1c-\x1e\x85\u2028\u2029]"
    assert re.findall(ends, before) == re.findall(ends, text)
    place = 0  # a neighbour's comma may come to touch them, but each is there, and in order
    for odd in re.findall(r"\S*[\d/_=`\u4e00-\u9fff]\S*", text):
        place = before.index(odd, place) + len(odd)


@given(text=ENGLISH, seed=SEEDS, rate=st.floats(0.1, 100))
def test_a_text_with_words_never_comes_back_unchanged(text: str, seed: int, rate: float) -> None:
    before = corrupt(text, np.random.default_rng(seed), Corruption(rate=rate))
    has_word = any(re.fullmatch("[A-Za-z]{2,}[.,;!]?", chunk) for chunk in text.split())
    assert not has_word or before != text


def test_a_dropped_and_a_doubled_word_do_not_cancel_out() -> None:
    setting = only("dropped", "doubled", rate=100)
    for seed in range(200):
        assert corrupt("so so", np.random.default_rng(seed), setting) != "so so"


@given(text=ENGLISH, seed=SEEDS)
def test_no_mistake_falls_on_another(text: str, seed: int) -> None:
    drawn = _drawn(text, np.random.default_rng(seed), Corruption(rate=100))
    for left, right in pairwise(drawn):
        assert left.start < left.end <= right.start


def test_a_pair_depends_on_seed_and_number_alone() -> None:
    texts = [f"{TEXT} {n}" for n in range(20)]
    every = list(corrupted(texts, Corruption(), seed=5))
    assert list(corrupted(texts[:7], Corruption(), seed=5)) == every[:7]
    others = ["Another text.", *texts[1:]]
    assert list(corrupted(others, Corruption(), seed=5))[1:] == every[1:]
    assert list(corrupted(texts, Corruption(), seed=6)) != every
    assert [pair.after for pair in every] == texts


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_the_unchanged_share_is_the_one_asked_for(share: float) -> None:
    count = 2000
    found = sum(
        pair.is_unchanged
        for pair in corrupted([TEXT] * count, Corruption(unchanged=share), seed=11)
    )
    assert abs(found - share * count) <= 4 * math.sqrt(count * share * (1 - share))


@pytest.mark.parametrize("rate", [3.0, 30.0])
def test_the_rate_is_the_mean_number_of_mistakes(rate: float) -> None:
    text = TEXT * 20
    words = sum(not re.search(r"[\d/_]", chunk) for chunk in text.split())
    setting = Corruption(rate=rate, unchanged=0.0)
    counts = [len(pair.more["mistakes"]) for pair in corrupted([text] * 60, setting, seed=1)]
    expected = rate * words / 100
    assert abs(np.mean(counts) - expected) < 5 * math.sqrt(expected / 60)


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("agreement", "He is", {"He are"}),
        ("agreement", "AN apple", {"A apple"}),
        ("agreement", "the city of stone", {"the cities of stone"}),
        ("agreement", "many copies and houses", {"many copy and houses", "many copies and house"}),
        ("confusion", "Their dog", {"There dog", "They're dog"}),
        ("confusion", "it\u2019s", {"its"}),
        ("swapped", "one two", {"two one"}),
        ("swapped", "one\ntwo", {"one\ntwo"}),
        ("case", "He ran. She sat.", {"he ran. She sat.", "He ran. she sat."}),
        ("punctuation", "Stop, now!", {"Stop now!", "Stop,, now!", "Stop, now", "Stop, now!!"}),
        ("space", "a b  c", {"ab  c", "a  b  c"}),
        ("dropped", "go on", {"go", "on"}),
        ("doubled", "The end.", {"The the end.", "The end end."}),
        ("dropped", "alone", {"alone"}),
    ],
)
def test_each_kind_makes_exactly_these(kind: str, text: str, found: set[str]) -> None:
    assert examples(kind, text) == found


def test_a_typo_has_each_of_its_four_forms() -> None:
    found = examples("typo", "cat", 2000)
    assert {"act", "cta", "at", "ct", "ca", "ccat", "caat", "catt", "vat", "xat"} <= found
    assert "dat" in found  # d is above c
    assert "pat" not in found  # p is far away
    assert examples("typo", "I") == {"I"}


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"rate": 0.0}, "rate is 0.0; it must be above 0"),
        ({"unchanged": 1.5}, "unchanged is 1.5; it must be 0 to 1"),
        ({"kinds": {"typos": 1.0}}, "give any of typo, dropped"),
        ({"kinds": {"typo": 0.0}}, "a weight above 0"),
    ],
)
def test_invalid_settings_are_refused(setting: dict, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Corruption(**setting)
