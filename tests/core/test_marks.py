"""Marks: positions to come back to. Canvas, mask and sampler against a few lines of Python."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import OPERATORS, Action, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.trajectory import Trajectory
from reviser.errors import InvalidAction, TrajectoryError
from reviser.trajectories.policy import Spans
from reviser.trajectories.sampler import Sampler
from support.strategies import random_units, seeds

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
    ids = [*PLAIN.spell(Action(Kind.MARK)), *PLAIN.spell(Action(Kind.TO_MARK))]
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
            if is_free and kind is Kind.TO_MARK:
                assert not before[2]
            continue
        past.append((before, kept))
        if is_free and kind is Kind.MARK:
            slow.mark(before[1])
        elif is_free and kind is Kind.TO_MARK:
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
    first_back = kinds.index(Kind.TO_MARK) if Kind.TO_MARK in kinds else len(kinds)
    assert Kind.MARK not in kinds[first_back:]
    assert kinds.count(Kind.MARK) == kinds.count(Kind.TO_MARK) <= policy.late
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
