"""Random vocabularies, documents, histories and policies for the tests of `core`."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from reviser.core.actions import OPERATORS, ActionVocab
from reviser.trajectories.policy import Append, Mixture, Obfuscation, Policy, Spans
from support import naive

SPANS = ("span_delete", "span_move", "span_copy")


def scattered_vocab(
    rng: Random, operators: set[str], max_move: int, *, separators: int = 2
) -> ActionVocab:
    """Return a small vocabulary whose controls lie anywhere, also among the ordinary tokens."""
    ordinary, prefix_only, reserved = rng.randint(3, 5), rng.randint(0, 2), rng.randint(0, 2)
    controls = ["stop", *(name for name in OPERATORS if name in operators)]
    controls += ["begin", "delimiter"][:separators]
    controls += ["end"] * any(name in operators for name in SPANS)
    rng.shuffle(controls)
    below = rng.randint(0, len(controls))
    low = ["token"] * ordinary + ["prefix_only"] * prefix_only + controls[:below]
    high = controls[below:] + ["first_move"] + ["reserved"] * reserved
    rng.shuffle(low)
    rng.shuffle(high)
    names, tokens = low.copy(), len(low)
    for name in high:
        names += ["first_move"] * 2 * max_move.bit_length() if name == "first_move" else [name]
    ids = {name: names.index(name) for name in (*controls, "first_move")}
    never_insert = tuple(i for i in range(tokens) if names[i] != "token")
    return ActionVocab(
        tokens=tokens, size=len(names), max_move=max_move, never_insert=never_insert, **ids
    )


def _small_vocabs() -> list[ActionVocab]:
    rng = Random(2)
    every = [scattered_vocab(rng, {*OPERATORS}, 2**n, separators=n % 3) for n in (0, 1, 1, 2, 2, 3)]
    one = [scattered_vocab(rng, {operator}, 2) for operator in OPERATORS]
    return [*every, *one, ActionVocab.build(3, max_move=4)]


SMALL_VOCABS = _small_vocabs()
"""All operators with moves up to 1, 2, 4 and 8; each operator alone; none."""

small_vocabs = st.sampled_from(SMALL_VOCABS)
operator_sets = st.sets(st.sampled_from(OPERATORS))
seeds = st.integers(0, 2**32 - 1)


@st.composite
def vocabs(draw: st.DrawFn) -> ActionVocab:
    """Draw any layout, any operators, moves up to 1 ... 512."""
    max_move = 2 ** draw(st.integers(0, 9))
    rng = Random(draw(seeds))
    return scattered_vocab(rng, draw(operator_sets), max_move, separators=draw(st.integers(0, 2)))


class Layout(NamedTuple):
    """The start of a row, as `ActionMask.reset` takes it."""

    length: int
    cursor: int
    editable: list[tuple[int, int]]
    max_length: int | None = None
    max_edits: int | None = None
    max_moves: int | None = None


def random_layout(rng: Random, longest: int, *, most_gaps: int = 4) -> Layout:
    """Return a document with ranges and budgets; sometimes no range, sometimes all one range."""
    length = rng.randint(0, longest)
    count = min(rng.randint(0, most_gaps), length // 2 + 1)
    if rng.random() < 0.2:
        editable = [(0, length)]
    else:  # sorted bounds, each pushed on by the ranges before it, so that ranges stay apart
        free = sorted(rng.choices(range(length - count + 2), k=2 * count)) if count else []
        editable = [(free[2 * n] + n, free[2 * n + 1] + n) for n in range(count)]
    max_length = rng.choice([None, length - 1, length, length + 1, length + 3, longest])
    max_edits = rng.choice([None, None, 0, 1, 5, 30])
    max_moves = rng.choice([None, None, 0, 1, 2, 5])
    first, last = (editable[0][0], editable[-1][1]) if editable else (0, length)
    return Layout(length, rng.randint(first, last), editable, max_length, max_edits, max_moves)


def random_action(rng: Random, vocab: ActionVocab, length: int, u: int) -> naive.Action:
    """Return a valid action as the paper writes it, without listing them all."""
    x = rng.choice(naive.ids_of(vocab, "insert"))
    steps = [d for d in vocab.deltas if 0 <= u + d <= length]
    choices: list[naive.Action] = [("insert", x)]
    if steps:
        choices.append(("move", rng.choice(steps)))
    if u >= 1:
        k = rng.randint(1, min(u, 9))
        j = rng.choice([*range(u - k + 1), *range(u, length + 1)])
        choices += [("delete",), ("replace", x), ("span_delete", k), ("span_move", k, j)]
        choices += [("span_copy", k, rng.randint(0, length))]
    if u >= 2:
        choices.append(("swap",))
    return rng.choice(choices)


def random_history(rng: Random, vocab: ActionVocab, actions: int) -> list[int]:
    """Return the ids of valid actions from a blank canvas; `vocab` has every operator."""
    history: list[int] = []
    state = naive.State((), 0)
    for _ in range(actions):
        action = random_action(rng, vocab, len(state.tokens), state.cursor)
        ids = naive.spell(vocab, action, state.cursor)
        history += ids
        for i in ids:
            state = naive.execute(vocab, state, i)
    return history


obfuscations = st.builds(
    Obfuscation,
    delete=st.integers(20, 95).map(lambda percent: percent / 100),
    start=st.sampled_from(["uniform", "left"]),
    merge_moves=st.booleans(),
)
spans = st.builds(
    Spans,
    mean=st.floats(1, 12),
    unit=st.sampled_from(["token", "word", "sentence"]),
    late=st.none() | st.integers(0, 5),
)
lone_policies = st.builds(Append) | obfuscations | spans


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Draw any policy, and mixtures whose weights may be zero."""
    if draw(st.booleans()):
        return draw(lone_policies)
    parts = draw(st.lists(lone_policies, min_size=1, max_size=4))
    weights = st.lists(st.integers(0, 5), min_size=len(parts), max_size=len(parts)).filter(any)
    mixture = Mixture(policies=tuple(parts), weights=tuple(draw(weights)))
    if draw(st.booleans()):
        return mixture
    return replace(
        mixture,
        final_weights=tuple(draw(weights)),
        change_from=draw(st.sampled_from([0.0, 0.25, 0.9])),
        change_until=draw(st.sampled_from([0.95, 1.0])),
    )


def random_targets(rng: Random, vocab: ActionVocab, count: int, longest: int) -> list[list[int]]:
    tokens = naive.ids_of(vocab, "insert")
    return [rng.choices(tokens, k=rng.randint(0, longest)) for _ in range(count)]


def random_units(rng: Random, target: list[int]) -> npt.NDArray[np.uint8]:
    """Return random starts of words and sentences, as `Codec.unit_starts` does."""
    return np.array(
        [1 + 2 * (rng.random() < 0.6) + 4 * (rng.random() < 0.2) for _ in target], np.uint8
    )
