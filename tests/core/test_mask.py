"""The mask: exactly what the executor accepts, except for locks and budgets, for many rows."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import OPERATORS, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.history import is_argument, trace
from reviser.core.mask import ActionMask
from reviser.errors import ConfigError, InvalidAction
from support import naive
from support.naive import pick
from support.strategies import (
    SMALL_VOCABS,
    Layout,
    random_layout,
    seeds,
    small_vocabs,
)

ALL = SMALL_VOCABS[3]
RICHER = [
    ActionVocab.build(5, operators=operators, max_move=4, marks=marks, search=True, reserved=1)
    for operators in ((), ("replace", "delete"), OPERATORS)
    for marks in (False, True)
]
LONGEST = 11  # canvases on which the reference lists every whole action
ROWS, STEPS = 4, 32  # a batch and its walk: 128 states an example, 256,000 in 2,000
LONE_STEPS = 60  # a walk of one row: 60 states an example

Seen = list[tuple[int, int, bool, list[tuple[int, int]], set[int]]]


def start(vocab: ActionVocab, layouts: list[Layout]) -> ActionMask:
    rows = ActionMask(vocab, len(layouts))
    for n, layout in enumerate(layouts):
        rows.reset(n, **layout._asdict())
    return rows


def allowed(rows: ActionMask) -> list[set[int]]:
    """Return the ids that each row's mask allows."""
    wide = rows.allowed()
    return [{*np.flatnonzero(row).tolist()} for row in wide]


def seen(rows: ActionMask) -> Seen:
    """Return all that the rows say about themselves."""
    parts = rows.length.tolist(), rows.cursor.tolist(), rows.is_finished.tolist()
    editable = [rows.editable(n) for n in range(len(rows))]
    return list(zip(*parts, editable, allowed(rows), strict=True))


def seen_in(vocab: ActionVocab, doc: naive.Document) -> tuple[object, ...]:
    """Return the same of the reference."""
    bounds, ids = naive.range_bounds(doc), naive.allowed_ids(vocab, doc)
    return len(doc.cells), doc.cursor, doc.stopped, bounds, ids


# -- the mask and the executor --------------------------------------------------------------------


# -- the mask and its policies --------------------------------------------------------------------


@given(small_vocabs, seeds)
def test_the_mask_allows_exactly_what_its_policies_let_complete(
    vocab: ActionVocab, seed: int
) -> None:
    rng = Random(seed)
    layouts = [random_layout(rng, LONGEST) for _ in range(ROWS)]
    rows = start(vocab, layouts)
    docs = [naive.document(*layout) for layout in layouts]
    for _ in range(STEPS):
        states = seen(rows)
        assert states == [seen_in(vocab, doc) for doc in docs]
        assert all(state[-1] for state in states)  # every row can always continue
        ids = [pick(rng, vocab, state[-1]) for state in states]
        rows.advance(ids)
        docs = [naive.write(vocab, doc, i) for doc, i in zip(docs, ids, strict=True)]
        for n, state in enumerate(states):
            if state[2] or len(docs[n].cells) > LONGEST + 3:  # seen finished, or grown too long
                layout = random_layout(rng, LONGEST)
                rows.reset(n, **layout._asdict())
                docs[n] = naive.document(*layout)


@given(seeds)
def test_a_walk_that_follows_the_mask_leaves_locked_text_and_budgets_alone(seed: int) -> None:
    rng = Random(seed)
    layout = random_layout(rng, 120, most_gaps=9)
    rows = start(ALL, [layout])
    canvas = Canvas(ALL, range(1000, 1000 + layout.length), layout.cursor)
    locked = outside(canvas.tokens(), layout.editable)
    longest = max(layout.length, layout.length if layout.max_length is None else layout.max_length)
    edits = moves = 0
    for _ in range(LONE_STEPS):
        (ids,) = allowed(rows)
        action_id = pick(rng, ALL, ids)
        if canvas.is_finished:
            assert ids == {ALL.stop}
            break
        if not canvas.is_spelling:
            moves = moves + 1 if ALL.kind(action_id) is Kind.MOVE else 0
        edits += canvas.apply(action_id).changes_text
        rows.advance([action_id])
        assert outside(canvas.tokens(), rows.editable(0)) == locked
        assert (len(canvas), canvas.cursor) == (rows.length[0], rows.cursor[0])
        assert layout.max_length is None or len(canvas) <= longest
        assert layout.max_edits is None or edits <= layout.max_edits
        assert layout.max_moves is None or moves <= layout.max_moves


