"""Statistics of the printed trajectories against hand counts, and of random ones against slow code.

The hand counts read the printed strings with lists and loops; they share no code with the package.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reviser.core.actions import OPERATORS, Action, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.trajectory import Trajectory
from reviser.errors import DataError, InvalidAction
from reviser.lab.evals.paper import TRAJECTORIES
from reviser.lab.evals.trajectories import Walk, statistics
from reviser.trajectories.alignment import revision
from reviser.trajectories.policy import Append
from reviser.trajectories.sampler import Sampler
from support.strategies import random_history, scattered_vocab

FIXTURES = Path(__file__).parents[2] / "fixtures"
PRINTED = json.loads((FIXTURES / "paper.json").read_text(encoding="utf-8"))["printed"]
VOCAB = ActionVocab.paper()


def trajectory(printed: dict[str, Any]) -> Trajectory:
    """The printed actions in ids; which token has which id is of no account here."""
    ids: dict[str, int] = {}

    def spell(kind: str, argument: Any = None) -> int:
        if kind == "insert":
            return ids.setdefault(argument, len(ids))
        return VOCAB.move_id(argument) if kind == "move" else VOCAB.stop

    prefix = tuple(spell("insert", token) for token in printed["prefix"])
    return Trajectory(prefix=prefix, restoration=tuple(spell(*a) for a in printed["actions"]))


WALKS = {p["name"]: Walk.of(trajectory(p), VOCAB) for p in PRINTED}


@dataclass
class ByHand:
    """What a person would count, going down the printed list."""

    length: int
    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)
    positions: list[float] = field(default_factory=list)


def count(printed: dict[str, Any]) -> ByHand:
    prefix = len(printed["prefix"])
    hand, cursor = ByHand(prefix), prefix
    came_from = prefix
    for kind, *argument in printed["actions"]:
        hand.counts["actions"] += 1
        if kind == "move":
            hand.sizes[abs(argument[0])] += 1
            hand.counts["backward"] += argument[0] < 0
            cursor += argument[0]
            continue
        if kind == "insert":
            hand.counts["inserts"] += 1
            hand.counts["end_appends"] += cursor == hand.length
            hand.counts["revisions"] += cursor < came_from
            if hand.length > prefix:
                hand.positions.append((cursor - prefix) / (hand.length - prefix))
            hand.length += 1
            cursor += 1
        came_from = cursor
    return hand


# -- the ten printed trajectories -----------------------------------------------------------------


@pytest.mark.parametrize("size", ["100M", "300M"])
def test_the_table_of_the_printed_walks_is_the_quotient_of_hand_counts(size: str) -> None:
    chosen = [p for p in PRINTED if p["size"] == size]
    hands = [count(p) for p in chosen]
    total: Counter[str] = sum((hand.counts for hand in hands), Counter())
    sizes: Counter[int] = sum((hand.sizes for hand in hands), Counter())
    moves, positions = sum(sizes.values()), [x for hand in hands for x in hand.positions]
    distance = sum(size * many for size, many in sizes.items())
    found = statistics([WALKS[p["name"]] for p in chosen])
    expected = {
        "actions_per_token": total["actions"] / total["inserts"],
        "insert_fraction": total["inserts"] / total["actions"],
        "move_fraction": moves / total["actions"],
        "move_distance": distance / moves,
        "backward_fraction": total["backward"] / moves,
        "insert_position": sum(positions) / len(positions),
        "end_append_fraction": total["end_appends"] / total["inserts"],
        "inner_insert_fraction": 1 - total["end_appends"] / total["inserts"],
        "revised": sum(hand.counts["revisions"] > 0 for hand in hands) / len(hands),
    }
    for name, value in expected.items():
        estimate = getattr(found, name)
        assert estimate.value == pytest.approx(value), name
        assert estimate.n == 5
        assert estimate.low <= estimate.value <= estimate.high
    assert {k: e.value for k, e in found.move_sizes.items()} == pytest.approx(
        {k: many / moves for k, many in sizes.items()}
    )
    assert expected.keys() | {"move_sizes", "search_fraction"} == found.to_dict().keys()


def test_the_printed_walks_put_their_inserts_where_the_table_says() -> None:
    # 0.41 and 0.42, so the paper counts behind the prefix; over the whole canvas it is above 0.65.
    for size, printed in TRAJECTORIES.items():
        found = statistics([walk for name, walk in WALKS.items() if name.startswith(size)])
        assert found.insert_position is not None
        assert found.insert_position.value == pytest.approx(printed["insert_position"], abs=0.02)


# -- any trajectory -------------------------------------------------------------------------------

RICH = [scattered_vocab(Random(seed), {*OPERATORS}, 2 ** (seed % 4 + 1)) for seed in range(8)]


def slow(vocab: ActionVocab, prefix: list[int], actions: list[Action]) -> dict[str, Any]:
    """Whole actions, one by one on a canvas."""
    canvas = Canvas(vocab, prefix)
    found: dict[str, Any] = {"moves": [], "inserts": 0, "end_appends": 0, "positions": []}
    for action in actions:
        cursor, length = canvas.cursor, len(canvas)
        if action.kind is Kind.MOVE:
            found["moves"].append(action.argument)
        if action.kind is Kind.INSERT:
            found["inserts"] += 1
            found["end_appends"] += cursor == length
            if length > len(prefix):
                found["positions"].append(max(0.0, (cursor - len(prefix)) / (length - len(prefix))))
        canvas.act(action)
    return found | {"tokens": len(canvas) - len(prefix)}


@given(st.integers(0, 2**32), st.sampled_from(RICH), st.integers(0, 30))
def test_operators_are_counted_as_slow_code_counts_them(
    seed: int, vocab: ActionVocab, actions: int
) -> None:
    rng = Random(seed)
    history = random_history(rng, vocab, actions)
    whole = vocab.read(history)
    prefix = []
    while whole and whole[0].kind is Kind.INSERT and rng.random() < 0.5:
        prefix.append(whole.pop(0).argument)
    restoration = history[len(prefix) :] + [vocab.stop] * (seed % 2)
    if not vocab.begin and not vocab.delimiter and not prefix:
        return
    walk = Walk.of(Trajectory(prefix=tuple(prefix), restoration=tuple(restoration)), vocab)
    expected = slow(vocab, prefix, whole)
    assert (walk.actions, walk.stops) == (len(restoration), bool(seed % 2))
    assert list(walk.moves) == expected["moves"]
    assert (walk.inserts, walk.end_appends) == (expected["inserts"], expected["end_appends"])
    assert walk.tokens == expected["tokens"]
    assert len(walk.positions) == len(expected["positions"])


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from(RICH))
def test_an_action_cut_off_halfway_counts_as_ids_only(seed: int, vocab: ActionVocab) -> None:
    history = random_history(Random(seed), vocab, 8)
    ends = np.cumsum([len(vocab.spell(action)) for action in vocab.read(history)]).tolist()
    for cut in range(1, len(history) + 1):
        walk = Walk.of(Trajectory(prefix=(history[0],), restoration=tuple(history[1:cut])), vocab)
        done = max(end for end in ends if end <= cut)
        until = vocab.read(history[1:done])
        assert walk.actions == cut - 1
        assert list(walk.moves) == [a.argument for a in until if a.kind is Kind.MOVE]
        assert walk.inserts == sum(a.kind is Kind.INSERT for a in until)
        assert walk.tokens == len(Canvas.replay(vocab, history[:done])) - 1


def test_left_to_right_has_no_moves() -> None:
    vocab = ActionVocab.build(10)
    walks = [Walk.of(Sampler(vocab, Append()).sample([3] * 399), vocab)] * 3
    found = statistics(walks)
    assert found.move_distance is found.backward_fraction is None
    assert found.move_sizes == {}
    assert found.end_append_fraction is not None
    assert found.move_fraction is not None
    assert (found.end_append_fraction.value, found.move_fraction.value) == (1, 0)
    assert found.revised.value == 0


def test_fractions_stay_between_0_and_1_and_none_is_certain() -> None:
    vocab = ActionVocab.build(10)
    left_to_right = [Walk.of(Sampler(vocab, Append()).sample([3] * 9), vocab)] * 30
    found = statistics(left_to_right)
    assert str(found.move_fraction) == "0.000 [0.000, 0.114]"
    assert str(found.end_append_fraction) == "1.000 [0.886, 1.000]"
    assert str(found.inner_insert_fraction) == "0.000 [0.000, 0.114]"


def test_noise_between_learned_actions_is_counted() -> None:
    richer = ActionVocab.build(10, operators=["delete"])
    assert richer.delete is not None
    noisy = Trajectory(restoration=(3, 4, richer.delete, 5, richer.stop), no_loss=(1,))
    walk = Walk.of(noisy, richer)
    assert (walk.preamble, walk.inserts, walk.tokens) == (2, 3, 2)


# -- searches -------------------------------------------------------------------------------------

SEARCH = ActionVocab.build(10, operators=["delete"], max_move=4, marks=True, search=True)
assert SEARCH.find is not None
assert SEARCH.mark is not None
assert SEARCH.back is not None


def find(*tokens: int) -> tuple[int, ...]:
    return SEARCH.spell(Action(Kind.FIND, tokens=tokens))


def drafted(*chosen: int) -> Walk:
    """A walk over the draft 1 2 3 4 5 6, which is given, from its start."""
    assert SEARCH.mark is not None
    assert SEARCH.back is not None
    shown = (SEARCH.mark, 1, 2, 3, 4, 5, 6, SEARCH.back)
    unlearned = tuple(range(len(shown)))
    return Walk.of(Trajectory(restoration=(*shown, *chosen), no_loss=unlearned), SEARCH)


def test_a_search_is_one_move_and_its_tokens_are_no_inserts() -> None:
    walk = drafted(*find(2, 3), 7, *find(5), SEARCH.delete or 0, SEARCH.stop)
    assert (walk.actions, walk.inserts, walk.tokens) == (10, 1, 0)
    assert (walk.moves, walk.searches, walk.to_mark) == ((3, 2), (True, True), (False, False))
    assert (walk.distance, walk.backward, walk.sizes) == (5, 0, Counter())
    assert walk.revisions == 0
    found = statistics([walk, drafted(SEARCH.move_id(1), SEARCH.move_id(2), 7, SEARCH.stop)])
    assert found.search_fraction is not None
    assert found.search_fraction.value == 2 / 4
    assert found.move_fraction is not None
    assert found.move_fraction.value == 4 / 14
    assert {size: share.value for size, share in found.move_sizes.items()} == {1: 0.5, 2: 0.5}
    assert statistics([drafted(7)]).search_fraction is None


def test_a_search_belongs_to_a_chain_of_moves() -> None:
    left = drafted(*find(3), 7, *find(5), SEARCH.move_id(-4), 7, SEARCH.stop)
    assert (left.moves, left.revisions) == ((3, 2, -4), 1)  # all in all -2


def test_a_search_that_was_cut_off_went_nowhere() -> None:
    for cut in range(1, 3):
        walk = drafted(7, *find(3)[:cut])
        assert (walk.moves, walk.searches, walk.inserts) == ((0,), (True,), 1)


def test_the_walk_of_a_revision_has_its_hunks() -> None:
    before, after = [1, 2, 3, 4, 5, 6, 1, 2, 3], [1, 2, 7, 3, 4, 5, 6, 1, 2, 8, 3]
    by_moves, by_search = (
        Walk.of(revision(SEARCH, before, after, instruction=[9], address=address), SEARCH)
        for address in ("moves", "search")
    )
    for walk in (by_moves, by_search):
        assert (walk.inserts, walk.tokens) == (2, 2)
        assert (walk.distance, walk.revisions, walk.preamble) == (2 + 6, 0, 3 + 9 + 2)
    assert not any(by_moves.searches)
    assert all(by_search.searches)


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(DataError, match="no walks"):
        statistics([])
    with pytest.raises(InvalidAction, match="land at -1"):
        Walk.of(Trajectory(prefix=(1,), restoration=(VOCAB.move_id(-2),)), VOCAB)
