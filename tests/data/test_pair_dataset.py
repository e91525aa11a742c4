"""Pairs as examples: each revises its draft exactly, the same for whoever asks, sides apart."""

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
from reviser.data import blocks
from reviser.data.dataset import MicroBatches
from reviser.data.pair_dataset import PairSplit, PairStream, TokenPairs
from reviser.data.pairs import Pair, write_pairs
from reviser.errors import DataError, VocabError
from reviser.trajectories.policy import Blocks, Edits, PairPolicy, Rewrite
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
    side = PairSplit(tokens_of(given), 0.0, CONTEXT)
    return PairStream(side, VOCAB, policy, CODEC, context=CONTEXT, seed=seed)


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


def test_loss_is_on_the_edits_alone() -> None:
    (example,) = stream_of([("", "The cat sat", "The cat sat on")], Edits()).examples(np.arange(1))
    kinds = [VOCAB.kind(i) for i in example.ids[example.learned].tolist()]
    assert kinds[-1] is Kind.STOP
    assert sum(example.learned) < len(example.ids) - 6  # the draft's letters bear none


@given(given=pairs)
def test_a_draft_is_noted_behind_each_of_its_tokens_and_nothing_else_changes(
    given: list[tuple[str, str, str]],
) -> None:
    places = np.arange(len(given))
    plain = stream_of(given, Edits()).examples(places)
    noted = stream_of(given, Edits(noted=True)).examples(places)
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


def test_a_note_says_what_comes_before_the_token_just_read() -> None:
    assert VOCAB.delete is not None
    cases = [
        ("The cat sat", "The cat has sat", "The cat s", CODEC.encode(" has")[0]),
        ("The cat sat on", "The cat on", "The cat sat on", VOCAB.delete),
    ]
    for before, after, read, note in cases:
        (example,) = stream_of([("", before, after)], Edits(noted=True)).examples(np.arange(1))
        (place,) = np.flatnonzero(
            example.learned & (example.labels != example.ids) & (example.labels != VOCAB.stop)
        )
        ids = example.ids[:place]
        assert CODEC.decode(ids[VOCAB.kinds[ids] == Kind.INSERT].tolist()) == read
        assert example.labels[place] == note


@given(texts=st.lists(texts, min_size=1, max_size=60))
def test_pairs_that_become_one_text_are_on_one_side(texts: list[str]) -> None:
    given = [("", draft, text) for text in texts for draft in ("The", " cat")]
    held_out = []
    for is_held_out in (False, True):
        try:
            side = PairSplit(tokens_of(given), 0.5, CONTEXT, held_out=is_held_out)
        except DataError as error:
            assert "has no pair that a context of 160" in str(error)  # noqa: PT017
            held_out.append(set())
            continue
        held_out.append({tuple(side.read(n).after.tolist()) for n in range(len(side))})
    assert not held_out[0] & held_out[1]
    assert len(held_out[0] | held_out[1]) == len({*texts})


def test_what_does_not_fit_is_left_out_and_what_hardly_fits_is_cut() -> None:
    long, just = "x" * 200, "x" * 140
    side = PairSplit(tokens_of([("", long, long), ("", just, "y" * 140)]), 0.0, CONTEXT)
    assert (len(side), side.left_out) == (1, 1)
    stream = PairStream(side, VOCAB, Edits(), CODEC, context=CONTEXT)
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


def test_batches_are_padded_and_counted() -> None:
    stream = stream_of([("", "The cat", "The cat sat")] * 4, Edits())
    batch = MicroBatches(stream, size=4, count=1)[0]
    assert batch["input_ids"].shape == batch["labels"].shape
    assert batch["counts"]["examples"] == 4


def test_a_share_of_the_pairs_is_rewritten_another_each_time() -> None:
    given = [("", f"The cat sat {n}", f"The cat sat on {n}") for n in range(200)]
    stream = stream_of(given, Edits(rewritten=0.25))
    examples = stream.examples(np.arange(600))
    rewritten = [bool(example.learned.sum() == example.text_tokens + 1) for example in examples]
    assert 100 < sum(rewritten) < 200
    passes = [{*np.flatnonzero(rewritten[n : n + 200])} for n in (0, 200, 400)]
    assert len({frozenset(each) for each in passes}) == 3


@given(given=pairs)
def test_blocks_are_written_behind_the_draft_and_make_what_it_became(
    given: list[tuple[str, str, str]],
) -> None:
    stream = stream_of(given, Blocks())
    for n, (asked, before, after) in enumerate(given):
        trajectory = stream.trajectory(stream.split.read(n))
        assert CODEC.decode(trajectory.prefix) == asked + before
        *written, last = trajectory.restoration
        assert last == VOCAB.stop
        assert blocks.apply(before, CODEC.decode(written)) == (after, ())
        assert not trajectory.unlearned


def test_a_vocabulary_that_cannot_do_it_is_refused() -> None:
    side = PairSplit(tokens_of([("", "a", "b")]), 0.0, CONTEXT)
    cases = [
        (Edits(), {}, "delete or span_delete"),
        (Edits(), {"operators": ["delete"]}, "set vocab.search"),
        (Rewrite(), {"delimiter": False}, "needs a delimiter"),
        (
            Edits(address="moves", rewritten=0.1),
            {"operators": ["delete"], "delimiter": False},
            "a del",
        ),
    ]
    for policy, options, told in cases:
        vocab = ActionVocab.build(300, **options)
        with pytest.raises(VocabError, match=told):
            PairStream(side, vocab, policy, CODEC, context=CONTEXT)
    bare = replace(ActionVocab.build(300, operators=["delete"], delimiter=False), begin=None)
    refused = [(("Mend", "a", "b"), "an instruction"), (("", "", "b"), "an empty draft")]
    for pair, told in refused:
        mixed = PairSplit(tokens_of([pair, ("", "a", "b")]), 0.0, CONTEXT)
        with pytest.raises(VocabError, match=f"1 of 2 pairs have {told}"):
            PairStream(mixed, bare, Edits(address="moves"), CODEC, context=CONTEXT)
    PairStream(side, bare, Edits(address="moves"), CODEC, context=CONTEXT)
    moves = ActionVocab.build(300, operators=["delete"])
    PairStream(side, moves, Edits(address="moves"), CODEC, context=CONTEXT)
