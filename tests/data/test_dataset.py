"""Positions to examples to micro-batches: stateless, nothing lost, little padding."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from reviser import (  # noqa: E402
    PRESETS,
    ActionVocab,
    Append,
    Canvas,
    Mixture,
    Obfuscation,
    Sampler,
    Spans,
)
from reviser.data import windows as windows_module  # noqa: E402
from reviser.data.dataset import COUNTS, DIGEST_RANGE, GROUP, NO_LABEL, MicroBatches, WindowStream  # noqa: E402
from reviser.data.order import permute  # noqa: E402
from reviser.data.window_config import WindowConfig  # noqa: E402
from reviser.data.windows import Windows, is_held_out  # noqa: E402
from reviser.errors import ConfigError, DataError  # noqa: E402

TOKENS = 400


class MemoryShards:
    """Documents in memory, with the part of `TokenShards` that the dataset uses."""

    def __init__(self, documents, parts=None):
        self.documents = [np.array(document, np.int32) for document in documents]
        self.parts = [len(self.documents)] if parts is None else parts

    def lengths_in(self, part, start, stop):
        first = sum(self.parts[:part])
        chosen = self.documents[first : first + self.parts[part]][start:stop]
        return np.array([len(document) for document in chosen], np.int64)

    def read_many(self, documents, starts, stops):
        places = zip(documents, starts, stops, strict=True)
        return [self.documents[d][a:b] for d, a, b in places]


def random_shards(lengths, seed=0):
    rng = np.random.default_rng(seed)
    return MemoryShards([rng.integers(0, TOKENS, n) for n in lengths])


def web_like(documents=400, seed=0):
    """Lengths as of web pages: many short, some long."""
    rng = np.random.default_rng(seed)
    return random_shards(np.exp(rng.normal(5.5, 1.0, documents)).astype(int) + 1, seed)


def all_units(tokens):
    return np.full(len(tokens), 3, np.uint8)


def make_stream(shards, policy, *, config=None, context=256, seed=0, held_out=False):
    config = config or WindowConfig(size=132, prefix=(0, 32), held_out=0.1)
    vocab = ActionVocab.build(TOKENS)
    windows = Windows(shards, config, held_out=held_out)
    sampler = Sampler(vocab, policy)
    return WindowStream(windows, sampler, context=context, unit_starts=all_units, seed=seed)


def same(a, b):
    fields = zip(a, b, strict=True)
    return all(np.array_equal(x, y) for x, y in fields)


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1), st.integers(0, 2**31))
def test_the_order_is_a_permutation_that_seed_and_epoch_change(size, seed, epoch):
    order = permute(np.arange(size), size, seed=seed, epoch=epoch)
    assert sorted(order.tolist()) == list(range(size))
    if size > 50:
        other_epoch = permute(np.arange(size), size, seed=seed, epoch=epoch + 1)
        other_seed = permute(np.arange(size), size, seed=(seed + 1) % 2**64, epoch=epoch)
        fixed_points = int((order == np.arange(size)).sum())
        assert fixed_points < 10
        assert int((order == other_epoch).sum()) < 10
        assert int((order == other_seed).sum()) < 10


@given(st.data())
def test_windows_are_found_in_blocks_and_parts_of_any_size(data):
    lengths = data.draw(st.lists(st.integers(1, 70), min_size=1, max_size=40))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(lengths)), max_size=5)) - {len(lengths)})
    parts = np.diff([0, *cuts, len(lengths)]).tolist()
    documents = [np.arange(n) + 100 * d for d, n in enumerate(lengths)]
    config = WindowConfig(size=16, prefix=(0, 4), least_target=4, held_out=0.3)
    sizes = {"MIN_BLOCK": data.draw(st.integers(1, 9)), "_SCANNED": data.draw(st.integers(1, 20))}
    for held_out in (False, True):
        chosen = is_held_out(np.arange(len(documents)), config) == held_out
        expected = [
            document[at : at + 16].tolist()
            for document, kept in zip(documents, chosen, strict=True)
            for at in range(0, len(document), 16)
            if kept and len(document) - at >= 4
        ]
        with pytest.MonkeyPatch.context() as patch:
            for name, size in sizes.items():
                patch.setattr(windows_module, name, size)
            if not expected:
                with pytest.raises(DataError, match="split has no document"):
                    Windows(MemoryShards(documents, parts), config, held_out=held_out)
                continue
            windows = Windows(MemoryShards(documents, parts), config, held_out=held_out)
            assert len(windows) == len(expected)
            order = np.random.default_rng(0).permutation(len(expected))
            assert [w.tolist() for w in windows.read(order)] == [expected[n] for n in order]
            short = [len(documents[n]) < 4 for n in np.flatnonzero(chosen)]
            assert windows.left_out == sum(short)


@pytest.mark.parametrize("name", PRESETS)
def test_a_history_replays_to_its_window_and_only_the_restoration_is_learned(name):
    stream = make_stream(web_like(), PRESETS[name])
    vocab, windows = stream.sampler.vocab, stream.split
    places = np.arange(150)
    order = permute(places, len(windows), seed=0, epoch=0)
    for example, window in zip(stream.examples(places), windows.read(order), strict=True):
        ids = example.ids.tolist()
        assert len(ids) <= 256
        assert ids[0] == vocab.begin
        split = ids.index(vocab.delimiter)
        prefix, restoration = ids[1:split], ids[split + 1 :]
        assert 0 <= len(prefix) <= 32
        canvas = Canvas.replay(vocab, [*prefix, *restoration])
        assert canvas.is_finished
        end = len(prefix) + example.text_tokens
        assert canvas.tokens() == window[:end].tolist()
        assert example.is_cut == (end < len(window))
        assert len(ids) > 180 or not example.is_cut
        assert not example.learned[: split + 1].any()
        assert example.learned[split + 1 :].all()


def test_prefix_lengths_are_drawn_evenly_and_again_each_epoch():
    config = WindowConfig(size=49, prefix=(2, 9), held_out=0)
    stream = make_stream(random_shards([49] * 2000), Append(), config=config)

    def prefix_lengths(epoch):
        places = np.arange(2000) + epoch * 2000
        delimiter = stream.sampler.vocab.delimiter
        cuts = [e.ids.tolist().index(delimiter) - 1 for e in stream.examples(places)]
        order = permute(np.arange(2000), 2000, seed=0, epoch=epoch)
        return np.array(cuts)[np.argsort(order)]

    first, second = prefix_lengths(0), prefix_lengths(1)
    counts = np.bincount(first, minlength=10)[2:]
    assert set(first.tolist()) == set(range(2, 10))
    assert ((counts - 250) ** 2 / 250).sum() < 30
    assert 0.05 < (first == second).mean() < 0.2


def test_the_papers_fixed_prefix_needs_no_delimiter():
    config = WindowConfig(size=180, prefix=(35, 35), held_out=0)
    vocab = ActionVocab.build(TOKENS, delimiter=False)
    windows = Windows(random_shards([180, 400, 30]), config)
    stream = WindowStream(windows, Sampler(vocab, Obfuscation()), context=400)
    for example in stream.examples(np.arange(len(windows))):
        assert not example.learned[:36].any()
        assert example.learned[36:].all()


def test_a_walk_of_one_token_stays_within_the_context():
    config = WindowConfig(size=1, prefix=(0, 0), least_target=1, held_out=0)
    policy = Obfuscation(delete=0.05)
    stream = make_stream(random_shards([1] * 200), policy, config=config, context=6)
    sizes = [len(example.ids) for example in stream.examples(np.arange(200))]
    assert max(sizes) == 6
    assert min(sizes) < 6


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=40), st.randoms())
def test_an_example_depends_on_its_position_alone(places, random):
    stream = _SHARED_STREAM
    alone = {place: stream.examples(np.array([place]))[0] for place in set(places)}
    random.shuffle(places)
    together = stream.examples(np.array(places))
    assert all(same(e, alone[p]) for p, e in zip(places, together, strict=True))


def test_each_epoch_sees_every_window_once_with_new_trajectories():
    stream = make_stream(random_shards([60] * 40), Spans(mean=8))
    count = len(stream.split)
    epochs = [stream.examples(np.arange(count) + epoch * count) for epoch in range(2)]
    written = [Counter(_text(stream, example) for example in epoch) for epoch in epochs]
    assert written[0] == written[1]
    histories = [{tuple(e.ids.tolist()) for e in epoch} for epoch in epochs]
    assert len(histories[0] & histories[1]) < count / 4
    assert len({e.digest for epoch in epochs for e in epoch}) == 2 * count


def test_micro_batches_hold_every_position_once_in_any_order_of_access():
    stream = make_stream(web_like(), PRESETS["paper"])
    batches = MicroBatches(stream, size=4, count=2 * GROUP + 3)
    everything = stream.examples(np.arange(4 * len(batches)))
    expected = Counter(tuple(e.ids.tolist()) for e in everything)
    in_order = [batches[n] for n in range(len(batches))]
    assert _histories(in_order) == expected
    for number in (5, 2 * GROUP + 1, 0, GROUP):  # no state: any order, any copy
        for asked in (batches, pickle.loads(pickle.dumps(batches))):  # noqa: S301
            assert identical(asked[number], in_order[number])
    digests = sum(b["counts"]["digest"] for b in in_order) - sum(e.digest for e in everything)
    assert digests % DIGEST_RANGE == 0
    with pytest.raises(IndexError):
        batches[len(batches)]


class PartlyLearned(Sampler):
    """Some ids have no loss, as of a user's own policy."""

    def batch(self, targets, indices, **options):
        found = super().batch(targets, indices, **options)
        return replace(found, learned=found.ids % 5 > 0)


