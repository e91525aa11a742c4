"""The cache by sentence: an edit leaves the answers about most other sentences as they were."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.engines.base import Branch, Score
from reviser.model import Reviser
from reviser.proofread import cache as caching
from reviser.proofread.cache import Cache
from reviser.proofread.flow import Gain, Proofreading
from reviser.proofread.judge import Judge, Logistic
from reviser.proofread.passage import Passage, passages
from reviser.proofread.suggestion import Suggestion
from reviser.writing.changes import Change
from reviser.writing.tasks import Revise
from support import small_tokenizers
from support.random_engine import RandomEngine

TOKENIZER = small_tokenizers.byte_level()
VOCAB = ActionVocab.from_tokenizer(TOKENIZER, operators=("delete",))
CODEC = Codec(TOKENIZER)
SUBJECTS = ("The cat", "A dog", "One bird", "My friend", "Her horse")
sentences = st.builds("{} sat on the {}.".format, st.sampled_from(SUBJECTS),
                      st.integers(0, 999))  # fmt: skip


def doubts(shown: str) -> Iterator[Suggestion]:
    """Suggest two words for each "the" and "sat"."""
    for found in re.finditer(r"\b(the|sat)\b", shown):
        yield Suggestion(*found.span(), ("a", "cat"), "r", "c", "m")


class Asked(RandomEngine):
    """Keeps the questions; its scores depend on all that stands before."""

    def __init__(self) -> None:
        super().__init__(VOCAB)
        self.questions: list[Score] = []

    def add(self, question: Any) -> int:
        self.questions.append(question)
        return super().add(question)


def proofreader(cache: Cache[Gain] | None) -> tuple[Reviser, Asked]:
    judge = Judge(verdict=Logistic(constant=0.0, weights={"gain": 1.0}), min_confidence=0.5)
    tools = Proofreading(proposers=[doubts], judge=judge, codec=CODEC, begin=VOCAB.stop,
                         context=9999, cache=cache)  # fmt: skip
    engine = Asked()
    return Reviser(engine, CODEC, proofreading=tools), engine


def suggested(model: Reviser, text: str) -> tuple[Change, ...]:
    return model.run(Revise(text)).suggestions


def by_sentence(text: str, changes: tuple[Change, ...]) -> dict[int, list[Any]]:
    """Return the suggestions of each sentence, by its number, with their confidences."""
    ends = [each.end() for each in re.finditer(r"\.", text)]
    found: dict[int, list[Any]] = {}
    for each in changes:
        n = sum(end <= each.start for end in ends)
        start = ends[n - 1] if n else 0
        facts = each.start - start, each.after, each.confidence, each.gain
        found.setdefault(n, []).append(facts)
    return found


def near_by_hand(passage: Passage, cut: int) -> tuple[int, ...]:
    """Return the ids before a branch that its key has; the slow reference."""
    starts, own = [0], 0
    for n in range(1, len(passage.tokens)):
        if CODEC.decode(passage.tokens[:n]).rstrip(" \n").endswith((".", "!", "?")) and (
            CODEC.decode([passage.tokens[n - 1]]).strip()
        ):
            starts.append(n)
    for start in starts:
        own = start if start <= cut - 1 else own
    before = 0
    for start in starts:
        before = start if start <= own - caching.NEAR else before
    return passage.tokens[before : cut - 1]


@settings(max_examples=60)
@given(some=st.lists(sentences, min_size=1, max_size=8), data=st.data())
def test_an_answer_is_kept_for_the_same_ids_after_the_same_sentences(
    some: list[str], data: st.DataObject
) -> None:
    cache, kept = Cache[int](), dict[Any, int]()
    (passage,) = passages(CODEC, " ".join(some), VOCAB.stop)
    for n in range(40):
        cut = data.draw(st.integers(1, len(passage.tokens)))
        ids = data.draw(st.sampled_from([(1,), (2,), (1, 2)]))
        branches = (Branch(cut, ids), Branch(cut, (3,)))
        key = near_by_hand(passage, cut), ids
        assert cache.get(passage, branches) == kept.get(key)
        cache.put(passage, branches, n)
        kept[key] = n


def test_the_oldest_answer_is_dropped() -> None:
    cache, (passage,) = Cache[int](), passages(CODEC, "The cat sat.", VOCAB.stop)
    pairs = [(Branch(1, (n,)), Branch(1, (n + 1,))) for n in range(4)]
    old, caching.CACHED = caching.CACHED, 3
    try:
        for n, pair in enumerate(pairs[:3]):
            cache.put(passage, pair, n)
        assert cache.get(passage, pairs[0]) == 0
        cache.put(passage, pairs[3], 3)
    finally:
        caching.CACHED = old
    assert [cache.get(passage, pair) for pair in pairs] == [0, None, 2, 3]


@settings(max_examples=30)
@given(some=st.lists(sentences, min_size=1, max_size=60, unique=True))
def test_a_text_is_judged_the_same_with_and_without_a_cache(some: list[str]) -> None:
    text = " ".join(some)
    (with_cache, engine), (without, _) = proofreader(Cache()), proofreader(None)
    first = suggested(with_cache, text)
    assert first == suggested(without, text)
    asked = len(engine.questions)
    assert suggested(with_cache, text) == first
    assert len(engine.questions) == asked  # nothing is asked twice


@settings(max_examples=30)
@given(some=st.lists(sentences, min_size=3, max_size=60, unique=True), data=st.data())
def test_an_edit_costs_its_sentence_and_the_next_and_the_others_keep_their_confidence(
    some: list[str], data: st.DataObject
) -> None:
    model, engine = proofreader(Cache())
    before = by_sentence(" ".join(some), suggested(model, " ".join(some)))
    engine.questions.clear()
    n = data.draw(st.integers(0, len(some) - 1))
    changed = [*some]
    changed[n] = f"Yes, the {data.draw(st.integers(1000, 9999))} sat there."
    after = by_sentence(" ".join(changed), suggested(model, " ".join(changed)))
    # A branch of the sentence before may end in the one that changed. More than one that follows
    # is read again if fewer than NEAR ids are between.
    ids = [len(CODEC.encode(f" {each}")) for each in changed]
    last = n + 1
    while sum(ids[n + 1 : last + 1]) < caching.NEAR and last < len(some) - 1:
        last += 1
    assert {k: v for k, v in after.items() if not n - 1 <= k <= last} == {
        k: v for k, v in before.items() if not n - 1 <= k <= last
    }
    asked = sum(len(each.branches) for each in engine.questions)
    assert 0 < asked <= 2 * 2 * 4 * (last - n + 2)
    # Without the cache, all that follows would have another confidence.
    fresh = by_sentence(" ".join(changed), suggested(proofreader(None)[0], " ".join(changed)))
    assert {k: fresh.get(k) for k in (n, min(n + 1, last))} == {
        k: after.get(k) for k in (n, min(n + 1, last))
    }
