"""The mask: exactly what the executor accepts, except for locks and budgets, for many rows."""

from itertools import pairwise
from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import OPERATORS, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.history import is_argument, trace
from reviser.core.mask import Boundary
from reviser.errors import ConfigError, InvalidAction
from support import naive
from support.naive import pick
from support.strategies import (
    SMALL_VOCABS,
    Layout,
    random_history,
    random_layout,
    seeds,
    small_vocabs,
)

ALL = SMALL_VOCABS[3]
LONGEST = 11  # canvases on which the reference lists every whole action
ROWS, STEPS = 4, 32  # a batch and its walk: 128 states an example, 256,000 in 2,000
LONE_STEPS = 60  # a walk of one row: 60 states an example

Seen = list[tuple[int, int, bool, list[tuple[int, int]], set[int]]]


def start(vocab: ActionVocab, layouts: list[Layout]) -> Boundary:
    rows = Boundary(vocab, len(layouts))
    for n, layout in enumerate(layouts):
        rows.reset(n, **layout._asdict())
    return rows


def allowed(rows: Boundary) -> list[set[int]]:
    """Return the ids that each row's mask allows."""
    wide = rows.allowed()
    return [{*np.flatnonzero(row).tolist()} for row in wide]


def seen(rows: Boundary) -> Seen:
    """Return all that the rows say about themselves."""
    parts = rows.length.tolist(), rows.cursor.tolist(), rows.is_finished.tolist()
    gaps = [rows.gaps(n) for n in range(len(rows))]
    return list(zip(*parts, gaps, allowed(rows), strict=True))


def seen_in(vocab: ActionVocab, doc: naive.Document) -> tuple[object, ...]:
    """Return the same of the reference."""
    bounds, ids = naive.gap_bounds(doc), naive.allowed_ids(vocab, doc)
    return len(doc.cells), doc.cursor, doc.stopped, bounds, ids


# -- the mask and the executor --------------------------------------------------------------------


@given(small_vocabs, seeds)
def test_with_nothing_locked_the_mask_allows_exactly_what_apply_accepts(
    vocab: ActionVocab, seed: int
) -> None:
    rng = Random(seed)
    canvas, rows = Canvas(vocab), Boundary(vocab, 1)
    chosen = [
        i for i in range(vocab.size) if vocab.kind(i) not in (Kind.SEPARATOR, Kind.PREFIX_ONLY)
    ]
    for _ in range(LONE_STEPS):
        accepted = set()
        for i in chosen:
            try:
                canvas.fork().apply(i)
            except InvalidAction:
                continue
            accepted.add(i)
        (ids,) = allowed(rows)
        assert ids == accepted or (canvas.is_finished and ids == {vocab.stop})
        assert (rows.length[0], rows.cursor[0]) == (len(canvas), canvas.cursor)
        if canvas.is_finished or len(canvas) > 40:
            canvas, rows = Canvas(vocab, range(5), rng.randint(0, 5)), Boundary(vocab, 1)
            rows.reset(0, length=5, cursor=canvas.cursor)
            continue
        action_id = pick(rng, vocab, ids)
        canvas.apply(action_id)
        rows.advance([action_id])
        assert rows.is_spelling[0] == canvas.is_spelling


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
    locked = outside(canvas.tokens(), layout.gaps)
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
        assert outside(canvas.tokens(), rows.gaps(0)) == locked
        assert (len(canvas), canvas.cursor) == (rows.length[0], rows.cursor[0])
        assert layout.max_length is None or len(canvas) <= longest
        assert layout.max_edits is None or edits <= layout.max_edits
        assert layout.max_moves is None or moves <= layout.max_moves


def outside(tokens: list[int], gaps: list[tuple[int, int]]) -> list[list[int]]:
    """Return the locked stretches before, between and after the gaps."""
    bounds = [0, *(bound for gap in gaps for bound in gap), len(tokens)]
    return [tokens[low:high] for low, high in list(pairwise(bounds))[::2]]


def test_a_prefix_is_locked_by_one_gap_after_it() -> None:
    vocab = ActionVocab.build(10, operators=["delete", "span_copy"], max_move=2)
    rows = start(vocab, [Layout(3, 3, [(3, 3)])])
    rows.advance([4])
    assert rows.gaps(0) == [(3, 4)]
    names = [vocab.describe(i) for i in sorted(allowed(rows)[0])]
    inserts = [f"insert {i}" for i in range(10)]
    assert names == [*inserts, "stop", "move -1", "delete", "span_copy"]


def test_a_finished_row_does_not_change_and_allows_only_stop() -> None:
    rows = start(ALL, [Layout(3, 2, [(0, 3)], max_edits=1)])
    rows.advance([ALL.stop])
    before = seen(rows)
    assert before == [(3, 2, True, [(0, 3)], {ALL.stop})]
    for i in range(ALL.size):
        rows.advance([i])
        assert seen(rows) == before


# -- many rows ------------------------------------------------------------------------------------


