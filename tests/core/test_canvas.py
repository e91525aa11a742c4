"""The canvas: it does what the paper says, refuses the rest, and undoes what it did."""

import re
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import OPERATORS, Action, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.errors import InvalidAction, VocabError
from support import naive
from support.naive import pick
from support.strategies import (
    SMALL_VOCABS,
    random_action,
    random_history,
    seeds,
    small_vocabs,
)

ALL = SMALL_VOCABS[3]
PLAIN = ActionVocab.build(10, operators=OPERATORS, max_move=8)
LONGEST = 12  # canvases on which the reference lists every whole action
STEPS = 60  # states of a walk, so 100 examples visit 6,000 and 2,000 visit 120,000

Snapshot = tuple[list[int], int, bool]


def snapshot(canvas: Canvas) -> Snapshot:
    return canvas.tokens(), canvas.cursor, canvas.is_finished


def accepts(canvas: Canvas, action_id: int) -> bool:
    """Return whether the id can be applied, and leave the canvas unchanged."""
    before = snapshot(canvas)
    try:
        canvas.apply(action_id)
    except InvalidAction:
        assert snapshot(canvas) == before
        return False
    canvas.rollback()
    assert snapshot(canvas) == before
    return True


def random_canvas(rng: Random, vocab: ActionVocab, longest: int) -> Canvas:
    """Return a canvas of distinct tokens."""
    tokens = range(1000, 1000 + rng.randint(0, longest))
    return Canvas(vocab, tokens, rng.randint(0, len(tokens)))


# -- the executor ---------------------------------------------------------------------------------


@given(small_vocabs, seeds)
def test_the_canvas_accepts_what_the_paper_allows_and_does_what_it_says(
    vocab: ActionVocab, seed: int
) -> None:
    rng = Random(seed)
    canvas = random_canvas(rng, vocab, LONGEST)
    state = naive.State(tuple(canvas.tokens()), canvas.cursor)
    for _ in range(STEPS):
        legal = naive.legal_ids(vocab, state)
        assert {i for i in range(-1, vocab.size + 1) if accepts(canvas, i)} == legal
        if state.stopped or len(state.tokens) > LONGEST:
            canvas = random_canvas(rng, vocab, LONGEST)
            state = naive.State(tuple(canvas.tokens()), canvas.cursor)
            continue
        action_id = pick(rng, vocab, legal)
        state = naive.execute(vocab, state, action_id)
        canvas.apply(action_id)
        assert snapshot(canvas) == (list(state.tokens), state.cursor, state.stopped)
        assert len(canvas) == len(state.tokens)


@given(seeds)
def test_a_long_canvas_does_what_the_paper_says(seed: int) -> None:
    rng = Random(seed)
    canvas = random_canvas(rng, ALL, 300)
    state = naive.State(tuple(canvas.tokens()), canvas.cursor)
    for _ in range(STEPS):
        action = random_action(rng, ALL, len(canvas), canvas.cursor)
        for i in naive.spell(ALL, action, canvas.cursor):
            canvas.apply(i)
            state = naive.execute(ALL, state, i)
            assert snapshot(canvas) == (list(state.tokens), state.cursor, False)


@given(seeds)
def test_an_edit_says_what_gave_way_to_what(seed: int) -> None:
    rng = Random(seed)
    canvas = Canvas(ALL)
    for i in random_history(rng, ALL, STEPS):
        before, cursor = canvas.tokens(), canvas.cursor
        edit = canvas.apply(i)
        end = edit.position + len(edit.removed)
        assert tuple(before[edit.position : end]) == edit.removed
        assert [*before[: edit.position], *edit.inserted, *before[end:]] == canvas.tokens()
        assert (edit.cursor_before, edit.cursor) == (cursor, canvas.cursor)
        assert edit.changes_text or canvas.tokens() == before


# -- undo -----------------------------------------------------------------------------------------


