"""Trajectories: they write their target, legally, and bear loss where there is something to learn.

By the paper, temporary insertions, "later removed by restoration deletes", bear no loss. In a
strict inverse, a token that the obfuscation inserted is written once and removed once, and a token
of the target is written once and remains. So an insert or a replace bears loss if and only if the
very token it writes is still there at the end; every other action bears loss.
"""

import json
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import OPERATORS, Action, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.kinds import KIND_OF_WORD
from reviser.core.mask import ActionMask
from reviser.core.trajectory import Trajectory
from reviser.errors import ConfigError, InvalidAction, TrajectoryError, VocabError
from reviser.trajectories.policy import Append, Mixture, Obfuscation, Policy, Spans
from reviser.trajectories.sampler import Sampler
from support import naive
from support.strategies import (
    SMALL_VOCABS,
    policies,
    random_action,
    random_targets,
    random_units,
    seeds,
)

PLAIN = ActionVocab.build(100)
RICH = ActionVocab.build(100, operators=OPERATORS, max_move=16)
LONGEST = 20
DELETE = Action(Kind.DELETE)


def whole_actions(vocab: ActionVocab, ids: tuple[int, ...]) -> list[tuple[naive.Action, list[int]]]:
    """Return the actions that a history spells, each with the indices of its ids."""
    actions, pending = [], naive.State((), 0)
    indices: list[int] = []
    for index, i in enumerate(ids):
        indices.append(index)
        action = naive.meaning(vocab, (*pending.pending, i), pending.cursor)
        pending = naive.execute(vocab, pending, i)
        if action is not None:
            actions.append((action, indices))
            indices = []
    assert not indices
    return actions


def no_loss_by_identity(vocab: ActionVocab, restoration: tuple[int, ...]) -> list[int]:
    """Return the indices of the actions whose very token is gone at the end."""
    canvas: tuple[Any, ...] = ()
    cursor = 0
    written: dict[object, list[int]] = {}
    for (name, *arguments), indices in whole_actions(vocab, restoration):
        if name in ("insert", "replace"):
            arguments = [object()]
            written[arguments[0]] = indices
        canvas, cursor = naive.EXECUTOR[name](canvas, cursor, *arguments)
    return [n for token, at in written.items() if token not in canvas for n in at]


def assert_legal(vocab: ActionVocab, prefix: list[int], trajectory: Trajectory) -> None:
    """Check that a mask that locks the prefix allows every id of the restoration."""
    rows = ActionMask(vocab, 1)
    m = len(prefix)
    rows.reset(0, length=m, cursor=m, editable=[(m, m)])
    for i in trajectory.restoration:
        assert rows.allowed()[0, i]
        rows.advance([i])
    assert rows.is_finished.all()


def assert_sound(
    vocab: ActionVocab, prefix: list[int], target: list[int], trajectory: Trajectory
) -> None:
    """Check everything that holds for any trajectory."""
    assert trajectory.prefix == tuple(prefix)
    assert trajectory.target(vocab) == target
    assert trajectory.restoration.index(vocab.stop) == len(trajectory.restoration) - 1
    assert_legal(vocab, prefix, trajectory)
    assert list(trajectory.no_loss) == no_loss_by_identity(vocab, trajectory.restoration)
    assert Trajectory.from_json(trajectory.to_json()) == trajectory
    if prefix or vocab.begin is not None or vocab.delimiter is not None:
        history = trajectory.history(vocab)
        assert Canvas.replay(vocab, history).tokens() == prefix + target
        seeding = len(history) - len(trajectory.restoration)
        learned = [n for n, is_learned in enumerate(trajectory.loss_mask(vocab)) if is_learned]
        no_loss = {seeding + n for n in trajectory.no_loss} | {*range(seeding)}
        assert learned == [n for n in range(len(history)) if n not in no_loss]


# -- sampled --------------------------------------------------------------------------------------


@given(policies(), st.sampled_from([*SMALL_VOCABS[:6], RICH]), seeds)
def test_any_policy_restores_any_target(policy: Policy, vocab: ActionVocab, seed: int) -> None:
    rng = Random(seed)
    prefix, target = random_targets(rng, vocab, 2, LONGEST)
    marks = random_units(rng, target)
    trajectory = Sampler(vocab, policy).sample(target, prefix=prefix, seed=seed, units=marks)
    assert_sound(vocab, prefix, target, trajectory)


def test_appending_is_writing_from_left_to_right() -> None:
    trajectory = Sampler(PLAIN, Append()).sample([5, 6, 7], prefix=[1, 2], seed=9, index=4)
    assert trajectory == Trajectory(prefix=(1, 2), restoration=(5, 6, 7, PLAIN.stop))


def test_a_batch_gives_each_restoration_by_its_index() -> None:
    targets = [[1, 2, 3], [], [4, 5]]
    sampler = Sampler(RICH, Obfuscation(delete=0.5))
    batch = sampler.batch(targets, [7, 8, 9])
    for n, (target, index) in enumerate(zip(targets, [7, 8, 9], strict=True)):
        alone = sampler.sample(target, index=index)
        for i in (n, n - len(targets)):
            ids, learned = batch[i]
            assert tuple(ids.tolist()) == alone.restoration
            assert learned.all()
    with pytest.raises(IndexError):
        batch[3]


