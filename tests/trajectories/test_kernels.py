"""The sampling kernels: equal to slow Python, in any process and in any batch."""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import OPERATORS, ActionVocab
from reviser.core.canvas import Canvas
from reviser.errors import MissingExtra, TrajectoryError
from reviser.trajectories._kernels import jit, philox, sampling
from reviser.trajectories.policy import PRESETS, Append, Obfuscation, Policy, Spans
from reviser.trajectories.sampler import Sampler
from support import naive, naive_policy
from support.strategies import (
    obfuscations,
    policies,
    random_targets,
    random_units,
    scattered_vocab,
    seeds,
    spans,
)

LONGEST = 24
DOCUMENTS = 4  # with about 30 steps each: 12,000 states in 100 examples, 240,000 in 2,000

KNOWN_ANSWERS = [  # Random123's kat_vectors: philox4x32-10
    ("00000000 " * 4, "00000000 " * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff " * 4, "ffffffff " * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]

words64 = st.integers(0, 2**64 - 1)
SLOW = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"


def words(text: str) -> tuple[int, ...]:
    return tuple(int(word, 16) for word in text.split())


def rich_vocab(rng: Random, max_move: int) -> ActionVocab:
    """Return every operator over tokens that can all differ, or over a few in any layout."""
    if rng.random() < 0.5:
        return ActionVocab.build(LONGEST, operators=OPERATORS, max_move=max_move)
    return scattered_vocab(rng, {*OPERATORS}, max_move, separators=rng.randint(0, 2))


def assert_as_reference(
    vocab: ActionVocab, policy: Policy, targets: list[list[int]], rng: Random, progress: float = 0.0
) -> list[naive_policy.Sample]:
    """Sample a batch, compare each with the reference, replay it; return the reference's."""
    seed, epoch = rng.getrandbits(64), rng.getrandbits(32)
    indices = [rng.getrandbits(rng.choice([4, 64])) for _ in targets]
    units = [random_units(rng, target) for target in targets]
    batch = Sampler(vocab, policy).batch(
        targets, indices, seed=seed, epoch=epoch, units=units, progress=progress
    )
    samples = []
    for n, target in enumerate(targets):
        draws = naive_policy.Draws(seed, epoch, indices[n])
        sample = naive_policy.sample(
            policy, target, vocab.max_move, draws, units=units[n].tolist(), progress=progress
        )
        assert sample is not None
        ids, learned = (part.tolist() for part in batch[n])
        assert all(learned)
        merged = not isinstance(sample.policy, Obfuscation) or sample.policy.merge_moves
        items = naive_policy.read_items(vocab, ids, merged=merged)
        assert items == naive_policy.items(vocab, sample)
        assert Canvas.replay(vocab, ids).tokens() == target  # refuses what is not legal
        samples.append(sample)
    assert batch.offsets[0] == 0
    assert batch.offsets[-1] == len(batch.ids) == len(batch.learned)
    assert len(batch) == len(targets)
    return samples


# -- random numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_the_generator_gives_the_published_answers(counter: str, key: str, answer: str) -> None:
    rng = np.zeros(philox.RNG_SIZE, np.uint64)
    rng[:6] = words(key) + words(counter)
    philox.philox(rng)
    assert tuple(rng[philox._OUT : philox._OUT + 4].tolist()) == words(answer)
    assert naive_policy.philox(words(counter), words(key)) == words(answer)


def test_the_first_word_of_the_counter_starts_over_and_the_others_stay() -> None:
    rng = np.zeros(philox.RNG_SIZE, np.uint64)
    rng[:6] = [11, 12, 2**32 - 1, 2**32 - 1, 13, 14]
    philox.philox(rng)
    second = naive_policy.philox((0, 2**32 - 1, 13, 14), (11, 12))
    assert tuple(rng[philox._OUT + 4 : philox._OUT + 8].tolist()) == second
    assert rng[2:6].tolist() == [philox._BLOCKS - 1, 2**32 - 1, 13, 14]


@given(words64, st.integers(0, 2**32 - 1), words64)
def test_an_example_draws_what_its_seed_epoch_and_index_say(
    seed: int, epoch: int, index: int
) -> None:
    rng = np.zeros(philox.RNG_SIZE, np.uint64)
    philox.start_rng(rng, np.uint64(seed), np.uint64(epoch), np.uint64(index))
    draws = naive_policy.Draws(seed, epoch, index)
    for n in range(2 * 4 * philox._BLOCKS + 3):  # twice past what is made at once
        if n % 3:
            assert philox.draw(rng) == draws.word()
        else:
            assert philox.below(rng, n + 1) == draws.below(n + 1)


@pytest.mark.skipif(SLOW, reason="Without the compiler there is no cache.")
def test_the_cache_of_a_kernel_carries_a_stamp_of_all_sources() -> None:
    assert sampling.restorations._cache._cache_file._source_stamp == jit.SOURCES


# -- the reference ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [obfuscations, st.builds(Append) | spans, policies()], ids=["walks", "spans", "any"]
)
@given(st.data(), st.integers(0, 9), st.floats(0, 1), seeds)
def test_a_policy_is_as_slow_python_has_it_at_any_point_of_its_schedule(
    kind: st.SearchStrategy[Policy], data: st.DataObject, exponent: int, progress: float, seed: int
) -> None:
    policy = data.draw(kind)
    rng = Random(seed)
    vocab = rich_vocab(rng, 2**exponent)
    targets = random_targets(rng, vocab, DOCUMENTS, LONGEST)
    assert_as_reference(vocab, policy, targets, rng, progress)


@given(obfuscations, seeds)
def test_a_walk_over_budget_is_discarded_and_the_draws_go_on(
    policy: Obfuscation, seed: int
) -> None:
    rng = Random(seed)
    vocab = rich_vocab(rng, 8)
    target = rng.choices(naive.ids_of(vocab, "insert"), k=rng.randint(0, 6))
    budget = rng.randint(max(1, len(target) * 3 // 2), 4 * len(target) + 1)
    limited = replace(policy, max_obfuscation_steps=budget)
    index = rng.getrandbits(30)
    sample = naive_policy.sample(limited, target, 8, naive_policy.Draws(0, 0, index))
    if sample is None:
        with pytest.raises(TrajectoryError, match="within max_obfuscation_steps"):
            Sampler(vocab, limited).sample(target, index=index)
        return
    trajectory = Sampler(vocab, limited).sample(target, index=index)
    ids = list(trajectory.restoration)
    items = naive_policy.read_items(vocab, ids, merged=policy.merge_moves)
    assert items == naive_policy.items(vocab, sample)


# -- any batch, any process ----------------------------------------------------------------------


@given(policies(), seeds)
def test_an_example_does_not_depend_on_the_batch_it_is_in(policy: Policy, seed: int) -> None:
    rng = Random(seed)
    vocab = rich_vocab(rng, 16)
    targets = random_targets(rng, vocab, 6, LONGEST)
    marks = [random_units(rng, target) for target in targets]
    indices = rng.sample(range(1000), len(targets))
    sampler = Sampler(vocab, policy)
    alone = [
        sampler.sample(target, seed=seed, epoch=3, index=index, units=units)
        for target, index, units in zip(targets, indices, marks, strict=True)
    ]
    order = rng.sample(range(len(targets)), rng.randint(1, len(targets)))
    batch = sampler.batch(
        [targets[n] for n in order],
        [indices[n] for n in order],
        seed=seed,
        epoch=3,
        units=[marks[n] for n in order],
    )
    for (ids, _), n in zip(batch, order, strict=True):
        assert tuple(ids.tolist()) == alone[n].restoration


CHILD = """
import json
from reviser.trajectories.policy import PRESETS
from reviser.core.actions import ActionVocab
from reviser.trajectories.sampler import Sampler
import numpy as np

found = []
for policy in PRESETS.values():
    sampler = Sampler(ActionVocab.build(64), policy)
    marks = np.array([3, 1, 1] * 20, np.uint8)
    trajectory = sampler.sample(range(60), seed=2**40 + 1, epoch=5, index=2**33 + 9, units=marks)
    found.append(trajectory.restoration)
print(json.dumps(found))
"""


def test_an_example_does_not_depend_on_the_process_that_samples_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "77"},
    )
    exec(CHILD, {})
    assert json.loads(child.stdout) == json.loads(capsys.readouterr().out)
    assert len(json.loads(child.stdout)) == len(PRESETS)


# -- long targets ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [
        Obfuscation(delete=0.2, start="left"),  # five ids a token, more than is kept ready
        # Of a walk that is discarded, too; and the one after it has its own draws.
        Obfuscation(delete=0.2, start="left", max_obfuscation_steps=2950),
    ],
)
def test_buffers_grow_under_long_restorations(policy: Obfuscation) -> None:
    vocab = ActionVocab.build(700, operators=OPERATORS)
    targets = [list(range(n)) for n in (3, 600, 0, 300)]
    samples = assert_as_reference(vocab, policy, targets, Random(5))
    assert len(samples[1].restoration) > 2 * 600 + 1024


def test_buffers_grow_under_long_chains_of_fewest_moves() -> None:
    vocab = ActionVocab.build(300, max_move=1)
    targets = [list(range(n)) for n in (2, 250, 60)]
    for policy in (Obfuscation(delete=0.5, merge_moves=True), Spans(mean=3, unit="token")):
        assert_as_reference(vocab, policy, targets, Random(6))


def test_without_numba_the_extra_that_brings_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    spec = importlib.util.spec_from_file_location("jit_without_numba", jit.__file__)
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(MissingExtra, match=r"pip install 'reviser-lm\[train\]'"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
