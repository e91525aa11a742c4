"""Marks: positions to come back to. Canvas, mask and sampler against a few lines of Python."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import OPERATORS, Action, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.history import trace
from reviser.core.mask import Boundary
from reviser.core.trajectory import Trajectory
from reviser.errors import InvalidAction, TrajectoryError
from reviser.trajectories.policy import Spans
from reviser.trajectories.sampler import Sampler
from support.naive import pick
from support.strategies import random_layout, random_units, seeds

TOKENS = 6
ALL = ActionVocab.build(TOKENS, operators=OPERATORS, max_move=4, marks=True, reserved=1)
PLAIN = ActionVocab.build(TOKENS, marks=True)
STEPS = 40
assert ALL.mark is not None
assert ALL.back is not None
assert PLAIN.mark is not None
assert PLAIN.back is not None


class Slow:
    """A canvas whose marks are cells of their own, standing between the tokens."""

    def __init__(self, tokens: list[int]) -> None:
        self.cells: list[int | None] = [*tokens]

    def marks(self) -> list[int]:
        """Return the boundaries of the marks, counted in tokens, each once."""
        found = [
            sum(cell is not None for cell in self.cells[:n])
            for n, cell in enumerate(self.cells)
            if cell is None
        ]
        return sorted({*found})

    def after_marks(self, boundary: int) -> int:
        """Return where a token that is inserted at a boundary goes: after the marks there."""
        tokens = 0
        for n, cell in enumerate(self.cells):
            if tokens == boundary and cell is not None:
                return n
            tokens += cell is not None
        return len(self.cells)

    def mark(self, boundary: int) -> None:
        self.cells.insert(self.after_marks(boundary), None)

    def remove_first(self) -> int:
        first = self.marks()[0]
        while first in self.marks():
            self.cells.remove(None)
        return first

    def splice(self, position: int, removed: int, inserted: tuple[int, ...]) -> None:
        for _ in range(removed):
            n = [n for n, cell in enumerate(self.cells) if cell is not None][position]
            del self.cells[n]
        at = self.after_marks(position)
        self.cells[at:at] = inserted


# -- the vocabulary -------------------------------------------------------------------------------


def test_marks_come_last_and_survive_saving() -> None:
    assert list(PLAIN.control_tokens)[-2:] == ["<|back|>", "<|mark|>"]
    assert ActionVocab.from_json(PLAIN.to_json()) == PLAIN
    assert "mark" not in ActionVocab.build(TOKENS).to_json()
    ids = [*PLAIN.spell(Action(Kind.MARK)), *PLAIN.spell(Action(Kind.BACK))]
    assert [str(action) for action in PLAIN.read(ids)] == ["mark", "back"]
    assert [PLAIN.describe(i) for i in ids] == ["mark", "back"]
    assert PLAIN.is_move[ids].tolist() == [False, True]


# -- the canvas -----------------------------------------------------------------------------------


@given(seeds)
def test_marks_keep_their_position_in_the_text_whatever_is_done_or_undone(seed: int) -> None:
    rng = Random(seed)
    canvas = Canvas(ALL, rng.choices(range(TOKENS), k=rng.randint(0, 9)))
    slow, past = Slow(canvas.tokens()), []
    for _ in range(STEPS):
        id_ = rng.choice([rng.randrange(TOKENS), *[ALL.mark, ALL.back] * 3, *ALL.controls.tolist()])
        before, kept = (canvas.tokens(), canvas.cursor, canvas.marks), list(slow.cells)
        is_free, kind = not canvas.is_spelling, ALL.kind(id_)
        try:
            edit = canvas.apply(id_)
        except InvalidAction:
            assert (canvas.tokens(), canvas.cursor, canvas.marks) == before
            if is_free and kind is Kind.MARK:
                assert before[1] in before[2]
            if is_free and kind is Kind.BACK:
                assert not before[2]
            continue
        past.append((before, kept))
        if is_free and kind is Kind.MARK:
            slow.mark(before[1])
        elif is_free and kind is Kind.BACK:
            assert canvas.cursor == slow.remove_first()
        elif len(edit.removed) != len(edit.inserted):
            slow.splice(edit.position, len(edit.removed), edit.inserted)
        assert canvas.marks == tuple(slow.marks())
        assert canvas.fork().marks == canvas.marks
        if canvas.is_finished or rng.random() < 0.2:
            before, slow.cells = past.pop()
            canvas.rollback()
            assert (canvas.tokens(), canvas.cursor, canvas.marks) == before


def test_what_is_left_out_is_written_where_the_mark_is() -> None:
    canvas = Canvas(PLAIN)
    for action in (1, PLAIN.mark, 4, PLAIN.mark, 5, PLAIN.back, 2, 3, PLAIN.back, 0, 0):
        canvas.apply(action)
    assert canvas.tokens() == [1, 2, 3, 4, 0, 0, 5]
    assert canvas.marks == ()
    with pytest.raises(InvalidAction, match="must be a mark to go back to"):
        canvas.apply(PLAIN.back)


# -- the mask -------------------------------------------------------------------------------------


def allowed(rows: Boundary) -> list[set[int]]:
    return [{*np.flatnonzero(row).tolist()} for row in rows.allowed()]


@given(seeds)
def test_the_mask_follows_the_marks(seed: int) -> None:
    rng = Random(seed)
    rows, canvases, layouts = Boundary(ALL, 3), [], []
    for n in range(3):
        layout = random_layout(rng, 10)
        rows.reset(n, **layout._asdict())
        canvases.append(Canvas(ALL, [0] * layout.length, layout.cursor))
        layouts.append(layout)
    in_a_row, edits = [0] * 3, [0] * 3
    for _ in range(STEPS):
        masks = allowed(rows)
        for n, (canvas, layout) in enumerate(zip(canvases, layouts, strict=True)):
            may = not canvas.is_spelling and not canvas.is_finished
            may &= layout.max_edits is None or edits[n] < layout.max_edits
            may_move = may and (layout.max_moves is None or in_a_row[n] < layout.max_moves)
            in_gap = any(low <= canvas.cursor <= high for low, high in rows.gaps(n))
            assert (ALL.mark in masks[n]) == (may and in_gap and canvas.cursor not in canvas.marks)
            assert (ALL.back in masks[n]) == (may_move and bool(canvas.marks))
        ids = [pick(rng, ALL, mask) for mask in masks]
        for n, (canvas, i) in enumerate(zip(canvases, ids, strict=True)):
            if not canvas.is_finished:
                moves = bool(ALL.is_move[i]) and not canvas.is_spelling
                in_a_row[n] = in_a_row[n] + 1 if moves else 0
                edits[n] += canvas.apply(i).changes_text
        if rng.random() < 0.3:  # by way of a fork
            forked = rows.fork([2, 0, 1])
            forked.advance([ids[2], ids[0], ids[1]])
            rows.put([2, 0, 1], forked)
        elif rng.random() < 0.3:
            rows.replay(1, [ids[1]])
            rows.advance([ids[2], ids[0]], [2, 0])
        else:
            rows.advance(ids)
        assert rows.cursor.tolist() == [canvas.cursor for canvas in canvases]
        assert rows.length.tolist() == [len(canvas) for canvas in canvases]


def test_a_row_can_start_with_marks() -> None:
    rows = Boundary(PLAIN, 1)
    rows.reset(0, length=4, gaps=[(1, 1), (3, 3)], cursor=1, marks=[3])
    rows.advance([PLAIN.back])
    assert rows.cursor.tolist() == [3]
    assert PLAIN.back not in allowed(rows)[0]
    rows.reset(0, length=4)
    assert PLAIN.back not in allowed(rows)[0]


@given(seeds)
def test_the_trace_of_a_history_with_marks_is_the_canvas(seed: int) -> None:
    rng = Random(seed)
    rows, canvas = Boundary(ALL, 1), Canvas(ALL)
    history, states = [], []
    for _ in range(STEPS):
        (mask,) = allowed(rows)
        history.append(pick(rng, ALL, mask - {ALL.stop} or mask))
        rows.advance(history[-1:])
        canvas.apply(history[-1])
        states.append((len(canvas), canvas.cursor))
    lengths, cursors = trace(ALL, np.array([history]))
    assert list(zip(lengths[0].tolist(), cursors[0].tolist(), strict=True)) == states
    padding = [ALL.stop, ALL.begin, ALL.delimiter, ALL.size - 1]
    ended = np.array([[1, ALL.mark, 2, ALL.back, 3, *padding]])
    assert trace(ALL, ended)[0].tolist() == [[1, 1, 2, 2, 3, 3, 3, 3, 3]]


# -- the sampler ----------------------------------------------------------------------------------


@given(
    seeds,
    st.builds(
        Spans,
        mean=st.floats(1, 8),
        unit=st.sampled_from(["token", "word", "sentence"]),
        late=st.none() | st.integers(0, 4),
    ),
)
def test_late_spans_are_marked_and_written_in_the_same_order(seed: int, policy: Spans) -> None:
    rng = Random(seed)
    plain = ActionVocab.build(TOKENS)
    target = [1, *rng.choices(range(TOKENS), k=rng.randint(0, 40))]
    units = random_units(rng, target)
    with_marks = Sampler(PLAIN, policy).sample(target, prefix=[5], seed=seed, units=units)
    without = Sampler(plain, policy).sample(target, prefix=[5], seed=seed, units=units)
    assert with_marks.target(PLAIN) == target
    assert inserts(PLAIN, with_marks.restoration) == inserts(plain, without.restoration)
    kinds = [PLAIN.kind(i) for i in with_marks.restoration]
    if not policy.late:
        assert with_marks.restoration == without.restoration
        return
    assert Kind.MOVE not in kinds
    first_back = kinds.index(Kind.BACK) if Kind.BACK in kinds else len(kinds)
    assert Kind.MARK not in kinds[first_back:]
    assert kinds.count(Kind.MARK) == kinds.count(Kind.BACK) <= policy.late
    assert Canvas.replay(PLAIN, with_marks.restoration).marks == ()


def inserts(vocab: ActionVocab, restoration: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return every insert, and where on the canvas it went."""
    canvas, found = Canvas(vocab), []
    for i in restoration:
        if vocab.kind(i) is Kind.INSERT:
            found.append((i, canvas.cursor))
        canvas.apply(i)
    return found


def test_an_obfuscation_has_no_marks() -> None:
    with pytest.raises(TrajectoryError, match="has no marks"):
        Trajectory.from_obfuscation(ALL, [1, 2], 2, [Action(Kind.MARK)])


def test_back_does_not_lead_to_a_mark_outside_the_gaps() -> None:
    rows = Boundary(PLAIN, 1)
    for mark, is_in_reach in ((0, False), (1, True), (2, True), (3, False)):
        rows.reset(0, length=3, cursor=1, gaps=[(1, 2)], marks=[mark])
        assert (PLAIN.back in allowed(rows)[0]) == is_in_reach
