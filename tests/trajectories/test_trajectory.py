"""Trajectories: they write their target, legally, and bear loss where there is something to learn.

Which actions bear loss, by the paper: temporary insertions, "later removed by restoration deletes",
do not. In a strict inverse a token that the obfuscation put in is brought back once and removed
once, and a token of the target is brought back once and stays. So an insert or a replace bears loss
if and only if the very token it writes is still there at the end; every other action bears loss.
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
from reviser.core.mask import Boundary
from reviser.core.trajectory import Trajectory
from reviser.errors import ConfigError, InvalidAction, TrajectoryError, VocabError
from reviser.trajectories.policy import PRESETS, Append, Mixture, Noise, Obfuscation, Policy, Spans
from reviser.trajectories.sampler import Sampler
from support import naive, naive_policy
from support.strategies import (
    SMALL_VOCABS,
    obfuscations,
    policies,
    random_action,
    random_targets,
    random_units,
    seeds,
)

PLAIN = ActionVocab.build(100)
RICH = ActionVocab.build(100, operators=OPERATORS, max_move=16)
LONGEST = 20


def whole_actions(vocab: ActionVocab, ids: tuple[int, ...]) -> list[tuple[naive.Action, list[int]]]:
    """The actions that a history spells, each with the places of its ids."""
    actions, pending = [], naive.State((), 0)
    places: list[int] = []
    for place, i in enumerate(ids):
        places.append(place)
        action = naive.meaning(vocab, (*pending.pending, i), pending.cursor)
        pending = naive.execute(vocab, pending, i)
        if action is not None:
            actions.append((action, places))
            places = []
    assert not places
    return actions


def unlearned_by_identity(vocab: ActionVocab, restoration: tuple[int, ...]) -> list[int]:
    """The places of the actions whose token is gone at the end, told apart from its equals."""
    canvas: tuple[Any, ...] = ()
    cursor = 0
    written: dict[object, list[int]] = {}
    for (name, *arguments), places in whole_actions(vocab, restoration):
        if name in ("insert", "replace"):
            arguments = [object()]
            written[arguments[0]] = places
        canvas, cursor = naive.EXECUTOR[name](canvas, cursor, *arguments)
    return [place for token, at in written.items() if token not in canvas for place in at]


def assert_legal_behind(vocab: ActionVocab, prefix: list[int], trajectory: Trajectory) -> None:
    """Every id of the restoration is allowed by a mask that locks the prefix."""
    rows = Boundary(vocab, 1)
    m = len(prefix)
    rows.reset(0, length=m, cursor=m, gaps=[(m, m)])
    for i in trajectory.restoration:
        assert rows.allowed()[0, i]
        rows.advance([i])
    assert rows.is_finished.all()


def assert_sound(
    vocab: ActionVocab, prefix: list[int], target: list[int], trajectory: Trajectory
) -> None:
    """All that is said of any trajectory."""
    assert trajectory.prefix == tuple(prefix)
    assert trajectory.target(vocab) == target
    assert trajectory.restoration.index(vocab.stop) == len(trajectory.restoration) - 1
    assert_legal_behind(vocab, prefix, trajectory)
    assert list(trajectory.no_loss) == unlearned_by_identity(vocab, trajectory.restoration)
    assert Trajectory.from_json(trajectory.to_json()) == trajectory
    if prefix or vocab.begin is not None or vocab.delimiter is not None:
        history = trajectory.history(vocab)
        assert Canvas.replay(vocab, history).tokens() == prefix + target
        seeding = len(history) - len(trajectory.restoration)
        learned = [n for n, is_learned in enumerate(trajectory.loss_mask(vocab)) if is_learned]
        no_loss = {seeding + n for n in trajectory.no_loss} | {*range(seeding)}
        assert learned == [n for n in range(len(history)) if n not in no_loss]


# -- sampled --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_restores_every_target(name: str) -> None:
    rng = Random(name)
    sampler = Sampler(RICH, PRESETS[name])
    for index, target in enumerate(random_targets(rng, RICH, 12, 40)):
        prefix = rng.choices(range(100), k=rng.randint(0, 5))
        marks = random_units(rng, target)
        trajectory = sampler.sample(target, prefix=prefix, index=index, units=marks)
        assert_sound(RICH, prefix, target, trajectory)


@given(policies(), st.sampled_from([*SMALL_VOCABS[:6], RICH]), seeds)
def test_any_policy_restores_any_target(policy: Policy, vocab: ActionVocab, seed: int) -> None:
    rng = Random(seed)
    prefix, target = random_targets(rng, vocab, 2, LONGEST)
    marks = random_units(rng, target)
    trajectory = Sampler(vocab, policy).sample(target, prefix=prefix, seed=seed, units=marks)
    assert_sound(vocab, prefix, target, trajectory)


@given(obfuscations(noisy=True), seeds)
def test_a_sampled_walk_is_the_strict_inverse_of_what_slow_python_recorded(
    policy: Obfuscation, seed: int
) -> None:
    # A noise span is put in by one step there and by several inserts as actions.
    policy = replace(policy, merge_moves=False, noise=replace(policy.noise, span_insert=0.0))
    (target,) = random_targets(Random(seed), RICH, 1, LONGEST)
    walk = naive_policy.obfuscate(policy, target, 16, naive_policy.Draws(seed, 0, 1))
    assert walk is not None
    actions = [Action(Kind[name.upper()], *arguments) for name, *arguments in walk.B]
    recorded = Trajectory.from_obfuscation(RICH, target, walk.start, actions)
    assert recorded == Sampler(RICH, policy).sample(target, seed=seed, index=1)
    # "Executing A from a blank canvas state reconstructs the target and the cursor position."
    assert Canvas.replay(RICH, recorded.restoration).cursor == walk.start


def test_appending_is_writing_from_left_to_right() -> None:
    trajectory = Sampler(PLAIN, Append()).sample([5, 6, 7], prefix=[1, 2], seed=9, index=4)
    assert trajectory == Trajectory(prefix=(1, 2), restoration=(5, 6, 7, PLAIN.stop))


def test_an_empty_target_is_restored_by_stop_alone() -> None:
    for name in PRESETS:
        trajectory = Sampler(RICH, PRESETS[name]).sample([], units=np.zeros(0, np.uint8))
        assert trajectory == Trajectory(restoration=(RICH.stop,))


def test_a_batch_may_be_empty() -> None:
    batch = Sampler(PLAIN, Obfuscation()).batch([], [])
    assert (len(batch), batch.ids.tolist(), batch.offsets.tolist()) == (0, [], [0])


def test_a_batch_gives_each_restoration_by_its_place() -> None:
    targets = [[1, 2, 3], [], [4, 5]]
    sampler = Sampler(RICH, PRESETS["repair"])
    batch = sampler.batch(targets, [7, 8, 9])
    for n, (target, index) in enumerate(zip(targets, [7, 8, 9], strict=True)):
        alone = sampler.sample(target, index=index)
        for place in (n, n - len(targets)):
            ids, learned = batch[place]
            assert tuple(ids.tolist()) == alone.restoration
            assert tuple(np.flatnonzero(~learned).tolist()) == alone.no_loss
    with pytest.raises(IndexError):
        batch[3]


def test_targets_may_be_arrays_of_any_integers() -> None:
    sampler = Sampler(PLAIN, Obfuscation())
    found = [sampler.sample(np.array([3, 1, 2], dtype)) for dtype in (np.uint16, np.int64)]
    assert found == [sampler.sample([3, 1, 2])] * 2


# -- from a recorded walk -------------------------------------------------------------------------


def as_action(action: naive.Action, u: int) -> Action:
    """An action of the paper as a value: places relative to the cursor."""
    name, *arguments = action
    kind = Kind[name.upper()]
    if kind is Kind.SPAN_MOVE:
        k, j = arguments
        return Action(kind, k, j - u if j >= u else j - (u - k))
    if kind is Kind.SPAN_COPY:
        k, j = arguments
        return Action(kind, k, j - u)
    return Action(kind, *arguments)


def random_walk(rng: Random, vocab: ActionVocab, canvas: Canvas, steps: int) -> list[Action]:
    """Any actions at all, then whatever empties the canvas."""
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


def test_a_span_is_moved_back_from_where_it_went() -> None:
    clear = [Action(Kind.SPAN_DELETE, 4)]
    to_the_right = [Action(Kind.SPAN_MOVE, 1, 2), Action(Kind.MOVE, 1), *clear]
    to_the_left = [Action(Kind.SPAN_MOVE, 1, -1), Action(Kind.MOVE, 2), *clear]
    nowhere = [Action(Kind.SPAN_MOVE, 2, 0), Action(Kind.MOVE, 2), *clear]
    for walk, cursor, expected in (
        (to_the_right, 1, ["move -1", "span_move 1 -2", "move -2"]),
        (to_the_left, 2, ["move -2", "move -1", "span_move 1 +1"]),
        (nowhere, 2, ["move -2", "span_move 2 +0"]),
    ):
        trajectory = Trajectory.from_obfuscation(RICH, [5, 6, 7, 8], cursor, walk)
        actions = [str(action) for action in RICH.read(trajectory.restoration)]
        assert [action for action in actions if not action.startswith("insert")] == [
            *expected,
            "stop",
        ]
        assert trajectory.no_loss == ()
        assert Canvas.replay(RICH, trajectory.restoration).cursor == cursor


def test_both_ids_of_a_replacement_by_noise_bear_no_loss() -> None:
    walk = [Action(Kind.REPLACE, 50), Action(Kind.REPLACE, 60), Action(Kind.DELETE)]
    trajectory = Trajectory.from_obfuscation(RICH, [7], 1, walk)
    replace_id = RICH.replace
    assert trajectory.restoration == (60, replace_id, 50, replace_id, 7, RICH.stop)
    assert trajectory.no_loss == (0, 1, 2)
    assert trajectory.loss_mask(RICH) == [False] * 2 + [False] * 3 + [True] * 3


# -- json -----------------------------------------------------------------------------------------


def test_json_is_one_line_and_leaves_out_what_is_empty() -> None:
    plain = Trajectory(prefix=(1,), restoration=(2, 3))
    assert plain.to_json() == '{"prefix": [1], "restoration": [2, 3]}'
    noisy = Trajectory(restoration=(2, 3), no_loss=(0,))
    assert noisy.to_json() == '{"prefix": [], "restoration": [2, 3], "unlearned": [0]}'
    assert [Trajectory.from_json(t.to_json()) for t in (plain, noisy)] == [plain, noisy]
    assert Trajectory.from_json('{"restoration": []}') == Trajectory(restoration=())


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ([1, 2], "A trajectory has ['prefix', 'restoration', 'unlearned']; got '[1, 2]'."),
        (
            {"prefix": [1]},
            "A trajectory has ['prefix', 'restoration', 'unlearned']; got '{\"prefix\": [1]}'.",
        ),
        (
            {"restoration": [], "rest": 0},
            "A trajectory has ['prefix', 'restoration', 'unlearned'];"
            ' got \'{"restoration": [], "rest": 0}\'.',
        ),
        ({"restoration": 5}, "'restoration' of a trajectory must be a list of ids."),
        ({"restoration": [5, "6"]}, "'restoration' of a trajectory must be a list of ids."),
        ({"restoration": [5.0]}, "'restoration' of a trajectory must be a list of ids."),
        ({"restoration": [True]}, "'restoration' of a trajectory must be a list of ids."),
        (
            {"restoration": [1], "prefix": [-1]},
            "'prefix' of a trajectory must be a list of ids.",
        ),
        (
            {"restoration": [1], "unlearned": None},
            "'unlearned' of a trajectory must be a list of ids.",
        ),
        (
            {"restoration": [1, 2], "unlearned": [0, 2]},
            "'unlearned' names a place beyond the restoration.",
        ),
    ],
)
def test_json_that_is_no_trajectory_is_refused(fields: object, sentence: str) -> None:
    with pytest.raises(TrajectoryError) as caught:
        Trajectory.from_json(json.dumps(fields))
    assert str(caught.value) == sentence


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(TrajectoryError, match="This is not JSON, so not a trajectory"):
        Trajectory.from_json("{")


def test_a_refusal_quotes_only_the_beginning_of_a_long_text() -> None:
    with pytest.raises(TrajectoryError) as caught:
        Trajectory.from_json(json.dumps(["x" * 5000]))
    assert len(str(caught.value)) < 200


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
    vocab = ActionVocab(
        tokens=100,
        size=110,
        max_move=2,
        first_move=105,
        stop=100,
        begin=begin,
        delimiter=delimiter,
    )
    assert vocab.prefix_actions([5, 6]) == seeding
    assert TRAJECTORY.history(vocab) == [*seeding, 7, 100]
    assert TRAJECTORY.loss_mask(vocab) == [False] * len(seeding) + [False, True]
    assert TRAJECTORY.target(vocab) == [7]
    blank = replace(TRAJECTORY, prefix=())
    assert vocab.needs_prefix == (begin is None and delimiter is None)
    if vocab.needs_prefix:
        for ask in (blank.history, blank.loss_mask):
            with pytest.raises(VocabError) as caught:
                ask(vocab)
            assert str(caught.value) == (
                "An empty prefix gives the model no input, and this vocabulary has no begin token."
                " Give a prefix of at least one token."
            )
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


def test_a_budget_that_no_walk_can_meet_is_refused() -> None:
    sampler = Sampler(PLAIN, Obfuscation(max_obfuscation_steps=4))
    with pytest.raises(TrajectoryError) as caught:
        sampler.batch([[1], [2, 3, 4, 5, 6], [7]], [0, 1, 2])
    assert str(caught.value) == (
        "No obfuscation of 5 tokens within max_obfuscation_steps was found in 1000 tries. Raise"
        " it, or leave it out."
    )


def test_a_budget_that_just_suffices_is_met() -> None:
    policy = Obfuscation(max_obfuscation_steps=5)
    trajectory = Sampler(PLAIN, policy).sample([2, 3, 4, 5, 6])
    assert trajectory.restoration == (2, 3, 4, 5, 6, PLAIN.stop)


@pytest.mark.parametrize("token", [3, 12, -1, 1.5, 99])
def test_a_token_that_cannot_be_inserted_is_refused_in_a_target(token: float) -> None:
    vocab = ActionVocab.build(10, never_insert=[3])
    with pytest.raises(TrajectoryError) as caught:
        Sampler(vocab, Append()).batch([[1], [2, token]], [0, 1])
    assert str(caught.value) == f"A target holds {token}, which this vocabulary cannot insert."


def test_a_negative_id_does_not_count_from_the_end() -> None:
    for token in range(-PLAIN.size, 0):
        with pytest.raises(TrajectoryError):
            Sampler(PLAIN, Append()).sample([token])


@pytest.mark.parametrize(("seed", "epoch"), [(-1, 0), (2**64, 0), (0, -1), (0, 2**32)])
def test_a_seed_or_epoch_that_would_wrap_around_is_refused(seed: int, epoch: int) -> None:
    with pytest.raises(TrajectoryError) as caught:
        Sampler(PLAIN, Append()).sample([1], seed=seed, epoch=epoch)
    assert str(caught.value) == f"seed {seed} or epoch {epoch} is negative or too large."


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        Sampler(PLAIN, "paper")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "The policy is 'paper'; give a value such as Obfuscation() or PRESETS['paper']."
    )


def test_an_obfuscation_that_stops_is_refused() -> None:
    walk = [Action(Kind.DELETE), Action(Kind.STOP)]
    with pytest.raises(TrajectoryError, match="An obfuscation does not stop"):
        Trajectory.from_obfuscation(ActionVocab.build(9, operators=OPERATORS), [1], 1, walk)


def test_a_batch_of_uneven_parts_is_refused() -> None:
    sampler = Sampler(PLAIN, Spans(unit="word"))
    with pytest.raises(TrajectoryError, match="2 targets need as many indices: 1"):
        sampler.batch([[1], [2]], [0])
    with pytest.raises(TrajectoryError, match="differ in length: give one mark per token"):
        sampler.sample([1, 2, 3], units=np.ones(2, np.uint8))


@pytest.mark.parametrize(
    ("policy", "units"),
    [
        (Spans(unit="word"), "word"),
        (Mixture(policies=(Append(), Spans(unit="sentence")), weights=(1, 1)), "sentence"),
        (
            Mixture(
                policies=(Spans(unit="word"), Spans(unit="sentence"), Spans(unit="token")),
                weights=(1, 1, 1),
            ),
            "sentence, word",
        ),
    ],
)
def test_aligning_to_units_needs_them(policy: Policy, units: str) -> None:
    with pytest.raises(TrajectoryError) as caught:
        Sampler(PLAIN, policy).sample([1, 2])
    assert str(caught.value) == (
        f"This policy aligns to units ({units}): pass units, the marks that"
        " codec.unit_starts(target) gives."
    )


def test_aligning_to_tokens_needs_no_units() -> None:
    trajectory = Sampler(PLAIN, Spans(mean=1, unit="token")).sample([1, 2, 3])
    assert trajectory.target(PLAIN) == [1, 2, 3]


def test_a_policy_whose_operators_are_missing_is_refused() -> None:
    vocab = ActionVocab.build(10, operators=["swap"])
    policy = Obfuscation(delete=0.6, noise=Noise(insert=0.1, swap=0.1, span_move=0.05))
    with pytest.raises(VocabError) as caught:
        Sampler(vocab, policy)
    assert str(caught.value) == (
        "This policy's restorations need delete, span_move, which the vocabulary lacks. Build it"
        " with those operators, or take the noise out of the policy."
    )


def test_a_recorded_walk_must_end_on_a_blank_canvas() -> None:
    with pytest.raises(TrajectoryError) as caught:
        Trajectory.from_obfuscation(RICH, [1, 2, 3], 3, [Action(Kind.DELETE)])
    assert str(caught.value) == "The obfuscation leaves 2 tokens; it must end on a blank canvas."


def test_a_recorded_walk_must_be_legal() -> None:
    walk = [Action(Kind.DELETE), Action(Kind.DELETE)]
    with pytest.raises(InvalidAction, match="Cannot apply delete: the cursor is at 0"):
        Trajectory.from_obfuscation(RICH, [1], 1, walk)
    with pytest.raises(InvalidAction, match="Cursor 2 is outside"):
        Trajectory.from_obfuscation(RICH, [1], 2, walk)


def test_a_recorded_walk_needs_the_operators_that_undo_it() -> None:
    vocab = ActionVocab.build(10, operators=["span_delete"])
    with pytest.raises(VocabError) as caught:
        Trajectory.from_obfuscation(
            vocab, [1], 1, [Action(Kind.INSERT, 5), Action(Kind.SPAN_DELETE, 2)]
        )
    assert str(caught.value) == "This vocabulary has no action delete."