def test_labels_are_the_learned_ids_and_padding_has_none():
    stream = make_stream(web_like(), PRESETS["paper"])
    stream.sampler = PartlyLearned(stream.sampler.vocab, PRESETS["paper"])
    batches = MicroBatches(stream, size=8, count=3)
    examples = {tuple(e.ids.tolist()): e for e in stream.examples(np.arange(24))}
    for number in range(3):
        batch = batches[number]
        ids_BT, labels_BT = batch["input_ids"].numpy(), batch["labels"].numpy()
        real = cut = 0
        for row, labels, tokens in zip(ids_BT, labels_BT, batch["text_tokens"], strict=True):
            end = row.tolist().index(stream.sampler.vocab.stop) + 1
            example = examples[tuple(row[:end].tolist())]
            assert (labels[end:] == NO_LABEL).all()
            assert (row[end:] == stream.sampler.vocab.stop).all()
            assert np.array_equal(labels[:end] != NO_LABEL, example.learned)
            assert (labels[:end] == row[:end])[example.learned].all()
            assert tokens == example.text_tokens
            real += end
            cut += example.is_cut
        assert set(batch["counts"]) == set(COUNTS)
        assert batch["counts"]["ids"] == real
        assert batch["counts"]["cells"] == ids_BT.size
        assert batch["counts"]["cut"] == sum(
            examples[
                tuple(row[: row.tolist().index(stream.sampler.vocab.stop) + 1].tolist())
            ].is_cut
            for row in ids_BT
        )


