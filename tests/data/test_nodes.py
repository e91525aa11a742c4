"""Parts of the shards by node: every window once, and the same examples for any processes."""

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st

from reviser import ActionVocab, Append
from reviser.data.dataset import WindowStream
from reviser.data.nodes import NodeBatches, part_of_node
from reviser.data.window_config import WindowConfig
from reviser.data.windows import Windows
from reviser.errors import ConfigError
from reviser.trajectories.sampler import Sampler

NODES, PROCESSES, SIZE, COUNT = 3, 2, 4, 96
VOCAB = ActionVocab.build(5000)
CONFIG = WindowConfig(size=16, prefix=(0, 4), least_target=4, held_out=0.1)


class Shards:
    """Documents of one token each, repeated: the token says which document it is."""

    def __init__(self):
        self.parts = [60, 10, 40, 35, 55]
        self.read = set()  # parts whose lengths were read

    def lengths_in(self, part, start, stop):
        self.read.add(part)
        return np.full(min(stop, self.parts[part]) - start, 16)

    def read_many(self, documents, starts, stops):
        spans = zip(documents, starts, stops, strict=True)
        return [np.full(stop - start, document, np.int32) for document, start, stop in spans]


def batches(shards):
    def make(node, seed):
        chosen = part_of_node(shards.parts, node, NODES)
        windows = Windows(shards, CONFIG, chosen=chosen)
        return WindowStream(windows, Sampler(VOCAB, Append()), context=64, seed=seed)

    return NodeBatches(make, nodes=NODES, processes=PROCESSES, seed=7, size=SIZE, count=COUNT)


def documents_of(batch):
    return [int(np.bincount(row[row < 5000].numpy()).argmax()) for row in batch["input_ids"]]


def test_a_node_reads_only_its_own_shards():
    for node in range(NODES):
        shards = Shards()
        numbers = [n for n in range(COUNT) if n % (NODES * PROCESSES) // PROCESSES == node]
        mine = batches(shards)
        found = {document for n in numbers for document in documents_of(mine[n])}
        part = part_of_node(shards.parts, node, NODES)
        ends = np.cumsum([0, *shards.parts])
        assert shards.read == {*part}
        assert all(ends[part.start] <= document < ends[part.stop] for document in found)


def test_each_part_visits_all_its_windows_before_the_first_again():
    every = batches(Shards())
    seen = {node: [] for node in range(NODES)}
    for number in range(COUNT):
        seen[every.locate(number)[0]] += documents_of(every[number])
    sizes = [len(every._part(node).split) for node in range(NODES)]
    assert sum(sizes) == len(every.split) == len(Windows(Shards(), CONFIG))
    for node, size in enumerate(sizes):
        assert len(seen[node]) >= size
        groups = [seen[node][n : n + 64] for n in range(0, len(seen[node]), 64)]  # 16 batches of 4
        assert len({*groups[0]}) == min(64, size)
        assert {*seen[node]} <= {*range(200)}
    assert every.split.left_out == 0


def test_examples_depend_on_their_number_alone():
    first, second = batches(Shards()), batches(Shards())
    order = np.random.default_rng(0).permutation(COUNT).tolist()
    shuffled = {n: second[n]["counts"] for n in order}
    assert [first[n]["counts"] for n in range(COUNT)] == [shuffled[n] for n in range(COUNT)]
    digests = [first._part(node)[0]["counts"]["digest"] for node in range(NODES)]
    assert len({*digests}) == NODES  # parts share no random numbers
    with pytest.raises(IndexError):
        first[COUNT]


@given(st.lists(st.integers(1, 100), min_size=1, max_size=20), st.data())
def test_the_parts_of_nodes_are_all_shards_and_none_is_empty(parts, data):
    nodes = data.draw(st.integers(1, len(parts)))
    chosen = [part_of_node(parts, node, nodes) for node in range(nodes)]
    assert [n for part in chosen for n in part] == [*range(len(parts))]
    assert all(chosen)


def test_more_nodes_than_shards_are_refused():
    with pytest.raises(ConfigError, match="asks for 3 parts, but there are 2 shards"):
        part_of_node([1, 1], 0, 3)
    with pytest.raises(ConfigError, match="both numbers must be 1 or more"):
        WindowConfig(nodes=(0, 1))