@given(seeds, st.integers(0, 60))
def test_rolling_back_gives_the_edits_that_did_it(seed: int, count: int) -> None:
    canvas = Canvas(ALL)
    edits = [canvas.apply(i) for i in random_history(Random(seed), ALL, STEPS)]
    tokens, count = canvas.tokens(), min(count, len(edits))
    undone = canvas.rollback(count)
    assert undone == [edit.inverse() for edit in reversed(edits[len(edits) - count :])]
    for edit in undone:
        end = edit.position + len(edit.removed)
        assert tuple(tokens[edit.position : end]) == edit.removed
        tokens[edit.position : end] = edit.inserted
    assert tokens == canvas.tokens()


def test_a_whole_action_does_not_complete_another() -> None:
    canvas = Canvas(PLAIN, [1])
    assert PLAIN.replace is not None
    canvas.apply(PLAIN.replace)
    with pytest.raises(InvalidAction, match="unfinished; complete it or roll it back"):
        canvas.act(Action(Kind.INSERT, 5))
    canvas.rollback()
    assert canvas.act(Action(Kind.INSERT, 5))[0].inserted == (5,)


def test_ids_from_an_array_leave_plain_numbers() -> None:
    canvas = Canvas(PLAIN)
    assert type(canvas.apply(np.int64(5)).inserted[0]) is int  # type: ignore[arg-type]
    assert type(canvas.tokens()[0]) is int
    assert repr(canvas) == "<Canvas of 1 tokens: ... 5 |  ...>"


@given(small_vocabs, seeds)
def test_applying_then_rolling_back_is_the_identity(vocab: ActionVocab, seed: int) -> None:
    rng = Random(seed)
    canvas = random_canvas(rng, vocab, LONGEST)
    past: list[tuple[Snapshot, set[int]]] = []  # what was there before each id
    for _ in range(STEPS):
        accepted = {i for i in range(vocab.size) if accepts(canvas, i)}
        if past and (not accepted or len(canvas) > LONGEST or rng.random() < 0.1):
            count = rng.randint(1, len(past))
            canvas.rollback(count)
            past, (before, then_accepted) = past[:-count], past[-count]
            assert snapshot(canvas) == before
            assert {i for i in range(vocab.size) if accepts(canvas, i)} == then_accepted
            continue
        past.append((snapshot(canvas), accepted))
        canvas.apply(pick(rng, vocab, accepted))
    canvas.rollback(len(past))
    if past:
        assert snapshot(canvas) == past[0][0]


@given(seeds, st.data())
def test_a_fork_is_independent_and_shares_the_past(seed: int, data: st.DataObject) -> None:
    history = random_history(Random(seed), ALL, 10)
    count = data.draw(st.integers(0, len(history)))
    canvas = Canvas.replay(ALL, history)
    before, forked = snapshot(canvas), canvas.fork()
    forked.rollback(count)
    assert snapshot(forked) == snapshot(Canvas.replay(ALL, history[: len(history) - count]))
    assert snapshot(canvas) == before
    forked_before = snapshot(forked)
    canvas.rollback(len(history))
    canvas.apply(ALL.stop)
    assert snapshot(forked) == forked_before


@given(seeds, st.integers(0, 30), st.integers(0, 30))
def test_a_window_is_a_slice_around_the_cursor(seed: int, before: int, after: int) -> None:
    canvas = random_canvas(Random(seed), ALL, 20)
    tokens, cursor = canvas.tokens(), canvas.cursor
    left, right = tokens[max(0, cursor - before) : cursor], tokens[cursor : cursor + after]
    assert canvas.window(before, after) == (left, right)


# -- whole actions --------------------------------------------------------------------------------