def walk(rng: Random, rows: Boundary, steps: int) -> list[list[int]]:
    """Follow the mask; return the ids chosen, step by step."""
    history = []
    for _ in range(steps):
        history.append([pick(rng, rows.vocab, ids) for ids in allowed(rows)])
        rows.advance(history[-1])
    return history


@given(small_vocabs, seeds, st.integers(1, 6))
def test_rows_advanced_together_are_as_each_alone(
    vocab: ActionVocab, seed: int, count: int
) -> None:
    rng = Random(seed)
    layouts = [random_layout(rng, 30) for _ in range(count)]
    together = start(vocab, layouts)
    history = walk(rng, together, 20)
    for n, layout in enumerate(layouts):
        alone = start(vocab, [layout])
        for ids in history:
            alone.advance(ids[n : n + 1])
        assert seen(alone) == [seen(together)[n]]


@given(small_vocabs, seeds)
def test_only_the_rows_named_advance(vocab: ActionVocab, seed: int) -> None:
    rng = Random(seed)
    rows = start(vocab, [random_layout(rng, 20) for _ in range(5)])
    for _ in range(20):
        before, masks = seen(rows), allowed(rows)
        named = rng.sample(range(5), rng.randint(0, 5))
        ids = [pick(rng, vocab, mask) for mask in masks]
        every = rows.fork()
        rows.advance([ids[n] for n in named], rows=named)
        every.advance(ids)
        expected = [seen(every)[n] if n in named else before[n] for n in range(5)]
        assert seen(rows) == expected


@given(small_vocabs, seeds)
def test_a_fork_is_independent_and_putting_it_back_restores_it(
    vocab: ActionVocab, seed: int
) -> None:
    rng = Random(seed)
    rows = start(vocab, [random_layout(rng, 20) for _ in range(3)])
    walk(rng, rows, 5)
    before, kept = seen(rows), rows.fork()
    walk(rng, rows, 10)
    assert seen(kept) == before
    rows.put(range(3), kept)
    assert seen(rows) == before
    walk(rng, rows, 5)
    assert seen(kept) == before


@given(small_vocabs, seeds)
def test_rows_can_be_reordered_swapped_and_taken_from_a_wider_or_narrower_batch(
    vocab: ActionVocab, seed: int
) -> None:
    rng = Random(seed)
    rows = start(vocab, [random_layout(rng, 20) for _ in range(4)])
    others = start(vocab, [random_layout(rng, 30, most_gaps=rng.choice([0, 1, 8]))] * 2)
    walk(rng, rows, 4)
    walk(rng, others, 4)
    order = rng.choices(range(4), k=rng.randint(0, 6))
    assert seen(rows.fork(order)) == [seen(rows)[n] for n in order]
    a, b, c, d = seen(rows)
    rows.put([0, 2], rows.fork([2, 0]))
    assert seen(rows) == [c, b, a, d]
    first, second = seen(others)
    rows.put([3, 1], others)
    assert seen(rows) == [c, second, a, first]
    assert seen(others) == [first, second]
    walk(rng, rows, 4)


@given(small_vocabs, seeds)
def test_a_row_with_more_gaps_than_any_before_leaves_the_others_alone(
    vocab: ActionVocab, seed: int
) -> None:
    rng = Random(seed)
    rows = start(vocab, [random_layout(rng, 20, most_gaps=1) for _ in range(3)])
    walk(rng, rows, 5)
    before = seen(rows)
    gaps = [(n, n) for n in range(0, 12, 2)]
    rows.reset(1, length=12, cursor=0, gaps=gaps)
    after = seen(rows)
    assert [after[0], after[2]] == [before[0], before[2]]
    assert rows.gaps(1) == gaps
    rows.reset(1)
    assert seen(rows)[1] == seen(Boundary(vocab, 1))[0]


def test_a_new_row_is_a_blank_canvas_that_may_be_written_anywhere() -> None:
    rows = Boundary(ALL, 2)
    assert len(rows) == 2
    assert seen(rows)[0] == (0, 0, False, [(0, 0)], {*naive.ids_of(ALL, "insert"), ALL.stop})
    rows.reset(1, length=4)
    assert seen(rows)[1][:4] == (4, 4, False, [(0, 4)])


# -- the mask as an array -------------------------------------------------------------------------


@given(small_vocabs, seeds)
def test_filling_a_mask_changes_no_state(vocab: ActionVocab, seed: int) -> None:
    rng = Random(seed)
    rows = start(vocab, [random_layout(rng, 20) for _ in range(4)])
    walk(rng, rows, 6)
    mask = rows.fill_mask()
    np.testing.assert_array_equal(rows.fill_mask(), mask)


@pytest.mark.parametrize("tokens", [3, 250_000])
def test_a_mask_is_no_wider_for_more_tokens(tokens: int) -> None:
    vocab = ActionVocab.build(tokens, operators=OPERATORS, max_move=4)
    rows = start(vocab, [Layout(3, 2, [(0, 3)])])
    assert rows.fill_mask().shape == (1, 1 + len(vocab.controls)) == (1, 15)