# -- from a recorded walk -------------------------------------------------------------------------


def as_action(action: naive.Action, u: int) -> Action:
    """Return an action of the paper as a value, with boundaries relative to the cursor."""
    name, *arguments = action
    kind = KIND_OF_WORD[name]
    if kind is Kind.SPAN_MOVE:
        k, j = arguments
        return Action(kind, k, j - u if j >= u else j - (u - k))
    if kind is Kind.SPAN_COPY:
        k, j = arguments
        return Action(kind, k, j - u)
    return Action(kind, *arguments)


def random_walk(rng: Random, vocab: ActionVocab, canvas: Canvas, steps: int) -> list[Action]:
    """Return any actions at all, and then those that empty the canvas."""
    walk = []
    for _ in range(steps):
        action = random_action(rng, vocab, len(canvas), canvas.cursor)
        walk.append(as_action(action, canvas.cursor))
        canvas.act(walk[-1])
    while len(canvas):
        to_the_end = vocab.split_move(
            len(canvas) - canvas.cursor, cursor=canvas.cursor, length=len(canvas)
        )
        size = rng.randint(1, len(canvas))
        last = [Action(Kind.SPAN_DELETE, size), Action(Kind.DELETE)][rng.randint(0, 1)]
        for action in [*(Action(Kind.MOVE, delta) for delta in to_the_end), last]:
            walk.append(action)
            canvas.act(action)
    return walk


@given(st.sampled_from([*SMALL_VOCABS[:6], RICH]), seeds)
def test_the_inverse_of_any_walk_restores_target_and_cursor(vocab: ActionVocab, seed: int) -> None:
    rng = Random(seed)
    prefix, target = random_targets(rng, vocab, 2, 10)
    cursor = rng.randint(0, len(target))
    walk = random_walk(rng, vocab, Canvas(vocab, target, cursor), rng.randint(0, 25))
    trajectory = Trajectory.from_obfuscation(vocab, target, cursor, walk, prefix=prefix)
    assert_sound(vocab, prefix, target, trajectory)
    assert Canvas.replay(vocab, trajectory.restoration).cursor == cursor


# -- json -----------------------------------------------------------------------------------------


def test_json_is_one_line_and_leaves_out_what_is_empty() -> None:
    plain = Trajectory(prefix=(1,), restoration=(2, 3))
    assert plain.to_json() == '{"prefix": [1], "restoration": [2, 3]}'
    noisy = Trajectory(restoration=(2, 3), no_loss=(0,))
    assert noisy.to_json() == '{"prefix": [], "restoration": [2, 3], "no_loss": [0]}'
    assert [Trajectory.from_json(t.to_json()) for t in (plain, noisy)] == [plain, noisy]
    assert Trajectory.from_json('{"restoration": []}') == Trajectory(restoration=())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "This is not JSON, so not a trajectory"),
        ("[1, 2]", r"A trajectory has \['no_loss', 'prefix', 'restoration'\]; got '\[1, 2\]'"),
        ('{"prefix": [1]}', "A trajectory has"),
        ('{"restoration": [], "rest": 0}', "A trajectory has"),
        (json.dumps(["x" * 5000]), r"A trajectory has .{,150}$"),  # quotes only the beginning
        ('{"restoration": 5}', "'restoration' of a trajectory must be a list of ids"),
        ('{"restoration": [5, "6"]}', "'restoration' of a trajectory"),
        ('{"restoration": [5.0]}', "'restoration' of a trajectory"),
        ('{"restoration": [true]}', "'restoration' of a trajectory"),
        ('{"restoration": [1], "prefix": [-1]}', "'prefix' of a trajectory"),
        ('{"restoration": [1], "no_loss": null}', "'no_loss' of a trajectory"),
        ('{"restoration": [1, 2], "no_loss": [0, 2]}', "'no_loss' has an index beyond"),
    ],
)
def test_json_that_is_not_a_trajectory_is_refused(text: str, message: str) -> None:
    with pytest.raises(TrajectoryError, match=message):
        Trajectory.from_json(text)


# -- the prefix -----------------------------------------------------------------------------------

TRAJECTORY = Trajectory(prefix=(5, 6), restoration=(7, 100), no_loss=(0,))


@pytest.mark.parametrize(
    ("begin", "delimiter", "seeding"),
    [
        (None, None, [5, 6]),
        (102, None, [102, 5, 6]),
        (None, 103, [5, 6, 103]),
        (102, 103, [102, 5, 6, 103]),
    ],
)
def test_a_history_is_begin_prefix_delimiter_restoration(
    begin: int | None, delimiter: int | None, seeding: list[int]
) -> None:
    sizes = {"tokens": 100, "size": 110, "max_move": 2, "first_move": 105, "stop": 100}
    vocab = ActionVocab(**sizes, begin=begin, delimiter=delimiter)
    assert vocab.prefix_actions([5, 6]) == seeding
    assert TRAJECTORY.history(vocab) == [*seeding, 7, 100]
    assert TRAJECTORY.loss_mask(vocab) == [False] * len(seeding) + [False, True]
    assert TRAJECTORY.target(vocab) == [7]
    blank = replace(TRAJECTORY, prefix=())
    assert vocab.needs_prefix == (begin is None and delimiter is None)
    if vocab.needs_prefix:
        for ask in (blank.history, blank.loss_mask):
            with pytest.raises(VocabError, match="has no begin token"):
                ask(vocab)
    else:
        assert blank.history(vocab) == [i for i in seeding if i > 99] + [7, 100]