def outside(tokens: list[int], editable: list[tuple[int, int]]) -> list[list[int]]:
    """Return the locked stretches before, between and after the ranges."""
    bounds = [0, *(bound for pair in editable for bound in pair), len(tokens)]
    return [tokens[low:high] for low, high in list(pairwise(bounds))[::2]]


def test_a_prefix_is_locked_by_one_range_after_it() -> None:
    vocab = ActionVocab.build(10, operators=["delete", "span_copy"], max_move=2)
    rows = start(vocab, [Layout(3, 3, [(3, 3)])])
    rows.advance([4])
    assert rows.editable(0) == [(3, 4)]
    names = [vocab.describe(i) for i in sorted(allowed(rows)[0])]
    inserts = [f"insert {i}" for i in range(10)]
    assert names == [*inserts, "stop", "move -1", "delete", "span_copy"]


# -- many rows ------------------------------------------------------------------------------------


def walk(rng: Random, rows: ActionMask, steps: int) -> list[list[int]]:
    """Follow the mask; return the ids chosen, step by step."""
    history = []
    for _ in range(steps):
        history.append([pick(rng, rows.vocab, ids) for ids in allowed(rows)])
        rows.advance(history[-1])
    return history


def test_a_new_row_is_a_blank_canvas_that_may_be_written_anywhere() -> None:
    rows = ActionMask(ALL, 2)
    assert len(rows) == 2
    assert seen(rows)[0] == (0, 0, False, [(0, 0)], {*naive.ids_of(ALL, "insert"), ALL.stop})
    rows.reset(1, length=4)
    assert seen(rows)[1][:4] == (4, 4, False, [(0, 4)])


# -- the mask as an array -------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [3, 250_000])
def test_a_mask_is_no_wider_for_more_tokens(tokens: int) -> None:
    vocab = ActionVocab.build(tokens, operators=OPERATORS, max_move=4)
    rows = start(vocab, [Layout(3, 2, [(0, 3)])])
    assert rows.fill_mask().shape == (1, 1 + len(vocab.controls)) == (1, 15)


def test_a_cursor_starts_at_the_end_of_the_first_gap() -> None:
    rows = ActionMask(ALL, 2)
    rows.reset(0, length=9, editable=[(2, 4), (6, 6)])
    rows.reset(1, length=9, editable=[])
    assert rows.cursor.tolist() == [4, 9]
    assert rows.fill_mask()[0, 0]
    assert allowed(rows)[1] == {ALL.stop}


def test_no_rows_at_all_have_a_mask_too() -> None:
    rows = ActionMask(ALL, 0)
    rows.advance([])
    assert rows.fill_mask().shape == (0, 1 + len(ALL.controls))


# -- histories ------------------------------------------------------------------------------------


