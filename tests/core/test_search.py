"""Searches: FIND, tokens, HERE. Vocabulary, canvas and mask against a few lines of Python."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import OPERATORS, Action, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.history import is_argument, trace
from reviser.core.mask import Boundary
from reviser.errors import ConfigError, InvalidAction, VocabError
from support.naive import pick
from support.strategies import Layout, random_layout, seeds

TOKENS, PREFIX_ONLY = 4, 4
ALL = ActionVocab.build(
    TOKENS + 1, operators=OPERATORS, max_move=4, marks=True, search=True, never_insert=[PREFIX_ONLY]
)
PLAIN = ActionVocab.build(TOKENS, search=True)
STEPS = 60
assert ALL.find is not None
assert ALL.here is not None
assert PLAIN.find is not None
assert PLAIN.here is not None


def first_found(tokens: list[int], cursor: int, typed: list[int]) -> int | None:
    """Return where some tokens first occur, from the cursor on."""
    size = len(typed)
    starts = range(cursor, len(tokens) - size + 1)
    return next((p for p in starts if tokens[p : p + size] == typed), None)


def go_on(canvas: Canvas, typed: list[int], until: int) -> set[int]:
    """Return what a search may continue with, by trying every token."""
    found = {t: first_found(canvas.tokens(), canvas.cursor, [*typed, t]) for t in range(TOKENS)}
    return {t for t, p in found.items() if p is not None and p + len(typed) + 1 <= until}


def searched(vocab: ActionVocab, tokens: list[int], cursor: int = 0) -> Canvas:
    """Return a canvas whose search has begun."""
    assert vocab.find is not None
    canvas = Canvas(vocab, tokens, cursor)
    canvas.apply(vocab.find)
    return canvas


# -- the vocabulary -------------------------------------------------------------------------------


def test_searches_come_last_and_survive_saving() -> None:
    assert list(PLAIN.control_tokens)[-2:] == ["<|find|>", "<|here|>"]
    assert ActionVocab.from_json(PLAIN.to_json()) == PLAIN
    assert "find" not in ActionVocab.build(TOKENS).to_json()
    assert PLAIN.is_move[[PLAIN.find, PLAIN.here]].tolist() == [True, False]


@given(st.lists(st.integers(0, TOKENS - 1), min_size=1, max_size=5).map(tuple))
def test_a_search_is_read_as_it_is_spelled(tokens: tuple[int, ...]) -> None:
    action = Action(Kind.FIND, tokens=tokens)
    assert str(action) == " ".join(["find", *map(str, tokens)])
    ids = PLAIN.spell(action)
    assert [PLAIN.describe(i) for i in ids[:: len(ids) - 1]] == ["find", "here"]
    assert PLAIN.read([2, *ids, 1]) == [Action(Kind.INSERT, 2), action, Action(Kind.INSERT, 1)]


@pytest.mark.parametrize(
    "ids", [["find"], ["find", 1], ["find", "here"], ["here"], ["find", "stop"]]
)
def test_a_misspelled_search_is_refused(ids: list[str | int]) -> None:
    with pytest.raises(VocabError, match=r"misspelled|cannot start"):
        PLAIN.read([i if isinstance(i, int) else getattr(PLAIN, i) for i in ids])


def test_what_cannot_be_searched_for_is_not_spelled() -> None:
    with pytest.raises(VocabError, match="needs at least one token"):
        ALL.spell(Action(Kind.FIND))
    with pytest.raises(VocabError, match="cannot be inserted"):
        ALL.spell(Action(Kind.FIND, tokens=(PREFIX_ONLY,)))
    with pytest.raises(VocabError, match="no action here"):
        ALL.spell(Action(Kind.HERE))


# -- the canvas -----------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, TOKENS), min_size=1, max_size=12),
    st.lists(st.integers(0, TOKENS), min_size=1, max_size=4),
    st.data(),
)
def test_a_search_ends_after_the_first_match(
    tokens: list[int], typed: list[int], data: st.DataObject
) -> None:
    cursor = data.draw(st.integers(0, len(tokens)))
    canvas = Canvas(ALL, tokens, cursor)
    start = first_found(tokens, cursor, typed)
    action = Action(Kind.FIND, tokens=tuple(typed))
    if start is None or PREFIX_ONLY in typed:
        with pytest.raises((InvalidAction, VocabError)):
            canvas.act(action)
        assert (canvas.tokens(), canvas.cursor, canvas.is_spelling) == (tokens, cursor, False)
        return
    edits = canvas.act(action)
    assert not any(edit.changes_text for edit in edits)
    assert all(edit.cursor == cursor for edit in edits[:-1])
    assert canvas.cursor == start + len(typed)
    canvas.rollback(len(edits))
    assert (canvas.tokens(), canvas.cursor) == (tokens, cursor)


def test_here_needs_a_token_and_find_something_to_its_right() -> None:
    with pytest.raises(InvalidAction, match="find expects tokens that occur to the right"):
        searched(PLAIN, [1]).apply(PLAIN.here)
    for tokens, cursor in (([1], 1), ([], 0)):
        with pytest.raises(InvalidAction, match="must be a token to its right"):
            searched(PLAIN, tokens, cursor)
    with pytest.raises(InvalidAction, match="must be a token to its right"):
        searched(ALL, [PREFIX_ONLY, PREFIX_ONLY])
    assert Canvas(PLAIN, [1]).findable() == []


def test_a_copy_without_a_past_searches_on_but_cannot_roll_back() -> None:
    canvas = searched(PLAIN, [1, 2])
    forked = canvas.fork(past=False)
    forked.apply(2)
    assert (canvas.findable(), forked.findable()) == ([1, 2], [])
    with pytest.raises(InvalidAction, match="1 were applied"):
        forked.rollback(2)


# -- the mask -------------------------------------------------------------------------------------


def allowed(rows: Boundary) -> set[int]:
    return {*np.flatnonzero(rows.allowed()[0]).tolist()}


def start(layout: Layout, canvas: Canvas) -> Boundary:
    rows = Boundary(ALL, 1)
    rows.reset(0, **layout._asdict(), canvas=canvas)
    return rows


@given(seeds)
def test_with_nothing_locked_the_mask_allows_exactly_what_apply_accepts(seed: int) -> None:
    rng = Random(seed)
    chosen = [i for i in range(ALL.size) if ALL.kind(i) not in (Kind.SEPARATOR, Kind.PREFIX_ONLY)]
    canvas, rows = Canvas(ALL), Boundary(ALL, 1)
    for _ in range(STEPS):
        accepted = set()
        for i in chosen:
            try:
                canvas.fork().apply(i)
            except InvalidAction:
                continue
            accepted.add(i)
        assert allowed(rows) == accepted
        assert (rows.length[0], rows.cursor[0]) == (len(canvas), canvas.cursor)
        assert rows.is_spelling[0] == canvas.is_spelling
        action_id = pick(rng, ALL, allowed(rows) - {ALL.stop})
        canvas.apply(action_id)
        rows.advance([action_id])
        if not canvas.is_spelling and (len(canvas) > 20 or rng.random() < 0.05):
            tokens = rng.choices(range(TOKENS + 1), k=rng.randint(0, 12))
            canvas = Canvas(ALL, tokens, rng.randint(0, len(tokens)))
            rows.reset(0, length=len(canvas), cursor=canvas.cursor, canvas=canvas)


@given(seeds)
def test_a_search_leads_no_further_than_the_gaps_and_within_budgets(seed: int) -> None:
    rng = Random(seed)
    layout = random_layout(rng, 12)
    canvas = Canvas(ALL, rng.choices(range(TOKENS + 1), k=layout.length), layout.cursor)
    rows, moves = start(layout, canvas), 0
    typed: list[int] | None = None  # None when no search has begun
    for _ in range(STEPS):
        ids, until = allowed(rows), max((high for _, high in rows.gaps(0)), default=-1)
        assert ids  # there is always a way to continue
        if typed is not None:
            tokens = go_on(canvas, typed, until)
            assert ids == tokens | ({ALL.here} if typed else set())
        elif not canvas.is_spelling:
            budget = layout.max_moves is None or moves < layout.max_moves
            edits = ALL.mark in ids or any(ALL.kind(i) is Kind.MOVE for i in ids)
            assert (ALL.find in ids) <= (budget and bool(go_on(canvas, [], until)))
            if budget and edits:
                assert (ALL.find in ids) == bool(go_on(canvas, [], until))
        action_id = pick(rng, ALL, ids - {ALL.stop} or ids)
        is_free, kind = not canvas.is_spelling, ALL.kind(action_id)
        if kind is Kind.STOP:
            break
        if is_free:
            moves = moves + 1 if ALL.is_move[action_id] else 0
        canvas.apply(action_id)
        rows.advance([action_id])
        if typed is not None:
            typed = None if kind is Kind.HERE else [*typed, action_id]
        elif kind is Kind.FIND:
            typed = []
        assert rows.findable(0) == canvas.findable(max((h for _, h in rows.gaps(0)), default=-1))
        assert rows.cursor[0] == canvas.cursor


@given(seeds)
def test_rows_are_forked_put_back_and_replayed_in_the_middle_of_a_search(seed: int) -> None:
    rng = Random(seed)
    tokens = rng.choices(range(TOKENS), k=8)
    rows = Boundary(ALL, 2)
    for row in range(2):
        rows.reset(row, length=8, cursor=0, canvas=Canvas(ALL, tokens, 0))
    rows.advance([ALL.find, ALL.find])
    rows.advance([tokens[row] for row in range(2)])
    before = rows.fork()
    rows.advance([ALL.here], [1])
    assert rows.findable(0) == before.findable(0)
    assert rows.findable(1) == []
    rows.put([1, 0], before)
    assert [rows.findable(0), rows.findable(1)] == [before.findable(1), before.findable(0)]
    alone = Boundary(ALL, 1)
    alone.reset(0, length=8, cursor=0, canvas=Canvas(ALL, tokens, 0))
    alone.replay(0, [ALL.find, tokens[0]])
    assert (alone.allowed() == before.fork([0]).allowed()).all()


def test_with_searches_a_row_needs_its_canvas() -> None:
    rows = Boundary(ALL, 1)
    rows.reset(0)
    with pytest.raises(ConfigError, match="Searches need the canvas: one of length 3"):
        rows.reset(0, length=3)
    with pytest.raises(ConfigError, match="cursor at 1, not of length 3 with its cursor at 3"):
        rows.reset(0, length=3, cursor=1, canvas=Canvas(ALL, [1, 2, 3]))


def test_stop_follows_stop_as_padding() -> None:
    rows = Boundary(ALL, 1)
    rows.replay(0, [ALL.stop, ALL.stop])
    assert allowed(rows) == {ALL.stop}


# -- histories ------------------------------------------------------------------------------------


def test_a_history_with_searches_is_traced_and_its_arguments_known() -> None:
    assert ALL.replace is not None
    first = [1, 2, 3, ALL.move_id(-2), ALL.find, 2, ALL.here]
    history = [*first, 0, ALL.find, 3, ALL.here, ALL.replace, 2, 1]
    lengths, cursors = trace(ALL, np.array([history]))
    assert lengths[0].tolist() == [1, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 5]
    assert cursors[0].tolist() == [1, 2, 3, 1, 1, 1, 2, 3, 3, 3, 4, 4, 4, 5]
    assert np.flatnonzero(is_argument(ALL, np.array([history]))[0]).tolist() == [5, 6, 9, 10, 12]


# -- many rows ------------------------------------------------------------------------------------


def some_rows() -> Boundary:
    rows = Boundary(PLAIN, 3)
    for row in range(3):
        rows.reset(row, length=3, cursor=1, gaps=[(0, 3)], canvas=Canvas(PLAIN, [1, 2, 3], 1))
    return rows


def test_an_id_that_one_canvas_refuses_changes_no_row() -> None:
    rows, fresh = some_rows(), some_rows()
    assert PLAIN.find is not None
    assert PLAIN.here is not None
    with pytest.raises(InvalidAction, match="not an action"):
        rows.advance([0, PLAIN.find, PLAIN.here])
    for ids in ([0, PLAIN.find, 1], [PLAIN.find, 3, PLAIN.find], [2, PLAIN.here, 3]):
        for both in (rows, fresh):
            both.advance(ids)
        assert (rows.allowed() == fresh.allowed()).all()
        assert rows.cursor.tolist() == fresh.cursor.tolist()


def test_a_view_reads_as_a_fork_does_and_rows_put_into_it_are_its_own() -> None:
    rows = some_rows()
    rows.advance([PLAIN.find, 0, 1])
    assert (rows.view([2, 0]).allowed() == rows.fork([2, 0]).allowed()).all()
    before, view = rows.allowed(), rows.view([0, 1, 2])
    view.put([0], rows.fork([1]))
    assert (view.allowed()[0] == before[1]).all()
    assert (rows.allowed() == before).all()
