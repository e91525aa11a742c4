"""Hops: moves that count landings. Canvas, mask and sampler against a few lines of arithmetic."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from reviser.core.actions import OPERATORS, Action, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.codec import UNITS, Codec
from reviser.core.mask import Boundary, expand, trace
from reviser.core.order_tax import policy_cost
from reviser.core.policy import Spans
from reviser.core.trajectory import Sampler, Trajectory
from reviser.errors import ConfigError, InvalidAction, VocabError
from small_tokenizers import byte_level, few_tokens
from strategies import pick, random_layout, seeds

LANDINGS = (3, 7)
TOKENS = 9
ALL = ActionVocab.build(
    TOKENS, operators=OPERATORS, max_move=4, max_hop=4, landings=LANDINGS, reserved=1
)
PLAIN = ActionVocab.build(TOKENS, max_hop=2, landings=LANDINGS)
STEPS = 40


def landings(tokens: list[int]) -> list[int]:
    """Every place that a hop may lead to."""
    behind = {n for n, token in enumerate(tokens, start=1) if token in LANDINGS}
    return sorted(behind | {0, len(tokens)})


def goal(tokens: list[int], cursor: int, hop: int) -> int | None:
    """Where a hop leads, if anywhere."""
    left = [place for place in landings(tokens) if place < cursor]
    right = [place for place in landings(tokens) if place > cursor]
    ways = right if hop > 0 else left[::-1]
    return ways[abs(hop) - 1] if abs(hop) <= len(ways) else None


def random_tokens(rng: Random, longest: int) -> list[int]:
    return rng.choices(range(TOKENS), k=rng.randint(0, longest))


# -- the vocabulary -------------------------------------------------------------------------------


def test_hops_lie_behind_the_other_controls_and_survive_saving() -> None:
    names = list(PLAIN.control_tokens)
    assert names[-4:] == ["<|hop+1|>", "<|hop-1|>", "<|hop+2|>", "<|hop-2|>"]
    assert [PLAIN.describe(PLAIN.hop_id(hop)) for hop in PLAIN.hops] == [
        "hop +1", "hop -1", "hop +2", "hop -2",
    ]  # fmt: skip
    assert ActionVocab.from_json(PLAIN.to_json()) == PLAIN
    assert "hop" not in ActionVocab.build(TOKENS).to_json()
    assert ActionVocab.build(TOKENS).hops == ()
    ids = [PLAIN.spell(action)[0] for action in (Action(Kind.HOP, -2), Action(Kind.HOP, 1))]
    assert [str(action) for action in PLAIN.read(ids)] == ["hop -2", "hop +1"]
    moves = {i for i in range(PLAIN.size) if PLAIN.kind(i) in (Kind.MOVE, Kind.HOP)}
    assert {*np.flatnonzero(PLAIN.is_move).tolist()} == moves


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_hop": 3}, "max_hop is 3"),
        ({"max_hop": -1}, "max_hop is -1"),
        ({"max_hop": 0}, "both first_hop and max_hop"),
        ({"first_hop": None}, "both first_hop and max_hop"),
        ({"landings": (9,)}, "landings must name tokens"),
        ({"first_hop": PLAIN.stop}, "share one id"),
        ({"first_hop": None, "max_hop": 0}, "Landings are for hops"),
    ],
)
def test_hops_that_make_no_sense_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(VocabError, match=message):
        ActionVocab(**{**vars_of(PLAIN), **change})


def vars_of(vocab: ActionVocab) -> dict[str, object]:
    names = ("tokens", "size", "max_move", "first_move", "stop", "begin", "delimiter")
    return {name: getattr(vocab, name) for name in (*names, "first_hop", "max_hop", "landings")}


@pytest.mark.parametrize("hop", [0, 3, 4, -8])
def test_a_hop_that_is_not_there_is_refused(hop: int) -> None:
    with pytest.raises(VocabError, match=f"Hop {hop} is not in this vocabulary"):
        PLAIN.hop_id(hop)
    with pytest.raises(VocabError, match="not in this vocabulary"):
        ActionVocab.build(3).spell(Action(Kind.HOP, 1))


def test_from_a_tokenizer_hops_land_behind_what_ends_a_sentence() -> None:
    tokenizer = byte_level()
    codec = Codec(tokenizer)
    vocab = ActionVocab.from_tokenizer(tokenizer, max_hop=2)
    tokens = codec.encode('He said "no." Then? She left! so.on')
    marks = codec.unit_starts(tokens) & UNITS["sentence"]
    assert [n for n, i in enumerate(tokens, 1) if vocab.is_landing[i]] == [
        n for n in range(1, len(tokens) + 1) if n == len(tokens) or marks[n]
    ][:-1]
    assert vocab.landings == codec.sentence_ends
    assert not ActionVocab.from_tokenizer(byte_level()).landings
    chosen = ActionVocab.from_tokenizer(byte_level(), max_hop=2, landings=[5, 4])
    assert chosen.landings == (4, 5)
    with pytest.raises(VocabError, match="No token of this tokenizer ends a sentence"):
        ActionVocab.from_tokenizer(few_tokens(), max_hop=2)


# -- the canvas -----------------------------------------------------------------------------------


@given(seeds)
def test_the_canvas_hops_as_counting_says_whatever_was_done_or_taken_back(seed: int) -> None:
    rng = Random(seed)
    canvas = Canvas(ALL, random_tokens(rng, 12))
    for _ in range(STEPS):
        tokens, cursor = canvas.tokens(), canvas.cursor
        for hop in () if canvas.is_spelling or canvas.is_finished else ALL.hops:
            expected = goal(tokens, cursor, hop)
            twin = canvas.fork()
            if expected is None:
                with pytest.raises(InvalidAction, match="places to land"):
                    twin.apply(ALL.hop_id(hop))
            else:
                assert twin.apply(ALL.hop_id(hop)).cursor == twin.cursor == expected
            assert twin.tokens() == tokens
        assert (canvas.tokens(), canvas.cursor) == (tokens, cursor)
        applied = 0
        for _ in range(3):
            try:
                canvas.apply(rng.choice([rng.randrange(TOKENS), *ALL.controls.tolist()]))
                applied += 1
            except InvalidAction:
                continue
        if canvas.is_finished or rng.random() < 0.2:
            canvas.rollback(applied)


@given(seeds)
def test_the_nearest_goals_are_the_first_of_all(seed: int) -> None:
    rng = Random(seed)
    tokens = random_tokens(rng, 30)
    canvas = Canvas(ALL, tokens, rng.randint(0, len(tokens)))
    for side in (-1, 1):
        every = [goal(tokens, canvas.cursor, side * n) for n in range(1, len(tokens) + 3)]
        expected = [place for place in every if place is not None]
        assert canvas.hop_goals(side) == expected
        for most in (0, 1, 2, 5):
            assert canvas.hop_goals(side, most) == expected[:most]


def test_a_hop_is_an_action_that_happens_or_not_and_can_be_taken_back() -> None:
    canvas = Canvas(PLAIN, [1, 3, 2, 7, 4])
    assert [edit.cursor for edit in canvas.act(Action(Kind.HOP, -2))] == [2]
    with pytest.raises(InvalidAction, match="1 places to land"):
        canvas.act(Action(Kind.HOP, -2))
    assert canvas.rollback()[0].cursor == canvas.cursor == 5


def test_a_recorded_walk_may_hop() -> None:
    vocab = ActionVocab.build(TOKENS, operators=["delete"], max_hop=2, landings=LANDINGS)
    target = [1, 3, 2, 7]
    walk = [Action(Kind.HOP, -1), *[Action(Kind.DELETE)] * 2]
    walk += [Action(Kind.HOP, 1), *[Action(Kind.DELETE)] * 2]
    made = Trajectory.from_obfuscation(vocab, target, 4, walk)
    assert made.target(vocab) == target


# -- the mask -------------------------------------------------------------------------------------


def allowed(rows: Boundary) -> list[set[int]]:
    return [{*np.flatnonzero(row).tolist()} for row in expand(rows.vocab, rows.fill_mask())]


@given(seeds)
def test_the_mask_allows_the_hops_that_stay_between_the_gaps(seed: int) -> None:
    rng = Random(seed)
    rows, canvases, layouts = Boundary(ALL, 3), [], []
    for n in range(3):
        layout = random_layout(rng, 14)
        tokens = rng.choices(range(TOKENS), k=layout.length)
        rows.reset(n, tokens=tokens, **layout._asdict())
        canvases.append(Canvas(ALL, tokens, layout.cursor))
        layouts.append(layout)
    in_a_row, edits = [0] * 3, [0] * 3
    for _ in range(STEPS):
        masks = allowed(rows)
        for n, (canvas, layout) in enumerate(zip(canvases, layouts, strict=True)):
            gaps = rows.gaps(n)
            may = bool(gaps) and not canvas.is_spelling and not canvas.is_finished
            may &= layout.max_edits is None or edits[n] < layout.max_edits
            may &= layout.max_moves is None or in_a_row[n] < layout.max_moves
            goals = {hop: goal(canvas.tokens(), canvas.cursor, hop) for hop in ALL.hops}
            expected = {
                hop
                for hop, place in goals.items()
                if may and place is not None and gaps[0][0] <= place <= gaps[-1][1]
            }
            assert {hop for hop in ALL.hops if ALL.hop_id(hop) in masks[n]} == expected
        ids = [pick(rng, ALL, mask) for mask in masks]
        for n, (canvas, i) in enumerate(zip(canvases, ids, strict=True)):
            if not canvas.is_finished:
                moves = bool(ALL.is_move[i]) and not canvas.is_spelling
                in_a_row[n] = in_a_row[n] + 1 if moves else 0
                edits[n] += canvas.apply(i).changes_text
        if rng.random() < 0.3:  # by way of a fork
            twin = rows.fork([2, 0, 1])
            twin.advance([ids[2], ids[0], ids[1]])
            rows.put([2, 0, 1], twin)
        elif rng.random() < 0.3:
            rows.replay(1, [ids[1]])
            rows.advance([ids[2], ids[0]], [2, 0])
        else:
            rows.advance(ids)
        assert rows.cursor.tolist() == [canvas.cursor for canvas in canvases]
        assert rows.length.tolist() == [len(canvas) for canvas in canvases]


def test_an_id_that_a_canvas_refuses_changes_no_row() -> None:
    rows = Boundary(PLAIN, 2)
    rows.reset(0, tokens=[3, 1])
    before = allowed(rows)
    with pytest.raises(InvalidAction, match="places to land"):
        rows.advance([5, PLAIN.hop_id(1)])
    assert allowed(rows) == before
    assert rows.cursor.tolist() == [2, 0]
    rows.advance([PLAIN.hop_id(-1), 5])
    assert rows.cursor.tolist() == [1, 1]


def test_a_row_with_hops_wants_the_tokens() -> None:
    for vocab, tokens in ((PLAIN, None), (PLAIN, [1]), (ActionVocab.build(3), [1])):
        with pytest.raises(ConfigError, match="length 2, but"):
            Boundary(vocab, 1).reset(0, length=2, tokens=tokens)
    with pytest.raises(ValueError, match="zip"):
        Boundary(PLAIN, 3).put([0, 1], Boundary(PLAIN, 1))
    assert Boundary(PLAIN, 1).needs_text
    assert not Boundary(ActionVocab.build(3), 1).needs_text


@given(seeds)
def test_the_trace_of_a_history_with_hops_is_the_canvas(seed: int) -> None:
    rng = Random(seed)
    rows, canvas = Boundary(ALL, 1), Canvas(ALL)
    history, states = [], []
    for _ in range(STEPS):
        (mask,) = allowed(rows)
        history.append(pick(rng, ALL, mask - {ALL.stop} or mask))
        rows.advance(history[-1:])
        canvas.apply(history[-1])
        states.append((len(canvas), canvas.cursor))
    padding = [ALL.stop, ALL.begin, ALL.delimiter, ALL.size - 1]
    ended = (
        [*history[: STEPS - 4], *padding]
        if not Canvas.replay(ALL, history[: STEPS - 4]).is_spelling
        else history
    )
    lengths, cursors = trace(ALL, np.array([history, ended]))
    assert list(zip(lengths[0].tolist(), cursors[0].tolist(), strict=True)) == states
    if ended is not history:
        assert list(zip(lengths[1].tolist(), cursors[1].tolist(), strict=True)) == [
            *states[: STEPS - 4], *[states[STEPS - 5]] * 4,
        ]  # fmt: skip


# -- the sampler ----------------------------------------------------------------------------------


@given(
    seeds,
    st.builds(
        Spans,
        mean=st.floats(1, 8),
        unit=st.sampled_from(["token", "sentence"]),
        late=st.none() | st.integers(0, 3),
    ),
    st.sampled_from([1, 2, 16]),
)
def test_trajectories_hop_from_landing_to_landing_and_write_the_same(
    seed: int, policy: Spans, max_hop: int
) -> None:
    rng = Random(seed)
    vocab = ActionVocab.build(TOKENS, max_hop=max_hop, landings=LANDINGS)
    target, prefix = [1, *random_tokens(rng, 40)], random_tokens(rng, 3)
    marks = np.array(
        [
            UNITS["token"] | (UNITS["sentence"] if n == 0 or target[n - 1] in LANDINGS else 0)
            for n in range(len(target))
        ],
        np.uint8,
    )
    with_hops = Sampler(vocab, policy).sample(target, prefix=prefix, seed=seed, units=marks)
    without = Sampler(ActionVocab.build(TOKENS), policy).sample(target, seed=seed, units=marks)
    chains, expected = chains_of(vocab, prefix, with_hops.restoration), []
    for start, end, length, _ in chains_of(ActionVocab.build(TOKENS), prefix, without.restoration):
        expected.append((start, end, length))
    assert [chain[:3] for chain in chains] == expected
    assert with_hops.target(vocab) == target
    for start, end, tokens, ids in chains:
        inner = [p for p in landings(tokens) if p > len(prefix) or p == len(tokens)]
        if start in inner and end in inner:
            counts = naive.move_counts(inner.index(start), len(inner) - 1, max_hop)
            assert len(ids) == counts[inner.index(end)]
            assert all(vocab.kind(i) is Kind.HOP for i in ids)
        else:
            assert all(vocab.kind(i) is Kind.MOVE for i in ids)


def chains_of(
    vocab: ActionVocab, prefix: list[int], restoration: tuple[int, ...]
) -> list[tuple[int, int, list[int], list[int]]]:
    """Of each chain of moves: where it starts and ends, on which tokens, and its ids."""
    canvas, chains = Canvas(vocab, prefix), []
    for i in restoration:
        start = canvas.cursor
        canvas.apply(i)
        if vocab.is_move[i]:
            if not chains or chains[-1][2] != canvas.tokens():
                chains.append((start, canvas.cursor, canvas.tokens(), [i]))
            else:
                first, _, tokens, ids = chains[-1]
                chains[-1] = first, canvas.cursor, tokens, [*ids, i]
    return chains


def test_the_cost_of_a_policy_counts_hops_as_moves() -> None:
    target = np.array([1, 2, 3] * 12, np.int32)
    marks = np.array([1 + 4 * (n % 3 == 0) for n in range(len(target))], np.uint8)
    costs = [
        policy_cost(
            Spans(mean=3, unit="sentence", late=1),
            [target] * 50,
            vocab=vocab,
            units=[marks] * 50,
        )
        for vocab in (
            ActionVocab.build(TOKENS),
            ActionVocab.build(TOKENS, max_hop=16, landings=LANDINGS),
        )
    ]
    assert costs[0].order_tax == costs[1].order_tax
    assert 0 < costs[1].move_fraction.value < costs[0].move_fraction.value
    moves = costs[1].actions_per_token.value - 1  # for each token
    assert costs[1].move_fraction.value == pytest.approx(moves / (1 + moves), rel=0.05)


@given(seeds)
def test_the_way_to_a_place_gets_there_and_hops_between_landings(seed: int) -> None:
    rng = Random(seed)
    tokens = random_tokens(rng, 30)
    start, end = (rng.choice([rng.randint(0, len(tokens)), *landings(tokens)]) for _ in range(2))
    for vocab in (ALL, ActionVocab.build(TOKENS, max_move=4)):
        canvas = Canvas(vocab, tokens, start)
        ids = canvas.way(end)
        for i in ids:
            canvas.apply(i)
        assert canvas.cursor == end
        both = vocab is ALL and start in landings(tokens) and end in landings(tokens)
        assert {vocab.kind(i) for i in ids} <= {Kind.HOP if both else Kind.MOVE}
        places = landings(tokens) if both else list(range(len(tokens) + 1))
        counts = naive.move_counts(places.index(start), len(places) - 1, 4)
        assert len(ids) == counts[places.index(end)]
    with pytest.raises(VocabError, match="Cannot hop 3 with 1 landings before and 2 behind"):
        ALL.split_hop(3, before=1, behind=2)
