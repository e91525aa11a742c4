"""The oracle's labels for what a model does, compared with a slow search for the best actions."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reviser.core.actions import Action, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.lab.oracle import Visit, remaining
from reviser.lab.recipe import Dagger

VOCAB = ActionVocab.build(6, operators=["delete", "replace"], max_move=4)
SEARCHES = ActionVocab.build(6, operators=["delete", "replace"], max_move=4, search=True)


def random_action(rng: Random, canvas: Canvas) -> list[int]:
    """The ids of some action that the canvas allows, never STOP."""
    while True:
        kind = rng.choice([Kind.INSERT, Kind.MOVE, Kind.DELETE, Kind.REPLACE])
        argument = {
            Kind.INSERT: rng.randrange(6),
            Kind.REPLACE: rng.randrange(6),
            Kind.MOVE: rng.choice([-4, -2, -1, 1, 2, 4]),
            Kind.DELETE: 0,
        }[kind]
        action = Action(kind, argument)
        trial = canvas.fork()
        try:
            trial.act(action)
        except Exception:  # noqa: BLE001 - not allowed here
            continue
        return list(VOCAB.spell(action))


@given(st.integers(0, 2**32), st.sampled_from([VOCAB, SEARCHES]))
def test_the_oracle_followed_from_any_state_reaches_the_target(
    seed: int, vocab: ActionVocab
) -> None:
    rng = Random(seed)
    before, after = ([rng.randrange(6) for _ in range(rng.randrange(12))] for _ in range(2))
    prefix = [1] * rng.randrange(3)
    canvas = Canvas(vocab, [*prefix, *before], len(prefix))
    address = "both" if vocab.find is not None else "moves"
    visit = Visit(vocab, canvas, after, offset=len(prefix), address=address)
    for _ in range(rng.randrange(6)):  # what a bad model does, right of the prefix
        ids = random_action(rng, visit.canvas)
        trial = visit.canvas.fork()
        for action_id in ids:
            trial.apply(action_id)
        if trial.cursor >= len(prefix) and trial.tokens()[: len(prefix)] == prefix:
            for action_id in ids:
                visit.take(action_id)
    made = len(visit.ids)
    while not visit.is_over:
        for action_id in visit.advice:
            visit.take(action_id)
    assert visit.canvas.tokens() == [*prefix, *after]
    assert visit.labels[made:] == visit.ids[made:]  # the oracle agrees with itself
    assert len(visit.labels) == len(visit.ids)


@given(st.integers(0, 2**32))
@example(13503159)  # after the oracle's own action, another script of as many edits has more moves
def test_an_action_is_its_own_label_just_if_nothing_shorter_follows_another(seed: int) -> None:
    rng = Random(seed)
    before, after = ([rng.randrange(4) for _ in range(rng.randrange(7))] for _ in range(2))
    visit = Visit(VOCAB, Canvas(VOCAB, before, rng.randint(0, len(before))), after)
    for _ in range(4):
        least = remaining(VOCAB, visit.canvas, after)
        taken, advice = random_action(rng, visit.canvas), list(visit.advice)
        first = len(visit.ids)
        for action_id in taken:
            visit.take(action_id)
        rest = remaining(VOCAB, visit.canvas, after)
        labels = visit.labels[first:]
        if len(taken) + len(rest) <= len(least) or taken == advice:
            assert labels == taken
        else:
            assert labels[0] == least[0]
            assert labels != taken


def test_within_a_wrong_action_labels_end_where_it_leaves_the_oracles() -> None:
    vocab = SEARCHES
    assert vocab.find is not None
    before, after = [1, 2, 3, 4, 5, 1, 2, 0], [1, 2, 3, 4, 5, 1, 2, 2, 0]
    visit = Visit(vocab, Canvas(vocab, before, 0), after, address="search")
    advice = visit.advice
    assert advice[0] == vocab.find
    wrong = vocab.spell(Action(Kind.FIND, tokens=(4, 5)))
    for action_id in wrong:
        visit.take(action_id)
    assert visit.labels == [vocab.find, advice[1], None, None][: len(wrong)]


def test_stopping_too_early_is_labelled_with_what_is_missing() -> None:
    visit = Visit(VOCAB, Canvas(VOCAB, [1, 2], 2), [1, 2, 3])
    visit.take(VOCAB.stop)
    assert visit.is_over
    assert visit.labels == [3]


def test_an_action_that_was_not_completed_is_cut() -> None:
    visit = Visit(VOCAB, Canvas(VOCAB, [1, 2], 2), [1, 3])
    assert VOCAB.replace is not None
    visit.take(VOCAB.replace)
    assert visit.is_spelling
    assert visit.cut() == ([], [])


@given(st.integers(0, 2**32))
def test_of_a_new_text_everything_after_the_first_mistake_is_deleted(seed: int) -> None:
    rng, vocab = Random(seed), ActionVocab.build(6, operators=["delete"], max_move=4)
    target = [rng.randrange(6) for _ in range(rng.randint(40, 60))]
    right = rng.randrange(20)
    wrong = [rng.randrange(6) for _ in range(rng.randint(1, 4))]
    wrong[0] = (target[right] + rng.randint(1, 5)) % 6
    visit = Visit(vocab, Canvas(vocab, [1, 2]), target, offset=2, is_new=True)
    for token in [*target[:right], *wrong]:
        visit.take(token)
    deletes = [vocab.delete] * len(wrong)
    # The mistake itself is labelled with the right token, and what follows it with DELETE.
    assert visit.labels == [*target[: right + 1], *deletes[1:]]
    assert visit.distance == len(wrong) + len(target) - right + 1
    for _ in range(visit.distance):
        visit.take(visit.advice[0])
    assert visit.ids[right + len(wrong) :] == [*deletes, *target[right:], vocab.stop]
    assert visit.is_over
    assert visit.canvas.tokens() == [1, 2, *target]


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounds": 0},
        {"drafts": 0},
        {"turn": 0},
        {"share": 1.0},
        {"oracle": 1.5},
        {"last_oracle": -1},
        {"temperature": -1},
    ],
)
def test_impossible_rounds_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Dagger(**wrong)  # type: ignore[arg-type]