@given(small_vocabs | st.sampled_from(RICHER), seeds)
def test_a_trace_is_the_canvas_step_by_step(vocab: ActionVocab, seed: int) -> None:
    rng, rows = Random(seed), ActionMask(vocab, 3)
    canvases = [Canvas(vocab) for _ in range(3)]
    lengths, cursors, spelling, history = [], [], [], []
    over = rng.randint(0, 30)  # the second row ends by then; a row that has ended gets padding
    idle = [i for i in range(vocab.size) if vocab.kind(i) in (Kind.SEPARATOR, Kind.RESERVED)]
    for time in range(30):
        spelling.append([canvas.is_spelling for canvas in canvases])
        ids = [pick(rng, vocab, mask) for mask in allowed(rows)]
        if time >= over and not canvases[1].is_spelling:
            ids[1] = vocab.stop
        ids = [
            rng.choice([*idle, vocab.stop]) if canvas.is_finished else i
            for canvas, i in zip(canvases, ids, strict=True)
        ]
        history.append(ids)
        rows.advance(ids)
        for canvas, i in zip(canvases, ids, strict=True):
            if not canvas.is_finished:
                canvas.apply(i)
        lengths.append([len(canvas) for canvas in canvases])
        cursors.append([canvas.cursor for canvas in canvases])
    history_BT = np.array(history).T
    assert [part.T.tolist() for part in trace(vocab, history_BT)] == [lengths, cursors]
    assert is_argument(vocab, history_BT).T.tolist() == spelling
    assert trace(vocab, history_BT[:, :0])[0].shape == (3, 0)
    assert is_argument(vocab, history_BT[:, :0]).shape == (3, 0)


@given(seeds)
def test_without_span_operators_a_running_sum_of_the_tables_is_the_trace(seed: int) -> None:
    vocab = ActionVocab.build(5, operators=["delete", "replace", "swap"], max_move=4)
    rng, rows = Random(seed), ActionMask(vocab, 1)
    history = np.array([[ids[0]] for ids in walk(rng, rows, LONE_STEPS)]).T
    stopped = np.cumsum(history == vocab.stop, axis=1) > 0
    history[stopped] = vocab.stop
    lengths, cursors = trace(vocab, history)
    unfinished = vocab.kinds[history] == Kind.REPLACE
    sums = (
        np.cumsum(table[history], axis=1) for table in (vocab.length_deltas, vocab.cursor_deltas)
    )
    for sum_BT, trace_BT in zip(sums, (lengths, cursors), strict=True):
        np.testing.assert_array_equal(sum_BT + unfinished, trace_BT)
    canvas = Canvas.replay(vocab, history[~stopped])
    assert (lengths[0, -1], cursors[0, -1]) == (len(canvas), canvas.cursor)


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("editable", "cursor", "message"),
    [
        ([(2, 1)], 0, "do not fit"),
        ([(3, 4), (0, 1)], 0, "do not fit"),
        ([(0, 1), (1, 2)], 0, "do not fit"),
        ([(-1, 1)], 0, "do not fit"),
        ([(0, 6)], 0, "do not fit a canvas of length 5: they must be in order, apart"),
        ([(0, 5)], 6, "with cursor 6 do not fit"),
        ([(0, 5)], -1, "with cursor -1 do not fit"),
        ([(1, 1), (2, 3)], 5, "at 5, outside the editable ranges .* Start it between 1 and 3"),
    ],
)
def test_ranges_that_do_not_fit_are_refused(
    editable: list[tuple[int, int]], cursor: int, message: str
) -> None:
    rows = start(ALL, [Layout(3, 2, [(0, 3)])])
    before = seen(rows)
    with pytest.raises(ConfigError, match=message):
        rows.reset(0, length=5, cursor=cursor, editable=editable)
    assert seen(rows) == before


@pytest.mark.parametrize(
    ("ids", "named", "message"),
    [
        ([0, -1], None, f"must lie in 0..{ALL.size - 1}; got"),
        ([0, ALL.size], None, "must lie in"),
        ([ALL.stop], None, "one id per row; got 1 for 2 rows"),
        ([ALL.stop] * 2, [0], "one id per row; got 2 for 1 rows"),
    ],
)
def test_ids_that_do_not_fit_are_refused(
    ids: list[int], named: list[int] | None, message: str
) -> None:
    rows = ActionMask(ALL, 2)
    before = seen(rows)
    with pytest.raises(InvalidAction, match=message):
        rows.advance(ids, rows=named)
    assert seen(rows) == before