@pytest.mark.parametrize("name", ["append", "paper", "spans-16"])
@pytest.mark.parametrize("size", [8, 64])
def test_less_than_a_tenth_of_a_batch_is_padding(name, size):
    stream = make_stream(web_like(2000), PRESETS[name])
    batches = MicroBatches(stream, size=size, count=2 * GROUP)
    cells = sum(b["input_ids"].numel() for b in map(batches.__getitem__, range(2 * GROUP)))
    ids = sum(batches[n]["counts"]["ids"] for n in range(2 * GROUP))
    assert 1 - ids / cells < 0.1


def test_a_changing_mixture_follows_the_position_and_evaluation_its_end():
    policy = Mixture(policies=(Append(), Obfuscation()), weights=(1, 0), final_weights=(0, 1))
    stream = make_stream(web_like(2000), policy)

    def moves(batch):
        return float((stream.sampler.vocab.kinds[batch["input_ids"].numpy()] == 1).mean())

    batches = MicroBatches(stream, size=8, count=20 * GROUP)
    first, last = moves(batches[0]), moves(batches[20 * GROUP - 1])
    assert first == 0
    assert last > 0.1
    assert moves(MicroBatches(stream, size=8, count=GROUP, progress=1.0)[0]) > 0.15


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"prefix": (3, 2)}, "prefix"),
        ({"size": 71}, "least_target"),
        ({"held_out": 1.0}, "held_out"),
    ],
)
def test_windows_that_make_no_sense_are_refused(fields, words):
    with pytest.raises(ConfigError, match=words):
        WindowConfig(**fields)


def test_a_stream_without_room_or_input_is_refused():
    with pytest.raises(DataError, match=r"held-out split .*\(2 documents"):
        Windows(random_shards([50, 50]), WindowConfig(held_out=0), held_out=True)
    with pytest.raises(DataError, match="training split"):
        Windows(random_shards([3, 3]), WindowConfig())
    with pytest.raises(ConfigError, match="context of 40"):
        make_stream(web_like(), Append(), context=40)
    windows = Windows(random_shards([200]), WindowConfig(held_out=0))
    bare = replace(ActionVocab.paper(), begin=None)
    with pytest.raises(ConfigError, match="begin token"):
        WindowStream(windows, Sampler(bare, Append()), context=300)


def identical(a, b):
    tensors = ("input_ids", "labels", "text_tokens")
    return a["counts"] == b["counts"] and all(torch.equal(a[name], b[name]) for name in tensors)


def _text(stream, example):
    ids = example.ids.tolist()
    split = ids.index(stream.sampler.vocab.delimiter)
    return tuple(Canvas.replay(stream.sampler.vocab, ids[1:split] + ids[split + 1 :]).tokens())


def _histories(batches):
    rows = itertools.chain.from_iterable(
        zip(b["input_ids"], b["labels"], strict=True) for b in batches
    )
    found = Counter()
    for row, labels in rows:
        end = int((labels != NO_LABEL).nonzero().max()) + 1
        found[tuple(row[:end].tolist())] += 1
    return found


_SHARED_STREAM = make_stream(web_like(60), PRESETS["paper"])