def test_begin_and_delimiter_have_no_effect() -> None:
    vocab = ActionVocab.build(3)
    rows = start(vocab, [Layout(3, 3, [(0, 3)], max_moves=1)])
    rows.advance([vocab.move_id(-1)])
    assert vocab.begin is not None
    assert vocab.delimiter is not None
    before = seen(rows)
    rows.advance([vocab.begin])
    rows.advance([vocab.delimiter])
    assert seen(rows) == before


def test_a_cursor_starts_at_the_end_of_the_first_gap() -> None:
    rows = Boundary(ALL, 2)
    rows.reset(0, length=9, gaps=[(2, 4), (6, 6)])
    rows.reset(1, length=9, gaps=[])
    assert rows.cursor.tolist() == [4, 9]
    assert rows.fill_mask()[0, 0]
    assert allowed(rows)[1] == {ALL.stop}


@given(seeds)
def test_a_row_that_resumes_is_as_if_it_had_never_stopped(seed: int) -> None:
    histories, _ = random_batch(Random(seed))
    rows, resumed = Boundary(ALL, 3), Boundary(ALL, 3)
    for n, history in enumerate(histories):
        for i in history:
            rows.advance([i], rows=[n])
        resumed.replay(n, history)
    assert seen(rows) == seen(resumed)


def test_no_rows_at_all_have_a_mask_too() -> None:
    rows = Boundary(ALL, 0)
    rows.advance([])
    assert rows.fill_mask().shape == (0, 1 + len(ALL.controls))


# -- histories ------------------------------------------------------------------------------------


def random_batch(rng: Random) -> tuple[list[list[int]], npt.NDArray[np.int64]]:
    """Return three histories, and the same padded to one length."""
    histories = [random_history(rng, ALL, rng.randint(0, 25)) for _ in range(3)]
    idle = [i for i in range(ALL.size) if ALL.kind(i) in (Kind.SEPARATOR, Kind.RESERVED)]
    padded = np.full((3, max(map(len, histories))), rng.choice(idle))
    for n, history in enumerate(histories):
        padded[n, : len(history)] = history
    return histories, padded


@given(seeds)
def test_a_trace_is_the_canvas_step_by_step(seed: int) -> None:
    histories, padded = random_batch(Random(seed))
    lengths, cursors = trace(ALL, padded)
    assert lengths.shape == cursors.shape == padded.shape
    for n, history in enumerate(histories):
        canvas, rows = Canvas(ALL), Boundary(ALL, 1)
        for step, i in enumerate(history):
            canvas.apply(i)
            rows.advance([i])
            assert lengths[n, step] == len(canvas) == rows.length[0]
            assert cursors[n, step] == canvas.cursor == rows.cursor[0]
        assert (lengths[n, len(history) :] == len(canvas)).all()
        assert (cursors[n, len(history) :] == canvas.cursor).all()


@given(seeds)
def test_an_argument_is_an_id_that_comes_while_an_action_is_unfinished(seed: int) -> None:
    histories, padded = random_batch(Random(seed))
    arguments = is_argument(ALL, padded)
    for n, history in enumerate(histories):
        state = naive.State((), 0)
        for step, i in enumerate(history):
            assert arguments[n, step] == bool(state.pending)
            state = naive.execute(ALL, state, i)
        assert not arguments[n, len(history) :].any()


def test_an_empty_history_has_no_trace_and_no_arguments() -> None:
    empty = np.zeros((2, 0), int)
    lengths, cursors = trace(ALL, empty)
    assert lengths.shape == cursors.shape == is_argument(ALL, empty).shape == (2, 0)


@given(seeds)
def test_without_span_operators_a_running_sum_of_the_tables_is_the_trace(seed: int) -> None:
    vocab = ActionVocab.build(5, operators=["delete", "replace", "swap"], max_move=4)
    rng, rows = Random(seed), Boundary(vocab, 1)
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
    ("gaps", "cursor", "message"),
    [
        ([(2, 1)], 0, "do not fit"),
        ([(3, 4), (0, 1)], 0, "do not fit"),
        ([(0, 1), (1, 2)], 0, "do not fit"),
        ([(-1, 1)], 0, "do not fit"),
        ([(0, 6)], 0, "do not fit a canvas of length 5: they must be in order, apart"),
        ([(0, 5)], 6, "with cursor 6 do not fit"),
        ([(0, 5)], -1, "with cursor -1 do not fit"),
        ([(1, 1), (2, 3)], 5, "at 5, outside the gaps .* Start it between 1 and 3"),
    ],
)
def test_gaps_that_do_not_fit_are_refused(
    gaps: list[tuple[int, int]], cursor: int, message: str
) -> None:
    rows = start(ALL, [Layout(3, 2, [(0, 3)])])
    before = seen(rows)
    with pytest.raises(ConfigError, match=message):
        rows.reset(0, length=5, cursor=cursor, gaps=gaps)
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
    rows = Boundary(ALL, 2)
    before = seen(rows)
    with pytest.raises(InvalidAction, match=message):
        rows.advance(ids, rows=named)
    assert seen(rows) == before
