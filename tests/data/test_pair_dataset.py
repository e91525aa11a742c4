"""Pairs as examples: each revises its draft exactly, stateless, with separate splits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed, so there is nothing to batch for.")

from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec
from reviser.data.pair_dataset import PairSplit, PairStream, TokenPairs
from reviser.data.pairs import Pair, write_pairs
from reviser.errors import DataError, VocabError
from reviser.trajectories.policy import Edits, PairPolicy, Rewrite
from support import small_tokenizers

TOKENIZER = small_tokenizers.byte_level()
VOCAB = ActionVocab.from_tokenizer(
    TOKENIZER, operators=["delete", "replace"], max_move=16, marks=True, search=True
)
CODEC = Codec(TOKENIZER)
CONTEXT = 160
texts = st.lists(st.sampled_from(["The", " cat", " sat", ".", " on", " é", "\n"])).map("".join)
pairs = st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=9)
policies = st.sampled_from([Edits(), Edits(address="moves"), Edits(address="search"), Rewrite()])


def tokens_of(given: list[tuple[str, str, str]]) -> TokenPairs:
    return TokenPairs([CODEC.encode(text) for pair in given for text in pair], "made up")


def stream_of(given: list[tuple[str, str, str]], policy: PairPolicy, seed: int = 0) -> PairStream:
    split = PairSplit(tokens_of(given), 0.0, CONTEXT)
    return PairStream(split, VOCAB, policy, CODEC, context=CONTEXT, seed=seed)


@given(given=pairs, policy=policies, seed=st.integers(0, 99))
def test_every_pair_is_one_example_that_ends_with_what_it_became(
    given: list[tuple[str, str, str]], policy: PairPolicy, seed: int
) -> None:
    stream = stream_of(given, policy, seed)
    examples = stream.examples(np.arange(2 * len(given)))
    for half in (examples[: len(given)], examples[len(given) :]):
        seen = []
        for example in half:
            text = CODEC.decode(Canvas.replay(VOCAB, example.ids.tolist()).tokens())
            seen.append((text, int(example.learned.sum()), example.text_tokens))
            assert not example.is_cut
            assert example.ids[-1] == VOCAB.stop
            assert example.learned[-1]
        shown = [a + b + c if isinstance(policy, Rewrite) else a + c for a, b, c in given]
        assert sorted(text for text, *_ in seen) == sorted(shown)
    if isinstance(policy, Rewrite):
        assert all(learned == size + 1 for _, learned, size in seen)
    else:  # what stays as it is costs nothing but STOP
        unchanged = [(a + c) for a, b, c in given if b == c]
        for text in unchanged:
            assert any(learned == 1 for found, learned, _ in seen if found == text)
    again = stream.examples(np.arange(2 * len(given))[::-1])[::-1]
    assert all(np.array_equal(a.ids, b.ids) for a, b in zip(examples, again, strict=True))
    assert len({example.digest for example in examples}) == len(examples)


@given(given=pairs)
def test_labels_for_edit_probabilities_cover_the_draft_and_change_nothing_else(
    given: list[tuple[str, str, str]],
) -> None:
    places = np.arange(len(given))
    plain = stream_of(given, Edits()).examples(places)
    noted = stream_of(given, Edits(edit_probabilities=True)).examples(places)
    drafts = {a + c: b for a, b, c in given}
    for bare, example in zip(plain, noted, strict=True):
        assert np.array_equal(bare.ids, example.ids)
        more = np.flatnonzero(example.learned & ~bare.learned)
        assert np.array_equal(bare.labels[bare.learned], example.labels[bare.learned])
        assert more.tolist() == list(range(more[0], more[-1] + 1)) if more.size else True
        shown = CODEC.decode(example.ids[more - 1].tolist())
        text = CODEC.decode(Canvas.replay(VOCAB, example.ids.tolist()).tokens())
        if [a + c for a, _, c in given].count(text) == 1:
            assert shown == drafts[text]
        if (example.labels[more] != VOCAB.stop).any():
            assert bare.learned.sum() > 1  # it is revised


def test_the_label_after_a_token_is_the_edit_needed_before_it() -> None:
    assert VOCAB.delete is not None
    cases = [
        ("The cat sat", "The cat has sat", "The cat s", CODEC.encode(" has")[0]),
        ("The cat sat on", "The cat on", "The cat sat on", VOCAB.delete),
    ]
    for before, after, read, note in cases:
        (example,) = stream_of([("", before, after)], Edits(edit_probabilities=True)).examples(
            np.arange(1)
        )
        (place,) = np.flatnonzero(
            example.learned & (example.labels != example.ids) & (example.labels != VOCAB.stop)
        )
        ids = example.ids[:place]
        assert CODEC.decode(ids[VOCAB.kinds[ids] == Kind.INSERT].tolist()) == read
        assert example.labels[place] == note


@given(texts=st.lists(texts, min_size=1, max_size=60))
def test_pairs_with_the_same_result_are_in_the_same_split(texts: list[str]) -> None:
    given = [("", draft, text) for text in texts for draft in ("The", " cat")]
    held_out = []
    for is_held_out in (False, True):
        try:
            split = PairSplit(tokens_of(given), 0.5, CONTEXT, held_out=is_held_out)
        except DataError as error:
            assert "has no pair that fits a context of 160" in str(error)  # noqa: PT017
            held_out.append(set())
            continue
        held_out.append({tuple(split.read(n).after.tolist()) for n in range(len(split))})
    assert not held_out[0] & held_out[1]
    assert len(held_out[0] | held_out[1]) == len({*texts})


def test_pairs_that_do_not_fit_are_left_out_and_long_edits_are_cut() -> None:
    long, just = "x" * 200, "x" * 140
    split = PairSplit(tokens_of([("", long, long), ("", just, "y" * 140)]), 0.0, CONTEXT)
    assert (len(split), split.left_out) == (1, 1)
    stream = PairStream(split, VOCAB, Edits(), CODEC, context=CONTEXT)
    (example,) = stream.examples(np.arange(1))
    assert example.is_cut
    assert len(example.ids) == len(example.learned) == CONTEXT


def test_files_are_read_in_order_and_known_by_their_content(tmp_path: Path) -> None:
    made = [
        Pair(before="The cat", after="The cat sat", instruction="On"),
        Pair(before="", after=""),
    ]
    write_pairs(tmp_path / "a.jsonl", made)
    write_pairs(tmp_path / "b.jsonl", made[:1])
    both = TokenPairs.open(sorted(tmp_path.glob("*.jsonl")), CODEC)
    assert len(both) == 3
    assert [CODEC.decode(part.tolist()) for part in both[0]] == ["On", "The cat", "The cat sat"]
    assert [len(part) for part in both[1]] == [0, 0, 0]
    one = TokenPairs.open(tmp_path / "a.jsonl", CODEC)
    assert both.fingerprint != one.fingerprint
    assert one.fingerprint == TokenPairs.open([tmp_path / "a.jsonl"], CODEC).fingerprint


def test_a_vocabulary_without_the_needed_actions_is_refused() -> None:
    split = PairSplit(tokens_of([("", "a", "b")]), 0.0, CONTEXT)
    bare = replace(ActionVocab.build(300, operators=["delete"], delimiter=False), begin=None)
    refused = [(("Mend", "a", "b"), "an instruction"), (("", "", "b"), "an empty draft")]
    for pair, told in refused:
        mixed = PairSplit(tokens_of([pair, ("", "a", "b")]), 0.0, CONTEXT)
        with pytest.raises(VocabError, match=f"1 of 2 pairs have {told}"):
            PairStream(mixed, bare, Edits(address="moves"), CODEC, context=CONTEXT)
    PairStream(split, bare, Edits(address="moves"), CODEC, context=CONTEXT)
    moves = ActionVocab.build(300, operators=["delete"])
    PairStream(split, moves, Edits(address="moves"), CODEC, context=CONTEXT)
