"""A route: the searches that a row of the mask has to take, and what it may do between them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.mask import Boundary
from reviser.core.searches import shortest_search
from reviser.errors import ConfigError

VOCAB = ActionVocab.build(
    6, operators=["delete", "replace", "span_delete"], max_move=4, marks=True, search=True
)


@given(
    tokens=st.lists(st.integers(0, 2), min_size=1, max_size=12),
    data=st.data(),
)
def test_a_row_visits_every_goal_in_order_and_edits_nowhere_else(
    tokens: list[int], data: st.DataObject
) -> None:
    goals = sorted(data.draw(st.sets(st.integers(0, len(tokens)), min_size=1)))
    starts = [0, *goals]  # each search starts where the one before it ended
    pairs = [(a, b) for a, b in pairwise(starts) if a < b]
    route = [() for _ in goals[:1] if goals[0] == 0]
    route += [tuple(tokens[b - shortest_search(tokens, a, b) : b]) for a, b in pairs]
    gaps = [(0, len(tokens))]
    canvas = Canvas(VOCAB, tokens, cursor=0)
    rows = Boundary(VOCAB, 1)
    rows.reset(0, length=len(tokens), cursor=0, gaps=gaps, canvas=canvas, route=route, max_edits=4)
    left = len(tokens)  # tokens from the cursor on, none of which an edit has touched
    visited = [0] if goals[0] == 0 else []
    edits = 0
    for _ in range(80):
        choices = np.flatnonzero(rows.allowed()[0]).tolist()
        chosen = data.draw(st.sampled_from(choices))
        kind, is_free = VOCAB.kind(chosen), not canvas.is_spelling
        edits += canvas.apply(chosen).changes_text
        rows.advance([chosen])
        if kind is Kind.HERE:
            left = len(canvas) - canvas.cursor
            visited.append(len(tokens) - left)
        elif is_free:
            assert kind is Kind.FIND or kind is Kind.STOP or visited  # nothing before the first
            assert kind not in (Kind.MOVE, Kind.BACK, Kind.MARK)
        assert len(canvas) - canvas.cursor == left  # edits stay to the left of the cursor
        if kind is Kind.STOP:
            break
    assert canvas.is_finished
    assert visited == goals or edits == 4  # without edits left, a row stops where it is


@pytest.mark.parametrize("route", [[], [(), ()], [(1,), ()], [(VOCAB.stop,)], [(1 << 40,)]])
def test_a_route_without_searches_is_refused(route: list[tuple[int, ...]]) -> None:
    rows = Boundary(VOCAB, 1)
    canvas = Canvas(VOCAB, [0, 1], cursor=0)
    with pytest.raises(ConfigError, match="A route is one or more searches"):
        rows.reset(0, length=2, cursor=0, gaps=[(0, 2)], canvas=canvas, route=route)


def test_a_route_needs_searches_in_the_vocabulary() -> None:
    with pytest.raises(ConfigError, match="needs a vocabulary with searches"):
        Boundary(ActionVocab.build(6), 1).reset(0, route=[(1,)])


def test_forks_and_copies_of_rows_keep_their_own_route() -> None:
    rows = Boundary(VOCAB, 1)
    canvas = Canvas(VOCAB, [0, 1, 2], cursor=0)
    rows.reset(0, length=3, cursor=0, gaps=[(0, 3)], canvas=canvas, route=[(0,), (1,)])
    fork, other = rows.fork(), Boundary(VOCAB, 1)
    other.put([0], rows)
    assert VOCAB.find is not None
    assert VOCAB.here is not None
    rows.replay(0, [VOCAB.find, 0, VOCAB.here])
    assert fork.findable(0) == other.findable(0) == []
    for each in (fork, other):
        each.advance([VOCAB.find])
        assert each.findable(0) == [0]
    rows.advance([VOCAB.find])
    assert rows.findable(0) == [1]
    rows.reset(0, length=3, cursor=0, gaps=[(0, 3)], canvas=canvas)
    assert not rows.routed
