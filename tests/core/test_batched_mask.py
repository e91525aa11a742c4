"""The mask with marks and searches: many rows at once against one row after the other."""

from random import Random

import numpy as np
import pytest

from reviser.core.actions import OPERATORS, ActionVocab
from reviser.core.canvas import Canvas
from reviser.core.mask import Boundary
from reviser.errors import InvalidAction
from support.naive import pick
from support.slow_mask import SlowRow, replayed, seen
from support.strategies import random_layout

ROWS, MANY_ROWS = 12, 128


def vocabs() -> list[ActionVocab]:
    """Return vocabularies with marks, with searches and with both, and many sets of operators."""
    rng, found = Random(5), []
    for n in range(24):
        names = rng.sample(OPERATORS, k=rng.choice([0, 1, 3, len(OPERATORS)]))
        found.append(
            ActionVocab.build(
                rng.randint(3, 6),
                operators=[name for name in OPERATORS if name in names],
                max_move=2 ** rng.randint(0, 4),
                marks=n % 3 != 0,
                search=n % 3 != 1,
                never_insert=[2] if rng.random() < 0.5 else [],
            )
        )
    return found


VOCABS = vocabs()


def start(rng: Random, vocab: ActionVocab, rows: Boundary, row: int) -> SlowRow:
    """Start a row anywhere, both ways."""
    layout = random_layout(rng, rng.choice([4, 12, 70]))
    tokens = rng.choices(range(vocab.tokens), k=layout.length)
    marks: list[int] = []
    if vocab.mark is not None:
        marks = sorted(
            rng.sample(range(layout.length + 1), k=min(layout.length, rng.randint(0, 3)))
        )
    canvas = Canvas(vocab, tokens, layout.cursor, marks)
    rows.reset(row, **layout._asdict(), marks=marks, canvas=canvas)
    return SlowRow(vocab, canvas, layout)


def of_rows(rows: Boundary) -> list[tuple[object, ...]]:
    """Return all that can be asked of rows, as `slow_mask.seen` does of one."""
    wide = rows.allowed()
    parts = rows.length, rows.cursor, rows.is_finished, rows.is_spelling
    lists = [part.tolist() for part in parts]
    gaps = [rows.gaps(n) for n in range(len(rows))]
    sets = [{*np.flatnonzero(row).tolist()} for row in wide]
    return list(zip(*lists, gaps, sets, strict=True))


def advance(rng: Random, rows: Boundary, ids: list[int]) -> None:
    """Advance all rows, on one of the ways that engines use."""
    way = rng.random()
    order = rng.sample(range(len(ids)), k=len(ids))
    if way < 0.6:
        rows.advance(ids)
    elif way < 0.75:  # some, then the others
        for part in (order[:5], order[5:]):
            rows.advance([ids[n] for n in part], part)
    elif way < 0.9:  # drafts: a fork advances and is put back
        forked = rows.fork(order)
        forked.advance([ids[n] for n in order])
        rows.put(order, forked)
    else:
        rows.advance(ids[1:], range(1, len(ids)))
        rows.replay(0, ids[:1])


def try_wrong(rng: Random, vocab: ActionVocab, rows: Boundary, slow: list[SlowRow]) -> None:
    """Feed ids that may be refused: exactly when a canvas refuses one of them."""
    ids = [rng.randrange(vocab.size) for _ in slow]
    n = rng.randrange(len(slow))
    copied, canvas = rows.fork(), slow[n].canvas.fork()
    before, why = of_rows(copied), None
    try:
        if not canvas.is_finished:
            canvas.apply(ids[n])
    except InvalidAction as error:
        why = str(error)
    if why is None:
        copied.advance([ids[n]], [n])
        assert (copied.length[n], copied.cursor[n]) == (len(canvas), canvas.cursor)
        return
    with pytest.raises(InvalidAction) as refused:
        copied.advance([ids[n]], [n])
    assert str(refused.value) == why
    assert of_rows(copied) == before


def compare(seed: int, count: int, steps: int) -> int:
    """Walk a batch and compare every state; return how many there were."""
    rng = Random(seed)
    vocab = VOCABS[seed % len(VOCABS)]
    rows = Boundary(vocab, count)
    slow = [start(rng, vocab, rows, n) for n in range(count)]
    for _ in range(steps):
        found, expected = of_rows(rows), [seen(row) for row in slow]
        assert found == expected
        masks = [state[-1] for state in expected]
        shuffled = rng.choices(range(count), k=rng.randint(0, 6))
        assert of_rows(rows.view(shuffled)) == [found[n] for n in shuffled]
        assert [rows.findable(n) for n in shuffled] == [slow[n].findable() for n in shuffled]
        if {vocab.find, vocab.end} != {None} and rng.random() < 0.1:
            try_wrong(rng, vocab, rows, slow)
        ids = [pick(rng, vocab, mask) for mask in masks]
        advance(rng, rows, ids)
        for n, (row, action_id) in enumerate(zip(slow, ids, strict=True)):
            replayed(row, [action_id])
            is_over = row.canvas.is_finished and rng.random() < 0.5
            if is_over or len(row.canvas) > 200:
                slow[n] = start(rng, vocab, rows, n)
    return steps * count


@pytest.mark.parametrize("seed", range(len(VOCABS)))
def test_rows_together_are_as_each_alone(seed: int) -> None:
    assert compare(seed, ROWS, 40) == 480


@pytest.mark.full
def test_a_million_states_are_those_of_the_slow_mask() -> None:
    states, seed = 0, 1000
    while states < 1_000_000:
        states += compare(seed, MANY_ROWS, 100)
        seed += 1


def test_widths_grow_with_the_longest_text_and_the_most_marks() -> None:
    vocab = ActionVocab.build(10, marks=True, search=True)
    assert vocab.mark is not None
    assert vocab.find is not None
    assert vocab.here is not None
    rows, canvas = Boundary(vocab, 2), Canvas(vocab, [1] * 5000, cursor=0)
    rows.reset(0, length=2, cursor=1, canvas=Canvas(vocab, [1, 2], cursor=1))
    rows.reset(1, length=5000, cursor=0, canvas=canvas)
    for action_id in (3, vocab.mark, 4, vocab.mark, 5):
        rows.advance([action_id, vocab.move_id(1)])
    rows.advance([vocab.find, vocab.stop])
    assert rows.findable(0) == [2]
    rows.replay(0, [2, vocab.here])
    assert (rows.length[0], rows.cursor[0]) == (5, 5)
    rows.advance([vocab.back], [0])
    assert rows.cursor[0] == 2