@given(seeds, st.sampled_from([kind for kind in Kind if kind < Kind.MARK]))
def test_a_whole_action_happens_or_nothing_does(seed: int, kind: Kind) -> None:
    rng = Random(seed)
    vocab = ALL
    canvas = random_canvas(rng, vocab, 8)
    before, u = snapshot(canvas), canvas.cursor
    offset = rng.randint(-9, 9) if kind in (Kind.SPAN_MOVE, Kind.SPAN_COPY) else 0
    argument = rng.choice(vocab.deltas) if kind is Kind.MOVE else rng.randint(1, 9)
    if kind in (Kind.INSERT, Kind.REPLACE):
        argument = rng.choice(naive.ids_of(vocab, "insert"))
    action = Action(kind, argument, offset)
    meant = naive.meaning(vocab, vocab.spell(action), u)
    assert meant is not None
    if meant not in naive.valid_actions(vocab, len(canvas), u):
        with pytest.raises(InvalidAction):
            canvas.act(action)
        assert snapshot(canvas) == before
        assert accepts(canvas, vocab.stop)  # no action is left unfinished
        return
    edits = canvas.act(action)
    name, *arguments = meant
    tokens, cursor = naive.EXECUTOR[name](tuple(before[0]), u, *arguments)
    assert snapshot(canvas) == (list(tokens), cursor, kind is Kind.STOP)
    assert len(edits) == len(vocab.spell(action))
    canvas.rollback(len(edits))
    assert snapshot(canvas) == before


def test_an_action_that_cannot_be_spelled_changes_nothing() -> None:
    canvas = Canvas(ActionVocab.paper(), [1, 2])
    with pytest.raises(VocabError, match="This vocabulary has no action swap"):
        canvas.act(Action(Kind.SWAP))
    assert snapshot(canvas) == ([1, 2], 2, False)


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "refused", "message"),
    [
        ([], "move -8", "the cursor is at 3, so it would land at -5. The canvas is unchanged"),
        ([], "move +4", "the cursor is at 3, so it would land at 7. The canvas is unchanged"),
        ([], "end", "it is not an action"),
        ([], "unknown id 999", "it is not an action"),
        (["replace"], "stop", "replace expects a token here. The canvas is unchanged"),
        (["span_delete"], "move +4", "span_delete expects a number from 1 to 3 here"),
        (["span_copy"], "end", "span_copy expects a digit here"),
        (["span_copy"], "insert 3", "span_copy expects a digit here"),
        (["span_copy", "move +1", "end"], "move -4", "expects a number from -3 to 2 here"),
        (["span_move", "move +1", "end"], "move +4", "expects a number from -2 to 2 here"),
        (["span_move", "move +1"], "move +2", "expects a number from 1 to 3 here"),
    ],
)
def test_a_refusal_says_where_the_cursor_is_or_what_is_expected(
    first: list[str], refused: str, message: str
) -> None:
    ids = {PLAIN.describe(i): i for i in [*range(PLAIN.size), 999]}
    canvas = Canvas(PLAIN, [1, 2, 3, 4, 5], 3)
    for word in first:
        canvas.apply(ids[word])
    with pytest.raises(InvalidAction, match=f"^Cannot apply {re.escape(refused)}: .*{message}"):
        canvas.apply(ids[refused])
    assert snapshot(canvas) == ([1, 2, 3, 4, 5], 3, False)


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_needs_tokens_to_its_left(operator: str) -> None:
    needed = 2 if operator == "swap" else 1
    canvas = Canvas(PLAIN, [1, 2, 3], needed - 1)
    message = rf"^Cannot apply {operator}: .* at {needed - 1}, so it needs {needed} token\(s\)"
    with pytest.raises(InvalidAction, match=message):
        canvas.apply(getattr(PLAIN, operator))


def test_nothing_follows_stop_until_it_is_rolled_back() -> None:
    canvas = Canvas(PLAIN, [1, 2])
    canvas.apply(PLAIN.stop)
    assert canvas.is_finished
    with pytest.raises(InvalidAction, match="has stopped; nothing can follow STOP"):
        canvas.apply(PLAIN.stop)
    canvas.rollback()
    assert not canvas.is_finished
    assert canvas.apply(3).inserted == (3,)


def test_a_cursor_outside_the_canvas_and_too_long_a_rollback_are_refused() -> None:
    with pytest.raises(InvalidAction, match=r"Cursor 3 is outside 0\.\.2"):
        Canvas(PLAIN, [1, 2], 3)
    canvas = Canvas.replay(PLAIN, [1])
    for count in (-1, 2):
        with pytest.raises(InvalidAction, match=f"Cannot roll back {count} ids: 1 were applied"):
            canvas.rollback(count)
    assert snapshot(canvas) == ([1], 1, False)
