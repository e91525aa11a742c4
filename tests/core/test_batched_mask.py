"""The mask of many rows, with marks and searches: against slow rows, one after the other."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from reviser.core.actions import OPERATORS, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.mask import ActionMask
from reviser.errors import InvalidAction
from support.naive import pick
from support.slow_mask import SlowRow, replayed, seen
from support.strategies import random_layout

ROWS, MANY_ROWS = 12, 128


def vocabs() -> list[ActionVocab]:
    """Return vocabularies with marks, searches, both or none, and many sets of operators."""
    rng, found = Random(5), []
    for n in range(32):
        names = rng.sample(OPERATORS, k=rng.choice([0, 1, 3, len(OPERATORS)]))
        found.append(
            ActionVocab.build(
                rng.randint(3, 6),
                operators=[name for name in OPERATORS if name in names],
                max_move=2 ** rng.randint(0, 4),
                marks=n % 4 in (1, 2),
                search=n % 4 in (2, 3),
                never_insert=[2] if rng.random() < 0.5 else [],
            )
        )
    return found


VOCABS = vocabs()


def start(rng: Random, vocab: ActionVocab, rows: ActionMask, row: int) -> SlowRow:
    """Start a row anywhere, both ways."""
    layout = random_layout(rng, rng.choice([4, 12, 70]), most_gaps=rng.choice([1, 4, 9]))
    tokens = rng.choices(range(vocab.tokens), k=layout.length)
    marks: list[int] = []
    if vocab.mark is not None:
        marks = sorted(
            rng.sample(range(layout.length + 1), k=min(layout.length, rng.randint(0, 3)))
        )
    canvas = Canvas(vocab, tokens, layout.cursor, marks)
    rows.reset(row, **layout._asdict(), marks=marks, canvas=canvas)
    return SlowRow(vocab, canvas, layout)


def of_rows(rows: ActionMask) -> list[tuple[object, ...]]:
    """Return all that can be asked of rows, as `slow_mask.seen` does of one."""
    wide = rows.allowed()
    parts = rows.length, rows.cursor, rows.is_finished, rows.is_spelling
    lists = [part.tolist() for part in parts]
    editable = [rows.editable(n) for n in range(len(rows))]
    sets = [{*np.flatnonzero(row).tolist()} for row in wide]
    return list(zip(*lists, editable, sets, strict=True))


def choose(rng: Random, vocab: ActionVocab, row: SlowRow) -> int:
    """Return an id that the mask allows, or one without effect."""
    if row.canvas.is_finished:
        return rng.randrange(vocab.size)
    if not row.canvas.is_spelling and rng.random() < 0.05:
        return rng.choice([vocab.begin, vocab.delimiter])  # type: ignore[list-item]
    return pick(rng, vocab, row.allowed())


def advance(rng: Random, rows: ActionMask, ids: list[int]) -> None:
    """Advance all rows, on one of the ways that engines use."""
    way = rng.random()
    order = rng.sample(range(len(ids)), k=len(ids))
    if way < 0.5:
        rows.advance(ids)
    elif way < 0.65:  # some, then the others
        for part in (order[:5], order[5:]):
            rows.advance([ids[n] for n in part], part)
    elif way < 0.8:  # drafts: a fork advances and is put back
        forked = rows.fork(order)
        forked.advance([ids[n] for n in order])
        rows.put(order, forked)
    elif way < 0.9:  # each row in a batch of its own, which has fewer ranges and marks
        for n, action_id in enumerate(ids):
            alone = ActionMask(rows.vocab, 1)
            alone.put([0], rows.view([n]))
            alone.advance([action_id])
            if rng.random() < 0.5:
                rows.put([n], alone)
            else:  # it has not changed
                rows.advance([action_id], [n])
    else:
        rows.advance(ids[1:], range(1, len(ids)))
        rows.replay(0, ids[:1])


def try_wrong(
    rng: Random, vocab: ActionVocab, rows: ActionMask, ids: list[int], row: SlowRow
) -> None:
    """Feed an id that may be refused to row 0: exactly when its canvas refuses it."""
    copied, canvas, why = rows.fork(), row.canvas.fork(), None
    before, wrong = of_rows(copied), rng.randrange(vocab.size)
    try:
        if not canvas.is_finished:
            canvas.apply(wrong)
    except InvalidAction as error:
        why = str(error)
    fed: Sequence[int] = [*ids[1:], wrong]
    order = [*range(1, len(rows)), 0]
    if why is None:
        copied.advance(fed, order)
        assert (copied.length[0], copied.cursor[0]) == (len(canvas), canvas.cursor)
        return
    with pytest.raises(InvalidAction) as refused:
        copied.advance(fed, order)
    assert str(refused.value) == why
    assert of_rows(copied) == before  # also of the rows that had advanced by then


def compare(seed: int, count: int, steps: int) -> int:
    """Walk a batch and compare every state; return how many there were."""
    rng = Random(seed)
    vocab = VOCABS[seed % len(VOCABS)]
    rows = ActionMask(vocab, count)
    slow = [start(rng, vocab, rows, n) for n in range(count)]
    for _ in range(steps):
        found, expected = of_rows(rows), [seen(row) for row in slow]
        assert found == expected
        assert all(state[-1] for state in expected)  # every row can always continue
        shuffled = rng.choices(range(count), k=rng.randint(0, 6))
        view = rows.view(shuffled)
        assert of_rows(view) == [found[n] for n in shuffled]
        assert [rows.findable(n) for n in shuffled] == [slow[n].findable() for n in shuffled]
        view.put([0] * bool(shuffled), rows.fork([1] * bool(shuffled)))
        assert of_rows(rows) == found  # it is not the view's
        ids = [choose(rng, vocab, row) for row in slow]
        if {vocab.find, vocab.end} != {None} and rng.random() < 0.2:
            try_wrong(rng, vocab, rows, ids, slow[0])
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


@pytest.mark.parametrize("seed", range(len(VOCABS)))
def test_with_nothing_locked_the_mask_allows_exactly_what_apply_accepts(seed: int) -> None:
    rng, vocab = Random(seed), VOCABS[seed]
    canvas, rows = Canvas(vocab), ActionMask(vocab, 1)
    no_choice = (Kind.SEPARATOR, Kind.PREFIX_ONLY)
    for _ in range(200):
        accepted = set()
        for i in range(vocab.size):
            try:
                canvas.fork().apply(i)
            except InvalidAction:
                continue
            if vocab.kind(i) not in no_choice:
                accepted.add(i)
        [(length, cursor, _, spells, _, ids)] = of_rows(rows)
        assert ids == accepted or (canvas.is_finished and ids == {vocab.stop})
        assert (length, cursor, spells) == (len(canvas), canvas.cursor, canvas.is_spelling)
        if canvas.is_finished or (not canvas.is_spelling and rng.random() < 0.05):
            tokens = rng.choices(range(vocab.tokens), k=rng.randint(0, 12))
            canvas = Canvas(vocab, tokens, rng.randint(0, len(tokens)))
            rows.reset(0, length=len(canvas), cursor=canvas.cursor, canvas=canvas)
            continue
        action_id = pick(rng, vocab, accepted)
        canvas.apply(action_id)
        rows.advance([action_id])