def test_a_prefix_may_hold_a_token_that_is_never_chosen() -> None:
    vocab = ActionVocab.build(10, never_insert=[3])
    trajectory = Sampler(vocab, Append()).sample([1], prefix=[3])
    history = trajectory.history(vocab)
    assert Canvas.replay(vocab, history).tokens() == [3, 1]
    assert trajectory.target(vocab) == [1]


def test_a_prefix_that_holds_no_tokens_has_no_history() -> None:
    vocab = ActionVocab.build(10)
    trajectory = Sampler(vocab, Append()).sample([1], prefix=[vocab.stop])
    with pytest.raises(VocabError, match=f"A prefix holds tokens; id {vocab.stop} is stop"):
        trajectory.history(vocab)


# -- refusals -------------------------------------------------------------------------------------


def test_a_budget_that_just_suffices_is_met() -> None:
    policy = Obfuscation(max_obfuscation_steps=5)
    trajectory = Sampler(PLAIN, policy).sample([2, 3, 4, 5, 6])
    assert trajectory.restoration == (2, 3, 4, 5, 6, PLAIN.stop)


def test_a_budget_that_no_walk_can_meet_is_refused() -> None:
    sampler = Sampler(PLAIN, Obfuscation(max_obfuscation_steps=4))
    with pytest.raises(TrajectoryError, match=r"No obfuscation of 5 tokens .* in 1000 tries"):
        sampler.batch([[1], [2, 3, 4, 5, 6], [7]], [0, 1, 2])


@pytest.mark.parametrize("token", [3, 12, 1.5, 99, *range(-12, 0)])
def test_a_token_that_cannot_be_inserted_is_refused_in_a_target(token: float) -> None:
    vocab = ActionVocab.build(10, never_insert=[3])
    with pytest.raises(TrajectoryError, match=f"A target holds {token}, which this vocabulary"):
        Sampler(vocab, Append()).batch([[1], [2, token]], [0, 1])


WORDS = Spans(unit="word")
SENTENCES = Mixture(policies=(Append(), Spans(unit="sentence")), weights=(1, 1))
SEVERAL = Mixture(policies=(WORDS, Spans(unit="sentence"), Spans(unit="token")), weights=(1, 1, 1))


@pytest.mark.parametrize(
    ("policy", "options", "message"),
    [
        (Append(), {"seed": -1}, "seed is -1, epoch 0; use 0 to"),
        (Append(), {"seed": 2**64}, f"seed is {2**64}"),
        (Append(), {"epoch": -1}, "epoch -1"),
        (Append(), {"epoch": 2**32}, f"epoch {2**32}"),
        (WORDS, {"units": np.ones(3, np.uint8)}, "differ in length: give one value per token"),
        (WORDS, {}, r"aligns to units \(word\): pass what codec.unit_starts"),
        (SENTENCES, {}, r"units \(sentence\)"),
        (SEVERAL, {}, r"units \(sentence, word\)"),
    ],
)
def test_what_would_not_be_reproducible_or_fit_is_refused(
    policy: Policy, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TrajectoryError, match=message):
        Sampler(PLAIN, policy).sample([1, 2], **options)


def test_a_batch_needs_one_index_per_target() -> None:
    with pytest.raises(TrajectoryError, match="2 targets and 1 indices"):
        Sampler(PLAIN, Append()).batch([[1], [2]], [0])


def test_a_sampler_needs_a_policy() -> None:
    with pytest.raises(ConfigError, match="The policy is 'paper'; give a value such as"):
        Sampler(PLAIN, "paper")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cursor", "walk", "error", "message"),
    [
        (1, [DELETE, Action(Kind.STOP)], TrajectoryError, "An obfuscation does not stop"),
        (1, [Action(Kind.INSERT, 5), DELETE], TrajectoryError, "leaves 1 tokens; it must end on"),
        (1, [DELETE, DELETE], InvalidAction, "Cannot apply delete: the cursor is at 0"),
        (2, [DELETE], InvalidAction, "Cursor 2 is outside"),
    ],
)
def test_a_recorded_walk_must_be_legal_and_end_on_a_blank_canvas(
    cursor: int, walk: list[Action], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Trajectory.from_obfuscation(RICH, [1], cursor, walk)


def test_a_recorded_walk_needs_the_operators_that_undo_it() -> None:
    vocab = ActionVocab.build(10, operators=["span_delete"])
    walk = [Action(Kind.INSERT, 5), Action(Kind.SPAN_DELETE, 2)]
    with pytest.raises(VocabError, match="This vocabulary has no action delete"):
        Trajectory.from_obfuscation(vocab, [1], 1, walk)
